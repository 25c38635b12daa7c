"""The doorbell: "match x is at seq n". It carries no event; the store is the only truth."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

PERIODIC_WAKE = 15.0
"""Seconds after which a subscriber is woken without a ring, which covers a lost one."""


class Bus(Protocol):
    """Rings between whoever appends to a match and whoever watches it."""

    async def publish(self, match_id: str, seq: int) -> None:
        """Ring for a match that has come to `seq`."""

    def subscribe(self, match_id: str) -> AbstractContextManager[AsyncIterator[None]]:
        """Wakes, of which the first comes at once and another after every ring."""


class LocalBus:
    """The doorbell inside one process. Rings while a subscriber is busy are one ring: nothing queues up."""

    def __init__(self, periodic_wake: float = PERIODIC_WAKE) -> None:
        self._bells: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._periodic_wake = periodic_wake

    async def publish(self, match_id: str, seq: int) -> None:
        for bell in self._bells.get(match_id, ()):
            bell.set()

    @contextmanager
    def subscribe(self, match_id: str) -> Iterator[AsyncIterator[None]]:
        bell = asyncio.Event()
        self._bells[match_id].add(bell)
        try:
            yield self._wakes(bell)
        finally:
            self._bells[match_id].discard(bell)
            if not self._bells[match_id]:
                del self._bells[match_id]

    async def _wakes(self, bell: asyncio.Event) -> AsyncIterator[None]:
        while True:
            bell.clear()
            yield
            with suppress(TimeoutError):
                async with asyncio.timeout(self._periodic_wake):
                    await bell.wait()
