"""PostgreSQL goes and comes back in the middle of commits: bounded waits, the truth, and no restart of ours."""

import asyncio
import random
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from tests.client import play_out, register
from tests.faults.processes import SECRETS
from tests.faults.proof import operators_token, proven
from tests.faults.watchers import Watcher, caught_up
from tests.postgres import PostgresServer
from tests.server import Server


async def test_restarts_of_postgresql_in_the_middle_of_commits_lose_nothing(
    pair: list[Server], own_postgres: PostgresServer
) -> None:
    async with proven(pair, 32) as crowd:
        for _ in range(3):
            await crowd.more(100)
            await asyncio.to_thread(own_postgres.restart, "immediate")
        await crowd.more(100)
    assert [watcher.cuts for watcher in crowd.watchers] == [0] * 32


async def test_while_postgresql_is_paused_commands_are_told_so_and_watchers_wait(
    pair: list[Server], shared: dict[str, str], own_postgres: PostgresServer
) -> None:
    """Those who watch the feed too; and whoever comes while it is paused gets all there is when it goes on."""

    def newest() -> int:
        with own_postgres.connect(urlsplit(shared["VIDEAU_DATABASE_URL"]).path[1:]) as connection:
            [position] = connection.execute("SELECT position FROM feed").fetchone() or [0]
            return int(position)

    urls = [server.base for server in pair]
    feed = Watcher("", urls, by_sse=True, token=operators_token(), after=newest())
    async with proven(pair, 32) as crowd:
        crowd.watch(feed)
        await crowd.more(100)
        await asyncio.to_thread(own_postgres.pause)
        try:
            for number, game in enumerate(crowd.games):
                crowd.watch(Watcher(game.id, urls, by_sse=number % 2 == 0))
            await crowd.until(lambda: crowd.unavailable >= 32)
            await _held(urls, 0)
        finally:
            own_postgres.resume()
        await crowd.more(100)
        await _held(urls, 1)
        await caught_up([feed], {"": newest()})
    assert crowd.silences == 0, "a command was not answered at all"
    assert [watcher.cuts for watcher in crowd.watchers[:33]] == [0] * 33


async def test_a_process_that_starts_before_postgresql_serves_when_that_is_there(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    """It is alive and not ready meanwhile: nothing restarts it, and nothing needs to."""
    server = Server(tmp_path, **SECRETS, VIDEAU_DATABASE_URL=own_postgres.create_database())
    assert server.videau("migrate").returncode == 0
    own_postgres.stop("immediate")
    try:
        await asyncio.to_thread(server.start)
        async with httpx2.AsyncClient(base_url=server.base, timeout=30, verify=False) as http:
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/readyz")).json()["database"] == "down"
            await asyncio.to_thread(own_postgres.start)
            async with asyncio.timeout(30):
                while (await http.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.1)
        await _held([server.base], 1)
        ann, bob = await register(server.url, "Ann"), await register(server.url, "Bob")
        match_id = await ann.create("{length: 1}")
        await bob.happens("joinMatch", f'matchId: "{match_id}"')
        assert (await play_out(random.Random(1), match_id, ann, bob))["phase"] == "OVER"
        for client in (ann, bob):
            await client.close()
    finally:
        server.kill()
    assert "Traceback" not in server.complaints


async def test_a_database_that_is_not_there_is_told_at_once(tmp_path: Path, own_postgres: PostgresServer) -> None:
    """A server that answers and knows no such database or user will not know it later."""
    for url in (own_postgres.url("nowhere"), own_postgres.url().replace("://", "://nobody_", 1)):
        refused = Server(tmp_path, VIDEAU_DATABASE_URL=url, **SECRETS).videau("serve", "--port", "0")
        assert refused.returncode == 1
        assert len(refused.stderr.splitlines()) == 1


async def _held(urls: list[str], processes: int) -> None:
    """Return when so many processes say that they look after the clocks, which an alert asks for."""
    async with asyncio.timeout(30), httpx2.AsyncClient(verify=False) as http:
        while True:
            told = [(await http.get(f"{url}/metrics")).text for url in urls]
            if sum("videau_clocks_held 1.0" in text for text in told) == processes:
                return
            await asyncio.sleep(0.1)
