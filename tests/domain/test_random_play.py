"""Sixty whole matches between players who choose by chance, over every setting: what holds at every version."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest

from domain.board import CheckerMove, Color, Dice
from domain.breach import Breach, RuleError
from domain.commands import Accept, Command, Create, Double, Join, Move, Refuse, Resign, Roll
from domain.events import Doubled, Event, Moved, Rolled, Sandbox, Settings, Stake
from domain.match import Crawford, Match, OnRoll, Opening, Over, ToAnswer, ToPlay
from domain.plays import legal_plays
from domain.rules import Action, allowed_actions, check, decide, evolve, fold

OPENING = "-b----E-C---eE---c-e----B-"

PLAYED = {
    "a match to 1": {"length": 1},
    "to 3": {"length": 3},
    "to 3 without Crawford": {"length": 3, "crawford": False},
    "to 5": {"length": 5},
    "to 5, cube of 2": {"length": 5, "cube_limit": 2},
    "to 5, no cube": {"length": 5, "cube_limit": 1},
    "to 7": {"length": 7},
    "to 7 without Crawford, cube of 1024": {"length": 7, "crawford": False, "cube_limit": 1024},
    "money": {"length": None},
    "money by Jacoby": {"length": None, "jacoby": True},
    "money by Jacoby, cube of 2": {"length": None, "jacoby": True, "cube_limit": 2},
    "money, no cube": {"length": None, "cube_limit": 1},
    "money, automatic doubles": {"length": None, "automatic_doubles": 1},
    "money by Jacoby, many automatic doubles": {"length": None, "jacoby": True, "automatic_doubles": 10},
    "scripted dice": {
        "length": 3,
        "sandbox": Sandbox(dice=(Dice(5, 5), Dice(2, 6), Dice(6, 6), Dice(1, 1), Dice(4, 4), Dice(3, 3))),
    },
    "from the Crawford game": {"length": 5, "sandbox": Sandbox(start=f"XGID={OPENING}:0:0:-1:00:2:4:1:5:6")},
    "from after it": {"length": 5, "sandbox": Sandbox(start=f"XGID={OPENING}:1:1:1:63:4:3:0:5:6")},
    "from a double": {"length": 7, "sandbox": Sandbox(start="XGID=aa--BBBB----dE---d-e----AA:1:-1:-1:D:3:1:0:7:6")},
    "from a dance": {"length": 3, "sandbox": Sandbox(start="XGID=aBBBBBB----------------bb-:0:0:-1:65:1:1:0:3:6")},
    "from bearing off, by Jacoby": {
        "length": None,
        "jacoby": True,
        "sandbox": Sandbox(start="XGID=-CBBA--a--------a-----abb-:1:1:1:00:0:0:1:0:6"),
    },
}


class Told(NamedTuple):
    """A whole match: its log, and the match after each event."""

    events: list[Event]
    versions: list[Match]

    def steps(self) -> Iterator[tuple[Match, Event, Match]]:
        """Each event between the match before it and the match after it."""
        return zip(self.versions, self.events[1:], self.versions[1:], strict=False)


def chosen(match: Match, chance: random.Random) -> Command:
    """Something legal, by chance."""
    dice = match.scripted_dice or Dice(chance.randint(1, 6), chance.randint(1, 6))
    phase = match.phase
    if isinstance(phase, Opening):
        return Roll(by=None, dice=dice)
    assert isinstance(phase, OnRoll | ToPlay | ToAnswer)
    color = phase.color
    if isinstance(phase, ToAnswer):
        return chance.choice([Accept, Refuse])(by=color)
    if chance.random() < 0.004:
        by = chance.choice(list(Color))
        stake = chance.choices(list(Stake), weights=(5, 5, 5, 1))[0]
        if (by, stake) not in match.refused_stakes:
            return Resign(by=by, stake=stake)
    if isinstance(phase, ToPlay):
        play = list(chance.choice(legal_plays(match.board, color, phase.dice)))
        chance.shuffle(play)
        return Move(by=color, play=tuple(play))
    if Action.DOUBLE in allowed_actions(match, color) and chance.random() < 0.02:
        return Double(by=color)
    return Roll(by=color, dice=dice)


def whole_match(settings: dict[str, Any], chance: random.Random) -> Told:
    create = Create(match="m", settings=Settings(**settings), color=chance.choice(list(Color)), player="ann")
    told = Told([], [])
    match: Match | None = None
    command: Command = create
    while match is None or not isinstance(match.phase, Over):
        for event in decide(match, command):
            match = evolve(match, event)
            told.events.append(event)
            told.versions.append(match)
        assert match is not None
        if not isinstance(match.phase, Over):
            command = chosen(match, chance) if match.white and match.black else Join(player="bob")
    return told


@cache
def log_of(name: str, seed: str) -> tuple[Event, ...]:
    """The log of a whole match by these settings; the tests of every format of files tell the same ones."""
    return tuple(whole_match(PLAYED[name], random.Random(f"{name} {seed}")).events)


@cache
def told_of(name: str, seed: int) -> Told:
    return whole_match(PLAYED[name], random.Random(f"{name} {seed}"))


@pytest.fixture(
    scope="module",
    params=[(name, seed) for name in PLAYED for seed in range(3)],
    ids=lambda param: f"{param[0]}, {param[1]}",
)
def told(request: pytest.FixtureRequest) -> Told:
    return told_of(*request.param)


def test_fifteen_checkers_a_side_share_no_point(told: Told) -> None:
    for match in told.versions:
        white, black = match.board.white, match.board.black
        assert sum(white) == sum(black) == 15
        assert len(white) == len(black) == 26
        assert min(white) >= 0
        assert min(black) >= 0
        assert not any(white[point] and black[25 - point] for point in range(1, 25))


def test_pips_go_down_by_what_is_played_and_up_by_what_is_hit(told: Told) -> None:
    for before, event, after in told.steps():
        if not isinstance(event, Moved):
            continue
        mover, hits = event.by, before.board.hits(event.by, event.play)
        played = sum(src - dst for src, dst in event.play)
        sent_back = sum(dst for (_, dst), hit in zip(event.play, hits, strict=True) if hit)
        assert after.board.pips(mover) == before.board.pips(mover) - played
        assert after.board.pips(mover.opponent) == before.board.pips(mover.opponent) + sent_back
        assert after.board.side(mover.opponent)[25] == before.board.side(mover.opponent)[25] + sum(hits)


def test_the_fold_of_the_log_is_the_match(told: Told) -> None:
    assert fold(told.events) == told.versions[-1]
    for version in range(1, len(told.events), 1 + len(told.events) // 5):
        assert fold(told.events[:version]) == told.versions[version - 1]
        assert fold(told.events[version:], told.versions[version - 1]) == told.versions[-1]


def test_the_match_lives_on_in_its_json(told: Told) -> None:
    for encoder in (msgspec.json.Encoder(), msgspec.json.Encoder(order="sorted")):
        read = [msgspec.json.decode(encoder.encode(event), type=Event) for event in told.events]
        assert read == told.events
        assert fold(read) == told.versions[-1]


def test_every_event_of_the_log_is_found_lawful(told: Told) -> None:
    match: Match | None = None
    for event, version in zip(told.events, told.versions, strict=True):
        match = check(match, event)
        assert match == version


def test_points_and_winner_add_up(told: Told) -> None:
    last = told.versions[-1]
    winner = last.winner
    assert winner is not None
    won = Counter({color: told.versions[0].score(color) for color in Color})
    for result in last.results:
        length = last.settings.length
        assert result.cube in {1 << power for power in range(11)}
        assert result.cube <= last.settings.cube_limit
        if result.stake is not Stake.MATCH:
            times = {Stake.SINGLE: 1, Stake.GAMMON: 2, Stake.BACKGAMMON: 3}[result.stake]
            assert result.points == times * result.cube
        elif length is not None:
            assert result.points == length - won[result.winner]
        assert length is None or max(won.values()) < length
        won[result.winner] += result.points
    if last.settings.length is None:
        assert len(last.results) == 1
        assert {color: last.score(color) for color in Color} == won
    else:
        assert won[winner] >= last.settings.length == last.score(winner)
        assert won[winner.opponent] == last.score(winner.opponent) < last.settings.length
    assert last.results[-1].winner is winner
    assert [len(match.results) for match in told.versions] == sorted(len(match.results) for match in told.versions)


def test_the_one_crawford_game_is_played_without_doubling(told: Told) -> None:
    settings = told.versions[0].settings
    going_on = [match for match in told.versions if match.winner is None]
    games = {len(match.results) for match in going_on if match.crawford is Crawford.NOW}
    if settings.sandbox is None or settings.sandbox.start is None:
        one_away = [match for match in going_on if 1 in (match.away(Color.WHITE), match.away(Color.BLACK))]
        comes = settings.crawford and settings.length != 1 and one_away
        assert games == ({len(one_away[0].results)} if comes else set())
    assert len(games) <= 1
    for before, event, _ in told.steps():
        assert not (isinstance(event, Doubled) and before.crawford is Crawford.NOW)


# The same match with the colours swapped.


def plain(thing: Any) -> Any:
    """Lists, dicts and texts, as its JSON says it."""
    return msgspec.json.decode(msgspec.json.encode(thing))


SWAPPED = {"white": "black", "black": "white"}


def swapped(thing: Any) -> Any:
    """The same with white for black and black for white."""
    if isinstance(thing, dict):
        return {SWAPPED.get(name, name): swapped(value) for name, value in thing.items()}
    if isinstance(thing, list):
        return [swapped(value) for value in thing]
    return SWAPPED.get(thing, thing) if isinstance(thing, str) else thing


def mirrored_xgid(xgid: str) -> str:
    board, cube, owner, turn, dice, white, black, *rest = xgid.removeprefix("XGID=").split(":")
    return ":".join([board[::-1].swapcase(), cube, str(-int(owner)), str(-int(turn)), dice, black, white, *rest])


def mirrored_log(events: list[Event]) -> list[Event]:
    """Colours swapped, and with them the dice of an opening, which are white's and black's."""
    openings = [event.opening for event in events if isinstance(event, Rolled)]
    log = []
    for event in events:
        told = swapped(plain(event))
        if told.get("opening"):
            told["dice"].reverse()
        if sandbox := told.get("settings", {}).get("sandbox"):
            sandbox["start"] = sandbox["start"] and mirrored_xgid(sandbox["start"])
            sandbox["dice"] = [
                dice[::-1] if opening else dice for dice, opening in zip(sandbox["dice"], openings, strict=False)
            ]
        log.append(msgspec.convert(told, Event))
    return log


def looks(match: Match) -> dict[str, Any]:
    """All of a match but its settings; the dice of a roll without their order, the points by colour."""
    told = plain(match)
    del told["settings"]
    told["points"] = dict(zip(("white", "black"), told["points"], strict=True))
    for place in (told["phase"], told["phase"].get("resume"), told["last_play"]):
        if place and "dice" in place:
            place["dice"].sort()
    return {**told, "phase is": type(match.phase).__name__}


def test_with_colours_swapped_the_match_is_its_mirror(told: Told) -> None:
    mirror: Match | None = None
    for version, event in zip(told.versions, mirrored_log(told.events), strict=True):
        mirror = evolve(mirror, event)
        assert looks(mirror) == swapped(looks(version))
        for color in Color:
            assert allowed_actions(mirror, color.opponent) == allowed_actions(version, color)
            assert mirror.score(color.opponent) == version.score(color)
            assert mirror.board.pips(color.opponent) == version.board.pips(color)


# Every command in every phase.


def every_command(match: Match, chance: random.Random) -> Iterator[Command]:
    """Every kind of command, by either colour, sensible and not."""
    yield Create(match="m", settings=match.settings, color=Color.WHITE, player="ann")
    yield from (Join(player="ann"), Join(player="bob"), Join(player="eve"))
    yield from (Roll(by=None, dice=Dice(3, 1)), Roll(by=None, dice=Dice(2, 2)))
    for by in Color:
        yield from (Roll(by=by, dice=Dice(3, 1)), Roll(by=by, dice=Dice(5, 5)))
        yield from (Double(by=by), Accept(by=by), Refuse(by=by))
        yield from (Resign(by=by, stake=stake) for stake in Stake)
        yield Move(by=by, play=())
        yield Move(by=by, play=tuple(CheckerMove(chance.randint(-1, 26), chance.randint(-1, 26)) for _ in range(2)))
        plays = legal_plays(match.board, by, match.dice or Dice(3, 1))
        if plays:
            yield Move(by=by, play=chance.choice(plays))


def outcome(match: Match, command: Command) -> tuple[Event, ...] | Breach:
    try:
        return decide(match, command)
    except RuleError as refusal:
        return refusal.breach


def mirrored_command(command: Command) -> Command:
    told = swapped(plain(command))
    if isinstance(command, Roll) and command.by is None:
        told["dice"].reverse()
    return msgspec.convert(told, type(command))


def test_every_command_in_every_phase_has_an_outcome_and_its_mirror(told: Told) -> None:
    """At every third version: events that can be folded, or a refusal; and the mirror of it with colours swapped."""
    chance = random.Random(1)
    log = mirrored_log(told.events)
    mirrors: list[Match] = []
    for event in log:
        mirrors.append(evolve(mirrors[-1] if mirrors else None, event))
    for version, mirror in list(zip(told.versions, mirrors, strict=True))[::3]:
        for command in every_command(version, chance):
            found = outcome(version, command)
            if isinstance(command, Create):
                assert isinstance(found, Breach)
                continue
            reflected = outcome(mirror, mirrored_command(command))
            if isinstance(found, Breach):
                assert reflected is found, command
            else:
                assert not isinstance(reflected, Breach), command
                assert looks(fold(reflected, mirror)) == swapped(looks(fold(found, version)))


def test_all_kinds_of_ends_and_events_have_been_seen() -> None:
    """Otherwise the tests above would prove little."""
    seen: Counter[str] = Counter()
    for name in PLAYED:
        for seed in range(3):
            match = told_of(name, seed)
            seen.update(type(event).__name__ for event in match.events)
            seen.update(result.end for result in match.versions[-1].results)
            seen.update(result.stake for result in match.versions[-1].results)
            seen["dance"] += sum(isinstance(event, Moved) and not event.play for event in match.events)
            seen["tie"] += sum(isinstance(event, Rolled) and event.by is None for event in match.events)
            seen["Crawford"] += any(version.crawford is Crawford.NOW for version in match.versions)
    few = {what: count for what, count in seen.items() if count < 3}
    assert not few
    assert set(seen) >= {
        "Refused",
        "Resigned",
        "bear_off",
        "drop",
        "resignation",
        "backgammon",
        "match",
        "dance",
        "tie",
    }
