"""Windows over real stores: each watcher gets every event once and in order, and little is read from the store."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy.engine import make_url

from infra.bus import LocalBus
from infra.log import Recorded
from infra.store import Append, Damaged, SqlStore, Unavailable
from service import windows
from service.windows import PAGE, STEPS, Step, Windows
from tests.played import script

SOON = 10
"""Seconds within which whatever comes at all has come."""


class CountingStore(SqlStore):
    """A store that counts what it is asked, takes its time, and can be made unavailable."""

    reads = 0
    lag: Callable[[], float] = staticmethod(lambda: 0.0)
    broken = False
    held: asyncio.Event | None = None
    """Reads end after it."""

    async def read(self, match_id: str, after: int = 0, until: int | None = None) -> list[Recorded]:
        self.reads += 1
        await asyncio.sleep(self.lag())
        if self.broken:
            raise Unavailable("out of order")
        records = await super().read(match_id, after, until)
        await asyncio.sleep(self.lag())
        if self.held:
            await self.held.wait()
        return records


class LossyBus(LocalBus):
    """A bus between processes that can be made to lose rings."""

    lost: Callable[[], bool] = staticmethod(lambda: False)

    def publish(self, match_id: str, seq: int) -> None:
        if not self.lost():
            super().publish(match_id, seq)


class House(NamedTuple):
    """One process that watches, `store`, `bus` and `windows`; and the `other` one's store, over the same file."""

    store: CountingStore
    other: SqlStore
    bus: LossyBus
    windows: Windows

    async def append(self, append: Append, steps: list[Step]) -> None:
        """As this process does it."""
        await self.store.append(append)
        self.windows.extend(append.match.id, steps)
        self.bus.publish(append.match.id, steps[-1].recorded.seq)

    async def append_elsewhere(self, append: Append) -> None:
        await self.other.append(append)
        self.bus.publish(append.match.id, append.recorded[-1].seq)

    async def has_opened(self, match_id: str) -> None:
        """Return when the read is over that opens a window: one under way may still find what is appended now."""
        await until(lambda: self.windows.newest(match_id) is not None)
        assert self.store.reads == 1


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[House]:
    database = make_url(f"sqlite:///{folder}/videau.db")
    store, other = CountingStore(database, create=True), SqlStore(database)
    bus = LossyBus()
    house = House(store, other, bus, Windows(store, bus))
    bus.start(house.windows.ring)
    yield house
    house.windows.close()
    await store.close()
    await other.close()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path) as house:
        yield house


