"""The doorbell: "match x is at seq n". It carries no event; the store is the only truth."""

import asyncio
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

from redis.asyncio.connection import AbstractConnection, Connection, UnixDomainSocketConnection, parse_url
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import RedisError

from infra import traces

Ring = Callable[[str, int], None]
"""Told of a match, and of the seq it has come to; 0 when that is not known: look at the store."""

_log = logging.getLogger("videau")


class Bus(Protocol):
    """Rings between whoever appends to a match and whoever watches it, in this process or another.

    All of it is called in the event loop that it was started in. A ring may be lost, and may come twice, late or with
    an old seq; what was lost with a connection is made up for by the ring of 0 when the connection is back.
    """

    @property
    def connected(self) -> bool:
        """Whether the rings of other processes come through now."""

    def start(self, ring: Ring) -> None:
        """Begin, in the running event loop: `ring` is called for the matches subscribed to, from that loop."""

    async def close(self) -> None:
        """Stop. Rings not sent by now are lost."""

    def publish(self, match_id: str, seq: int) -> None:
        """Ring for a match that has come to `seq`: here at once. Never waits and never fails: a ring may be lost."""

    def subscribe(self, match_id: str) -> None:
        """Be rung for this match from now on. Rings 0 once the subscription holds, also after each reconnection."""

    def unsubscribe(self, match_id: str) -> None:
        """Be rung for it no more."""


class LocalBus:
    """The doorbell inside one process."""

    connected = False
    """It knows of no other process."""

    def __init__(self) -> None:
        self._ring: Ring = lambda match_id, seq: None
        self._matches: set[str] = set()

    def start(self, ring: Ring) -> None:
        self._ring = ring

    async def close(self) -> None:
        pass

    def publish(self, match_id: str, seq: int) -> None:
        if match_id in self._matches:
            self._ring(match_id, seq)

    def subscribe(self, match_id: str) -> None:
        self._matches.add(match_id)
        self._ring(match_id, 0)

    def unsubscribe(self, match_id: str) -> None:
        self._matches.discard(match_id)


_TIMEOUT = 2.0  # seconds that a server has to take a connection, and to answer
_BEAT = 1.0  # seconds without news after which it is asked whether it is there
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds, at most, between two tries to connect; doubled from try to try
_KEPT = 10_000  # rings kept for a server that is not there; the oldest are dropped
_BATCH = 500  # channels that go out together, at most
_CHANNEL = "videau:match:"

_Address = tuple[str, int] | None  # host and port of a server of a cluster; None: the server that the URL names
_Command = tuple[str | int, ...]


