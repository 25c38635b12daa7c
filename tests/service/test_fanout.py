"""One match to many websockets: identical subscriptions share an execution, and nobody can tell; the slow cost little.

The servers run in the test's own event loop, so that what they keep can be looked at; the connections are real.
"""

import asyncio
import gc
import json
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest
import uvicorn
import uvloop
from starlette.applications import Starlette
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.server import ServerProtocol

from domain.board import Color
from domain.commands import Command, Move
from domain.match import Match, ToPlay
from domain.plays import legal_plays
from infra.log import Recorded
from infra.settings import Settings
from infra.store import SqlStore
from service import audience, limits, windows, wire
from service.app import create_app, create_server
from service.audience import PAYLOAD_BYTES, Audiences, Watcher
from service.execution import Executor
from service.table import Request, Table, Throw
from service.windows import STEPS
from service.wire import BoundedWebSocket
from tests.client import Client, play_out, register
from tests.played import Script, script

SOON = 20
"""Seconds within which whatever comes at all has come."""

WATCH = "subscription($id: ID!, $after: Int! = 0) { matchEvents(matchId: $id, after: $after) { seq } }"
BOARDS = " ".join(f"b{n}: board {{ perspective points bar off opponentBar opponentOff }}" for n in range(25))
BIG = f"""subscription($id: ID!, $after: Int! = 0) {{ matchEvents(matchId: $id, after: $after) {{
  seq match {{ {BOARDS} }} }} }}"""
"""Four kilobytes an event."""


class Running(NamedTuple):
    """A server and what it keeps."""

    url: str
    app: Starlette
    server: uvicorn.Server

    @property
    def table(self) -> Table:
        table: Table = self.app.state.table
        return table

    @property
    def audiences(self) -> Audiences:
        audiences: Audiences = self.app.state.audiences
        return audiences

    @property
    def sockets(self) -> list[BoundedWebSocket]:
        """The websockets that it has open."""
        return [each for each in self.server.server_state.connections if isinstance(each, BoundedWebSocket)]


@asynccontextmanager
async def serving(folder: Path, app: Starlette | None = None, **config: Any) -> AsyncIterator[Running]:
    """A server over the database in a folder; given the `app` of another server, one more over the same app."""
    own = app is None
    app = app or create_app(Settings(database_url=f"sqlite:///{folder / 'videau.db'}"))
    server = create_server(app)
    for name, value in config.items():
        setattr(server.config, name, value)
    if not own:
        server.config.lifespan = "off"
    bound = socket.create_server(("127.0.0.1", 0), backlog=1_000)
    task = asyncio.create_task(server.serve([bound]))
    await until(lambda: server.started)
    try:
        yield Running(f"http://127.0.0.1:{bound.getsockname()[1]}/graphql", app, server)
    finally:
        server.should_exit = True
        await task


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with serving(tmp_path) as running:
        yield running


def watchers(running: Running) -> list[Watcher]:
    """All that audiences serve."""
    return [watcher for each in running.audiences._audiences.values() for watcher in each._watchers]


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON):
        while not happened():
            await asyncio.sleep(0.005)


class Players(NamedTuple):
    """A match and who plays it."""

    match_id: str
    white: Client
    black: Client

    async def play(self, turns: int, seed: int = 1) -> None:
        await play_out(random.Random(seed), self.match_id, self.white, self.black, turns=turns)

    async def give_up(self) -> None:
        if (await self.white.match(self.match_id))["phase"] != "OVER":
            await self.white.happens("resign", f'matchId: "{self.match_id}" stake: MATCH')

    @property
    def join(self) -> Coroutine[Any, Any, dict[str, Any]]:
        return self.black.happens("joinMatch", f'matchId: "{self.match_id}"')


@asynccontextmanager
async def players(url: str, settings: str = "{length: 3}") -> AsyncIterator[Players]:
    """Two players, and the match that one of them has created."""
    white, black = await register(url, "Ann"), await register(url, "Bob")
    async with aclosing_all(white, black):
        yield Players(await white.create(settings), white, black)


@asynccontextmanager
async def aclosing_all(*clients: Client) -> AsyncIterator[None]:
    yield
    for client in clients:
        await client.close()


