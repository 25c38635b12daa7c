"""One database, SQLite or PostgreSQL: its connections, how long anybody waits for it, and what is wrong with it."""

import asyncio
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from infra.histogram import Histogram

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that a request waits for the database; then it is told to come again."""

READERS = 4
"""Connections that read; one more writes at once, and one in transactions."""

_POSTGRES: dict[str, Any] = {
    "connect_timeout": 2,
    "tcp_user_timeout": 5_000,
    "application_name": "videau",
    "options": "-c statement_timeout=4000 -c lock_timeout=3000 -c idle_in_transaction_session_timeout=5000",
}

READ_ONLY = "25006"

_PASSING = {
    "08": "the connection was lost",
    READ_ONLY: "it is read-only, as a standby is",
    "40001": "two transactions were in each other's way",
    "40P01": "two transactions waited for each other",
    "53300": "it has too many connections",
    "55P03": "it is locked by another program",
    "57P01": "it is being shut down",
    "57P02": "it has crashed",
    "57P03": "it is starting up",
}
"""PostgreSQL's codes, or their beginnings, for what may be over in a moment."""


class Unavailable(Exception):
    """The database cannot be used now, or at all; the message says why.

    Of an append it is not known whether it was written: sent again with its idempotency key, it takes effect once.
    """


class Damaged(Unavailable):
    """What is stored is not what was written, and waiting will not mend it."""


class Unreachable(Unavailable):
    """No server is there that lets anybody in: it has not started yet, or has been stopped."""


class _Job:
    """One piece of work in a thread, which ends when it is told to even if the database does not answer."""

    def __init__(self, patience: float) -> None:
        self.deadline = time.monotonic() + patience
        self._lock = threading.Lock()
        self._connection: Any = None
        self._cut = False

    def holds(self, connection: Any) -> None:
        """This driver's connection is in use now; None: no longer."""
        with self._lock:
            self._connection = connection
            if self._cut:
                self._shut()

    def cut(self) -> None:
        """Cut the connection in use, so that its thread is told that it is lost; and any used later."""
        with self._lock:
            self._cut = True
            self._shut()

    @property
    def left(self) -> float:
        """Seconds until its deadline; 0 if it was cut."""
        return 0.0 if self._cut else self.deadline - time.monotonic()

    def _shut(self) -> None:
        if self._connection is not None and hasattr(self._connection, "fileno"):
            with suppress(Exception), socket.socket(fileno=os.dup(self._connection.fileno())) as held:
                held.shutdown(socket.SHUT_RDWR)


def _on_postgres(url: URL) -> dict[str, Any]:
    """How to connect, beside what the address says, which goes before what we would say: SQLAlchemy knows that."""
    given = url.query.get("options", ())
    options = " ".join([_POSTGRES["options"], *((given,) if isinstance(given, str) else given)])
    return {name: ours for name, ours in _POSTGRES.items() if name not in url.query} | {"options": options}


