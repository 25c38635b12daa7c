"""uvicorn's protocols, with an end to what a peer may cost by many connections, by sending slowly, nothing or without
end, or by not reading.
"""

import asyncio
import ipaddress
import logging
import random
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import httptools
import msgspec
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request

from domain.words import Said
from service import limits
from service.errors import ErrorCode
from service.rates import network_of
from service.words import Language, tell

EXTENSION = "videau.wire"
"""Where a websocket's scope has its BoundedWebSocket, among the extensions."""

GRACE_SECONDS = 5.0
"""How long a connection that is being closed waits for its peer."""

SEND_BUFFER = 65_536
"""Bytes that the kernel keeps for a websocket (it doubles them), beside as many here: what a stalled watcher costs."""

TOO_SLOW = 4413
"""The code with which a websocket is closed that is not read."""

_logger = logging.getLogger("uvicorn.error.http")
_logger.addFilter(lambda record: record.levelno >= logging.ERROR)
"""What is wrong with requests is told to who sent them: anybody could fill the log with it."""

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


class Door:
    """Counts the connections that each address has open, and lets no more in than it may have."""

    def __init__(self, most: int | None = None, proxies: Sequence[str] = ()) -> None:
        """Those of `proxies`, addresses or networks, are not counted: their clients are theirs to limit."""
        self._most = most
        self._proxies = [ipaddress.ip_network(each) for each in proxies]
        self._open = Counter[str]()
        self._holder = lru_cache(10_000)(self._holder_of)

    def enter(self, client: tuple[str, int] | None) -> bool:
        """Whether a client may come in, who must leave by `leave` then."""
        holder = self._holder(client[0]) if client else None
        if holder is None or self._most is None:
            return True
        if self._open[holder] >= self._most:
            return False
        self._open[holder] += 1
        return True

    def leave(self, client: tuple[str, int] | None) -> None:
        """Somebody who came in has gone."""
        holder = self._holder(client[0]) if client else None
        if holder is not None and self._most is not None:
            self._open[holder] -= 1
            if not self._open[holder]:
                del self._open[holder]

    def _holder_of(self, host: str) -> str | None:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return host
        return None if any(address in each for each in self._proxies) else network_of(host)


class _Gathering:
    """A transport that writes what comes in one go with one call: uvicorn gives it a response's head, then its body.

    Each call of the system costs, and so does each packet at its other end.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.inner = transport
        self._loop = loop
        self._kept: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def is_closing(self) -> bool:
        return self.inner.is_closing()

    def write(self, data: bytes) -> None:
        """Write it with what comes next, and not later than in the next turn of the loop."""
        if not self._kept:
            self._loop.call_soon(self.flush)
        self._kept.append(data)
        self._size += len(data)
        if self._size > SEND_BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write what is there."""
        if self._kept:
            data, self._kept, self._size = b"".join(self._kept), [], 0
            if not self.inner.is_closing():  # by now: its loop would log a write as an error
                self.inner.write(data)

    def close(self) -> None:
        """Write what is there, and close."""
        self.flush()
        self.inner.close()


