"""Who is connected to which match, at whichever process; a process that has died has let all of its players go."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import SQLModel

from infra.database import Database
from infra.log import decode_time, encode_time
from infra.tables import PresenceRow, ProcessRow

FORGOTTEN = timedelta(days=30)
"""How long it is known when a player has left a match."""

_presences, _processes = (SQLModel.metadata.tables[row.__tablename__] for row in (PresenceRow, ProcessRow))


class Presence(NamedTuple):
    """Whether a player is connected to a match, and if not, since when not."""

    present: bool
    left_at: datetime | None


class Presences:
    """Presences as the database knows them."""

    def __init__(self, database: Database, process: str) -> None:
        self._database = database
        self._process = process

    async def enter(self, match_id: str, player_id: str) -> None:
        """The player is connected to the match here."""
        row = {"match_id": match_id, "player_id": player_id, "process_id": self._process, "left_at": None}

        def work(connection: Connection, tries: int) -> None:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            entering = dialect.insert(_presences).values(row)
            key = ["match_id", "player_id", "process_id"]
            connection.execute(entering.on_conflict_do_update(index_elements=key, set_={"left_at": None}))

        await self._database.write(work)

    async def leave(self, match_id: str, player_id: str, at: datetime) -> None:
        """The player has left the match here."""
        leaving = update(_presences).where(
            _presences.c.match_id == match_id,
            _presences.c.player_id == player_id,
            _presences.c.process_id == self._process,
        )
        await self._database.write(lambda c, tries: c.execute(leaving.values(left_at=encode_time(at))))

    async def of(self, match_ids: Iterable[str], now: datetime) -> dict[str, dict[str, Presence]]:
        """For each match, the players who are or were connected to it."""
        query = select(
            _presences.c.match_id, _presences.c.player_id, _presences.c.left_at, _processes.c.until
        ).select_from(_presences.outerjoin(_processes, _processes.c.id == _presences.c.process_id))
        query = query.where(_presences.c.match_id.in_(list(match_ids)))
        found: dict[str, dict[str, Presence]] = {}
        for match_id, player_id, left_at, until in await self._database.read(lambda c: list(c.execute(query))):
            lives = until is not None and decode_time(until) >= now
            left = None if left_at is None and lives else decode_time(left_at or until or encode_time(now))
            known = found.setdefault(match_id, {}).get(player_id)
            if known is None or (not known.present and (left is None or (known.left_at and known.left_at < left))):
                found[match_id][player_id] = Presence(left is None, left)
        return found

    async def tidy(self, now: datetime) -> None:
        """Forget the processes that have died, and who left long ago."""
        dead = select(_processes.c.id).where(_processes.c.until < encode_time(now - timedelta(hours=1)))
        until = select(_processes.c.until).where(_processes.c.id == _presences.c.process_id).scalar_subquery()

        def work(connection: Connection, tries: int) -> None:
            of_dead = _presences.c.process_id.in_(dead) & _presences.c.left_at.is_(None)
            connection.execute(update(_presences).where(of_dead).values(left_at=until))
            connection.execute(delete(_presences).where(_presences.c.left_at < encode_time(now - FORGOTTEN)))
            connection.execute(delete(_processes).where(_processes.c.id.in_(dead)))

        await self._database.write(work)
