"""PostgreSQL goes and comes back in the middle of commits: bounded waits, the truth, and no restart of ours."""

import asyncio

from tests.faults.proof import proven
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
    pair: list[Server], own_postgres: PostgresServer
) -> None:
    async with proven(pair, 32) as crowd:
        await crowd.more(100)
        await asyncio.to_thread(own_postgres.pause)
        try:
            await crowd.until(lambda: crowd.unavailable >= 32)
        finally:
            own_postgres.resume()
        await crowd.more(100)
    assert crowd.silences == 0, "a command was not answered at all"
    assert [watcher.cuts for watcher in crowd.watchers] == [0] * 32
