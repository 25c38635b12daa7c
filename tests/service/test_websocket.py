"""Live matches over graphql-transport-ws: the protocol to the letter, and every event once and in order.

The protocol is https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md; its close codes are in the names.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from service.endpoint import CONNECTION_INIT_SECONDS
from tests.client import EVENT, Client, play_out, register
from tests.server import Server

Guest = Callable[[str], Awaitable[Client]]

PROTOCOL = "graphql-transport-ws"
SOON = 15
"""Seconds within which whatever comes at all has come, however much runs beside it."""

WATCH = "subscription($id: ID!, $after: Int! = 0) { matchEvents(matchId: $id, after: $after) { seq } }"


@asynccontextmanager
async def opened(url: str, **how: Any) -> AsyncIterator[ClientConnection]:
    """A websocket before connection_init."""
    how = {"subprotocols": [PROTOCOL]} | how
    async with connect(url.replace("http", "ws", 1), **how) as socket:
        yield socket


@asynccontextmanager
async def acknowledged(url: str, token: str | None = None) -> AsyncIterator[ClientConnection]:
    """A websocket after connection_ack."""
    async with opened(url) as socket:
        await say(socket, type="connection_init", payload={"authorization": f"Bearer {token}"} if token else {})
        assert await heard(socket) == {"type": "connection_ack"}
        yield socket


async def say(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


async def heard(socket: ClientConnection) -> dict[str, Any]:
    """The next message."""
    async with asyncio.timeout(SOON):
        message: dict[str, Any] = json.loads(await socket.recv())
    return message


async def closed(socket: ClientConnection) -> tuple[int, str]:
    """The code and reason with which the server closes next."""
    async with asyncio.timeout(SOON):
        with suppress(ConnectionClosed):
            async for _ in socket:
                pass
    assert socket.close_code is not None
    return socket.close_code, socket.close_reason or ""


async def subscribe(socket: ClientConnection, id_: str, query: str, **variables: Any) -> None:
    await say(socket, id=id_, type="subscribe", payload={"query": query, "variables": variables})


async def asked(socket: ClientConnection, id_: str, query: str, **variables: Any) -> dict[str, Any]:
    """The payload of the one answer to an operation, errors before it was executed included."""
    await subscribe(socket, id_, query, **variables)
    message = await heard(socket)
    assert message["id"] == id_
    if message["type"] == "error":
        return {"data": None, "errors": message["payload"]}
    assert message["type"] == "next", message
    assert await heard(socket) == {"id": id_, "type": "complete"}
    payload: dict[str, Any] = message["payload"]
    payload.pop("extensions", None)  # what it cost (test_rates.py)
    return payload


async def code(socket: ClientConnection, id_: str, query: str, **variables: Any) -> str:
    """The code with which an operation is refused."""
    payload = await asked(socket, id_, query, **variables)
    [error] = payload["errors"]
    assert error["message"]
    assert not payload["data"]
    found: str = error["extensions"]["code"]
    return found


async def alive(socket: ClientConnection) -> bool:
    """Whether the connection still answers, and with nothing else."""
    await say(socket, type="ping")
    return await heard(socket) == {"type": "pong"}


async def finished(white: Client, black: Client, length: int = 1) -> str:
    """A match that was played to its end."""
    match_id = await white.create(f"{{length: {length}}}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    await play_out(random.Random(3), match_id, white, black, turns=20)
    if (await white.match(match_id))["phase"] != "OVER":
        await white.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    return match_id


# opening a connection


@pytest.mark.parametrize(
    "subprotocols",
    [None, ["graphql-ws"], ["json"], ["graphql-ws", "json"], ["GRAPHQL-TRANSPORT-WS"]],
    ids=["none", "the legacy one", "another", "two others", "in capitals"],
)
async def test_another_subprotocol_is_not_acceptable_4406(server: Server, subprotocols: list[str] | None) -> None:
    async with opened(server.url, subprotocols=subprotocols) as socket:
        assert socket.subprotocol is None
        assert (await closed(socket))[0] == 4406


async def test_the_right_subprotocol_is_chosen_among_several(server: Server) -> None:
    async with opened(server.url, subprotocols=["graphql-ws", PROTOCOL]) as socket:
        assert socket.subprotocol == PROTOCOL
        await say(socket, type="connection_init")
        assert await heard(socket) == {"type": "connection_ack"}


@pytest.mark.parametrize("payload", [None, {}, {"other": [1]}], ids=json.dumps)
async def test_connection_init_needs_no_token(server: Server, payload: dict[str, Any] | None) -> None:
    async with opened(server.url) as socket:
        await say(socket, type="connection_init", payload=payload)
        assert await heard(socket) == {"type": "connection_ack"}
        assert await asked(socket, "1", "{ me { id } }") == {"data": {"me": None}}


@pytest.mark.parametrize("name", ["authorization", "Authorization", "AUTHORIZATION"])
async def test_the_token_of_connection_init_says_who_it_is(server: Server, guest: Guest, name: str) -> None:
    ann = await guest("Ann")
    async with opened(server.url) as socket:
        await say(socket, type="connection_init", payload={name: f"Bearer {ann.token}"})
        assert await heard(socket) == {"type": "connection_ack"}
        assert await asked(socket, "1", "{ me { id } }") == {"data": {"me": {"id": ann.player_id}}}


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer x",
        "Bearer a.b.c",
        "Basic x",
        "x" * 50_000,
        "Bearer \u00e9\u00e9.\u738b.x",
        5,
        [],
        {"a": 1},
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_a_bad_token_in_connection_init_is_forbidden_4403(server: Server, authorization: Any) -> None:
    async with opened(server.url) as socket:
        await say(socket, type="connection_init", payload={"authorization": authorization})
        found, reason = await closed(socket)
        assert (found, reason.split(":")[0]) == (4403, "TOKEN_INVALID")


async def test_subscribing_before_connection_init_is_unauthorized_4401(server: Server) -> None:
    async with opened(server.url) as socket:
        await subscribe(socket, "1", "{ me { id } }")
        assert (await closed(socket))[0] == 4401


async def test_pings_are_answered_before_connection_init(server: Server) -> None:
    async with opened(server.url) as socket:
        assert await alive(socket)


@pytest.mark.parametrize("payload", [{}, {"authorization": "Bearer x"}], ids=["empty", "with a bad token"])
async def test_a_second_connection_init_is_one_too_many_4429(server: Server, payload: dict[str, str]) -> None:
    async with acknowledged(server.url) as socket:
        await say(socket, type="connection_init", payload=payload)
        assert (await closed(socket))[0] == 4429


def test_the_wait_for_connection_init_is_short() -> None:
    assert 1 <= CONNECTION_INIT_SECONDS <= 10


async def test_a_browsers_page_of_another_host_is_refused(own_server: Server) -> None:
    """Websockets know no CORS: the server itself looks at Origin."""
    for origin in ("https://evil.example", "null", "http://127.0.0.1", "http://localhost:1", "http://127.0.0.1.evil"):
        with pytest.raises(InvalidStatus) as refusal:
            async with opened(own_server.url, origin=origin):
                raise AssertionError(f"{origin} was let in")
        assert refusal.value.response.status_code == 403
    assert "Traceback" not in own_server.stop()


async def test_the_own_page_is_served(server: Server) -> None:
    async with opened(server.url, origin=server.url.removesuffix("/graphql")) as socket:
        await say(socket, type="connection_init")
        assert await heard(socket) == {"type": "connection_ack"}


# messages

NO_MESSAGE: dict[str, str | bytes] = {
    "nothing": "",
    "no JSON": "{",
    "zero": "\x00",
    "a number": "5",
    "null": "null",
    "a text": '"ping"',
    "a list": '[{"type": "ping"}]',
    "no type": "{}",
    "a type that is a number": '{"type": 5}',
    "an unknown type": '{"type": "start", "id": "1"}',
    "a long unknown type": json.dumps({"type": "x" * 500}),
    "a long unknown type in another script": json.dumps({"type": "é王" * 100}),
    "a server's type": '{"type": "next", "id": "1", "payload": {}}',
    "subscribe without id": '{"type": "subscribe", "payload": {"query": "{ me { id } }"}}',
    "subscribe with a number as id": '{"type": "subscribe", "id": 1, "payload": {"query": "{ me { id } }"}}',
    "subscribe without payload": '{"type": "subscribe", "id": "1"}',
    "subscribe with null": '{"type": "subscribe", "id": "1", "payload": null}',
    "subscribe without query": '{"type": "subscribe", "id": "1", "payload": {}}',
    "a query that is a number": '{"type": "subscribe", "id": "1", "payload": {"query": 5}}',
    "variables that are a list": '{"type": "subscribe", "id": "1", "payload": {"query": "{ a }", "variables": []}}',
    "a name that is a list": '{"type": "subscribe", "id": "1", "payload": {"query": "{ a }", "operationName": []}}',
    "complete without id": '{"type": "complete"}',
    "complete with null": '{"type": "complete", "id": null}',
    "init with a list": '{"type": "connection_init", "payload": [1]}',
    "a lone surrogate": '{"type": "ping", "payload": {"x": "\\ud800"}}',
    "a huge number": '{"type": "ping", "payload": {"x": 1e999}}',
    "60,000 brackets": "[" * 60_000,
    "deep objects": '{"type":' * 7_000 + "1" + "}" * 7_000,
    "a binary frame": b'{"type": "ping"}',
    "a binary frame that is no text": b"\x00\xff",
}  # fmt: skip


@pytest.mark.parametrize("message", NO_MESSAGE.values(), ids=NO_MESSAGE.keys())
async def test_what_is_no_message_closes_the_connection_4400(server: Server, message: str | bytes) -> None:
    async with acknowledged(server.url) as socket:
        await socket.send(message)
        found, reason = await closed(socket)
        assert found == 4400
        assert reason


TOO_BIG = (1009, 1006)
"""RFC 6455, 7.4.1; but the word is lost (1006) where the server hangs up while the rest is still being sent."""


async def test_a_message_beyond_64_kilobytes_is_too_big_1009(server: Server) -> None:
    async with acknowledged(server.url) as socket:
        await say(socket, type="ping", payload={"x": "x" * 60_000})
        assert await heard(socket) == {"type": "pong"}
        await say(socket, type="ping", payload={"x": "x" * 100_000})
        assert (await closed(socket))[0] in TOO_BIG


async def test_a_message_beyond_64_kilobytes_in_fragments_is_too_big_1009(server: Server) -> None:
    async with acknowledged(server.url) as socket:
        with suppress(ConnectionClosed):
            await socket.send(["x" * 30_000] * 4)
        assert (await closed(socket))[0] in TOO_BIG


async def test_pings_are_answered_and_pongs_are_not(server: Server) -> None:
    async with acknowledged(server.url) as socket:
        for payload in ({}, {"payload": None}, {"payload": {"at": 5}}):
            await say(socket, type="ping", **payload)
            assert (await heard(socket))["type"] == "pong"
        await say(socket, type="pong", payload={"at": 5})
        assert await alive(socket)
        async with asyncio.timeout(SOON):
            await (await socket.ping(b"of the websocket itself"))


async def test_members_that_the_protocol_does_not_know_are_ignored(server: Server) -> None:
    """`extensions` in a payload is allowed by the protocol."""
    async with acknowledged(server.url) as socket:
        payload = {"query": "{ me { id } }", "extensions": {"trace": 1}, "variables": None, "operationName": None}
        await say(socket, id="1", type="subscribe", payload=payload, more=1)
        answer = await heard(socket)
        assert (answer["id"], answer["type"], answer["payload"]["data"]) == ("1", "next", {"me": None})


# operations


async def test_queries_and_mutations_work_over_a_socket(server: Server, guest: Guest) -> None:
    ann = await guest("Ann")
    async with acknowledged(server.url, ann.token) as socket:
        create = "mutation { createMatch(settings: {length: 1}) { ... on Happened { match { id version } } } }"
        made = (await asked(socket, "1", create))["data"]["createMatch"]["match"]
        assert made["version"] == 2
        query = "query($id: ID!) { match(id: $id) { viewerColor } }"
        assert await asked(socket, "1", query, id=made["id"]) == {"data": {"match": {"viewerColor": "WHITE"}}}
        join = "mutation($id: ID!) { joinMatch(matchId: $id) { ... on Refusal { code } } }"
        assert await asked(socket, "2", join, id=made["id"]) == {"data": {"joinMatch": {"code": "ALREADY_SEATED"}}}
    assert (await ann.match(made["id"]))["version"] == 2


REFUSED_OPERATIONS = {
    "no GraphQL": ("{", "PARSE_FAILED"),
    "no GraphQL, at length": ('{ me { id } } "' + "x" * 300 + '"', "PARSE_FAILED"),
    "no GraphQL in another script": ('{ me { id } } "' + "王" * 100 + '"', "PARSE_FAILED"),
    "no field": ("{ nope }", "VALIDATION_FAILED"),
    "no such argument": ('{ player(name: "Ann", id: "x") { id } }', "VALIDATION_FAILED"),
    "too many tokens": ("{ " + "me { id } " * 300 + "}", "QUERY_TOO_LONG"),
    "too many aliases": ("{ " + " ".join(f"a{n}: me {{ id }}" for n in range(31)) + " }", "TOO_MANY_ALIASES"),
    "too costly": (
        "{ matches(first: 100) { edges { node { events(first: 100) { edges { cursor } } } } } }",
        "QUERY_TOO_COSTLY",
    ),
    "two subscriptions in one": (
        'subscription { a: matchEvents(matchId: "x") { seq } b: matchEvents(matchId: "y") { seq } }',
        "VALIDATION_FAILED",
    ),
    "no match to watch": ("subscription { matchEvents { seq } }", "VALIDATION_FAILED"),
    "no player": ("mutation { createMatch(settings: {length: 1}) { __typename } }", "UNAUTHENTICATED"),
    "bad input": ("{ matches(first: 0) { edges { cursor } } }", "BAD_INPUT"),
}  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), REFUSED_OPERATIONS.values(), ids=REFUSED_OPERATIONS.keys())
async def test_an_operation_is_refused_with_a_code_and_the_others_go_on(
    server: Server, guest: Guest, query: str, expected: str
) -> None:
    match_id = await (await guest("Ann")).create("{length: 1}")
    async with acknowledged(server.url) as socket:
        await subscribe(socket, "watch", WATCH, id=match_id, after=1)
        assert (await heard(socket))["payload"]["data"]["matchEvents"]["seq"] == 2
        assert await code(socket, "1", query) == expected
        assert await code(socket, "1", query) == expected, "the id is free again"
        assert await alive(socket)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param({"query": ""}, {"BAD_REQUEST", "PARSE_FAILED"}, id="an empty query"),
        pytest.param({"query": "query A { me { id } }", "operationName": "B"}, {"BAD_REQUEST"}, id="no such operation"),
        pytest.param(
            {"query": "query A { me { id } }", "operationName": "王" * 300},
            {"BAD_REQUEST"},
            id="no such long operation",
        ),
        pytest.param({"query": "fragment F on Query { me { id } }"}, {"BAD_REQUEST"}, id="no operation"),
        pytest.param(
            {"query": "query($v: Int) { me { id } match(id: 1, version: $v) { id } }", "variables": {"v": "x"}},
            {"VALIDATION_FAILED", "BAD_INPUT", "BAD_REQUEST"},
            id="a variable of the wrong type",
        ),
        pytest.param(
            {"query": WATCH, "variables": {"id": None}},
            {"VALIDATION_FAILED", "BAD_INPUT", "BAD_REQUEST"},
            id="a subscription with a variable of the wrong type",
        ),
        pytest.param(
            {"query": WATCH, "variables": {"id": "x", "after": 2**31}},
            {"VALIDATION_FAILED", "BAD_INPUT", "BAD_REQUEST"},
            id="a subscription with a number too large",
        ),
    ],
)
async def test_an_operation_that_cannot_begin_is_the_callers_mistake(
    server: Server, payload: dict[str, Any], expected: set[str]
) -> None:
    async with acknowledged(server.url) as socket:
        await say(socket, id="1", type="subscribe", payload=payload)
        message = await heard(socket)
        errors = message["payload"] if message["type"] == "error" else message["payload"]["errors"]
        assert {error["extensions"]["code"] for error in errors} <= expected
        if message["type"] != "error":
            assert await heard(socket) == {"id": "1", "type": "complete"}
        assert await alive(socket)


@pytest.mark.parametrize("id_", ["1", "", "x" * 300, "王" * 100], ids=["short", "empty", "long", "in another script"])
async def test_an_id_that_is_in_use_closes_the_connection_4409(server: Server, guest: Guest, id_: str) -> None:
    match_id = await (await guest("Ann")).create("{length: 1}")
    async with acknowledged(server.url) as socket:
        await subscribe(socket, id_, WATCH, id=match_id, after=1)
        assert (await heard(socket))["id"] == id_
        await subscribe(socket, id_, WATCH, id=match_id)
        assert (await closed(socket))[0] == 4409


async def test_a_completed_operation_is_silent_and_its_id_is_free(server: Server, guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create("{length: 1, sandbox: {dice: [[3, 1]]}}")
    async with acknowledged(server.url) as socket:
        for after in (0, 1):
            await subscribe(socket, "1", WATCH, id=match_id, after=after)
            for seq in range(after + 1, 3):
                assert (await heard(socket))["payload"]["data"]["matchEvents"]["seq"] == seq
            await say(socket, id="1", type="complete")
        assert await alive(socket)
        await bob.happens("joinMatch", f'matchId: "{match_id}"')
        assert await alive(socket), "nobody watches"
        await say(socket, id="1", type="complete")
        await say(socket, id="never", type="complete")
        assert await alive(socket)


async def test_operations_on_one_socket_are_bounded(server: Server, guest: Guest) -> None:
    """Promise 9: the limit in `limits` is served, one more is refused with its code."""
    ann = await guest("Ann")
    match_id = await ann.create("{length: 1}")
    limits = {limit["name"]: limit for limit in (await ann.ask("{ limits { name value code } }"))["limits"]}
    most, expected = limits["operationsPerWebsocket"]["value"], limits["operationsPerWebsocket"]["code"]
    async with acknowledged(server.url) as socket:
        for n in range(most):
            await subscribe(socket, str(n), WATCH, id=match_id, after=1)
        seen = {(await heard(socket))["id"] for _ in range(most)}
        assert seen == {str(n) for n in range(most)}
        for query in (WATCH, "query($id: ID!) { match(id: $id) { id } }"):
            assert await code(socket, "one more", query, id=match_id) == expected == "TOO_MANY_OPERATIONS"
        await say(socket, id="7", type="complete")
        await subscribe(socket, "one more", WATCH, id=match_id, after=1)
        assert (await heard(socket))["payload"]["data"]["matchEvents"]["seq"] == 2
        assert await code(socket, "another", WATCH, id=match_id) == expected


# watching


@pytest.mark.parametrize("after", [-1, -(2**31), 3, 1000, 2**31 - 1])
async def test_events_begin_between_the_start_and_the_head(server: Server, guest: Guest, after: int) -> None:
    match_id = await (await guest("Ann")).create("{length: 1}")
    async with acknowledged(server.url) as socket:
        assert await code(socket, "1", WATCH, id=match_id, after=after) in ("STALE_VERSION", "BAD_INPUT")
        assert await alive(socket)


async def test_a_private_match_is_watched_by_its_players_alone(server: Server, guest: Guest) -> None:
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await ann.create("{length: 1, visibility: PRIVATE}", f', opponent: "{bob.player_id}"')
    for token in (cleo.token, None):
        async with acknowledged(server.url, token) as socket:
            for after in (0, 2, 99, -1):
                hidden = await asked(socket, "1", WATCH, id=match_id, after=after)
                unknown = await asked(socket, "1", WATCH, id=match_id[::-1], after=after)
                assert [error["extensions"]["code"] for error in hidden["errors"]] == ["MATCH_NOT_FOUND"]
                assert json.dumps(hidden).replace(match_id, "?") == json.dumps(unknown).replace(match_id[::-1], "?")
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    for token in (ann.token, bob.token):
        async with acknowledged(server.url, token) as socket:
            await subscribe(socket, "1", WATCH, id=match_id)
            assert (await heard(socket))["payload"]["data"]["matchEvents"]["seq"] == 1
    async with acknowledged(server.url, cleo.token) as socket:
        assert await code(socket, "1", WATCH, id=match_id) == "MATCH_NOT_FOUND"


async def test_an_unlisted_match_is_watched_by_id(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create("{length: 1, visibility: UNLISTED}")
    code = (await ann.match(match_id, "invitation { joinCode }"))["invitation"]["joinCode"]
    await bob.happens("joinMatch", f'code: "{code}"')
    await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    async with aclosing(anonymous.watch(match_id)) as events:
        assert [event["seq"] async for event in events] == list(range(1, (await ann.match(match_id))["version"] + 1))


async def test_every_start_gives_exactly_the_rest_of_a_finished_match(
    server: Server, guest: Guest, anonymous: Client
) -> None:
    """Promise 4, for each number up to the last, whose rest is empty: each time all of it, then `complete`."""
    match_id = await finished(await guest("Ann"), await guest("Bob"), 3)
    log = await anonymous.log(match_id)
    query = WATCH.replace("{ seq }", f"{{ {EVENT} }}")
    async with acknowledged(server.url) as socket:
        for after in range(len(log) + 1):
            await subscribe(socket, str(after), query, id=match_id, after=after)
            seen = []
            while (message := await heard(socket))["type"] == "next":
                assert "errors" not in message["payload"]
                seen.append(message["payload"]["data"]["matchEvents"])
            assert message == {"id": str(after), "type": "complete"}
            assert seen == log[after:]


async def test_several_matches_are_watched_on_one_socket(server: Server, guest: Guest) -> None:
    """Interleaved, each gapless, each completed when its match is over."""
    ann, bob = await guest("Ann"), await guest("Bob")
    ids = [await ann.create("{length: 1}") for _ in range(5)]
    seen: dict[str, list[int]] = {match_id: [] for match_id in ids}

    async def play(match_id: str) -> None:
        await bob.happens("joinMatch", f'matchId: "{match_id}"')
        await play_out(random.Random(match_id), match_id, ann, bob, turns=10)
        if (await ann.match(match_id))["phase"] != "OVER":
            await bob.happens("resign", f'matchId: "{match_id}" stake: MATCH')

    async with acknowledged(server.url) as socket:
        for match_id in ids:
            await subscribe(socket, match_id, WATCH, id=match_id)
        playing = asyncio.gather(*(play(match_id) for match_id in ids))
        open_ = set(ids)
        while open_:
            message = await heard(socket)
            if message["type"] == "complete":
                open_.remove(message["id"])
            else:
                seen[message["id"]].append(message["payload"]["data"]["matchEvents"]["seq"])
        await playing
        assert await alive(socket)
    for match_id in ids:
        assert seen[match_id] == list(range(1, (await ann.match(match_id))["version"] + 1))


async def test_many_watch_one_match_and_see_the_same(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create("{length: 1}")

    async def watch(after: int) -> list[dict[str, Any]]:
        async with aclosing(anonymous.watch(match_id, after)) as events:
            return [event async for event in events]

    watching = [asyncio.create_task(watch(n % 3)) for n in range(30)]
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    await play_out(random.Random(8), match_id, ann, bob, turns=10)
    await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    async with asyncio.timeout(2 * SOON):
        seen = await asyncio.gather(*watching)
    log = await anonymous.log(match_id)
    for n, events in enumerate(seen):
        assert events == log[n % 3 :]


async def test_who_may_act_sees_it_in_each_event(server: Server, guest: Guest) -> None:
    """An event's match is seen by whoever watches: each player from its own side."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create("{length: 1, sandbox: {dice: [[3, 1]]}}")
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    query = WATCH.replace("{ seq }", "{ match { version viewerColor allowedActions board { perspective } } }")
    for token, color, actions in (
        (ann.token, "WHITE", ["MOVE", "RESIGN"]), (bob.token, "BLACK", ["RESIGN"]), (None, None, []),
    ):  # fmt: skip
        async with acknowledged(server.url, token) as socket:
            await subscribe(socket, "1", query, id=match_id, after=3)
            match = (await heard(socket))["payload"]["data"]["matchEvents"]["match"]
            assert match == {
                "version": 4,
                "viewerColor": color,
                "allowedActions": actions,
                "board": {"perspective": color or "WHITE"},
            }