class RedisBus:
    """The doorbell between processes: pub/sub of a Redis server, or sharded pub/sub of a Redis Cluster (Redis 7).

    The server says which of the two it is. One connection to it (to each server that owns slots, in a cluster) takes
    the subscriptions, the rings and the question whether it is there, which Redis's protocol allows since version 6.
    An ACL user needs `&videau:match:* +subscribe +unsubscribe +publish +ping`; in a cluster `+ssubscribe +sunsubscribe
    +spublish +cluster|slots +ping`.
    """

    def __init__(self, url: str) -> None:
        """Raises ValueError if that is no URL of a Redis; the message doesn't quote it, for it may hold a password."""
        try:
            self._options: dict[str, Any] = {
                **parse_url(url),
                "protocol": 3,
                "decode_responses": False,
                "socket_timeout": None,  # asyncio.timeout is used instead
                "socket_connect_timeout": _TIMEOUT,
                "health_check_interval": 0,
                "driver_info": None,  # it would need one more permission
            }
            self._kind: type[AbstractConnection] = self._options.pop("connection_class", Connection)
            self._options.pop("max_connections", None)  # for pools
            self.connection(None)
        except (TypeError, ValueError, RedisError):
            raise ValueError(
                "no URL of a Redis: that is like redis://user:password@host:6379, rediss://host?ssl_ca_certs=ca.pem "
                "or unix:///run/redis.sock, with the parameters that redis-py knows"
            ) from None
        self.ring: Ring = lambda match_id, seq: None
        server = _Server(self, None)
        self._servers: dict[_Address, _Server] = {None: server}
        self._slots = [server] * REDIS_CLUSTER_HASH_SLOTS
        self.sent = self.received = self.losses = 0
        """Rings that were sent to other processes and came from them, and how often Redis was lost."""
        self._trouble = asyncio.Event()
        self._lost = False
        self._pause = _FIRST_PAUSE
        self._task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return all(server.ready for server in self._servers.values())

    @property
    def waiting(self) -> int:
        """Rings that have not been sent."""
        return sum(len(server.rings) for server in self._servers.values())

    def start(self, ring: Ring) -> None:
        self.ring = ring
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def publish(self, match_id: str, seq: int) -> None:
        server = self._server(match_id)
        if match_id in server.matches:
            self.ring(match_id, seq)
        server.publish(match_id, seq)
        if parent := traces.current():
            server.traced[match_id] = parent

    def subscribe(self, match_id: str) -> None:
        self._server(match_id).subscribe(match_id)

    def unsubscribe(self, match_id: str) -> None:
        self._server(match_id).unsubscribe(match_id)

    def _server(self, match_id: str) -> "_Server":
        return self._slots[key_slot((_CHANNEL + match_id).encode())]

    def connection(self, address: _Address) -> Any:  # redis-py leaves its methods untyped
        """A connection to be made; nothing goes over the network yet."""
        if address is None:
            return self._kind(**self._options)
        options = {**self._options, "host": address[0], "port": address[1]}
        options.pop("path", None)  # of a Unix socket, which the servers of a cluster have not
        return (Connection if self._kind is UnixDomainSocketConnection else self._kind)(**options)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._trouble.clear()
                try:
                    self._assign(await self._survey())
                except Exception as error:  # of whatever kind: nothing may end this task
                    self.failed(error)
                else:
                    for server in self._servers.values():
                        if server.task is None or server.task.done():
                            server.task = tasks.create_task(server.serve())
                await self._trouble.wait()
                await asyncio.sleep(self._pause * random.uniform(0.5, 1))
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    async def _survey(self) -> list[tuple[int, int, _Address]]:
        """Who owns which slots, says the first server that answers."""
        known = sorted(self._servers, key=lambda address: not self._servers[address].ready)
        error: Exception | None = None
        for address in dict.fromkeys([*known[:1], None, *known]):
            connection = self.connection(address)
            try:
                async with asyncio.timeout(_TIMEOUT):
                    return await owners_of(connection)
            except Exception as failure:
                error = failure
            finally:
                await disconnect(connection)
        assert error is not None
        raise error

    def _assign(self, owners: list[tuple[int, int, _Address]]) -> None:
        """Let every match be with the server that owns its slot."""
        before = self._servers
        self._servers = {address: before.get(address) or _Server(self, address) for _, _, address in owners}
        for first, last, address in owners:
            self._slots[first : last + 1] = [self._servers[address]] * (last - first + 1)
        for address, server in before.items():
            for match_id in [m for m in server.matches if self._server(m) is not server]:
                server.unsubscribe(match_id)
                self.subscribe(match_id)
            for match_id in [m for m in server.rings if self._server(m) is not server]:
                self._server(match_id).publish(match_id, server.rings.pop(match_id))
                server.traced.pop(match_id, None)
            if address not in self._servers and server.task is not None:
                server.task.cancel()

    def failed(self, error: Exception) -> None:
        """A server cannot be talked to, or no more."""
        if not self._lost:
            self._lost = True
            self.losses += 1
            _log.warning("Redis is lost: %s", " ".join(str(error).split()) or f"no answer for {_TIMEOUT:g} seconds")
        self._trouble.set()

    def succeeded(self) -> None:
        """A server has answered all that it was told."""
        if self.connected:
            self._pause = _FIRST_PAUSE
            if self._lost:
                self._lost = False
                _log.warning("Redis is back")


