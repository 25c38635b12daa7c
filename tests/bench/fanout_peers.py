"""Servers whose fan-out is measured: `python -m tests.bench.fanout_peers videau | starlette | strawberry`.

Each sends the next event of one match, which was played before, to all its websockets when `POST /next` asks for it.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
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
from infra.settings import Settings
from infra.store import Append, SqlStore
from service.app import create_app, create_server
from service.audience import encoded
from service.cli import listener
from service.schema import schema
from service.windows import Step

DOCUMENT = """subscription($id: ID!, $after: Int! = 0) { matchEvents(matchId: $id, after: $after) {
  __typename seq at kind ... on Rolled { rolledBy: by dice } ... on Moved { by play notation }
  match { version phase toAct dice crawford cube { value owner } board { points bar off opponentBar opponentOff }
  white { score away pips checkers } black { score away pips checkers } } } }"""
"""What all subscribe to: an event with the board after it."""

SEATED = 3
"""Events before the first roll, after which the watchers begin."""

MATCH = Path(__file__).parents[1] / "corpus" / "matches" / "real_031_galaxy7pt.mat"


def steps(after: int = SEATED) -> list[Step]:
    """A match that was played, after a number."""
    match, found = None, []
    for recorded in record(GENESIS, 0, datetime.now(UTC), read_file(MATCH.read_bytes()).events):
        match = evolve(match, recorded.event)
        found.append(Step(recorded, match))
    return found[after:]


class Broadcast:
    """What a resolver needs of a context: steps, by a queue a subscriber."""

    viewer = None

    def __init__(self) -> None:
        self.queues: set[asyncio.Queue[Step]] = set()

    async def watch(self, match_id: str, after: int) -> AsyncGenerator[Step]:
        """Whatever is put into the queue."""
        queue: asyncio.Queue[Step] = asyncio.Queue()
        self.queues.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self.queues.remove(queue)


class Played:
    """The same for one execution of the whole match."""

    viewer = None

    async def watch(self, match_id: str, after: int) -> AsyncGenerator[Step]:
        """Every step."""
        for step in steps():
            yield step


async def payloads() -> list[bytes]:
    """What the subscription comes to, event by event."""
    results = await schema.stream(DOCUMENT, {"id": "m"}, context_value=Played())
    return [encoded(result) async for result in results]  # type: ignore[arg-type]


def videau(folder: Path) -> Starlette:
    """The service, but that its next event needs no command."""
    settings = Settings(database_url=f"sqlite:///{folder / 'videau.db'}", rate_address=None)
    seated, played = steps(0)[:SEATED], iter(steps())
    match = seated[-1].match
    append = Append(match=match, recorded=[step.recorded for step in seated], auto_roll=(False, False))

    async def prepare() -> None:
        store = SqlStore(settings.url, create=True)
        await store.append(append)
        await store.close()

    async def publish() -> None:
        app.state.table.windows.extend(match.id, [next(played)])

    asyncio.run(prepare())
    app = create_app(settings)
    app.router.routes.append(_next(publish))
    return app


def strawberry(folder: Path) -> Starlette:
    """Strawberry as it comes, with our schema: an execution a subscriber."""
    broadcast, played = Broadcast(), cycle(steps())

    class Stock(GraphQL[Any, None]):
        async def get_context(self, *_: Any, **__: Any) -> Broadcast:
            return broadcast

    async def publish() -> None:
        step = next(played)
        for queue in broadcast.queues:
            queue.put_nowait(step)

    endpoint = Stock(schema, graphql_ide=None, subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,))
    return Starlette(routes=[_next(publish), WebSocketRoute("/graphql", endpoint)])


def starlette(folder: Path) -> Starlette:
    """Nothing but websockets, and the same bytes to each."""
    sockets = set[WebSocket]()
    messages = cycle(
        '{"id":"1","type":"next","payload":' + payload.decode() + "}" for payload in asyncio.run(payloads())
    )

    async def publish() -> None:
        message = next(messages)
        for socket in sockets:
            await socket.send_text(message)

    async def watch(socket: WebSocket) -> None:
        await socket.accept()
        sockets.add(socket)
        try:
            while True:
                await socket.receive_text()
        except WebSocketDisconnect:
            sockets.discard(socket)

    return Starlette(routes=[_next(publish), WebSocketRoute("/", watch)])


def _next(publish: Callable[[], Any]) -> Route:
    async def answer(request: Request) -> Response:
        await publish()
        return Response()

    return Route("/next", answer, methods=["POST"])


def main(name: str) -> None:
    """Serve one of them, all in the same way but for our own protocol."""
    bound = listener("127.0.0.1", 0)
    with TemporaryDirectory() as folder:
        app = {"videau": videau, "strawberry": strawberry, "starlette": starlette}[name](Path(folder))
        print(bound.getsockname()[1], flush=True)
        if name == "videau":
            create_server(app).run(sockets=[bound])
        config = uvicorn.Config(app, log_level="warning", ws="websockets-sansio", ws_per_message_deflate=False)
        uvicorn.Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main(sys.argv[1])
