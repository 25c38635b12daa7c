"""The event store: one table of events whose key (match id, seq) is the lock, and a row a match for lists.

Appends go through one writer, which commits what has queued up as a group. Every append is whole or absent, a conflict
fails that append alone, and an append that has returned is on the disk (WAL, synchronous FULL).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, create_engine, event, insert, select, tuple_, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlmodel import Field, Index, SQLModel

from domain.board import Color
from domain.match import Match, Over, Waiting
from infra.log import Recorded, decode_event, decode_time, encode_line, encode_time

T = TypeVar("T")

BATCH = 256
"""Appends that share a commit at most."""

PAGE = 500
"""Records that an export holds in memory."""


class Unavailable(Exception):
    """The database cannot be used now, or at all; the message says why. Nothing was written."""


class Damaged(Unavailable):
    """What is stored cannot be read, and will not be later either."""


class Conflict(Exception):
    """The match has moved on from the version that this append follows. Nothing was written."""


class KeyTaken(Exception):
    """The player has used this idempotency key before. Nothing was written."""


class Status(StrEnum):
    """What lists sort matches by."""

    WAITING = "waiting"
    PLAYING = "playing"
    FINISHED = "finished"


class EventRow(SQLModel, table=True):
    """One event of one match, with its canonical JSON."""

    __tablename__ = "events"

    match_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True)
    at: str
    event: str
    hash: str


class MatchRow(SQLModel, table=True):
    """One match as its log has it at `version`, for lists; and what is not in the log: who rolls by hand, a rematch.

    Times are texts that sort (infra/log.py); scores are white's and black's.
    """

    __tablename__ = "matches"
    __table_args__ = (Index("ix_matches_newest", "created_at", "id"),)

    id: str = Field(primary_key=True)
    version: int
    created_at: str
    updated_at: str
    visibility: str
    sandbox: bool
    imported: bool
    status: str = Field(index=True)
    length: int | None
    white: str | None = Field(default=None, index=True)
    black: str | None = Field(default=None, index=True)
    white_score: int
    black_score: int
    winner: str | None = None
    white_auto_roll: bool = True
    black_auto_roll: bool = True
    rematch_by: str | None = None


class CommandRow(SQLModel, table=True):
    """What a player's idempotency key has brought about: these events, for an input with this fingerprint."""

    __tablename__ = "commands"

    player_id: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    fingerprint: str
    match_id: str
    first_seq: int
    last_seq: int


class PlayerRow(SQLModel, table=True):
    """A player. The name is here and not in any log, so that it can be forgotten."""

    __tablename__ = "players"

    id: str = Field(primary_key=True)
    name: str
    created_at: str


class Key(Struct, frozen=True):
    """An idempotency key: whose it is, and a fingerprint of the input that it came with."""

    player_id: str
    key: str
    fingerprint: str


class Append(Struct, frozen=True, kw_only=True):
    """Events to append to one match, all or none: they follow version `recorded[0].seq - 1` and make `match`."""

    match: Match
    recorded: Sequence[Recorded]
    auto_roll: tuple[bool, bool]
    """Whether the table rolls for white, and for black."""
    key: Key | None = None

    @property
    def after(self) -> int:
        """The version that these events follow; 0 for a new match."""
        return self.recorded[0].seq - 1


def status_of(match: Match) -> Status:
    """The match's place in lists."""
    if isinstance(match.phase, Over):
        return Status.FINISHED
    return Status.WAITING if isinstance(match.phase, Waiting) else Status.PLAYING


def _match_values(append: Append) -> dict[str, Any]:
    match, settings = append.match, append.match.settings
    return {
        "match_id": match.id,
        "version": append.recorded[-1].seq,
        "created_at": encode_time(append.recorded[0].at),
        "updated_at": encode_time(append.recorded[-1].at),
        "visibility": settings.visibility.value,
        "sandbox": settings.sandbox is not None,
        "imported": match.imported is not None,
        "status": status_of(match).value,
        "length": settings.length,
        "white": match.white,
        "black": match.black,
        "white_score": match.score(Color.WHITE),
        "black_score": match.score(Color.BLACK),
        "winner": match.winner and match.winner.value,
        "white_auto_roll": append.auto_roll[0],
        "black_auto_roll": append.auto_roll[1],
    }


_CHANGING = (
    "version", "updated_at", "status", "white", "black",
    "white_score", "black_score", "winner", "white_auto_roll", "black_auto_roll",
)  # fmt: skip
_events, _matches, _commands, _players = (
    SQLModel.metadata.tables[name] for name in ("events", "matches", "commands", "players")
)
_insert_match = insert(_matches).values(id=bindparam("match_id"))
_update_match = (
    update(_matches).where(_matches.c.id == bindparam("match_id")).values({name: bindparam(name) for name in _CHANGING})
)


