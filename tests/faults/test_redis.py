"""Redis is a doorbell: without it news is slower, and never wrong or missing."""

import asyncio
import json

from tests.faults.proof import proven
from tests.faults.watchers import caught_up
from tests.faults.wire import Wire
from tests.redis import RedisServer
from tests.server import Server


async def test_without_redis_matches_are_played_and_watched_all_the_same(
    pair: list[Server], own_redis: RedisServer
) -> None:
    """It is killed and comes back empty; it is paused until every timeout has passed."""
    async with proven(pair, 12, pace=0.2) as crowd:
        for begin, end in ((own_redis.kill, own_redis.start), (own_redis.pause, own_redis.resume)):
            await _all_say(pair, "ok")
            begin()
            try:
                await _all_say(pair, "down")
                assert [await _connected(server) for server in pair] == [0, 0]
                await crowd.more(50)
                await caught_up(crowd.watchers, crowd.versions)
            finally:
                await asyncio.to_thread(end)
            await crowd.more(50)
        await _all_say(pair, "ok")
        assert [await _connected(server) for server in pair] == [1, 1]
        await crowd.more(50)
        await caught_up(crowd.watchers, crowd.versions)
    assert [watcher.cuts for watcher in crowd.watchers] == [0] * 12
    assert crowd.unavailable == 0


async def _all_say(servers: list[Server], redis: str) -> None:
    """Wait until the servers tell this of Redis; they are ready all the time."""
    async with asyncio.timeout(20):
        while (told := {await _readiness(server) for server in servers}) != {(200, redis)}:
            assert {status for status, _ in told} == {200}
            await asyncio.sleep(0.02)


async def _readiness(server: Server) -> tuple[int, str]:
    with Wire(server.base) as wire:
        status, body = await wire.ask("GET", "/readyz", patience=5)
    return status, json.loads(body)["redis"]


async def _connected(server: Server) -> float:
    """What the metric says."""
    with Wire(server.base) as wire:
        status, body = await wire.ask("GET", "/metrics", patience=5)
    assert status == 200
    [line] = [line for line in body.decode().splitlines() if line.startswith("videau_redis_connected ")]
    return float(line.split()[1])