class BoundedHttp(_Impatient, HttpToolsProtocol):
    """uvicorn's HTTP, which takes headers of any size and waits for ever, with an end to both."""

    door = Door()
    _left = limits.HEADER_BYTES
    _inside = False
    _arrived = True
    """Whether nothing is missing of the request that came last."""
    _headed = False
    """Whether its headers are there."""
    _late: asyncio.TimerHandle | None = None
    _answered: RequestResponseCycle | None = None
    """The request that is being answered, which others may wait behind."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.logger = _logger
        super().connection_made(transport)
        self.transport = self._gathering = _Gathering(transport, self.loop)  # type: ignore[assignment]
        self._inside = self.door.enter(self.client)
        if self._inside:
            self._wait()
        else:
            self._refuse(429, ErrorCode.RATE_LIMITED, "too many connections from this address are open")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.pipeline.clear()
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True  # uvicorn tells only the request that came last
            self._answered.message_event.set()
        self._unset_keepalive_if_required()
        self._forget_lateness()
        if self._inside:
            self._inside = False
            self.door.leave(self.client)

    def data_received(self, data: bytes) -> None:
        if not self._inside:
            return
        super().data_received(data)
        if not self._arrived:
            if self._late is None:  # only here: most requests come in one piece, and need no timer
                self._late = self.loop.call_later(limits.HEADER_SECONDS, self._check_headers)
        elif self.timeout_keep_alive_task is None and self._inside and (not self.cycle or self.cycle.response_complete):
            self._wait()  # it was nothing, such as an empty line

    def on_message_begin(self) -> None:
        self._left = limits.HEADER_BYTES
        self._arrived = False
        self._headed = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._take(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._take(len(name) + len(value) + 32)
        if not self._headed:  # what comes after a body is no header, as who forwards it took it for none
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._headed = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arrived = True
        self._forget_lateness()
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._gathering.flush()
        super().on_response_complete()

    def handle_websocket_upgrade(self) -> None:
        self._arrived = True
        self._forget_lateness()
        self.transport = self._gathering.inner
        super().handle_websocket_upgrade()
        websocket = self.transport.get_protocol()
        if not isinstance(websocket, BoundedWebSocket):
            return
        websocket.door, self._inside = self.door, False  # it leaves in our place
        self.parser = None  # type: ignore[assignment]  # which refers to this protocol, so that it would stay
        if not websocket.handshake_initiated:  # which would wait for more
            self._refuse(400, ErrorCode.BAD_REQUEST, "no websocket can be opened by this request")

    def _wait(self) -> None:
        """Wait for the next request, but not for ever."""
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise httptools.HttpParserError("the headers are too large")

    def _check_headers(self) -> None:
        if self._headed:
            rest = limits.REQUEST_SECONDS - limits.HEADER_SECONDS
            self._late = self.loop.call_later(rest, self._give_up_request)
        else:
            self._give_up_request()

    def _give_up_request(self) -> None:
        """End a connection whose request does not arrive."""
        self._late = None
        cycle, mine = self.cycle, self._headed and not self.pipeline
        if cycle is None or cycle.response_complete or (mine and not cycle.response_started):
            self._refuse(408, ErrorCode.TOO_SLOW, "the request has not arrived in time")
        else:
            self.transport.abort()

    def _forget_lateness(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer whatever is asked, and hang up."""
        title = HTTPStatus(status).phrase
        body = msgspec.json.encode({"title": title, "status": status, "code": code, "detail": detail})
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        lines = [f"HTTP/1.1 {status} {title}".encode(), *(name + b": " + value for name, value in headers)]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        self.transport.close()


def bounded_http(door: Door) -> type[BoundedHttp]:
    """The protocol for connections that come in by this door."""
    return type("BoundedHttp", (BoundedHttp,), {"door": door})


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
    door: Door | None = None
    """By which it has come in."""
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
        self.conn.parser.close()  # which waits for more, and refers to all of this
        self.conn.parser_exc = self.conn.handshake_exc = None  # whose tracebacks do
        self.on_drain = self.is_answering = None
        if self.door is not None:
            self.door.leave(self.client)
            self.door = None
        if self._extensions is not None:
            del self._extensions[EXTENSION]  # a circle

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < limits.MESSAGE_PARTS:
            super().handle_cont(event)
        elif not self.close_sent:  # empty ones count in no limit of bytes
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"a message has at most {limits.MESSAGE_PARTS} frames")
            self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:  # uvicorn would log it, with a traceback
                self.conn.fail(CloseCode.INVALID_DATA, "a text is UTF-8")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        if self._stalled is None:
            super().handle_ping()
        else:
            self.conn.data_to_send()  # what answers a peer that does not read is not kept for it

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
