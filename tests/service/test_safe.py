"""Attacks on a server that is open to the internet, each sent over a real socket; and what must not break meanwhile."""

import asyncio
import json
import random
import re
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import jwt
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from service.errors import logger
from tests.client import Client, choose, play_out, register
from tests.server import Server

OLD, NEW = "0123456789abcdef" * 4, "fedcba9876543210" * 4
NAMES = ("VIDEAU_SECRET", "VIDEAU_DICE_SECRET", "VIDEAU_SIGNING_KEY")


# secrets


async def test_secrets_are_rotated_under_running_matches(tmp_path: Path) -> None:
    """Tokens stand, matches go on with proven dice, new things are of the new secret; then the old one is gone."""
    server = Server(tmp_path, **dict.fromkeys(NAMES, OLD))
    server.start()
    try:
        ann, bob = await register(server.url, "Ann"), await register(server.url, "Bob")
        running = await ann.create("{length: 1}")
        await bob.happens("joinMatch", f'matchId: "{running}"')
        left = await ann.create("{length: 1}", ", autoRoll: false")
        await bob.happens("joinMatch", f'matchId: "{left}", autoRoll: false')
        await play_out(random.Random(1), running, ann, bob, turns=3)
        [old_key] = await keys(server)

        restarted(server, f"{NEW},{OLD}")
        new_key, kept = await keys(server)
        assert kept == old_key
        assert (await play_out(random.Random(2), running, ann, bob))["phase"] == "OVER"
        fairness = (await ann.match(running, "fairness { whole rolls provenRolls publicKey }"))["fairness"]
        assert fairness["whole"]
        assert fairness["rolls"] == fairness["provenRolls"] > 3
        assert fairness["publicKey"] == new_key
        cleo = await register(server.url, "Cleo")

        restarted(server, NEW, VIDEAU_SECRET=OLD)  # too early: a match needs its dice secret yet
        assert await keys(server) == [new_key]
        answer = await cleo.post("{ me { name } }")
        assert answer["errors"][0]["extensions"]["code"] == "TOKEN_SIGNATURE"
        match = await stopped_at_a_roll(left, ann, bob)
        actor = ann if match["toAct"] == "WHITE" else bob
        refused = await actor.command("roll", f'matchId: "{left}"')
        assert refused["code"] == "UNPROVEN_DICE"
        assert "secret" in refused["message"]
        assert (await ann.match(left))["version"] == match["version"]
        for client in (ann, bob, cleo):
            await client.close()
    finally:
        server.kill()
    assert OLD not in server.complaints
    assert "Traceback" not in server.complaints


def restarted(server: Server, secrets: str, **other: str) -> None:
    server.stop()
    server.env |= dict.fromkeys(NAMES, secrets) | other
    server.start()


async def keys(server: Server) -> list[str]:
    async with httpx2.AsyncClient(base_url=server.base, verify=False) as http:
        return [key["key"] for key in (await http.get("/keys")).json()["keys"]]


async def stopped_at_a_roll(match_id: str, white: Client, black: Client) -> dict[str, object]:
    """A match whose opening was played, so that somebody must roll."""
    match = await white.match(match_id, "toAct")
    actor = white if match["toAct"] == "WHITE" else black
    moves = await actor.match(match_id, "allowedActions legalPlays { notation moves }")
    verb, variables = choose(random.Random(3), moves)
    return (await actor.act(verb, matchId=match_id, **variables))["match"]


# browsers


