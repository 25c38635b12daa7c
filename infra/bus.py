"""The doorbell: "match x is at seq n". It carries no event; the store is the only truth."""

from collections.abc import Callable
from typing import Protocol

Ring = Callable[[str, int], None]
"""Told of a match, and of the seq it has come to; 0 when that is not known: look at the store."""


class Bus(Protocol):
    """Rings between whoever appends to a match and whoever watches it, in this process or another."""

    @property
    def connected(self) -> bool:
        """Whether the rings of other processes come through now."""

    def start(self, ring: Ring) -> None:
        """Begin, in the running event loop: `ring` is called for the matches subscribed to, from that loop."""

    async def close(self) -> None:
        """Stop."""

    def publish(self, match_id: str, seq: int) -> None:
        """Ring for a match that has come to `seq`. Never waits and never fails: a ring may be lost."""

    def subscribe(self, match_id: str) -> None:
        """Be rung for this match from now on. Rings 0 once the subscription holds, also after each reconnection."""

    def unsubscribe(self, match_id: str) -> None:
        """Be rung for it no more."""


class LocalBus:
    """The doorbell inside one process."""

    connected = False
    """It knows of no other process."""

    def __init__(self) -> None:
        self._ring: Ring = lambda match_id, seq: None
        self._matches: set[str] = set()

    def start(self, ring: Ring) -> None:
        self._ring = ring

    async def close(self) -> None:
        pass

    def publish(self, match_id: str, seq: int) -> None:
        if match_id in self._matches:
            self._ring(match_id, seq)

    def subscribe(self, match_id: str) -> None:
        self._matches.add(match_id)
        self._ring(match_id, 0)

    def unsubscribe(self, match_id: str) -> None:
        self._matches.discard(match_id)
