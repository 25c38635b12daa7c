"""Windows: what this process knows of the matches that somebody here watches, read once and shared by all who watch.

A window holds the newest steps of one match. What this process appends extends it at once; what others append is
read when the bus rings, once however many watch. A lost ring is made up for by asking the store now and then which
matches have moved on. A watcher has a cursor and no queue: who is behind the window reads the log at its own pace.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime

from msgspec import Struct

from domain.match import Match
from infra import traces
from infra.bus import Bus
from infra.histogram import Histogram
from infra.log import Recorded, applied
from infra.store import Damaged, SqlStore, Unavailable
from service.errors import logger

STEPS = 32
"""Steps that a window holds."""

PAGE = 64
"""Records read at once, which is what a watcher behind its window holds in memory."""

POLL = 1.0
POLL_CONNECTED = 5.0
"""Seconds between two looks for what no ring told of: without a connection to other processes, and with one."""


class Step(Struct, frozen=True):
    """One recorded event and the match after it."""

    recorded: Recorded
    match: Match


class _Window:
    """The newest steps of a match; `version` is that of the last one."""

    def __init__(self, match_id: str) -> None:
        self.match_id = match_id
        self.steps: deque[Step] = deque(maxlen=STEPS)
        self.version = 0
        self.watchers = 0
        self.moved = asyncio.Event()
        """Set for an instant whenever there is news."""
        self.reading: asyncio.Task[None] | None = None
        self.unread = True
        """Whether the log must be looked at, whatever was heard."""
        self.heard = 0
        """The newest number heard of since the last look."""
        self.failure: Exception | None = None
        self.traces: dict[int, str] = {}
        """The traces that the newest steps belong to, where they do."""

    def extend(self, steps: Iterable[Step]) -> None:
        """Take those that follow; others are known already, or something between them and these is not."""
        trace = traces.current()
        for step in steps:
            if step.recorded.seq == self.version + 1:
                self.steps.append(step)
                self.version += 1
                if trace is not None:
                    self.traces[self.version] = trace
                    self.traces.pop(self.version - STEPS, None)
        self.wake()

    def wake(self) -> None:
        self.moved.set()
        self.moved.clear()

    def step(self, seq: int) -> Step | None:
        """The step of this number, if it is here."""
        index = seq - (self.version - len(self.steps)) - 1
        return self.steps[index] if 0 <= index < len(self.steps) else None

    @property
    def last(self) -> Step | None:
        return self.steps[-1] if self.steps else None


class Windows:
    """The windows of a process, for one event loop."""

    def __init__(self, store: SqlStore, bus: Bus) -> None:
        self._store = store
        self._bus = bus
        self._windows: dict[str, _Window] = {}
        self.news_seconds = Histogram()
        """How old an event of another process was when it was known here, where somebody watched for it."""
        self.missed = 0
        """How often a look at the store has found news of a watched match of which no ring had told."""
        self._polling: asyncio.Task[None] | None = None
        self._position: int | None = None
        """Where the global feed stood before any window was read, and up to where its news have been heard."""

    def __len__(self) -> int:
        return len(self._windows)

    def close(self) -> None:
        """Read no more."""
        for window in list(self._windows.values()):
            self._drop(window)

    async def steps(self, match_id: str, after: int) -> AsyncGenerator[Step]:
        """Every step of an existing match after number `after`, once and in order, those to come included.

        Ends when the match is over. While the store is Unavailable there is no news; raises Damaged.
        """
        window = self._windows.get(match_id) or self._open(match_id)
        window.watchers += 1
        self.ring(match_id, after)  # who has seen it may have seen it elsewhere
        last: Step | None = None
        try:
            while True:
                if step := window.step(after + 1):
                    last, after = step, after + 1
                    yield step
                    await asyncio.sleep(0)  # what a step costs is up to who takes it: others have their turn
                elif after < window.version:
                    page = await self._page_at_last(match_id, last)
                    if not page:
                        raise _damaged(match_id, after + 1)
                    for last in page:
                        if last.recorded.seq > after:
                            after = last.recorded.seq
                            yield last
                            await asyncio.sleep(0)
                elif window.last is not None and window.last.match.ended:
                    return
                elif window.failure is not None:
                    raise window.failure.with_traceback(None)
                else:
                    await window.moved.wait()
        finally:
            window.watchers -= 1
            if not window.watchers:
                self._drop(window)

    async def past(self, match_id: str, after: int) -> AsyncGenerator[Step]:
        """The steps that the log has after number `after`, read page by page."""
        last: Step | None = None
        while page := await self._page_at_last(match_id, last):
            for last in page:
                if last.recorded.seq > after:
                    yield last
                    await asyncio.sleep(0)

    def at(self, match_id: str, seq: int) -> tuple[datetime | None, int]:
        """When an event of a watched match was recorded, if it is one of the newest; and the newest one's number."""
        window = self._windows.get(match_id)
        step = window.step(seq) if window else None
        return step.recorded.at if step else None, window.version if window else seq

    def trace(self, match_id: str, seq: int) -> str | None:
        """The `traceparent` of what has made an event of a watched match known here."""
        window = self._windows.get(match_id)
        return window.traces.get(seq) if window else None

    def newest(self, match_id: str) -> Match | None:
        """A match that is watched here, as far as its window has come."""
        window = self._windows.get(match_id)
        return window.last.match if window and window.last else None

    def extend(self, match_id: str, steps: list[Step]) -> None:
        """What this process has appended to a match."""
        if window := self._windows.get(match_id):
            window.extend(steps)
            self.ring(match_id, steps[-1].recorded.seq)  # for what may be missing between

    def ring(self, match_id: str, seq: int) -> None:
        """A match has come to `seq`; 0 if that is not known."""
        if window := self._windows.get(match_id):
            window.heard = max(window.heard, seq)
            window.unread |= seq == 0
            self._look(window)

    def _open(self, match_id: str) -> _Window:
        window = self._windows[match_id] = _Window(match_id)
        self._bus.subscribe(match_id)  # first, so that nothing falls between it and the reading
        self._look(window)
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll(), context=contextvars.Context())  # of no one request
        return window

    def _drop(self, window: _Window) -> None:
        if self._windows.get(window.match_id) is not window:
            return
        del self._windows[window.match_id]
        self._bus.unsubscribe(window.match_id)
        if window.reading:
            window.reading.cancel()
        if not self._windows and self._polling:
            self._polling.cancel()
            self._polling = self._position = None

    def _look(self, window: _Window) -> None:
        """Read what is news, if there is any: never twice at once, and again if it is rung for meanwhile."""
        if window.reading is None and window.failure is None and (window.unread or window.heard > window.version):
            window.reading = asyncio.create_task(self._read(window))

    async def _read(self, window: _Window) -> None:
        with traces.within("news", match=window.match_id) if traces.current() else nullcontext():
            await self._read_news(window)

    async def _read_news(self, window: _Window) -> None:
        opened = window.version > 0  # what it begins with is no news
        try:
            await self._find_position()
            while window.unread or window.heard > window.version:
                window.unread, window.heard = False, 0
                page = await self._page(window.match_id, window.last)
                if opened:
                    now = datetime.now(UTC)
                    for step in page:
                        if step.recorded.seq > window.version:
                            self.news_seconds.observe((now - step.recorded.at).total_seconds())
                window.extend(page)
                opened = len(page) < PAGE or opened
                window.unread |= len(page) == PAGE
        except Damaged as error:
            window.failure = error
            window.wake()
        except Unavailable:
            window.unread = True  # until the next ring or poll
        except Exception as error:
            window.failure = error
            window.wake()
        finally:
            window.reading = None

    async def _find_position(self) -> None:
        """Know where the feed stands, before any window is read: what comes later, the next poll tells of."""
        if self._position is None:
            position, _ = await self._store.news(None)
            if self._position is None:
                self._position = position

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_CONNECTED if self._bus.connected else POLL)
            try:
                await self._find_position()
                self._position, newest = await self._store.news(self._position)
            except Unavailable:
                continue
            except Exception as error:
                logger.error("unforeseen error of a poll", exc_info=error)
                continue
            for match_id, seq in newest.items():
                window = self._windows.get(match_id)
                self.missed += window is not None and max(window.version, window.heard) < seq
                self.ring(match_id, seq)
            for window in self._windows.values():
                self._look(window)

    async def _page_at_last(self, match_id: str, after: Step | None) -> list[Step]:
        """The same page, however long the store cannot be used."""
        while True:
            try:
                return await self._page(match_id, after)
            except Damaged:
                raise
            except Unavailable:
                await asyncio.sleep(POLL)

    async def _page(self, match_id: str, after: Step | None) -> list[Step]:
        """The steps in the log that follow a step (None: from the start), a page at most. Raises Unavailable."""
        seq, match = (after.recorded.seq, after.match) if after else (0, None)
        steps = []
        for recorded in await self._store.read(match_id, seq, seq + PAGE):
            seq += 1
            if recorded.seq != seq:
                raise _damaged(match_id, seq)
            try:
                match = applied(match, recorded)
            except AssertionError as error:
                raise _damaged(match_id, seq) from error
            steps.append(Step(recorded, match))
        return steps


def _damaged(match_id: str, seq: int) -> Damaged:
    return Damaged(f"the log of match {match_id} is damaged at event {seq}; `videau verify {match_id}` says how")
