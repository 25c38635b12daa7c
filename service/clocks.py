"""Time: whose clock has run out, and what an outage gives back. One process at a time looks, each can judge."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from infra.histogram import Histogram
from infra.ids import new_id
from infra.store import Unavailable
from infra.timekeeping import BEAT, GAP, Outage, Timekeeping
from service.errors import logger

LOOK = 1.0
"""Seconds between two looks at the clocks at most."""

PAGE = 200
"""Matches that are looked at together."""

FORGIVEN = 60
"""Seconds after which a match that could not be ended is tried again."""

Settle = Callable[[str], Awaitable[bool]]
"""Ends a match whose clock has run out, or gives it back what an outage took; whether there was anything to do."""


class Clocks:
    """The clocks of all matches, as one process sees to them."""

    def __init__(self, keeping: Timekeeping, settle: Settle) -> None:
        self.process = new_id()
        """What this process is called."""
        self.holds = False
        """Whether it is this process that looks for clocks which have run out."""
        self.fallen = 0
        """Matches that this process has looked at because of their clock."""
        self.overdue = 0.0
        """For how many seconds a clock had run out at the last look that nobody had settled."""
        self.look_seconds = Histogram()
        """How long each look at the clocks took, with settling what was due."""
        self._keeping = keeping
        self._settle = settle
        self._outages: list[Outage] = []
        self._beaten = datetime.fromtimestamp(0, UTC)
        self._ahead = timedelta()
        """By how much the database's clock is ahead of ours."""
        self._beating = asyncio.Lock()
        self._credited: datetime | None = None
        self._failing: dict[str, datetime] = {}
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look from now on."""
        with suppress(Unavailable):  # before a clock is judged, it is tried again
            await self.know()
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Look no more; another process may."""
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
            with suppress(Unavailable):
                await self._keeping.leave(self.process)

    async def know(self) -> None:
        """Know of every outage until now: one may just have ended, and nobody has noted it yet. Raises Unavailable."""
        if datetime.now(UTC) - self._beaten >= GAP:
            await self._beat(GAP)

    @property
    def now(self) -> datetime:
        """The time by which processes and outages are judged, the same for all."""
        return datetime.now(UTC) + self._ahead

    @property
    def resumed(self) -> datetime | None:
        """When the newest outage ended."""
        return self._outages[-1].ended if self._outages else None

    def lost(self, since: datetime) -> int:
        """Microseconds that outages have taken from a match in which nothing has happened since then."""
        lost = timedelta()
        for began, ended in reversed(self._outages):
            if ended <= since:
                break
            lost += ended - max(began, since)
        return lost // timedelta(microseconds=1)

    async def _beat(self, pause: timedelta) -> None:
        """Beat, and know of the outages that others have noted, unless that was done within this time."""
        async with self._beating:
            if datetime.now(UTC) - self._beaten < pause:
                return
            try:
                self.holds, now = await self._keeping.beat(self.process)
            except Unavailable:
                self.holds = False
                raise
            self._beaten = datetime.now(UTC)
            self._ahead = now - self._beaten
            self._outages += await self._keeping.outages(self.resumed)

    async def _look(self) -> None:
        """Beat, and look after the clocks, for ever; a database that cannot be used is asked again."""
        waiting = False
        while True:
            wait = LOOK
            try:
                await self._beat(timedelta(seconds=BEAT))
                if self.holds:
                    await self._credit()
                    wait = await self._end_due()
                else:
                    self.overdue = 0.0  # it is another's to say
                waiting = False
            except Unavailable as error:
                if not waiting:
                    logger.error("clocks wait: %s", error)
                waiting = True
            except Exception as error:
                logger.error("unforeseen error of the clocks", exc_info=error)
            await asyncio.sleep(wait)

    async def _end_due(self) -> float:
        """Settle what is due, and say how many seconds there are until the next look."""
        now, began = datetime.now(UTC), time.perf_counter()
        self._failing = {id_: until for id_, until in self._failing.items() if until > now}
        soonest = await self._keeping.soonest(PAGE, self._failing)
        due = [id_ for id_, deadline in soonest if deadline <= now]
        self.overdue = (now - soonest[0][1]).total_seconds() if due else 0.0
        await self._settle_all(due)
        self.look_seconds.observe(time.perf_counter() - began)
        if due:
            return 0.0
        return min(LOOK, max(0.01, (soonest[0][1] - now).total_seconds())) if soonest else LOOK

    async def _credit(self) -> None:
        """Give all clocks back what the newest outage took, once."""
        if not self._outages or self._outages[-1].ended == self._credited:
            return
        newest, last = self._outages[-1].ended, ""
        while standing := await self._keeping.standing_since(newest, last, PAGE):
            await self._settle_all(standing)
            last = standing[-1]
        self._credited = newest

    async def _settle_all(self, ids: list[str]) -> None:
        """Settle each; one that cannot be is left alone for a while, so that it stops no other."""
        self.fallen += len(ids)
        outcomes = await asyncio.gather(*map(self._settle, ids), return_exceptions=True)
        for id_, outcome in zip(ids, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                logger.error("the clock of match %s cannot be settled now: %s", id_, outcome, extra={"match": id_})
            if outcome is not True:
                again = FORGIVEN if isinstance(outcome, BaseException) else BEAT
                self._failing[id_] = datetime.now(UTC) + timedelta(seconds=again)