async def test_a_watcher_hears_of_a_command_whose_sender_has_gone(server: Server, guest: Guest) -> None:
    """Whatever the log has, watchers get at once, whether or not anybody waits for the command's answer."""
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    join = "mutation($id: ID!) { joinMatch(matchId: $id) { __typename } }"
    for goes in ("complete", "close", "abort"):
        for _ in range(3):
            match_id = await ann.create("{length: 1, sandbox: {dice: [[3, 1]]}}")
            async with acknowledged(server.url, cleo.token) as watcher:
                await subscribe(watcher, "1", WATCH, id=match_id, after=1)
                assert (await heard(watcher))["payload"]["data"]["matchEvents"]["seq"] == 2
                async with acknowledged(server.url, bob.token) as sender:
                    await subscribe(sender, "1", join, id=match_id)
                    if goes == "complete":
                        await say(sender, id="1", type="complete")
                        await say(sender, type="ping")
                        while (told := await heard(sender)) != {"type": "pong"}:
                            assert told["id"] == "1", "an answer may be quicker"
                    elif goes == "abort":
                        sender.transport.abort()
                # what was not heard above has happened whole or not at all when another command has been answered
                answer = await bob.command("joinMatch", f'matchId: "{match_id}"')
                assert answer.get("code") in (None, "ALREADY_SEATED")
                for seq in (3, 4):
                    assert (await heard(watcher))["payload"]["data"]["matchEvents"]["seq"] == seq