@asynccontextmanager
async def subscriber(
    url: str, token: str | None = None, receive_buffer: int | None = None
) -> AsyncIterator[ClientConnection]:
    """A websocket after connection_ack, whose kernel buffer may be small."""
    how: dict[str, Any] = {"ping_interval": None, "max_queue": 4, "close_timeout": 0.2}
    if receive_buffer:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.setblocking(False)
        host, port = re.findall(r"//(.*):(\d+)/", url)[0]
        await asyncio.get_running_loop().sock_connect(plain, (host, int(port)))
        how["sock"] = plain
    async with connect(url.replace("http", "ws", 1), subprotocols=["graphql-transport-ws"], **how) as opened:  # type: ignore[list-item]
        payload = {"authorization": f"Bearer {token}"} if token else {}
        await opened.send(json.dumps({"type": "connection_init", "payload": payload}))
        assert json.loads(await opened.recv()) == {"type": "connection_ack"}
        yield opened


async def subscribe(
    opened: ClientConnection, query: str, variables: dict[str, Any], id_: str = "1", name: str | None = None
) -> None:
    payload = {"query": query, "variables": variables, "operationName": name}
    await opened.send(json.dumps({"id": id_, "type": "subscribe", "payload": payload}))


async def each_until_complete(opened: ClientConnection) -> AsyncIterator[str]:
    """The texts that come before the operation is complete."""
    async with asyncio.timeout(SOON):
        async for text in opened:
            assert isinstance(text, str)
            if json.loads(text)["type"] == "complete":
                return
            yield text


async def seqs(opened: ClientConnection, last: int | None = None, pace: float = 0) -> list[int]:
    """The numbers of the events that come, until that number or the end."""
    found: list[int] = []
    async with asyncio.timeout(SOON):
        async for text in opened:
            message = json.loads(text)
            if message["type"] == "complete":
                break
            assert message["type"] == "next", message
            assert "errors" not in message["payload"], message
            found.append(message["payload"]["data"]["matchEvents"]["seq"])
            await asyncio.sleep(pace)
            if found[-1] == last:
                break
    return found


# nobody can tell

START = "subscription Live($id: ID!, $after: Int! = 0"
EVENTS = "matchEvents(matchId: $id, after: $after)"
MORE = """seq at kind hash __typename ... on Moved { by play notation } ... on Joined { playerId color }
match { version viewerColor allowedActions phase toAct dice board { perspective points bar off } xgid }"""
SEATS = """fragment E on Event { n: seq kind } fragment M on Match { white { ...S } black { ...S } cube { owner } }
fragment S on Seat { color score player { id name } checkers pips }"""
LOG = "events(first: 2) { edges { cursor node { seq kind } } pageInfo { hasNextPage } }"

DOCUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a board": (f"{START}) {{ {EVENTS} {{ {MORE} }} }}", {}),
    "fragments, aliases, names of players": (
        f"{START}) {{ it: {EVENTS} {{ ...E m: match {{ ...M }} }} }} {SEATS}", {"name": "Live"},
    ),
    "a literal match": ('subscription { matchEvents(matchId: "MATCH") { seq match { legalPlays { notation } } } }', {}),
    "a literal start": ("subscription($id: ID!) { matchEvents(after: 2, matchId: $id) { seq match { version } } }", {}),
    "errors in each event": (f"{START}) {{ {EVENTS} {{ seq match {{ destinations(played: [[1]]) {{ to }} }} }} }}", {}),
    "after in two places": (
        f"{START}) {{ {EVENTS} {{ seq match {{ events(first: $after) {{ edges {{ cursor }} }} }} }} }}", {},
    ),
    "variables deep inside": (
        f"{START}, $c: Color, $deep: Boolean!) {{ {EVENTS} {{"
        " seq match @include(if: $deep) { board(perspective: $c) { points } allowedActions(color: $c) } } }",
        {"c": "BLACK", "deep": True},
    ),
    "what is read from the store": (f"{START}) {{ {EVENTS} {{ seq match {{ createdAt {LOG} }} }} }}", {}),
    "a directive on the field": (f"{START}) {{ {EVENTS} @include(if: true) {{ seq }} }}", {}),
    "the field in a fragment": (f"{START}) {{ ...F }} fragment F on Subscription {{ {EVENTS} {{ seq }} }}", {}),
    "several operations": (f"{START}) {{ {EVENTS} {{ seq }} }} query B {{ me {{ id }} }}", {"name": "Live"}),
    "an operation that is not there": (WATCH, {"name": "Other"}),
    "a number too large": (WATCH, {"after": 2**31}),
    "a start that is a text": (WATCH, {"after": "2"}),
    "a start that is null": (WATCH, {"after": None}),
    "a start beyond the match": (WATCH, {"after": 10_000}),
    "a missing variable": (f"{START}, $x: Int!) {{ matchEvents(matchId: $id, after: $x) {{ seq }} }}", {}),
    "a wrong variable": (
        f"{START}, $c: Color) {{ {EVENTS} {{ match {{ allowedActions(color: $c) }} }} }}", {"c": "RED"},
    ),
    "no such match": (WATCH, {"id": "nothing"}),
    "no such field": (f"{START}) {{ {EVENTS} {{ nope }} }}", {}),
    "no such argument": ("subscription($id: ID!) { matchEvents(matchId: $id, nope: 1) { seq } }", {}),
    "too many aliases": (f"{START}) {{ {EVENTS} {{ {' '.join(f'a{n}: seq' for n in range(50))} }} }}", {}),
    "no GraphQL": ("subscription {", {}),
}  # fmt: skip


