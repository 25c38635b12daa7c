"""Rate limits against running servers: every bucket, what its caller is told, and that nothing happens beyond it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from graphql import GraphQLInputObjectType, GraphQLList, GraphQLNonNull
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from service import limits
from service.auth import OPERATE, Tokens
from service.limits import SUBSCRIPTION_BYTES, SUBSCRIPTIONS
from service.schema import schema
from tests.apps import key_set, studio_key, videau
from tests.faults.processes import SECRETS
from tests.redis import RedisServer
from tests.server import Server

APP, SMALL = "gammon.example", "small.example"
KEY = studio_key("EdDSA", "rates")
SECRET = "s" * 32
# 1,000 seconds and more a unit: none comes back while a test lasts
RATES = {
    "VIDEAU_RATE_PLAYER": "30/30000",
    "VIDEAU_RATE_APP": "50/50000",
    "VIDEAU_RATE_ADDRESS": "40/40000",
    "VIDEAU_RATE_REGISTRATION": "4/4000",
    "VIDEAU_TRUSTED_PROXIES": "127.0.0.1",
}
ME = "{ me { id } }"
CREATE = "mutation { createMatch(settings: {length: 1}) { ... on Happened { match { id } } } }"
WATCH = "subscription($id: ID!) { matchEvents(matchId: $id) { seq } }"
_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that limits rates, with two apps."""
    folder = tmp_path_factory.mktemp("server")
    running = Server(folder, VIDEAU_SECRET=SECRET, **RATES)
    running.start()
    (folder / "keys.json").write_bytes(key_set([KEY]))
    for name in (APP, SMALL):
        done = videau(running.database, "add", name, "--key", f"{folder}/keys.json")
        assert done.exit_code == 0, done.output
    yield running
    errors = running.stop()
    assert errors == "", f"the server complained: {errors}"


_clients: list[httpx2.AsyncClient] = []


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    """Every caller hangs up in the end."""
    yield
    while _clients:
        await _clients.pop().aclose()


class Caller:
    """Whoever calls from an address, as a proxy on this machine tells it, perhaps with a token."""

    def __init__(self, server: Server, address: str | None = None, token: str | None = None) -> None:
        self.address = address or f"10.0.{next(_numbers)}.1"
        self.server = server
        self.token = token
        headers = {"x-forwarded-for": self.address}
        if token:
            headers["authorization"] = f"Bearer {token}"
        self.http = httpx2.AsyncClient(base_url=server.base, headers=headers, timeout=30, verify=False)
        _clients.append(self.http)

    async def post(self, query: str, **variables: Any) -> httpx2.Response:
        return await self.http.post("/graphql", json={"query": query, "variables": variables})

    async def registered(self, name: str = "Ann") -> "Caller":
        """A new guest at this address."""
        response = await self.post(f'mutation {{ registerGuest(name: "{name}") {{ token }} }}')
        return Caller(self.server, self.address, response.json()["data"]["registerGuest"]["token"])

    async def used_up(self, query: str = ME) -> int:
        """How often it is served until it is limited."""
        for number in range(100):
            response = await self.post(query)
            if response.status_code == 429:
                limited(response)
                return number
            assert response.status_code == 200
            assert "errors" not in response.json(), response.text
        raise AssertionError("it is never limited")


@asynccontextmanager
async def acknowledged(caller: Caller) -> AsyncIterator[ClientConnection]:
    async with opened(caller) as socket:
        assert json.loads(await socket.recv()) == {"type": "connection_ack"}
        yield socket


@asynccontextmanager
async def opened(caller: Caller) -> AsyncIterator[ClientConnection]:
    """A websocket that has sent connection_init."""
    headers = {"x-forwarded-for": caller.address}
    url = caller.server.url.replace("http", "ws", 1)
    async with connect(url, subprotocols=["graphql-transport-ws"], additional_headers=headers) as socket:
        payload = {"authorization": f"Bearer {caller.token}"} if caller.token else {}
        await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
        yield socket


