"""How a process leaves: it is not ready any more, lets no watchers in, and sends away those it has, a few at a time.

What is under way is finished, and commands are served as long as there are watchers to send away. Whoever is sent away
is told when to come back, each at another time, and finds another process.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from sse_starlette.sse import AppStatus
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from domain.words import Said
from service.errors import ErrorCode, logger
from service.problems import Problem, answer_problem
from service.wire import BoundedWebSocket

APART = 0.01
"""Seconds between two that are sent away, if the time allows it."""

TICK = 0.02
"""Seconds between two looks at who has to go."""

CLOSING = 2.0
"""Seconds in which the last ones may say goodbye: a connection cut before that can take the reason with it."""

# Streams end by themselves here: the library would cut all of them at once.
AppStatus.enable_automatic_graceful_drain = False


class Stream:
    """An open stream of events."""

    def __init__(self, life: asyncio.Timeout) -> None:
        self._life = life
        self.sending = False
        """Whether an event is being sent, which is not to be cut."""
        self.ended = False

    def send_away(self) -> bool:
        """End it, unless it is sending; whether it ends, or has ended."""
        if self.ended or self._life.expired():
            return True
        if not self.sending:
            self._life.reschedule(asyncio.get_running_loop().time())
        return not self.sending


class Drain:
    """Whether a process is leaving, and its streams of events, which have to end before it can."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        """How long it takes to send away any number."""
        self.begun = False
        self._streams: dict[Stream, None] = {}

    @property
    def streams(self) -> list[Stream]:
        """Those that are open."""
        return list(self._streams)

    @contextmanager
    def stream(self, life: asyncio.Timeout) -> Iterator[Stream]:
        """While this lasts, there is a stream more, which is ended by its time-out."""
        stream = Stream(life)
        self._streams[stream] = None
        if self.begun:
            stream.send_away()
        try:
            yield stream
        finally:
            stream.ended = True
            del self._streams[stream]

    def check(self) -> None:
        """Raises Problem when nobody may begin to watch here."""
        if self.begun:
            raise leaving()


def leaving() -> Problem:
    """What is told to those who come while the process leaves."""
    return Problem(503, ErrorCode.UNAVAILABLE, Said("this process is being stopped: go to another one"))


class Exit:
    """The application; once it leaves, it lets no websockets in, and HTTP clients keep no connection to it."""

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An HTTP request, a websocket, or the application's life."""
        if not self._drain.begun or scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            response = await answer_problem(HTTPConnection(scope), leaving())
            await WebSocket(scope, receive, send).send_denial_response(response)
        else:

            async def send_last(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message)["connection"] = "close"
                await send(message)

            await self._app(scope, receive, send_last)


class Server(uvicorn.Server):
    """uvicorn's server, which drains when it is told to stop (SIGTERM, SIGINT); told so twice, it stops at once."""

    def __init__(self, config: uvicorn.Config, drain: Drain) -> None:
        super().__init__(config)
        self.drain = drain

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop."""
        again, self.drain.begun = self.drain.begun, True
        super().handle_exit(sig, frame)
        self.force_exit |= again

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """Send all away, then stop as uvicorn does."""
        self.drain.begun = True
        try:
            await self._send_away()
        except Exception as error:
            logger.error("unforeseen error of the drain", exc_info=error)
        if self.force_exit:
            for connection in list(self.server_state.connections):
                connection.transport.abort()
        await super().shutdown(sockets)

    async def _send_away(self) -> None:
        """Send away all who watch, spread over the time there is; who waits for an answer goes when it is there."""
        staying: list[Callable[[], bool]] = [stream.send_away for stream in self.drain.streams]
        staying += [each.send_away for each in self._sockets]
        random.shuffle(staying)
        loop = asyncio.get_running_loop()
        begun, many = loop.time(), len(staying)
        spread = min(self.drain.seconds, many * APART)
        while staying and not self.force_exit:
            passed = loop.time() - begun
            late = 0 if passed >= spread else int(many * (1 - passed / spread))
            due = max(0, len(staying) - late)
            staying = [send_away for send_away in staying[:due] if not send_away()] + staying[due:]
            if passed > self.drain.seconds:  # all have been asked to go by now
                break
            if staying:
                await asyncio.sleep(TICK)
        end = loop.time() + CLOSING
        while any(each.close_sent for each in self._sockets) and not self.force_exit and loop.time() < end:
            await asyncio.sleep(TICK)

    @property
    def _sockets(self) -> list[BoundedWebSocket]:
        return [each for each in self.server_state.connections if isinstance(each, BoundedWebSocket)]