async def collected(steps: AsyncGenerator[Step], seen: list[Step]) -> None:
    async with aclosing(steps):
        async for step in steps:
            seen.append(step)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not happened():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def watching(house: House, match_id: str, *afters: int) -> AsyncIterator[list[list[Step]]]:
    """What watchers have seen who start after these numbers."""
    seen: list[list[Step]] = [[] for _ in afters]
    tasks = [
        asyncio.create_task(collected(house.windows.steps(match_id, after), seen[n])) for n, after in enumerate(afters)
    ]
    yield seen
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("seed", range(8))
async def test_every_watcher_gets_every_event_once_and_in_order(
    house: House, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """However appends here and elsewhere, rings, lost rings, reads, failures, polls, going and coming interleave."""
    monkeypatch.setattr(windows, "POLL", 0.02)
    chance = random.Random(seed)
    played = script("real_001_galaxy1pt.mat", chance)
    log = [step for _, steps in played.appends for step in steps]
    house.store.lag = lambda: chance.choice([0, 0, 0.001, 0.004])
    house.bus.lost = lambda: chance.random() < 0.3
    known = 0

    async def watch(pace: float) -> None:
        await asyncio.sleep(chance.random() * 0.3)
        after = start = chance.randint(0, known)
        seen: list[Step] = []
        while len(seen) < len(log) - start:
            async with aclosing(house.windows.steps(played.match_id, after)) as steps:
                async for step in steps:
                    seen.append(step)
                    after = step.recorded.seq
                    await asyncio.sleep(chance.random() * pace)
                    if chance.random() < 0.02:
                        break
        assert seen == log[start:]

    async def fail_now_and_then() -> None:
        while True:
            await asyncio.sleep(chance.random() * 0.1)
            house.store.broken = chance.random() < 0.5

    await house.append(*played.appends[0])
    known = 2
    watchers = [asyncio.create_task(watch(chance.choice([0, 0, 0.01]))) for _ in range(20)]
    failing = asyncio.create_task(fail_now_and_then())
    for append, steps in played.appends[1:]:
        if chance.random() < 0.5:
            await house.append(append, steps)
        else:
            await house.append_elsewhere(append)
        known = append.recorded[-1].seq
        await asyncio.sleep(chance.choice([0, 0, 0, 0.005, 0.02]))
    async with asyncio.timeout(SOON):
        await asyncio.gather(*watchers)
    failing.cancel()
    assert len(house.windows) == 0


async def test_what_this_process_appends_is_never_read(house: House) -> None:
    played = script("real_001_galaxy1pt.mat", random.Random(1))
    await house.append(*played.appends[0])
    async with watching(house, played.match_id, *[0, 1, 2] * 20) as seen:
        await until(lambda: all(len(each) == 2 - n % 3 for n, each in enumerate(seen)))
        opening = house.store.reads
        assert opening == 1, "one read for all who came together"
        for append, steps in played.appends[1:]:
            await house.append(append, steps)
        await until(lambda: all(len(each) == played.events - n % 3 for n, each in enumerate(seen)))
        assert house.store.reads == opening
    assert len(house.windows) == 0


async def test_what_another_process_appends_is_read_once_however_many_watch(house: House) -> None:
    played = script("real_001_galaxy1pt.mat", random.Random(2))
    await house.append_elsewhere(played.appends[0][0])
    async with watching(house, played.match_id, *[2] * 50) as seen:
        await house.has_opened(played.match_id)
        for n, (append, _) in enumerate(played.appends[1:], 2):
            await house.append_elsewhere(append)
            await until(lambda last=append.recorded[-1].seq: all(len(each) == last - 2 for each in seen))  # type: ignore[misc]
            assert house.store.reads == n


async def test_rings_during_a_read_are_one_more_read(house: House) -> None:
    played = script("real_001_galaxy1pt.mat", random.Random(3))
    await house.append(*played.appends[0])
    async with watching(house, played.match_id, 2) as [seen]:
        await house.has_opened(played.match_id)
        house.store.held = asyncio.Event()
        for append, _ in played.appends[1:6]:
            await house.append_elsewhere(append)
        house.store.held.set()
        last = played.appends[5][0].recorded[-1].seq
        await until(lambda: len(seen) == last - 2)
        assert house.store.reads <= 3, "the one under way at the first ring, and one for all the others"


async def test_a_lost_ring_is_made_up_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "POLL", 0.02)
    played = script("real_001_galaxy1pt.mat", random.Random(4))
    await house.append(*played.appends[0])
    house.bus.lost = lambda: True
    async with watching(house, played.match_id, 0) as [seen]:
        for append, _ in played.appends[1:]:
            await house.append_elsewhere(append)
        await until(lambda: len(seen) == played.events)


