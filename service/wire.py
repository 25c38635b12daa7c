"""uvicorn's protocols, with an end to what a peer may cost by headers without end, or by not reading."""

import asyncio
import random
import socket
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request

from domain.words import Said
from service import limits
from service.errors import ErrorCode
from service.words import Language, tell

EXTENSION = "videau.wire"
"""Where a websocket's scope has its BoundedWebSocket, among the extensions."""

GRACE_SECONDS = 5.0
"""How long a connection that is being closed waits for its peer."""

SEND_BUFFER = 65_536
"""Bytes that the kernel keeps for a websocket (it doubles them), beside as many here: what a stalled watcher costs."""

TOO_SLOW = 4413
"""The code with which a websocket is closed that is not read."""

SERVICE_RESTART = 1012
"""The code with which a websocket is closed because the process stops (IANA's registry of close codes)."""


def come_back() -> int:
    """Milliseconds after which one client should come back: another number for each, so that not all come at once."""
    return random.randrange(limits.COME_BACK)


def text_frame(text: bytes) -> bytes:
    """A whole message as it goes to a client (RFC 6455, 5.2)."""
    return Frame(Opcode.TEXT, text).serialize(mask=False)


class _Impatient(asyncio.Protocol):
    """Gives up a peer that does not read."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _stalled: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(limits.UNREAD_SECONDS, self.give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forgive()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forgive()

    def _forgive(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def give_up(self) -> None:
        """End the connection, whatever of it has not been read."""
        self.transport.abort()


class BoundedHttp(_Impatient, HttpToolsProtocol):
    """uvicorn's HTTP, which takes headers of any size and waits for ever, with an end to both."""

    _left = limits.HEADER_BYTES

    def on_message_begin(self) -> None:
        self._left = limits.HEADER_BYTES
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._left -= len(name) + len(value)
        if self._left < 0:
            raise httptools.HttpParserError("the headers are too large")
        super().on_header(name, value)


class BoundedWebSocket(_Impatient, WebSocketsSansIOProtocol):
    """uvicorn's websocket, which ends when its peer does not read.

    When it is `ready`, frames of `text_frame` may be written to its transport: they are whole messages, and do not get
    mixed up with what the application sends.
    """

    language = Language.EN
    """In which its client is told why it is closed."""
    on_drain: Callable[[], None] | None = None
    """Called when the peer reads again."""
    is_answering: Callable[[], bool] | None = None
    """Whether something is under way that the peer waits for the answer to."""
    _extensions: dict[Any, Any] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[Any, Any] = self.scope["extensions"]
            extensions[EXTENSION] = self
            self._extensions = extensions

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.on_drain = self.is_answering = None
        if self._extensions is not None:
            del self._extensions[EXTENSION]  # a circle

    @property
    def ready(self) -> bool:
        """Whether frames may be written now: the peer reads, and the connection is not being closed."""
        return not (self._stalled or self.close_sent or self.transport.is_closing())

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_drain is not None:
            self.loop.call_soon(self.on_drain)

    async def send(self, message: Any) -> None:
        await self.writable.wait()
        if self.close_sent:  # by us, while the application waited: uvicorn would take it for the application's mistake
            raise ClientDisconnected
        await super().send(message)
        if self.initial_response is not None and self.close_sent:  # refused: uvicorn would complain that it was
            self.handshake_complete = True

    def give_up(self) -> None:
        """Close with a reason, and in the end without waiting for the peer to take it."""
        if self._closing():
            self.transport.abort()
            return
        told = Said(
            "nothing was read for {seconds} seconds; subscribe again with the last seq you saw",
            seconds=limits.UNREAD_SECONDS,
        )
        reason = f"{ErrorCode.TOO_SLOW}: {tell(self.language, ErrorCode.TOO_SLOW, told)}"
        self._close(TOO_SLOW, reason)

    def send_away(self) -> bool:
        """Close because the process stops, with the time to come back as reason; whether it is closed now.

        It is not while the handshake is under way, or an answer.
        """
        if self._closing():
            return True
        if not self.handshake_complete or (self.is_answering is not None and self.is_answering()):
            return False
        self._close(SERVICE_RESTART, f'{{"retry":{come_back()}}}')
        return True

    def shutdown(self) -> None:
        """Close, whatever is under way."""
        self.is_answering = None
        self.send_away()
        super().shutdown()

    def _close(self, code: int, reason: str) -> None:
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:  # so that the peer's answer to the close arrives
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(GRACE_SECONDS, self.transport.abort)

    # uvicorn's own ways to close wait for the peer to take what is left. One of its two keepalive timers always runs.

    def send_keepalive_ping(self) -> None:
        if self._closing():
            self._abort_later()
        else:
            super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        if self._stalled is not None and not self._closing():
            # the ping waits behind what is not read, for which there is a limit of its own
            self.pong_timer = self.loop.call_later(self.ping_timeout or 0, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self._abort_later()

    def _closing(self) -> bool:
        return self.close_sent or self.transport.is_closing()

    def _abort_later(self) -> None:
        self.pong_timer = self.loop.call_later(GRACE_SECONDS, self.transport.abort)
