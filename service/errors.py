"""What is wrong with a request rather than with a command: GraphQL errors, each with a code from a closed list."""

import logging
from collections.abc import Iterator
from enum import StrEnum

from graphql import GraphQLError, GraphQLSyntaxError
from strawberry.exceptions import MissingQueryError
from strawberry.extensions import SchemaExtension
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types import ExecutionResult, StreamExecutionResult

from domain.breach import RuleError
from infra.store import Unavailable

logger = logging.getLogger("videau")


MOST_ERRORS = 10
"""Errors told at once: a request with thousands of faults is not answered with thousands of them."""

LONGEST_MESSAGE = 500


class ErrorCode(StrEnum):
    """`extensions.code` of every GraphQL error, beside the refusal codes (domain/breach.py)."""

    BAD_REQUEST = "BAD_REQUEST"
    BAD_INPUT = "BAD_INPUT"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    BAD_FILE = "BAD_FILE"
    NOT_EXPRESSIBLE = "NOT_EXPRESSIBLE"
    PARSE_FAILED = "PARSE_FAILED"
    VALIDATION_FAILED = "VALIDATION_FAILED"
    QUERY_TOO_LONG = "QUERY_TOO_LONG"
    QUERY_TOO_DEEP = "QUERY_TOO_DEEP"
    QUERY_TOO_COSTLY = "QUERY_TOO_COSTLY"
    TOO_MANY_ALIASES = "TOO_MANY_ALIASES"
    TOO_MANY_OPERATIONS = "TOO_MANY_OPERATIONS"
    TOO_MANY_SUBSCRIPTIONS = "TOO_MANY_SUBSCRIPTIONS"
    RATE_LIMITED = "RATE_LIMITED"
    DOCUMENT_UNKNOWN = "DOCUMENT_UNKNOWN"
    DOCUMENT_NOT_REGISTERED = "DOCUMENT_NOT_REGISTERED"
    TOO_SLOW = "TOO_SLOW"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    TOKEN_INVALID = "TOKEN_INVALID"
    TOKEN_ALGORITHM = "TOKEN_ALGORITHM"
    TOKEN_SIGNATURE = "TOKEN_SIGNATURE"
    TOKEN_KEY_UNKNOWN = "TOKEN_KEY_UNKNOWN"
    TOKEN_AUDIENCE = "TOKEN_AUDIENCE"
    TOKEN_EXPIRED = "TOKEN_EXPIRED"
    TOKEN_NOT_YET_VALID = "TOKEN_NOT_YET_VALID"
    TOKEN_SCOPE = "TOKEN_SCOPE"
    APP_UNKNOWN = "APP_UNKNOWN"
    APP_REVOKED = "APP_REVOKED"
    KEYS_UNAVAILABLE = "KEYS_UNAVAILABLE"
    FORBIDDEN = "FORBIDDEN"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


class ApiError(GraphQLError):
    """A request that is not served, with the code and the reason for whoever wrote it."""

    def __init__(self, code: ErrorCode, message: str, /, **fields: object) -> None:
        """The message may be a template for the fields."""
        super().__init__(message.format_map(fields) if fields else message, extensions={"code": code.value})
        self.code = code


def status_of(code: str) -> int:
    """The HTTP status of a request that is not served for this reason."""
    if code == ErrorCode.UNAUTHENTICATED or code.startswith(("TOKEN_", "APP_")):
        return 401
    return {
        ErrorCode.FORBIDDEN.value: 403,
        ErrorCode.KEYS_UNAVAILABLE.value: 503,
        ErrorCode.RATE_LIMITED.value: 429,
    }.get(code, 400)


def coded(error: GraphQLError) -> GraphQLError:
    """The error with its code; what nobody foresaw is logged, and shown without its text."""
    cause = error.original_error
    message = error.message
    if error.extensions and "code" in error.extensions:
        return error
    if isinstance(cause, RuleError):
        code = cause.breach.name
    elif isinstance(cause, Unavailable):
        code = ErrorCode.UNAVAILABLE.value
        logger.error("%s", cause)
        message = "the database cannot be used now: try again"
    elif isinstance(error, GraphQLSyntaxError):
        too_long = "token" in message and "Parsing aborted" in message
        code = (ErrorCode.QUERY_TOO_LONG if too_long else ErrorCode.PARSE_FAILED).value
    elif isinstance(cause, CannotGetOperationTypeError | MissingQueryError | InvalidOperationTypeError):
        code = ErrorCode.BAD_REQUEST.value
    elif not error.path and isinstance(cause, GraphQLError | ValueError | None):
        code = ErrorCode.VALIDATION_FAILED.value
    elif not error.path and isinstance(cause, RecursionError):
        code, message = ErrorCode.QUERY_TOO_DEEP.value, "the query is nested too deeply"
    else:
        code = ErrorCode.INTERNAL.value
        logger.error("unforeseen error at %s", error.path, exc_info=cause or error)
        message = "something went wrong here, and it has been noted"
    return GraphQLError(
        message[:LONGEST_MESSAGE],
        nodes=error.nodes,
        source=error.source,
        positions=error.positions,
        path=error.path,
        extensions={"code": code},
    )


def ambiguous() -> ApiError:
    """A document has several operations, and none was named."""
    return ApiError(ErrorCode.BAD_REQUEST, "the query has several operations: say which by operationName")


def is_ambiguous(error: GraphQLError) -> bool:
    """Whether that is the error."""
    return error.message == ambiguous().message


def coded_all(errors: list[GraphQLError]) -> list[GraphQLError]:
    """The first errors, each with its code."""
    return [coded(error) for error in errors[:MOST_ERRORS]]


class CodedStream(SchemaExtension):
    """Gives the errors of websocket operations their codes; the endpoint does so for HTTP."""

    def on_stream_result(self, result: StreamExecutionResult) -> Iterator[None]:
        if isinstance(result, ExecutionResult) and result.errors:
            result.errors = coded_all(result.errors)
        yield