class Database:
    """Readers and one writer, threads with connections of their own; none waits for the database longer than it was
    given."""

    def __init__(self, url: URL) -> None:
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.name = url.database or "" if self.is_sqlite else url.set(drivername="postgresql").render_as_string()
        arguments = {"timeout": 3, "check_same_thread": False} if self.is_sqlite else _on_postgres(url)
        self._engine = create_engine(url, connect_args=arguments, poolclass=NullPool, hide_parameters=True)
        if self.is_sqlite:
            event.listen(self._engine, "connect", _configure)
            event.listen(self._engine, "begin", _begin)
        self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._readers = ThreadPoolExecutor(READERS, "database-reader")
        self._writer = ThreadPoolExecutor(1, "database-writer")
        self._of_thread = threading.local()
        self.answering = True
        """Whether it did when it was last asked."""
        self.seconds = {"read": Histogram(), "write": Histogram()}
        """How long each piece of work took, its waiting for a thread included."""
        self._open: set[Connection] = set()

    @property
    def file(self) -> Path | None:
        """The SQLite file."""
        return Path(self._engine.url.database or "") if self.is_sqlite else None

    async def read(self, query: Callable[[Connection], T]) -> T:
        """What single statements find. Raises Unavailable."""
        return await self._run(self._readers, self._single, lambda connection, tries: query(connection), PATIENCE)

    async def write(self, work: Callable[[Connection, int], T], patience: float = PATIENCE) -> T:
        """What one transaction comes to; `work` is told how often it was tried before. Raises Unavailable."""
        return await self._run(self._writer, self._engine, work, patience)

    async def write_at_once(self, work: Callable[[Connection, int], T], patience: float = PATIENCE) -> T:
        """As `write`, for `work` that is a single statement in PostgreSQL: a transaction in one round trip."""
        return await self._run(self._writer, self._engine if self.is_sqlite else self._single, work, patience)

    def read_now(self, query: Callable[[Connection], T], patience: float = PATIENCE) -> T:
        """As `read`, in the thread of the caller."""
        try:
            return self._attempt(self._single, lambda connection, tries: query(connection), _Job(patience))
        finally:
            self._close(self._single)

    async def close(self) -> None:
        """Let all connections go, when their threads have done what they were given."""
        for executor in (self._writer, self._readers):
            await asyncio.to_thread(executor.shutdown)
        for connection in self._open:
            with suppress(DBAPIError):
                connection.close()

    async def _run(
        self, executor: ThreadPoolExecutor, engine: Engine, work: Callable[[Connection, int], T], patience: float
    ) -> T:
        loop = asyncio.get_running_loop()
        job, answer = _Job(patience), loop.create_future()
        began = time.perf_counter()

        def done(working: "Future[T]") -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(told, working)

        def told(working: "Future[T]") -> None:
            error = working.exception()
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(working.result())

        def late() -> None:
            job.cut()
            if not answer.done():
                answer.set_exception(
                    Unavailable(f"the database {self.name} has not answered for {patience:.0f} seconds")
                )

        timer = loop.call_later(max(patience, 0) + 0.5, late)
        executor.submit(self._attempt, engine, work, job).add_done_callback(done)
        try:
            return await answer  # type: ignore[no-any-return]
        finally:
            timer.cancel()
            self.seconds["read" if executor is self._readers else "write"].observe(time.perf_counter() - began)

    def _attempt(self, engine: Engine, work: Callable[[Connection, int], T], job: _Job) -> T:
        """Do it, again while what stands in the way may pass and there is time."""
        tries = 0
        while True:
            try:
                connection = self._connection(engine)
                job.holds(connection.connection.driver_connection)
                with connection.begin():
                    done = work(connection, tries)
                self.answering = True
                return done
            except DBAPIError as error:
                self._close(engine)
                pause = random.uniform(0.02, 0.08) * min(tries + 1, 5)
                self.answering = getattr(error.orig, "sqlstate", None) == READ_ONLY  # which is an answer
                if self.is_sqlite or not _passes(error) or job.left < pause:
                    raise self._explained(error) from error
            finally:
                job.holds(None)
            time.sleep(pause)
            tries += 1

    def _connection(self, engine: Engine) -> Connection:
        """This thread's connection, of its kind."""
        connections = self._of_thread.__dict__.setdefault("connections", {})
        connection: Connection | None = connections.get(engine)
        if connection is None:
            connection = connections[engine] = engine.connect()
            self._open.add(connection)
        return connection

    def _close(self, engine: Engine) -> None:
        """Let this thread's connection go, if there is one."""
        connection = self._of_thread.__dict__.get("connections", {}).pop(engine, None)
        if connection is not None:
            self._open.discard(connection)
            with suppress(DBAPIError):
                connection.close()

    def _explained(self, error: DBAPIError) -> Unavailable:
        cause = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        if not self.is_sqlite and _is_of_connecting(error):
            return Unreachable(f"the database {self.name} cannot be used: {cause}")
        if "locked" in cause:
            return Unavailable(f"the database {self.name} is locked by another program")
        if "not a database" in cause or "malformed" in cause:
            return Damaged(f"the database {self.name} is damaged, or not a database: {cause}")
        if "no such table" in cause or "no such column" in cause or "does not exist" in cause:
            return Unavailable(f"{self.name} is not a database of this version of Videau: {cause}")
        if "full" in cause or "No space" in cause:
            return Unavailable(f"the disk of the database {self.name} is full: {cause}")
        if "readonly" in cause or "read-only" in cause:
            return Unavailable(f"the database {self.name} is read-only: {cause}")
        return Unavailable(f"the database {self.name} cannot be used: {cause}")


_NOT_YET = ("starting up", "shutting down", "not yet accepting", "too many", "remaining connection")
"""What a server says that lets nobody in for now (FATAL, as when a user or a database is not there)."""


def _is_of_connecting(error: DBAPIError) -> bool:
    """Whether nobody was there, or nobody is let in for now; errors of connecting have no codes."""
    told = str(error.orig)
    if not isinstance(error, OperationalError) or getattr(error.orig, "sqlstate", None):
        return False
    missing = "connection" in told or "resolve host" in told
    return missing and ("FATAL" not in told or any(each in told for each in _NOT_YET))


def _passes(error: DBAPIError) -> bool:
    """Whether it may be over in a moment; not so what the driver finds wrong with what it was given."""
    if isinstance(error, DataError):
        return False
    code = getattr(error.orig, "sqlstate", None) or ""
    return error.connection_invalidated or not code or code in _PASSING or code[:2] in _PASSING


def _configure(connection: Any, _: object) -> None:
    """Hand transactions to us rather than to the driver, and make a commit mean that it is on the disk."""
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
