"""Who looks after the clocks, which matches run out of time, and when nobody could serve.

Every process beats: it notes in the database that it lives. Where none has beaten for a while there was an outage. One
process at a time, by a lease that it renews with each beat, looks for players whose time has run out. That a match is
ended once is not its doing: the log takes one event a number.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import SQLModel

from infra.database import Database
from infra.log import decode_time, encode_time
from infra.tables import MatchRow, OutageRow, ProcessRow, PulseRow

BEAT = 2.0
"""Seconds between two beats of a process."""

GAP = timedelta(seconds=6)
"""Without any beat for longer than this, there was an outage; and a process that has not beaten is gone."""

_matches, _pulse, _outages, _processes = (
    SQLModel.metadata.tables[row.__tablename__] for row in (MatchRow, PulseRow, OutageRow, ProcessRow)
)


class Outage(NamedTuple):
    """A time in which no process could serve."""

    began: datetime
    ended: datetime


class Beat(NamedTuple):
    """What a beat tells: whether this process is the one to look after the clocks, and the time of the beat."""

    holds: bool
    now: datetime


def _own_time(connection: Connection) -> datetime:
    return datetime.now(UTC)


def _database_time(connection: Connection) -> datetime:
    now: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return now.astimezone(UTC)


class Timekeeping:
    """Clocks as the database knows them."""

    def __init__(self, database: Database, clock: Callable[[Connection], datetime] | None = None) -> None:
        """Times are those of the database where it has a clock of its own, else (and in tests) of `clock`."""
        self._database = database
        self._clock = clock or (_own_time if database.is_sqlite else _database_time)

    async def beat(self, process: str) -> Beat:
        """This process lives. Notes the outage that ends with this beat."""

        def work(connection: Connection, tries: int) -> Beat:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            query = select(_pulse.c.at, _pulse.c.holder, _pulse.c.until).where(_pulse.c.id == 1).with_for_update()
            found = connection.execute(query).first()
            now = self._clock(connection)  # not before the row is held: to get there may have taken a while
            at, until = encode_time(now), encode_time(now + GAP)
            if found is None:
                first = {"id": 1, "at": at, "holder": process, "until": until}
                connection.execute(dialect.insert(_pulse).on_conflict_do_nothing(), first)
                found = connection.execute(query).first()
                assert found is not None
            last, holder, held_until = found
            if decode_time(last) + GAP < now:
                connection.execute(dialect.insert(_outages).on_conflict_do_nothing(), {"began": last, "ended": at})
            holds = holder == process or held_until < at
            beaten = {"at": max(last, at)} | ({"holder": process, "until": until} if holds else {})
            connection.execute(update(_pulse).where(_pulse.c.id == 1).values(beaten))
            lives = dialect.insert(_processes).values(id=process, until=until)
            connection.execute(lives.on_conflict_do_update(index_elements=["id"], set_={"until": until}))
            return Beat(bool(holds), now)

        return await self._database.write(work)

    async def leave(self, process: str) -> None:
        """This process stops: another may look after the clocks at once."""

        def work(connection: Connection, tries: int) -> None:
            at = encode_time(self._clock(connection))
            connection.execute(update(_pulse).where(_pulse.c.holder == process).values(until=at))
            connection.execute(update(_processes).where(_processes.c.id == process).values(until=at))

        await self._database.write(work)

    async def outages(self, after: datetime | None) -> list[Outage]:
        """The outages that ended later than this, in order."""
        query = select(_outages.c.began, _outages.c.ended).order_by(_outages.c.ended)
        if after is not None:
            query = query.where(_outages.c.ended > encode_time(after))
        return await self._database.read(
            lambda connection: [Outage(decode_time(a), decode_time(b)) for a, b in connection.execute(query)]
        )

    async def soonest(self, limit: int, without: Iterable[str] = ()) -> list[tuple[str, datetime]]:
        """The matches whose clocks run out next, and when."""
        query = select(_matches.c.id, _matches.c.deadline).where(_matches.c.deadline.is_not(None))
        if excluded := list(without):
            query = query.where(_matches.c.id.not_in(excluded))
        query = query.order_by(_matches.c.deadline).limit(limit)
        return await self._database.read(
            lambda connection: [(id_, decode_time(deadline)) for id_, deadline in connection.execute(query)]
        )

    async def standing_since(self, moment: datetime, after: str, limit: int) -> list[str]:
        """Matches whose clock runs and in which nothing has happened since this moment, by id after `after`."""
        query = select(_matches.c.id).where(
            _matches.c.deadline.is_not(None), _matches.c.updated_at < encode_time(moment), _matches.c.id > after
        )
        query = query.order_by(_matches.c.id).limit(limit)
        return await self._database.read(lambda connection: list(connection.execute(query).scalars()))
