"""The law of a match, as tables: RULES.md sections 1 to 4 and DESIGN.md section 2."""

from functools import partial
from typing import Any

import pytest

from domain.board import Board, CheckerMove, Color, Dice
from domain.breach import Breach, RuleError
from domain.commands import Accept, Cancel, Command, Create, Double, Join, Move, Refuse, Resign, Roll
from domain.events import (
    Accepted,
    Cancelled,
    Created,
    Doubled,
    Event,
    Joined,
    Moved,
    Refused,
    Resigned,
    Rolled,
    Sandbox,
    Settings,
    Stake,
)
from domain.match import Crawford, Cube, End, Match, OnRoll, Opening, Over, Result, ToAnswer, ToPlay, Waiting
from domain.notation import parse_play
from domain.plays import legal_plays
from domain.position import Position, format_xgid
from domain.rules import Action, allowed_actions, check, decide, evolve, fold, rolls_by_itself

WHITE, BLACK = Color.WHITE, Color.BLACK
SINGLE, GAMMON, BACKGAMMON, MATCH = Stake.SINGLE, Stake.GAMMON, Stake.BACKGAMMON, Stake.MATCH
START = "24:2 13:5 8:3 6:5"
CENTRED = Cube(1, None)
STARTED = f"XGID={'-b----E-C---eE---c-e----B-'}"


def side(text: str) -> tuple[int, ...]:
    counts = [0] * 26
    for word in text.split():
        point, count = word.split(":")
        counts[int(point)] = int(count)
    counts[0] = 15 - sum(counts)
    return tuple(counts)


def created(color: Color = WHITE, **settings: Any) -> Created:
    return Created(match="m", settings=Settings(**{"length": 7, **settings}), color=color, rules=1)


def after(*events: Event, **settings: Any) -> Match:
    """The match after `events`, both players seated."""
    return fold([created(**settings), Joined(color=WHITE, player="ann"), Joined(color=BLACK, player="bob"), *events])


def then(match: Match, *commands: Command) -> Match:
    for command in commands:
        match = fold(decide(match, command), match)
    return match


def standing(
    white: str = START,
    black: str = START,
    *,
    turn: Color = WHITE,
    dice: Dice | None = None,
    cube: Cube = CENTRED,
    doubled: bool = False,
    score: tuple[int, int] = (0, 0),
    crawford: bool = False,
    jacoby: bool = False,
    length: int | None = 25,
    cube_limit: int = 64,
) -> Match:
    """A match, both players seated, that starts in this position; each side in its own numbering."""
    start = Position(
        board=Board(side(white), side(black)),
        cube=cube,
        turn=turn,
        dice=dice,
        doubled=doubled,
        score=score,
        crawford=crawford,
        jacoby=jacoby,
        length=length,
        cube_limit=cube_limit,
    )
    match = after(length=length, cube_limit=cube_limit, jacoby=jacoby, sandbox=Sandbox(start=format_xgid(start)))
    assert match.board == start.board, "a point is given to both sides"
    return match


def refused(match: Match | None, command: Command) -> Breach:
    """Why the command is refused."""
    with pytest.raises(RuleError) as refusal:
        decide(match, command)
    assert refusal.value.message
    return refusal.value.breach


def move(by: Color, text: str) -> Move:
    return Move(by=by, play=parse_play(text))


def roll(by: Color | None, text: str) -> Roll:
    return Roll(by=by, dice=Dice(int(text[0]), int(text[1])))


opening = partial(roll, None)


# Opening.


@pytest.mark.parametrize(
    ("dice", "winner"),
    [(Dice(3, 1), WHITE), (Dice(1, 3), BLACK), (Dice(6, 5), WHITE), (Dice(5, 6), BLACK)],
    ids=["31", "13", "65", "56"],
)
def test_the_higher_die_opens_and_plays_both_numbers(dice: Dice, winner: Color) -> None:
    events = decide(after(), Roll(by=None, dice=dice))
    assert events == (Rolled(by=winner, dice=dice, opening=True),)
    assert after(*events).phase == ToPlay(winner, dice)


def test_a_tied_opening_is_recorded_and_rolled_again() -> None:
    tie = decide(after(), opening("44"))
    assert tie == (Rolled(by=None, dice=Dice(4, 4), opening=True),)
    assert after(*tie).phase == Opening()
    assert then(after(*tie), opening("33"), opening("12")).phase == ToPlay(BLACK, Dice(1, 2))


def test_a_tie_leaves_the_cube_alone_by_default() -> None:
    match = then(after(length=None), opening("44"), opening("33"), opening("21"))
    assert match.cube == Cube(1)


@pytest.mark.parametrize("by", Color)
def test_nobody_but_the_table_rolls_the_opening(by: Color) -> None:
    assert refused(after(), roll(by, "31")) is Breach.NOT_STARTED


def test_the_table_rolls_nothing_but_openings() -> None:
    on_roll = then(after(), opening("31"), move(WHITE, "8/5 6/5"))
    for match in (on_roll, then(on_roll, roll(BLACK, "31"))):
        with pytest.raises(RuleError):
            decide(match, opening("31"))


@pytest.mark.parametrize(
    ("allowed", "limit", "ties", "value"),
    [
        (0, 64, 3, 1),
        (1, 64, 0, 1),
        (1, 64, 1, 2),
        (1, 64, 2, 2),
        (2, 64, 1, 2),
        (2, 64, 2, 4),
        (2, 64, 5, 4),
        (3, 64, 3, 8),
        (10, 4, 5, 4),
        (10, 2, 1, 2),
        (10, 1, 3, 1),
        (10, 1024, 10, 1024),
        (10, 1024, 12, 1024),
    ],
    ids=str,
)
def test_a_tie_doubles_the_centred_cube_as_often_as_agreed(allowed: int, limit: int, ties: int, value: int) -> None:
    match = after(length=None, automatic_doubles=allowed, cube_limit=limit)
    match = then(match, *[opening("66")] * ties, opening("21"))
    assert match.cube == Cube(value, None)


# Turns.


def test_players_roll_and_move_in_turn() -> None:
    match = then(after(), opening("31"))
    assert decide(match, move(WHITE, "8/5 6/5")) == (Moved(by=WHITE, play=parse_play("8/5 6/5")),)
    match = then(match, move(WHITE, "8/5 6/5"))
    assert match.phase == OnRoll(BLACK)
    assert decide(match, roll(BLACK, "62")) == (Rolled(by=BLACK, dice=Dice(6, 2)),)
    match = then(match, roll(BLACK, "62"), move(BLACK, "24/18 13/11"))
    assert match.phase == OnRoll(WHITE)
    assert match.board == Board(side("24:2 13:5 8:2 6:4 5:2"), side("24:1 18:1 13:4 11:1 8:3 6:5"))


