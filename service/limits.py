"""How much one request may ask for. Every limit is answered with an error whose code says which it was."""

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    IntValueNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    ValidationContext,
    ValidationRule,
    parse,
)
from msgspec import Struct

from domain.words import Said
from service.errors import ApiError, ErrorCode

BODY_BYTES = 100_000
"""An HTTP request's body."""

HEADER_BYTES = 64_000
"""The address and all headers of an HTTP request, 32 more for each header."""

FILE_BYTES = 2_000_000
"""A match file to import."""

MESSAGE_BYTES = 64_000
"""A websocket message."""

QUERY_TOKENS = 1_000
QUERY_DEPTH = 15
QUERY_ALIASES = 30
QUERY_COST = 10_000
"""Fields that a query may come to, each counted as often as the page around it (`first`) is long."""

QUERY_ERRORS = 10
"""How much is found wrong with a query before it is given up."""

PAGE = 100
"""Items on a page at most; a page whose length is a variable counts as this long."""

DEFAULT_PAGE = 20
_BRACES = re.compile(r"[][(){}]")
OPERATIONS = 50
"""Operations under way on one websocket: subscriptions, and queries and mutations not yet answered."""

SUBSCRIPTION_BYTES = 10_000
"""A subscription's text and variables, which are kept as long as it lasts."""

SUBSCRIPTIONS = 200
"""Subscriptions of one player at a process, over all websockets."""

UNREAD_SECONDS = 30
"""How long a client may leave unread what waits for it."""

HEADER_SECONDS = 10
"""How long the headers of an HTTP request may take, from its first byte."""

REQUEST_SECONDS = 60
"""How long a whole HTTP request may take to arrive, from its first byte."""

IDLE_SECONDS = 75
"""How long an HTTP connection may stay open without a request."""

MESSAGE_PARTS = 1_000
"""Frames of one websocket message."""

RETRY_AFTER = 5
"""Seconds after which who met a database that cannot be used should come again."""

COME_BACK = 2_000
"""Milliseconds within which those come back that were sent away because a process stops, each at another time."""

WEIGHTS = {"sandbox": 200, "legalPlays": 50, "destinations": 50, "fairness": 1_000, "events": 100, "rematch": 10}
WEIGHTS |= {"rating": 5, "ratings": 10, "ratingChanges": 10, "leaderboard": 10}
WEIGHTS |= {"createdAt": 10, "presence": 10, "claimableAt": 10, "scores": 10, "invitation": 10, "matchNotices": 10}
"""What a field costs beyond 1: those that compute, or read the store."""

EARLIER = 1_000
"""What it costs beyond that to ask for an earlier version: the log is folded up to there."""

COMMAND = 100
"""What each field of a mutation costs beyond that: it writes."""

UNIT = 100
"""What a unit of the rate limits is in cost: most requests come to one or two, the costliest query to a hundred."""

HAPPENED = 4
"""As how many the events count that a command brings about, for the rate limits: most are one or two."""

_OF_PAGES = ("edges", "pageInfo", "__typename")

UNIT_CHARACTERS = 2_500
"""Of how long a text a unit is: what is wrong with long ones takes long to find, and longer to tell."""

UNREADABLE = 5
"""Units that a query costs that cannot be read."""

REGISTRATION = "registerGuest"
"""The field of a mutation that makes a player."""

NESTING = 60
"""Braces and brackets within each other, inline fragments included: deeper text is not even parsed."""


REMEMBERED = 256
REMEMBERED_CHARACTERS = 100_000
"""How many texts are kept with what was found in them, and how long all may be: one of 5,000 takes a megabyte."""

P = ParamSpec("P")
T = TypeVar("T")


def remembered(find: Callable[P, T]) -> Callable[P, T]:
    """As lru_cache, for what is found in texts that clients write."""
    found: OrderedDict[tuple[object, ...], T] = OrderedDict()
    size = 0

    @wraps(find)
    def remember(*given: P.args, **named: P.kwargs) -> T:
        nonlocal size
        if given in found:
            found.move_to_end(given)
            return found[given]
        answer = found[given] = find(*given, **named)
        size += _characters(given)
        while size > REMEMBERED_CHARACTERS or len(found) > REMEMBERED:
            forgotten, _ = found.popitem(last=False)
            size -= _characters(forgotten)
        return answer

    return remember


def _characters(given: tuple[object, ...]) -> int:
    return sum(len(each) for each in given if isinstance(each, str))


