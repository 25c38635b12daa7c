"""The event store: one table of events whose key (match id, seq) is the lock, and what follows from it for lists.

Appends go through one writer, which commits what has queued up as a group (infra/append.py). Every append is whole or
absent, a conflict fails that append alone, and one that has returned is on the disk (SQLite in WAL with synchronous
FULL, PostgreSQL with synchronous_commit on).
"""

import asyncio
import contextvars
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Select, case, delete, func, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError
from sqlmodel import SQLModel

from domain.board import Color
from infra import traces
from infra.append import Append, Conflict, Key, KeyTaken, commit, match_row
from infra.apps import AppStore
from infra.database import PATIENCE, Damaged, Database, Unavailable, Unreachable
from infra.histogram import Histogram
from infra.log import Recorded, decode_event, decode_time, encode_line, encode_time, replay
from infra.migrations import EMPTY, SchemaError, migrate, schema_problem
from infra.tables import (
    AppRow,
    CommandRow,
    DocumentRow,
    EventRow,
    FeedRow,
    InvitationRow,
    MatchRow,
    PlayerRow,
    PresenceRow,
    SeekRow,
    WishRow,
)

__all__ = [
    "Append", "Conflict", "Damaged", "Fed", "Key", "KeyTaken", "MatchRow", "PlayerRow", "SeekRow", "SqlStore",
    "Status", "Unavailable",
]  # fmt: skip

T = TypeVar("T")

BATCH = 256
"""Appends that share a commit at most."""

QUEUE = 10_000
"""Appends that wait for their commit at most; more are told that the database is unavailable."""

_WHY = {Conflict: "conflict", KeyTaken: "key_taken"}

PAGE = 500
"""Records that are held in memory when a log is read through."""

RANGE = 50_000
"""Positions of the feed that are counted by one statement: all of them would take longer than one may."""

_events, _feed, _matches, _wishes, _commands, _players, _invitations = (
    SQLModel.metadata.tables[row.__tablename__]
    for row in (EventRow, FeedRow, MatchRow, WishRow, CommandRow, PlayerRow, InvitationRow)
)
_apps, _documents, _seeks, _presences = (
    SQLModel.metadata.tables[row.__tablename__] for row in (AppRow, DocumentRow, SeekRow, PresenceRow)
)


class Status(StrEnum):
    """What lists sort matches by."""

    WAITING = "waiting"
    PLAYING = "playing"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class Fed(NamedTuple):
    """An event of any match, in its place among all."""

    position: int
    match_id: str
    seq: int
    at: str
    event: str
    hash: str


class Rebuilt(NamedTuple):
    """What making the rows of matches anew has come to."""

    matches: int
    changed: int
    removed: int
    damaged: list[str]


class _Queued(NamedTuple):
    append: Append
    future: "asyncio.Future[None]"
    deadline: float
    began: float
    span: Any