@pytest.mark.parametrize(
    ("dice", "command", "breach"),
    [
        pytest.param(None, roll(BLACK, "31"), Breach.NOT_YOUR_TURN, id="the other side rolls"),
        pytest.param(None, Double(by=BLACK), Breach.NOT_YOUR_TURN, id="the other side doubles"),
        pytest.param(None, move(BLACK, "8/5 6/5"), Breach.NOT_YOUR_TURN, id="the other side moves"),
        pytest.param(None, move(WHITE, "8/5 6/5"), Breach.ROLL_FIRST, id="moving before the roll"),
        pytest.param(None, Accept(by=BLACK), Breach.NOTHING_TO_ANSWER, id="accepting nothing"),
        pytest.param(None, Refuse(by=WHITE), Breach.NOTHING_TO_ANSWER, id="refusing nothing"),
        pytest.param(Dice(3, 1), roll(WHITE, "31"), Breach.ALREADY_ROLLED, id="rolling twice"),
        pytest.param(Dice(3, 1), Double(by=WHITE), Breach.ALREADY_ROLLED, id="doubling after the roll"),
        pytest.param(Dice(3, 1), roll(BLACK, "31"), Breach.NOT_YOUR_TURN, id="rolling while the other plays"),
        pytest.param(Dice(3, 1), move(BLACK, "8/5 6/5"), Breach.NOT_YOUR_TURN, id="playing the other's roll"),
        pytest.param(Dice(3, 1), move(WHITE, "8/5"), Breach.BOTH_DICE_PLAYABLE, id="half a play"),
        pytest.param(Dice(3, 1), move(WHITE, ""), Breach.BOTH_DICE_PLAYABLE, id="passing"),
        pytest.param(Dice(3, 1), Accept(by=WHITE), Breach.NOTHING_TO_ANSWER, id="accepting a roll"),
    ],
)
def test_who_acts_out_of_turn_is_refused(dice: Dice | None, command: Command, breach: Breach) -> None:
    assert refused(standing(dice=dice), command) is breach


def test_a_refused_play_comes_with_the_legal_ones() -> None:
    match = standing(dice=Dice(3, 1))
    with pytest.raises(RuleError) as refusal:
        decide(match, move(WHITE, "13/11"))
    assert refusal.value.breach is Breach.NOT_THAT_DIE
    assert refusal.value.legal_plays == legal_plays(match.board, WHITE, Dice(3, 1))


def test_a_play_is_recorded_die_by_die_and_highest_first() -> None:
    assert decide(standing(dice=Dice(1, 6)), move(WHITE, "8/7 13/7")) == (Moved(by=WHITE, play=parse_play("13/7 8/7")),)
    assert decide(standing(dice=Dice(6, 5)), move(WHITE, "24/13")) == (Moved(by=WHITE, play=parse_play("24/18 18/13")),)


def test_a_roll_without_a_legal_play_is_danced_at_once() -> None:
    match = standing("25:1 13:14", "6:2 5:2 4:2 3:2 2:2 1:2 13:3")
    events = decide(match, roll(WHITE, "65"))
    assert events == (Rolled(by=WHITE, dice=Dice(6, 5)), Moved(by=WHITE, play=()))
    danced = fold(events, match)
    assert danced.phase == OnRoll(BLACK)
    assert danced.board == match.board


def test_a_checker_hit_while_bearing_off_enters_and_comes_home_first() -> None:
    match = then(standing("6:1 2:1 1:1", "25:1 13:1"), roll(WHITE, "51"), move(WHITE, "6/off"), roll(BLACK, "14"))
    match = then(match, move(BLACK, "bar/24* 13/9"), roll(WHITE, "61"))
    assert match.board.white == side("25:1 2:1")
    assert refused(match, move(WHITE, "2/off")) is Breach.MUST_ENTER
    match = then(match, move(WHITE, "bar/18"), roll(BLACK, "21"), move(BLACK, "9/6"), roll(WHITE, "21"))
    assert match.board.white == side("18:1 2:1")
    assert refused(match, move(WHITE, "2/off")) is Breach.CANNOT_BEAR_OFF


# Cube.


@pytest.mark.parametrize("by", Color)
def test_a_taken_double_doubles_the_cube_and_gives_it_to_the_taker(by: Color) -> None:
    match = standing(turn=by)
    assert decide(match, Double(by=by)) == (Doubled(by=by),)
    offered = then(match, Double(by=by))
    assert offered.phase == ToAnswer(by.opponent, None, OnRoll(by))
    assert offered.cube == Cube(1, None)
    assert decide(offered, Accept(by=by.opponent)) == (Accepted(by=by.opponent),)
    taken = then(offered, Accept(by=by.opponent))
    assert taken.cube == Cube(2, by.opponent)
    assert taken.phase == OnRoll(by)
    assert refused(taken, Double(by=by)) is Breach.CUBE_NOT_YOURS


def test_only_the_owner_redoubles() -> None:
    match = then(standing(), Double(by=WHITE), Accept(by=BLACK), roll(WHITE, "31"), move(WHITE, "8/5 6/5"))
    match = then(match, Double(by=BLACK), Accept(by=WHITE))
    assert match.cube == Cube(4, WHITE)
    match = then(match, roll(BLACK, "31"), move(BLACK, "8/5 6/5"), Double(by=WHITE), Accept(by=BLACK))
    assert match.cube == Cube(8, BLACK)


@pytest.mark.parametrize("value", [1, 2, 4, 32])
@pytest.mark.parametrize("by", Color)
def test_a_refused_double_loses_the_value_before_it_and_never_a_gammon(value: int, by: Color) -> None:
    match = standing(turn=by, cube=Cube(value, by if value > 1 else None), length=99)
    offered = then(match, Double(by=by))
    assert decide(offered, Refuse(by=by.opponent)) == (Refused(by=by.opponent),)
    dropped = then(offered, Refuse(by=by.opponent))
    assert dropped.results == (Result(by, value, SINGLE, value, End.DROP),)
    assert dropped.score(by) == value
    assert dropped.score(by.opponent) == 0


@pytest.mark.parametrize(
    ("limit", "cube", "breach"),
    [
        pytest.param(64, Cube(32, WHITE), None, id="32 of 64"),
        pytest.param(64, Cube(64, WHITE), Breach.CUBE_AT_LIMIT, id="64 of 64"),
        pytest.param(2, Cube(1), None, id="1 of 2"),
        pytest.param(2, Cube(2, WHITE), Breach.CUBE_AT_LIMIT, id="2 of 2"),
        pytest.param(1024, Cube(512, WHITE), None, id="512 of 1024"),
        pytest.param(1024, Cube(1024, WHITE), Breach.CUBE_AT_LIMIT, id="1024 of 1024"),
        pytest.param(1, Cube(1), Breach.NO_CUBE, id="no cube"),
        pytest.param(64, Cube(2, BLACK), Breach.CUBE_NOT_YOURS, id="the other side's"),
    ],
)
def test_the_cube_is_turned_up_to_its_limit_by_whoever_may(limit: int, cube: Cube, breach: Breach | None) -> None:
    match = standing(cube=cube, cube_limit=limit, length=None)
    if breach is None:
        assert then(match, Double(by=WHITE), Accept(by=BLACK)).cube == Cube(cube.value * 2, BLACK)
    else:
        assert refused(match, Double(by=WHITE)) is breach


