"""How many seeks a process pairs a second, and what clocks cost that run while none runs out."""

import asyncio
import json
import os
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.engine import make_url

from domain.board import Color, Dice
from domain.commands import Command, Create, Join, Roll
from domain.events import Clock, Event, Settings
from domain.match import Match
from domain.rules import decide, evolve
from infra.log import GENESIS, encode_time, instant, record
from infra.settings import Settings as ServerSettings
from infra.store import Append, PlayerRow, SqlStore
from service.auth import Tokens
from tests.bench.light import Connection, print_table
from tests.client import Client, register
from tests.server import Typed

SEEKERS = 1_000
AT_ONCE = 64
CLOCKS = 10_000
SECONDS = 20.0
ONLOOKERS = 1_000
UPDATES = 20

SEEK = "mutation($n: Int!) { answer: seek(length: $n) { ... on Seek { id matchId } ... on Refusal { code message } } }"
CREATE = "mutation($n: Int!) { answer: createMatch(settings: {length: $n}) { ... on Happened { match { id } } } }"
JOIN = "mutation($m: ID!) { answer: joinMatch(matchId: $m) { ... on Happened { match { id } } } }"
LOOK = """subscription { lobby { seeksOpened { id length player { name } } seeksClosed { id matchId }
  matchesListed { id phase settings { length } white { score player { name } } black { score } } matchesUnlisted } }"""
FOUND = "query($id: ID!) { seek(id: $id) { matchId } }"


def rows() -> list[tuple[str, ...]]:
    """What the README's table says of it."""
    with tempfile.TemporaryDirectory() as folder:
        seeks, opened, most = asyncio.run(_seeks(Path(folder)))
    looking = asyncio.run(_onlookers())
    running, idle = [asyncio.run(_clocks(number)) for number in (CLOCKS, 0)]
    name = f"seeks/s paired by one process over HTTP, SQLite synchronous FULL, {SEEKERS:,} seekers of five kinds"
    return [
        (
            name,
            f"{seeks:,.0f}",
            f"createMatch and joinMatch, for as many matches {opened:,.0f}",
            f"{seeks / opened:.2f}",
        ),
        ("seeks that were paired twice", f"{most}", "", ""),
        (
            f"updates of a lobby to {ONLOOKERS:,} websockets, deliveries a CPU-second of the server",
            f"{looking:,.0f}",
            "",
            "",
        ),
        (f"% of a core while {CLOCKS:,} clocks run and none runs out", f"{running:.2f}", f"no clocks {idle:.2f}", ""),
    ]


async def _seeks(folder: Path) -> tuple[float, float, int]:
    """Seeks a second; as many commands that open and join matches; and seeks paired twice."""
    url = f"sqlite:///{folder / 'videau.db'}"
    tokens = Tokens(ServerSettings(database_url=url).kept("secret")[0], 1)
    players = [f"p{n}" for n in range(SEEKERS)]
    store = SqlStore(make_url(url), create=True)
    now = encode_time(datetime.now(UTC))
    await store.add_players([PlayerRow(id=player, name=player, created_at=now) for player in players])
    await store.close()
    server = Typed(folder)
    server.start()
    try:
        waiting = asyncio.Queue[tuple[int, Connection]]()
        for n, player in enumerate(players):
            waiting.put_nowait((n, Connection(server.url, tokens.issue(player)[0])))
        seeks: dict[int, str] = {}

        async def seek(n: int, connection: Connection) -> None:
            seeks[n] = (await connection.post(SEEK, {"n": n % 5 + 1}))["answer"]["id"]

        taken = await _all(waiting, seek)
        matches = Counter[str | None]()
        connection = Connection(server.url, None)
        await connection.open()
        for seek_id in seeks.values():
            matches[(await connection.post(FOUND, {"id": seek_id}))["seek"]["matchId"]] += 1
        assert matches.pop(None, 0) <= 5, "one of a kind may be left over"
        twice = sum(number > 2 for number in matches.values())
        assert set(matches.values()) <= {2}, matches.most_common(3)

        opened: list[str] = []
        for n, player in enumerate(players):
            waiting.put_nowait((n, Connection(server.url, tokens.issue(player)[0])))

        async def open_or_join(n: int, connection: Connection) -> None:
            if n % 2 == 0:
                opened.append((await connection.post(CREATE, {"n": n % 5 + 1}))["answer"]["match"]["id"])
            else:
                while not opened:
                    await asyncio.sleep(0)
                await connection.post(JOIN, {"m": opened.pop()})

        beside = await _all(waiting, open_or_join)
        return SEEKERS / taken, SEEKERS / beside, twice
    finally:
        server.kill()


