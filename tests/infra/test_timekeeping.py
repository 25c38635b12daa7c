"""Who looks after the clocks, and what counts as an outage; on both databases, with times as they are given."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.engine import URL

from domain.board import Color, Dice
from domain.commands import Create, Join, Roll
from domain.events import Clock, Settings
from domain.match import Match
from domain.rules import decide, evolve
from infra.log import GENESIS, instant, record
from infra.store import Append, SqlStore
from infra.timekeeping import GAP, Outage, Timekeeping
from service.clocks import Clocks

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
async def store(database: URL) -> AsyncIterator[SqlStore]:
    opened = SqlStore(database, create=True)
    yield opened
    await opened.close()


class Watched(Timekeeping):
    """Timekeeping by a clock that stands where it is put."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store.database, lambda connection: self.now)
        self.now = NOON

    async def beats(self, process: str, at: datetime) -> bool:
        """Whether the process looks after the clocks, having beaten at that time."""
        self.now = at
        beat = await self.beat(process)
        assert beat.now == at
        return beat.holds


@pytest.fixture
def keeping(store: SqlStore) -> Watched:
    return Watched(store)


async def running(store: SqlStore, match_id: str, at: datetime, clock: Clock | None) -> Match:
    """A match in which white has opened at this time."""
    match: Match | None = None
    events = []
    for command in (
        Create(match=match_id, settings=Settings(length=7, clock=clock), color=Color.WHITE, player="ann"),
        Join(player="bob"),
        Roll(by=None, dice=Dice(3, 1)),
    ):
        for event in decide(match, command, instant(at)):
            match = evolve(match, event, instant(at))
            events.append(event)
    assert match is not None
    await store.append(Append(match=match, recorded=record(GENESIS, 0, at, events), auto_roll=(True, True)))
    return match


async def test_one_process_at_a_time_looks_after_the_clocks(keeping: Watched) -> None:
    assert await keeping.beats("one", NOON)
    assert not await keeping.beats("two", NOON + SECOND)
    assert await keeping.beats("one", NOON + 4 * SECOND)
    assert not await keeping.beats("two", NOON + 4 * SECOND + GAP)
    assert await keeping.beats("two", NOON + 5 * SECOND + GAP), "the first has not beaten for too long"
    assert not await keeping.beats("one", NOON + 6 * SECOND + GAP)
    assert await keeping.outages(None) == []


async def test_a_process_that_stops_makes_room_at_once(keeping: Watched) -> None:
    assert await keeping.beats("one", NOON)
    keeping.now = NOON + SECOND
    await keeping.leave("one")
    assert await keeping.beats("two", NOON + 2 * SECOND)


async def test_without_any_beat_there_was_an_outage(keeping: Watched) -> None:
    await keeping.beats("one", NOON)
    await keeping.beats("one", NOON + GAP)
    assert await keeping.outages(None) == [], "one late beat is none"
    later = NOON + timedelta(hours=1)
    await keeping.beats("two", later)
    await keeping.beats("one", later + SECOND)
    assert await keeping.outages(None) == [Outage(NOON + GAP, later)]
    assert await keeping.outages(later) == []
    assert await keeping.outages(later - SECOND) == [Outage(NOON + GAP, later)]


async def test_a_process_whose_clock_is_behind_takes_nothing_back(keeping: Watched) -> None:
    await keeping.beats("one", NOON)
    await keeping.beats("behind", NOON - timedelta(minutes=5))
    await keeping.beats("one", NOON + 2 * SECOND)
    assert await keeping.outages(None) == []


async def test_the_clocks_that_run_out_next_come_first(store: SqlStore, keeping: Watched) -> None:
    await running(store, "slow", NOON, Clock(reserve=100, delay=0))
    await running(store, "quick", NOON + SECOND, Clock(reserve=5, delay=5))
    await running(store, "untimed", NOON, None)
    deadlines = [("quick", NOON + 11 * SECOND), ("slow", NOON + 100 * SECOND)]
    assert await keeping.soonest(10) == deadlines
    assert await keeping.soonest(1) == deadlines[:1]
    assert await keeping.soonest(10, without=["quick"]) == deadlines[1:]
    assert await keeping.standing_since(NOON + SECOND, "", 10) == ["slow"]
    assert await keeping.standing_since(NOON + 2 * SECOND, "", 10) == ["quick", "slow"]
    assert await keeping.standing_since(NOON + 2 * SECOND, "quick", 10) == ["slow"]


async def test_what_outages_took_is_what_they_have_in_common_with_the_wait(keeping: Watched) -> None:
    for begins, ends in ((0, 60), (100, 130), (140, 200)):
        await keeping.beats("one", NOON + begins * SECOND)
        await keeping.beats("one", NOON + ends * SECOND)
        for beat in range(ends, {60: 100, 130: 140}.get(ends, ends), 5):
            await keeping.beats("one", NOON + beat * SECOND)

    async def settle(match_id: str) -> bool:
        return True

    clocks = Clocks(keeping, settle)
    await asyncio.gather(*(clocks.know() for _ in range(10)))  # all at once, and each outage is known once
    second = 1_000_000
    for since, lost in (
        (-10, 60 + 30 + 60),
        (0, 150),
        (30, 30 + 30 + 60),
        (60, 90),
        (99, 90),
        (110, 20 + 60),
        (199, 1),
    ):
        assert clocks.lost(NOON + since * SECOND) == lost * second, since
