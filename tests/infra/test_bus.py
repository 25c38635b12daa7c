"""The doorbell's contract, on every bus over real servers, and what the bus between processes does when Redis fails."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from redis.crc import key_slot

from infra.bus import Bus, LocalBus, RedisBus
from tests.redis import RedisServer, redis_cluster

USER = ("videau", "s&:cret/@%")
KINDS = ["local", "redis", "unix", "tls", "user", "cluster"]
_ids = (f"m{number}" for number in count())


class Listener:
    """What a bus rings for."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.heard: list[tuple[str, int]] = []
        bus.start(lambda match_id, seq: self.heard.append((match_id, seq)))

    async def hears(self, match_id: str, seq: int) -> None:
        await until(lambda: (match_id, seq) in self.heard, f"({match_id}, {seq}) in {self.heard[-20:]}")

    async def subscribe(self, *match_ids: str) -> None:
        """Subscribe, and return once it holds."""
        for match_id in match_ids:
            self.bus.subscribe(match_id)
        for match_id in match_ids:
            await self.hears(match_id, 0)


async def until(condition: Callable[[], bool], what: str = "") -> None:
    """Wait for a condition, for a bounded time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.005)
    assert condition(), what


def calls(server: RedisServer, command: str) -> int:
    """How often the server has done a command."""
    with server.admin() as admin:
        return int(admin.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of Redis, without the causes."""
    assert not any(record.exc_info for record in caplog.records)
    return [record.getMessage().split(":")[0] for record in caplog.records]


def third(match_id: str) -> int:
    """Which server of a new cluster has the match."""
    return (key_slot(f"videau:match:{match_id}".encode()) * 3 + 2) // 16384


async def is_connected(*listeners: Listener, connected: bool = True) -> None:
    await until(lambda: all(listener.bus.connected == connected for listener in listeners), f"connected: {connected}")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[RedisServer]]]:
    """The running servers of some kind: one, or those of a cluster."""
    with ExitStack() as stack:

        @cache
        def of(kind: str) -> list[RedisServer]:
            folder = tmp_path_factory.mktemp(kind)
            if kind == "cluster":
                return stack.enter_context(redis_cluster(folder))
            server = RedisServer(folder, tls=kind == "tls", unix=kind == "unix", user=USER if kind == "user" else None)
            server.start()
            stack.callback(server.stop)
            return [server]

        yield of


@pytest.fixture
def private(tmp_path: Path) -> Iterator[RedisServer]:
    """A running server of one test alone, which may do with it what it likes."""
    server = RedisServer(tmp_path, private=True, user=USER)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def listen() -> AsyncIterator[Callable[[Bus], Listener]]:
    """Starts a bus."""
    buses: list[Bus] = []

    def start(bus: Bus) -> Listener:
        buses.append(bus)
        return Listener(bus)

    yield start
    await asyncio.gather(*(bus.close() for bus in buses))


@pytest.fixture(params=KINDS)
async def pair(
    request: pytest.FixtureRequest, servers: Callable[[str], list[RedisServer]], listen: Callable[[Bus], Listener]
) -> tuple[Listener, Listener]:
    """Two ends of a bus: those of two processes, or twice the same where it knows only one."""
    if request.param == "local":
        listener = listen(LocalBus())
        return listener, listener
    url = servers(request.param)[0].url
    return listen(RedisBus(url)), listen(RedisBus(url))


async def test_a_subscription_rings_0_once_it_holds(pair: tuple[Listener, Listener]) -> None:
    (one, _), match_id = pair, next(_ids)
    one.bus.subscribe(match_id)
    await one.hears(match_id, 0)
    one.heard.clear()
    one.bus.subscribe(match_id)
    await one.hears(match_id, 0)  # again: who comes second waits for it too


async def test_a_ring_reaches_all_who_subscribed_and_no_other(pair: tuple[Listener, Listener]) -> None:
    one, two = pair
    here, there = next(_ids), next(_ids)
    await one.subscribe(here, there)
    await two.subscribe(there)
    one.bus.publish(here, 1)
    two.bus.publish(there, 7)
    for listener in pair:
        await listener.hears(there, 7)
    await one.hears(here, 1)
    if one is not two:
        assert (here, 1) not in two.heard


async def test_ones_own_ring_is_heard_at_once(pair: tuple[Listener, Listener]) -> None:
    (one, _), match_id = pair, next(_ids)
    await one.subscribe(match_id)
    one.bus.publish(match_id, 3)
    assert one.heard[-1] == (match_id, 3)


