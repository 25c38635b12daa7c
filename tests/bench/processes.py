"""Two processes beside one, over PostgreSQL and Redis: commands a second, and how soon a watcher at the other knows."""

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from domain.board import Board, Color, Dice
from domain.plays import legal_plays
from infra.migrations import migrate
from infra.settings import Settings
from tests.bench.light import MOVE, ROLL, STATE, Connection, print_table
from tests.client import Client, register
from tests.postgres import PostgresServer
from tests.redis import RedisServer
from tests.server import Server, Typed

MATCHES = 64
SECONDS = 5.0
ROUNDS = 3
RATE = 200
"""Commands a second, of all matches together, where the news are timed."""


@contextmanager
def processes(number: int, folder: Path) -> Iterator[list[Server]]:
    """So many processes of the service over one database and one Redis, both private."""
    with ExitStack() as stack:
        postgres = PostgresServer(private=True, fsync=True)
        postgres.start()
        stack.callback(postgres.close)
        redis = RedisServer(folder / "redis", private=True)
        redis.start()
        stack.callback(redis.kill)
        url = postgres.create_database()
        migrate(Settings(database_url=url).url)
        env = {
            "VIDEAU_DATABASE_URL": url,
            "VIDEAU_REDIS_URL": redis.url,
            "VIDEAU_SECRET": "s" * 32,
            "VIDEAU_DICE_SECRET": "d" * 32,
            "VIDEAU_SIGNING_KEY": "0" * 64,
        }
        servers = []
        for n in range(number):
            home = folder / str(n)
            home.mkdir()
            servers.append(Typed(home, **env))
            servers[-1].start()
            stack.callback(servers[-1].kill)
        yield servers


def cpu_seconds(servers: list[Server]) -> float:
    """What their processors have worked so far."""
    ticks = 0
    for server in servers:
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Game:
    """A match that is played at random on one server, a command at a time."""

    def __init__(self, match_id: str, seats: dict[str, Connection], match: dict[str, Any]) -> None:
        self.match_id, self._seats, self._match = match_id, seats, match
        self._chance = random.Random(match_id)

    async def go_on(self) -> None:
        """The next roll or move."""
        match, variables = self._match, {"m": self.match_id}
        actor = self._seats[match["toAct"]]
        if match["phase"] == "TO_PLAY":
            board = Board(tuple(match["white"]["checkers"]), tuple(match["black"]["checkers"]))
            plays = legal_plays(board, Color(match["toAct"].lower()), Dice(*match["dice"]))
            data = await actor.post(MOVE, {**variables, "p": self._chance.choice(plays)})
        else:
            data = await actor.post(ROLL, variables)
        self._match = data["answer"]["match"]


async def begun(server: Server, n: int) -> Game:
    """A long match, about to be played."""
    white, black = await register(server.url, f"white {n}"), await register(server.url, f"black {n}")
    match_id = await white.create("{length: 99}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    seats = {"WHITE": Connection(server.url, white.token), "BLACK": Connection(server.url, black.token)}
    for connection in seats.values():
        await connection.open()
    await white.close()
    await black.close()
    return Game(match_id, seats, (await seats["WHITE"].post(STATE, {"m": match_id}))["match"])


async def commands(servers: list[Server]) -> tuple[float, float]:
    """Commands a second that these answer, and how many for a second of their processors."""
    games = [await begun(servers[n % len(servers)], n) for n in range(MATCHES)]
    done = 0

    async def play(game: Game, until: float) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await game.go_on()
            done += 1

    used, started = cpu_seconds(servers), time.perf_counter()
    await asyncio.gather(*(play(game, started + SECONDS) for game in games))
    seconds = time.perf_counter() - started
    return done / seconds, done / (cpu_seconds(servers) - used)


async def news(here: Server, there: Server) -> list[float]:
    """Milliseconds from an event's time, which is before its commit, until a watcher of the other process has it."""
    games = [await begun(here, n) for n in range(50)]
    command = [sys.executable, "-m", "tests.bench.processes", there.url, *(game.match_id for game in games)]
    watchers = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert watchers.stdout is not None
    assert await watchers.stdout.readline() == b"watching\n"
    started = time.perf_counter()
    for n in range(int(SECONDS * RATE)):
        await asyncio.sleep(max(0, started + n / RATE - time.perf_counter()))
        await games[n % len(games)].go_on()
    told, _ = await watchers.communicate(b"")
    late: list[float] = json.loads(told)
    return sorted(late)


async def watch_all(url: str, matches: list[str]) -> None:
    """Watch, in a process of its own, until standard input ends; then print how late each event has come."""
    late: list[float] = []
    anonymous = Client(url)

    async def watch(match_id: str, version: int) -> None:
        async for event in anonymous.watch(match_id, version, "at"):
            late.append((datetime.now(UTC) - datetime.fromisoformat(event["at"])).total_seconds() * 1e3)

    versions = [(await anonymous.match(match_id, "version"))["version"] for match_id in matches]
    _watching = [asyncio.create_task(watch(*each)) for each in zip(matches, versions, strict=True)]
    await asyncio.sleep(2)
    print("watching", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps(late), flush=True)
    os._exit(0)  # without goodbyes


def rows() -> list[tuple[str, ...]]:
    """The README's rows; rounds alternate, medians are compared."""
    one, two = [], []
    with tempfile.TemporaryDirectory() as folder, processes(2, Path(folder)) as servers:
        for _ in range(ROUNDS):
            one.append(asyncio.run(commands(servers[:1])))
            two.append(asyncio.run(commands(servers)))
        late = asyncio.run(news(*servers))
    rates = [[statistics.median(each) for each in zip(*runs, strict=True)] for runs in (two, one)]
    (both, both_a_second), (alone, alone_a_second) = rates
    median, most = late[len(late) // 2], late[int(len(late) * 0.99)]
    return [
        (
            "commands/s, PostgreSQL and Redis, two processes",
            f"{both:,.0f}",
            f"one process {alone:,.0f}",
            f"{both / alone:.2f}",
        ),
        (
            "commands for a second of the servers' CPU, two processes",
            f"{both_a_second:,.0f}",
            f"one process {alone_a_second:,.0f}",
            f"{both_a_second / alone_a_second:.2f}",
        ),
        (
            f"ms until a watcher at the other process knows, p99 at {RATE} commands/s",
            f"{most:.1f}",
            f"p50 {median:.1f}",
            "",
        ),
    ]


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(watch_all(sys.argv[1], sys.argv[2:]))
    else:
        print_table(rows())
