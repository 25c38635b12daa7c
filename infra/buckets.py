"""Token buckets: how many units whoever holds one may still use. In Redis all processes share them; without it, or
while it cannot be asked, each process has its own.

The algorithm is throttled-py's GCRA, the token bucket that stores one time instead of a count and when it was taken: no
fraction of a unit gets lost, however often it is asked. Here is how its script gets to Redis and back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import RedisError
from throttled import asyncio as shared
from throttled import rate_limiter
from throttled.constants import RateLimiterType, StoreType
from throttled.store import MemoryStore

from infra.bus import RedisBus, disconnect, owners_of
from infra.settings import Rate

PATIENCE = 0.25
"""Seconds that Redis has to answer. What it does not answer is asked of the process's own buckets."""

PAUSE = 1.0
"""Seconds for which Redis is not asked after it has failed."""

KEPT_BUCKETS = 50_000
"""Buckets of a process that are not full; the one that was used least lately is filled up to make place."""

_CONNECTING = 2.0
_PREFIX = "videau:rate"

_log = logging.getLogger("videau")


class Level(NamedTuple):
    """How full a bucket is."""

    name: str
    admitted: bool
    """Whether as much was there as was asked for, and has been taken."""
    rate: Rate
    remaining: int
    reset: float
    """Seconds until it is full."""
    retry: float
    """Seconds until what was asked for will be there; 0 if it was."""


class Buckets:
    """Every bucket of every kind; a kind's name says who holds one, and its rate what a full one has."""

    def __init__(self, rates: Mapping[str, Rate], redis_url: str | None) -> None:
        self.rates = rates
        self._redis = _Redis(redis_url) if redis_url and rates else None
        local = MemoryStore(options={"MAX_SIZE": KEPT_BUCKETS})
        kind = RateLimiterType.GCRA.value
        make = rate_limiter.RateLimiterRegistry.get(kind)
        self._local = {name: make(_quota(rate), local, key_prefix=_PREFIX) for name, rate in rates.items()}
        self._shared: dict[str, Any] = {}
        if self._redis is not None:
            make_shared = shared.RateLimiterRegistry.get(kind)
            store: Any = self._redis
            self._shared = {name: make_shared(_quota(rate), store, key_prefix=_PREFIX) for name, rate in rates.items()}

    @property
    def connected(self) -> bool:
        """Whether Redis has the buckets now."""
        return self._redis is not None and self._redis.connected

    def start(self) -> None:
        """Begin to ask Redis, if there is one, in the running event loop."""
        if self._redis is not None:
            self._redis.start()

    async def close(self) -> None:
        """Stop; whoever waits is answered from the process's own buckets."""
        if self._redis is not None:
            await self._redis.close()

    async def take(self, name: str, holder: str, units: int) -> Level:
        """Take units from a holder's bucket of a kind, all of them or none; more than a full one has count as that."""
        rate, key = self.rates[name], f"{name}:{holder}"
        units = min(units, rate.units)
        result: rate_limiter.RateLimitResult | None = None
        if self.connected:
            with suppress(_Lost):
                result = await self._shared[name].limit(key, units)
        if result is None:
            result = self._local[name].limit(key, units)
        state = result.state
        remaining = max(0, state.remaining)  # the library rounds downwards
        reset, retry = round(state.reset_after, 3), round(state.retry_after, 3)  # no 1000.0000000000001
        return Level(name, not result.limited, rate, remaining, reset, retry)

    async def look(self, name: str, holder: str) -> Level:
        """How full a holder's bucket of a kind is."""
        return await self.take(name, holder, 0)


def _quota(rate: Rate) -> rate_limiter.Quota:
    return rate_limiter.Quota(rate_limiter.Rate(timedelta(seconds=rate.seconds), rate.units), burst=rate.units)


class _Lost(Exception):
    """Redis has not answered, or refused."""


