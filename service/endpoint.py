"""/graphql over HTTP and over graphql-transport-ws: who calls, how much may come in, and errors as JSON with codes."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from typing import Any

import msgspec
import starlette.websockets
from cross_web import HTTPException
from graphql import GraphQLError
from msgspec import Struct
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from strawberry.asgi import GraphQL
from strawberry.exceptions import MissingQueryError
from strawberry.http import GraphQLHTTPResponse, GraphQLRequestData
from strawberry.http.exceptions import WebSocketDisconnected
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import BaseGraphQLTransportWSHandler, Operation
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from domain.words import Foreign
from infra.store import Unavailable
from service import limits
from service.audience import Audiences, Shared
from service.auth import Context
from service.documents import declared, subscribes
from service.errors import UNAVAILABLE, ApiError, ErrorCode, coded, coded_all, is_ambiguous, status_of, told_codes
from service.onlookers import Onlookers
from service.rates import LEVELS, RateLimited, extensions
from service.schema import schema
from service.trusted import TrustedDocuments
from service.wire import EXTENSION, BoundedWebSocket
from service.words import Language, accepted, language_of, tell

CONNECTION_INIT_SECONDS = 10

_PRICE = "videau.price"
"""Where the scope of an HTTP request has what its operation costs."""

_ALLOWED = {"GET": {OperationType.QUERY}, "POST": {OperationType.QUERY, OperationType.MUTATION}}


class _Payload(Struct):
    query: str | None = None
    variables: dict[str, Any] | None = None
    operation_name: str | None = msgspec.field(name="operationName", default=None)
    extensions: dict[str, Any] | None = None
    document_id: Any = msgspec.field(name="documentId", default=None)


_payload = msgspec.json.Decoder(_Payload).decode


class _Subscribe(Struct, tag_field="type", tag="subscribe"):
    id: str
    payload: _Payload


class _Complete(Struct, tag_field="type", tag="complete"):
    id: str


class _Init(Struct, tag_field="type", tag="connection_init"):
    payload: dict[str, Any] | None = None


class _Ping(Struct, tag_field="type", tag="ping"):
    pass


class _Pong(Struct, tag_field="type", tag="pong"):
    pass


class _Handler(BaseGraphQLTransportWSHandler[Context, None]):
    """The protocol, with every message's form checked, the token in connection_init, and subscriptions in audiences."""

    view: "Endpoint"

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._lapsing: asyncio.Task[None] | None = None
        scope = given["websocket"].ws.scope
        self.wire: BoundedWebSocket | None = scope.get("extensions", {}).get(EXTENSION)
        if self.wire is not None:
            self.wire.on_drain = self._flush
            self.wire.is_answering = self._is_answering
        self._payloads: dict[str, _Payload] = {}
        self._told: dict[str, dict[str, Any]] = {}
        self._subscriptions: set[str] = set()

    async def handle_message(self, message: Any) -> None:
        try:
            read = msgspec.convert(message, _Subscribe | _Complete | _Init | _Ping | _Pong)
        except msgspec.ValidationError as error:
            await self.handle_invalid_message(f"not a graphql-transport-ws message: {error}")
            return
        if isinstance(read, _Init):
            try:
                if not self.connection_init_received:
                    self._speak((read.payload or {}).get("language"))
                    await self.context.rates.take_connection(self.context.address)
                    await self.context.enter(_authorization(read.payload or {}))
            except RateLimited as error:
                told_codes[error.code] += 1
                await self._close(4429, f"{error.code}: {tell(self.context.language, error.code, error.said)}")
                return
            except ApiError as error:
                told_codes[error.code] += 1
                reason = f"{error.code}: {tell(self.context.language, error.code, error.said)}"
                await self._close(1013 if status_of(error.code) == 503 else 4403, reason)
                return
            except Unavailable:
                await self._close(1013, f"UNAVAILABLE: {tell(self.context.language, 'UNAVAILABLE', UNAVAILABLE)}")
                return
            if self.context.caller is not None and self._lapsing is None:
                self._lapsing = asyncio.create_task(self._lapse())
            message = {"type": "connection_init", "payload": read.payload or {}}
        if isinstance(read, _Subscribe) and read.id in self.operations:
            await self._close(4409, f"Subscriber for {read.id} already exists")
            return
        if isinstance(read, _Subscribe) and len(self.operations) >= limits.OPERATIONS:
            too_many = ApiError(
                ErrorCode.TOO_MANY_OPERATIONS,
                "{most} operations are under way: complete one first",
                most=limits.OPERATIONS,
            )
            told = [coded(too_many, self.context.language).formatted]
            await self.websocket.send_json({"id": read.id, "type": "error", "payload": told})
            return
        if isinstance(read, _Subscribe):
            payload = read.payload
            if payload.document_id is not None:
                payload.extensions = {**(payload.extensions or {}), "documentId": payload.document_id}
            if payload.query is None:
                if not payload.extensions:
                    await self.handle_invalid_message("a subscribe message has a query, or a document's id")
                    return
                message = {**message, "payload": {**message["payload"], "query": ""}}
            self._payloads[read.id] = payload
        await super().handle_message(message)

    def _speak(self, language: object) -> None:
        """Tell the client what is wrong in the language that its connection_init asks for, like an Accept-Language."""
        if isinstance(language, str):
            self.context.language = accepted(language)
        if self.wire is not None:
            self.wire.language = self.context.language

    async def shutdown(self) -> None:
        if self._lapsing is not None:
            self._lapsing.cancel()
        await super().shutdown()

    async def _lapse(self) -> None:
        """Close when the caller's token can be used no more."""
        error = await self.context.lapse()
        try:
            await self._close(4403, f"{error.code}: {tell(self.context.language, error.code, error.said)}")
        except Exception as gone:
            await self.handle_task_exception(gone)

    async def run_operation(self, operation: Operation[Context, None]) -> None:
        watcher: Shared | None = None
        try:
            await self._admit(operation, self._payloads.pop(operation.id))
        except (GraphQLError, Unavailable) as error:
            refusal = error if isinstance(error, GraphQLError) else GraphQLError(str(error), original_error=error)
            try:
                await operation.send_initial_errors([coded(refusal, self.context.language)])
            except Exception as failure:
                await self.handle_task_exception(failure)
            return
        try:
            if self.wire is not None:
                given = self, self.wire, self.context, operation
                watcher = await self.view.audiences.watcher(*given) or await self.view.onlookers.onlooker(*given)
        except Exception as error:
            await self.handle_task_exception(error)
        if watcher is None:
            await super().run_operation(operation)
        else:
            self.operations[operation.id] = watcher  # type: ignore[assignment] # an id in use, with or without a task
            await watcher.catch_up()

    async def _admit(self, operation: Operation[Context, None], payload: _Payload) -> None:
        """Find the text of an operation, and count it, before it is executed. Raises ApiError, Unavailable."""
        view, context = self.view, self.context
        try:
            operation.query = await view.text_of(context, payload.query, payload.extensions) or ""
        except ApiError:
            await context.count(1)
            raise
        price = limits.price_of(operation.query, operation.operation_name)
        levels = await context.count(price.units, price.registrations)
        view.check(price)
        if price.subscribes:
            _lighten(operation)
        if not price.subscribes:
            self._told[operation.id] = extensions(price, levels)
        elif context.viewer is not None:
            if view.subscriptions[context.viewer] >= limits.SUBSCRIPTIONS:
                raise ApiError(
                    ErrorCode.TOO_MANY_SUBSCRIPTIONS,
                    "you have {most} subscriptions: complete one first",
                    most=limits.SUBSCRIPTIONS,
                )
            view.subscriptions[context.viewer] += 1
            self._subscriptions.add(operation.id)

    async def _send_result_stream(self, operation: Operation[Context, None], result_source: Any) -> None:
        told = self._told.pop(operation.id, None)
        await super()._send_result_stream(operation, _telling(told, result_source) if told else result_source)

    def forget_id(self, id: str) -> None:
        super().forget_id(id)
        self._forget(id)

    def _forget(self, id: str) -> None:
        """An operation is over: it counts no more."""
        self._told.pop(id, None)
        self._payloads.pop(id, None)
        if id in self._subscriptions:
            self._subscriptions.discard(id)
            subscriptions, player = self.view.subscriptions, self.context.viewer or ""
            subscriptions[player] -= 1
            if not subscriptions[player]:
                del subscriptions[player]

    async def cleanup_operation(self, operation_id: str) -> None:
        operation = self.operations.get(operation_id)
        if operation is not None:
            self._forget(operation_id)
        if isinstance(operation, Shared):
            del self.operations[operation_id]
            operation.leave()
        else:
            await super().cleanup_operation(operation_id)

    def _flush(self) -> None:
        """The client reads again."""
        for operation in list(self.operations.values()):
            if isinstance(operation, Shared):
                operation.flush()

    def _is_answering(self) -> bool:
        """Whether a query or a command is under way."""
        return any(not (isinstance(each, Shared) or subscribes(each.query)) for each in self.operations.values())

    async def handle_task_exception(self, error: Exception) -> None:
        """Log it, unless it is only that the client has gone."""
        if not isinstance(error, WebSocketDisconnected | starlette.websockets.WebSocketDisconnected):
            await super().handle_task_exception(error)

    async def handle_invalid_message(self, error_message: str) -> None:
        await self._close(4400, error_message)

    async def _close(self, code: int, reason: str) -> None:
        """Close with a reason, which has at most 123 bytes (RFC 6455, 5.5)."""
        await self.websocket.close(code, reason.encode()[:120].decode(errors="ignore"))

    @staticmethod
    def _get_pre_execution_close_reason(error: GraphQLError) -> str | None:
        """None: a query that cannot be read costs its own operation, and not the others on the socket."""
        return None


