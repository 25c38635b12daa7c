"""How operations are executed: as Strawberry and graphql-core do it, but for what is the same each time.

A text is parsed and validated once. Fields that are plain attributes are read at once: most of an answer is such, above
all boards, which are lists of numbers, and graphql-core looks at each number as if it could be anything.
"""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from graphql import (
    DocumentNode,
    GraphQLEnumType,
    GraphQLError,
    GraphQLInt,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    OperationDefinitionNode,
    parse,
    specified_rules,
    validate,
)
from strawberry import Schema
from strawberry.extensions import SchemaExtension
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.schema.validation_rules.maybe_null import MaybeNullValidationRule
from strawberry.schema.validation_rules.one_of import OneOfInputValidationRule
from strawberry.types import ExecutionResult, StreamExecutionResult

from service import limits
from service.errors import ApiError, ErrorCode, ambiguous, coded_all

_PLAIN = "videau.plain"
"""Where a field's extensions have how it is read, if it is plain."""

_MOST = 2**31 - 1
"""The greatest whole number that GraphQL has."""

Complete = Callable[[Any], Any]
"""Makes a value what is answered; what is odd about it raises something."""


_ANYTHING = parse("{ __typename }")
"""Stands for a document that is not looked at."""


@limits.remembered
def _verdict(schema: GraphQLSchema, query: str) -> tuple[DocumentNode, list[GraphQLError]]:
    """The document behind a text, and what is wrong with it. Raises GraphQLError if it cannot be parsed."""
    if limits.nesting(query) > limits.NESTING:
        too_deep = ApiError(
            ErrorCode.QUERY_TOO_DEEP, "the query is nested more than {most} levels deep", most=limits.NESTING
        )
        return _ANYTHING, [too_deep]
    document = limits.parsed(query)
    rules = (*specified_rules, MaybeNullValidationRule, OneOfInputValidationRule, limits.QueryLimits)
    return document, validate(schema, document, rules, max_errors=limits.QUERY_ERRORS)


class Preparation(SchemaExtension):
    """Parses and validates an operation, and gives the errors of websocket operations their codes (the endpoint does so
    for HTTP).

    It raises nothing: what an extension raises is no answer to an operation on a websocket.
    """

    def on_parse(self) -> Iterator[None]:
        context = self.execution_context
        try:
            document, errors = _verdict(context.schema._schema, context.query or "")
            operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
            if len(operations) > 1 and context._provided_operation_name is None:
                document, errors = _ANYTHING, [ambiguous()]
            context.graphql_document, context.pre_execution_errors = document, errors
        except GraphQLError:  # parsed again, where the error has its place
            context.parse_options["max_tokens"] = limits.QUERY_TOKENS
        yield

    def on_stream_result(self, result: StreamExecutionResult) -> Iterator[None]:
        if isinstance(result, ExecutionResult) and result.errors:
            result.errors = coded_all(result.errors, self.execution_context.context.language)
        yield


class Executor(StrawberryGraphQLCoreExecutionContext):
    """Executes an operation, and is gone with its answer: in no cycle, which only a collection would find."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.async_helpers = None  # type: ignore[assignment]  # methods of its own; no resolver of ours asks for them

    def build_per_event_executor(self, payload: Any) -> "Executor":
        """That of one event of a subscription, with a memory of its own: in graphql-core's, which all events share,
        each leaves kilobytes that no other finds."""
        executor = super().build_per_event_executor(payload)
        assert isinstance(executor, Executor)
        executor._relevant_sub_fields = {}
        return executor

    def execute_field(
        self, parent_type: GraphQLObjectType, source: Any, field_details_list: Any, path: Any, position_context: Any
    ) -> Any:
        """The value of a field; what is odd about a plain one is judged as about any other."""
        field = parent_type.fields.get(field_details_list[0].node.name.value)
        read: Complete | None = field.extensions.get(_PLAIN) if field else None
        if read is not None:
            try:
                return read(source)
            except Exception:
                return super().execute_field(parent_type, source, field_details_list, path, position_context)
        return super().execute_field(parent_type, source, field_details_list, path, position_context)


def read_plainly(schema: Schema) -> None:
    """Find the fields of a schema that are plain attributes, and leaves or lists of leaves."""
    for type_ in schema._schema.type_map.values():
        for field in type_.fields.values() if isinstance(type_, GraphQLObjectType) else ():
            written = field.extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
            complete = _completion(field.type)
            if written is not None and written.is_basic_field and complete is not None:
                field.extensions[_PLAIN] = _read(attrgetter(written.python_name), complete)


def _read(given: Complete, complete: Complete) -> Complete:
    return lambda source: complete(given(source))


def _completion(type_: object) -> Complete | None:
    """What completes values of a type; None if that is more than looking at them."""
    if isinstance(type_, GraphQLNonNull):
        return _completion_of_some(type_.of_type)
    complete = _completion_of_some(type_)
    return complete and (lambda value: None if value is None else complete(value))


def _completion_of_some(type_: object) -> Complete | None:
    """The same for values that are not null."""
    if isinstance(type_, GraphQLScalarType | GraphQLEnumType):
        return type_.coerce_output_value
    if not isinstance(type_, GraphQLList):
        return None
    if isinstance(type_.of_type, GraphQLNonNull) and type_.of_type.of_type is GraphQLInt:
        return _whole_numbers
    complete = _completion(type_.of_type)
    return complete and (lambda values: list(map(complete, _list(values))))


def _list(values: list[Any]) -> list[Any]:
    """A list. Raises TypeError for what is none, such as a text."""
    if type(values) is not list:
        raise TypeError
    return values


def _whole_numbers(values: list[int]) -> list[int]:
    """A list of whole numbers as it is. Raises TypeError for one that is none, or has too great a number."""
    if not ({*map(type, _list(values))} <= {int} and max(map(abs, values), default=0) <= _MOST):
        raise TypeError
    return values