@pytest.mark.parametrize(
    ("command", "breach"),
    [
        (roll(WHITE, "31"), Breach.NOT_YOUR_TURN),
        (Double(by=WHITE), Breach.NOT_YOUR_TURN),
        (move(WHITE, "8/5 6/5"), Breach.NOT_YOUR_TURN),
        (Accept(by=WHITE), Breach.NOT_YOUR_TURN),
        (Refuse(by=WHITE), Breach.NOT_YOUR_TURN),
        (roll(BLACK, "31"), Breach.ANSWER_FIRST),
        (Double(by=BLACK), Breach.ANSWER_FIRST),
        (move(BLACK, "8/5 6/5"), Breach.ANSWER_FIRST),
    ],
    ids=lambda given: f"{type(given).__name__} by {given.by}" if hasattr(given, "by") else given.name,
)
def test_an_open_double_waits_for_its_answer_alone(command: Command, breach: Breach) -> None:
    assert refused(then(standing(), Double(by=WHITE)), command) is breach


@pytest.mark.parametrize(
    ("score", "cube"),
    [
        pytest.param((1, 0), Cube(4, WHITE), id="4 away, cube at 4"),
        pytest.param((3, 0), Cube(2, WHITE), id="2 away, cube at 2"),
        pytest.param((4, 2), Cube(1), id="1 away, cube at 1"),
    ],
)
def test_a_dead_cube_may_be_turned(score: tuple[int, int], cube: Cube) -> None:
    """DESIGN.md section 2: no rule forbids it."""
    match = standing(score=score, cube=cube, length=5)
    assert decide(match, Double(by=WHITE)) == (Doubled(by=WHITE),)


def test_the_next_game_begins_with_a_centred_cube_and_a_set_board() -> None:
    match = then(standing(cube=Cube(4, WHITE), length=99), Double(by=WHITE), Refuse(by=BLACK))
    assert match.phase == Opening()
    opened = then(match, opening("16"))
    assert opened.cube == Cube(1, None)
    assert opened.board == Board()
    assert opened.phase == ToPlay(BLACK, Dice(1, 6))


# Crawford.


def game_won(match: Match, winner: Color, stake: Stake) -> Match:
    """One more game, opened by its winner and resigned by the other side."""
    match = then(match, opening("31" if winner is WHITE else "13"), Resign(by=winner.opponent, stake=stake))
    return then(match, Accept(by=winner)) if isinstance(match.phase, ToAnswer) else match


W, WW, B, BB = (WHITE, SINGLE), (WHITE, GAMMON), (BLACK, SINGLE), (BLACK, GAMMON)
AHEAD, NOW, PAST = Crawford.AHEAD, Crawford.NOW, Crawford.PAST


@pytest.mark.parametrize("swapped", [False, True], ids=["as told", "colours swapped"])
@pytest.mark.parametrize(
    ("length", "crawford", "games", "seen"),
    [
        pytest.param(3, True, [W, W, B, B], [AHEAD, AHEAD, NOW, PAST, PAST], id="once, and not when both are there"),
        pytest.param(3, True, [B, W, B, W], [AHEAD, AHEAD, AHEAD, NOW, PAST], id="after some games"),
        pytest.param(3, True, [WW, BB], [AHEAD, NOW, PAST], id="the other gets there in it"),
        pytest.param(3, True, [WW, B], [AHEAD, NOW, PAST], id="by a gammon"),
        pytest.param(2, True, [W, B], [AHEAD, NOW, PAST], id="in a match to 2"),
        pytest.param(5, True, [WW, WW, BB, BB], [AHEAD, AHEAD, NOW, PAST, PAST], id="in a match to 5"),
        pytest.param(5, True, [WW, W, BB, W], [AHEAD, AHEAD, AHEAD, AHEAD, NOW], id="not before one away"),
        pytest.param(1, True, [], [PAST], id="never in a match to 1"),
        pytest.param(3, False, [W, W, B, B], [PAST] * 5, id="never when not agreed"),
        pytest.param(None, True, [], [PAST], id="never for money"),
    ],
)
def test_the_crawford_game_is_the_one_after_a_side_first_stands_one_away(
    length: int | None, crawford: bool, games: list[tuple[Color, Stake]], seen: list[Crawford], swapped: bool
) -> None:
    match = after(length=length, crawford=crawford)
    found = [match.crawford]
    for winner, stake in games:
        match = game_won(match, winner.opponent if swapped else winner, stake)
        assert not isinstance(match.phase, Over)
        found.append(match.crawford)
    assert found == seen


@pytest.mark.parametrize("opener", Color)
def test_nobody_doubles_in_the_crawford_game_and_everybody_after_it(opener: Color) -> None:
    on_roll = [opening("31" if opener is WHITE else "13"), move(opener, "8/5 6/5")]
    match = game_won(game_won(after(length=3), WHITE, SINGLE), WHITE, SINGLE)
    assert refused(then(match, *on_roll), Double(by=opener.opponent)) is Breach.CRAWFORD_GAME
    match = then(game_won(match, BLACK, SINGLE), *on_roll)
    assert decide(match, Double(by=opener.opponent)) == (Doubled(by=opener.opponent),)


# What a game is worth.

ENDS = {
    # the loser's checkers, the stake
    "one checker off": ("6:13 1:1", SINGLE),
    "one off and one on the bar": ("25:1 6:13", SINGLE),
    "one off and one in the winner's home": ("24:1 6:13", SINGLE),
    "none off": ("13:5 6:10", GAMMON),
    "none off, one just outside the winner's home": ("18:1 6:14", GAMMON),
    "none off, one just inside the winner's home": ("19:1 6:14", BACKGAMMON),
    "none off, one on the winner's ace point": ("24:1 6:14", BACKGAMMON),
    "none off, one on the bar": ("25:1 6:14", BACKGAMMON),
    "all on the bar": ("25:15", BACKGAMMON),
}
TIMES = {SINGLE: 1, GAMMON: 2, BACKGAMMON: 3}


def borne_off(loser: str, winner: Color, **position: Any) -> Match:
    """The match after the winner's last checker, against the loser's checkers as given."""
    sides = ("2:1", loser) if winner is WHITE else (loser, "2:1")
    return then(standing(*sides, turn=winner, dice=Dice(4, 3), **position), move(winner, "2/off"))


@pytest.mark.parametrize("winner", Color)
@pytest.mark.parametrize("cube", [Cube(1), Cube(2, WHITE), Cube(4, BLACK), Cube(8, WHITE)], ids=lambda cube: cube.value)
@pytest.mark.parametrize(("loser", "stake"), ENDS.values(), ids=ENDS.keys())
def test_a_game_is_worth_its_stake_times_the_cube(loser: str, stake: Stake, cube: Cube, winner: Color) -> None:
    match = borne_off(loser, winner, cube=cube)
    assert match.results == (Result(winner, TIMES[stake] * cube.value, stake, cube.value, End.BEAR_OFF),)
    assert match.score(winner) == TIMES[stake] * cube.value
    assert match.score(winner.opponent) == 0


def test_a_gammon_with_the_cube_at_4_is_8_points() -> None:
    """SEEDS.md section 1.6."""
    assert borne_off("13:5 6:10", WHITE, cube=Cube(4, BLACK)).score(WHITE) == 8


