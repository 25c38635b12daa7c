"""Onlookers: identical subscriptions to a lobby, each change executed and encoded once for all who sent them.

Subscriptions are identical when their document, operation, variables, app and language are, and their viewer, unless
nothing that is asked for can depend on it. What an onlooker is told next follows from what it has seen last and what
the lobby shows now: nearly all have seen the same, those who come begin with all there is, and who does not read for a
while is told all that has changed meanwhile at once.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

from graphql import FieldNode, GraphQLSchema, TypeInfo, TypeInfoVisitor, Visitor, visit
from strawberry import Schema
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import Operation
from strawberry.types.execution import ExecutionResult

from infra.store import Unavailable
from service.audience import CHUNK, Shared, Socket, encoded, next_frame
from service.auth import Context
from service.documents import lobby_form_of
from service.errors import ApiError, logger
from service.limits import parsed, remembered
from service.lobby import CHANNEL, Hall, LobbyChange, Sight
from service.wire import BoundedWebSocket

_ALIKE = frozenset({"Subscription.lobby", "Seek.player", "Seat.player", "Player.rating", "Seat.presence"})
"""Fields that are given who asks, and answer all alike."""


class Onlooker(Shared):
    """A subscription to a lobby, and what it has seen last."""

    __slots__ = ("_begun", "crowd", "seen")

    def __init__(self, crowd: "Crowd", socket: Socket, wire: BoundedWebSocket, id: str) -> None:
        super().__init__(socket, wire, id)
        self.crowd = crowd
        self.seen: Sight | None = None
        self._begun = False

    @property
    def ready(self) -> bool:
        """Whether it can be told something now."""
        return self._begun and self.wire.ready

    async def catch_up(self) -> None:
        self._begun = True
        self.flush()

    def flush(self) -> None:
        self.crowd.flush(self)

    def leave(self) -> None:
        self.crowd.leave(self)


class _Subscription(NamedTuple):
    """What a crowd has in common: the context is that of all who see the same."""

    query: str
    operation_name: str | None
    variables: dict[str, Any] | None
    distinct: bytes
    """The variables, as JSON."""
    app: str
    """Whose lobby it is."""
    context: Context

    @property
    def key(self) -> tuple[object, ...]:
        context = self.context
        return self.query, self.operation_name, self.distinct, self.app, context.viewer, context.app, context.language


class Crowd:
    """All onlookers of one subscription."""

    def __init__(self, house: "Onlookers", what: _Subscription) -> None:
        self.what = what
        self.news = asyncio.Event()
        """Set when there may be something to tell."""
        self.accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Whether it is executed without an error of the request."""
        self._house = house
        self._onlookers: dict[Onlooker, None] = {}
        self._over = False
        self._last: bytes | None = None
        """What all are told in the end."""
        self._showing: asyncio.Task[None] | None = asyncio.create_task(self._show())

    def __len__(self) -> int:
        return len(self._onlookers)

    def join(self, onlooker: Onlooker) -> None:
        self._onlookers[onlooker] = None

    def leave(self, onlooker: Onlooker) -> None:
        self._onlookers.pop(onlooker, None)
        if not self._onlookers and self._showing is not None:
            self._house.close(self)
            self._showing.cancel()
            self._showing = None  # what has cancelled it refers to its frames, and they to this crowd

    def flush(self, onlooker: Onlooker) -> None:
        """Show an onlooker what it has not seen, or that there is no more, as soon as it reads."""
        if not self._over:
            self.news.set()
        elif onlooker.ready:
            if self._last is not None:
                onlooker.wire.transport.write(next_frame(onlooker.prefix, self._last))
            self.leave(onlooker)
            onlooker.complete()

    async def _show(self) -> None:
        what = self.what
        try:
            table = what.context.table
            with (
                table.apart.one(CHANNEL, what.context.address),
                table.lobby.watched(what.app, self.news, self._onlookers) as hall,
            ):
                await self._show_all(hall)
        except _Unshown as unshown:
            self._last = unshown.told
        except ApiError:
            pass  # it is told to whoever executes it plainly
        except Exception as error:
            logger.error("unforeseen error of a lobby", exc_info=error)
        finally:
            self._over = True
            self._house.close(self)
            if not self.accepted.done():
                self.accepted.set_result(False)
        for onlooker in list(self._onlookers):
            self.flush(onlooker)

    async def _show_all(self, hall: Hall) -> None:
        """Show all who can see it what they have not seen, whenever there is something. Raises _Unshown."""
        while (sight := hall.sight) is None:
            await self.news.wait()
            self.news.clear()
        payloads: dict[int, bytes | None] = {0: await self._payload(hall.change(None, sight))}
        self.accepted.set_result(True)
        while True:
            await self.news.wait()
            self.news.clear()
            if hall.sight is not None and hall.sight is not sight:
                sight, payloads = hall.sight, {}
            for number, onlooker in enumerate(list(self._onlookers), 1):
                if onlooker.seen is not sight and onlooker.ready:
                    past = onlooker.seen.number if onlooker.seen else 0
                    if past not in payloads:
                        change = hall.change(onlooker.seen, sight)
                        payloads[past] = await self._payload(change) if not past or any(change) else None
                    self._tell(onlooker, sight, payloads[past])
                if number % CHUNK == 0:
                    await asyncio.sleep(0)

    def _tell(self, onlooker: Onlooker, sight: Sight, payload: bytes | None) -> None:
        if payload is None:
            onlooker.seen = sight
        elif onlooker in self._onlookers and onlooker.ready:  # also after the payload was made
            onlooker.seen = sight
            onlooker.wire.transport.write(next_frame(onlooker.prefix, payload))

    async def _payload(self, change: LobbyChange) -> bytes:
        """What a change is told in, by a plain execution. Raises _Unshown if there is nothing of it in that."""
        what, seen = self.what, self.what.context
        context = _Shown(seen.table, seen.tokens, seen.viewer, language=seen.language, app=seen.app, change=change)
        self._house.executions += 1
        results = await self._house.schema.stream(
            what.query,
            variable_values=what.variables,
            context_value=context,
            operation_name=what.operation_name,
        )
        async with aclosing(results):
            result = await anext(results)
        assert isinstance(result, ExecutionResult)
        if result.data is None:
            raise _Unshown(encoded(result))
        return encoded(result)