async def test_what_an_audience_gets_is_what_plain_execution_gives(tmp_path: Path) -> None:
    """Byte for byte, for all documents, for each who can see something else, from whatever number on.

    The same app is served with and without our wire: without it there are no audiences.
    """
    got: dict[tuple[str, ...], list[str]] = {}

    async def take(kind: str, who: str, opened: ClientConnection) -> None:
        async for text in opened:
            assert isinstance(text, str)
            got.setdefault((kind, who, json.loads(text)["id"]), []).append(text)

    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(serving(tmp_path))
        plain = await stack.enter_async_context(serving(tmp_path, running.app, ws="websockets-sansio"))
        game = await stack.enter_async_context(players(running.url, "{length: 1}"))
        cleo = await register(running.url, "Cleo")
        await stack.enter_async_context(aclosing_all(cleo))
        viewers = {"white": game.white.token, "black": game.black.token, "cleo": cleo.token, "nobody": None}
        opened = {}
        for kind, url in (("shared", running.url), ("plain", plain.url)):
            for who, token in viewers.items():
                for half in ("first", "second"):
                    socket_ = await stack.enter_async_context(subscriber(url, token))
                    opened[kind, who, half] = socket_
        taking = [asyncio.create_task(take(kind, who, each)) for (kind, who, _), each in opened.items()]

        async def all_subscribe(after: int, half: str) -> None:
            for (_, _, which), each in opened.items():
                for name, (query, more) in DOCUMENTS.items():
                    if which == half:
                        variables = {"id": game.match_id, "after": after} | more
                        query = query.replace("MATCH", game.match_id)
                        await subscribe(each, query, variables, f"{name} {after}", variables.pop("name", None))

        for after in (0, 2):
            await all_subscribe(after, "first")
        await until(lambda: len(running.audiences) > len(DOCUMENTS))
        await game.join
        await game.play(4)
        for after in (1, 5):
            await all_subscribe(after, "second")
        await game.play(6, seed=2)
        assert len(running.audiences) > 10
        await game.give_up()
        last = (await game.white.match(game.match_id))["version"]
        ends = len(opened) * len(DOCUMENTS) * 2
        await until(lambda: sum('"type":"next"' not in texts[-1] for texts in got.values()) >= ends)
        for task in taking:
            task.cancel()
    assert len(got) == ends
    for (kind, who, id_), texts in got.items():
        if kind == "shared":
            assert texts == got["plain", who, id_], f"{who}: {id_}"
    numbers = [
        json.loads(text)["payload"]["data"]["matchEvents"]["seq"] for text in got["shared", "white", "a board 2"][:-1]
    ]
    assert numbers == list(range(3, last + 1))
    colors = {
        who: {
            json.loads(text)["payload"]["data"]["matchEvents"]["match"]["viewerColor"]
            for text in got["shared", who, "a board 5"][:-1]
        }
        for who in viewers
    }
    assert colors == {"white": {"WHITE"}, "black": {"BLACK"}, "cleo": {None}, "nobody": {None}}
    await until(lambda: not running.audiences and not running.table.windows)


# every event, once and in order, at everybody's own pace


