"""Peers that send slowly, nothing, or without end: each loses its connection in time, and nobody else notices."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import psutil
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tests.client import register
from tests.server import Server
from tests.service.test_safe import handshake

HEAD = b"POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
ASKED = b'{"query": "{ limits { name } }"}'
WHOLE = HEAD + b"content-length: %d\r\n\r\n" % len(ASKED) + ASKED
PATIENCE = 20


class Hurried(Server):
    """A server whose limits of time are so short that tests can see them pass."""

    program = (
        "-c",
        "from service import limits\n"
        "limits.HEADER_SECONDS, limits.REQUEST_SECONDS, limits.IDLE_SECONDS = 1, 2, 2\n"
        "from service.cli import main\nmain()",
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Hurried(tmp_path_factory.mktemp("server"))
    running.start()
    yield running
    running.stop()
    assert not re.sub("WARNING:  Invalid HTTP request received.\n", "", running.complaints)


@asynccontextmanager
async def line(
    server: Server, local: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    port = int(server.base.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(local, 0))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def until_cut(server: Server, start: bytes, drip: bytes = b"") -> bytes:
    """What a peer is told that sends a start, and then a bit ten times a second, until it is cut off."""
    async with line(server) as (reader, writer), asyncio.timeout(PATIENCE):
        writer.write(start)
        told = asyncio.create_task(reader.read())
        while not told.done():
            if drip:
                with suppress(ConnectionError):
                    writer.write(drip)
                    await writer.drain()
            await asyncio.wait([told], timeout=0.1)
        with suppress(ConnectionError):
            return told.result()
    return b""


def headers_and_body(answer: bytes) -> tuple[bytes, dict[str, object]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, json.loads(body)


SLOW = {
    "headers that never end": (HEAD, b"x: y\r\n"),
    "a header that never ends": (HEAD + b"x: ", b"y"),
    "an address that never ends": (b"GET /", b"a"),
    "a request that stops": (b"GET", b""),
    "a body that comes in drops": (HEAD + b"content-length: 90000\r\n\r\n{", b" "),
    "a body in endless chunks": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a body that stops": (HEAD + b"content-length: 90000\r\n\r\n{", b""),
    "a match file in drops": (b"POST /matches/import HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n%s\r\n", b" "),
}
IDLE = {"nothing at all": (b"", b""), "an empty line": (b"\r\n", b""), "one request and no more": (WHOLE, b"")}


async def test_who_sends_slowly_or_nothing_is_cut_off_and_nobody_else_notices(server: Server) -> None:
    ann = await register(server.url, "Ann")
    match_id = await ann.create("{length: 1}")
    stream = f"GET /matches/{match_id}/events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n".encode()
    async with line(server) as (reader, writer):  # opened first, and open when all others have been cut off
        writer.write(stream)
        await reader.readuntil(b'"seq":1')
        socket = await ann.open_socket()
        allowed = f"authorization: Bearer {ann.token}\r\n".encode()
        slow = [(start.replace(b"%s", allowed), drip) for start, drip in SLOW.values()]
        ends = await asyncio.gather(*(until_cut(server, *each) for each in [*slow, *IDLE.values()]))
        for name, end in zip(SLOW, ends[: len(SLOW)], strict=True):
            head, body = headers_and_body(end)
            assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n"), name
            assert b"x-content-type-options: nosniff" in head
            assert body["code"] == "TOO_SLOW", name
        nothing, empty, one = ends[len(SLOW) :]
        assert (nothing, empty) == (b"", b"")
        assert one.startswith(b"HTTP/1.1 200")

        query = f'subscription {{ matchEvents(matchId: "{match_id}") {{ seq }} }}'
        await socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": {"query": query}}))
        assert json.loads(await socket.recv())["payload"]["data"] == {"matchEvents": {"seq": 1}}
        await ann.happens("cancelMatch", f'matchId: "{match_id}"')
        await reader.readuntil(b'"seq":2')
        await socket.close()
    await ann.close()


async def test_a_request_in_pieces_is_served(server: Server) -> None:
    async with line(server) as (reader, writer), asyncio.timeout(PATIENCE):
        for _ in range(3):
            for begin, end in pairwise((0, 10, len(HEAD) + 5, len(WHOLE) - 3, len(WHOLE))):
                writer.write(WHOLE[begin:end])
                await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200")
            found = re.search(rb"content-length: (\d+)", answer)
            assert found
            await reader.readexactly(int(found[1]))


async def test_what_is_half_sent_behind_another_request_disturbs_no_answer(server: Server) -> None:
    answer = await until_cut(server, WHOLE + WHOLE + WHOLE[:40])
    assert answer.count(b"HTTP/1.1 200") == 2
    assert answer.count(b"HTTP/1.1 408") == 1


ENDLESS = {
    "an address": (b"GET /", b"a" * 100_000),
    "empty headers": (HEAD, b"a:\r\n" * 20_000),
    "trailers": (HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x: " + b"y" * 90_000 + b"\r\n"),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_no_part_of_a_request_is_without_end(server: Server, name: str) -> None:
    start, more = ENDLESS[name]
    answer = await until_cut(server, start, more)
    assert b"HTTP/1.1 408" not in answer, "it was taken until the time was over"
    assert b"HTTP/1.1 200" not in answer


@pytest.mark.parametrize("headers", [{f"x-{n}": b"y" for n in range(200)}, {"x": b"y" * 10_000}])
async def test_a_websocket_that_cannot_be_opened_is_told_so(server: Server, headers: dict[str, bytes]) -> None:
    head, body = headers_and_body(await until_cut(server, handshake(**headers)))
    assert head.startswith(b"HTTP/1.1 400 Bad Request")
    assert body["code"] == "BAD_REQUEST"


# connections


async def test_an_address_has_so_many_connections_and_no_more(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = Server(tmp_path_factory.mktemp("server"), VIDEAU_CONNECTIONS_PER_ADDRESS="4")
    server.start()
    try:
        sockets = [await websocket(server) for _ in range(3)]
        async with line(server):
            with pytest.raises(InvalidStatus) as refused:
                await websocket(server)
            assert refused.value.response.status_code == 429
            assert json.loads(refused.value.response.body or b"")["code"] == "RATE_LIMITED"
            assert (await until_cut(server, b"")).startswith(b"HTTP/1.1 429")
            async with line(server, "127.0.0.2") as (reader, writer):
                writer.write(WHOLE)
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        for socket in sockets:
            await socket.close()
        again: list[ClientConnection] = []
        async with asyncio.timeout(PATIENCE):  # until the server, too, knows that they are closed
            while len(again) < 4:
                with suppress(InvalidStatus):
                    again.append(await websocket(server))
        with pytest.raises(InvalidStatus):
            await websocket(server)
        for socket in again:
            await socket.close()
    finally:
        assert server.stop() == ""


async def websocket(server: Server) -> ClientConnection:
    url = server.url.replace("http", "ws", 1)
    return await connect(url, subprotocols=["graphql-transport-ws"], compression=None, proxy=None)  # type: ignore[list-item]


# websockets


async def test_a_message_has_so_many_frames_and_no_more(server: Server) -> None:
    """Empty frames count in no limit of bytes, and each is kept until the last has come."""
    begun, going_on = b"\x01\x80" + bytes(4), b"\x00\x80" + bytes(4)
    for number in (1_100, 1_000_000):
        async with line(server) as (reader, writer), asyncio.timeout(PATIENCE):
            writer.write(handshake())
            await reader.readuntil(b"\r\n\r\n")
            writer.write(begun + going_on * number)
            try:
                assert int.from_bytes((await reader.read())[2:4]) == 1009
            except ConnectionError:
                assert number > 1_100  # cut off with the rest unread


async def test_pings_of_a_peer_that_reads_nothing_fill_no_memory(server: Server) -> None:
    process = psutil.Process(server.pid)
    ping = b"\x89\xfd" + bytes(4) + bytes(125)
    async with line(server) as (reader, writer):
        writer.write(handshake())
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        before = process.memory_info().rss
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(PATIENCE):
                for _ in range(200):
                    writer.write(ping * 1_000)
                    await writer.drain()
        assert process.memory_info().rss - before < 10_000_000, "26 MB of pings were answered to nobody"