class _Unshown(Exception):
    """Why a change cannot be shown, as a payload. What comes next would hide that it is missing."""

    def __init__(self, told: bytes) -> None:
        super().__init__(told)
        self.told = told


class Onlookers:
    """Whoever looks at lobbies at a process."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.executions = 0
        """How often something was executed for a crowd."""
        self._crowds: dict[tuple[object, ...], Crowd] = {}

    def __len__(self) -> int:
        return len(self._crowds)

    async def onlooker(
        self, socket: Socket, wire: BoundedWebSocket, context: Context, operation: Operation[Context, None]
    ) -> Onlooker | None:
        """The operation's place in its crowd; None where it must be executed plainly, which says what is wrong."""
        query, name, variables = operation.query, operation.operation_name, operation.variables
        form = lobby_form_of(query, name)
        sent = form.read(variables or {}) if form else None
        if sent is None:
            return None
        try:
            app = await context.lobby_app(sent[0])
        except (ApiError, Unavailable):
            return None
        viewer = None if _alike(self.schema._schema, query) else context.viewer
        what = _Subscription(query, name, variables, sent[1], app, replace(context, viewer=viewer))
        crowd = self._crowds.get(what.key)
        if crowd is None:
            crowd = self._crowds[what.key] = Crowd(self, what)
        onlooker = Onlooker(crowd, socket, wire, operation.id)
        crowd.join(onlooker)
        try:
            if await asyncio.shield(crowd.accepted):
                return onlooker
        except asyncio.CancelledError:
            crowd.leave(onlooker)
            raise
        crowd.leave(onlooker)
        return None

    def close(self, crowd: Crowd) -> None:
        """Nobody joins it any more."""
        if self._crowds.get(crowd.what.key) is crowd:
            del self._crowds[crowd.what.key]


@dataclass
class _Shown(Context):
    """The context of an execution for one change."""

    _: KW_ONLY
    change: LobbyChange

    async def lobby(self, app: str | None) -> AsyncGenerator[LobbyChange]:
        yield self.change


@remembered
def _alike(schema: GraphQLSchema, query: str) -> bool:
    """Whether nothing that a document asks for depends on who asks: fields that could are taken for such that do."""
    types = TypeInfo(schema)
    curious = _Curious(types)
    visit(parsed(query), TypeInfoVisitor(types, curious))
    return not curious.found


class _Curious(Visitor):
    """Finds fields that are given who asks."""

    def __init__(self, types: TypeInfo) -> None:
        super().__init__()
        self.found = False
        self._types = types

    def enter_field(self, node: FieldNode, *_: object) -> None:
        field = self._types.get_field_def()
        written = field.extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF) if field else None
        resolver = written.base_resolver if written else None
        known = written is not None or node.name.value == "__typename"
        name = f"{self._types.get_parent_type()}.{node.name.value}"
        given = resolver is not None and resolver.info_parameter is not None and name not in _ALIKE
        self.found |= given or not known