class Published(NamedTuple):
    """A match that is appended in the server's process bit by bit, as its commands would do it."""

    running: Running
    script: Script
    done: list[int]

    @property
    def match_id(self) -> str:
        return self.script.match_id

    @property
    def version(self) -> int:
        return self.script.appends[len(self.done) - 1][0].recorded[-1].seq

    async def publish(self, appends: int = 1) -> None:
        for append, steps in self.script.appends[len(self.done) : len(self.done) + appends]:
            await self.running.table._store.append(append)
            self.done.append(steps[-1].recorded.seq)
            self.running.table.windows.extend(self.match_id, steps)


async def published(running: Running, name: str = "real_031_galaxy7pt.mat") -> Published:
    found = Published(running, script(name, random.Random(name)), [])
    await found.publish()
    return found


async def test_a_hundred_watch_a_match_from_wherever_they_like(running: Running) -> None:
    """Each gets every event after its number, once and in order, and all of them are one audience."""
    match = await published(running)
    chance, watching = random.Random(4), []
    async with AsyncExitStack() as stack:
        await match.publish(40)
        for n in range(100):
            opened = await stack.enter_async_context(subscriber(running.url))
            after = chance.randint(0, match.version)
            await subscribe(opened, WATCH, {"id": match.match_id, "after": after}, "1" if n % 2 else f"watcher {n}")
            watching.append((after, asyncio.create_task(seqs(opened))))
            if n % 2:
                await match.publish()
        assert len(running.audiences) == len(running.table.windows) == 1
        await match.publish(1_000)
        for after, watched in watching:
            assert await watched == list(range(after + 1, match.script.events + 1))
    await until(lambda: not running.audiences and not running.table.windows)


async def test_ids_are_each_sockets_own_and_free_again(running: Running) -> None:
    """Also when several operations of one socket are in one audience, and one of them goes."""
    async with players(running.url) as game, subscriber(running.url) as opened:
        for id_ in ("a", "b", 'c"\\\u00e9'):
            await subscribe(opened, WATCH, {"id": game.match_id, "after": 2}, id_)
        await until(lambda: len(watchers(running)) == 3)
        await opened.send(json.dumps({"id": "b", "type": "complete"}))
        await subscribe(opened, WATCH, {"id": game.match_id, "after": 1}, "d")
        assert json.loads(await opened.recv())["id"] == "d"
        await game.join
        heard = [json.loads(await opened.recv()) for _ in range(3)]
        assert {message["id"] for message in heard} == {"a", 'c"\\\u00e9', "d"}
        assert {message["payload"]["data"]["matchEvents"]["seq"] for message in heard} == {3}
        await subscribe(opened, WATCH, {"id": game.match_id}, "a")
        assert (await closed(opened))[0] == 4409


async def closed(opened: ClientConnection) -> tuple[int, str]:
    """The code and reason with which the server closes, whatever comes before."""
    async with asyncio.timeout(SOON):
        with suppress(ConnectionClosed):
            async for _ in opened:
                pass
    return opened.close_code or 0, opened.close_reason or ""


LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def run(loop: Callable[[], asyncio.AbstractEventLoop], scenario: Coroutine[Any, Any, None]) -> None:
    """On an event loop of this kind, whose transports differ."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario)


@LOOPS
def test_who_reads_slowly_gets_everything_in_order(
    loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """A watcher that stops reading is left alone at its place, keeps nobody waiting, and goes on from there."""

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            running = await stack.enter_async_context(serving(tmp_path))
            match = await published(running)
            slow = await stack.enter_async_context(subscriber(running.url, receive_buffer=4096))
            [wire_of_slow] = running.sockets
            quick = await stack.enter_async_context(subscriber(running.url))
            for opened in (slow, quick):
                await subscribe(opened, BIG, {"id": match.match_id})
            quick_got = asyncio.create_task(seqs(quick))
            await until(lambda: len(watchers(running)) == 2)
            slow.transport.pause_reading()
            while wire_of_slow.ready:
                await match.publish()
                await asyncio.sleep(0.001)
            await match.publish(STEPS)
            [only] = running.audiences._audiences.values()
            await until(lambda: only.newest == match.version)
            assert sum(map(len, only._payloads)) <= PAYLOAD_BYTES
            [place] = [watcher.cursor for watcher in watchers(running) if watcher.wire is wire_of_slow]
            assert place < match.version - len(only._payloads), "it is behind what the audience has"
            assert wire_of_slow.transport.get_write_buffer_size() < 65_536 + 10_000, "nothing more is written"
            slow_got = asyncio.create_task(seqs(slow, pace=0.003))
            slow.transport.resume_reading()
            await until(lambda: all(watcher.cursor == match.version for watcher in watchers(running)))
            await match.publish(1_000)
            assert await quick_got == await slow_got == list(range(1, match.version + 1))

    run(loop, scenario())


@LOOPS
def test_who_does_not_read_at_all_is_closed_with_a_code_and_keeps_nobody_waiting(
    loop: Callable[[], asyncio.AbstractEventLoop],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It learns why if it reads after all; else it is cut off. Its memory is bounded until then, and then free."""
    monkeypatch.setattr(limits, "UNREAD_SECONDS", 1.5)
    monkeypatch.setattr(wire, "GRACE_SECONDS", 0.5)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            running = await stack.enter_async_context(serving(tmp_path, ws_ping_interval=None))
            match = await published(running)
            stalled = [await stack.enter_async_context(subscriber(running.url, receive_buffer=4096)) for _ in range(3)]
            wires = running.sockets
            reader = await stack.enter_async_context(subscriber(running.url))
            for opened in (*stalled, reader):
                await subscribe(opened, BIG, {"id": match.match_id})
            await until(lambda: len(watchers(running)) == 4)
            for opened in stalled:
                opened.transport.pause_reading()
                plain = BIG.replace("after: $after)", "after: $after) @include(if: true)")
                await subscribe(opened, plain, {"id": match.match_id}, "executed plainly")
            while any(each.ready for each in wires):
                await match.publish()
                await seqs(reader, match.version)
            assert not any(each.close_sent for each in wires), "nobody has waited for them to be given up"
            assert all(each.transport.get_write_buffer_size() < 65_536 + 10_000 for each in wires)
            for opened in stalled:
                await opened.send('{"type":"ping"}')
            await until(lambda: all(each.close_sent for each in wires))
            stalled[0].transport.resume_reading()
            code, reason = await closed(stalled[0])
            assert (code, reason.split(":")[0]) == (wire.TOO_SLOW, "TOO_SLOW")
            await until(lambda: len(running.sockets) == len(watchers(running)) == 1)
            await match.publish(1)
            await seqs(reader, match.version)

    run(loop, scenario())
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


