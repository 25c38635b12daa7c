"""Servers to measure fan-out beside: `python -m tests.bench.fanout_peers starlette | strawberry`.

Each sends the next event of one match to all its websockets when `POST /next` asks for it.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from strawberry.asgi import GraphQL
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL

from domain.rules import evolve
from infra.log import GENESIS, record
from infra.matchfiles import read_file
from service.audience import encoded
from service.cli import listener
from service.schema import schema
from service.windows import Step

MATCH = Path(__file__).parents[1] / "corpus" / "matches" / "real_031_galaxy7pt.mat"


def steps() -> list[Step]:
    """A match that was played."""
    read, match, found = read_file(MATCH.read_bytes()), None, []
    for recorded in record(GENESIS, 0, read.played_at if hasattr(read, "played_at") else _now(), read.events):
        match = evolve(match, recorded.event)
        found.append(Step(recorded, match))
    return found


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


class Broadcast:
    """The match, its place in it, and a queue a subscriber."""

    def __init__(self) -> None:
        self.steps = steps()[20:]
        self.place = 0
        self.queues: set[asyncio.Queue[Step]] = set()

    def next(self) -> Step:
        self.place += 1
        return self.steps[self.place % len(self.steps)]

    async def watch(self, match_id: str, after: int) -> AsyncGenerator[Step]:
        """As a context has it."""
        queue: asyncio.Queue[Step] = asyncio.Queue()
        self.queues.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self.queues.remove(queue)

    viewer = None


def strawberry() -> Starlette:
    """Strawberry as it comes, with our schema: an execution a subscriber."""
    broadcast = Broadcast()

    class Stock(GraphQL[Any, None]):
        async def get_context(self, *_: Any, **__: Any) -> Any:
            return broadcast

    async def next_(request: Request) -> Response:
        step = broadcast.next()
        for queue in broadcast.queues:
            queue.put_nowait(step)
        return Response()

    endpoint = Stock(schema, graphql_ide=None, subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,))
    return Starlette(routes=[Route("/next", next_, methods=["POST"]), WebSocketRoute("/graphql", endpoint)])


def starlette() -> Starlette:
    """Nothing but websockets: the same bytes to each."""
    broadcast, sockets = Broadcast(), set[WebSocket]()
    from tests.bench.fanout import DOCUMENT

    async def texts() -> list[str]:
        found = []
        watching = broadcast.watch
        for step in broadcast.steps:

            async def one(match_id: str, after: int, step: Step = step) -> AsyncGenerator[Step]:
                yield step

            broadcast.watch = one  # type: ignore[method-assign]
            results = await schema.stream(DOCUMENT, {"id": "m"}, context_value=broadcast)
            async for result in results:
                found.append('{"id":"1","type":"next","payload":' + encoded(result).decode() + "}")  # type: ignore[arg-type]
        broadcast.watch = watching  # type: ignore[method-assign]
        return found

    messages = asyncio.run(texts())

    async def next_(request: Request) -> Response:
        broadcast.next()
        text = messages[broadcast.place % len(messages)]
        for socket in sockets:
            await socket.send_text(text)
        return Response()

    async def watch(socket: WebSocket) -> None:
        await socket.accept()
        sockets.add(socket)
        try:
            while True:
                await socket.receive_text()
        except WebSocketDisconnect:
            sockets.discard(socket)

    return Starlette(routes=[Route("/next", next_, methods=["POST"]), WebSocketRoute("/raw", watch)])


def main(name: str) -> None:
    app = {"strawberry": strawberry, "starlette": starlette}[name]()
    bound = listener("127.0.0.1", 0)
    print(bound.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", ws="websockets-sansio", ws_per_message_deflate=False)
    uvicorn.Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main(sys.argv[1])