async def _all(waiting: "asyncio.Queue[tuple[int, Connection]]", do: object) -> float:
    """Seconds in which all that wait have done it, a number of them at a time."""
    connections = [waiting.get_nowait() for _ in range(waiting.qsize())]
    for start in range(0, len(connections), 100):
        await asyncio.gather(*(connection.open() for _, connection in connections[start : start + 100]))
    left = iter(connections)

    async def work() -> None:
        for n, connection in left:
            await do(n, connection)  # type: ignore[operator]

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return time.perf_counter() - begun


async def _onlookers() -> float:
    """Updates of a lobby that reach all who look at it, for a second of the server's CPU."""
    with tempfile.TemporaryDirectory() as folder:
        server = Typed(Path(folder))
        server.start()
        ann = await register(server.url, "Ann")
        clients = [Client(server.url) for _ in range(ONLOOKERS)]
        shown = Counter[str]()

        async def look(client: Client) -> None:
            async with await client.open_socket() as socket:
                await socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": {"query": LOOK}}))
                async for text in socket:
                    for match in json.loads(text)["payload"]["data"]["lobby"]["matchesListed"]:
                        shown[match["id"]] += 1

        async def seen(match_id: str) -> None:
            while shown[match_id] < ONLOOKERS:
                await asyncio.sleep(0.01)

        try:
            first = await ann.create("{length: 1}")
            looking = [asyncio.create_task(look(client)) for client in clients]
            await seen(first)
            begun = _processor_seconds(server.pid)
            for _ in range(UPDATES):
                await seen(await ann.create("{length: 1}"))
            used = _processor_seconds(server.pid) - begun
            for task in looking:
                task.cancel()
            return ONLOOKERS * UPDATES / used
        finally:
            server.kill()


async def _clocks(number: int) -> float:
    """Per cent of a core that an idle server takes beside so many running clocks."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStore(make_url(f"sqlite:///{folder}/videau.db"), create=True)
        now = datetime.now(UTC)
        for start in range(0, number, 200):
            await asyncio.gather(*(store.append(_running(f"m{n}", now)) for n in range(start, start + 200)))
        await store.close()
        server = Typed(Path(folder))
        server.start()
        try:
            await asyncio.sleep(5)  # what starting costs is not meant
            begun = _processor_seconds(server.pid)
            await asyncio.sleep(SECONDS)
            return (_processor_seconds(server.pid) - begun) / SECONDS * 100
        finally:
            server.kill()


def _running(match_id: str, at: datetime) -> Append:
    match: Match | None = None
    events: list[Event] = []
    settings = Settings(length=7, clock=Clock(reserve=3600, delay=86_400))
    commands: list[Command] = [
        Create(match=match_id, settings=settings, color=Color.WHITE, player="ann"),
        Join(player="bob"),
        Roll(by=None, dice=Dice(3, 1)),
    ]
    for command in commands:
        for event in decide(match, command, instant(at)):
            match = evolve(match, event, instant(at))
            events.append(event)
    assert match is not None
    return Append(match=match, recorded=record(GENESIS, 0, at, events), auto_roll=(True, True))


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print_table(rows())
