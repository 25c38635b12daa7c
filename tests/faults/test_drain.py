"""A process that is told to stop leaves in order: nothing fails, nobody misses anything, and not all go at once."""

import asyncio
import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from service import limits
from service.drain import APART, Drain
from tests.client import Client, register
from tests.faults.processes import processes
from tests.faults.proof import proven
from tests.faults.watchers import SentAway, Watcher, caught_up
from tests.server import Server

GAMES, WATCHERS = map(int, os.environ.get("ROLLING_RESTART", "20,100").split(","))
"""How many matches are played, and how many watch them: 300,1000 takes a minute."""

DRAIN_SECONDS = 4


async def test_a_rolling_restart_is_noticed_by_nothing_but_a_reconnect(tmp_path: Path, shared: dict[str, str]) -> None:
    """Each command is sent again once at most, each watcher sees the whole log, and not all come back at once."""
    env = {**shared, "VIDEAU_DRAIN_SECONDS": str(DRAIN_SECONDS)}
    async with processes(tmp_path, env) as servers, proven(servers, GAMES, pace=GAMES / 100) as crowd:
        urls = [server.base for server in servers]
        for number in range(WATCHERS - GAMES):
            at, game = number % 2, crowd.games[number % GAMES]
            crowd.watch(Watcher(game.id, urls[at:] + urls[:at], by_sse=number % 8 == 0))
        await caught_up(crowd.watchers, crowd.versions)
        for server in servers:
            here = [watcher for watcher in crowd.watchers if watcher.url == server.base and watcher.is_watching]
            going = {watcher: watcher.cuts for watcher in here}
            staying = {watcher: watcher.cuts for watcher in crowd.watchers if watcher not in going}
            begun = time.monotonic()
            await asyncio.to_thread(server.stop)
            stopped = time.monotonic()
            async with asyncio.timeout(20):
                while any(watcher.cuts == before and watcher.is_watching for watcher, before in going.items()):
                    await asyncio.sleep(0.01)
            assert [watcher.cut_by for watcher in crowd.watchers if watcher.cut_by] == []
            assert staying == {watcher: watcher.cuts for watcher in staying}
            left = sorted(watcher.sent_away[-1] for watcher in going if watcher.cuts > going[watcher])
            assert stopped - begun > 0.9 * min(DRAIN_SECONDS, APART * len(left)), "they were sent away all at once"
            assert len({pause for _, pause in left}) > len(left) / 2
            assert max(pause for _, pause in left) < limits.COME_BACK / 1_000
            await asyncio.to_thread(server.start)
            await caught_up(crowd.watchers, crowd.versions)
            back = [at + pause for at, pause in left]
            most = max(sum(each <= other < each + 0.1 for other in back) for each in back)
            assert most < len(left) / 2
            print(
                f"\n{len(left)} of {len(crowd.watchers)} watchers sent away within {left[-1][0] - left[0][0]:.1f} s, "
                f"stopped after {stopped - begun:.1f} s; they come back within {max(back) - min(back):.1f} s, "
                f"{most} in the busiest 0.1 s; {crowd.answered} commands, {sum(call.losses for call in crowd.calls)} "
                "sent again"
            )
            await crowd.more(GAMES)
    assert max(call.losses for call in crowd.calls) == 1
    assert crowd.unavailable == crowd.silences == 0