class Apart:
    """Counts the executions that watch something for an address: each slows down all who watch it."""

    def __init__(self) -> None:
        self.most: int | None = None
        """How many there may be of one thing."""
        self._executions = Counter[tuple[str, str]]()

    def __len__(self) -> int:
        return self._executions.total()

    @contextmanager
    def one(self, what: str, address: str) -> Iterator[None]:
        """While this lasts, there is one more. Raises ApiError TOO_MANY_SUBSCRIPTIONS."""
        if self.most is not None and self._executions[what, address] >= self.most:
            raise ApiError(
                ErrorCode.TOO_MANY_SUBSCRIPTIONS,
                "your address has {most} different subscriptions to this: complete one first",
                most=self.most,
            )
        self._executions[what, address] += 1
        try:
            yield
        finally:
            self._executions[what, address] -= 1
            if not self._executions[what, address]:
                del self._executions[what, address]


@remembered
def parsed(query: str) -> DocumentNode:
    """The document behind a text that is nested no deeper than NESTING. Raises GraphQLError."""
    return parse(query, max_tokens=QUERY_TOKENS)


def nesting(text: str) -> int:
    """How deeply braces and brackets are nested."""
    depth = most = 0
    for mark in _BRACES.findall(text):
        depth += 1 if mark in "{[(" else -1
        most = max(most, depth)
    return most


class _Size(Struct):
    depth: int = 0
    cost: int = 0
    bound: int = 0
    """The cost, the events of commands counted like a page: a command may bring about thousands."""
    aliases: int = 0
    width: int = 0
    registrations: int = 0
    introspects: bool = False


class Price(Struct, frozen=True):
    """What an operation costs, known before it is executed."""

    cost: int
    units: int
    registrations: int
    """How many guests it registers."""
    subscribes: bool
    introspects: bool = False
    """Whether it asks for the schema."""


NOTHING = Price(0, 1, 0, False)
"""What is no operation costs a unit."""


@remembered
def price_of(query: str, operation_name: str | None) -> Price:
    """The price of the named operation of a document, or of its only one; whether it is valid is not asked here."""
    length = len(query) // UNIT_CHARACTERS
    broken = Price(0, max(UNREADABLE, length), 0, False)
    if nesting(query) > NESTING:
        return broken
    try:
        document = parsed(query)
    except (GraphQLError, RecursionError):
        return broken
    operations = [
        (operation, size)
        for operation, size in _measured(document)
        if operation_name is None or (operation.name and operation.name.value == operation_name)
    ]
    if len(operations) != 1:
        return broken
    [(operation, size)] = operations
    mutates = operation.operation is OperationType.MUTATION
    return Price(
        cost=size.cost,
        units=max(1, round(size.cost / UNIT), length),
        registrations=size.registrations if mutates else 0,
        subscribes=operation.operation is OperationType.SUBSCRIPTION,
        introspects=size.introspects,
    )


class QueryLimits(ValidationRule):
    """Depth, cost and aliases of each operation, its fragments included; each fragment is measured once."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        for _, size in _measured(context.document):
            for code, what, got, limit in (
                (ErrorCode.QUERY_TOO_DEEP, Said("nesting depth"), size.depth, QUERY_DEPTH),
                (ErrorCode.TOO_MANY_ALIASES, Said("number of aliases"), size.aliases, QUERY_ALIASES),
                (ErrorCode.QUERY_TOO_COSTLY, Said("number of fields, pages counted in full,"), size.bound, QUERY_COST),
            ):
                if got > limit:
                    context.report_error(
                        ApiError(
                            code, "the query's {what} is {got}; at most {most} can be", what=what, got=got, most=limit
                        )
                    )


def _measured(document: DocumentNode) -> list[tuple[OperationDefinitionNode, _Size]]:
    """Each operation of a document with its size."""
    measure = _Measure(document)
    return [
        (definition, measure.operation(definition))
        for definition in document.definitions
        if isinstance(definition, OperationDefinitionNode)
    ]


class _Measure:
    """The sizes of a document's operations; each fragment is measured once."""

    def __init__(self, document: DocumentNode) -> None:
        self._fragments = {
            definition.name.value: definition
            for definition in document.definitions
            if isinstance(definition, FragmentDefinitionNode)
        }
        self._sizes: dict[str, _Size] = {}

    def operation(self, operation: OperationDefinitionNode) -> _Size:
        size = self._selections(operation.selection_set)
        if operation.operation is OperationType.MUTATION:
            size.cost += COMMAND * size.width
            size.bound += COMMAND * size.width
        return size

    def _selections(self, selections: SelectionSetNode | None) -> _Size:
        total = _Size()
        for node in selections.selections if selections else ():
            if isinstance(node, FragmentSpreadNode):
                part = self._fragment(node.name.value)
            elif isinstance(node, FieldNode):
                inner = self._selections(node.selection_set)
                own, page = 1 + WEIGHTS.get(node.name.value, 0), _page(node)
                if node.name.value == "match" and any(each.name.value == "version" for each in node.arguments or ()):
                    own += EARLIER
                happened = _is_happened(node)
                part = _Size(
                    inner.depth + 1,
                    1 + inner.cost * HAPPENED if happened else own + inner.cost * page,
                    own + inner.bound * page,
                    inner.aliases + (node.alias is not None),
                    1,
                    int(node.name.value == REGISTRATION),
                    node.name.value in ("__schema", "__type"),
                )
            else:
                part = self._selections(node.selection_set)  # type: ignore[attr-defined]
            total.depth = max(total.depth, part.depth)
            total.cost = min(total.cost + part.cost, 10**9)
            total.bound = min(total.bound + part.bound, 10**9)
            total.aliases = min(total.aliases + part.aliases, 10**9)
            total.width = min(total.width + part.width, 10**9)
            total.registrations = min(total.registrations + part.registrations, 10**9)
            total.introspects |= part.introspects
        return total

    def _fragment(self, name: str) -> _Size:
        if name not in self._sizes:
            self._sizes[name] = _Size()  # stands while it is measured: a cycle is another rule's to report
            if name in self._fragments:
                self._sizes[name] = self._selections(self._fragments[name].selection_set)
        return self._sizes[name]


