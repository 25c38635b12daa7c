"""What many events in PostgreSQL change, for k8s/GROWING.md: `python -m tests.bench.growing [MILLIONS]`.

Three databases, one after the other in each round: empty; with many events, as three years would have brought them; the
same in monthly partitions. Medians are compared.
"""

import random
import statistics
import sys
import time
from collections import defaultdict
from hashlib import md5
from urllib.parse import urlsplit

import uvloop

from infra.migrations import migrate
from infra.settings import Settings
from infra.store import SqlStore
from tests.bench.appends import ours
from tests.postgres import PostgresServer

ROUNDS = 3
MONTHS = 36
READS = 300
EACH = 100
"""Events of a match."""

FILL = f"""
INSERT INTO events (match_id, seq, position, at, event, hash)
SELECT substr(md5((n / {EACH})::text), 1, 22), n % {EACH} + 1, n + 1,
  to_char(
    timestamp '2024-01-01' + interval '{MONTHS * 30} days' * (n::float8 / {{events}}), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
  ),
  '{{{{"by":"white","kind":"moved","play":[[24,18],[13,11]]}}}}', md5(n::text) || md5((n + 1)::text)
FROM generate_series(0, {{events}} - 1) AS n
"""


def months() -> list[str]:
    """The first days of them, and of the one after them."""
    return [f"{2024 + n // 12}-{n % 12 + 1:02}" for n in range(MONTHS + 1)]


def partitioned() -> str:
    """The statements that make of a new table of events a partitioned one."""
    bounds = [
        f"CREATE TABLE events_{n} PARTITION OF events FOR VALUES FROM ('{first}') TO ('{last}');"
        for n, (first, last) in enumerate(zip(months(), months()[1:], strict=False))
    ]
    return (
        "ALTER TABLE events RENAME TO before; CREATE TABLE events (LIKE before, PRIMARY KEY (match_id, seq, at), "
        "UNIQUE (position, at)) PARTITION BY RANGE (at); DROP TABLE before;"
        f"{''.join(bounds)} CREATE TABLE events_later PARTITION OF events DEFAULT;"
    )


def made(server: PostgresServer, events: int, *, in_months: bool) -> str:
    """The address of a database with so many events."""
    url = server.create_database()
    migrate(Settings(database_url=url).url)
    with server.connect(urlsplit(url).path[1:]) as connection:
        if in_months:
            connection.execute(partitioned().encode())
        connection.execute(FILL.format(events=events).encode())
        connection.execute("UPDATE feed SET position = (SELECT coalesce(max(position), 0) FROM events)")
        connection.execute("VACUUM ANALYZE")
    return url


async def reading(url: str, events: int) -> tuple[float, float]:
    """Milliseconds for the log of a match, and for a page of a hundred of the feed."""
    store = SqlStore(Settings(database_url=url).url)
    chance, logs, pages = random.Random(1), [], []
    for number in range(READS):
        match = md5(str(chance.randrange(events // EACH)).encode()).hexdigest()[:22]
        begun = time.perf_counter()
        assert len(await store.read(match)) == EACH
        logs.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        assert len(await store.feed(number * (events - 100) // READS, 100)) == 100
        pages.append(time.perf_counter() - begun)
    await store.close()
    return statistics.median(logs) * 1e3, statistics.median(pages) * 1e3


def appending(server: PostgresServer, url: str) -> float:
    """Appends a second of 64 matches at once, which are gone again after it."""
    rate = uvloop.run(ours(url, 64))
    with server.connect(urlsplit(url).path[1:]) as connection:
        for table, column in (("events", "match_id"), ("matches", "id"), ("wishes", "match_id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} LIKE 'bench-match-%'".encode())
    return rate


def rows(events: int) -> list[tuple[str, ...]]:
    """What the page quotes."""
    server = PostgresServer(private=True, fsync=True)
    server.start()
    urls = [made(server, number, in_months=each) for number, each in ((EACH, False), (events, False), (events, True))]
    with server.connect(urlsplit(urls[1]).path[1:]) as connection:
        [(size,)] = connection.execute("SELECT pg_total_relation_size('events')").fetchall()
    counts = (EACH, events, events)
    appends, logs, pages = (defaultdict[int, list[float]](list) for _ in range(3))
    for _ in range(ROUNDS):
        for n, url in enumerate(urls):
            appends[n].append(appending(server, url))
            log, page = uvloop.run(reading(url, counts[n]))
            logs[n].append(log)
            pages[n].append(page)
    server.close()
    many = f"{events // 1_000_000} million events"

    def row(name: str, measured: dict[int, list[float]], digits: int) -> tuple[str, ...]:
        return name, *(f"{statistics.median(each):,.{digits}f}" for each in measured.values())

    return [
        ("", "no events", many, f"{many} in {MONTHS} partitions"),
        row("appends/s, 64 matches at once", appends, 0),
        row(f"ms to read a log of {EACH} events", logs, 2),
        row("ms to read 100 events of the feed", pages, 2),
        ("bytes an event, indexes included", "", f"{size / events:.0f}", ""),
    ]


if __name__ == "__main__":
    for line in rows(int(sys.argv[1] if sys.argv[1:] else 10) * 1_000_000):
        print("| " + " | ".join(line) + " |")
