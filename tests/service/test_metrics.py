"""What /metrics tells: of commands, of the store, of watchers, of clocks, and nothing of anybody."""

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, closing
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from domain.breach import Breach
from infra.histogram import Histogram
from service.errors import ErrorCode
from tests.client import Client, register
from tests.faults.processes import processes
from tests.postgres import PostgresServer
from tests.redis import RedisServer
from tests.server import Server, run_videau

DEADLINE = 20


def test_a_histogram_counts_up_to_and_with_its_bounds() -> None:
    histogram = Histogram([1, 2])
    for value in (0.5, 1, 7, -0.1):
        histogram.observe(value)
    assert histogram.buckets == [("1.0", 3), ("2.0", 3), ("+Inf", 4)]
    assert histogram.sum == 8.5


class Told:
    """What a server's /metrics said."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self.samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        """A value; 0 where nothing was counted yet."""
        return float(self.samples.get((name, *sorted(labels.items())), 0))


async def told(server: Server) -> Told:
    async with httpx2.AsyncClient(base_url=server.base, verify=False) as http:
        return Told((await http.get("/metrics")).text)


async def until(server: Server, name: str, least: float, **labels: str) -> Told:
    """What it said when a value had come to `least`."""
    async with asyncio.timeout(DEADLINE):
        while (found := await told(server))(name, **labels) < least:
            await asyncio.sleep(0.02)
    return found


async def started(ann: Client, bob: Client, settings: str = "{length: 3}") -> str:
    match_id = await ann.create(settings)
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    return match_id


async def test_commands_are_counted_by_kind_and_result_and_refusals_by_rule(server: Server, guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    before = await told(server)
    match_id = await started(ann, bob)
    refused = await bob.command("rematch", f'matchId: "{match_id}"')
    assert refused["code"] == "MATCH_NOT_OVER"
    assert (await bob.post('mutation { roll(matchId: "x", idempotencyKey: "") { __typename } }'))["errors"]
    assert (await bob.post("{ nothing }"))["errors"]
    after = await told(server)

    def more(name: str, **labels: str) -> float:
        return after(name, **labels) - before(name, **labels)

    assert more("videau_commands_total", command="createMatch", result="happened") == 1
    assert more("videau_commands_total", command="joinMatch", result="happened") == 1
    assert more("videau_commands_total", command="rematch", result="refused") == 1
    assert more("videau_commands_total", command="roll", result="invalid") == 1
    assert more("videau_refusals_total", code="MATCH_NOT_OVER") == 1
    assert more("videau_errors_total", code="BAD_INPUT") == 1
    assert more("videau_errors_total", code="VALIDATION_FAILED") == 1
    assert more("videau_command_seconds_count", command="joinMatch") == 1
    assert after("videau_command_seconds_bucket", command="joinMatch", le="+Inf") >= 1
    assert more("videau_http_requests_total", route="/graphql", status="200") == 5
    assert after("videau_http_seconds_count", route="/graphql") >= 5


async def test_the_store_tells_how_it_appends(server: Server, guest) -> None:
    await started(await guest("Ann"), await guest("Bob"))
    now = await told(server)
    assert (
        now("videau_append_batch_size_count") == now("videau_commits_total") == now("videau_commit_seconds_count") > 0
    )
    assert now("videau_append_batch_size_sum") == now("videau_appends_total") == now("videau_append_seconds_count")
    assert 0 < now("videau_commit_seconds_sum") <= now("videau_append_seconds_sum")
    assert now("videau_database_seconds_count", work="read") > 0
    assert now("videau_database_seconds_count", work="write") > 0
    assert now("process_resident_memory_bytes") > 1e6
    assert now("videau_clock_look_seconds_count") > 0


async def test_watchers_and_the_delay_of_fanning_out(server: Server, guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create("{length: 3}")
    before = await told(server)
    socket = await ann.open_socket()
    query = "subscription($id: ID!) { matchEvents(matchId: $id) { seq } }"
    for number in range(3):
        payload = {"query": query, "variables": {"id": match_id}}
        await socket.send(json.dumps({"id": str(number), "type": "subscribe", "payload": payload}))
    now = await until(server, "videau_watchers", before("videau_watchers", served="together") + 3, served="together")
    assert now("videau_audiences") == before("videau_audiences") + 1
    assert now("videau_fanout_seconds_count") == before("videau_fanout_seconds_count"), "what was there is no news"
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    now = await until(server, "videau_fanout_seconds_count", before("videau_fanout_seconds_count") + 2)
    assert now("videau_events_behind") == 0
    await socket.close()
    async with asyncio.timeout(DEADLINE):
        while (await told(server))("videau_watchers", served="together") > before("videau_watchers", served="together"):
            await asyncio.sleep(0.02)

    alone = now("videau_watchers", served="alone")
    async with (
        httpx2.AsyncClient(base_url=server.base, verify=False) as http,
        http.stream("GET", f"/matches/{match_id}/events", headers={"accept": "text/event-stream"}) as stream,
        aclosing(stream.aiter_lines()) as lines,
    ):
        async for line in lines:
            if line.startswith("id: 1"):
                break
        await until(server, "videau_watchers", alone + 1, served="alone")


async def test_all_who_are_connected_and_what_they_watch(server: Server, guest) -> None:
    """Whoever looks at a lobby costs as much memory as who watches a match; and who only has a socket open."""
    ann = await guest("Ann")
    match_id = await ann.create("{length: 3}")
    before = await told(server)
    async with AsyncExitStack() as stack:
        for kind, query in (
            ("lobby", "subscription { lobby { __typename } }"),
            ("lobby", "subscription { lobby { __typename } }"),
            ("notices", f'subscription {{ matchNotices(matchId: "{match_id}") {{ __typename }} }}'),
        ):
            watching = (await told(server))("videau_watchers", served=kind)
            socket = await ann.open_socket()
            stack.push_async_callback(socket.close)
            await socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": {"query": query}}))
            await until(server, "videau_watchers", watching + 1, served=kind)
        assert (await told(server))("videau_connections", kind="websocket") == (
            before("videau_connections", kind="websocket") + 3
        )
    async with asyncio.timeout(DEADLINE):
        while (now := await told(server))("videau_connections", kind="websocket") > before(
            "videau_connections", kind="websocket"
        ):
            await asyncio.sleep(0.02)
    assert now("videau_watchers", served="lobby") == before("videau_watchers", served="lobby")


async def test_labels_are_of_closed_lists(server: Server, guest) -> None:
    ann = await guest("Ann")
    match_id = await ann.create("{length: 3}")
    async with httpx2.AsyncClient(base_url=server.base, verify=False) as http:
        for path in (f"/matches/{match_id}/events", "/matches/x.mat", "/nothing/here", "/join/WRONG"):
            await http.get(path)
        text = (await http.get("/metrics")).text
    now = Told(text)
    codes = {*Breach.__members__, *ErrorCode}
    found: dict[str, set[str]] = {}
    for _, *labels in now.samples:
        for name, value in labels:
            found.setdefault(name, set()).add(value)
    assert found["code"] <= codes
    assert found["result"] <= {"happened", "refused", "invalid", "failed", "abandoned"}
    assert {"/matches/{id}/events", "/matches/{id}.mat", "none", "/join/{code}"} <= found["route"]
    assert match_id not in text
    assert ann.player_id
    assert ann.player_id not in text
    for family in now.families:
        assert family.documentation, family.name
        assert family.type != "counter" or all(s.name.endswith("_total") for s in family.samples), family.name


async def test_what_fails_here_is_told_apart_from_what_is_refused(own_server: Server) -> None:
    await told(own_server)  # it has started
    with closing(sqlite3.connect(own_server.database)) as connection:
        connection.execute("DROP TABLE players")
    client = Client(own_server.url)
    answer = await client.post('mutation { registerGuest(name: "Ann") { token } }')
    await client.close()
    assert answer["errors"][0]["extensions"]["code"] == "UNAVAILABLE"
    now = await told(own_server)
    assert now("videau_commands_total", command="registerGuest", result="failed") == 1
    assert now("videau_errors_total", code="UNAVAILABLE") == 1
    assert {sample[0] for sample in now.samples} >= {"videau_database_answering", "videau_clocks_overdue_seconds"}


@pytest.fixture
async def pair(postgres: PostgresServer, redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[list[Server]]:
    """Two processes over one PostgreSQL and one Redis."""
    shared = {"VIDEAU_DATABASE_URL": postgres.create_database(), "VIDEAU_REDIS_URL": redis_server.url}
    assert run_videau("migrate", env={**os.environ, **shared}).returncode == 0
    async with processes(tmp_path, shared) as servers:
        yield servers


async def test_news_of_another_process_and_the_rings_that_told_of_them(pair: list[Server]) -> None:
    here, there = pair
    ann, bob = await register(here.url, "Ann"), await register(here.url, "Bob")
    match_id = await ann.create("{length: 3}")
    watcher = Client(there.url)
    seen = []
    await until(there, "videau_redis_connected", 1)

    async def watch() -> None:
        async with aclosing(watcher.watch(match_id)) as events:
            async for event in events:
                seen.append(event["seq"])
                if event["kind"] == "rolled":
                    return

    watching = asyncio.create_task(watch())
    await until(there, "videau_matches_watched", 1)
    async with asyncio.timeout(DEADLINE):
        while not seen:
            await asyncio.sleep(0.02)
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    async with asyncio.timeout(DEADLINE):
        await watching
    now = await told(there)
    assert now("videau_news_seconds_count") >= 2
    assert now("videau_rings_received_total") >= 1
    assert now("videau_fanout_seconds_count") >= 1
    assert (await told(here))("videau_rings_sent_total") >= 2
    assert now("videau_redis_losses_total") == 0
    for client in (ann, bob, watcher):
        await client.close()