@LOOPS
def test_a_peer_that_vanished_is_cut_off_and_leaves_nothing(
    loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers no ping and takes no byte of what waits for it: its connection must not stay half open."""
    monkeypatch.setattr(wire, "GRACE_SECONDS", 0.2)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            running = await stack.enter_async_context(serving(tmp_path, ws_ping_interval=None))
            match = await published(running)
            for waiting in (True, False):
                gone = await stack.enter_async_context(subscriber(running.url, receive_buffer=4096))
                [wire_of_gone] = running.sockets
                await subscribe(gone, BIG, {"id": match.match_id, "after": match.version})
                await until(lambda: len(watchers(running)) == 1)
                gone.transport.pause_reading()
                while waiting and not wire_of_gone.transport.get_write_buffer_size():
                    await match.publish()
                    await until(lambda: watchers(running)[0].cursor == match.version)
                assert wire_of_gone.ready
                wire_of_gone.ping_interval = wire_of_gone.ping_timeout = 0.1
                wire_of_gone.start_keepalive()
                await until(lambda: not running.sockets and not running.audiences and not running.table.windows)

    run(loop, scenario())


async def test_a_stream_of_server_sent_events_that_is_not_read_is_cut_off(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UNREAD_SECONDS", 0.3)
    match = await published(running)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)
    loop = asyncio.get_running_loop()
    host, port = re.findall(r"//(.*):(\d+)/", running.url)[0]
    with plain:
        await loop.sock_connect(plain, (host, int(port)))
        head = f"GET /matches/{match.match_id}/events HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n\r\n"
        await loop.sock_sendall(plain, head.encode())
        await until(lambda: len(running.table.windows) == 1)
        [connection] = running.server.server_state.connections
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection.transport.set_write_buffer_limits(high=10_000)  # the match has no more than 60,000 bytes
        await match.publish(1_000)
        await until(lambda: not running.server.server_state.connections and not running.table.windows)


@LOOPS
def test_what_is_written_as_a_connection_is_lost_is_nothing_to_complain_about(
    loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    complaints: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with serving(tmp_path) as running:
            host, port = re.findall(r"//(.*):(\d+)/", running.url)[0]
            connections = running.server.server_state.connections
            with socket.create_connection((host, int(port))) as peer:
                await until(lambda: connections)
                [connection] = connections
                lost = connection.connection_lost

                def written_to(error: Exception | None) -> None:
                    connection.transport.write(b"too late")
                    lost(error)

                connection.connection_lost = written_to  # type: ignore[method-assign]
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it resets
            await until(lambda: not connections)

    run(loop, scenario())
    assert complaints == []


async def test_an_address_has_so_many_different_subscriptions_to_a_match_and_any_number_alike(running: Running) -> None:
    """Each of its own is executed for each event: also one that cannot be shared, such as one in a fragment."""
    running.table.apart.most = 2
    match = await published(running)
    lone = "subscription($id: ID!) { ...all } fragment all on Subscription { matchEvents(matchId: $id) { seq } }"
    async with subscriber(running.url) as client:
        for id_, query in enumerate((WATCH, lone, WATCH, BIG, lone)):
            await subscribe(client, query, {"id": match.match_id}, str(id_))
            while (message := json.loads(await client.recv()))["id"] != str(id_):
                pass
            said = [error["extensions"]["code"] for error in message["payload"].get("errors", ())]
            assert said == ([] if id_ < 3 else ["TOO_MANY_SUBSCRIPTIONS"])
        assert len(running.table.apart) == 2
    await until(lambda: not running.table.apart)


async def test_who_leaves_while_others_are_written_to_gets_nothing_more(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience, "CHUNK", 1)
    match = await published(running)
    async with AsyncExitStack() as stack:
        for _ in range(3):
            opened = await stack.enter_async_context(subscriber(running.url))
            await subscribe(opened, WATCH, {"id": match.match_id, "after": match.version})
        await until(lambda: len(watchers(running)) == 3 and all(not watcher.task for watcher in watchers(running)))
        first, _, last = watchers(running)
        before = match.version
        await match.publish()
        while first.cursor == before:
            await asyncio.sleep(0)
        assert last.cursor == before
        last.leave()
        await until(lambda: all(watcher.cursor == match.version for watcher in watchers(running)))
        assert last.cursor == before


async def test_who_could_have_taken_a_seat_joins_the_others_when_the_seats_are_taken(running: Running) -> None:
    """Until then each may be about to be a player, and is an audience of its own; the one who sits down stays one."""
    async with AsyncExitStack() as stack:
        game = await stack.enter_async_context(players(running.url))
        guests = [await register(running.url, f"guest {n}") for n in range(5)]
        await stack.enter_async_context(aclosing_all(*guests))
        tokens = [None, None, game.white.token, game.black.token, *[guest.token for guest in guests]]
        opened = [await stack.enter_async_context(subscriber(running.url, token)) for token in tokens]
        fields = WATCH.replace("{ seq }", "{ seq match { viewerColor } }")
        for each in opened:
            await subscribe(each, fields, {"id": game.match_id, "after": 2})
        await until(lambda: len(running.audiences) == 8)
        await game.join
        await until(lambda: len(running.audiences) == 3)
        await game.play(6)
        await game.give_up()
        last = (await game.white.match(game.match_id))["version"]
        for each, color in zip(opened, [None, None, "WHITE", "BLACK", *[None] * 5], strict=True):
            seen = [json.loads(text) async for text in each_until_complete(each)]
            events = [message["payload"]["data"]["matchEvents"] for message in seen]
            assert [event["seq"] for event in events] == list(range(3, last + 1))
            assert {event["match"]["viewerColor"] for event in events} == {color}
    await until(lambda: not running.audiences)


# what it costs


def chosen(by: Color, throw: Throw, match: Match) -> Command:
    """Something that can be done now."""
    if isinstance(match.phase, ToPlay):
        return Move(by=by, play=legal_plays(match.board, by, match.phase.dice)[0])
    return throw(match, by, "")


async def test_another_processs_event_is_read_once_and_an_own_one_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes over one database, of which one rings the other; fifty sockets watch."""
    monkeypatch.setattr(windows, "POLL", 60)
    reads: list[SqlStore] = []
    plain = SqlStore.read

    async def read(self: SqlStore, match_id: str, after: int = 0, until: int | None = None) -> list[Recorded]:
        reads.append(self)
        return await plain(self, match_id, after, until)

    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(serving(tmp_path))
        other = await stack.enter_async_context(serving(tmp_path))
        game = await stack.enter_async_context(players(running.url))
        await game.join
        version = (await game.white.match(game.match_id))["version"]
        opened = [await stack.enter_async_context(subscriber(running.url)) for _ in range(50)]
        for each in opened:
            await subscribe(each, WATCH, {"id": game.match_id, "after": version})
        await until(lambda: len(watchers(running)) == len(opened) and running.table.windows.newest(game.match_id))
        monkeypatch.setattr(SqlStore, "read", read)
        for n in range(6):
            here = n % 2 == 0
            place = running if here else other
            head = await place.table.head(game.match_id, game.white.player_id)
            reads.clear()
            request = Request(player=head.match.player(head.match.turn or Color.WHITE) or "")
            done = await place.table.act(game.match_id, request, chosen)
            if not here:
                running.table.windows.ring(game.match_id, done.head.version)
            for each in opened:
                await seqs(each, done.head.version)
            assert reads.count(running.table._store) == (0 if here else 1)


async def test_coming_and_going_leaves_nothing_behind(running: Running) -> None:
    match = await published(running)
    await match.publish(5)
    before = len(asyncio.all_tasks())
    for turn in range(3):
        async with AsyncExitStack() as visitors:
            for n in range(10):
                opened = await visitors.enter_async_context(subscriber(running.url))
                for id_ in ("a", "b", "c"):
                    await subscribe(opened, WATCH, {"id": match.match_id, "after": n}, id_)
                    if (n + turn) % 2:
                        await opened.send(json.dumps({"id": id_, "type": "complete"}))
                        await subscribe(opened, BIG, {"id": match.match_id, "after": match.version}, id_)
                if n % 3 == 0:
                    opened.transport.abort()
            await match.publish(1)
        await until(lambda: not running.audiences and not running.table.windows and not running.sockets)
    await until(lambda: len(asyncio.all_tasks()) <= before)
    assert not running.table._bus._matches  # type: ignore[attr-defined]


async def test_sockets_and_commands_are_gone_when_they_are_over_and_not_with_the_next_collection(
    running: Running,
) -> None:
    """They are in no cycles: collections come seldom here, and would find so many only after a long time."""
    kinds = (BoundedWebSocket, ServerProtocol, wire.BoundedHttp, audience.Audience, Executor, FunctionType)

    def kept() -> Counter[str]:
        found = (each for each in gc.get_objects() if issubclass(type(each), kinds))
        ours = (each for each in found if str(each.__module__).startswith(("service.", "websockets.server")))
        return Counter(getattr(each, "__qualname__", type(each).__name__) for each in ours)

    async with players(running.url) as played:
        await played.join

        async def use() -> None:
            for number in range(10):
                async with subscriber(running.url) as client:
                    await subscribe(client, WATCH, {"id": played.match_id})
                    await client.recv()
                    if number % 3 == 1:
                        client.transport.abort()
                    elif number % 3 == 2:
                        client.transport.write(b"\xff" * 20)  # no frame
                        await client.wait_closed()
            await played.play(4)
            await until(lambda: not running.sockets)

        await use()  # caches are filled by now
        gc.collect()
        gc.disable()
        try:
            before = kept()
            await use()
            await until(lambda: kept() == before)
        finally:
            gc.enable()


async def test_a_subscription_keeps_nothing_of_the_events_that_were(running: Running) -> None:
    """Else who watches for long, as a lobby, would cost ever more."""

    def kept() -> int:
        gc.collect()
        return sum(type(each).__module__.startswith("graphql.execution") for each in gc.get_objects())

    async with players(running.url, "{length: 25}") as played, subscriber(running.url) as client:
        await played.join
        await subscribe(client, BIG, {"id": played.match_id, "after": 2})
        numbers = []
        for turns in (5, 25):
            await played.play(turns)
            version = (await played.white.match(played.match_id))["version"]
            await seqs(client, version)
            numbers.append(kept())
    assert numbers[0] == numbers[1] > 0
