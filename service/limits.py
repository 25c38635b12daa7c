"""How much one request may ask for. Every limit is answered with an error whose code says which it was."""

import re
from collections.abc import Iterator
from contextlib import suppress

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    ValidationContext,
    ValidationRule,
    parse,
)
from msgspec import Struct
from strawberry.extensions import ParserCache

from domain.words import Said
from service.errors import ApiError, ErrorCode, ambiguous

BODY_BYTES = 100_000
"""An HTTP request's body."""

HEADER_BYTES = 64_000
"""All headers of an HTTP request."""

FILE_BYTES = 2_000_000
"""A match file to import."""

MESSAGE_BYTES = 64_000
"""A websocket message."""

QUERY_TOKENS = 1_000
QUERY_DEPTH = 15
QUERY_ALIASES = 30
QUERY_COST = 10_000
"""Fields that a query may come to, each counted as often as the page around it (`first`) is long."""

PAGE = 100
"""Items on a page at most; a page whose length is a variable counts as this long."""

DEFAULT_PAGE = 20
_BRACES = re.compile(r"[][(){}]")
OPERATIONS = 50
"""Operations under way on one websocket: subscriptions, and queries and mutations not yet answered."""

UNREAD_SECONDS = 30
"""How long a client may leave unread what waits for it."""

RETRY_AFTER = 5
"""Seconds after which who met a database that cannot be used should come again."""

COME_BACK = 2_000
"""Milliseconds within which those come back that were sent away because a process stops, each at another time."""

WEIGHTS = {"sandbox": 200, "legalPlays": 50, "destinations": 50, "fairness": 1_000, "events": 100, "rematch": 10}
WEIGHTS |= {"presence": 10, "claimableAt": 10, "scores": 10, "invitation": 10, "matchNotices": 10}
"""What a field costs beyond 1: those that compute, or read the store."""

NESTING = 60
"""Braces and brackets within each other, inline fragments included: deeper text is not even parsed."""


class Parsing(ParserCache):
    """Parses with a cache, and does not even begin with what is nested so deeply that it would exhaust the stack.

    It raises nothing: what an extension raises is no answer to an operation on a websocket.
    """

    def on_parse(self) -> Iterator[None]:
        context = self.execution_context
        if _nesting(context.query or "") > NESTING:
            context.graphql_document = _ANYTHING
            context.validation_rules = (_TooDeep,)
        else:
            with suppress(GraphQLError):  # parsed again without the cache, where the error has its place
                document = context.graphql_document = self.cached_parse_document(context.query, **context.parse_options)
                operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
                if len(operations) > 1 and context._provided_operation_name is None:
                    context.graphql_document, context.validation_rules = _ANYTHING, (_Ambiguous,)
        yield


_ANYTHING = parse("{ __typename }")


class _TooDeep(ValidationRule):
    """Stands for the verdict on a query that was not parsed."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        context.report_error(
            ApiError(ErrorCode.QUERY_TOO_DEEP, "the query is nested more than {most} levels deep", most=NESTING)
        )


class _Ambiguous(ValidationRule):
    """Stands for the verdict on a query of several operations of which none is named."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        context.report_error(ambiguous())


def _nesting(text: str) -> int:
    """How deeply braces and brackets are nested."""
    depth = most = 0
    for mark in _BRACES.findall(text):
        depth += 1 if mark in "{[(" else -1
        most = max(most, depth)
    return most


class _Size(Struct):
    depth: int = 0
    cost: int = 0
    aliases: int = 0


class QueryLimits(ValidationRule):
    """Depth, cost and aliases of each operation, its fragments included; each fragment is measured once."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self._fragments = {
            definition.name.value: definition
            for definition in context.document.definitions
            if isinstance(definition, FragmentDefinitionNode)
        }
        self._sizes: dict[str, _Size] = {}
        for definition in context.document.definitions:
            if isinstance(definition, OperationDefinitionNode):
                size = self._measured(definition.selection_set)
                for code, what, got, limit in (
                    (ErrorCode.QUERY_TOO_DEEP, Said("nesting depth"), size.depth, QUERY_DEPTH),
                    (ErrorCode.TOO_MANY_ALIASES, Said("number of aliases"), size.aliases, QUERY_ALIASES),
                    (
                        ErrorCode.QUERY_TOO_COSTLY,
                        Said("number of fields, pages counted in full,"),
                        size.cost,
                        QUERY_COST,
                    ),
                ):
                    if got > limit:
                        context.report_error(
                            ApiError(
                                code,
                                "the query's {what} is {got}; at most {most} can be",
                                what=what,
                                got=got,
                                most=limit,
                            )
                        )

    def _measured(self, selections: SelectionSetNode | None) -> _Size:
        total = _Size()
        for node in selections.selections if selections else ():
            if isinstance(node, FragmentSpreadNode):
                part = self._fragment(node.name.value)
            elif isinstance(node, FieldNode):
                inner = self._measured(node.selection_set)
                part = _Size(
                    inner.depth + 1,
                    1 + WEIGHTS.get(node.name.value, 0) + inner.cost * _page(node),
                    inner.aliases + (node.alias is not None),
                )
            else:
                part = self._measured(node.selection_set)  # type: ignore[attr-defined]
            total.depth = max(total.depth, part.depth)
            total.cost = min(total.cost + part.cost, 10**9)
            total.aliases = min(total.aliases + part.aliases, 10**9)
        return total

    def _fragment(self, name: str) -> _Size:
        if name not in self._sizes:
            self._sizes[name] = _Size()  # stands while it is measured: a cycle is another rule's to report
            if name in self._fragments:
                self._sizes[name] = self._measured(self._fragments[name].selection_set)
        return self._sizes[name]


def _page(node: FieldNode) -> int:
    """How often the selections below a field are evaluated."""
    for argument in node.arguments or ():
        if argument.name.value == "first":
            value = argument.value
            if isinstance(value, IntValueNode) and len(value.value) <= len(str(PAGE)):
                return min(max(int(value.value), 1), PAGE)
            return PAGE
    return {"events": PAGE, "matches": DEFAULT_PAGE}.get(node.name.value, 1)


def all_limits() -> list[tuple[str, int, str | None]]:
    """Every limit: its name, the most that is served, and the error code beyond it (None: the connection is closed)."""
    return [
        ("page", PAGE, ErrorCode.BAD_INPUT),
        ("queryTokens", QUERY_TOKENS, ErrorCode.QUERY_TOO_LONG),
        ("queryDepth", QUERY_DEPTH, ErrorCode.QUERY_TOO_DEEP),
        ("queryCost", QUERY_COST, ErrorCode.QUERY_TOO_COSTLY),
        ("queryAliases", QUERY_ALIASES, ErrorCode.TOO_MANY_ALIASES),
        ("operationsPerWebsocket", OPERATIONS, ErrorCode.TOO_MANY_OPERATIONS),
        ("unreadSeconds", UNREAD_SECONDS, ErrorCode.TOO_SLOW),
        ("headerBytes", HEADER_BYTES, None),
        ("bodyBytes", BODY_BYTES, ErrorCode.BODY_TOO_LARGE),
        ("fileBytes", FILE_BYTES, ErrorCode.BODY_TOO_LARGE),
        ("messageBytes", MESSAGE_BYTES, None),
    ]


def page_length(first: int | None) -> int:
    """The page length that `first` asks for. Raises ApiError BAD_INPUT."""
    if first is None:
        return DEFAULT_PAGE
    if 1 <= first <= PAGE:
        return first
    raise ApiError(ErrorCode.BAD_INPUT, "first is {first}; a page has 1 to {most} items", first=first, most=PAGE)
