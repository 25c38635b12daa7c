"""The log: its lines, its hash links, and what verification finds."""

import hashlib
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from domain.board import CheckerMove, Color, Dice
from domain.commands import Create, Double, Join, Move, Refuse, Roll
from domain.events import Event, Resigned, Sandbox, Settings, Stake
from domain.match import Match, OnRoll, ToPlay
from domain.plays import legal_plays
from domain.rules import decide, evolve, rolls_by_itself
from infra.log import GENESIS, Broken, encode_line, encode_time, record, verify

START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


def played() -> list[Event]:
    """A one-point match played at random, from its creation to its end."""
    chance = random.Random(3)
    events: list[Event] = []
    match: Match | None = None

    def do(command: object) -> Match:
        nonlocal match
        for event in decide(match, command):  # type: ignore[arg-type]
            match = evolve(match, event)
            events.append(event)
        assert match is not None
        return match

    settings = Settings(length=1, sandbox=Sandbox(dice=(Dice(3, 3), Dice(3, 1))))
    do(Create(match="m1", settings=settings, color=Color.BLACK, player="ann"))
    now = do(Join(player="bob"))
    while now.winner is None:
        phase = now.phase
        if isinstance(phase, ToPlay):
            now = do(Move(by=phase.color, play=chance.choice(legal_plays(now.board, phase.color, phase.dice))))
        else:
            by = phase.color if isinstance(phase, OnRoll) else None
            assert by or rolls_by_itself(now, lambda _: True)
            dice = now.scripted_dice or Dice(chance.randint(1, 6), chance.randint(1, 6))
            now = do(Roll(by=by, dice=dice))
    return events


def lines(events: list[Event]) -> list[bytes]:
    """A log of these events, properly linked."""
    records = record(GENESIS, 0, START, events)
    return [encode_line(r.seq, encode_time(r.at), r.text, r.hash).encode() for r in records]


EVENTS = played()
LOG = lines(EVENTS)


def test_a_played_log_verifies() -> None:
    verified = verify(LOG)
    assert verified.match.winner is not None
    assert len(verified.records) == len(EVENTS)
    assert (verified.proven, verified.signed_by) == (0, None)


def test_the_hash_is_what_the_readme_tells_other_authors() -> None:
    """SHA-256 over the hash before (64 zeros first) and canonical JSON of at, event and seq: from the line alone."""
    previous = "0" * 64
    for text in LOG:
        line = json.loads(text)
        content = {name: line[name] for name in ("at", "event", "seq")}
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256((previous + canonical).encode()).hexdigest()
        assert line["hash"] == previous


def relinked(change: Callable[[list[dict]], None]) -> list[bytes]:
    """The log with its content changed, and every hash made anew: only the rules can find it."""
    content = [json.loads(text) for text in LOG]
    change(content)
    previous = GENESIS
    out = []
    for line in content:
        body = {name: line[name] for name in ("at", "event", "seq")}
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256((previous + canonical).encode()).hexdigest()
        out.append(json.dumps({**body, "hash": previous}).encode())
    return out


def first(kind: str, at: int = 0) -> int:
    """The place in the log of the event of this kind, the `at`th."""
    return [n for n, event in enumerate(EVENTS) if type(event).__name__.lower() == kind][at]


def edit(n: int, **fields: object) -> Callable[[list[dict]], None]:
    """Change fields of the event at place `n`."""

    def change(content: list[dict]) -> None:
        content[n]["event"].update(fields)

    return change


def test_any_edit_dropping_or_reordering_is_found_where_it_begins() -> None:
    """DESIGN.md section 3: the log is hash-linked."""
    for n in range(len(LOG)):
        with pytest.raises(Broken) as found:
            verify([*LOG[:n], LOG[n].replace(b'"hash":"', b'"hash":"0', 1), *LOG[n + 1 :]])
        assert found.value.seq == n + 1
        if n + 1 < len(LOG):
            for other in ([*LOG[:n], *LOG[n + 1 :]], [*LOG[:n], LOG[n + 1], LOG[n], *LOG[n + 2 :]]):
                with pytest.raises(Broken) as found:
                    verify(other)
                assert found.value.seq == n + 1
        with pytest.raises(Broken) as found:
            verify([*LOG[: n + 1], LOG[n], *LOG[n + 1 :]])
        assert found.value.seq == n + 2