async def test_an_own_append_and_a_ring_of_unknown_number_bring_what_was_missed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bus rings 0 when it is connected again; and what is appended here may follow what was not heard of."""
    monkeypatch.setattr(windows, "POLL", 60)
    played = script("real_001_galaxy1pt.mat", random.Random(11))
    await house.append(*played.appends[0])
    async with watching(house, played.match_id, 0) as [seen]:
        await until(lambda: len(seen) == 2)
        house.bus.lost = lambda: True
        await house.append_elsewhere(played.appends[1][0])
        await house.append(*played.appends[2])
        await until(lambda: len(seen) == played.appends[2][0].recorded[-1].seq)
        await house.append_elsewhere(played.appends[3][0])
        house.windows.ring(played.match_id, 0)
        await until(lambda: len(seen) == played.appends[3][0].recorded[-1].seq)


async def test_who_has_seen_more_elsewhere_brings_the_news(house: House) -> None:
    """A watcher that comes from another process is ahead of a window whose rings were lost."""
    played = script("real_001_galaxy1pt.mat", random.Random(5))
    await house.append(*played.appends[0])
    async with watching(house, played.match_id, 2) as [behind]:
        await house.has_opened(played.match_id)
        house.bus.lost = lambda: True
        await house.append_elsewhere(played.appends[1][0])
        last = played.appends[1][0].recorded[-1].seq
        async with watching(house, played.match_id, last):
            await until(lambda: len(behind) == last - 2)


async def test_who_is_behind_the_window_reads_pages_at_its_own_pace(house: House) -> None:
    played = script("real_031_galaxy7pt.mat", random.Random(6))
    log = [step for _, steps in played.appends for step in steps]
    assert len(log) > STEPS + 3 * PAGE
    await house.append(*played.appends[0])
    async with (
        watching(house, played.match_id, 2) as [quick],
        aclosing(house.windows.steps(played.match_id, 0)) as slow,
    ):
        first = await anext(slow)
        for append, steps in played.appends[1:]:
            await house.append(append, steps)
        await until(lambda: len(quick) == len(log) - 2)
        before = house.store.reads
        assert [first, *[step async for step in slow]] == log
        assert house.store.reads - before <= len(log) // PAGE + 1


async def test_a_window_that_is_opened_late_is_read_once_and_serves_the_newest(house: House) -> None:
    played = script("real_031_galaxy7pt.mat", random.Random(7))
    log = [step for _, steps in played.appends for step in steps]
    for append, _ in played.appends[:-1]:
        await house.append_elsewhere(append)
    now = played.appends[-2][0].recorded[-1].seq
    async with watching(house, played.match_id, *[now] * 5, *[now - STEPS] * 5) as seen:
        await until(lambda: all(len(each) == STEPS for each in seen[5:]))
        assert house.store.reads == now // PAGE + 1
        await house.append(*played.appends[-1])
        await until(lambda: seen[0] == log[now:] and seen[9] == log[now - STEPS :])
        assert house.store.reads == now // PAGE + 1


async def test_a_store_that_is_away_ends_nobodys_watching(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "POLL", 0.02)
    played = script("real_001_galaxy1pt.mat", random.Random(8))
    await house.append(*played.appends[0])
    house.store.broken = True
    async with watching(house, played.match_id, 0) as [seen]:
        for append, _ in played.appends[1:4]:
            await house.append_elsewhere(append)
        tried = house.store.reads
        await until(lambda: house.store.reads > tried + 3)
        assert not seen
        house.store.broken = False
        await until(lambda: len(seen) == played.appends[3][0].recorded[-1].seq)


@pytest.mark.parametrize(
    "damage",
    ["UPDATE events SET event = '{}' WHERE seq = 5", "DELETE FROM events WHERE seq = 5"],
    ids=["a garbled event", "a lost one"],
)
async def test_a_damaged_log_ends_watching_at_the_damage(house: House, tmp_path: Path, damage: str) -> None:
    played = script("real_001_galaxy1pt.mat", random.Random(9))
    for append, _ in played.appends[:8]:
        await house.append_elsewhere(append)
    with sqlite3.connect(tmp_path / "videau.db") as connection:
        connection.execute(damage)
    connection.close()
    for watch in (house.windows.steps, house.windows.past):
        seen: list[Step] = []
        with pytest.raises(Damaged, match=r"`videau verify \w+` says"):
            await asyncio.wait_for(collected(watch(played.match_id, 0), seen), SOON)
        assert len(seen) < 5
    assert len(house.windows) == 0


async def test_coming_and_going_leaves_nothing_behind(house: House) -> None:
    played = script("real_001_galaxy1pt.mat", random.Random(10))
    await house.append(*played.appends[0])

    async def visit() -> None:
        async with aclosing(house.windows.steps(played.match_id, 0)) as steps:
            await anext(steps)

    visits: list[Awaitable[None]] = [visit() for _ in range(50)]
    await asyncio.gather(*visits)
    assert len(house.windows) == 0
    assert not house.bus._matches
    assert house.windows._polling is None
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1