@pytest.mark.parametrize("winner", Color)
@pytest.mark.parametrize(
    ("loser", "jacoby", "cube", "stake", "points"),
    [
        pytest.param("6:10 13:5", True, Cube(1), SINGLE, 1, id="gammon, centred"),
        pytest.param("25:1 6:14", True, Cube(1), SINGLE, 1, id="backgammon, centred"),
        pytest.param("6:10 13:5", True, Cube(2, WHITE), GAMMON, 4, id="gammon, turned"),
        pytest.param("25:1 6:14", True, Cube(2, BLACK), BACKGAMMON, 6, id="backgammon, turned"),
        pytest.param("6:14", True, Cube(2, BLACK), SINGLE, 2, id="single, turned"),
        pytest.param("6:10 13:5", True, Cube(2), SINGLE, 2, id="gammon, doubled by a tie alone"),
        pytest.param("6:10 13:5", False, Cube(1), GAMMON, 2, id="gammon without Jacoby"),
        pytest.param("25:1 6:14", False, Cube(1), BACKGAMMON, 3, id="backgammon without Jacoby"),
    ],
)
def test_by_jacoby_gammons_count_only_once_the_cube_was_turned(
    loser: str, jacoby: bool, cube: Cube, stake: Stake, points: int, winner: Color
) -> None:
    match = borne_off(loser, winner, cube=cube, jacoby=jacoby, length=None)
    assert match.results == (Result(winner, points, stake, cube.value, End.BEAR_OFF),)
    assert match.phase == Over(winner)
    assert match.score(winner) == points


@pytest.mark.parametrize(
    ("length", "before", "cube", "score", "away", "over"),
    [
        pytest.param(3, (2, 0), Cube(4, WHITE), 3, 0, True, id="more than needed"),
        pytest.param(7, (5, 0), Cube(1), 7, 0, True, id="just enough"),
        pytest.param(8, (5, 0), Cube(1), 7, 1, False, id="one too few"),
        pytest.param(5, (0, 4), Cube(2, BLACK), 4, 1, False, id="the other side is ahead"),
    ],
)
def test_a_score_never_shows_more_than_the_length_while_the_result_keeps_the_points(
    length: int, before: tuple[int, int], cube: Cube, score: int, away: int, over: bool
) -> None:
    match = borne_off("13:5 6:10", WHITE, length=length, score=before, cube=cube)
    assert match.results[-1].points == 2 * cube.value
    assert match.score(WHITE) == score
    assert match.away(WHITE) == away
    assert match.score(BLACK) == before[1]
    assert (match.winner is WHITE) is over
    assert isinstance(match.phase, Over if over else Opening)


def test_a_money_game_has_no_length_to_be_away_from() -> None:
    match = standing(length=None)
    assert match.away(WHITE) is match.away(BLACK) is None


# Resigning.

TURNS = {
    "on roll, by itself": (WHITE, None, WHITE),
    "on roll, by the other": (WHITE, None, BLACK),
    "to play, by itself": (BLACK, Dice(3, 1), BLACK),
    "to play, by the other": (BLACK, Dice(3, 1), WHITE),
}


@pytest.mark.parametrize("stake", [SINGLE, GAMMON])
@pytest.mark.parametrize(("turn", "dice", "by"), TURNS.values(), ids=TURNS.keys())
def test_a_resignation_is_offered_and_accepted_or_refused(
    turn: Color, dice: Dice | None, by: Color, stake: Stake
) -> None:
    match = standing(turn=turn, dice=dice, cube=Cube(2, WHITE))
    assert decide(match, Resign(by=by, stake=stake)) == (Resigned(by=by, stake=stake),)
    offered = then(match, Resign(by=by, stake=stake))
    assert offered.phase == ToAnswer(by.opponent, stake, match.phase)
    assert offered.results == ()

    accepted = then(offered, Accept(by=by.opponent))
    assert accepted.results == (Result(by.opponent, TIMES[stake] * 2, stake, 2, End.RESIGNATION),)
    assert accepted.phase == Opening()

    declined = then(offered, Refuse(by=by.opponent))
    assert declined.phase == match.phase
    assert (declined.board, declined.cube, declined.results) == (match.board, match.cube, ())


@pytest.mark.parametrize(
    ("command", "breach"),
    [
        (roll(WHITE, "31"), Breach.NOT_YOUR_TURN),
        (Double(by=WHITE), Breach.NOT_YOUR_TURN),
        (Accept(by=WHITE), Breach.NOT_YOUR_TURN),
        (Refuse(by=WHITE), Breach.NOT_YOUR_TURN),
        (Resign(by=WHITE, stake=GAMMON), Breach.ANSWER_FIRST),
        (roll(BLACK, "31"), Breach.ANSWER_FIRST),
        (Double(by=BLACK), Breach.ANSWER_FIRST),
        (Resign(by=BLACK, stake=SINGLE), Breach.ANSWER_FIRST),
    ],
    ids=lambda given: f"{type(given).__name__} by {given.by}" if hasattr(given, "by") else given.name,
)
def test_an_open_resignation_waits_for_its_answer_alone(command: Command, breach: Breach) -> None:
    assert refused(then(standing(), Resign(by=WHITE, stake=SINGLE)), command) is breach


RACE = "5:5 4:5 3:5"
IMMEDIATE = {
    # white, who resigns; black; the stake; more; the stake that counts and the points, or None where it is an offer
    "the most there is": (START, START, BACKGAMMON, {}, (BACKGAMMON, 3)),
    "the most there is, cube at 4": (START, START, BACKGAMMON, {"cube": Cube(4, BLACK)}, (BACKGAMMON, 12)),
    "a single with a checker off": ("24:1 6:13", START, SINGLE, {}, (SINGLE, 1)),
    "a single with a checker off, cube at 2": ("6:14", RACE, SINGLE, {"cube": Cube(2, WHITE)}, (SINGLE, 2)),
    "a gammon with a checker off": ("24:1 6:13", START, GAMMON, {}, (SINGLE, 1)),
    "a single, none off": (START, START, SINGLE, {}, None),
    "a gammon, a backgammon possible": (START, START, GAMMON, {}, None),
    "a single by Jacoby, centred": (START, START, SINGLE, {"jacoby": True, "length": None}, (SINGLE, 1)),
    "a gammon by Jacoby, centred": (START, START, GAMMON, {"jacoby": True, "length": None}, (SINGLE, 1)),
    "a single by Jacoby, doubled by a tie alone": (
        START,
        START,
        SINGLE,
        {"jacoby": True, "length": None, "cube": Cube(2)},
        (SINGLE, 2),
    ),
    "a single by Jacoby, turned": (
        START,
        START,
        SINGLE,
        {"jacoby": True, "length": None, "cube": Cube(2, BLACK)},
        None,
    ),
    "a single for money without Jacoby": (START, START, SINGLE, {"length": None}, None),
    "a single that wins": (START, START, SINGLE, {"length": 5, "score": (0, 4)}, (SINGLE, 1)),
    "a single that wins, cube at 2": (
        START,
        START,
        SINGLE,
        {"length": 5, "score": (0, 3), "cube": Cube(2, WHITE)},
        (SINGLE, 2),
    ),
    "a single that wins nothing yet": (START, START, SINGLE, {"length": 5, "score": (4, 3)}, None),
    "a single where a gammon would win": (START, START, SINGLE, {"length": 5, "score": (0, 3)}, None),
    "a gammon that wins": (START, START, GAMMON, {"length": 5, "score": (0, 3)}, (GAMMON, 2)),
    "a gammon in a race": ("7:15", RACE, GAMMON, {}, (GAMMON, 2)),
    "a backgammon in a race": ("7:15", RACE, BACKGAMMON, {}, (GAMMON, 2)),
    "a single in a race": ("7:15", RACE, SINGLE, {}, None),
    "a gammon in a race just passed": ("12:15", "12:15", GAMMON, {}, (GAMMON, 2)),
    "a gammon with contact": ("13:15", "13:15", GAMMON, {}, None),
    "a gammon with a checker in the winner's home": ("19:1 6:14", RACE, GAMMON, {}, None),
    "a gammon in a race just outside the winner's home": ("18:1 6:14", RACE, GAMMON, {}, (GAMMON, 2)),
    "a gammon with a checker on the bar": ("25:1 6:14", RACE, GAMMON, {}, None),
}