async def told(socket: ClientConnection, id_: str, query: str, **variables: Any) -> dict[str, Any]:
    """The first message that answers an operation."""
    payload = {"query": query, "variables": variables}
    await socket.send(json.dumps({"id": id_, "type": "subscribe", "payload": payload}))
    return await heard(socket, id_)


async def heard(socket: ClientConnection, id_: str) -> dict[str, Any]:
    """The next message of an operation."""
    async with asyncio.timeout(15):
        while True:
            message: dict[str, Any] = json.loads(await socket.recv())
            if message.get("id") == id_ and message["type"] != "complete":
                return message


def limited(response: httpx2.Response) -> dict[str, Any]:
    """The error of a GraphQL response that is limited, which has to say when to come again."""
    assert response.status_code == 429
    [error] = response.json()["errors"]
    assert error["extensions"]["code"] == "RATE_LIMITED"
    after = error["extensions"]["retryAfter"]
    assert response.headers["retry-after"] == str(after)
    assert 1 <= after <= 50_000
    assert f"try again in {after} seconds" in error["message"]
    assert response.json()["extensions"]["limits"]
    found: dict[str, Any] = error
    return found


def levels(response: httpx2.Response) -> dict[str, int]:
    """What is left in which buckets; the headers have to say the same."""
    found = {each["name"]: each for each in response.json()["extensions"]["limits"]}
    left = ", ".join(f'"{name}";r={each["remaining"]};t={each["resetSeconds"]}' for name, each in found.items())
    full = {name: RATES[f"VIDEAU_RATE_{name.upper()}"].split("/") for name in found}
    policy = ", ".join(f'"{name}";q={units};w={seconds}' for name, (units, seconds) in full.items())
    assert (response.headers["ratelimit"], response.headers["ratelimit-policy"]) == (left, policy)
    assert {name: each["limit"] for name, each in found.items()} == {n: int(units) for n, (units, _) in full.items()}
    return {name: each["remaining"] for name, each in found.items()}


# what it costs


async def test_a_small_query_costs_a_unit_and_a_page_of_matches_many(server: Server) -> None:
    caller = Caller(server)
    first = await caller.post(ME)
    assert first.json()["extensions"]["cost"] == {"requested": 2, "limit": 10_000, "units": 1}
    assert levels(first) == {"address": 39}
    page = "{ matches(first: 100) { edges { node { id phase xgid board { points bar off } } } } }"
    second = await caller.post(page)
    cost = second.json()["extensions"]["cost"]
    assert cost["requested"] > 800
    assert cost["units"] == round(cost["requested"] / 100)
    assert levels(second) == {"address": 39 - cost["units"]}


async def test_a_command_costs_more_than_a_query_and_each_of_a_request_counts(server: Server) -> None:
    ann = await Caller(server).registered()
    one = (await ann.post(CREATE)).json()["extensions"]["cost"]["units"]
    two = (
        await ann.post(
            CREATE.replace("createMatch", "a: createMatch").replace("} } } }", "} } } ...More }")
            + " fragment More on Mutation { createMatch(settings: {length: 1}) { __typename } }"
        )
    ).json()
    assert "errors" not in two
    assert (one, two["extensions"]["cost"]["units"]) == (1, 2)


@pytest.mark.parametrize(
    "query", ["{ me { id }", "{ nothing }", "{" * 100, "query A { __typename } query B { __typename }"]
)
async def test_what_cannot_be_executed_counts_too(server: Server, query: str) -> None:
    response = await Caller(server).post(query)
    assert "errors" in response.json()
    assert levels(response)["address"] < 40


async def test_what_is_no_operation_counts_too(server: Server) -> None:
    caller = Caller(server)
    for number in range(1, 41):
        response = await caller.http.post(
            "/graphql", content=b"[" * (number % 3), headers={"content-type": "application/json"}
        )
        assert response.status_code == 400
        assert levels(response) == {"address": 40 - number}
    limited(await caller.http.post("/graphql", content=b"x" * 200_000))
    limited(await caller.post(ME))


