"""Watchers who keep what they see, and go on at another server from there when they are cut off."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import cycle
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

QUERY = "subscription($id: ID!, $after: Int!) { matchEvents(matchId: $id, after: $after) { seq hash } }"

PING = 1.0
"""Seconds of silence after which a watcher asks whether the line is still there, and waits as long again."""

Seen = list[tuple[int, str]]


class Cut(Exception):
    """The stream has ended before the match."""


class Watcher:
    """One who watches one match to its end, at one server after the other."""

    def __init__(self, match_id: str, urls: Sequence[str], *, by_sse: bool = False, silence: float = 20) -> None:
        self.match_id = match_id
        self.seen: Seen = []
        self.cuts = 0
        self.task: asyncio.Task[None] | None = None
        self._urls, self._by_sse, self._silence = cycle(urls), by_sse, silence

    @property
    def after(self) -> int:
        """The number of the last event seen."""
        return self.seen[-1][0] if self.seen else 0

    async def run(self) -> None:
        """Watch until the match is over."""
        while True:
            url = next(self._urls)
            stream = self._sse(url) if self._by_sse else self._websocket(url)
            try:
                async with aclosing(stream) as news:
                    async for seq, hash_ in news:
                        self.seen.append((seq, hash_))
                return
            except (Cut, OSError, EOFError, TimeoutError, WebSocketException):
                self.cuts += 1
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
            async for text in socket:
                message = json.loads(text)
                match message["type"]:
                    case "connection_ack":
                        pass
                    case "next":
                        assert "errors" not in message["payload"], message
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
        raise Cut("closed")

    async def _sse(self, url: str) -> AsyncGenerator[tuple[int, str]]:
        at = urlsplit(url)
        reader, writer = await asyncio.wait_for(asyncio.open_connection(at.hostname, at.port), 5)
        try:
            resume = f"last-event-id: {self.after}\r\n" if self.after else ""
            path = f"/matches/{self.match_id}/events"
            fields = f"host: {at.hostname}\r\naccept: text/event-stream\r\n{resume}"
            writer.write(f"GET {path} HTTP/1.1\r\n{fields}\r\n".encode())
            status = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            if status == b"204":
                return
            if status[:1] == b"5":
                raise Cut(status)
            assert status == b"200", status
            while (line := await asyncio.wait_for(reader.readline(), self._silence)).endswith(b"\n"):
                if line.startswith(b"data: "):
                    record = json.loads(line[6:])
                    yield record["seq"], record["hash"]
                elif line == b"0\r\n":
                    return
            raise Cut("closed")
        finally:
            writer.transport.abort()


@asynccontextmanager
async def watching(watchers: Iterable[Watcher]) -> AsyncIterator[None]:
    """They watch while the block lasts."""
    tasks = []
    for watcher in watchers:
        watcher.task = asyncio.create_task(watcher.run())
        tasks.append(watcher.task)
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def caught_up(watchers: Iterable[Watcher], versions: Mapping[str, int], seconds: float = 20) -> None:
    """Wait until each watcher has seen the event of its match that has this number."""
    behind = list(watchers)
    try:
        async with asyncio.timeout(seconds):
            while behind := [watcher for watcher in behind if watcher.after < versions[watcher.match_id]]:
                for watcher in behind:
                    if watcher.task is not None and watcher.task.done():
                        watcher.task.result()
                        raise AssertionError(f"{watcher.match_id} has ended for a watcher at {watcher.after}")
                await asyncio.sleep(0.01)
    except TimeoutError:
        told = [f"{each.match_id}: {each.after} of {versions[each.match_id]}" for each in behind]
        raise AssertionError(f"{len(behind)} watchers do not come up: {told[:5]}") from None