@pytest.mark.parametrize("by", Color)
@pytest.mark.parametrize(("loser", "winner", "stake", "more", "counts"), IMMEDIATE.values(), ids=IMMEDIATE.keys())
def test_an_offer_that_concedes_all_that_can_be_lost_ends_the_game_at_once(
    loser: str, winner: str, stake: Stake, more: dict[str, Any], counts: tuple[Stake, int] | None, by: Color
) -> None:
    if by is WHITE:
        match = standing(loser, winner, **more)
    else:
        cube, score = more.get("cube", Cube()), more.get("score", (0, 0))
        mirrored = {"cube": Cube(cube.value, cube.owner and cube.owner.opponent), "score": score[::-1]}
        match = standing(winner, loser, **{**more, **mirrored})
    resigned = then(match, Resign(by=by, stake=stake))
    if counts is None:
        assert resigned.phase == ToAnswer(by.opponent, stake, match.phase)
    else:
        counted, points = counts
        assert resigned.results == (Result(by.opponent, points, counted, match.cube.value, End.RESIGNATION),)
        assert resigned.score(by.opponent) == match.score(by.opponent) + points


@pytest.mark.parametrize("stake", [SINGLE, GAMMON, BACKGAMMON])
@pytest.mark.parametrize("by", Color)
def test_no_game_is_resigned_while_a_double_is_open(by: Color, stake: Stake) -> None:
    offered = then(standing(), Double(by=WHITE))
    assert refused(offered, Resign(by=by, stake=stake)) is Breach.ANSWER_FIRST


def test_a_refused_stake_is_not_offered_again_before_the_position_changed() -> None:
    match = then(standing(dice=Dice(3, 1)), Resign(by=WHITE, stake=SINGLE), Refuse(by=BLACK))
    assert refused(match, Resign(by=WHITE, stake=SINGLE)) is Breach.STAKE_REFUSED_BEFORE
    assert then(match, Resign(by=BLACK, stake=SINGLE)).phase == ToAnswer(WHITE, SINGLE, match.phase)
    match = then(match, Resign(by=WHITE, stake=GAMMON), Refuse(by=BLACK))
    assert refused(match, Resign(by=WHITE, stake=GAMMON)) is Breach.STAKE_REFUSED_BEFORE
    assert refused(match, Resign(by=WHITE, stake=SINGLE)) is Breach.STAKE_REFUSED_BEFORE
    moved = then(match, move(WHITE, "8/5 6/5"))
    for stake in (SINGLE, GAMMON):
        assert then(moved, Resign(by=WHITE, stake=stake)).phase == ToAnswer(BLACK, stake, OnRoll(BLACK))


def test_a_stake_refused_in_one_game_may_be_offered_in_the_next() -> None:
    match = then(after(length=9), opening("31"), Resign(by=WHITE, stake=SINGLE), Refuse(by=BLACK))
    match = then(match, Resign(by=WHITE, stake=BACKGAMMON), opening("31"))
    assert then(match, Resign(by=WHITE, stake=SINGLE)).phase == ToAnswer(BLACK, SINGLE, match.phase)


PHASES = {
    "on roll": standing(score=(3, 2)),
    "to play": standing(score=(3, 2), dice=Dice(3, 1)),
    "a double open": standing(score=(3, 2), doubled=True),
    "a resignation open": then(standing(score=(3, 2)), Resign(by=BLACK, stake=SINGLE)),
    "a resignation of a roll open": then(standing(score=(3, 2), dice=Dice(3, 1)), Resign(by=WHITE, stake=SINGLE)),
}


@pytest.mark.parametrize("by", Color)
@pytest.mark.parametrize("match", PHASES.values(), ids=PHASES.keys())
def test_the_match_may_be_given_up_at_any_time(match: Match, by: Color) -> None:
    assert decide(match, Resign(by=by, stake=MATCH)) == (Resigned(by=by, stake=MATCH),)
    over = then(match, Resign(by=by, stake=MATCH))
    assert over.phase == Over(by.opponent)
    assert over.winner is by.opponent
    assert over.score(by.opponent) == 25
    assert over.away(by.opponent) == 0
    assert over.score(by) == match.score(by)
    assert over.results[-1].end is End.RESIGNATION


@pytest.mark.parametrize(
    ("loser", "winner", "more", "points"),
    [
        pytest.param(START, START, {}, 3, id="a backgammon"),
        pytest.param(START, START, {"cube": Cube(4, BLACK)}, 12, id="a backgammon, cube at 4"),
        pytest.param("7:15", RACE, {}, 2, id="a gammon in a race"),
        pytest.param("24:1 6:13", START, {}, 1, id="a single with a checker off"),
        pytest.param(START, START, {"jacoby": True}, 1, id="a single by Jacoby, centred"),
        pytest.param(START, START, {"jacoby": True, "cube": Cube(2, WHITE)}, 6, id="a backgammon by Jacoby, turned"),
    ],
)
def test_giving_up_a_money_game_loses_the_most_that_can_be_lost(
    loser: str, winner: str, more: dict[str, Any], points: int
) -> None:
    over = then(standing(loser, winner, length=None, **more), Resign(by=WHITE, stake=MATCH))
    assert over.phase == Over(BLACK)
    assert over.score(BLACK) == over.results[-1].points == points


# Seats, before the start and after the end.


@pytest.mark.parametrize("color", Color)
def test_the_creator_sits_down_and_the_next_player_takes_the_other_seat(color: Color) -> None:
    settings = Settings(length=7)
    events = decide(None, Create(match="m", settings=settings, color=color, player="ann"))
    assert events == (
        Created(match="m", settings=settings, color=color, rules=1),
        Joined(color=color, player="ann"),
    )
    match = fold(events)
    assert match.phase == Waiting()
    assert match.player(color) == "ann"
    assert match.seat_of("ann") is color
    assert match.player(color.opponent) is None
    assert decide(match, Join(player="bob")) == (Joined(color=color.opponent, player="bob"),)
    assert then(match, Join(player="bob")).phase == Opening()
    assert then(match, Join(player="bob")).seat_of("bob") is color.opponent