class SqlStore:
    """The store in a database. Its methods are for one event loop; what blocks runs in threads of its own."""

    def __init__(self, url: URL, *, create: bool = False) -> None:
        """Open the database; if `create`, a new SQLite file gets its tables, and a server may not be there yet.

        Raises Unavailable, also for a database whose tables are older or newer than this program.
        """
        self._database = Database(url)
        self.apps = AppStore(self._database)
        file = self._database.file
        if file is not None and not create and not file.exists():
            raise Unavailable(f"there is no database at {file}")
        try:
            problem = self._database.read_now(schema_problem, 1.0 if create else PATIENCE)
        except Unreachable:
            if not create:
                raise
            problem = None  # until it is there, all are told what it says now
        if problem == EMPTY and create and file is not None:
            try:
                migrate(url)
            except SchemaError as error:
                raise Unavailable(str(error)) from error
        elif problem:
            raise Unavailable(f"{self._database.name}: {problem}")
        self._queue: list[_Queued] = []
        self._writing: asyncio.Task[None] | None = None
        self.commits = self.appended = 0
        """Commits so far, and the appends that shared them."""
        self.batches = Histogram((1, 2, 4, 8, 16, 32, 64, 128, BATCH))
        """How many appends each commit was tried with."""
        self.commit_seconds, self.append_seconds = Histogram(), Histogram()
        """How long each commit took, and each append from when it was queued until it was answered."""
        self.unwritten = Counter[str]()
        """Appends that were not written, by why."""

    @property
    def database(self) -> Database:
        """Where it is kept, for what has its own tables there."""
        return self._database

    @property
    def answering(self) -> bool:
        """Whether the database did when it was last asked."""
        return self._database.answering

    @property
    def waiting(self) -> int:
        """Appends that wait for their turn to be committed."""
        return len(self._queue)

    async def close(self) -> None:
        """Finish what is queued and let the database go."""
        if self._writing:
            await self._writing
        await self._database.close()

    # the log

    async def read(self, match_id: str, after: int = 0, until: int | None = None) -> list[Recorded]:
        """The records of a match with after < seq <= until, in order; none for an unknown match."""
        rows = await self._rows(match_id, after, until)
        try:
            return [Recorded(seq, decode_time(at), decode_event(text), text, hash_) for seq, at, text, hash_ in rows]
        except (msgspec.MsgspecError, ValueError) as error:
            raise Damaged(f"the log of match {match_id} is damaged; `videau verify {match_id}` says where") from error

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
        if not _can_be(match_id):
            return []
        return await self._read(lambda connection: [tuple(row) for row in connection.execute(query)])

    # the feed of all matches

    async def feed(self, after: int, limit: int) -> list[Fed]:
        """Events of all matches with a position after this one, in the order of commits: 1, 2, 3 …, without gaps.

        What has been read stays as it is: no event ever comes in before another.
        """
        query = select(
            _events.c.position, _events.c.match_id, _events.c.seq, _events.c.at, _events.c.event, _events.c.hash
        )
        query = query.where(_events.c.position > after).order_by(_events.c.position).limit(limit)
        return await self._read(lambda connection: [Fed(*row) for row in connection.execute(query)])

    async def position(self) -> int:
        """The position of the newest event of all; 0 before the first. Raises Damaged."""
        query = select(_feed.c.position)
        position = await self._read(lambda connection: connection.execute(query).scalar_one_or_none())
        if position is None:
            raise Damaged(f"the database {self._database.name} has lost the position of its feed")
        return int(position)

    async def news(self, after: int | None) -> tuple[int, dict[str, int]]:
        """The newest position, and the newest seq of each match that has had events after position `after`."""

        def query(connection: Connection) -> tuple[int, dict[str, int]]:
            newest = int(connection.execute(select(_feed.c.position)).scalar_one())
            if after is None or newest <= after:
                return newest, {}
            found = connection.execute(
                select(_events.c.match_id, func.max(_events.c.seq))
                .where(_events.c.position > after, _events.c.position <= newest)
                .group_by(_events.c.match_id)
            )
            return newest, {match_id: seq for match_id, seq in found}

        return await self._read(query)

    # lists

    async def match(self, match_id: str) -> MatchRow | None:
        """The row of a match; None if there is no such match."""
        found = await self.matches([match_id])
        return found[0] if found else None

    async def matches(self, ids: Iterable[str]) -> list[MatchRow]:
        """The rows of the matches that exist among `ids`."""
        query = select(_matches).where(_matches.c.id.in_(list(filter(_can_be, ids))))
        return await self._read(lambda connection: _made(MatchRow, connection.execute(query)))

    async def newest(
        self,
        *,
        first: int,
        before: tuple[str, str] | None = None,
        status: Status | None = None,
        player: str | None = None,
        app: str | None = None,
        finished_after: datetime | None = None,
        finished_before: datetime | None = None,
        series: str | None = None,
        invited: str | None = None,
        live: bool = False,
        viewer: str | None = None,
    ) -> list[MatchRow]:
        """The `first` newest matches that `viewer` finds in lists: public ones, those it plays itself, and those to
        which it is invited. All that is given must hold.

        `before` is the (created_at, id) of the last match of the page before; a page does not change while new
        matches come.
        """
        table = _matches
        listed = table.c.visibility == "public"
        if viewer is not None:
            listed |= (table.c.white == viewer) | (table.c.black == viewer) | (table.c.invited == viewer)
        query = select(table).where(listed)
        if before is not None:
            query = query.where(tuple_(table.c.created_at, table.c.id) < before)
        if status is not None:
            query = query.where(table.c.status == status.value)
        if player is not None:
            if not _can_be(player):
                return []
            query = query.where((table.c.white == player) | (table.c.black == player))
        if app is not None:
            if not _can_be(app):
                return []
            query = query.where(table.c.app == app)
        if finished_after is not None:
            query = query.where(table.c.finished_at >= encode_time(finished_after))
        if finished_before is not None:
            query = query.where(table.c.finished_at < encode_time(finished_before))
        if series is not None:
            query = query.where(table.c.series == series)
        if live:
            query = query.where(table.c.status.in_((Status.WAITING.value, Status.PLAYING.value)))
        if invited is not None:
            query = query.where(table.c.invited == invited, table.c.status == Status.WAITING.value)
        query = query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(first)
        return await self._read(lambda connection: _made(MatchRow, connection.execute(query)))

    async def series(self, first: str) -> list[tuple[str, int, int]]:
        """Of the rematches that followed a match, itself included: each player, matches won and points."""
        table = _matches
        white, black = (
            select(
                player.label("player"),
                score.label("points"),
                case((table.c.winner == color, 1), else_=0).label("won"),
                case((table.c.id == first, number), else_=None).label("place"),
            ).where(table.c.series == first, player.is_not(None))
            for number, color, player, score in (
                (0, "white", table.c.white, table.c.white_score),
                (1, "black", table.c.black, table.c.black_score),
            )
        )
        seats = white.union_all(black).subquery()
        query = select(seats.c.player, func.sum(seats.c.won), func.sum(seats.c.points))
        query = query.group_by(seats.c.player).order_by(func.min(seats.c.place))
        return await self._read(
            lambda connection: [(player, int(won), int(points)) for player, won, points in connection.execute(query)]
        )

    async def waiting_of(self, player: str) -> int:
        """How many matches of a player wait for an opponent."""
        table = _matches
        query = select(func.count()).where(
            (table.c.white == player) | (table.c.black == player), table.c.status == Status.WAITING.value
        )
        return await self._read(lambda connection: int(connection.execute(query).scalar_one()))

    async def count(self) -> int:
        """How many matches there are, by their rows, which takes no look at all events."""
        query = select(func.count()).select_from(_matches)
        return await self._read(lambda connection: int(connection.execute(query).scalar_one()))

    async def feed_problem(self) -> str | None:
        """Why the feed is not 1, 2, 3 … up to its position, if so; looked at range by range, also while it grows."""
        newest = select(func.coalesce(func.max(_events.c.position), 0))
        last = await self._read(lambda connection: int(connection.execute(newest).scalar_one()))
        try:
            position = await self.position()
        except Damaged as error:
            return str(error)
        if last > position:
            return f"the feed is at position {position}, and there is an event at {last}"
        for after in range(0, position, RANGE):
            until = min(after + RANGE, position)
            within = _events.c.position.between(after + 1, until)
            lacking = until - after - await self._read(partial(_counted, within))
            if lacking:
                return f"the feed is at position {position}, and lacks {lacking} events from {after + 1} to {until}"
        return None

    async def unlogged(self) -> list[str]:
        """Matches that have a row and no log."""
        found: list[str] = []
        last = ""
        while True:
            page = select(_matches.c.id).where(_matches.c.id > last).order_by(_matches.c.id).limit(PAGE)
            ids = await self._read(partial(_texts, page))
            if not ids:
                return found
            logged = select(_events.c.match_id).where(_events.c.match_id.in_(ids), _events.c.seq == 1)
            with_log = set(await self._read(partial(_texts, logged)))
            found += [id_ for id_ in ids if id_ not in with_log]
            last = ids[-1]

    async def rebuild(self, each: Callable[[], None] = lambda: None) -> Rebuilt:
        """Make every match's row anew from its log, and remove those that have none; `each` is told of each match.

        Matches may go on meanwhile: a row that is newer than the log that was read is right already.
        """
        changed = matches = 0
        damaged: list[str] = []
        last = ""
        while ids := await self._ids(last):
            for match_id in ids:
                each()
                matches += 1
                try:
                    records = await self.read(match_id)
                    match = replay(records)
                except (Damaged, AssertionError) as error:
                    damaged.append(str(error) or f"the log of match {match_id} cannot be played")
                    continue
                at = encode_time(records[-1].at)
                row = match_row(match, encode_time(records[0].at), records[-1].seq, at).model_dump()
                changed += await self._database.write(partial(_put, row))
            last = ids[-1]
        orphans = await self.unlogged()
        for start in range(0, len(orphans), PAGE):
            await self._database.write(partial(_remove, orphans[start : start + PAGE]))
        return Rebuilt(matches, changed, len(orphans), damaged)

    async def ids(self) -> AsyncIterator[str]:
        """Every match that has a log, in the order of ids."""
        last = ""
        while page := await self._ids(last):
            for match_id in page:
                yield match_id
            last = page[-1]

    async def _ids(self, after: str) -> list[str]:
        """The next hundred matches that have a log, by id."""
        query = select(_events.c.match_id).where(_events.c.match_id > after, _events.c.seq == 1)
        query = query.order_by(_events.c.match_id).limit(100)
        return await self._read(lambda connection: list(connection.execute(query).scalars()))

    # what is not in the log

    async def wishes(self, match_id: str) -> WishRow:
        """What the players of a match wish."""
        query = select(_wishes).where(_wishes.c.match_id == match_id)
        found = await self._read(lambda connection: _made(WishRow, connection.execute(query)))
        return found[0] if found else WishRow(match_id=match_id)

    async def propose_rematch(self, match_id: str, by: Color, version: int, key: Key | None) -> bool:
        """Note that this side of a finished match proposes another; False if the other side was first, and then
        nothing is noted. Raises KeyTaken."""
        propose = update(_wishes).where(
            _wishes.c.match_id == match_id, _wishes.c.rematch_by.is_(None) | (_wishes.c.rematch_by == by.value)
        )

        def work(connection: Connection, tries: int) -> bool:
            proposed = connection.execute(propose.values(rematch_by=by.value)).rowcount > 0
            if proposed and key:
                _keep_key(connection, key, match_id, version)
            return proposed

        return await self._database.write(work)

    async def proposals(self, match_ids: Iterable[str]) -> dict[str, Color]:
        """Who proposes a rematch of these matches, where somebody does."""
        query = select(_wishes.c.match_id, _wishes.c.rematch_by).where(
            _wishes.c.match_id.in_(list(match_ids)), _wishes.c.rematch_by.is_not(None)
        )
        return await self._read(lambda connection: {id_: Color(by) for id_, by in connection.execute(query)})

    async def put_invitation(self, match_id: str, code: str, expires_at: datetime) -> None:
        """From now on the match is joined by this code, and by no other."""
        row = InvitationRow(match_id=match_id, code=code, expires_at=encode_time(expires_at)).model_dump()

        def work(connection: Connection, tries: int) -> None:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            put = dialect.insert(_invitations).values(row)
            connection.execute(put.on_conflict_do_update(index_elements=["match_id"], set_=row))

        await self._database.write(work)

    async def invitation(self, *, match_id: str | None = None, code: str | None = None) -> InvitationRow | None:
        """The invitation to a match, or with a code."""
        column, value = (_invitations.c.match_id, match_id) if code is None else (_invitations.c.code, code)
        query = select(_invitations).where(column == value)
        rows = await self._read(lambda connection: _made(InvitationRow, connection.execute(query)))
        return rows[0] if rows else None

    async def keep_key(self, key: Key, match_id: str, version: int) -> None:
        """Remember that a command with this key found its effect in a match at this version. Raises KeyTaken."""
        await self._database.write(lambda connection, tries: _keep_key(connection, key, match_id, version))

    async def command(self, player_id: str, key: str) -> CommandRow | None:
        """What the player's idempotency key has brought about; None if it is new, or forgotten."""
        query = select(_commands).where(_commands.c.player_id == player_id, _commands.c.key == key)
        rows = await self._read(lambda connection: _made(CommandRow, connection.execute(query)))
        return rows[0] if rows else None

    async def forget_keys(self, before: datetime) -> int:
        """Forget the idempotency keys that were used before this time; how many there were."""
        old = select(_commands.c.player_id, _commands.c.key).where(_commands.c.at < encode_time(before)).limit(1_000)
        query = delete(_commands).where(tuple_(_commands.c.player_id, _commands.c.key).in_(old))
        forgotten = 0
        while number := await self._database.write(lambda connection, tries: connection.execute(query).rowcount):
            forgotten += number
        return forgotten

    async def add_players(self, players: Sequence[PlayerRow]) -> None:
        """Keep new players; those that are known already stay as they are."""
        rows = [player.model_dump() for player in players]

        def work(connection: Connection, tries: int) -> None:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            connection.execute(dialect.insert(_players).on_conflict_do_nothing(), rows)

        await self._database.write(work)

    async def players(self, ids: Iterable[str]) -> list[PlayerRow]:
        """The players that exist among `ids`."""
        query = select(_players).where(_players.c.id.in_(list(filter(_can_be, ids))))
        return await self._read(lambda connection: _made(PlayerRow, connection.execute(query)))

    # documents of apps

    async def add_documents(self, documents: Sequence[DocumentRow]) -> int:
        """Keep documents that apps have registered; how many of them were new."""
        rows = [document.model_dump() for document in documents]

        def work(connection: Connection, tries: int) -> int:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            keep = dialect.insert(_documents).on_conflict_do_nothing()
            return sum(connection.execute(keep, row).rowcount for row in rows)

        return await self._database.write(work)

    async def documents_of_app(self, app: str) -> list[DocumentRow]:
        """All documents that an app has registered, the oldest first."""
        query = select(_documents).where(_documents.c.app == app).order_by(_documents.c.created_at, _documents.c.hash)
        return await self._read(lambda connection: _made(DocumentRow, connection.execute(query)))

    async def documents_of_hash(self, hash_: str) -> list[DocumentRow]:
        """The document with this hash, once for each app that has registered it."""
        query = select(_documents).where(_documents.c.hash == hash_)
        return await self._read(lambda connection: _made(DocumentRow, connection.execute(query)))

    async def has_app(self, name: str) -> bool:
        """Whether there is an app of this name."""
        query = select(_apps.c.name).where(_apps.c.name == name)
        return await self._read(lambda connection: connection.execute(query).first() is not None)

    async def hold_app(self, name: str, held: bool) -> None:
        """Let an app's users send its documents alone, or any operation."""
        query = update(_apps).where(_apps.c.name == name).values(documents_only=held)
        await self._database.write(lambda connection, tries: connection.execute(query))

    async def is_held(self, app: str) -> bool:
        """Whether an app's users may send its documents alone."""
        query = select(_apps.c.documents_only).where(_apps.c.name == app)
        return await self._read(lambda connection: bool(connection.execute(query).scalar()))

    async def forget_player(self, player_id: str) -> bool:
        """Forget who a player is: its name, what its app calls it, its keys, seeks, presences. Whether there was one.

        The player's matches and ratings stay, under an id that stands for nobody.
        """

        def work(connection: Connection, tries: int) -> bool:
            forgotten = update(_players).where(_players.c.id == player_id).values(name="", subject=None)
            for table in (_commands, _seeks, _presences):
                connection.execute(delete(table).where(table.c.player_id == player_id))
            return connection.execute(forgotten).rowcount > 0

        return _can_be(player_id) and await self._database.write(work)

    # appending

    async def append(self, append: Append) -> None:
        """Append, durably. Raises KeyTaken or Conflict, and then nothing of it is written; or Unavailable."""
        await self.submit(append)

    def submit(self, append: Append) -> "asyncio.Future[None]":
        """Queue an append; what it comes to is what `append` returns or raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if len(self._queue) >= QUEUE:
            self.unwritten["queue_full"] += 1
            future.set_exception(Unavailable(f"{QUEUE} commands wait for the database already"))
            return future
        span = traces.begin("append", match=append.match.id, seq=append.recorded[-1].seq)
        self._queue.append(_Queued(append, future, loop.time() + PATIENCE, time.perf_counter(), span))
        if self._writing is None:
            self._writing = asyncio.create_task(self._drain(), context=contextvars.Context())  # of no one request
        return future

    async def _drain(self) -> None:
        """Commit what is queued, group by group."""
        loop = asyncio.get_running_loop()
        while self._queue:
            batch = self._next_batch()
            if not batch:
                continue
            expiring = loop.call_at(batch[-1].deadline, self._expire)
            began = time.perf_counter()  # a loop's own time has milliseconds
            shared = traces.begin("commit", links=[queued.span for queued in batch], appends=len(batch))
            try:
                outcomes = await self._commit([queued.append for queued in batch], batch[-1].deadline - loop.time())
            except Exception as error:  # unforeseen ones too: they are for who waits, and the next have their turn
                outcomes = [error] * len(batch)
            expiring.cancel()
            now = time.perf_counter()
            self.commits += 1
            self.appended += outcomes.count(None)
            self.batches.observe(len(batch))
            self.commit_seconds.observe(now - began)
            traces.end(shared)
            for (_, future, _, queued_at, span), outcome in zip(batch, outcomes, strict=True):
                traces.end(span, None if outcome is None else type(outcome).__name__, shared)
                self.append_seconds.observe(now - queued_at)
                if outcome is not None:
                    self.unwritten[_WHY.get(type(outcome), "unavailable")] += 1
                if future.done():
                    continue
                if outcome is None:
                    future.set_result(None)
                else:
                    future.set_exception(outcome)
        self._writing = None

    def _next_batch(self) -> list[_Queued]:
        """The next appends, in order: one for each match and key, the others wait."""
        batch: list[_Queued] = []
        left: list[_Queued] = []
        taken: set[object] = set()
        for n, queued in enumerate(self._queue):
            append = queued.append
            key = append.key and (append.key.player_id, append.key.key)
            if len(batch) == BATCH:
                left += self._queue[n:]
                break
            if queued.future.cancelled():
                traces.end(queued.span, "cancelled")
                continue
            if append.match.id in taken or (key and key in taken):
                left.append(queued)
            else:
                taken |= {append.match.id, key} if key else {append.match.id}
                batch.append(queued)
        self._queue = left
        return batch

    def _expire(self) -> None:
        """Those that have waited too long for their turn are told so, and will not be written."""
        for queued in self._queue:
            if not queued.future.done():
                self.unwritten["late"] += 1
                traces.end(queued.span, "late")
                queued.future.set_exception(Unavailable(f"no commit for {PATIENCE:.0f} seconds"))
        self._queue.clear()

    async def _commit(self, appends: Sequence[Append], patience: float) -> list[Exception | None]:
        try:
            return await self._database.write_at_once(
                lambda connection, tries: commit(connection, appends, tries), patience
            )
        except Exception as error:
            cause = error.__cause__ if isinstance(error, Unavailable) else error
            if len(appends) == 1 or cause is None or isinstance(cause, (OperationalError, InterfaceError)):
                raise
        outcomes: list[Exception | None] = []  # one of them cannot be written: it shall not stop the others
        for append in appends:
            try:
                outcomes += await self._commit([append], PATIENCE)
            except Exception as error:
                outcomes.append(error)
        return outcomes

    async def _read(self, query: Callable[[Connection], T]) -> T:
        return await self._database.read(query)


def _can_be(id_: str) -> bool:
    """Whether this can be an id at all: PostgreSQL has no text with a NUL."""
    return "\0" not in id_


def _counted(wanted: Any, connection: Connection) -> int:
    """How many events are so."""
    return int(connection.execute(select(func.count()).select_from(_events).where(wanted)).scalar_one())


def _texts(query: Select[str], connection: Connection) -> list[str]:
    return list(connection.execute(query).scalars())


def _remove(ids: list[str], connection: Connection, tries: int) -> None:
    """Remove the rows of these matches."""
    connection.execute(delete(_matches).where(_matches.c.id.in_(ids)))


def _made(kind: type[T], rows: Iterable[Any]) -> list[T]:
    return [kind(**row._mapping) for row in rows]


def _put(row: dict[str, Any], connection: Connection, tries: int) -> bool:
    """Make this the match's row, unless that is newer; whether it was another."""
    query = select(_matches).where(_matches.c.id == row["id"]).with_for_update()
    found = connection.execute(query).mappings().first()
    if found is None:
        connection.execute(insert(_matches), row)
    elif found["version"] <= row["version"] and dict(found) != row:
        connection.execute(update(_matches).where(_matches.c.id == row["id"]).values(row))
    else:
        return False
    return True


def _keep_key(connection: Connection, key: Key, match_id: str, version: int) -> None:
    """The key of a command that has brought about no event. Raises KeyTaken."""
    row = CommandRow(
        player_id=key.player_id,
        key=key.key,
        fingerprint=key.fingerprint,
        match_id=match_id,
        first_seq=version + 1,
        last_seq=version,
        at=encode_time(datetime.now(UTC)),
    )
    try:
        connection.execute(insert(_commands), row.model_dump())
    except IntegrityError as error:
        raise KeyTaken from error
