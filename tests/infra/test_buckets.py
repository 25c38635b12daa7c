"""Token buckets: never more than was agreed, in one process or several, on every kind of Redis and without any."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import throttled.utils
from hypothesis import given
from hypothesis import strategies as st

from infra.buckets import KEPT_BUCKETS, Buckets
from infra.settings import Rate
from tests.redis import RedisServer, redis_cluster

SLOW = Rate(50, 50_000)
"""50 units, of which none comes back while a test lasts."""
USER = ("videau", "s&:cret/@%")


@pytest.fixture(scope="module", params=["redis", "unix", "tls", "user", "cluster"])
def redis_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    kind = request.param
    folder = tmp_path_factory.mktemp(kind)
    with ExitStack() as stack:
        if kind == "cluster":
            yield stack.enter_context(redis_cluster(folder))[0].url
            return
        server = RedisServer(folder, tls=kind == "tls", unix=kind == "unix", user=USER if kind == "user" else None)
        stack.callback(server.stop)
        server.start()
        yield server.url


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, private=True)
    server.start()
    yield server
    server.kill()


@asynccontextmanager
async def opened(url: str | None, **rates: Rate) -> AsyncIterator[Buckets]:
    """Buckets that Redis has, if there is a URL."""
    buckets = Buckets(rates, url)
    buckets.start()
    try:
        if url is not None:
            await until(buckets, True)
        yield buckets
    finally:
        await buckets.close()


async def until(buckets: Buckets, connected: bool) -> None:
    async with asyncio.timeout(20):
        while buckets.connected is not connected:
            await asyncio.sleep(0.01)


async def taken(buckets: Buckets, holder: str, tries: int) -> int:
    """How many units of so many single ones were there."""
    levels = await asyncio.gather(*(buckets.take("player", holder, 1) for _ in range(tries)))
    return sum(level.admitted for level in levels)


@given(
    units=st.integers(1, 50),
    seconds=st.integers(1, 50),
    asked=st.lists(st.tuples(st.floats(0, 20), st.integers(0, 60)), max_size=60),
)
def test_in_no_time_more_is_admitted_than_a_full_bucket_and_what_flows_into_it(
    units: int, seconds: int, asked: list[tuple[float, int]]
) -> None:
    """By the library's own clock; over every stretch of time, however it is asked."""
    now = 1_000.0
    admitted: list[tuple[float, int]] = []

    async def ask() -> None:
        nonlocal now
        buckets = Buckets({"player": Rate(units, seconds)}, None)
        for pause, wanted in asked:
            now += pause
            level = await buckets.take("player", "ann", wanted)
            assert 0 <= level.remaining <= units
            assert 0 <= level.reset <= seconds + 1e-6
            if level.admitted:
                admitted.append((now, min(wanted, units)))
                continue
            now += level.retry + 1e-3  # what it says is right
            assert (await buckets.take("player", "ann", wanted)).admitted
            admitted.append((now, min(wanted, units)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throttled.utils, "now_mono_f", lambda: now)
        asyncio.run(ask())
    for first in range(len(admitted)):
        total = 0
        for at, number in admitted[first:]:
            total += number
            assert total <= units + (at - admitted[first][0]) * units / seconds + 1e-3


async def test_fractions_of_a_unit_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked ten times a second, a bucket that gets a unit in two seconds still gets it."""
    now = 1_000.0
    monkeypatch.setattr(throttled.utils, "now_mono_f", lambda: now)
    buckets = Buckets({"player": Rate(5, 10)}, None)
    admitted = 0
    for _ in range(200):
        now += 0.1
        admitted += (await buckets.take("player", "ann", 1)).admitted
    assert 5 + 9 <= admitted <= 5 + 10


async def test_more_than_a_full_bucket_counts_as_a_full_one() -> None:
    buckets = Buckets({"player": SLOW}, None)
    assert (await buckets.take("player", "ann", 1_000)).admitted
    level = await buckets.take("player", "ann", 1)
    assert (level.admitted, level.remaining) == (False, 0)
    assert 0 < level.retry <= 1_000
    assert (await buckets.take("player", "bob", 1)).admitted


async def test_a_look_takes_nothing() -> None:
    buckets = Buckets({"player": SLOW}, None)
    for _ in range(100):
        assert (await buckets.look("player", "ann")).remaining == 50


async def test_what_a_process_keeps_is_bounded() -> None:
    buckets = Buckets({"player": SLOW}, None)
    for number in range(KEPT_BUCKETS + 10):
        await buckets.take("player", str(number), 50)
    assert (await buckets.take("player", "0", 1)).admitted, "filled up to make place"
    assert not (await buckets.take("player", str(KEPT_BUCKETS), 1)).admitted


async def test_processes_share_a_bucket(redis_url: str) -> None:
    async with AsyncExitStack() as stack:
        three = [await stack.enter_async_context(opened(redis_url, player=SLOW)) for _ in range(3)]
        admitted = await asyncio.gather(*(taken(buckets, "shared", 40) for buckets in three))
        assert sum(admitted) == 50
        assert (await three[0].look("player", "shared")).remaining == 0
        holders = [f"other {number}" for number in range(20)]
        assert [await taken(three[1], holder, 2) for holder in holders] == [2] * 20
        assert [(await three[2].look("player", holder)).remaining for holder in holders] == [48] * 20


async def test_without_redis_each_process_has_its_own_and_with_it_again_they_share(own_redis: RedisServer) -> None:
    async with opened(own_redis.url, player=SLOW) as one, opened(own_redis.url, player=SLOW) as other:
        assert await taken(one, "ann", 60) == 50
        own_redis.kill()
        assert await taken(one, "bob", 60) == 50
        assert await taken(other, "bob", 60) == 50
        own_redis.start()
        await asyncio.gather(until(one, True), until(other, True))
        admitted = await asyncio.gather(taken(one, "bob", 60), taken(other, "bob", 60))
        assert sum(admitted) == 50, "it came back empty"


async def test_a_redis_that_does_not_answer_is_not_waited_for_again_and_again(own_redis: RedisServer) -> None:
    async with opened(own_redis.url, player=SLOW) as buckets:
        own_redis.pause()
        try:
            async with asyncio.timeout(20):
                for number in range(500):  # a wait each would be minutes
                    assert (await buckets.take("player", str(number), 1)).admitted
            assert not buckets.connected
        finally:
            own_redis.resume()
        await until(buckets, True)
        assert await taken(buckets, "ann", 60) == 50


async def test_scripts_that_redis_forgets_are_brought_again(own_redis: RedisServer) -> None:
    async with opened(own_redis.url, player=SLOW) as buckets:
        with own_redis.admin() as admin:
            admin.script_flush()
        assert (await buckets.take("player", "ann", 1)).admitted
        await until(buckets, False)
        await until(buckets, True)
        assert (await buckets.take("player", "ann", 1)).remaining == 49


async def test_a_redis_that_permits_too_little_is_said_once(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with own_redis.admin() as admin:
        admin.execute_command("ACL SETUSER default -evalsha")
        async with opened(own_redis.url, player=SLOW) as buckets:
            assert await taken(buckets, "ann", 60) == 50
            await until(buckets, False)
            await until(buckets, True)
            assert not (await buckets.take("player", "ann", 1)).admitted
            admin.execute_command("ACL SETUSER default +evalsha")
            async with asyncio.timeout(20):
                while not (await buckets.take("player", "ann", 1)).admitted:
                    await asyncio.sleep(0.05)
    assert not any(record.exc_info for record in caplog.records)
    first, last = (record.getMessage() for record in caplog.records)
    assert "evalsha" in first
    assert last == "rate limits hold in all processes again"


async def test_rates_are_off_without_any() -> None:
    buckets = Buckets({}, "redis://127.0.0.1:1")
    buckets.start()
    assert not buckets.connected
    await buckets.close()