# whose bucket


async def test_a_player_is_limited_alone_and_what_is_refused_has_not_happened(server: Server) -> None:
    ann, bob = await Caller(server).registered("Ann"), await Caller(server).registered("Bob")
    response = await ann.post(ME)
    assert levels(response) == {"player": 29}
    player = response.json()["data"]["me"]["id"]
    assert await ann.used_up(CREATE) == 29
    listed = await Caller(server).post(
        f'{{ matches(first: 30, filter: {{player: "{player}"}}) {{ edges {{ cursor }} }} }}'
    )
    assert len(listed.json()["data"]["matches"]["edges"]) == 29
    assert (await bob.post(ME)).status_code == 200
    assert (await Caller(server, ann.address).post(ME)).status_code == 200
    moved = Caller(server, token=ann.token)
    limited(await moved.post(ME))


@pytest.mark.parametrize(
    ("address", "same", "other"),
    [
        ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:2::1"),
    ],
)
async def test_an_address_is_limited_where_nobody_says_who_it_is(
    server: Server, address: str, same: str, other: str
) -> None:
    assert await Caller(server, address).used_up() == 40
    limited(await Caller(server, same).post(ME))
    assert (await Caller(server, other).post(ME)).status_code == 200


async def test_registrations_and_wrong_tokens_of_an_address_are_limited(server: Server) -> None:
    caller = Caller(server)
    guests = (
        'mutation { a: registerGuest(name: "A") { token } ... on Mutation { b: registerGuest(name: "B") { token } } }'
    )
    assert levels(await caller.post(guests)) == {"address": 38, "registration": 2}
    wrong = Caller(server, caller.address, "wrong")
    refused = await wrong.post(ME)
    assert (refused.status_code, levels(refused)) == (401, {"registration": 1})
    assert (await wrong.http.get("/keys")).status_code == 401
    limited(await wrong.post(ME))
    assert (await wrong.http.get("/keys")).status_code == 429
    limited(await caller.post(guests))
    assert (await caller.post(ME)).status_code == 200
    async with opened(wrong) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4429


async def test_all_users_of_an_app_are_limited_together_and_none_takes_what_it_may_not_have(server: Server) -> None:
    ann, bob, cid = (Caller(server, token=KEY.token(SMALL, name)) for name in ("ann", "bob", "cid"))
    assert levels(await ann.post(ME)) == {"player": 29, "app": 49}
    assert await ann.used_up() == 29
    for _ in range(10):
        limited(await ann.post(ME))
    assert levels(await bob.post(ME)) == {"player": 29, "app": 19}
    assert await bob.used_up() == 19
    assert "'app'" in limited(await cid.post(ME))["message"]
    assert (await Caller(server, token=KEY.token(APP, "ann")).post(ME)).status_code == 200


async def test_operators_are_not_counted(server: Server) -> None:
    operator = Caller(server, token=Tokens(SECRET, 1, None).issue("Op", OPERATE)[0])  # type: ignore[arg-type]
    for _ in range(60):
        response = await operator.http.get("/events?limit=1")
        assert response.status_code == 200
    assert "ratelimit" not in response.headers


# beside GraphQL