def test_a_player_sits_once_and_a_match_has_two_seats() -> None:
    waiting = fold([created(), Joined(color=WHITE, player="ann")])
    assert refused(waiting, Join(player="ann")) is Breach.ALREADY_SEATED
    for match in (after(), standing(), then(standing(), Resign(by=WHITE, stake=MATCH))):
        assert refused(match, Join(player="ann")) is Breach.ALREADY_SEATED
        assert refused(match, Join(player="bob")) is Breach.ALREADY_SEATED
        assert refused(match, Join(player="eve")) is Breach.SEATS_TAKEN


def acts(by: Color) -> list[Command]:
    return [
        roll(by, "31"),
        move(by, "8/5 6/5"),
        move(by, ""),
        Double(by=by),
        Accept(by=by),
        Refuse(by=by),
        *[Resign(by=by, stake=stake) for stake in Stake],
    ]


@pytest.mark.parametrize("by", Color)
def test_nothing_is_done_at_a_match_that_does_not_exist(by: Color) -> None:
    for command in [Join(player="ann"), opening("31"), *acts(by)]:
        assert refused(None, command) is Breach.MATCH_NOT_FOUND


@pytest.mark.parametrize("by", Color)
def test_nothing_is_done_before_the_start(by: Color) -> None:
    waiting = fold([created(), Joined(color=WHITE, player="ann")])
    between = then(after(), opening("31"), Resign(by=WHITE, stake=BACKGAMMON))
    for match in (waiting, after(), after(Rolled(by=None, dice=Dice(2, 2), opening=True)), between):
        for command in acts(by):
            assert refused(match, command) is Breach.NOT_STARTED


@pytest.mark.parametrize("by", Color)
@pytest.mark.parametrize(
    "match",
    [
        pytest.param(then(standing(), Resign(by=WHITE, stake=MATCH)), id="given up"),
        pytest.param(borne_off("6:14", WHITE, length=1), id="borne off"),
        pytest.param(then(standing(length=None), Double(by=WHITE), Refuse(by=BLACK)), id="dropped for money"),
    ],
)
def test_nothing_is_done_after_the_end(match: Match, by: Color) -> None:
    for command in acts(by):
        assert refused(match, command) is Breach.MATCH_OVER
    with pytest.raises(RuleError):
        decide(match, opening("31"))


def test_a_match_is_created_once() -> None:
    with pytest.raises(RuleError):
        decide(after(), Create(match="m", settings=Settings(length=7), color=WHITE, player="ann"))


# Settings.


def create(**settings: Any) -> Create:
    return Create(match="m", settings=Settings(**{"length": 7, **settings}), color=WHITE, player="ann")


@pytest.mark.parametrize(
    "settings",
    [
        *[{"length": length} for length in (1, 2, 7, 25, None)],
        *[{"cube_limit": 1 << power} for power in range(11)],
        {"crawford": False},
        {"length": None, "jacoby": True},
        {"length": None, "automatic_doubles": 1},
        {"length": None, "automatic_doubles": 3, "jacoby": True, "cube_limit": 1},
        {"sandbox": Sandbox(dice=(Dice(6, 6), Dice(1, 2)))},
    ],
    ids=str,
)
def test_what_can_be_played_may_be_agreed(settings: dict[str, Any]) -> None:
    (created, _) = decide(None, create(**settings))
    assert isinstance(created, Created)
    assert created.settings == Settings(**{"length": 7, **settings})


AGREED = f"{STARTED}:0:0:1:00:0:0:0:7:6"
MISTAKEN = {
    "a match to 0": {"length": 0},
    "a match to less than 0": {"length": -1},
    "a match to 100": {"length": 100},
    "a match to more than memory holds": {"length": 10**30},
    "a cube of 3": {"cube_limit": 3},
    "a cube of 48": {"cube_limit": 48},
    "a cube of 0": {"cube_limit": 0},
    "a cube below 0": {"cube_limit": -2},
    "a cube of 2048": {"cube_limit": 2048},
    "Jacoby in a match": {"jacoby": True},
    "automatic doubles in a match": {"automatic_doubles": 1},
    "automatic doubles below 0": {"length": None, "automatic_doubles": -1},
    "automatic doubles without end": {"length": None, "automatic_doubles": 1000},
    "a die of 0": {"sandbox": Sandbox(dice=(Dice(0, 1),))},
    "a die of 7": {"sandbox": Sandbox(dice=(Dice(6, 1), Dice(1, 7)))},
    "a die below 0": {"sandbox": Sandbox(dice=(Dice(-1, 1),))},
    "dice without end": {"sandbox": Sandbox(dice=(Dice(2, 1),) * 100_000)},
    "another length than the start": {"length": 5, "sandbox": Sandbox(start=AGREED)},
    "money from a start in a match": {"length": None, "sandbox": Sandbox(start=AGREED)},
    "a match from a start for money": {"sandbox": Sandbox(start=f"{STARTED}:0:0:1:00:0:0:0:0:6")},
    "another limit than the start": {"cube_limit": 32, "sandbox": Sandbox(start=AGREED)},
    "Jacoby where the start has none": {
        "length": None,
        "jacoby": True,
        "sandbox": Sandbox(start=f"{STARTED}:0:0:1:00:0:0:0:0:6"),
    },
    "no Jacoby where the start has it": {
        "length": None,
        "sandbox": Sandbox(start=f"{STARTED}:0:0:1:00:0:0:1:0:6"),
    },
    "no Crawford where the start is its game": {
        "crawford": False,
        "sandbox": Sandbox(start=f"{STARTED}:0:0:1:00:6:0:1:7:6"),
    },
}


@pytest.mark.parametrize("settings", MISTAKEN.values(), ids=MISTAKEN.keys())
def test_what_cannot_be_played_is_not_agreed(settings: dict[str, Any]) -> None:
    assert refused(None, create(**settings)) is Breach.INVALID_SETTINGS


def test_all_that_is_wrong_with_settings_is_said_at_once() -> None:
    with pytest.raises(RuleError, match=r"length.*cubeLimit.*jacoby"):
        decide(None, create(length=100, cube_limit=3, jacoby=True))


@pytest.mark.parametrize("start", ["", "nonsense", f"{STARTED}:0:0:1:D:6:0:1:7:6"], ids=["empty", "text", "impossible"])
def test_a_start_that_is_no_position_is_refused(start: str) -> None:
    assert refused(None, create(sandbox=Sandbox(start=start))) is Breach.INVALID_POSITION


# Sandbox.