async def test_nothing_rings_after_unsubscribing(pair: tuple[Listener, Listener]) -> None:
    one, two = pair
    # of one slot, so that a server of a cluster that rings for the one has done with the other
    tag = next(_ids)
    left, kept = f"{{{tag}}}left", f"{{{tag}}}kept"
    await one.subscribe(left, kept)
    one.bus.unsubscribe(left)
    two.bus.publish(left, 1)
    two.bus.publish(kept, 2)
    await one.hears(kept, 2)
    assert (left, 1) not in one.heard


async def test_who_comes_and_goes_and_comes_is_rung(pair: tuple[Listener, Listener]) -> None:
    one, two = pair
    match_ids = [next(_ids) for _ in range(20)]
    for _ in range(3):
        for match_id in match_ids:
            one.bus.subscribe(match_id)
            one.bus.unsubscribe(match_id)
        await asyncio.sleep(0)
    one.heard.clear()
    await one.subscribe(*match_ids)
    for match_id in match_ids:
        two.bus.publish(match_id, 5)
    for match_id in match_ids:
        await one.hears(match_id, 5)


@pytest.mark.parametrize("fault", ["killed", "paused"])
async def test_what_a_fault_of_redis_swallows_is_made_up_for(
    fault: str, private: RedisServer, listen: Callable[[Bus], Listener], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = listen(RedisBus(private.url)), listen(RedisBus(private.url))
    match_ids = [next(_ids) for _ in range(3)]
    await one.subscribe(*match_ids)
    await is_connected(one, two)
    private.kill() if fault == "killed" else private.pause()
    await is_connected(one, two, connected=False)
    for match_id in match_ids:
        two.bus.publish(match_id, 8)
    one.heard.clear()
    private.start() if fault == "killed" else private.resume()
    await is_connected(one, two)
    for match_id in match_ids:
        await one.hears(match_id, 0)
    await until(lambda: calls(private, "publish") >= 3, "the rings kept meanwhile are sent")
    two.bus.publish(match_ids[0], 9)
    await one.hears(match_ids[0], 9)
    assert sorted(told(caplog)) == ["Redis is back", "Redis is back", "Redis is lost", "Redis is lost"]


async def test_redis_may_come_later_and_finds_the_newest_rings_kept(
    private: RedisServer, listen: Callable[[Bus], Listener], caplog: pytest.LogCaptureFixture
) -> None:
    private.stop()
    early, bus, match_id = listen(RedisBus(private.url)), RedisBus(private.url), next(_ids)
    early.bus.subscribe(match_id)
    early.bus.publish(match_id, 1)
    assert early.heard == [(match_id, 1)]
    for number in range(10_500):
        bus.publish(f"kept{number}", number)
        bus.publish(f"kept{number}", number - 1)
    await until(lambda: bool(caplog.records))
    assert not early.bus.connected
    private.start()
    await early.hears(match_id, 0)
    await is_connected(early)
    with private.admin() as admin, admin.pubsub() as everything:
        everything.psubscribe("videau:match:kept*")
        assert everything.get_message(timeout=5)
        listen(bus)
        await until(lambda: calls(private, "publish") >= 10_001)
        got = [message["data"] for message in iter(lambda: everything.get_message(timeout=0.1), None)]
    assert got == [str(number) for number in range(500, 10_500)]
    assert told(caplog) == ["Redis is lost", "Redis is back"]


async def test_a_wrong_password_is_told_once_and_not_repeated(
    private: RedisServer, listen: Callable[[Bus], Listener], caplog: pytest.LogCaptureFixture
) -> None:
    listener = listen(RedisBus(f"redis://videau:swordfish@127.0.0.1:{private.port}"))
    listener.bus.subscribe(next(_ids))

    def refused() -> int:
        with private.admin() as admin:
            return sum(int(entry["count"]) for entry in admin.acl_log())

    await until(lambda: refused() >= 3)
    assert not listener.bus.connected
    assert told(caplog) == ["Redis is lost"]
    assert "swordfish" not in caplog.text


async def test_a_user_who_may_not_publish_is_told_once_and_comes_back_with_the_permission(
    private: RedisServer, listen: Callable[[Bus], Listener], caplog: pytest.LogCaptureFixture
) -> None:
    one, two, match_id = listen(RedisBus(private.url)), listen(RedisBus(private.url)), next(_ids)
    await one.subscribe(match_id)
    with private.admin() as admin:
        admin.execute_command("ACL SETUSER videau -publish")
        two.bus.publish(match_id, 4)
        await until(lambda: sum(int(entry["count"]) for entry in admin.acl_log()) >= 3)
        assert not two.bus.connected
        assert told(caplog) == ["Redis is lost"]
        admin.execute_command("ACL SETUSER videau +publish")
    await is_connected(two)
    await one.hears(match_id, 4)


@pytest.mark.parametrize("nonsense", ["", "-1", "1.5", "\u0663", "x", "9" * 5000])
async def test_nonsense_rings_0(
    nonsense: str, servers: Callable[[str], list[RedisServer]], listen: Callable[[Bus], Listener]
) -> None:
    (server,), match_id = servers("redis"), next(_ids)
    one = listen(RedisBus(server.url))
    await one.subscribe(match_id)
    one.heard.clear()
    with server.admin() as admin:
        admin.publish(f"videau:match:{match_id}", nonsense)
    await one.hears(match_id, 0)


async def test_thousands_of_matches_take_one_connection_and_few_commands(
    private: RedisServer, listen: Callable[[Bus], Listener]
) -> None:
    one = listen(RedisBus(private.url))
    match_ids = [next(_ids) for _ in range(10_000)]
    for _ in range(2):
        one.heard.clear()
        for match_id in match_ids:
            one.bus.subscribe(match_id)
        await until(lambda: len(one.heard) >= 10_000)
        for match_id in match_ids[1:]:
            one.bus.unsubscribe(match_id)
            one.bus.subscribe(match_id)
            one.bus.unsubscribe(match_id)
        with private.admin() as admin:
            await until(lambda: len(admin.pubsub_channels()) == 1)
            assert len([client for client in admin.client_list() if client["user"] == "videau"]) == 1
    assert calls(private, "subscribe") + calls(private, "unsubscribe") < 1_000


@pytest.mark.parametrize("fault", ["none", "killed", "paused"])
async def test_it_closes_whatever_redis_does(
    fault: str, private: RedisServer, listen: Callable[[Bus], Listener]
) -> None:
    one = listen(RedisBus(private.url))
    await one.subscribe(next(_ids))
    {"killed": private.kill, "paused": private.pause}.get(fault, bool)()
    one.bus.publish(next(_ids), 1)
    async with asyncio.timeout(5):
        await one.bus.close()
    assert not one.bus.connected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://:swordfish@there",
        "redis://:swordfish@there:swordfish",
        "redis://there?swordfish=1",
        "redis://[swordfish",
    ],
)
def test_what_is_no_url_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="no URL of a Redis") as refused:
        RedisBus(url)
    assert "swordfish" not in str(refused.value)


