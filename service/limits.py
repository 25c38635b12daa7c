"""How much one request may ask for. Every limit is answered with an error whose code says which it was."""

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    ValidationContext,
    ValidationRule,
)
from msgspec import Struct

from service.errors import ApiError, ErrorCode

BODY_BYTES = 100_000
"""An HTTP request's body."""

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
OPERATIONS = 50
"""Operations under way on one websocket: subscriptions, and queries and mutations not yet answered."""


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
                    (ErrorCode.QUERY_TOO_DEEP, "nesting depth", size.depth, QUERY_DEPTH),
                    (ErrorCode.TOO_MANY_ALIASES, "number of aliases", size.aliases, QUERY_ALIASES),
                    (ErrorCode.QUERY_TOO_COSTLY, "number of fields, pages counted in full,", size.cost, QUERY_COST),
                ):
                    if got > limit:
                        context.report_error(ApiError(code, f"the query's {what} is {got}; at most {limit} can be"))

    def _measured(self, selections: SelectionSetNode | None) -> _Size:
        total = _Size()
        for node in selections.selections if selections else ():
            if isinstance(node, FragmentSpreadNode):
                part = self._fragment(node.name.value)
            elif isinstance(node, FieldNode):
                inner = self._measured(node.selection_set)
                part = _Size(
                    inner.depth + 1,
                    1 + inner.cost * _page(node),
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
            return min(max(int(value.value), 1), PAGE) if isinstance(value, IntValueNode) else PAGE
    return DEFAULT_PAGE if node.name.value in ("events", "matches") else 1


def all_limits() -> list[tuple[str, int, str | None]]:
    """Every limit: its name, the most that is served, and the error code beyond it (None: the connection is closed)."""
    return [
        ("page", PAGE, ErrorCode.BAD_INPUT),
        ("queryTokens", QUERY_TOKENS, ErrorCode.QUERY_TOO_LONG),
        ("queryDepth", QUERY_DEPTH, ErrorCode.QUERY_TOO_DEEP),
        ("queryCost", QUERY_COST, ErrorCode.QUERY_TOO_COSTLY),
        ("queryAliases", QUERY_ALIASES, ErrorCode.TOO_MANY_ALIASES),
        ("operationsPerWebsocket", OPERATIONS, ErrorCode.TOO_MANY_OPERATIONS),
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
    raise ApiError(ErrorCode.BAD_INPUT, f"first is {first}; a page has 1 to {PAGE} items")
