"""Seeks: who looks for an opponent, and who is paired with whom. No seek is ever paired twice, by whatever process.

Of one kind (the same app and terms) all that are open are of one player: anybody else's would have been paired.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, text, tuple_, update
from sqlmodel import SQLModel

from infra.append import Append, commit
from infra.database import Database
from infra.log import encode_time
from infra.tables import SeekRow

MOST = 5
"""Seeks that a player may have open."""

_seeks = SQLModel.metadata.tables[SeekRow.__tablename__]
_LOCK = 0x7365656B73  # "seeks": the advisory lock under which PostgreSQL's are paired; SQLite has one writer anyway

Make = Callable[[SeekRow, SeekRow], Append]
"""The new match of two seeks, the older one first."""


class Seeks:
    """Seeks as the database knows them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, seeks: Sequence[SeekRow], make: Make) -> list[SeekRow | None]:
        """Keep new seeks and pair each with the oldest that fits, the match included: all in one transaction.

        What has become of each; None for one too many of its player. A seek that was opened before stays as it is.
        """
        kinds = {(seek.app, seek.terms) for seek in seeks}
        players = {seek.player_id for seek in seeks}
        now = max(seek.created_at for seek in seeks)

        def work(connection: Connection, tries: int) -> list[SeekRow | None]:
            _lock(connection)
            known = {row.id: row for row in _rows(connection, _seeks.c.id.in_([seek.id for seek in seeks]))}
            is_open = _seeks.c.match_id.is_(None) & (_seeks.c.expires_at > now)
            kind = tuple_(_seeks.c.app, _seeks.c.terms)
            waiting: dict[tuple[str, str], list[SeekRow]] = {}
            for row in _rows(connection, is_open & kind.in_(kinds)):
                waiting.setdefault((row.app, row.terms), []).append(row)
            number = select(_seeks.c.player_id, func.count()).where(is_open, _seeks.c.player_id.in_(players))
            counts = {player: count for player, count in connection.execute(number.group_by(_seeks.c.player_id))}
            outcomes: list[SeekRow | None] = []
            added: list[SeekRow] = []
            paired: list[tuple[SeekRow, SeekRow, Append]] = []
            for seek in seeks:
                seek.match_id = None  # what an attempt before this one came to is not so
                if seek.id in known:
                    outcomes.append(known[seek.id])
                    continue
                alike = waiting.setdefault((seek.app, seek.terms), [])
                found = next((other for other in alike if other.player_id != seek.player_id), None)
                if found is None and counts.get(seek.player_id, 0) >= MOST:
                    outcomes.append(None)
                    continue
                known[seek.id] = seek
                outcomes.append(seek)
                added.append(seek)
                if found is None:
                    counts[seek.player_id] = counts.get(seek.player_id, 0) + 1
                    alike.append(seek)
                    continue
                alike.remove(found)
                counts[found.player_id] = counts.get(found.player_id, 0) - 1
                append = make(found, seek)
                seek.match_id = found.match_id = append.match.id
                paired.append((found, seek, append))
            if added:
                connection.execute(insert(_seeks), [seek.model_dump() for seek in added])
            new = {seek.id for seek in added}
            for found, _, append in paired:
                if found.id not in new:
                    connection.execute(update(_seeks).where(_seeks.c.id == found.id).values(match_id=append.match.id))
            if paired:  # last, since it holds what all appends wait for
                for outcome in commit(connection, [append for _, _, append in paired], 0):
                    if outcome is not None:
                        raise outcome
            return outcomes

        return await self._database.write(work)

    async def close(self, seek_id: str, player_id: str) -> bool:
        """Close a player's seek, unless it is paired; whether it was not. It stays known, so that its key is."""
        closing = update(_seeks).where(
            _seeks.c.id == seek_id, _seeks.c.player_id == player_id, _seeks.c.match_id.is_(None)
        )

        def work(connection: Connection, tries: int) -> bool:
            _lock(connection)
            return connection.execute(closing.values(expires_at=_seeks.c.created_at)).rowcount > 0

        return await self._database.write(work)

    async def read(self, ids: Iterable[str]) -> list[SeekRow]:
        """The seeks that exist among `ids`."""
        wanted = [id_ for id_ in ids if "\0" not in id_]
        return await self._database.read(lambda connection: _rows(connection, _seeks.c.id.in_(wanted)))

    async def listed(
        self, app: str, now: datetime, limit: int, *, before: tuple[str, str] | None = None, player: str | None = None
    ) -> list[SeekRow]:
        """The newest open seeks of an app's users; `before` is the (created_at, id) of the last of the page before."""
        if "\0" in app:
            return []
        wanted = _seeks.c.match_id.is_(None) & (_seeks.c.app == app) & (_seeks.c.expires_at > encode_time(now))
        if before is not None:
            wanted &= tuple_(_seeks.c.created_at, _seeks.c.id) < before
        if player is not None:
            wanted &= _seeks.c.player_id == player
        return await self._database.read(lambda connection: _rows(connection, wanted, limit, newest=True))

    async def forget(self, before: datetime) -> None:
        """Forget seeks that expired before this time."""
        old = delete(_seeks).where(_seeks.c.expires_at < encode_time(before))
        await self._database.write(lambda connection, tries: connection.execute(old).rowcount)


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def _rows(connection: Connection, wanted: Any, limit: int | None = None, *, newest: bool = False) -> list[SeekRow]:
    """The rows, oldest first, or newest first."""
    order = (_seeks.c.created_at.desc(), _seeks.c.id.desc()) if newest else (_seeks.c.created_at, _seeks.c.id)
    query = select(_seeks).where(wanted).order_by(*order).limit(limit)
    return [SeekRow(**row._mapping) for row in connection.execute(query)]