class _Server:
    """What a Redis server is to be told, what it has confirmed, and the talk with it."""

    def __init__(self, bus: RedisBus, address: _Address) -> None:
        self.matches: set[str] = set()  # to be subscribed to
        self.rings: OrderedDict[str, int] = OrderedDict()  # to be sent
        self.traced: dict[str, str] = {}  # of some of them: the trace that they belong to
        self.ready = False  # whether it has answered all that was to be told when the connection began
        self.task: asyncio.Task[None] | None = None
        self._bus = bus
        self._address = address
        self._sharded = "" if address is None else "S"
        self._changed: set[str] = set()  # of these there may be something to tell
        self._subscribed: dict[str, bool] = {}  # it was told so; False: its answer is still to come
        self._sent: deque[tuple[str, int]] = deque()  # rings not yet answered; the next go when all are
        self._news = asyncio.Event()

    def publish(self, match_id: str, seq: int) -> None:
        self.rings[match_id] = max(seq, self.rings.get(match_id, 0))
        self.rings.move_to_end(match_id)
        if len(self.rings) > _KEPT:
            self.traced.pop(self.rings.popitem(last=False)[0], None)
        self._news.set()

    def subscribe(self, match_id: str) -> None:
        self.matches.add(match_id)
        if self._subscribed.get(match_id):
            self._bus.ring(match_id, 0)  # it holds already
        self._look_at(match_id)

    def unsubscribe(self, match_id: str) -> None:
        self.matches.discard(match_id)
        self._look_at(match_id)

    def _look_at(self, match_id: str) -> None:
        self._changed.add(match_id)
        self._news.set()

    async def serve(self) -> None:
        """Connect and talk until something fails."""
        connection = self._bus.connection(self._address)
        self._news.set()
        try:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    await connection.connect()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._send(connection))
                    tasks.create_task(self._receive(connection))
            finally:
                self.ready = False
                self._subscribed.clear()
                self._changed = set(self.matches)
                while self._sent:
                    self.publish(*self._sent.popleft())
                await disconnect(connection)
        except* Exception as errors:
            self._bus.failed(errors.exceptions[0])

    async def _send(self, connection: Any) -> None:
        while True:
            silent = False
            try:
                async with asyncio.timeout(_BEAT):
                    await self._news.wait()
            except TimeoutError:
                silent = True
            commands = self._subscriptions() or self._publications()
            if not commands:
                self._news.clear()
                if not silent and self.ready:
                    continue
                commands = [("PING",)]
            await connection.send_packed_command(connection.pack_commands(commands))
            await asyncio.sleep(0)  # others come in between, however much there is to say

    def _subscriptions(self) -> list[_Command]:
        begun: list[str] = []
        ended: list[str] = []
        while self._changed and len(begun) + len(ended) < _BATCH:
            match_id = self._changed.pop()
            subscribed = self._subscribed.get(match_id)
            # while its answer is to come nothing is told; when it comes, the match is looked at again
            if subscribed is not False and bool(subscribed) != (match_id in self.matches):
                (ended if subscribed else begun).append(_CHANNEL + match_id)
                self._subscribed[match_id] = False
        told = (("SUBSCRIBE", begun), ("UNSUBSCRIBE", ended))
        if self._sharded:  # the channels of one command would have to be of one slot
            return [(f"S{command}", channel) for command, channels in told for channel in channels]
        return [(command, *channels) for command, channels in told if channels]

    def _publications(self) -> list[_Command]:
        if self._sent:
            return []
        self._sent.extend(self.rings.popitem(last=False) for _ in range(min(_BATCH, len(self.rings))))
        command = f"{self._sharded}PUBLISH"
        return [(command, _CHANNEL + match_id, self._message(match_id, seq)) for match_id, seq in self._sent]

    def _message(self, match_id: str, seq: int) -> str | int:
        """The number; and where traces are on, a space and the `traceparent` of whoever rings."""
        parent = self.traced.pop(match_id, None) if self.traced else None
        return f"{seq} {parent}" if parent else seq

    async def _receive(self, connection: Any) -> None:
        for number in count(1):
            if number % 64 == 0:
                await asyncio.sleep(0)  # thousands of answers that are there at once let others in between
            async with asyncio.timeout(_TIMEOUT):
                # raises what is refused, such as a channel whose slot has moved to another server
                answer = await connection.read_response(push_request=True, disconnect_on_error=False)
            match answer:
                case b"PONG":
                    self.ready = True
                    self._bus.succeeded()
                case int():
                    self._sent.popleft()
                    self._bus.sent += 1
                    if not self._sent:
                        self._news.set()
                case [b"message" | b"smessage", bytes(channel), bytes(message)]:
                    self._bus.received += 1
                    seq, _, parent = message.partition(b" ")
                    if (match_id := _match_id(channel)) in self.matches:
                        with traces.below(parent.decode(errors="replace") or None):
                            self._bus.ring(match_id, int(seq) if seq.isdigit() and len(seq) < 20 else 0)
                case [b"subscribe" | b"ssubscribe", bytes(channel), _]:
                    match_id = _match_id(channel)
                    self._subscribed[match_id] = True
                    if match_id in self.matches:
                        self._bus.ring(match_id, 0)
                    self._look_at(match_id)
                case [b"unsubscribe" | b"sunsubscribe", bytes(channel), _]:
                    match_id = _match_id(channel)
                    if self._subscribed.pop(match_id, False):
                        raise RedisError("a slot has moved to another server")  # for it was not asked to
                    self._look_at(match_id)


async def owners_of(connection: Any) -> list[tuple[int, int, _Address]]:
    """The first slot, the last slot and the owner of each range of slots, by a server's own word."""
    await connection.connect()
    await connection.send_command("HELLO", 3)
    if (await connection.read_response())[b"mode"] != b"cluster":
        return [(0, REDIS_CLUSTER_HASH_SLOTS - 1, None)]
    await connection.send_command("CLUSTER", "SLOTS")
    owners: list[tuple[int, int, _Address]] = [
        # one that doesn't know its own name is where it was asked
        (first, last, (connection.host if host in (None, b"", b"?") else host.decode(), port))
        for first, last, (host, port, *_), *_ in await connection.read_response()
    ]
    if sum(last - first + 1 for first, last, _ in owners) < REDIS_CLUSTER_HASH_SLOTS:
        raise RedisError("the cluster has slots that no server owns")
    return owners


def _match_id(channel: bytes) -> str:
    return channel.decode().removeprefix(_CHANNEL)


async def disconnect(connection: Any) -> None:
    """Let a connection go, whatever state it is in."""
    with suppress(RedisError, OSError):
        await connection.disconnect()