async def test_routes_count_and_are_problems_beyond(server: Server) -> None:
    caller = Caller(server)
    keys = await caller.http.get("/keys")
    assert (keys.headers["ratelimit"], keys.headers["ratelimit-policy"]) == (
        '"address";r=39;t=1000',
        '"address";q=40;w=40000',
    )
    assert (await Caller(server).http.get("/join/nope")).headers["ratelimit"] == '"address";r=39;t=1000'
    for left in range(34, 0, -5):
        missing = await caller.http.get("/matches/nope/events")
        assert missing.status_code == 404
        assert missing.headers["ratelimit"].startswith(f'"address";r={left};t=')
    beyond = await caller.http.get("/matches/nope.mat")
    problem = beyond.json()
    assert (beyond.status_code, problem["code"], problem["status"]) == (429, "RATE_LIMITED", 429)
    assert beyond.headers["content-type"] == "application/problem+json"
    assert beyond.headers["retry-after"] == str(problem["retryAfter"])
    assert beyond.headers["ratelimit"].startswith('"address";r=4;t=')
    for path in ("/healthz", "/readyz", "/metrics", "/"):
        for _ in range(10):
            free = await caller.http.get(path)
            assert (free.status_code, "ratelimit" in free.headers) == (200, False)
    assert 'videau_rate_limited_total{limit="address"}' in (await caller.http.get("/metrics")).text


async def test_the_limits_list_every_bucket_of_the_caller(server: Server) -> None:
    query = "{ limits { name value code remaining resetSeconds } }"
    user = Caller(server, token=KEY.token(APP, "lister"))
    by_query = {each["name"]: each for each in (await user.post(query)).json()["data"]["limits"]}
    by_path = {each["name"]: each for each in (await user.http.get("/limits")).json()["limits"]}
    assert by_query["player"] == {
        "name": "player",
        "value": 30,
        "code": "RATE_LIMITED",
        "remaining": 29,
        "resetSeconds": 1_000,
    }
    assert by_path["player"]["remaining"] == 28
    assert [name for name in by_path if by_path[name]["code"] == "RATE_LIMITED"] == [
        "address",
        "player",
        "app",
        "registration",
    ]
    assert list(by_query) == list(by_path)
    assert by_query["subscriptionsPerPlayer"] == {
        "name": "subscriptionsPerPlayer",
        "value": SUBSCRIPTIONS,
        "code": "TOO_MANY_SUBSCRIPTIONS",
        "remaining": None,
        "resetSeconds": None,
    }
    nobody = [each["name"] for each in (await Caller(server).http.get("/limits")).json()["limits"]]
    assert nobody == [name for name in by_path if name not in ("player", "app")]


# websockets


async def test_on_a_websocket_an_operation_is_refused_and_the_socket_stays(server: Server) -> None:
    ann = await Caller(server).registered()
    async with acknowledged(ann) as socket:
        for number in range(30):
            message = await told(socket, str(number), CREATE)
            assert message["type"] == "next", message
            [level] = message["payload"]["extensions"]["limits"]
            assert (level["name"], level["remaining"]) == ("player", 29 - number)
            assert message["payload"]["extensions"]["cost"]["units"] == 1
        for query in (CREATE, ME, WATCH):
            message = await told(socket, "beyond", query, id="m")
            assert message["type"] == "error"
            assert message["payload"][0]["extensions"]["code"] == "RATE_LIMITED"
            assert message["payload"][0]["extensions"]["retryAfter"] > 0
        await socket.send(json.dumps({"type": "ping"}))
        assert json.loads(await socket.recv()) == {"type": "pong"}
    made = await Caller(server).post("{ matches(first: 100) { edges { cursor } } }")
    assert "errors" not in made.json()


async def test_connections_count_at_their_address(server: Server) -> None:
    caller = Caller(server)
    for _ in range(40):
        async with acknowledged(caller):
            pass
    async with opened(caller) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4429
    assert closed.value.rcvd.reason.startswith("RATE_LIMITED: the limit 'address' of 40 units")


async def test_a_subscription_counts_when_it_begins_and_its_events_say_nothing_of_it(server: Server) -> None:
    ann = await Caller(server).registered()
    match_id = (await ann.post(CREATE)).json()["data"]["createMatch"]["match"]["id"]
    async with acknowledged(ann) as socket:
        for number in range(2):
            message = await told(socket, f"watch {number}", WATCH, id=match_id)
            assert message["payload"] == {"data": {"matchEvents": {"seq": 1}}}
        message = await told(socket, "ask", ME)
        assert message["payload"]["extensions"]["limits"][0]["remaining"] == 30 - 1 - 2 - 1


