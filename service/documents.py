"""What a subscription asks for, read from its document before it is executed."""

from collections import Counter
from typing import Any

import msgspec
from graphql import (
    DocumentNode,
    FieldNode,
    GraphQLError,
    IntValueNode,
    OperationDefinitionNode,
    OperationType,
    StringValueNode,
    ValueNode,
    VariableNode,
    Visitor,
    visit,
)
from msgspec import Struct

from service.limits import parsed, remembered


class Form(Struct, frozen=True):
    """Where a document with one subscription to the events of a match says of which, and from where on."""

    match_id: ValueNode
    after: ValueNode | None
    defaults: dict[str, ValueNode]
    own: str | None
    """The variable that is for `after` and for nothing else."""

    def read(self, variables: dict[str, Any]) -> tuple[str, int, bytes] | None:
        """The match, `after`, and the other variables, as JSON; None if that is not clear."""
        match_id = self._value(self.match_id, variables)
        after = self._value(self.after, variables) if self.after else 0
        if type(match_id) is not str or type(after) is not int:
            return None
        others = {name: value for name, value in variables.items() if name != self.own}
        try:
            return match_id, after, msgspec.json.encode(others, order="sorted")
        except RecursionError:
            return None

    def _value(self, node: ValueNode | None, variables: dict[str, Any]) -> object:
        return _value(node, variables, self.defaults)


class LobbyForm(Struct, frozen=True):
    """Where a document with one subscription to a lobby says of which app."""

    app: ValueNode | None
    defaults: dict[str, ValueNode]

    def read(self, variables: dict[str, Any]) -> tuple[str | None, bytes] | None:
        """The app, None if none is said, and the variables as JSON; None if that is not clear."""
        app = _value(self.app, variables, self.defaults)
        if not (app is None or type(app) is str):
            return None
        try:
            return app, msgspec.json.encode(variables, order="sorted")
        except RecursionError:
            return None


@remembered
def lobby_form_of(query: str, operation_name: str | None) -> LobbyForm | None:
    """The form of a document that is one subscription to a lobby and nothing else."""
    only = _only(query, operation_name, "lobby")
    if only is None:
        return None
    _, operation, field = only
    arguments = {argument.name.value: argument.value for argument in field.arguments or ()}
    return LobbyForm(arguments.get("app"), _defaults(operation))


@remembered
def declared(query: str, operation_name: str | None) -> frozenset[str]:
    """The variables that a document's operations of this name declare, or all of them: no other is ever read."""
    try:
        definitions = parsed(query).definitions
    except (GraphQLError, RecursionError):
        return frozenset()
    return frozenset(
        variable.variable.name.value
        for node in definitions
        if isinstance(node, OperationDefinitionNode)
        and (operation_name is None or (node.name and node.name.value == operation_name))
        for variable in node.variable_definitions or ()
    )


def _only(
    query: str, operation_name: str | None, name: str
) -> tuple[DocumentNode, OperationDefinitionNode, FieldNode] | None:
    """A document that is one subscription to one field of this name, its operation and the field; else None."""
    try:
        document = parsed(query)
    except (GraphQLError, RecursionError):
        return None
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    if len(operations) != 1 or operations[0].operation is not OperationType.SUBSCRIPTION or operations[0].directives:
        return None
    [operation] = operations
    named = operation.name.value if operation.name else None
    if operation_name not in (None, named) or len(operation.selection_set.selections) != 1:
        return None
    [field] = operation.selection_set.selections
    if not isinstance(field, FieldNode) or field.name.value != name or field.directives:
        return None
    return document, operation, field


def _defaults(operation: OperationDefinitionNode) -> dict[str, ValueNode]:
    return {
        definition.variable.name.value: definition.default_value
        for definition in operation.variable_definitions or ()
        if definition.default_value
    }


def _value(node: ValueNode | None, variables: dict[str, Any], defaults: dict[str, ValueNode]) -> object:
    """What a text, a number or a variable stands for; None for anything else."""
    if isinstance(node, VariableNode):
        name = node.name.value
        return variables[name] if name in variables else _value(defaults.get(name), {}, {})
    if isinstance(node, StringValueNode):
        return node.value
    if isinstance(node, IntValueNode) and len(node.value) < 12:
        return int(node.value)
    return None


@remembered
def form_of(query: str, operation_name: str | None) -> Form | None:
    """The form of a document that is one such subscription and nothing else; whether it is valid is not asked here."""
    only = _only(query, operation_name, "matchEvents")
    if only is None:
        return None
    document, operation, field = only
    arguments = {argument.name.value: argument.value for argument in field.arguments or ()}
    if "matchId" not in arguments:
        return None
    after = arguments.get("after")
    counted = _Variables()
    visit(document, counted)
    variable = after.name.value if isinstance(after, VariableNode) else None
    return Form(
        match_id=arguments["matchId"],
        after=after,
        defaults=_defaults(operation),
        own=variable if variable and counted.names[variable] == 2 else None,
    )


def subscribes(query: str) -> bool:
    """Whether a document has a subscription, whatever else; one that cannot be read has none."""
    try:
        definitions = parsed(query).definitions
    except (GraphQLError, RecursionError):
        return False
    return any(
        isinstance(node, OperationDefinitionNode) and node.operation is OperationType.SUBSCRIPTION
        for node in definitions
    )


class _Variables(Visitor):
    """Counts where each variable is named: once where it is defined, and wherever it is used."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def enter_variable(self, node: VariableNode, *_: object) -> None:
        self.names[node.name.value] += 1