FORGERIES: dict[str, tuple[Callable[[list[dict]], None], int, str]] = {
    "an illegal play": (edit(first("moved"), play=[[24, 1]]), first("moved") + 1, "not_that_die"),
    "a play of the other side": (edit(first("moved"), by="black"), first("moved") + 1, "not_your_turn"),
    "moves in another order than the log keeps": (
        lambda content: content[first("moved")]["event"]["play"].reverse(),
        first("moved") + 1,
        "the rules make of it",
    ),
    "a die of seven": (edit(first("rolled", 2), dice=[7, 1]), first("rolled", 2) + 1, "dice show 1 to 6"),
    "dice other than the script's": (edit(first("rolled", 1), dice=[2, 1]), first("rolled", 1) + 1, "script"),
    "an opening won by the lower die": (edit(first("rolled", 1), by="black"), first("rolled", 1) + 1, "rules make"),
    "a roll that opens in the middle": (
        edit(first("rolled", 2), opening=True),
        first("rolled", 2) + 1,
        "not_your_turn",
    ),
    "a third player": (
        lambda content: content.insert(3, {**content[2], "seq": 4}),
        4,
        "already_seated",
    ),
    "settings that cannot be": (edit(0, settings={"length": 0}), 1, "invalid_settings"),
    "a wrong seat": (edit(1, color="white"), 2, "the rules make of it"),
    "an unknown kind": (edit(first("moved"), kind="moved_twice"), first("moved") + 1, "not an event"),
    "an unknown field": (edit(first("moved"), note="hm"), first("moved") + 1, "not an event"),
    "a field of another type": (edit(first("rolled"), dice="31"), first("rolled") + 1, "not an event"),
    "time running backwards": (
        lambda content: content[5].update(at=encode_time(START - timedelta(seconds=1))),
        6,
        "earlier",
    ),
    "a time in another form": (lambda content: content[5].update(at="30.11.2026"), 6, "its time is"),
    "a time of another zone": (
        lambda content: content[5].update(at="2026-11-30T09:00:00.000000+01:00"),
        6,
        "its time is",
    ),
    "a gap in the numbers": (lambda content: content[5].update(seq=7), 6, "has number 7"),
    "something after the end": (
        lambda content: content.append(
            {**content[-1], "seq": len(content) + 1, "event": {"kind": "doubled", "by": "white"}}
        ),
        len(LOG) + 1,
        "match_over",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_log_with_fresh_hashes_is_found_by_the_rules(forgery: str) -> None:
    change, seq, why = FORGERIES[forgery]
    with pytest.raises(Broken) as found:
        verify(relinked(change))
    assert found.value.seq == seq
    assert why in found.value.why


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"seq":1}', LOG[0] + b"x", LOG[0][:-1]]
)
def test_what_is_no_record_is_said_to_be_none(text: bytes) -> None:
    with pytest.raises(Broken) as found:
        verify([text])
    assert found.value.seq == 1


def test_an_empty_log_is_no_match() -> None:
    with pytest.raises(Broken, match="empty"):
        verify([])


def test_a_roll_that_cannot_be_played_must_be_followed_by_its_dance() -> None:
    """DESIGN.md section 2: a dance follows its roll at once, so nobody can resign in between."""
    start = "XGID=aBBBBBBA------------------:0:0:-1:00:0:0:0:5:10"  # black on the bar against a closed board
    events: list[Event] = []
    match: Match | None = None
    for command in (
        Create(
            match="m2",
            settings=Settings(length=5, cube_limit=1024, sandbox=Sandbox(start=start, dice=(Dice(6, 5),))),
            color=Color.WHITE,
            player="ann",
        ),
        Join(player="bob"),
        Roll(by=Color.BLACK, dice=Dice(6, 5)),
    ):
        for event in decide(match, command):
            match = evolve(match, event)
            events.append(event)
    assert [type(event).__name__ for event in events[-2:]] == ["Rolled", "Moved"]
    verify(lines(events))
    resigned = Resigned(by=Color.BLACK, stake=Stake.SINGLE)
    with pytest.raises(Broken, match="followed by its dance"):
        verify(lines([*events[:-1], resigned]))


def fold_to(events: list[Event], n: int) -> Match:
    """The match after the first `n` events."""
    match: Match | None = None
    for event in events[:n]:
        match = evolve(match, event)
    assert match is not None
    return match


def test_doubling_and_refusing_verify_too() -> None:
    events = EVENTS[:5]
    match = fold_to(events, 5)
    assert isinstance(match.phase, ToPlay)
    play = legal_plays(match.board, match.phase.color, match.phase.dice)[0]
    for command in (Move(by=Color.WHITE, play=play), Double(by=Color.BLACK), Refuse(by=Color.WHITE)):
        for event in decide(match, command):
            match = evolve(match, event)
            events.append(event)
    assert match.winner is Color.BLACK
    assert verify(lines(events)).match == match


def test_a_play_is_written_as_pairs_of_points() -> None:
    moved = next(event for event in EVENTS if type(event).__name__ == "Moved")
    assert all(isinstance(move, CheckerMove) for move in moved.play)  # type: ignore[union-attr]