@pytest.mark.parametrize(
    ("fields", "phase"),
    [
        pytest.param("1:1:1:00:3:2:0:7:6", OnRoll(WHITE), id="on roll"),
        pytest.param("1:1:-1:00:3:2:0:7:6", OnRoll(BLACK), id="black on roll"),
        pytest.param("1:1:1:31:3:2:0:7:6", ToPlay(WHITE, Dice(3, 1)), id="to play"),
        pytest.param("1:1:-1:66:3:2:0:7:6", ToPlay(BLACK, Dice(6, 6)), id="black to play"),
        pytest.param("1:1:1:D:3:2:0:7:6", ToAnswer(BLACK, None, OnRoll(WHITE)), id="doubled"),
        pytest.param("1:-1:-1:D:3:2:0:7:6", ToAnswer(WHITE, None, OnRoll(BLACK)), id="doubled by black"),
    ],
)
def test_a_sandbox_starts_where_its_xgid_stands(fields: str, phase: OnRoll | ToPlay | ToAnswer) -> None:
    board = "-a----E-C---eE---c-e----B-"
    waiting = fold(decide(None, create(sandbox=Sandbox(start=f"XGID={board}:{fields}"))))
    assert waiting.phase == Waiting()
    assert decide(waiting, Join(player="bob")) == (Joined(color=BLACK, player="bob"),)
    match = then(waiting, Join(player="bob"))
    assert match.phase == phase
    assert match.board == Board(side(START), side("24:1 13:5 8:3 6:5"))
    assert match.cube == Cube(2, BLACK if fields.startswith("1:-1") else WHITE)
    assert (match.score(WHITE), match.score(BLACK)) == (3, 2)
    assert (match.away(WHITE), match.away(BLACK)) == (4, 5)


def test_a_sandbox_that_starts_with_a_dance_goes_on_by_itself() -> None:
    start = "XGID=aBBBBBB----------------bb-:0:0:-1:65:0:0:0:7:6"
    waiting = fold(decide(None, create(sandbox=Sandbox(start=start))))
    events = decide(waiting, Join(player="bob"))
    assert events == (Joined(color=BLACK, player="bob"), Moved(by=BLACK, play=()))
    assert fold(events, waiting).phase == OnRoll(WHITE)


def test_after_a_sandbox_start_the_next_game_is_opened_as_usual() -> None:
    match = then(standing("6:1", "6:14", cube=Cube(2, WHITE)), Double(by=WHITE), Refuse(by=BLACK), opening("21"))
    assert match.board == Board()
    assert match.cube == Cube(1)


@pytest.mark.parametrize(
    ("fields", "crawford"),
    [
        ("0:0:1:00:6:0:1:7:6", NOW),
        ("0:0:1:00:0:6:1:7:6", NOW),
        ("0:0:1:00:6:0:0:7:6", PAST),
        ("0:0:1:00:6:6:0:7:6", PAST),
        ("0:0:1:00:5:0:0:7:6", AHEAD),
    ],
)
def test_a_sandbox_start_says_where_the_match_stands_to_crawford(fields: str, crawford: Crawford) -> None:
    match = after(length=7, sandbox=Sandbox(start=f"{STARTED}:{fields}"))
    assert match.crawford is crawford
    if crawford is NOW:
        assert refused(match, Double(by=WHITE)) is Breach.CRAWFORD_GAME
    else:
        assert decide(match, Double(by=WHITE)) == (Doubled(by=WHITE),)


def test_the_script_of_a_sandbox_says_each_roll_and_then_no_more() -> None:
    match = after(sandbox=Sandbox(dice=(Dice(2, 2), Dice(3, 1), Dice(6, 2))))
    assert match.scripted_dice == Dice(2, 2)
    match = then(match, opening("22"))
    assert match.scripted_dice == Dice(3, 1)
    match = then(match, opening("31"), move(WHITE, "8/5 6/5"))
    assert match.scripted_dice == Dice(6, 2)
    match = then(match, roll(BLACK, "62"))
    assert match.scripted_dice is None
    assert after().scripted_dice is None


# What the table does by itself, and what everybody may do.

ALIVE = standing()
BY_ITSELF = {
    # the match, and whether the table rolls for white when its seat asks for that
    "may double": (ALIVE, False),
    "may redouble": (standing(cube=Cube(2, WHITE)), False),
    "may double for money": (standing(length=None), False),
    "Crawford game": (standing(length=5, score=(4, 2), crawford=True), True),
    "Crawford game, trailing": (standing(length=5, score=(2, 4), crawford=True), True),
    "cube held by the other side": (standing(cube=Cube(2, BLACK)), True),
    "cube at its limit": (standing(cube=Cube(64, WHITE), length=99), True),
    "no cube": (standing(cube_limit=1), True),
    "no cube for money": (standing(cube_limit=1, length=None), True),
    "dead cube": (standing(cube=Cube(2, WHITE), length=5, score=(3, 0)), True),
    "cube dead for the other side only": (standing(cube=Cube(2, WHITE), length=5, score=(0, 3)), False),
    "one short of dead": (standing(cube=Cube(2, WHITE), length=5, score=(2, 0)), False),
    "after the Crawford game, leading": (standing(length=5, score=(4, 2)), True),
    "after the Crawford game, trailing": (standing(length=5, score=(2, 4)), False),
    "a match to 1": (standing(length=1), True),
    "to play": (standing(dice=Dice(3, 1), cube_limit=1), False),
    "a double open": (standing(doubled=True), False),
    "a resignation open": (then(standing(cube_limit=1), Resign(by=BLACK, stake=SINGLE)), False),
}


@pytest.mark.parametrize(("match", "rolls"), BY_ITSELF.values(), ids=BY_ITSELF.keys())
def test_the_table_rolls_for_who_asks_for_it_and_could_not_usefully_double(match: Match, rolls: bool) -> None:
    assert rolls_by_itself(match, lambda color: color is WHITE) is rolls
    assert rolls_by_itself(match, lambda color: color is BLACK) is False


def test_the_table_opens_every_game_by_itself() -> None:
    between = then(after(), opening("31"), Resign(by=WHITE, stake=BACKGAMMON))
    for match in (after(), after(Rolled(by=None, dice=Dice(2, 2), opening=True)), between):
        assert rolls_by_itself(match, lambda _: False)


def test_the_table_rolls_nothing_before_the_start_and_after_the_end() -> None:
    waiting = fold([created(), Joined(color=WHITE, player="ann")])
    for match in (waiting, then(standing(), Resign(by=WHITE, stake=MATCH))):
        assert not rolls_by_itself(match, lambda _: True)


JOIN, ROLL, MOVE, DOUBLE = Action.JOIN, Action.ROLL, Action.MOVE, Action.DOUBLE
CANCEL, DECLINE = Action.CANCEL, Action.DECLINE
ACCEPT, REFUSE, RESIGN, REMATCH = Action.ACCEPT, Action.REFUSE, Action.RESIGN, Action.REMATCH
ACTIONS = {
    # the match, what white may do, black, somebody without a seat
    "a seat is free": (fold([created(), Joined(color=WHITE, player="ann")]), [CANCEL], [], [JOIN]),
    "cancelled": (fold([created(), Joined(color=WHITE, player="ann"), Cancelled(by=WHITE)]), [], [], []),
    "both seats free": (fold([created()]), [], [], [JOIN]),
    "about to open": (after(), [], [], []),
    "on roll": (ALIVE, [ROLL, DOUBLE, RESIGN], [RESIGN], []),
    "on roll, no cube": (standing(cube_limit=1), [ROLL, RESIGN], [RESIGN], []),
    "on roll, Crawford": (standing(length=5, score=(4, 2), crawford=True), [ROLL, RESIGN], [RESIGN], []),
    "on roll, cube held": (standing(cube=Cube(2, BLACK)), [ROLL, RESIGN], [RESIGN], []),
    "on roll, dead cube": (standing(length=5, score=(4, 2)), [ROLL, DOUBLE, RESIGN], [RESIGN], []),
    "black on roll": (standing(turn=BLACK), [RESIGN], [ROLL, DOUBLE, RESIGN], []),
    "to play": (standing(dice=Dice(3, 1)), [MOVE, RESIGN], [RESIGN], []),
    "a double open": (standing(doubled=True), [RESIGN], [ACCEPT, REFUSE, RESIGN], []),
    "a resignation open": (
        then(standing(), Resign(by=BLACK, stake=SINGLE)),
        [ACCEPT, REFUSE, RESIGN],
        [RESIGN],
        [],
    ),
    "a resignation of a roll open": (
        then(standing(dice=Dice(3, 1)), Resign(by=WHITE, stake=SINGLE)),
        [RESIGN],
        [ACCEPT, REFUSE, RESIGN],
        [],
    ),
    "a resignation refused": (
        then(standing(dice=Dice(3, 1)), Resign(by=WHITE, stake=SINGLE), Refuse(by=BLACK)),
        [MOVE, RESIGN],
        [RESIGN],
        [],
    ),
    "over": (then(standing(), Resign(by=WHITE, stake=MATCH)), [REMATCH], [REMATCH], []),
}