async def test_of_a_subscription_only_what_it_uses_is_kept_and_that_is_bounded(own_server: Server) -> None:
    """Small JSON can be many objects in memory: variables that nothing reads are not kept."""
    ann = await Caller(own_server).registered()
    match_id = (await ann.post(CREATE)).json()["data"]["createMatch"]["match"]["id"]
    before = psutil.Process(own_server.pid).memory_info().rss
    async with acknowledged(ann) as socket:
        for number in range(50):
            message = await told(socket, f"{number}", WATCH, id=match_id, n=number, x=[[]] * 12_000)
            assert message["type"] == "next"
        assert psutil.Process(own_server.pid).memory_info().rss - before < 50 * 500_000, "a megabyte each"
        await socket.send(json.dumps({"id": "0", "type": "complete"}))
        message = await told(socket, "long", WATCH, id="x" * SUBSCRIPTION_BYTES)
        assert message["payload"][0]["extensions"]["code"] == "QUERY_TOO_LONG"
        assert str(SUBSCRIPTION_BYTES) in message["payload"][0]["message"]
        message = await told(socket, "longer", WATCH + " # " + "x" * SUBSCRIPTION_BYTES, id=match_id)
        assert message["payload"][0]["extensions"]["code"] == "QUERY_TOO_LONG"


async def test_long_texts_earlier_versions_and_large_files_cost_what_they_take() -> None:
    def units(query: str) -> int:
        return limits.price_of(query, None).units

    assert units('{ match(id: "m") { id } }') == 1
    assert units('{ match(id: "m", version: 3) { id } }') == 10
    assert units("{ " + " ".join(f'm{n}: match(id: "m", version: {n}) {{ id }}' for n in range(9)) + " }") == 90
    assert units('{ match(id: "%s") { id } }' % ("x" * 90_000)) == 36
    assert units("{ no GraphQL" + "x" * 90_000) == 36


@pytest.mark.parametrize("field", ['x:"{}"', "{}: 1", "status: {}"])
async def test_a_text_with_hundreds_of_faults_is_given_up_soon(server: Server, field: str) -> None:
    """Each fault of an object is told with all of it, so that hundreds would take as long as all others together."""
    faults = " ".join(field.format("y" * 270) for _ in range(300))
    response = await Caller(server).post(f"{{ matches(filter: {{{faults}}}) {{ pageInfo {{ hasNextPage }} }} }}")
    assert 1 <= len(response.json()["errors"]) <= 11
    assert response.json()["extensions"]["cost"]["units"] >= 32


# over all processes