async def test_in_a_cluster_a_match_is_followed_to_where_its_slot_moves(
    servers: Callable[[str], list[RedisServer]], listen: Callable[[Bus], Listener]
) -> None:
    cluster, match_id = servers("cluster"), next(_ids)
    one, two = listen(RedisBus(cluster[0].url)), listen(RedisBus(cluster[1].url))
    await one.subscribe(match_id)
    await is_connected(one, two)
    with ExitStack() as stack:
        admins = [stack.enter_context(server.admin()) for server in cluster]
        names = [admin.execute_command("CLUSTER MYID") for admin in admins]
        slot, owner = key_slot(f"videau:match:{match_id}".encode()), third(match_id)
        for number in ((owner + 1) % 3, owner, (owner + 2) % 3):  # the new owner knows first
            admins[number].execute_command("CLUSTER SETSLOT", slot, "NODE", names[(owner + 1) % 3])
        one.heard.clear()
        await one.hears(match_id, 0)
        await is_connected(one, two)
        two.bus.publish(match_id, 6)
        await one.hears(match_id, 6)
        assert admins[(owner + 1) % 3].pubsub_shardchannels() == [f"videau:match:{match_id}"]


async def test_in_a_cluster_a_lost_server_silences_its_own_matches_alone(
    servers: Callable[[str], list[RedisServer]], listen: Callable[[Bus], Listener]
) -> None:
    cluster = servers("cluster")
    one, two = listen(RedisBus(cluster[0].url)), listen(RedisBus(cluster[0].url))
    lost, kept = (next(match_id for match_id in _ids if third(match_id) == server) for server in (0, 1))
    await one.subscribe(lost, kept)
    await is_connected(one, two)
    cluster[0].kill()
    await is_connected(one, two, connected=False)
    two.bus.publish(lost, 2)
    two.bus.publish(kept, 3)
    await one.hears(kept, 3)
    one.heard.clear()
    cluster[0].start()
    await is_connected(one, two)
    await one.hears(lost, 0)
    two.bus.publish(lost, 4)
    await one.hears(lost, 4)