@contextmanager
def locked(server: Server) -> Iterator[None]:
    """While this lasts, the server can read its database and not write to it."""
    database = sqlite3.connect(server.database, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        database.close()


@pytest.fixture
async def ann(own_server: Server) -> Client:
    """A player; whoever opens her match has a match to watch."""
    return await register(own_server.url, "Ann")


CREATE = "mutation($key: String) { createMatch(settings: {length: 1}, idempotencyKey: $key) { __typename } }"


async def _under_way(socket: ClientConnection, query: str, **variables: Any) -> None:
    """Send an operation, and return when it has begun: one that came later has been answered."""
    for id_, payload in ("1", {"query": query, "variables": variables}), ("2", {"query": "{ __typename }"}):
        await socket.send(json.dumps({"type": "subscribe", "id": id_, "payload": payload}))
    for kind in ("next", "complete"):
        message = json.loads(await asyncio.wait_for(socket.recv(), 15))
        assert (message["id"], message["type"]) == ("2", kind)


async def test_while_it_leaves_commands_are_served_and_nobody_comes_to_watch(own_server: Server, ann: Client) -> None:
    """Commands under way are answered, on a websocket too, before it is closed."""
    match_id = await ann.create("{length: 1}")
    watcher = Watcher(match_id, [own_server.base], by_sse=True)
    watcher.start()
    await caught_up([watcher], {match_id: 2})
    socket, idle = await ann.open_socket(), await ann.open_socket()
    async with httpx2.AsyncClient(base_url=own_server.base, timeout=15, verify=False) as http:
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.headers.get("connection")) == (200, None)
        with locked(own_server):
            await _under_way(socket, CREATE, key="socket")
            posting = asyncio.create_task(ann.post(CREATE, {"key": "http"}))
            assert (await http.get("/healthz")).status_code == 200
            os.kill(own_server.pid, signal.SIGTERM)
            async with asyncio.timeout(10):
                while (ready := await http.get("/readyz")).status_code == 200:
                    pass
            assert (ready.status_code, ready.json()["code"]) == (503, "UNAVAILABLE")
            assert ready.json()["detail"] == "this process is being stopped: go to another one"
            assert ready.headers["connection"] == "close"
            assert (await http.get("/healthz")).status_code == 200
            with pytest.raises(InvalidStatus) as refused:
                await connect(own_server.url.replace("http", "ws", 1), subprotocols=["graphql-transport-ws"])
            response = refused.value.response
            assert (response.status_code, response.headers["retry-after"]) == (503, str(limits.RETRY_AFTER))
            assert json.loads(response.body)["code"] == "UNAVAILABLE"
            stream = await http.get(f"/matches/{match_id}/events", headers={"accept": "text/event-stream"})
            assert (stream.status_code, stream.json()["code"]) == (503, "UNAVAILABLE")
            assert (await ann.match(match_id, "version"))["version"] == 2
            assert await _closed(idle) < limits.COME_BACK
            await _until(lambda: watcher.sent_away)
        assert (await posting)["data"]["createMatch"]["__typename"] == "Happened"
        answer = json.loads(await socket.recv())
        assert answer["payload"]["data"]["createMatch"]["__typename"] == "Happened"
        assert json.loads(await socket.recv())["type"] == "complete"
        assert await _closed(socket) < limits.COME_BACK
    assert watcher.task is not None
    watcher.task.cancel()
    assert own_server.stop() == ""
    await ann.close()


async def test_told_twice_to_stop_it_stops_at_once(own_server: Server, ann: Client) -> None:
    socket = await ann.open_socket()
    async with httpx2.AsyncClient(base_url=own_server.base, timeout=15, verify=False) as http:
        with locked(own_server):
            await _under_way(socket, CREATE)
            os.kill(own_server.pid, signal.SIGTERM)
            async with asyncio.timeout(10):
                while (await http.get("/readyz")).status_code == 200:
                    pass
            os.kill(own_server.pid, signal.SIGTERM)
            await _until(lambda: not own_server.running)
            with pytest.raises(ConnectionClosed):
                await socket.recv()
    await ann.close()


async def test_a_stream_that_ends_since_its_process_stops_says_when_to_come_back(
    own_server: Server, ann: Client
) -> None:
    """As an EventSource sees it: another `retry`, and the end."""
    match_id = await ann.create("{length: 1}")
    watcher = Watcher(match_id, [own_server.base], by_sse=True)
    stream = watcher._sse(own_server.base)
    assert [(await anext(stream))[0] for _ in range(2)] == [1, 2]
    os.kill(own_server.pid, signal.SIGTERM)
    with pytest.raises(SentAway) as sent:
        await anext(stream)
    assert sent.value.pause < limits.COME_BACK / 1_000
    assert own_server.stop() == ""
    await ann.close()


async def test_the_last_of_many_streams_is_sent_away_too(tmp_path: Path) -> None:
    """They take all the time there is, and the last of them are due when it is over."""
    server = Server(tmp_path, VIDEAU_DRAIN_SECONDS="1")
    server.start()
    ann = await register(server.url, "Ann")
    match_id = await ann.create("{length: 1}")
    watchers = [Watcher(match_id, [server.base], by_sse=True) for _ in range(200)]
    streams = [watcher._sse(server.base) for watcher in watchers]
    await asyncio.gather(*(anext(stream) for stream in streams))
    await asyncio.gather(*(anext(stream) for stream in streams))
    begun = time.monotonic()
    os.kill(server.pid, signal.SIGTERM)
    ends = await asyncio.gather(*(anext(stream) for stream in streams), return_exceptions=True)
    assert {type(end) for end in ends} == {SentAway}
    assert time.monotonic() - begun < 4, "they were waited for"
    assert server.stop() == ""
    await ann.close()


async def test_a_stream_that_ends_by_itself_while_it_waits_to_be_sent_away_is_gone() -> None:
    drain = Drain(1)
    async with asyncio.timeout(15) as life:
        with drain.stream(life) as stream:
            assert drain.streams == [stream]
    assert stream.send_away()
    assert drain.streams == []


async def _until(condition: Any) -> None:
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.01)


async def _closed(socket: ClientConnection) -> int:
    """Milliseconds after which one is to come back who was sent away."""
    with pytest.raises(ConnectionClosed) as closed:
        await asyncio.wait_for(socket.recv(), 15)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
    retry: int = json.loads(closed.value.rcvd.reason)["retry"]
    return retry