def _lighten(operation: Operation[Context, None]) -> None:
    """Leave of a subscription only what is used, for it is kept as long as it lasts. Raises ApiError QUERY_TOO_LONG."""
    names = declared(operation.query, operation.operation_name)
    operation.variables = {name: value for name, value in (operation.variables or {}).items() if name in names}
    size = len(operation.query) + len(msgspec.json.encode(operation.variables))
    if size > limits.SUBSCRIPTION_BYTES:
        raise ApiError(
            ErrorCode.QUERY_TOO_LONG,
            "this subscription has {size} bytes with its variables; at most {most} can be",
            size=size,
            most=limits.SUBSCRIPTION_BYTES,
        )


def _authorization(payload: dict[str, Any]) -> str | None:
    """The `authorization` of a connection_init payload, in whatever case it is written."""
    found = [value for name, value in payload.items() if name.lower() == "authorization"]
    return str(found[0]) if found else None


async def _telling(told: dict[str, Any], results: Any) -> AsyncGenerator[Any]:
    """The results of an operation, each with what is told of it beside."""
    async for result in results:
        if isinstance(result, ExecutionResult):
            result.extensions = {**(result.extensions or {}), **told}
        yield result


class Endpoint(GraphQL[Context, None]):
    """The GraphQL endpoint of an app."""

    graphql_transport_ws_handler_class = _Handler

    def __init__(
        self,
        new_context: Callable[[HTTPConnection], Context],
        allowed_origins: tuple[str, ...] = (),
        *,
        introspection: bool = True,
    ) -> None:
        super().__init__(
            schema,
            graphql_ide=None,
            subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,),
            connection_init_wait_timeout=timedelta(seconds=CONNECTION_INIT_SECONDS),
            max_subscriptions_per_connection=None,  # _Handler counts them, and says so with a code
            allowed_origins=allowed_origins,
        )
        self.audiences = Audiences(schema)
        self.onlookers = Onlookers(schema)
        self.documents: TrustedDocuments | None = None
        """Where documents are found that are sent by their hash."""
        self.subscriptions = Counter[str]()
        """How many subscriptions each player has at this process."""
        self.websockets = 0
        """How many are open."""
        self._new_context = new_context
        self._introspection = introspection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            self.websockets += 1
            try:
                await super().__call__(scope, receive, send)
            finally:
                self.websockets -= 1
            return
        request = Request(scope, _bounded(receive))
        try:
            check_encoding(request)
            response = await self.run(request)
        except ClientDisconnect:
            return
        except _TooLarge:
            too_large = ApiError(
                ErrorCode.BODY_TOO_LARGE, "a request's body has at most {most} bytes", most=limits.BODY_BYTES
            )
            response = await self._refusal(request, 413, too_large)
        except ApiError as error:
            response = await self._refusal(request, 415, error)
        except HTTPException as error:
            unclear = ApiError(ErrorCode.BAD_REQUEST, Foreign(error.reason))
            response = await self._refusal(request, error.status_code, unclear)
        await response(scope, receive, send)

    async def _refusal(self, request: Request, status: int, error: ApiError) -> Response:
        """The answer to what is no operation; it counts all the same, for nobody may send that without end."""
        language = language_of(request.headers)
        headers = _spoken(language)
        context = self._new_context(request)
        if not request.scope.get(LEVELS):
            try:
                await context.count(limits.NOTHING.units)
            except RateLimited as limited:
                status, error = 429, limited
                headers |= {"retry-after": str(limited.retry_after)}
        told = extensions(limits.NOTHING, context.levels or ())
        body = msgspec.json.encode({"data": None, "errors": [coded(error, language).formatted], "extensions": told})
        return Response(body, status, headers, media_type="application/json")

    async def text_of(self, context: Context, query: str | None, given: dict[str, Any] | None) -> str | None:
        """The text that a request stands for; see TrustedDocuments."""
        if self.documents is None or (query is not None and not context.app):
            return query
        return await self.documents.text_of(context.app, query, given)

    def check(self, price: limits.Price) -> None:
        """Raises ApiError FORBIDDEN for who asks for the schema where that is off."""
        if price.introspects and not self._introspection:
            raise ApiError(ErrorCode.FORBIDDEN, "this server does not tell its schema: read openapi/schema.graphql")

    async def get_context(self, request: Request | WebSocket, response: Response | WebSocket) -> Context:
        context = self._new_context(request)
        context.language = language_of(request.headers)
        context.traceparent = request.headers.get("traceparent")
        if isinstance(response, Response):
            response.headers.update(_spoken(context.language))
        return context

    def should_render_graphql_ide(self, request: Any) -> bool:
        if request.method != "GET" or "documentId" in request.query_params or "extensions" in request.query_params:
            return False
        return super().should_render_graphql_ide(request)

    async def parse_http_body(self, request: Any) -> GraphQLRequestData:
        """The operation that is asked for, with the `documentId` of one without a query among its extensions."""
        try:
            if request.method == "GET":
                read = msgspec.convert(self.parse_query_params(request.query_params), _Payload)
            elif (request.content_type or "").partition(";")[0].strip().lower() == "application/json":
                read = _payload(await request.get_body())
            else:
                raise HTTPException(400, "The request body is JSON: send it as application/json")
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise HTTPException(400, f"Unable to read the request: {error}") from error
        given = read.extensions
        if read.query is None and read.document_id is not None:
            given = {**(given or {}), "documentId": read.document_id}
        return GraphQLRequestData(read.query, read.variables, read.operation_name, given)

    async def execute_operation(self, *args: Any, **kwargs: Any) -> Any:
        request, context = kwargs["request"], kwargs["context"]
        try:
            await context.enter(request.headers.get("authorization"))
        except RateLimited as error:
            return _limited(error, kwargs["sub_response"])
        except GraphQLError as error:
            status = status_of(str((error.extensions or {}).get("code")))
            kwargs["sub_response"].status_code = status
            if status == 503:
                kwargs["sub_response"].headers["retry-after"] = str(limits.RETRY_AFTER)
            return ExecutionResult(data=None, errors=[error])
        except Unavailable as error:
            kwargs["sub_response"].status_code = 503
            kwargs["sub_response"].headers["retry-after"] = str(limits.RETRY_AFTER)
            return ExecutionResult(data=None, errors=[GraphQLError(str(error), original_error=error)])
        return await super().execute_operation(*args, **kwargs)

    async def execute_single(self, *args: Any, **kwargs: Any) -> ExecutionResult:
        """As it is, but that subscriptions are for websockets, and an unclear request has status 400."""
        data: GraphQLRequestData = kwargs["request_data"]
        method = kwargs["request_adapter"].method
        context: Context = kwargs["context"]
        price = limits.NOTHING
        try:
            try:
                query = await self.text_of(context, data.query, data.extensions)
                if query is not None:
                    price = kwargs["request"].scope[_PRICE] = limits.price_of(query, data.operation_name)
            finally:
                await context.count(price.units, price.registrations)
            self.check(price)
        except RateLimited as error:
            return _limited(error, kwargs["sub_response"])
        except (ApiError, Unavailable) as error:
            refusal = error if isinstance(error, ApiError) else GraphQLError(str(error), original_error=error)
            return ExecutionResult(data=None, errors=[refusal])
        try:
            result = await self.schema.execute(
                query,
                variable_values=data.variables,
                context_value=kwargs["context"],
                operation_name=data.operation_name,
                allowed_operation_types=_ALLOWED[method],
                operation_extensions=data.extensions,
            )
        except CannotGetOperationTypeError as error:
            raise HTTPException(400, error.as_http_error_reason()) from error
        except InvalidOperationTypeError as error:
            raise HTTPException(400, error.as_http_error_reason(method)) from error
        except MissingQueryError as error:
            raise HTTPException(400, "No GraphQL query found in the request") from error
        if result.errors and any(isinstance(error.original_error, Unavailable) for error in result.errors):
            kwargs["sub_response"].headers["retry-after"] = str(limits.RETRY_AFTER)
        if result.errors and result.data is None and is_ambiguous(result.errors[0]):
            kwargs["sub_response"].status_code = 400
        return result

    async def process_result(self, request: Request, result: ExecutionResult) -> GraphQLHTTPResponse:
        if result.errors:
            result.errors = coded_all(result.errors, language_of(request.headers))
        told = extensions(request.scope.get(_PRICE, limits.NOTHING), request.scope.get(LEVELS, ()))
        result.extensions = {**(result.extensions or {}), **told}
        return await super().process_result(request, result)

    def decode_json(self, data: str | bytes) -> object:
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise json.JSONDecodeError(str(error), "", 0) from error

    def encode_json(self, data: object) -> str:
        return msgspec.json.encode(data).decode()


def _spoken(language: Language) -> dict[str, str]:
    """The headers of a response that is in that language."""
    return {"content-language": language.value, "vary": "accept-language"}


def _limited(error: RateLimited, response: Response) -> ExecutionResult:
    response.status_code = 429
    response.headers["retry-after"] = str(error.retry_after)
    return ExecutionResult(data=None, errors=[error])


class _TooLarge(Exception):
    """More came in than a body may have."""


def check_encoding(request: Request) -> None:
    """Raises ApiError for a compressed body, which could be of any size: none is ever unpacked."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(ErrorCode.BAD_REQUEST, "a request's body is sent as it is, without a content-encoding")


def _bounded(receive: Receive) -> Receive:
    """The same stream, which stops with _TooLarge where it is longer than a body may be."""
    left = limits.BODY_BYTES

    async def bounded() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise _TooLarge
        return message

    return bounded