class _Redis:
    """What throttled-py takes for its store and its client: a Redis or a Redis Cluster, one connection to each server.

    Whatever goes wrong ends all of its connections, and it is not `connected` until all are there again. An ACL user
    needs `~videau:rate:* +evalsha +script|load +get +set +time`, and in a cluster `+cluster|slots`.
    """

    TYPE = StoreType.REDIS.value
    base_exceptions = ()  # none of ours is to be wrapped

    def __init__(self, url: str) -> None:
        self._bus = RedisBus(url)  # never started: it knows how a URL becomes a connection
        self._scripts: list[str] = []
        self._slots: list[_Line] | None = None
        self._lost = False
        self._task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._slots is not None

    # what throttled-py asks of a store, and of a client

    def make_atomic(self, action: Callable[..., Any]) -> Any:
        return action(backend=self)

    def get_client(self) -> "_Redis":
        return self

    def register_script(self, text: str) -> Callable[[Sequence[str], Sequence[float]], Awaitable[Any]]:
        number = len(self._scripts)
        self._scripts.append(text)

        def run(keys: Sequence[str], arguments: Sequence[float]) -> Awaitable[Any]:
            if self._slots is None:
                raise _Lost
            return self._slots[key_slot(keys[0].encode())].ask(number, keys[0], arguments)

        return run

    # the talk with it

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._serve()
            except Exception as error:  # of whatever kind: nothing may end this task
                cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
                if not self._lost:
                    self._lost = True
                    why = " ".join(str(cause).split()) or f"no answer for {PATIENCE:g} seconds"
                    _log.warning("rate limits hold in this process alone: %s", why)
            await asyncio.sleep(PAUSE)

    async def _serve(self) -> None:
        """Connect and talk until something fails."""
        lines: dict[Any, _Line] = {}
        try:
            async with asyncio.timeout(_CONNECTING):
                asked = self._bus.connection(None)
                try:
                    owners = await owners_of(asked)
                finally:
                    await disconnect(asked)
                for _, _, address in owners:
                    lines[address] = lines.get(address) or _Line(self._bus.connection(address), self._answered)
                for line in lines.values():
                    await line.open(self._scripts)
            slots = [next(iter(lines.values()))] * REDIS_CLUSTER_HASH_SLOTS
            for first, last, address in owners:
                slots[first : last + 1] = [lines[address]] * (last - first + 1)
            async with asyncio.TaskGroup() as tasks:
                for line in lines.values():
                    tasks.create_task(line.send())
                    tasks.create_task(line.receive())
                self._slots = slots
        finally:
            self._slots = None
            for line in lines.values():
                await line.close()

    def _answered(self) -> None:
        """A script has been executed: it is permitted too."""
        if self._lost:
            self._lost = False
            _log.warning("rate limits hold in all processes again")


class _Line:
    """One connection: what is asked at the same time goes out together, and the answers come in order."""

    def __init__(self, connection: Any, answered: Callable[[], None]) -> None:
        self._connection = connection
        self._answered = answered
        self._hashes: list[str] = []
        self._commands: list[tuple[Any, ...]] = []  # to go out
        self._asked: deque[asyncio.Future[Any]] = deque()
        self._news, self._awaited = asyncio.Event(), asyncio.Event()
        self._closed = False

    async def open(self, scripts: Sequence[str]) -> None:
        await self._connection.connect()
        for script in scripts:
            await self._connection.send_command("SCRIPT LOAD", script)
            self._hashes.append((await self._connection.read_response()).decode())

    def ask(self, script: int, key: str, arguments: Sequence[float]) -> "asyncio.Future[Any]":
        """What a script answers."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(_Lost())
            return future
        self._commands.append(("EVALSHA", self._hashes[script], 1, key, *arguments))
        self._asked.append(future)
        self._news.set()
        self._awaited.set()
        return future

    async def send(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            commands, self._commands = self._commands, []
            await self._connection.send_packed_command(self._connection.pack_commands(commands))

    async def receive(self) -> None:
        while True:
            await self._awaited.wait()
            async with asyncio.timeout(PATIENCE):
                answer = await self._connection.read_response(disconnect_on_error=False)
            self._answered()
            future = self._asked.popleft()
            if not future.done():
                future.set_result(answer)
            if not self._asked:
                self._awaited.clear()

    async def close(self) -> None:
        self._closed = True
        for future in self._asked:
            if not future.done():
                future.set_exception(_Lost())
        self._asked.clear()
        with suppress(RedisError, OSError):
            await self._connection.disconnect()
