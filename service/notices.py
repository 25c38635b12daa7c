"""What is told beside the log: whether the players are there, and who proposes a rematch. None of it is in the log.

A player is there while it watches the match by a socket or a stream of its own. One that has left is called away after
a moment, since pages are reloaded.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from domain.board import Color
from infra.bus import Bus
from infra.ids import rematch_id
from infra.presence import Presence, Presences
from infra.store import SqlStore, Unavailable
from service.clocks import Clocks
from service.errors import logger

CHANNEL = "beside:"
"""What the bus calls what is beside a match, before its id."""

GRACE = 3.0
"""Seconds after which a player that has gone is called gone."""

POLL = 5.0
"""Seconds between two looks for what no ring told of, such as the death of a process."""

CHUNK = 500


class Notice(NamedTuple):
    """Something told beside the log: a player's presence, or a proposed or started rematch."""

    color: Color
    presence: Presence | None
    """None for a rematch, which `color` proposes."""
    rematch: str | None = None
    """The rematch that has started."""


class _Board:
    """What is known beside a match that somebody watches here."""

    def __init__(self) -> None:
        self.watchers = 0
        self.notices: dict[object, Notice] = {}
        self.changed = asyncio.Event()


class Notices:
    """Everything beside the logs, for one process."""

    def __init__(self, store: SqlStore, bus: Bus, clocks: Clocks) -> None:
        self._store = store
        self._bus = bus
        self._clocks = clocks
        self._presences = Presences(store.database, clocks.process)
        self._sockets: dict[tuple[str, str], int] = {}
        self._boards: dict[str, _Board] = {}
        self._polling: asyncio.Task[None] | None = None
        self._unwritten: dict[tuple[str, str], datetime | None] = {}
        self._writing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @contextmanager
    def here(self, match_id: str, player_id: str) -> Iterator[None]:
        """While this lasts, the player is connected to the match."""
        self.enter(match_id, player_id)
        try:
            yield
        finally:
            self.leave(match_id, player_id)

    def enter(self, match_id: str, player_id: str) -> None:
        """The player is connected to the match once more."""
        key = match_id, player_id
        self._sockets[key] = self._sockets.get(key, 0) + 1
        if self._sockets[key] == 1:
            self._note(key, None)

    def leave(self, match_id: str, player_id: str) -> None:
        """The player is connected to it once less."""
        key = match_id, player_id
        self._sockets[key] -= 1
        if not self._sockets[key]:
            asyncio.get_running_loop().call_later(GRACE, self._left, key, self._clocks.now)

    async def tidy(self) -> None:
        """Forget what is long over. Raises Unavailable."""
        await self._presences.tidy(self._clocks.now)

    async def of(self, match_id: str) -> dict[str, Presence]:
        """The presence of each player who is or was connected to the match."""
        return (await self._presences.of([match_id], self._clocks.now)).get(match_id, {})

    async def watch(self, match_id: str) -> AsyncGenerator[Notice]:
        """All that is so beside a match, and whatever changes; without an end."""
        board = self._boards.get(match_id)
        if board is None:
            board = self._boards[match_id] = _Board()
            self._bus.subscribe(CHANNEL + match_id)
            if self._polling is None:
                self._polling = asyncio.create_task(self._poll())
        board.watchers += 1
        told: dict[object, Notice] = {}
        try:
            await self._look([match_id])
            while True:
                for key, notice in list(board.notices.items()):
                    if told.get(key) != notice:
                        told[key] = notice
                        yield notice
                if all(told.get(key) == notice for key, notice in board.notices.items()):
                    await board.changed.wait()
        finally:
            board.watchers -= 1
            if not board.watchers and self._boards.get(match_id) is board:
                del self._boards[match_id]
                self._bus.unsubscribe(CHANNEL + match_id)

    def ring(self, channel: str) -> None:
        """Something beside a match is another thing now."""
        match_id = channel.removeprefix(CHANNEL)
        if match_id in self._boards:
            looking = asyncio.create_task(self._look([match_id]))
            self._tasks.add(looking)
            looking.add_done_callback(self._tasks.discard)

    def tell(self, match_id: str) -> None:
        """Ring for what is new beside a match, here and elsewhere."""
        self._bus.publish(CHANNEL + match_id, 0)

    @property
    def watchers(self) -> int:
        """How many watch what is beside a match here."""
        return sum(board.watchers for board in self._boards.values())

    def close(self) -> None:
        """Tell nothing more."""
        for task in (*self._tasks, *filter(None, [self._polling, self._writing])):
            task.cancel()

    def _left(self, key: tuple[str, str], at: datetime) -> None:
        if self._sockets.get(key) == 0:
            del self._sockets[key]
            self._note(key, at)

    def _note(self, key: tuple[str, str], left_at: datetime | None) -> None:
        self._unwritten[key] = left_at
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """Write what is new, many in one transaction: after a restart all players come at once."""
        while self._unwritten:
            batch, self._unwritten = self._unwritten, {}
            try:
                await self._presences.note(batch)
            except Unavailable as error:
                logger.error("presences are noted later: %s", error)
                self._unwritten = batch | self._unwritten
                await asyncio.sleep(POLL)
                continue
            except Exception as error:
                logger.error("unforeseen error of presences", exc_info=error)
                continue
            for match_id in {match_id for match_id, _ in batch}:
                self.tell(match_id)
        self._writing = None

    async def _poll(self) -> None:
        while self._boards:
            await asyncio.sleep(POLL)
            ids = list(self._boards)
            for start in range(0, len(ids), CHUNK):
                await self._look(ids[start : start + CHUNK])
        self._polling = None

    async def _look(self, match_ids: list[str]) -> None:
        """Read what is so beside these matches."""
        now = self._clocks.now
        try:
            rows = await self._store.matches(match_ids)
            presences = await self._presences.of(match_ids, now)
            proposals = await self._store.proposals(match_ids)
            successors = (
                {row.id for row in await self._store.matches(map(rematch_id, proposals))} if proposals else set()
            )
        except Unavailable as error:
            logger.error("what is beside the logs is not known now: %s", error)
            return
        except Exception as error:
            logger.error("unforeseen error beside the logs", exc_info=error)
            return
        for row in rows:
            board = self._boards.get(row.id)
            if board is None:
                continue
            before = dict(board.notices)
            for color, player_id in ((Color.WHITE, row.white), (Color.BLACK, row.black)):
                if player_id is not None and player_id in presences.get(row.id, {}):
                    board.notices[color] = Notice(color, presences[row.id][player_id])
            if row.id in proposals:
                successor = rematch_id(row.id)
                started = successor if successor in successors else None
                board.notices["rematch"] = Notice(proposals[row.id], None, started)
            if board.notices != before:
                board.changed.set()
                board.changed.clear()