async def test_subscriptions_of_a_player_are_bounded_over_its_sockets(own_server: Server) -> None:
    ann, bob = await Caller(own_server).registered("Ann"), await Caller(own_server).registered("Bob")
    match_id = (await ann.post(CREATE)).json()["data"]["createMatch"]["match"]["id"]

    async def watched(socket: ClientConnection, number: int) -> None:
        for each in range(number):
            await told(socket, str(each), WATCH, id=match_id)

    async with acknowledged(ann) as one, acknowledged(ann) as two, acknowledged(bob) as other:
        async with acknowledged(ann) as three, acknowledged(ann) as four, acknowledged(ann) as five:
            for socket in (one, two, three, four):
                await watched(socket, SUBSCRIPTIONS // 4)
            message = await told(five, "1", WATCH, id=match_id)
            assert message["payload"][0]["extensions"]["code"] == "TOO_MANY_SUBSCRIPTIONS"
            assert (await told(five, "2", ME))["type"] == "next"
            assert (await told(other, "1", WATCH, id=match_id))["type"] == "next"
            await one.send(json.dumps({"id": "0", "type": "complete"}))
            assert (await told(one, "again", WATCH, id=match_id))["type"] == "next"
        async with acknowledged(ann) as six:
            async with asyncio.timeout(15):  # the server hears of the end of the others in its own time
                while (await told(six, "1", WATCH, id=match_id))["type"] == "error":
                    await asyncio.sleep(0.05)


async def test_units_come_back(tmp_path: Path) -> None:
    server = Server(tmp_path, VIDEAU_RATE_ADDRESS="5/2")
    server.start()
    try:
        caller = Caller(server)
        response = await caller.post("{ limits { name } }")
        while response.status_code == 200:
            response = await caller.post(ME)
        async with asyncio.timeout(20):
            while (response := await caller.post(ME)).status_code == 429:
                await asyncio.sleep(response.json()["errors"][0]["extensions"]["retryAfter"] / 10)
    finally:
        assert server.stop() == ""


async def test_two_processes_share_buckets_in_redis_and_go_on_without_it(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path / "redis", private=True)
    redis.start()
    shared = {
        "VIDEAU_REDIS_URL": redis.url,
        "VIDEAU_DATABASE_URL": f"sqlite:///{tmp_path}/videau.db",
        **SECRETS,
        **RATES,
    }
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    servers = [Server(tmp_path / name, **shared) for name in ("one", "other")]
    try:
        for server in servers:
            server.start()
            await shares(server, 1)
        ann = await Caller(servers[0]).registered()
        there = Caller(servers[1], ann.address, ann.token)
        for left in range(29, 9, -2):
            assert levels(await ann.post(ME)) == {"player": left}
            assert levels(await there.post(ME)) == {"player": left - 1}
        answers = await asyncio.gather(*(caller.post(ME) for caller in (ann, there) for _ in range(10)))
        assert sorted(answer.status_code for answer in answers) == [200] * 10 + [429] * 10
        redis.kill()
        assert await ann.used_up() == 30, "each process has its own now, without an error"
        assert await there.used_up() == 30
        await asyncio.gather(*(shares(server, 0) for server in servers))
        redis.start()
        await asyncio.gather(*(shares(server, 1) for server in servers))
        served = await asyncio.gather(ann.used_up(), there.used_up())
        assert sum(served) == 30
    finally:
        complaints = [server.stop() for server in servers]
        redis.kill()
    for said in complaints:
        assert "Traceback" not in said
        assert said.count("rate limits hold in this process alone") == 1
        assert said.count("rate limits hold in all processes again") == 1


async def shares(server: Server, wanted: int) -> None:
    """Wait until a process shares its buckets, or has its own."""
    async with httpx2.AsyncClient(base_url=server.base, verify=False) as http, asyncio.timeout(20):
        while f"videau_rates_shared {wanted}.0" not in (await http.get("/metrics")).text:
            await asyncio.sleep(0.05)


async def test_without_limits_nothing_is_counted(own_server: Server) -> None:
    response = await Caller(own_server).post("{ limits { name } }")
    assert response.json()["extensions"]["limits"] == []
    assert "ratelimit" not in response.headers
    assert "player" not in [each["name"] for each in response.json()["data"]["limits"]]


async def test_every_list_of_the_schema_counts_as_one() -> None:
    """Connections, and what comes in hundreds: a field that is missing in the table would cost next to nothing."""
    short = {"dice", "moves", "points", "checkers", "play", "hits", "results", "destinations", "legalPlays", "scores"}
    short |= {"allowedActions", "edges", "locations", "args", "ratingChanges"}
    types = [type_ for name, type_ in schema._schema.type_map.items() if not name.startswith("__")]
    for type_ in types:
        for name, field in getattr(type_, "fields", {}).items():
            of = getattr(field, "type", None)
            listed = isinstance(of, GraphQLNonNull) and isinstance(of.of_type, GraphQLList)
            pages = str(of).endswith("Connection!")
            if not isinstance(type_, GraphQLInputObjectType) and (listed or pages):
                assert name in limits._PAGES or name in short, f"{type_.name}.{name} has no length in service/limits.py"
