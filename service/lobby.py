"""The lobby: who seeks an opponent, and which public matches there are, as they come and go."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sized
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from domain.breach import Breach, RuleError
from infra.append import Append
from infra.bus import Bus
from infra.ids import id_from, new_id
from infra.log import decode_time, encode_time
from infra.seeks import MOST, Seeks
from infra.store import MatchRow, SeekRow, SqlStore, Unavailable
from service.errors import logger

CHANNEL = "lobby:"
"""What the bus calls the lobby of an app, before its name."""

SHOWN_SEEKS = SHOWN_MATCHES = 100
"""The newest that a lobby shows."""

PAUSE, PAUSE_A_WATCHER, PAUSE_AN_ONLOOKER = 0.2, 0.002, 0.00005
"""Seconds between two looks at least, more for each execution that watches, and for each onlooker who shares one: what
the lobby costs is bounded."""

POLL = 5.0
"""Seconds between two looks for what no ring told of, such as seeks that have expired."""

BATCH = 64
"""Seeks that share a transaction at most."""

KEPT = timedelta(days=7)
"""How long what has become of a seek can be asked for after it expired."""

MakeMatch = Callable[[SeekRow, SeekRow], Append]


class LobbyChange(NamedTuple):
    """What has come and gone since the change before."""

    opened: list[SeekRow]
    closed: list[SeekRow]
    """Those that are gone; paired ones with their match."""
    listed: list[MatchRow]
    unlisted: list[str]


class Sight(NamedTuple):
    """What a lobby shows at a moment."""

    number: int
    """One more than that of the sight before."""
    seeks: dict[str, SeekRow]
    matches: dict[str, MatchRow]


class Hall:
    """The lobby of one app, while somebody watches it here."""

    def __init__(self) -> None:
        self.sight: Sight | None = None
        self.gone: dict[str, SeekRow] = {}
        """What has become of seeks that are open no more."""
        self.watchers: dict[asyncio.Event, Sized] = {}
        """What is set for each execution that watches when there is another sight, and who shares it."""
        self.rung = asyncio.Event()
        self.looking: asyncio.Task[None] | None = None

    def change(self, seen: Sight | None, sight: Sight) -> LobbyChange:
        """What is in `sight` and was not in the one before, and the other way round; a match whose score changed is
        listed anew."""
        if seen is None:
            return LobbyChange(list(sight.seeks.values()), [], list(sight.matches.values()), [])
        return LobbyChange(
            [seek for id_, seek in sight.seeks.items() if id_ not in seen.seeks],
            [self.gone.get(id_, seek) for id_, seek in seen.seeks.items() if id_ not in sight.seeks],
            [
                row
                for id_, row in sight.matches.items()
                if id_ not in seen.matches or _told(seen.matches[id_]) != _told(row)
            ],
            [id_ for id_ in seen.matches if id_ not in sight.matches],
        )


class Lobby:
    """The lobbies of all apps, for one process."""

    def __init__(self, store: SqlStore, bus: Bus, make: MakeMatch, tell: Callable[[str], None]) -> None:
        self._store = store
        self._bus = bus
        self._seeks = Seeks(store.database)
        self._make = make
        self._tell_match = tell
        self._halls: dict[str, Hall] = {}
        self._queue: list[tuple[SeekRow, asyncio.Future[SeekRow | None]]] = []
        self._pairing: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Seeks that wait for their transaction."""
        return len(self._queue)

    async def seek(
        self, player: str, app: str, terms: str, *, auto_roll: bool, entropy: str, seconds: int, key: str | None
    ) -> SeekRow:
        """Look for an opponent on these terms; paired at once where somebody else does. Raises RuleError."""
        now = datetime.now(UTC)
        seek = SeekRow(
            id=id_from(f"seek {player} {key}") if key else new_id(),
            player_id=player,
            app=app,
            terms=terms,
            auto_roll=auto_roll,
            entropy=entropy,
            created_at=encode_time(now),
            expires_at=encode_time(now + timedelta(seconds=seconds)),
        )
        answer: asyncio.Future[SeekRow | None] = asyncio.get_running_loop().create_future()
        self._queue.append((seek, answer))
        if self._pairing is None:
            self._pairing = asyncio.create_task(self._pair())
        found = await answer
        if found is None:
            raise RuleError(Breach.TOO_MANY_SEEKS, "you have {most} seeks open: cancel one first", most=MOST)
        cancelled = found.expires_at == found.created_at
        if _asked(found) != _asked(seek) or not (cancelled or _lasts(found) == _lasts(seek)):
            raise RuleError(Breach.KEY_REUSED, "the idempotency key {key!r} was used before with other input", key=key)
        return found

    async def cancel(self, seek_id: str, player: str) -> SeekRow:
        """Close a seek of the player's; one that is paired already stays so. Raises RuleError SEEK_NOT_FOUND."""
        found = [seek for seek in await self._seeks.read([seek_id]) if seek.player_id == player]
        if not found:
            raise RuleError(Breach.SEEK_NOT_FOUND, "you have no seek {seek!r}", seek=seek_id[:40])
        if await self._seeks.close(seek_id, player):
            self._bus.publish(CHANNEL + found[0].app, 0)
        again = await self._seeks.read([seek_id])
        return again[0] if again else found[0]

    async def read(self, seek_id: str) -> SeekRow | None:
        """A seek, if it is known."""
        found = await self._seeks.read([seek_id])
        return found[0] if found else None

    async def listed(
        self, app: str, limit: int, *, before: tuple[str, str] | None = None, player: str | None = None
    ) -> list[SeekRow]:
        """Open seeks of an app's users, newest first."""
        return await self._seeks.listed(app, datetime.now(UTC), limit, before=before, player=player)

    async def forget(self) -> None:
        """Forget seeks that are long over. Raises Unavailable."""
        await self._seeks.forget(datetime.now(UTC) - KEPT)

    async def _pair(self) -> None:
        """Keep and pair what is queued, batch by batch."""
        while self._queue:
            batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
            try:
                outcomes = await self._seeks.open([seek for seek, _ in batch], self._make)
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), outcome in zip(batch, outcomes, strict=True):
                if not answer.done():
                    answer.set_result(outcome)
            for match_id in {outcome.match_id for outcome in outcomes if outcome and outcome.match_id}:
                self._tell_match(match_id)
            for app in {seek.app for seek, _ in batch}:
                self._bus.publish(CHANNEL + app, 0)
        self._pairing = None

    # watching

    def tell(self, app: str) -> None:
        """Ring for a public match that has come, changed or gone."""
        self._bus.publish(CHANNEL + app, 0)

    def ring(self, channel: str) -> None:
        """Something in the lobby of an app has changed."""
        if hall := self._halls.get(channel.removeprefix(CHANNEL)):
            hall.rung.set()

    @property
    def watchers(self) -> int:
        """How many watch a lobby here."""
        return sum(max(1, len(each)) for hall in self._halls.values() for each in hall.watchers.values())

    def close(self) -> None:
        """Look no more."""
        for hall in self._halls.values():
            if hall.looking is not None:
                hall.looking.cancel()

    async def watch(self, app: str) -> AsyncGenerator[LobbyChange]:
        """What an app's lobby shows, and then whatever comes and goes; without an end."""
        news, seen = asyncio.Event(), None
        with self.watched(app, news) as hall:
            while True:
                news.clear()
                sight = hall.sight
                if sight is not None and sight is not seen:
                    change = hall.change(seen, sight)
                    first, seen = seen is None, sight
                    if first or any(change):
                        yield change
                    continue
                await news.wait()

    @contextmanager
    def watched(self, app: str, news: asyncio.Event, onlookers: Sized = ()) -> Iterator[Hall]:
        """An app's lobby, which is looked at while this lasts; `news` is set whenever it has been looked at."""
        hall = self._halls.get(app)
        if hall is None:
            hall = self._halls[app] = Hall()
            self._bus.subscribe(CHANNEL + app)
            hall.looking = asyncio.create_task(self._look(app, hall))
        hall.watchers[news] = onlookers
        try:
            yield hall
        finally:
            del hall.watchers[news]
            if not hall.watchers and self._halls.get(app) is hall:
                del self._halls[app]
                self._bus.unsubscribe(CHANNEL + app)
                if hall.looking is not None:
                    hall.looking.cancel()

    async def _look(self, app: str, hall: Hall) -> None:
        while True:
            hall.rung.clear()
            try:
                seeks = await self._seeks.listed(app, datetime.now(UTC), SHOWN_SEEKS)
                matches = await self._store.newest(first=SHOWN_MATCHES, app=app, live=True)
                number = hall.sight.number + 1 if hall.sight else 1
                sight = Sight(number, {seek.id: seek for seek in seeks}, {row.id: row for row in matches})
                if hall.sight is not None:
                    closed = hall.sight.seeks.keys() - sight.seeks.keys()
                    found = {seek.id: seek for seek in await self._seeks.read(closed)} if closed else {}
                    hall.gone = {id_: found.get(id_, hall.sight.seeks[id_]) for id_ in closed} | {
                        id_: seek for id_, seek in list(hall.gone.items())[-SHOWN_SEEKS:]
                    }
                hall.sight = sight
                for news in hall.watchers:
                    news.set()
            except Unavailable as error:
                logger.error("the lobby waits: %s", error)
            watchers, onlookers = len(hall.watchers), sum(map(len, hall.watchers.values()))
            await asyncio.sleep(PAUSE + watchers * PAUSE_A_WATCHER + onlookers * PAUSE_AN_ONLOOKER)
            try:
                async with asyncio.timeout(POLL):
                    await hall.rung.wait()
            except TimeoutError:
                pass


def _asked(seek: SeekRow) -> tuple[object, ...]:
    """What was asked for: the input that comes with an idempotency key."""
    return seek.terms, seek.auto_roll, seek.entropy


def _lasts(seek: SeekRow) -> timedelta:
    return decode_time(seek.expires_at) - decode_time(seek.created_at)


def _told(row: MatchRow) -> tuple[object, ...]:
    """What of a match's row is worth telling again when it changes."""
    return row.status, row.white, row.black, row.white_score, row.black_score