GAME = "https://game.example"
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server as it comes, but for one origin that may call, and the schema, which is not told."""
    running = Server(
        tmp_path_factory.mktemp("server"),
        VIDEAU_ORIGINS=f"{GAME},capacitor://localhost",
        VIDEAU_INTROSPECTION="off",
        VIDEAU_CONNECTIONS_PER_ADDRESS="",
    )
    running.start()
    yield running
    running.stop()
    assert "Traceback" not in running.complaints


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.base, timeout=30, verify=False) as client:
        yield client


async def test_every_response_tells_browsers_to_run_and_frame_nothing(server: Server, http: httpx2.AsyncClient) -> None:
    answers = [
        await http.get("/"),
        await http.get("/join/nothing"),
        await http.get("/nowhere"),
        await http.get("/keys"),
        await http.get("/metrics"),
        await http.post("/graphql", json={"query": "{ me { id } }"}),
        await http.post("/graphql", content=b"{"),
    ]
    assert {answer.status_code for answer in answers} == {200, 400, 404}
    for answer in answers:
        assert HEADERS.items() <= dict(answer.headers).items(), answer.request.url
        assert "server" not in answer.headers
    for page in answers[:2]:
        assert not re.search(r"<(script|style|link|img|iframe)|\son\w+=|style=", page.text), page.text
    refused = await exchanged(server, b"no HTTP at all\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 400")
    assert b"content-security-policy: default-src 'none'" in refused


async def test_a_page_of_another_origin_is_told_nothing(http: httpx2.AsyncClient) -> None:
    """What its browser lets it read and send is what these headers say; no cookie of ours goes with it."""
    for origin in ("https://evil.example", "null", f"{GAME}.evil.example", GAME.replace("https", "http")):
        preflight = await http.options("/graphql", headers={"origin": origin, **PREFLIGHT})
        simple = await http.get("/graphql?query={me{id}}", headers={"origin": origin})
        for answer in (preflight, simple):
            assert "access-control-allow-origin" not in answer.headers
            assert "set-cookie" not in answer.headers
        assert preflight.status_code == 400


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
async def test_what_a_page_may_send_without_asking_does_nothing(http: httpx2.AsyncClient, kind: str) -> None:
    """Browsers send these, and GETs, to any site, without a preflight."""
    register_ = 'mutation { registerGuest(name: "Eve") { token } }'
    body = json.dumps({"query": register_})
    part = f'--x\r\ncontent-disposition: form-data; name="operations"\r\n\r\n{body}\r\n--x--\r\n'
    headers = {"origin": "https://evil.example", "content-type": kind}
    for content in (body, part, f"query={quote(register_)}"):
        answer = await http.post("/graphql", content=content, headers=headers)
        assert answer.status_code == 400
        assert answer.json()["data"] is None
    answer = await http.get("/graphql", params={"query": register_}, headers=headers)
    assert answer.status_code == 400
    assert not answer.json()["data"]


async def test_a_page_of_an_origin_that_is_allowed_calls_with_its_token(http: httpx2.AsyncClient) -> None:
    for origin in (GAME, "capacitor://localhost"):
        preflight = await http.options("/graphql", headers={"origin": origin, **PREFLIGHT})
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == origin
        allowed = preflight.headers["access-control-allow-headers"].lower()
        assert {"authorization", "last-event-id", "traceparent"} <= {*allowed.split(", ")}
        assert "access-control-allow-credentials" not in preflight.headers
        answer = await http.post("/graphql", json={"query": "{ me { id } }"}, headers={"origin": origin})
        assert answer.headers["access-control-allow-origin"] == origin
        assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", f"{GAME}:8443"])
async def test_a_page_of_another_origin_opens_no_websocket(server: Server, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with opened(server, origin):
            pass
    assert refused.value.response.status_code == 403


async def test_our_own_pages_allowed_ones_and_programs_open_websockets(server: Server) -> None:
    for origin in (None, server.base, GAME):
        async with opened(server, origin) as socket:
            await socket.send('{"type": "connection_init"}')
            assert json.loads(await socket.recv()) == {"type": "connection_ack"}


async def test_without_allowed_origins_no_preflight_is_answered(own_server: Server) -> None:
    async with httpx2.AsyncClient(base_url=own_server.base, verify=False) as http:
        preflight = await http.options("/graphql", headers={"origin": GAME, **PREFLIGHT})
        assert preflight.status_code == 405
        answer = await http.post("/graphql", json={"query": INTROSPECTION}, headers={"origin": GAME})
        assert "data" in answer.json()
        assert not [name for name in answer.headers if name.startswith("access-control")]
    with pytest.raises(InvalidStatus):
        async with opened(own_server, GAME):
            pass


# what is asked


INTROSPECTION = "{ __schema { types { name } } }"


@pytest.mark.parametrize(
    "query",
    [
        INTROSPECTION,
        '{ __type(name: "Query") { name } }',
        "{ me { id } ... on Query { s: __schema { description } } }",
        "{ ...A } fragment A on Query { ...B } fragment B on Query { __schema { description } }",
    ],
)
async def test_the_schema_is_not_told_where_introspection_is_off(
    server: Server, http: httpx2.AsyncClient, query: str
) -> None:
    answer = await http.post("/graphql", json={"query": query})
    assert [error["extensions"]["code"] for error in answer.json()["errors"]] == ["FORBIDDEN"]
    async with opened(server, None) as socket:
        await socket.send('{"type": "connection_init"}')
        await socket.recv()
        await socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": {"query": query}}))
        told = json.loads(await socket.recv())
        assert (told["type"], told["payload"][0]["extensions"]["code"]) == ("error", "FORBIDDEN")
    kept = await http.post("/graphql", json={"query": "{ __typename me { __typename } }"})
    assert kept.json()["data"] == {"__typename": "Query", "me": None}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "nonsense"])
async def test_no_body_is_unpacked(server: Server, http: httpx2.AsyncClient, encoding: str) -> None:
    """A bomb of a kilobyte, which would be a megabyte and could be a terabyte."""
    bomb = zlib.compress(b" " * 1_000_000, wbits=31)
    ann = await register(server.url, "Ann")
    for path in ("/graphql", "/matches/import"):
        headers = {"content-encoding": encoding, "content-type": "application/json"}
        answer = await http.post(path, content=bomb, headers={**headers, "authorization": f"Bearer {ann.token}"})
        assert answer.status_code == 415, answer.text
        assert "BAD_REQUEST" in answer.text
        assert "content-encoding" in answer.json().get("detail", answer.text)
    await ann.close()


async def test_a_websocket_agrees_to_no_compression(server: Server) -> None:
    async with opened(server, None, compression="deflate") as socket:
        assert socket.response is not None
        assert "sec-websocket-extensions" not in socket.response.headers


async def test_nothing_that_is_sent_gets_raw_into_the_log(server: Server, http: httpx2.AsyncClient) -> None:
    """Neither a line of its own nor what a terminal obeys."""
    forged = "x\r\nERROR forged by hand\x1b[2J\x07\u2028"
    register_ = "mutation($name: String!) { registerGuest(name: $name) { token } }"
    await http.post("/graphql", json={"query": register_, "variables": {"name": forged}})
    await http.post(
        "/graphql", json={"query": "query($id: ID!) { match(id: $id) { id } }", "variables": {"id": forged}}
    )
    await http.post("/graphql", json={"query": f"{{ {forged} }}", "operationName": forged})
    for path in (
        "/matches/{}/events",
        "/matches/{}.mat",
        "/join/{}",
        "/{}",
        "/graphql?query={}",
        "/matches/x/events?after={}",
    ):
        await http.get(path.format(quote(forged)))
    for name in (
        "authorization",
        "last-event-id",
        "accept-language",
        "origin",
        "host",
        "x-forwarded-for",
        "user-agent",
    ):
        await exchanged(server, f"GET /limits HTTP/1.1\r\nhost: x\r\n{name}: forged\x1b[2J\x07\r\n\r\n".encode())
        await exchanged(server, f"GET /limits HTTP/1.1\r\nhost: x\r\n{name}: Bearer \xe9\xff\r\n\r\n".encode("latin-1"))
    token = jwt.encode({"iss": forged, "sub": forged, "exp": 2e9}, "s" * 32, headers={"kid": forged})
    await http.get("/limits", headers={"authorization": f"Bearer {token}"})
    for value in (b"https://x\x1b[2J", b"https://x\xe9\xff\x07", b"https://x.example"):
        await exchanged(server, handshake(origin=value))
        await exchanged(server, handshake(host=value))
    assert (await http.get("/healthz")).status_code == 200
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]|^ERROR forged", server.complaints, re.MULTILINE)


def test_the_log_is_escaped_whoever_writes_to_it(caplog: pytest.LogCaptureFixture) -> None:
    logger.error("the match %s is late: %s", "m\r\nforged\x1b[2J", "é")
    assert caplog.messages == [r"the match m\r\nforged\x1b[2J is late: é"]


# proxies


async def test_only_a_trusted_proxy_says_who_calls(tmp_path: Path) -> None:
    """Whoever forges X-Forwarded-For has no bucket but its own; a client's forgery stands left of what proxies add."""
    server = Server(tmp_path, VIDEAU_RATE_ADDRESS="3/30000", VIDEAU_CONNECTIONS_PER_ADDRESS="4")
    server.start()
    try:
        statuses = [await limits_status(server, f"10.0.0.{number}") for number in range(8)]
        assert statuses == [200] * 3 + [429] * 5
        server.stop()
        server.env["VIDEAU_TRUSTED_PROXIES"] = "127.0.0.0/8"
        server.start()
        assert [await limits_status(server, f"10.0.1.{number}") for number in range(8)] == [200] * 8
        forged = [await limits_status(server, f"10.9.9.{number}, 10.0.2.1") for number in range(8)]
        assert forged == [200] * 3 + [429] * 5
        async with AsyncExitStack() as stack:  # and connections are the proxy's to count
            for _ in range(8):
                await stack.enter_async_context(opened(server, None))
    finally:
        server.kill()
    assert server.complaints == ""


