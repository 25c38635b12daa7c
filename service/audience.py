"""Audiences: identical subscriptions to the events of a match, executed and encoded once for all who sent them.

Subscriptions are identical when their document, operation, variables, match and language are, and what their viewers
may see: who has a seat, or could take one, is an audience of its own; all others see what an anonymous caller sees.
Only where they begin (`after`) may differ. An audience runs the plain execution once, keeps its newest payloads, and
writes them to the sockets itself. Who is behind those payloads is served by an execution of its own until it has caught
up.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
from strawberry.schema import BaseSchema
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import Operation
from strawberry.types.execution import ExecutionResult, PreExecutionError

from domain.breach import RuleError
from domain.match import Match
from infra import traces
from infra.histogram import Histogram
from infra.store import Unavailable
from service.auth import Context
from service.documents import form_of
from service.errors import ApiError, logger
from service.windows import STEPS, Step
from service.wire import BoundedWebSocket, text_frame

PAYLOAD_BYTES = 262_144
"""What an audience keeps of its newest payloads, of which there are as many as steps in a window."""

CHUNK = 250
"""Sockets written to before others have their turn."""

TURNS = 4
"""Watchers that catch up by an execution of their own at the same time, so that they delay nobody else much."""


class Socket(Protocol):
    """The operations of one websocket, one of which a watcher is."""

    def forget_id(self, id: str) -> None:
        """The operation is over and its id free."""


class Shared(ABC):
    """A subscription of one socket that shares its execution with others. It has no queue."""

    __slots__ = ("id", "prefix", "socket", "task", "wire")

    def __init__(self, socket: Socket, wire: BoundedWebSocket, id: str) -> None:
        self.socket = socket
        self.wire = wire
        self.id = id
        self.prefix = b'{"id":' + msgspec.json.encode(id) + b',"type":"next","payload":'
        """How its `next` messages begin."""
        self.task: asyncio.Task[Any] | None = None
        """What serves it while it is not served with the others."""

    @abstractmethod
    async def catch_up(self) -> None:
        """Begin."""

    @abstractmethod
    def flush(self) -> None:
        """Write what there is for it, as far as the socket takes it."""

    @abstractmethod
    def leave(self) -> None:
        """Watch no more."""

    def complete(self) -> None:
        """Tell the client that there is no more."""
        self.socket.forget_id(self.id)
        self.wire.transport.write(text_frame(msgspec.json.encode({"id": self.id, "type": "complete"})))


class Watcher(Shared):
    """A subscription to the events of a match: its place in the audience."""

    __slots__ = ("audience", "cursor", "gone")

    def __init__(self, audience: "Audience", socket: Socket, wire: BoundedWebSocket, id: str, after: int) -> None:
        super().__init__(socket, wire, id)
        self.audience = audience
        self.gone: Callable[[], None] | None = None
        """Called once when it watches no more: a player is not there any longer."""
        self.cursor = after
        self.task = asyncio.current_task()

    def leave(self) -> None:
        """Watch no more."""
        self.audience.leave(self)
        self._is_gone()
        if self.task is not None:
            self.task.cancel()

    def _is_gone(self) -> None:
        if self.gone is not None:
            self.gone()
            self.gone = None

    def flush(self) -> None:
        """Write what the audience has for it, as far as the socket takes it, and at the end that it is complete."""
        audience = self.audience
        while self.task is None and self.wire.ready and self.cursor < audience.newest:
            payload = audience.payload(self.cursor + 1)
            if payload is None:
                self.task = asyncio.create_task(self.catch_up())
            else:
                self._write(payload)
        if self.task is None and self.wire.ready and audience.over:
            self._complete()

    async def catch_up(self) -> None:
        """Be served by an execution of its own until the audience has what comes next; then by the audience."""
        over = False
        try:
            while not over and not self.audience.has_next(self.cursor):
                over = await self._served_alone()
        except Exception as error:
            over = True
            about = {"match": self.audience.subscription.match_id}
            logger.error("unforeseen error of a watcher", exc_info=error, extra=about)
        if over:
            await self.wire.writable.wait()
        self.task = None
        if not over:
            self.flush()
        elif self.wire.ready:
            self._complete()

    async def _served_alone(self) -> bool:
        """Whether all there is has been sent."""
        audience = self.audience
        async with aclosing(await audience.execute(self.cursor)) as results:
            while not audience.has_next(self.cursor):
                async with audience.house.turns:
                    result = await anext(results, None)
                await self.wire.writable.wait()
                if result is None or not self.wire.ready:
                    return True
                self._write(encoded(result))
        return False

    def _write(self, payload: bytes) -> None:
        self.cursor += 1
        self.wire.transport.write(next_frame(self.prefix, payload))

    def _complete(self) -> None:
        self.audience.leave(self)
        self._is_gone()
        self.complete()


class Audience:
    """The watchers of one execution, and its newest payloads, numbered as the events are."""

    def __init__(self, house: "Audiences", subscription: "_Subscription", after: int, known: int) -> None:
        self.house = house
        self.subscription = subscription
        self.newest = after
        self.over = False
        """Whether there will be no payload after the newest."""
        self.accepted = False
        """Whether the execution has begun without an error."""
        self._payloads: deque[bytes] = deque()
        self._size = 0
        self._watchers: dict[Watcher, None] = {}
        self._decided = asyncio.Event()
        self._playing = asyncio.create_task(self._play())
        self._known = known
        """The newest event when it began: those after it are news."""

    def __len__(self) -> int:
        return len(self._watchers)

    @property
    def behind(self) -> int:
        """Events that this process knows and that have not been delivered."""
        _, newest = self.subscription.context.table.windows.at(self.subscription.match_id, 0)
        return max(newest - self.newest, 0)

    def _traced(self) -> AbstractContextManager[object]:
        """A span around the delivery of the newest event, in the trace of the command that it is of."""
        what, seq = self.subscription, self.newest
        trace = what.context.table.windows.trace(what.match_id, seq)
        if trace is None:
            return nullcontext()
        return traces.within("deliver", trace, match=what.match_id, seq=seq, watchers=len(self))

    def _delivered(self) -> None:
        """Note how old the newest event is now that it has been written to all who could take it."""
        what = self.subscription
        if self.newest > self._known and self._watchers:
            at, _ = what.context.table.windows.at(what.match_id, self.newest)
            if at is not None:
                self.house.delays.observe((datetime.now(UTC) - at).total_seconds())

    def join(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def leave(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)
        if not self._watchers and not self.over:
            self.house.close(self)
            self._playing.cancel()
            del self._playing  # what has cancelled it refers to its frames, and they to this audience

    async def begun(self) -> bool:
        """Whether it is accepted, once that is known."""
        await self._decided.wait()
        return self.accepted

    async def execute(self, after: int, accepted: Callable[[], None] = lambda: None) -> AsyncGenerator[Any]:
        """The results after a number, by a plain execution; calls back when it has begun without an error."""
        return await self.house.execute(self.subscription, after, accepted)

    def payload(self, number: int) -> bytes | None:
        """The payload of a number, if it is still here."""
        index = number - (self.newest - len(self._payloads)) - 1
        return self._payloads[index] if 0 <= index < len(self._payloads) else None

    def has_next(self, cursor: int) -> bool:
        """Whether what comes after a number is here, or comes next."""
        return cursor >= self.newest - len(self._payloads)

    async def _play(self) -> None:
        what = self.subscription
        try:
            with what.context.table.apart.one(what.match_id, what.context.address):
                await self._play_all()
        except ApiError:
            pass  # it is told to whoever executes it plainly
        except Exception as error:
            about = {"match": what.match_id}
            logger.error("unforeseen error of an audience", exc_info=error, extra=about)
        finally:
            self.over = True
            self._decided.set()
            self.house.close(self)
        await self._deliver()

    async def _play_all(self) -> None:
        async with aclosing(await self.execute(self.newest, self._accept)) as results:
            async for result in results:
                if isinstance(result, PreExecutionError):
                    return
                self._add(encoded(result))
                with self._traced():
                    await self._deliver()
                self._delivered()
                if merged := self.house.merged(self):
                    self._move(merged)
                    return

    def _move(self, to: "Audience") -> None:
        """All watchers go on in another audience."""
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher.audience = to
            to.join(watcher)
            watcher.flush()

    def _accept(self) -> None:
        self.accepted = True
        self._decided.set()

    def _add(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self._size += len(payload)
        self.newest += 1
        while len(self._payloads) > 1 and (len(self._payloads) > STEPS or self._size > PAYLOAD_BYTES):
            self._size -= len(self._payloads.popleft())

    async def _deliver(self) -> None:
        """Write what is new to all who wait for it, without waiting for any of them."""
        newest, over = self.newest, self.over
        payload = self._payloads[-1] if self._payloads else b""
        prefix = frame = b""
        for number, watcher in enumerate(list(self._watchers), 1):
            wire = watcher.wire
            if watcher not in self._watchers:
                pass  # it left in the meantime
            elif watcher.cursor == newest - 1 and watcher.task is None and wire.ready and not over:
                if prefix != watcher.prefix:
                    prefix = watcher.prefix
                    frame = next_frame(prefix, payload)
                watcher.cursor = newest
                wire.transport.write(frame)
            else:
                watcher.flush()
            if number % CHUNK == 0:
                await asyncio.sleep(0)


class _Subscription(NamedTuple):
    """What an audience has in common: the context is that of all who see the same."""

    query: str
    operation_name: str | None
    variables: dict[str, Any] | None
    distinct: bytes
    """The variables that make it another subscription than the next one: those beside `after`."""
    match_id: str
    context: Context

    @property
    def key(self) -> tuple[object, ...]:
        context = self.context
        return self.query, self.operation_name, self.distinct, self.match_id, context.viewer, context.language


class Audiences:
    """The audiences of a process."""

    def __init__(self, schema: BaseSchema) -> None:
        self.turns = asyncio.Semaphore(TURNS)
        self._schema = schema
        self._audiences: dict[tuple[object, ...], Audience] = {}
        self.delays = Histogram()
        """How old each event was when it had been written to all of its audience."""

    def __len__(self) -> int:
        return len(self._audiences)

    @property
    def watchers(self) -> int:
        """Subscriptions that share an execution."""
        return sum(map(len, self._audiences.values()))

    @property
    def behind(self) -> int:
        """Events that this process knows and that have not been delivered, of the audience that has the most."""
        return max((audience.behind for audience in self._audiences.values()), default=0)

    async def watcher(
        self, socket: Socket, wire: BoundedWebSocket, context: Context, operation: Operation[Context, None]
    ) -> Watcher | None:
        """The operation's place in its audience; None where it must be executed plainly, which says what is wrong."""
        query, name, variables = operation.query, operation.operation_name, operation.variables
        form = form_of(query, name)
        sent = form.read(variables or {}) if form else None
        if sent is None:
            return None
        match_id, after, distinct = sent
        try:
            head = await context.table.watchable(match_id, after, context.viewer)
        except (RuleError, Unavailable):
            return None
        if head.match.ended:
            return None
        seen = replace(context, viewer=_visibility(head.match, context.viewer))
        begin = after if head.version - after <= STEPS else head.version
        audience = self._audience(_Subscription(query, name, variables, distinct, match_id, seen), begin, head.version)
        watcher = Watcher(audience, socket, wire, operation.id, after)
        audience.join(watcher)
        try:
            if await audience.begun():
                if context.viewer and head.match.seat_of(context.viewer):
                    context.table.notices.enter(match_id, context.viewer)
                    watcher.gone = partial(context.table.notices.leave, match_id, context.viewer)
                return watcher
        except asyncio.CancelledError:
            watcher.audience.leave(watcher)
            raise
        watcher.audience.leave(watcher)
        return None

    async def execute(self, what: _Subscription, after: int, accepted: Callable[[], None]) -> AsyncGenerator[Any]:
        """The results of a subscription after a number, by a plain execution."""
        seen = what.context
        context = _Resumed(seen.table, seen.tokens, seen.viewer, language=seen.language, after=after, accepted=accepted)
        return await self._schema.stream(
            what.query,
            variable_values=what.variables,
            context_value=context,
            operation_name=what.operation_name,
        )

    def merged(self, audience: Audience) -> Audience | None:
        """The audience of all who only watch, for one that could have taken a seat and can no more."""
        what = audience.subscription
        viewer = what.context.viewer
        match = what.context.table.windows.newest(what.match_id) if viewer else None
        if match is None or _visibility(match, viewer) == viewer:
            return None
        return self._audience(
            what._replace(context=replace(what.context, viewer=None)), audience.newest, audience.newest
        )

    def close(self, audience: Audience) -> None:
        """Nobody joins it any more."""
        if self._audiences.get(audience.subscription.key) is audience:
            del self._audiences[audience.subscription.key]

    def _audience(self, what: _Subscription, begin: int, known: int) -> Audience:
        """The audience of a subscription; a new one begins after a number, and what comes after another is news."""
        if what.key not in self._audiences:
            self._audiences[what.key] = Audience(self, what, begin, known)
        return self._audiences[what.key]


@dataclass
class _Resumed(Context):
    """The context of an execution that goes on after a number, whatever its argument says."""

    _: KW_ONLY
    after: int
    accepted: Callable[[], None]

    def watch(self, match_id: str, after: int) -> AsyncGenerator[Step]:
        self.accepted()
        return self.table.windows.steps(match_id, self.after)


def _visibility(match: Match, viewer: str | None) -> str | None:
    """As whom a viewer sees the match, now and later: as itself who sits or can sit there, else as nobody (None)."""
    return viewer if viewer and (match.seat_of(viewer) or not (match.white and match.black)) else None


def encoded(result: ExecutionResult) -> bytes:
    """The payload of a `next` message, as a plain execution has it."""
    payload: dict[str, Any] = {"data": result.data}
    if result.errors:
        payload["errors"] = [error.formatted for error in result.errors]
    if result.extensions:
        payload["extensions"] = result.extensions
    return msgspec.json.encode(payload)


def next_frame(prefix: bytes, payload: bytes) -> bytes:
    """A `next` message with a payload, as it goes to a client."""
    return text_frame(b"".join((prefix, payload, b"}")))