class SqlStore:
    """The store in a database file. Its methods are for one event loop; what blocks runs in threads of its own."""

    def __init__(self, file: Path, *, create: bool) -> None:
        """Open the file, with its tables made first if `create`. Raises Unavailable."""
        if not create and not file.exists():
            raise Unavailable(f"there is no database at {file}")
        self._engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": 5}, pool_size=4)
        event.listen(self._engine, "connect", _configure)
        event.listen(self._engine, "begin", _begin)
        self._readers = ThreadPoolExecutor(4, "store-reader")
        self._writer = ThreadPoolExecutor(1, "store-writer")
        self._queue: list[tuple[Append, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        with self._connection(write=create) as connection:
            if create:
                SQLModel.metadata.create_all(connection)
            else:
                connection.execute(select(_matches.c.id).limit(1))

    async def close(self) -> None:
        """Finish what is queued and let the file go."""
        if self._writing:
            await self._writing
        self._writer.shutdown()
        self._readers.shutdown()
        self._engine.dispose()

    async def read(self, match_id: str, after: int = 0, until: int | None = None) -> list[Recorded]:
        """The records of a match with after < seq <= until, in order; none for an unknown match."""
        rows = await self._rows(match_id, after, until)
        try:
            return [Recorded(seq, decode_time(at), decode_event(text), text, hash_) for seq, at, text, hash_ in rows]
        except (msgspec.MsgspecError, ValueError) as error:
            raise Damaged(f"the log of match {match_id} is damaged; `videau verify {match_id}` says where") from error

    async def news(self, after: int | None) -> tuple[int, dict[str, int]]:
        """The newest position, and the newest seq of each match that has events after position `after` (None: none)."""
        query = select(_matches.c.id, _matches.c.version)
        rows = await self._read(lambda connection: connection.execute(query).all())
        position = sum(version for _, version in rows)
        return position, {} if after in (None, position) else {match_id: version for match_id, version in rows}

    async def lines(self, match_id: str, after: int = 0, until: int | None = None) -> AsyncIterator[str]:
        """The log of a match as lines of NDJSON, just as it is stored, whatever that is; read page by page."""
        while rows := await self._rows(match_id, after, min(after + PAGE, until or after + PAGE)):
            for row in rows:
                yield encode_line(*row)
            after = rows[-1][0]

    async def _rows(self, match_id: str, after: int, until: int | None) -> Sequence[tuple[int, str, str, str]]:
        query = select(_events.c.seq, _events.c.at, _events.c.event, _events.c.hash).where(
            _events.c.match_id == match_id, _events.c.seq > after
        )
        if until is not None:
            query = query.where(_events.c.seq <= until)
        query = query.order_by(_events.c.seq)
        return await self._read(lambda connection: [tuple(row) for row in connection.execute(query)])

    async def match(self, match_id: str) -> MatchRow | None:
        """The row of a match; None if there is no such match."""
        found = await self.matches([match_id])
        return found[0] if found else None

    async def matches(self, ids: Sequence[str]) -> list[MatchRow]:
        """The rows of the matches that exist among `ids`."""
        query = select(_matches).where(_matches.c.id.in_(ids))
        return await self._read(lambda connection: _rows(MatchRow, connection.execute(query).all()))

    async def newest(
        self,
        *,
        first: int,
        before: tuple[str, str] | None = None,
        status: Status | None = None,
        player: str | None = None,
        viewer: str | None = None,
    ) -> list[MatchRow]:
        """The `first` newest matches that `viewer` finds in lists: public ones, and those it plays itself.

        `before` is the (created_at, id) of the last match of the page before; a page does not change while new
        matches come.
        """
        table = _matches
        listed = table.c.visibility == "public"
        if viewer is not None:
            listed |= (table.c.white == viewer) | (table.c.black == viewer)
        query = select(table).where(listed)
        if before is not None:
            query = query.where(tuple_(table.c.created_at, table.c.id) < before)
        if status is not None:
            query = query.where(table.c.status == status.value)
        if player is not None:
            query = query.where((table.c.white == player) | (table.c.black == player))
        query = query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(first)
        return await self._read(lambda connection: _rows(MatchRow, connection.execute(query).all()))

    async def command(self, player_id: str, key: str) -> CommandRow | None:
        """What the player's idempotency key has brought about; None if it is new."""
        query = select(_commands).where(_commands.c.player_id == player_id, _commands.c.key == key)
        rows = await self._read(lambda connection: _rows(CommandRow, connection.execute(query).all()))
        return rows[0] if rows else None

    async def add_players(self, players: Sequence[PlayerRow]) -> None:
        """Keep new players; those that are known already stay as they are."""
        rows = [player.model_dump() for player in players]
        query = insert(_players).prefix_with("OR IGNORE", dialect="sqlite")
        await self._write(lambda connection: connection.execute(query, rows))

    async def players(self, ids: Iterable[str]) -> list[PlayerRow]:
        """The players that exist among `ids`."""
        query = select(_players).where(_players.c.id.in_(list(ids)))
        return await self._read(lambda connection: _rows(PlayerRow, connection.execute(query).all()))

    async def propose_rematch(self, match_id: str, by: Color, version: int, key: Key | None) -> None:
        """Note that this side of a finished match proposes another; the first proposal stays. Raises KeyTaken."""
        query = (
            update(_matches)
            .where(_matches.c.id == match_id, _matches.c.rematch_by.is_(None))
            .values(rematch_by=by.value)
        )

        def propose(connection: Connection) -> None:
            connection.execute(query)
            if key:
                row = {
                    "player_id": key.player_id,
                    "key": key.key,
                    "fingerprint": key.fingerprint,
                    "match_id": match_id,
                    "first_seq": version + 1,
                    "last_seq": version,
                }
                try:
                    connection.execute(insert(_commands), row)
                except IntegrityError as error:
                    raise KeyTaken from error

        await self._write(propose)

    async def append(self, append: Append) -> None:
        """Append, durably. Raises KeyTaken, Conflict or Unavailable, and then nothing of it is written."""
        await self.submit(append)

    def submit(self, append: Append) -> asyncio.Future[None]:
        """Queue an append; what it comes to is what `append` returns or raises."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((append, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._drain())
        return future

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
            try:
                outcomes = await loop.run_in_executor(self._writer, self._commit, [append for append, _ in batch])
            except Exception as error:
                outcomes = [error] * len(batch)
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():
                    continue
                if outcome is None:
                    future.set_result(None)
                else:
                    future.set_exception(outcome)
        self._writing = None

    def _commit(self, appends: list[Append]) -> list[Exception | None]:
        """Commit those that conflict with nothing, as one transaction; for each, None or why not."""
        outcomes: list[Exception | None] = []
        accepted: list[Append] = []
        with self._connection(write=True) as connection:
            query = select(_matches.c.id, _matches.c.version).where(_matches.c.id.in_({a.match.id for a in appends}))
            versions = {row.id: row.version for row in connection.execute(query.with_for_update())}
            keys = [(append.key.player_id, append.key.key) for append in appends if append.key]
            taken: set[tuple[str, str]] = set()
            if keys:
                used = tuple_(_commands.c.player_id, _commands.c.key)
                found = connection.execute(select(_commands.c.player_id, _commands.c.key).where(used.in_(keys)))
                taken = {(row.player_id, row.key) for row in found}
            for append in appends:
                key = append.key and (append.key.player_id, append.key.key)
                if key in taken:
                    outcomes.append(KeyTaken())
                elif versions.get(append.match.id, 0) != append.after:
                    outcomes.append(Conflict())
                else:
                    versions[append.match.id] = append.recorded[-1].seq
                    if key:
                        taken.add(key)
                    accepted.append(append)
                    outcomes.append(None)
            if accepted:
                self._insert(connection, accepted)
        return outcomes

    def _insert(self, connection: Connection, appends: list[Append]) -> None:
        created = [_match_values(append) for append in appends if not append.after]
        if created:
            connection.execute(_insert_match, created)
        changed = [
            {name: value for name, value in _match_values(append).items() if name in ("match_id", *_CHANGING)}
            for append in appends
            if append.after
        ]
        if changed:
            connection.execute(_update_match, changed)
        connection.execute(
            insert(_events),
            [
                {
                    "match_id": append.match.id,
                    "seq": recorded.seq,
                    "at": encode_time(recorded.at),
                    "event": recorded.text,
                    "hash": recorded.hash,
                }
                for append in appends
                for recorded in append.recorded
            ],
        )
        commands = [
            {
                "player_id": append.key.player_id,
                "key": append.key.key,
                "fingerprint": append.key.fingerprint,
                "match_id": append.match.id,
                "first_seq": append.recorded[0].seq,
                "last_seq": append.recorded[-1].seq,
            }
            for append in appends
            if append.key
        ]
        if commands:
            connection.execute(insert(_commands), commands)

    async def _read(self, query: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._connection(write=False) as connection:
                return query(connection)

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)

    async def _write(self, query: Callable[[Connection], object]) -> None:
        def run() -> None:
            with self._connection(write=True) as connection:
                query(connection)

        await asyncio.get_running_loop().run_in_executor(self._writer, run)

    @contextmanager
    def _connection(self, *, write: bool) -> Iterator[Connection]:
        """One transaction; whatever is wrong with the database becomes Unavailable."""
        try:
            with self._engine.connect().execution_options(write=write) as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            raise Unavailable(_explained(self._engine.url.database, error)) from error


def _explained(file: str | None, error: DBAPIError) -> str:
    cause = str(error.orig)
    if "locked" in cause:
        return f"the database {file} is locked by another program"
    if "not a database" in cause or "malformed" in cause:
        return f"the database {file} is damaged, or not a database: {cause}"
    if "no such table" in cause or "no such column" in cause:
        return f"{file} is not a database of this version of Videau: {cause}"
    return f"the database {file} cannot be used: {cause}"


def _rows(kind: type[T], rows: Iterable[Any]) -> list[T]:
    return [kind(**row._mapping) for row in rows]


def _configure(connection: Any, _: object) -> None:
    """Hand transactions to us rather than to the driver, and make a commit mean that it is on the disk."""
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