async def limits_status(server: Server, forwarded: str) -> int:
    head = f"GET /limits HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-forwarded-for: {forwarded}\r\n\r\n"
    return int((await exchanged(server, head.encode())).split()[1])


async def test_what_follows_a_body_is_no_header(tmp_path: Path) -> None:
    """A proxy that passes trailers on has not looked at them (RFC 9110, 6.5.1)."""
    server = Server(tmp_path, VIDEAU_RATE_ADDRESS="3/30000", VIDEAU_TRUSTED_PROXIES="127.0.0.1")
    server.start()

    async def status(number: int) -> int:
        head = "GET /limits HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-forwarded-for: 203.0.113.9\r\n"
        trailers = f"x-forwarded-for: 198.51.100.{number}\r\nauthorization: Bearer x\r\n"
        chunked = f"transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n{trailers}\r\n"
        return int((await exchanged(server, (head + chunked).encode())).split()[1])

    try:
        assert [await status(number) for number in range(5)] == [200] * 3 + [429] * 2
    finally:
        server.kill()


async def test_a_stream_ends_with_its_connection_whatever_waits_behind_it(own_server: Server) -> None:
    """Who hangs up is gone, also if another request was sent on the same line meanwhile."""
    ann, bob = await register(own_server.url, "Ann"), await register(own_server.url, "Bob")
    match_id = await ann.create("{length: 1}")
    before = await tasks(own_server)
    ask = f"GET /matches/{match_id}/events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n"
    writers = []
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(own_server.base.rsplit(":", 1)[1]))
        writers.append(writer)
        writer.write(ask.encode())
        await reader.readuntil(b"data: ")
        writer.write(b"GET /keys HTTP/1.1\r\nhost: x\r\n\r\n")
    assert await tasks(own_server) >= before + 20
    for writer in writers:
        writer.close()
    await bob.happens("joinMatch", f'matchId: "{match_id}"')  # what is written to them tells that they are gone
    await play_out(random.Random(1), match_id, ann, bob, turns=2)
    await bob.close()
    await ann.close()
    async with asyncio.timeout(10):
        while await tasks(own_server) > before + 5:  # one or two are those of play
            await asyncio.sleep(0.05)


