"""Appends a second, durable, each match waiting for its own before the next: our store beside what others do."""

import asyncio
import re
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from domain.board import CheckerMove, Color
from domain.commands import Command, Create, Join
from domain.events import Event, Moved, Settings
from domain.match import Match
from domain.rules import decide, evolve
from infra.log import GENESIS, Recorded, record
from infra.migrations import migrate
from infra.settings import Settings as Environment
from infra.store import Append, SqlStore
from tests.bench.light import print_table
from tests.postgres import PostgresServer

SECONDS = 2.0
ROUNDS = 3
NOW = datetime.now(UTC)
MOVED = Moved(by=Color.WHITE, play=(CheckerMove(24, 18), CheckerMove(13, 11)))
EVENT_BYTES = "x" * 200
"""What is written for each; the rules are not asked."""


def begun(n: int) -> Append:
    """A match that has just begun."""
    match: Match | None = None
    events: list[Event] = []
    create = Create(match=f"bench-match-{n:010}", settings=Settings(length=5), color=Color.WHITE, player="a" * 22)
    commands: list[Command] = [create, Join(player="b" * 22)]
    for command in commands:
        for event in decide(match, command):
            match = evolve(match, event)
            events.append(event)
    assert match is not None
    return Append(match=match, recorded=record(GENESIS, 0, NOW, events), auto_roll=(True, True))


async def ours(url: str, streams: int) -> float:
    """Through the store: event, match row, position and all."""
    database = Environment(database_url=url).url
    store = SqlStore(database, create=True)
    matches = [begun(n) for n in range(streams)]
    await asyncio.gather(*(store.append(append) for append in matches))
    done = 0

    async def stream(begun: Append, until: float) -> None:
        nonlocal done
        seq = begun.recorded[-1].seq
        while time.perf_counter() < until:
            seq += 1
            await store.append(Append(match=begun.match, recorded=[Recorded(seq, NOW, MOVED, EVENT_BYTES, "0" * 64)]))
            done += 1

    started = time.perf_counter()
    await asyncio.gather(*(stream(append, started + SECONDS) for append in matches))
    rate = done / (time.perf_counter() - started)
    await store.close()
    return rate


def bare_sqlite(file: Path, group: int) -> float:
    """A bare loop, so many events a transaction, synchronous FULL, nothing else in the table."""
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE events (match TEXT, seq INTEGER, event TEXT, PRIMARY KEY (match, seq))")
    seq, started = 0, time.perf_counter()
    while time.perf_counter() < started + SECONDS:
        seq += 1
        database.execute("BEGIN IMMEDIATE")
        rows = [(f"bench-match-{n:010}", seq, EVENT_BYTES) for n in range(group)]
        database.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        database.execute("COMMIT")
    database.close()
    return seq * group / (time.perf_counter() - started)


def pgbench(server: PostgresServer, clients: int) -> float:
    """pgbench with the same INSERT, prepared, one row a transaction."""
    url = server.create_database()
    with server.connect(urlsplit(url).path[1:]) as connection:
        connection.execute("CREATE TABLE events (match text, seq bigint, event text, PRIMARY KEY (match, seq))")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "insert.sql"
        script.write_text(
            "\\set seq random(1, 1000000000000000)\n"
            f"INSERT INTO events VALUES ('bench-match-' || :client_id, :seq, '{EVENT_BYTES}');\n"
        )
        command = ["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", "2", "-T", str(int(SECONDS))]
        told = subprocess.run([*command, "-f", script, url], capture_output=True, text=True, check=True)
    found = re.search(r"tps = ([\d.]+)", told.stdout)
    assert found, told.stdout
    return float(found[1])


def eventsourcing(server: PostgresServer, threads: int) -> float:
    """The recorder of the `eventsourcing` library, a thread a stream."""
    from eventsourcing.persistence import StoredEvent
    from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

    at = urlsplit(server.create_database())
    datastore = PostgresDatastore(
        dbname=at.path[1:],
        host=at.hostname or "",
        port=str(at.port),
        user=at.username or "",
        password=at.password or "",
        pool_size=threads,
        originator_id_type="uuid",
    )
    recorder = PostgresApplicationRecorder(datastore)
    recorder.create_table()
    counts = [0] * threads
    until = time.perf_counter() + SECONDS

    def stream(n: int) -> None:
        match = uuid.uuid4()
        while time.perf_counter() < until:
            counts[n] += 1
            recorder.insert_events([StoredEvent(match, counts[n], "moved", EVENT_BYTES.encode())])

    running = [threading.Thread(target=stream, args=(n,)) for n in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    datastore.close()
    return sum(counts) / SECONDS


def rows() -> list[tuple[str, ...]]:
    """The README's rows; rounds alternate, medians are compared."""
    server = PostgresServer(private=True, fsync=True)
    server.start()
    told: list[tuple[str, ...]] = []

    def on_postgres(streams: int) -> float:
        url = server.create_database()
        migrate(Environment(database_url=url).url)
        return uvloop.run(ours(url, streams))

    def on_sqlite(streams: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return uvloop.run(ours(f"sqlite:///{folder}/videau.db", streams))

    def bare(group: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return bare_sqlite(Path(folder) / "bare.db", group)

    def row(name: str, mine: Callable[[], float], *others: tuple[str, Callable[[], float]]) -> None:
        measured: list[list[float]] = [[] for _ in range(len(others) + 1)]
        for _ in range(ROUNDS):
            for runs, work in zip(measured, (mine, *(work for _, work in others)), strict=True):
                runs.append(work())
        rate, *beside = map(statistics.median, measured)
        for (what, _), other in zip(others, beside, strict=True):
            told.append((name, f"{rate:,.0f}", f"{what} {other:,.0f}", f"{rate / other:.2f}"))
            name = ""

    row(
        "appends/s, PostgreSQL, 64 matches at once",
        lambda: on_postgres(64),
        ("pgbench, the same INSERT, 64 clients", lambda: pgbench(server, 64)),
        ("`eventsourcing`, 64 threads", lambda: eventsourcing(server, 64)),
    )
    row("appends/s, PostgreSQL, one match", lambda: on_postgres(1), ("pgbench, 1 client", lambda: pgbench(server, 1)))
    row("appends/s, SQLite, 64 matches at once", lambda: on_sqlite(64), ("bare loop, 64 a commit", lambda: bare(64)))
    row("appends/s, SQLite, one match", lambda: on_sqlite(1), ("bare loop, 1 a commit", lambda: bare(1)))
    server.stop()
    return told


if __name__ == "__main__":
    print_table(rows())