def _is_happened(node: FieldNode) -> bool:
    """Whether these are the events that a command has brought about, rather than a page of a log, which has edges."""
    selected = node.selection_set.selections if node.selection_set and node.name.value == "events" else ()
    return any(isinstance(one, FieldNode) and one.name.value not in _OF_PAGES for one in selected)


def _page(node: FieldNode) -> int:
    """How often the selections below a field are evaluated."""
    for argument in node.arguments or ():
        if argument.name.value == "first":
            value = argument.value
            if isinstance(value, IntValueNode) and len(value.value) <= len(str(PAGE)):
                return min(max(int(value.value), 1), PAGE)
            return PAGE
    return _PAGES.get(node.name.value, 1)


_PAGES = {"events": PAGE, "codes": PAGE, "matchesListed": PAGE, "matchesUnlisted": PAGE, "seeksOpened": PAGE}
_PAGES |= {"seeksClosed": PAGE} | dict.fromkeys(("matches", "ratings", "leaderboard", "seeks", "limits"), DEFAULT_PAGE)
"""How long lists are, where the query does not say; tests/service/test_rates.py finds one that is missing."""


def all_limits() -> list[tuple[str, int, str | None]]:
    """Every limit: its name, the most that is served, and the error code beyond it (None: the connection is closed)."""
    return [
        ("page", PAGE, ErrorCode.BAD_INPUT),
        ("queryTokens", QUERY_TOKENS, ErrorCode.QUERY_TOO_LONG),
        ("queryDepth", QUERY_DEPTH, ErrorCode.QUERY_TOO_DEEP),
        ("queryCost", QUERY_COST, ErrorCode.QUERY_TOO_COSTLY),
        ("queryAliases", QUERY_ALIASES, ErrorCode.TOO_MANY_ALIASES),
        ("operationsPerWebsocket", OPERATIONS, ErrorCode.TOO_MANY_OPERATIONS),
        ("subscriptionBytes", SUBSCRIPTION_BYTES, ErrorCode.QUERY_TOO_LONG),
        ("subscriptionsPerPlayer", SUBSCRIPTIONS, ErrorCode.TOO_MANY_SUBSCRIPTIONS),
        ("unreadSeconds", UNREAD_SECONDS, ErrorCode.TOO_SLOW),
        ("headerSeconds", HEADER_SECONDS, ErrorCode.TOO_SLOW),
        ("requestSeconds", REQUEST_SECONDS, ErrorCode.TOO_SLOW),
        ("idleSeconds", IDLE_SECONDS, None),
        ("headerBytes", HEADER_BYTES, None),
        ("bodyBytes", BODY_BYTES, ErrorCode.BODY_TOO_LARGE),
        ("fileBytes", FILE_BYTES, ErrorCode.BODY_TOO_LARGE),
        ("messageBytes", MESSAGE_BYTES, None),
        ("messageFrames", MESSAGE_PARTS, None),
    ]


def page_length(first: int | None) -> int:
    """The page length that `first` asks for. Raises ApiError BAD_INPUT."""
    if first is None:
        return DEFAULT_PAGE
    if 1 <= first <= PAGE:
        return first
    raise ApiError(ErrorCode.BAD_INPUT, "first is {first}; a page has 1 to {most} items", first=first, most=PAGE)