async def tasks(server: Server) -> int:
    async with httpx2.AsyncClient(base_url=server.base, verify=False) as http:
        found = re.search(r"^videau_tasks (\d+)", (await http.get("/metrics")).text, re.MULTILINE)
        assert found
        return int(found[1])


async def test_what_nobody_can_read_gets_not_into_the_log(own_server: Server) -> None:
    """Anybody could fill it: bytes that are no HTTP, and a websocket's text that is no UTF-8."""
    assert (await exchanged(own_server, b"\x00\x01\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    frame = b"\x81\x82\x00\x00\x00\x00\xff\xfe"
    answer = await exchanged(own_server, handshake() + frame)
    if b"\x03\xef" not in answer:  # 1007; bytes behind a handshake may be lost, so the frame comes by itself too
        reader, writer = await asyncio.open_connection("127.0.0.1", int(own_server.base.rsplit(":", 1)[1]))
        writer.write(handshake())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frame)
        assert b"\x03\xef" in await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert own_server.stop() == ""


async def test_no_redirection_leads_to_a_host_that_a_request_names(own_server: Server) -> None:
    answer = await exchanged(own_server, b"GET /keys/ HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"evil" not in answer


def handshake(**headers: bytes) -> bytes:
    """What opens a websocket, with headers of whatever bytes."""
    given = {
        "host": b"127.0.0.1",
        "upgrade": b"websocket",
        "connection": b"upgrade",
        "sec-websocket-key": b"dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": b"13",
        "sec-websocket-protocol": b"graphql-transport-ws",
        **headers,
    }
    lines = [b"GET /graphql HTTP/1.1", *(name.encode() + b": " + value for name, value in given.items())]
    return b"\r\n".join([*lines, b"", b""])


def opened(server: Server, origin: str | None, **more: Any) -> connect:
    """A websocket as a page of that origin opens it; None for a program."""
    url = server.url.replace("http", "ws", 1)
    given = {"compression": None, **more}
    return connect(url, subprotocols=["graphql-transport-ws"], origin=origin, proxy=None, **given)  # type: ignore[arg-type]


async def exchanged(server: Server, *sent: bytes, patience: float = 10) -> bytes:
    """All that a server answers to these bytes until it hangs up or has sent an answer without a body after it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base.rsplit(":", 1)[1]))
    answer = b""
    try:
        async with asyncio.timeout(patience):
            for part in sent:
                writer.write(part)
                await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer)
            answer += await reader.readexactly(int(length[1])) if length else b""
    except (ConnectionError, EOFError):
        pass
    finally:
        writer.transport.abort()
    return answer
