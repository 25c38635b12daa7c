"""The law: what may happen (`decide`), and what it changes (`evolve`). Pure: chance is in the commands."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import reduce
from typing import assert_never

from msgspec.structs import replace

from domain.board import CHECKERS, OFF, Board, Color, Play
from domain.breach import Breach, RuleError
from domain.commands import (
    Accept,
    Cancel,
    Claim,
    Command,
    Commit,
    Create,
    Double,
    Join,
    Move,
    Refuse,
    Resign,
    Resume,
    Roll,
    TimeOut,
)
from domain.events import (
    RULES,
    Accepted,
    Cancelled,
    Claimed,
    Committed,
    Created,
    Doubled,
    Event,
    Joined,
    Moved,
    Refused,
    Resigned,
    Resumed,
    Rolled,
    Settings,
    Stake,
    TimedOut,
    Visibility,
)
from domain.fairness import LINKS, LONGEST_ENTROPY, dice_from, follows, is_entropy
from domain.match import (
    MULTIPLIER,
    SECOND,
    CalledOff,
    Clocks,
    Crawford,
    Cube,
    End,
    LastPlay,
    Match,
    OnRoll,
    Opening,
    Over,
    Result,
    ToAnswer,
    ToPlay,
    Waiting,
)
from domain.plays import has_play, judge
from domain.position import parse_position, phase_of

LONGEST_MATCH = 99
HIGHEST_CUBE = 1024
LONGEST_SCRIPT = 1000
LONGEST_RESERVE = 24 * 3600
LONGEST_DELAY = 30 * 24 * 3600


class Action(StrEnum):
    """What a person can do at a match, by the verb of its mutation."""

    JOIN = "join"
    ROLL = "roll"
    MOVE = "move"
    DOUBLE = "double"
    ACCEPT = "accept"
    REFUSE = "refuse"
    RESIGN = "resign"
    REMATCH = "rematch"
    CANCEL = "cancel"
    DECLINE = "decline"


def decide(match: Match | None, command: Command, at: int = 0) -> tuple[Event, ...]:
    """The events that `command` brings about at `match` (None: none yet), at that time (microseconds since 1970, UTC).

    Raises RuleError, and nothing has happened. A roll that cannot be played is followed by its dance.
    """
    if isinstance(command, Create):
        return _create(match, command)
    if match is None:
        raise RuleError(Breach.MATCH_NOT_FOUND, "there is no such match")
    if match.deadline is not None and at >= match.deadline and not isinstance(command, TimeOut | Resume):
        raise RuleError(Breach.TIME_IS_UP, f"{match.to_act}'s time has run out")
    match command:
        case Join():
            event: Event = _join(match, command)
        case Commit(commitment=commitment):
            event = _commit(match, commitment)
        case Roll():
            event = _roll(match, command)
        case Move(by=by, play=play):
            _require_turn(match, by)
            if not isinstance(match.phase, ToPlay):
                raise RuleError(Breach.ROLL_FIRST, "roll the dice before you move")
            event = Moved(by=by, play=judge(match.board, by, match.phase.dice, play))
        case Double(by=by):
            event = _double(match, by)
        case Accept(by=by):
            _require_offer(match, by)
            event = Accepted(by=by)
        case Refuse(by=by):
            _require_offer(match, by)
            event = Refused(by=by)
        case Resign(by=by, stake=stake):
            event = _resign(match, by, stake)
        case TimeOut(by=by):
            event = _time_out(match, by, at)
        case Resume(lost=lost):
            event = _resume(match, lost, at)
        case Claim(by=by, absent=absent):
            _require_absence(match, by)
            event = Claimed(by=by, absent=absent)
        case Cancel(by=by, absent=absent):
            event = _cancel(match, by, absent)
        case _:
            assert_never(command)
    if isinstance(event, Rolled | Joined):
        after = evolve(match, event)
        phase = after.phase
        if isinstance(phase, ToPlay) and not has_play(after.board, phase.color, phase.dice):
            return event, Moved(by=phase.color, play=())
    return (event,)


def _create(match: Match | None, command: Create) -> tuple[Event, ...]:
    if match is not None:
        raise RuleError(Breach.INVALID_SETTINGS, "this match has been created already")
    settings = _checked(command.settings)
    return (
        Created(
            match=command.match,
            settings=settings,
            color=command.color,
            rules=RULES,
            rematch_of=command.rematch_of,
            commitment=command.commitment,
            imported=command.imported,
            invited=_invited(command),
            series=command.series,
        ),
        Joined(color=command.color, player=command.player, entropy=_entropy(command.entropy), app=command.app),
    )


def _invited(command: Create) -> str | None:
    if command.invited is not None and command.settings.visibility is not Visibility.PRIVATE:
        raise RuleError(Breach.INVALID_SETTINGS, "only a private match is for one opponent")
    if command.invited is not None and command.invited == command.player:
        raise RuleError(Breach.ALREADY_SEATED, "you cannot invite yourself")
    return command.invited


def _checked(settings: Settings) -> Settings:
    """The settings, if they can be played; RuleError INVALID_SETTINGS or INVALID_POSITION if not."""
    length, limit, doubles = settings.length, settings.cube_limit, settings.automatic_doubles
    wrong: list[str] = []
    if length is not None and not 1 <= length <= LONGEST_MATCH:
        wrong.append(f"length is {length}; a match is won at 1 to {LONGEST_MATCH} points, null is a money game")
    if not 1 <= limit <= HIGHEST_CUBE or limit & limit - 1:
        wrong.append(f"cubeLimit is {limit}; it is a power of two from 1 (no cube) to {HIGHEST_CUBE}")
    if not 0 <= doubles <= 10:
        wrong.append(f"automaticDoubles is {doubles}; 0 to 10 can be")
    if length is not None and settings.jacoby:
        wrong.append("jacoby is for money games (length null)")
    if length is not None and doubles:
        wrong.append("automaticDoubles are for money games (length null)")
    if settings.rated and (length is None or settings.sandbox):
        wrong.append("rated is for matches with a length, and not for sandboxes")
    if clock := settings.clock:
        if not 0 <= clock.reserve <= LONGEST_RESERVE:
            wrong.append(f"the clock's reserve is {clock.reserve}; it is 0 to {LONGEST_RESERVE} seconds")
        if not 0 <= clock.delay <= LONGEST_DELAY:
            wrong.append(f"the clock's delay is {clock.delay}; it is 0 to {LONGEST_DELAY} seconds, which is 30 days")
        if not clock.reserve and not clock.delay:
            wrong.append("the clock has neither a reserve nor a delay: a match without a clock has none (null)")
    if sandbox := settings.sandbox:
        if len(sandbox.dice) > LONGEST_SCRIPT:
            wrong.append(f"sandbox.dice has {len(sandbox.dice)} rolls; at most {LONGEST_SCRIPT} can be")
        for dice in sandbox.dice:
            if not all(1 <= die <= 6 for die in dice):
                wrong.append(f"sandbox.dice has {list(dice)}; each die is 1 to 6")
                break
        if sandbox.start is not None:
            start = parse_position(sandbox.start)
            for name, got, said in (
                ("length", length, start.length),
                ("cubeLimit", limit, start.cube_limit),
                ("jacoby", settings.jacoby, start.jacoby),
            ):
                if got != said:
                    wrong.append(f"{name} is {got}, and the start position says {said}")
            if start.crawford and not settings.crawford:
                wrong.append("crawford is false, and the start position is in a Crawford game")
    if wrong:
        raise RuleError(Breach.INVALID_SETTINGS, "; ".join(wrong))
    return settings


def _entropy(text: str) -> str:
    if is_entropy(text):
        return text
    raise RuleError(
        Breach.INVALID_ENTROPY, f"entropy is at most {LONGEST_ENTROPY} printable ASCII characters; got {len(text)}"
    )


def _join(match: Match, command: Join) -> Joined:
    if isinstance(match.phase, CalledOff):
        raise RuleError(Breach.MATCH_CANCELLED, "the match was cancelled")
    if match.seat_of(command.player):
        raise RuleError(Breach.ALREADY_SEATED, "you sit at this match already")
    for color in (match.first_seat, match.first_seat.opponent):
        if match.player(color) is None:
            seated = match.player(color.opponent) is not None
            if seated and match.invited not in (None, command.player):
                raise RuleError(Breach.NOT_INVITED, "this match is for somebody else")
            if seated and match.settings.rated and command.app != match.apps[color is Color.WHITE]:
                raise RuleError(Breach.OTHER_APP, "a rated match is between players of the same app")
            return Joined(color=color, player=command.player, entropy=_entropy(command.entropy), app=command.app)
    raise RuleError(Breach.SEATS_TAKEN, "both seats of this match are taken")


def _require_started(match: Match) -> None:
    if isinstance(match.phase, Over):
        raise RuleError(Breach.MATCH_OVER, f"the match is over: {match.phase.winner} has won it")
    if isinstance(match.phase, CalledOff):
        raise RuleError(Breach.MATCH_CANCELLED, "the match was cancelled")
    if isinstance(match.phase, Opening):
        raise RuleError(Breach.NOT_STARTED, "the table is about to make the opening roll")
    if isinstance(match.phase, Waiting):
        raise RuleError(Breach.NOT_STARTED, "the match begins when both seats are taken")


def _require_turn(match: Match, by: Color) -> None:
    """It is for `by` to roll, double or move, and no offer is open."""
    _require_started(match)
    if isinstance(match.phase, ToAnswer) and match.phase.color is by:
        offer = "double" if match.phase.stake is None else "resignation"
        raise RuleError(Breach.ANSWER_FIRST, f"accept or refuse {by.opponent}'s {offer} first")
    if isinstance(match.phase, ToAnswer):
        raise RuleError(Breach.NOT_YOUR_TURN, f"your offer waits for {by.opponent}'s answer")
    if match.turn is not by:
        raise RuleError(Breach.NOT_YOUR_TURN, f"it is {by.opponent}'s turn")


def _require_offer(match: Match, by: Color) -> None:
    _require_started(match)
    if not isinstance(match.phase, ToAnswer):
        raise RuleError(Breach.NOTHING_TO_ANSWER, "no double or resignation is open")
    if match.phase.color is not by:
        raise RuleError(Breach.NOT_YOUR_TURN, f"it is for {by.opponent} to answer")


def _commit(match: Match, commitment: str) -> Committed:
    if match.last_link is None or match.links_used < LINKS:
        raise RuleError(Breach.UNPROVEN_DICE, "a new chain is committed to when the one before is used up, not earlier")
    return Committed(commitment=commitment)


def _roll(match: Match, command: Roll) -> Rolled:
    by, dice, link, entropy = command.by, command.dice, command.link, _entropy(command.entropy)
    if by is None and isinstance(match.phase, Opening):
        winner = None if dice.is_double else Color.WHITE if dice.first > dice.second else Color.BLACK
        return Rolled(by=winner, dice=dice, opening=True, link=link, entropy=entropy)
    if by is None:
        raise RuleError(Breach.NOT_YOUR_TURN, "the table rolls only to open a game")
    _require_turn(match, by)
    if isinstance(match.phase, ToPlay):
        raise RuleError(Breach.ALREADY_ROLLED, "you have rolled: play the roll")
    return Rolled(by=by, dice=dice, link=link, entropy=entropy)


def doubling_breach(match: Match, by: Color) -> tuple[Breach, str] | None:
    """Why `by`, being on roll, may not double; None if it may."""
    limit, cube = match.settings.cube_limit, match.cube
    if limit == 1:
        return Breach.NO_CUBE, "this match is played without a cube"
    if match.crawford is Crawford.NOW:
        return Breach.CRAWFORD_GAME, "nobody may double in the Crawford game"
    if cube.owner is by.opponent:
        return Breach.CUBE_NOT_YOURS, f"{by.opponent} owns the cube"
    if cube.value >= limit:
        return Breach.CUBE_AT_LIMIT, f"the cube is at its limit of {limit}"
    return None


def _double(match: Match, by: Color) -> Doubled:
    _require_turn(match, by)
    if isinstance(match.phase, ToPlay):
        raise RuleError(Breach.ALREADY_ROLLED, "you may double only before you roll")
    if breach := doubling_breach(match, by):
        raise RuleError(*breach)
    return Doubled(by=by)


def _resign(match: Match, by: Color, stake: Stake) -> Resigned:
    _require_started(match)
    if stake is not Stake.MATCH:
        if isinstance(match.phase, ToAnswer):
            offer = "double" if match.phase.stake is None else "resignation"
            raise RuleError(Breach.ANSWER_FIRST, f"a {offer} is open: it must be answered first")
        if (by, stake) in match.refused_stakes:
            raise RuleError(
                Breach.STAKE_REFUSED_BEFORE,
                f"a {stake} was refused in this position; offer it again when the position has changed",
            )
    return Resigned(by=by, stake=stake)


def _time_out(match: Match, by: Color, at: int) -> TimedOut:
    """RULES.md section 5: a player without time loses the match, once that is noticed."""
    deadline = match.deadline
    if deadline is None or match.to_act is not by or at < deadline:
        raise RuleError(Breach.TIME_IS_LEFT, f"{by}'s time has not run out")
    return TimedOut(by=by)


def _resume(match: Match, lost: int, at: int) -> Resumed:
    if match.clocks is None or match.deadline is None or not 0 < lost <= at - match.clocks.since:
        raise RuleError(Breach.CLOCK_RUNS, "an outage gives back no more than the clock has taken")
    return Resumed(lost=lost)


def _require_absence(match: Match, by: Color) -> None:
    """The match may be ended by `by` because the opponent, who must act, stays away. How long is not judged here."""
    _require_started(match)
    if match.settings.clock is not None:
        raise RuleError(Breach.CLOCK_RUNS, "this match has a clock, which deals with absence")
    if match.to_act is not by.opponent:
        raise RuleError(Breach.NOT_YOUR_TURN, "it is for you to act, and not for your opponent")


def _cancel(match: Match, by: Color | None, absent: int) -> Cancelled:
    if not isinstance(match.phase, Waiting):
        if by is None or (not absent and not match.ended):
            raise RuleError(Breach.STARTED_ALREADY, "the match has begun: it can be resigned, not cancelled")
        _require_absence(match, by)
    elif by is not None and match.player(by) is None:
        raise RuleError(Breach.NOT_SEATED, "only who opened the match cancels it")
    return Cancelled(by=by, absent=absent)


def rolls_by_itself(match: Match, auto_roll: Callable[[Color], bool]) -> bool:
    """Whether the table rolls now: to open a game, or for a player who wishes it and could gain nothing by doubling."""
    phase = match.phase
    if not isinstance(phase, OnRoll):
        return isinstance(phase, Opening)
    color = phase.color
    return auto_roll(color) and (doubling_breach(match, color) is not None or match.doubling_is_dead(color))


def allowed_actions(match: Match, color: Color | None) -> tuple[Action, ...]:
    """What `color` may do now; None is somebody without a seat, who was invited if anybody was.

    A claim is not among it: whether the opponent has stayed away for long enough is not known here.
    """
    phase = match.phase
    if color is None:
        invited = (Action.DECLINE,) if match.invited else ()
        return (Action.JOIN, *invited) if isinstance(phase, Waiting) else ()
    if isinstance(phase, Waiting):
        return (Action.CANCEL,) if match.player(color) else ()
    if isinstance(phase, Opening | CalledOff):
        return ()
    if isinstance(phase, Over):
        return (Action.REMATCH,)
    actions: list[Action] = []
    if isinstance(phase, OnRoll) and phase.color is color:
        actions.append(Action.ROLL)
        if doubling_breach(match, color) is None:
            actions.append(Action.DOUBLE)
    elif isinstance(phase, ToPlay) and phase.color is color:
        actions.append(Action.MOVE)
    elif isinstance(phase, ToAnswer) and phase.color is color:
        actions += [Action.ACCEPT, Action.REFUSE]
    return (*actions, Action.RESIGN)


def evolve(match: Match | None, event: Event, at: int = 0) -> Match:
    """The match after `event`, which is taken to be legal, at that time (microseconds since 1970, UTC).

    Raises AssertionError for an impossible history.
    """
    if isinstance(event, Created):
        assert match is None, "a match is created once"
        return _created(event)
    assert match is not None, "a log begins with `created`"
    after = _evolved(match, event)
    return after if after.clocks is None else _timed(match, after, after.clocks, at)


def _timed(before: Match, after: Match, clocks: Clocks, at: int) -> Match:
    """With the clock of who had to act stopped, and that of who has to act now running, where that is another."""
    was, now = before.to_act, after.to_act
    if was is now:
        return after
    white, black = clocks.white, clocks.black
    if was is not None and before.settings.clock is not None:
        used = max(0, at - clocks.since - before.settings.clock.delay * SECOND)
        if was is Color.WHITE:
            white = max(0, white - used)
        else:
            black = max(0, black - used)
    return replace(after, clocks=Clocks(white, black, at))


def _evolved(match: Match, event: Event) -> Match:
    match event:
        case Moved(by=by, play=play):
            return _moved(match, by, play)
        case Rolled():
            return _rolled(match, event)
        case Joined(color=color, player=player, entropy=entropy, app=app):
            (white, black), apps = match.entropy, match.apps
            both = (entropy, black) if color is Color.WHITE else (white, entropy)
            apps = (app, apps[1]) if color is Color.WHITE else (apps[0], app)
            joined = replace(match, **{color.value: player, "entropy": both, "apps": apps})
            return joined if None in (joined.white, joined.black) else _started(joined)
        case Committed(commitment=commitment):
            return replace(match, last_link=commitment, links_used=0, chain=match.chain + 1)
        case Doubled(by=by):
            phase = match.phase
            assert isinstance(phase, OnRoll), "only a player on roll doubles"
            return replace(match, phase=ToAnswer(by.opponent, None, phase))
        case Accepted(by=by) | Refused(by=by):
            return _answered(match, by, isinstance(event, Accepted))
        case Resigned(by=by, stake=stake):
            if match.concedes_all(by, stake):
                counted, points = match.lost_by(by, stake)
                return _game_over(match, by.opponent, points, counted, End.RESIGNATION)
            phase = match.phase
            assert isinstance(phase, OnRoll | ToPlay), "an offer is open already"
            return replace(match, phase=ToAnswer(by.opponent, stake, phase))
        case TimedOut(by=loser):
            return _lost(match, loser, End.TIME_OUT)
        case Claimed(by=by):
            return _lost(match, by.opponent, End.ABSENCE)
        case Resumed(lost=lost):
            assert match.clocks is not None, "only a clock that runs gets time back"
            return replace(match, clocks=replace(match.clocks, since=match.clocks.since + lost))
        case Cancelled():
            return replace(match, phase=CalledOff())
        case Created():
            raise AssertionError("a match is created once")
        case _:
            assert_never(event)


def _lost(match: Match, loser: Color, end: End) -> Match:
    """The whole match is lost: as many points as the winner still needs; in a money game, what can still be lost."""
    stake, points = match.lost_by(loser, Stake.MATCH)
    return _game_over(match, loser.opponent, points, stake, end)


def check(match: Match | None, event: Event, at: int = 0) -> Match:
    """The match after `event`, if the event is legal where and when it stands; RuleError if it is not.

    Legal is what `decide` gives for the command behind it, word for word; a roll that cannot be played is followed by
    its dance, and a sandbox's dice are those of its script.
    """
    match event:
        case Created():
            command: Command = Create(
                match=event.match,
                settings=event.settings,
                color=event.color,
                player="",
                rematch_of=event.rematch_of,
                commitment=event.commitment,
                imported=event.imported,
                invited=event.invited,
                series=event.series,
            )
        case Joined(player=player, entropy=entropy, app=app):
            command = Join(player=player, entropy=entropy, app=app)
        case Committed(commitment=commitment):
            command = Commit(commitment=commitment)
        case Rolled(by=by, dice=dice, opening=opening, link=link, entropy=entropy):
            if match is not None:
                _check_dice(match, event)
            command = Roll(by=None if opening else by, dice=dice, link=link, entropy=entropy)
        case Moved(by=by, play=play):
            command = Move(by=by, play=play)
        case Doubled(by=by):
            command = Double(by=by)
        case Accepted(by=by):
            command = Accept(by=by)
        case Refused(by=by):
            command = Refuse(by=by)
        case Resigned(by=by, stake=stake):
            command = Resign(by=by, stake=stake)
        case TimedOut(by=by):
            command = TimeOut(by=by)
        case Resumed(lost=lost):
            command = Resume(lost=lost)
        case Claimed(by=by, absent=absent):
            command = Claim(by=by, absent=absent)
        case Cancelled(by=canceller, absent=absent):
            command = Cancel(by=canceller, absent=absent)
        case _:
            assert_never(event)
    if match and isinstance(match.phase, ToPlay) and not isinstance(event, Moved):
        phase = match.phase
        if not has_play(match.board, phase.color, phase.dice):
            raise RuleError(Breach.ALREADY_ROLLED, "a roll that cannot be played is followed by its dance")
    decided, *_ = decide(match, command, at)
    if decided != event:
        raise RuleError(Breach.INVALID_POSITION, f"the rules make of it {decided}")
    return evolve(match, event, at)


def _check_dice(match: Match, event: Rolled) -> None:
    """The dice are those of the script, or those that the next link of the chain gives. RuleError UNPROVEN_DICE."""
    dice, link = event.dice, event.link
    spoken = f"{dice.first} and {dice.second}"
    if not all(1 <= die <= 6 for die in dice):
        raise RuleError(Breach.UNPROVEN_DICE, f"dice show 1 to 6, not {spoken}")
    scripted = match.scripted_dice
    if scripted is not None:
        if (dice, link) != (scripted, None):
            raise RuleError(Breach.UNPROVEN_DICE, "the script of this sandbox has another roll here")
    elif match.last_link is None:
        if link is not None:
            raise RuleError(Breach.UNPROVEN_DICE, "a link is revealed, and nothing was committed to")
    elif match.links_used >= LINKS:
        raise RuleError(Breach.UNPROVEN_DICE, "the chain is used up, and no new one was committed to")
    elif link is None or not follows(link, match.last_link):
        raise RuleError(Breach.UNPROVEN_DICE, "the link revealed is not the next one of the chain")
    else:
        white, black = match.entropy
        proven = dice_from(link, match.id, match.rolls + 1, white, black, event.entropy)
        if dice != proven:
            raise RuleError(Breach.UNPROVEN_DICE, f"the link gives {proven.first} and {proven.second}, not {spoken}")


def fold(events: Iterable[Event], match: Match | None = None) -> Match:
    """The match that events make, from its start or on from `match`; clocks stand still. AssertionError if none."""
    folded = reduce(evolve, events, match)
    assert folded is not None, "an empty log is no match"
    return folded


def _created(event: Created) -> Match:
    settings = event.settings
    length = settings.length
    crawford = Crawford.AHEAD if settings.crawford and length is not None and length > 1 else Crawford.PAST
    match = Match(
        id=event.match,
        settings=settings,
        rematch_of=event.rematch_of,
        first_seat=event.color,
        crawford=crawford,
        last_link=event.commitment,
        imported=event.imported,
        invited=event.invited,
        series=event.series,
        clocks=Clocks(clock.reserve * SECOND, clock.reserve * SECOND, 0) if (clock := settings.clock) else None,
    )
    if settings.sandbox is None or settings.sandbox.start is None:
        return match
    start = parse_position(settings.sandbox.start)
    if start.crawford:
        crawford = Crawford.NOW
    elif length is not None and max(start.score) == length - 1:
        crawford = Crawford.PAST
    return replace(match, board=start.board, cube=start.cube, points=start.score, crawford=crawford)


def _started(match: Match) -> Match:
    sandbox = match.settings.sandbox
    if sandbox is None or sandbox.start is None:
        return replace(match, phase=Opening())
    return replace(match, phase=phase_of(parse_position(sandbox.start)))


def _rolled(match: Match, event: Rolled) -> Match:
    phase, rolls = match.phase, match.rolls + 1
    last_link, links_used = match.last_link, match.links_used
    if event.link is not None:
        last_link, links_used = event.link, links_used + 1
    if not isinstance(phase, Opening):
        assert event.by is not None, "only an opening is a tie"
        assert isinstance(phase, OnRoll), "only a player on roll rolls"
        to_play = ToPlay(event.by, event.dice)
        return replace(match, phase=to_play, rolls=rolls, last_link=last_link, links_used=links_used)
    cube = phase.cube
    if event.by is None and match.settings.automatic_doubles >= cube.value.bit_length():
        cube = Cube(min(cube.value * 2, match.settings.cube_limit))
    return replace(
        match,
        board=Board(),
        cube=cube,
        phase=Opening(cube) if event.by is None else ToPlay(event.by, event.dice),
        rolls=rolls,
        last_link=last_link,
        links_used=links_used,
        last_play=None,
        refused_stakes=(),
    )


def _moved(match: Match, by: Color, play: Play) -> Match:
    phase = match.phase
    assert isinstance(phase, ToPlay), "a play follows its roll"
    last = LastPlay(by, phase.dice, play, match.board)
    if not play:
        return replace(match, phase=OnRoll(by.opponent), last_play=last)
    board = match.board.after(by, play)
    moved = replace(match, board=board, phase=OnRoll(by.opponent), last_play=last, refused_stakes=())
    if board.side(by)[OFF] < CHECKERS:
        return moved
    stake = _won(board, by) if not match.settings.jacoby or match.cube.owner else Stake.SINGLE
    return _game_over(moved, by, MULTIPLIER[stake] * match.cube.value, stake, End.BEAR_OFF)


def _won(board: Board, winner: Color) -> Stake:
    loser = board.side(winner.opponent)
    if loser[OFF]:
        return Stake.SINGLE
    return Stake.BACKGAMMON if any(loser[19:]) else Stake.GAMMON


def _answered(match: Match, by: Color, accepted: bool) -> Match:
    offer = match.phase
    assert isinstance(offer, ToAnswer), "there is nothing to answer"
    if offer.stake is None:
        if accepted:
            cube = Cube(match.cube.value * 2, by)
            return replace(match, cube=cube, phase=offer.resume, refused_stakes=())
        return _game_over(match, by.opponent, match.cube.value, Stake.SINGLE, End.DROP)
    if accepted:
        counted, points = match.lost_by(by.opponent, offer.stake)
        return _game_over(match, by, points, counted, End.RESIGNATION)
    refused = (*match.refused_stakes, (by.opponent, offer.stake))
    return replace(match, phase=offer.resume, refused_stakes=refused)


def _game_over(match: Match, winner: Color, points: int, stake: Stake, end: End) -> Match:
    """The game is won; then the match is, or the next game opens, with or without the cube."""
    results = (*match.results, Result(winner, points, stake, match.cube.value, end))
    white, black = match.points
    total = (white + points, black) if winner is Color.WHITE else (white, black + points)
    scored = replace(match, results=results, points=total)
    length = match.settings.length
    if length is None or scored.score(winner) == length:
        return replace(scored, phase=Over(winner))
    crawford = match.crawford
    if crawford is Crawford.NOW:
        crawford = Crawford.PAST
    elif crawford is Crawford.AHEAD and scored.away(winner) == 1:
        crawford = Crawford.NOW
    return replace(scored, phase=Opening(), crawford=crawford)
