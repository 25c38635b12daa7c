"""What is wrong with a request rather than with a command: GraphQL errors, each with a code from a closed list."""

import logging
from collections import Counter
from enum import StrEnum

from graphql import GraphQLError, GraphQLSyntaxError
from strawberry.exceptions import MissingQueryError
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError

from domain.breach import RuleError
from domain.words import Foreign, Said, said
from infra.store import Unavailable
from service.words import Language, tell

logger = logging.getLogger("videau")


def _on_one_line(record: logging.LogRecord) -> bool:
    """Escape what could forge a line of the log or write to a terminal, whoever it comes from."""
    message = record.getMessage()
    if not message.isprintable():
        record.msg, record.args = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message), ()
    return True


logger.addFilter(_on_one_line)

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

    def __init__(self, code: ErrorCode, text: str | Said, /, **more: object) -> None:
        self.said = said(text, more)
        super().__init__(str(self.said), extensions={"code": code.value})
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


UNAVAILABLE = Said("the database cannot be used now: try again")
INTERNAL = Said("something went wrong here, and it has been noted")


told_codes = Counter[str](dict.fromkeys(map(str, ErrorCode), 0))
"""How often this process has told each code of an error, over HTTP and in GraphQL; refusals of commands are answers."""


def coded(error: GraphQLError, language: Language) -> GraphQLError:
    """The error with its code, in that language; what nobody foresaw is logged, and shown without its text."""
    told = _coded(error, language)
    told_codes[str((told.extensions or {})["code"])] += 1
    return told


def _coded(error: GraphQLError, language: Language) -> GraphQLError:
    cause = error.original_error
    told: Said = Foreign(error.message)
    extensions = error.extensions or {}
    if "code" in extensions:
        teller = error if isinstance(error, ApiError) else cause
        if language is Language.EN or not isinstance(teller, ApiError):
            return error
        code, told = str(extensions["code"]), teller.said
    elif isinstance(cause, RuleError):
        code, told = cause.breach.name, cause.said
    elif isinstance(cause, Unavailable):
        code, told = ErrorCode.UNAVAILABLE.value, UNAVAILABLE
        logger.error("%s", cause)
    elif isinstance(error, GraphQLSyntaxError):
        too_long = "token" in error.message and "Parsing aborted" in error.message
        code = (ErrorCode.QUERY_TOO_LONG if too_long else ErrorCode.PARSE_FAILED).value
    elif isinstance(cause, CannotGetOperationTypeError | MissingQueryError | InvalidOperationTypeError):
        code = ErrorCode.BAD_REQUEST.value
    elif not error.path and isinstance(cause, GraphQLError | ValueError | None):
        code = ErrorCode.VALIDATION_FAILED.value
    elif not error.path and isinstance(cause, RecursionError):
        code, told = ErrorCode.QUERY_TOO_DEEP.value, Said("the query is nested too deeply")
    else:
        code, told = ErrorCode.INTERNAL.value, INTERNAL
        # without a cause, the error would quote the document, and whatever secrets somebody has written into it
        logger.error("unforeseen error at %s%s", error.path, "" if cause else f": {error.message}", exc_info=cause)
    return GraphQLError(
        tell(language, code, told)[:LONGEST_MESSAGE],
        nodes=error.nodes,
        source=error.source,
        positions=error.positions,
        path=error.path,
        extensions={**extensions, "code": code},
    )


def ambiguous() -> ApiError:
    """A document has several operations, and none was named."""
    return ApiError(ErrorCode.BAD_REQUEST, "the query has several operations: say which by operationName")


def is_ambiguous(error: GraphQLError) -> bool:
    """Whether that is the error."""
    return error.message == ambiguous().message


def coded_all(errors: list[GraphQLError], language: Language) -> list[GraphQLError]:
    """The first errors, each with its code, in that language."""
    return [coded(error, language) for error in errors[:MOST_ERRORS]]