async def test_abrupt_disconnects_leave_the_server_working_and_silent(own_server: Server) -> None:
    """Cut off before the handshake is over, before and after connection_init, and in the midst of operations."""
    ann, bob = await register(own_server.url, "Ann"), await register(own_server.url, "Bob")
    match_id = await ann.create("{length: 1}")
    busy = "{ __typename matches(first: 50) { edges { node { id xgid legalPlays { notation } } } } }"
    for _ in range(5):
        async with opened(own_server.url) as socket:
            socket.transport.abort()
        async with acknowledged(own_server.url) as socket:
            socket.transport.abort()
        for end in ("abort", "close"):
            async with acknowledged(own_server.url) as socket:
                for n in range(10):
                    await subscribe(socket, f"watch {n}", WATCH, id=match_id)
                for n in range(30):
                    await subscribe(socket, f"ask {n}", busy)
                if end == "abort":
                    socket.transport.abort()
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    async with aclosing(ann.watch(match_id)) as events:
        assert len([event async for event in events]) == (await ann.match(match_id))["version"]
    await asyncio.gather(ann.close(), bob.close())
    assert not own_server.stop()


async def test_a_wrong_message_in_the_midst_of_operations_closes_quietly(server: Server) -> None:
    """4400 whatever else is under way, and nothing in the server's log."""
    async with asyncio.timeout(2 * SOON):
        for _ in range(5):
            async with acknowledged(server.url) as socket:
                for n in range(40):
                    await subscribe(socket, str(n), "{ __typename matches { edges { cursor } } }")
                await socket.send("5")
                assert (await closed(socket))[0] == 4400


async def test_a_watcher_that_does_not_read_keeps_nobody_waiting(server: Server, guest: Guest) -> None:
    """Promise 9: it costs no queue, and whoever reads gets everything meanwhile."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await finished(ann, bob, 1)
    version = (await ann.match(match_id))["version"]
    fields = "{ seq match { xgid white { checkers } black { checkers } legalPlays { notation moves } } }"
    async with acknowledged(server.url) as lazy:
        lazy.transport.pause_reading()
        for n in range(50):
            await subscribe(lazy, str(n), WATCH.replace("{ seq }", fields), id=match_id)
        for _ in range(5):
            async with asyncio.timeout(SOON):
                async with aclosing(ann.watch(match_id)) as events:
                    assert len([event async for event in events]) == version
        lazy.transport.abort()