@pytest.mark.parametrize(("match", "white", "black", "nobody"), ACTIONS.values(), ids=ACTIONS.keys())
def test_everybody_sees_what_may_be_done(
    match: Match, white: list[Action], black: list[Action], nobody: list[Action]
) -> None:
    assert set(allowed_actions(match, WHITE)) == set(white)
    assert set(allowed_actions(match, BLACK)) == set(black)
    assert set(allowed_actions(match, None)) == set(nobody)


def commands_for(match: Match, action: Action, by: Color) -> list[Command]:
    """Every way to take an action that could be open."""
    match action:
        case Action.ROLL:
            return [roll(by, "31")]
        case Action.MOVE:
            plays = legal_plays(match.board, by, match.dice) if match.dice else ()
            return [Move(by=by, play=play) for play in (*plays, ())]
        case Action.DOUBLE:
            return [Double(by=by)]
        case Action.ACCEPT:
            return [Accept(by=by)]
        case Action.REFUSE:
            return [Refuse(by=by)]
        case Action.CANCEL:
            return [Cancel(by=by)]
        case Action.RESIGN:
            return [Resign(by=by, stake=stake) for stake in Stake]
        case _:
            return []


def is_legal(match: Match, command: Command) -> bool:
    try:
        decide(match, command)
    except RuleError:
        return False
    return True


@pytest.mark.parametrize("match", [row[0] for row in ACTIONS.values()], ids=ACTIONS.keys())
def test_an_action_is_allowed_exactly_when_the_law_accepts_it(match: Match) -> None:
    for color in Color:
        for action in set(Action) - {JOIN, REMATCH, DECLINE}:
            accepted = any(is_legal(match, command) for command in commands_for(match, action, color))
            assert (action in allowed_actions(match, color)) is accepted, (color, action)
    assert (JOIN in allowed_actions(match, None)) is is_legal(match, Join(player="eve"))


# The log.


def test_a_roll_in_the_log_is_remembered_until_it_is_played() -> None:
    match = standing(dice=Dice(3, 1))
    played = evolve(match, Moved(by=WHITE, play=parse_play("8/5 6/5")))
    assert match.last_play is None
    assert played.last_play is not None
    assert (played.last_play.by, played.last_play.dice) == (WHITE, Dice(3, 1))
    assert played.last_play.play == (CheckerMove(8, 5), CheckerMove(6, 5))
    assert played.last_play.before == match.board


def test_a_fold_may_go_on_from_any_version() -> None:
    log = [
        created(),
        Joined(color=WHITE, player="ann"),
        Joined(color=BLACK, player="bob"),
        Rolled(by=WHITE, dice=Dice(3, 1), opening=True),
        Moved(by=WHITE, play=parse_play("8/5 6/5")),
        Doubled(by=BLACK),
        Refused(by=WHITE),
    ]
    for version in range(1, len(log) + 1):
        assert fold(log[version:], fold(log[:version])) == fold(log)


FORGED = {
    # the match, an event that the law never gives there
    "no match": (None, Joined(color=WHITE, player="ann")),
    "created twice": (ALIVE, created()),
    "a wrong seat": (fold([created(), Joined(color=WHITE, player="ann")]), Joined(color=WHITE, player="bob")),
    "a third player": (ALIVE, Joined(color=WHITE, player="eve")),
    "opening won by the lower die": (after(), Rolled(by=BLACK, dice=Dice(3, 1), opening=True)),
    "a tie won": (after(), Rolled(by=WHITE, dice=Dice(3, 3), opening=True)),
    "an opening in the middle": (ALIVE, Rolled(by=WHITE, dice=Dice(3, 1), opening=True)),
    "a roll for an opening": (after(), Rolled(by=WHITE, dice=Dice(3, 1))),
    "nobody's roll": (ALIVE, Rolled(by=None, dice=Dice(3, 1))),
    "a roll out of turn": (ALIVE, Rolled(by=BLACK, dice=Dice(3, 1))),
    "a die of 7": (ALIVE, Rolled(by=WHITE, dice=Dice(7, 1))),
    "a die of 0": (after(), Rolled(by=BLACK, dice=Dice(0, 1), opening=True)),
    "another roll than the script's": (
        after(sandbox=Sandbox(dice=(Dice(2, 1),))),
        Rolled(by=WHITE, dice=Dice(3, 1), opening=True),
    ),
    "an illegal play": (standing(dice=Dice(3, 1)), Moved(by=WHITE, play=parse_play("13/11"))),
    "a play in another order": (standing(dice=Dice(3, 1)), Moved(by=WHITE, play=parse_play("6/5 8/5"))),
    "a play as a hop": (standing(dice=Dice(6, 5)), Moved(by=WHITE, play=parse_play("24/13"))),
    "a dance with a legal play": (standing(dice=Dice(3, 1)), Moved(by=WHITE, play=())),
    "a double after the roll": (standing(dice=Dice(3, 1)), Doubled(by=WHITE)),
    "a double of the other's cube": (standing(cube=Cube(2, BLACK)), Doubled(by=WHITE)),
    "an answer to nothing": (ALIVE, Accepted(by=BLACK)),
    "an answer by the one who asked": (standing(doubled=True), Refused(by=WHITE)),
    "a resignation after the end": (then(ALIVE, Resign(by=WHITE, stake=MATCH)), Resigned(by=BLACK, stake=MATCH)),
    "something else than the dance": (
        fold(
            [Rolled(by=WHITE, dice=Dice(6, 5))],
            standing("25:1 13:14", "6:2 5:2 4:2 3:2 2:2 1:2 13:3"),
        ),
        Resigned(by=BLACK, stake=MATCH),
    ),
}


@pytest.mark.parametrize(("match", "event"), FORGED.values(), ids=FORGED.keys())
def test_an_event_that_the_law_never_gives_is_found_out(match: Match | None, event: Event) -> None:
    with pytest.raises(RuleError):
        check(match, event)
