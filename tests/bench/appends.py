"""Appends a second through the store, each match waiting for its own before the next, beside what others do."""

import asyncio
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace
from sqlalchemy.engine import URL, make_url

from domain.board import CheckerMove, Color
from domain.commands import Create, Join
from domain.events import Moved, Settings
from domain.match import Match
from domain.rules import decide, evolve
from infra.log import GENESIS, Recorded, encode_event, record
from infra.store import Append, SqlStore

SECONDS = 3.0
NOW = datetime.now(UTC)


@dataclass
class Stream:
    """A match that gets one event after another; their bytes are like a game's, the rules are not asked."""

    match: Match
    seq: int


def begun(n: int) -> tuple[Append, Match]:
    match: Match | None = None
    events = []
    for command in (
        Create(match=f"bench-match-{n:010}", settings=Settings(length=5), color=Color.WHITE, player="a" * 22),
        Join(player="b" * 22),
    ):
        for event in decide(match, command):
            match = evolve(match, event)
            events.append(event)
    assert match is not None
    return Append(match=match, recorded=record(GENESIS, 0, NOW, events), auto_roll=(True, True)), match


MOVED = Moved(by=Color.WHITE, play=(CheckerMove(24, 18), CheckerMove(13, 11)))
TEXT = encode_event(MOVED)


async def appends(url: URL, streams: int, seconds: float = SECONDS) -> float:
    """Appends a second of as many streams at once, durable."""
    store = SqlStore(url, create=True)
    matches = []
    for n in range(streams):
        append, match = begun(n)
        await store.append(append)
        matches.append((match, append.recorded[-1].seq))
    done = 0

    async def stream(match: Match, seq: int, until: float) -> None:
        nonlocal done
        while time.perf_counter() < until:
            seq += 1
            await store.append(Append(match=match, recorded=[Recorded(seq, NOW, MOVED, TEXT, "0" * 64)]))
            done += 1

    started = time.perf_counter()
    await asyncio.gather(*(stream(*each, started + seconds) for each in matches))
    rate = done / (time.perf_counter() - started)
    await store.close()
    return rate


def bare_sqlite(group: int) -> float:
    """Events a second of a bare loop: `group` events a transaction, synchronous FULL, nothing else in the table."""
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE events (m TEXT, seq INTEGER, event TEXT, PRIMARY KEY (m, seq))")
        done, until = 0, time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO events VALUES (?, ?, ?)", [(f"m{n}", done, "x" * 200) for n in range(group)])
            db.execute("COMMIT")
            done += group
        db.close()
        return done / SECONDS


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for n in (1, 64):
            print("sqlite", n, asyncio.run(appends(make_url(f"sqlite:///{folder}/{n}.db"), n)))
        print("bare 1", bare_sqlite(1), "64", bare_sqlite(64))
