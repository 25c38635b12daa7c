"""Watchers who keep what they see, and go on at another server from there when they are cut off."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import cycle
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

QUERY = "subscription($id: ID!, $after: Int!) { matchEvents(matchId: $id, after: $after) { seq hash } }"

PING = 1.0
"""Seconds of silence after which a watcher asks whether the line is still there, and waits as long again."""

Seen = list[tuple[int, str]]


class Cut(Exception):
    """The stream has ended before the match."""


class SentAway(Cut):
    """The server stops, and has said in how many seconds to come back, at another one."""

    def __init__(self, pause: float) -> None:
        super().__init__(pause)
        self.pause = pause


class Watcher:
    """One who watches one match to its end, or the feed of all matches, at one server after the other."""

    def __init__(
        self,
        match_id: str,
        urls: Sequence[str],
        *,
        by_sse: bool = False,
        after: int = 0,
        silence: float = 20,
        token: str | None = None,
    ) -> None:
        """Without a match it is the feed, which takes an operator's token. By SSE, a line that has been silent for so
        many seconds is given up."""
        self.match_id = match_id
        self.seen: Seen = []
        self.began_after = after
        self.cuts = 0
        self.url = urls[0]
        """Where it watches."""
        self.cut_by: Exception | None = None
        """What cut it last, without sending it away."""
        self.sent_away: list[tuple[float, float]] = []
        """When it was, by a clock that never goes back, and for how many seconds."""
        self.task: asyncio.Task[None] | None = None
        self._urls, self._by_sse, self._silence, self._token = cycle(urls), by_sse, silence, token

    @property
    def after(self) -> int:
        """The number of the last event seen."""
        return self.seen[-1][0] if self.seen else self.began_after

    @property
    def is_watching(self) -> bool:
        """Whether there is more to come."""
        return self.task is not None and not self.task.done()

    def start(self) -> None:
        """Watch from now on, until the match is over or the task is cancelled."""
        self.task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            self.url = next(self._urls)
            stream = self._sse(self.url) if self._by_sse else self._websocket(self.url)
            try:
                async with aclosing(stream) as news:
                    async for seq, hash_ in news:
                        self.seen.append((seq, hash_))
                return
            except SentAway as error:
                self.cuts += 1
                self.sent_away.append((time.monotonic(), error.pause))
                await asyncio.sleep(error.pause)
            except (Cut, OSError, EOFError, TimeoutError, WebSocketException) as error:
                self.cuts += 1
                self.cut_by = error
                await asyncio.sleep(0.05)

    async def _websocket(self, url: str) -> AsyncGenerator[tuple[int, str]]:
        at = url.replace("http", "ws", 1) + "/graphql"
        subscribe = {"query": QUERY, "variables": {"id": self.match_id, "after": self.after}}
        async with connect(
            at, subprotocols=["graphql-transport-ws"], open_timeout=5, ping_interval=PING, ping_timeout=PING,
            close_timeout=PING, compression=None,
        ) as socket:  # fmt: skip
            await socket.send(json.dumps({"type": "connection_init"}))
            await socket.send(json.dumps({"type": "subscribe", "id": "1", "payload": subscribe}))
            while True:
                try:
                    message = json.loads(await socket.recv())
                except ConnectionClosed as closed:
                    if closed.rcvd is not None and closed.rcvd.code == 1012:
                        raise SentAway(json.loads(closed.rcvd.reason)["retry"] / 1_000) from closed
                    raise
                match message["type"]:
                    case "connection_ack":
                        pass
                    case "next":
                        if errors := message["payload"].get("errors"):
                            assert {error["extensions"]["code"] for error in errors} == {"UNAVAILABLE"}, message
                            raise Cut(message)
                        event = message["payload"]["data"]["matchEvents"]
                        yield event["seq"], event["hash"]
                    case "error":
                        codes = {error["extensions"]["code"] for error in message["payload"]}
                        assert codes == {"UNAVAILABLE"}, message
                        raise Cut(message)
                    case "complete":
                        return
                    case _:
                        raise AssertionError(message)

    async def _sse(self, url: str) -> AsyncGenerator[tuple[int, str]]:
        at = urlsplit(url)
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(at.hostname, at.port)
        path = f"/matches/{self.match_id}/events" if self.match_id else "/events"
        lines = [f"GET {path} HTTP/1.1", f"host: {at.hostname}", "accept: text/event-stream"]
        if self.after:
            lines.append(f"last-event-id: {self.after}")
        if self._token:
            lines.append(f"authorization: Bearer {self._token}")
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode())
            async with asyncio.timeout(self._silence):
                status = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            if status == b"204":
                return
            if status == b"503":
                raise Cut(status)
            assert status == b"200", status
            pause = first = None
            while (line := await self._line(reader)).endswith(b"\n"):
                if line.startswith(b"data: "):
                    record = json.loads(line[6:])
                    yield record["seq"] if self.match_id else record["position"], record["hash"]
                elif line.startswith(b"retry: "):
                    pause = int(line[7:]) / 1_000
                    first = first or pause
                elif line == b"0\r\n":
                    if pause == first:
                        return
                    raise SentAway(pause)
            raise Cut("closed")
        finally:
            writer.transport.abort()

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        async with asyncio.timeout(self._silence):  # Python 3.11's wait_for may lose a cancellation
            return await reader.readline()


@asynccontextmanager
async def watching(watchers: list[Watcher]) -> AsyncIterator[None]:
    """They watch while the block lasts, and so do those that start and join them."""
    for watcher in watchers:
        watcher.start()
    try:
        yield
    finally:
        tasks = [watcher.task for watcher in watchers if watcher.task is not None]
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def caught_up(watchers: Iterable[Watcher], versions: Mapping[str, int], seconds: float = 20) -> None:
    """Wait until each watcher has seen the event of its match that has this number."""
    behind = list(watchers)
    try:
        async with asyncio.timeout(seconds):
            while behind := [watcher for watcher in behind if watcher.after < versions[watcher.match_id]]:
                for watcher in behind:
                    if watcher.task is not None and watcher.task.done():
                        watcher.task.result()
                        raise AssertionError(f"{watcher.match_id} has ended at {watcher.after} for one who watches it")
                await asyncio.sleep(0.01)
    except TimeoutError:
        told = [f"{each.match_id}: {each.after} of {versions[each.match_id]}" for each in behind]
        raise AssertionError(f"{len(behind)} watchers do not come up: {told[:5]}") from None
