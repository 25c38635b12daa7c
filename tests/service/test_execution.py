"""Fields are answered as Strawberry and graphql-core answer them, odd values included."""

import gc
from enum import Enum
from typing import Any

import pytest
import strawberry
from graphql import DocumentNode

from service.execution import Executor, read_plainly
from service.limits import REMEMBERED_CHARACTERS, price_of


@strawberry.enum
class Side(Enum):
    WHITE = "w"
    BLACK = "b"


@strawberry.type
class Thing:
    number: int = 1
    perhaps: int | None = None
    text: str = "text"
    side: Side = Side.BLACK
    sides: list[Side] | None = None
    numbers: list[int] = strawberry.field(default_factory=lambda: [1, 2, -3])
    rows: list[list[int]] = strawberry.field(default_factory=lambda: [[1], [], [2, 3]])
    texts: list[str] = strawberry.field(default_factory=lambda: ["a"])
    gaps: list[int | None] = strawberry.field(default_factory=lambda: [1, None])


@strawberry.type
class Query:
    thing: Thing | None

    @strawberry.field
    def twice(self) -> int:
        return 2


EVERYTHING = "{ twice again: twice thing { __typename number perhaps text side sides numbers rows texts gaps } }"


async def answer(schema: strawberry.Schema, thing: Thing) -> object:
    """What is answered, with what is wrong and where."""
    result = await schema.execute(EVERYTHING, root_value=Query(thing=thing))
    return result.data, [error.formatted for error in result.errors or ()]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"number": None},
        {"number": True},
        {"number": 1.0},
        {"number": 1.5},
        {"number": 2**31},
        {"number": "5"},
        {"perhaps": 5},
        {"perhaps": []},
        {"perhaps": ValueError("no number")},
        {"text": None},
        {"text": 5},
        {"text": []},
        {"side": Side.WHITE},
        {"side": "w"},
        {"side": None},
        {"sides": [Side.WHITE, Side.BLACK]},
        {"sides": [None]},
        {"sides": Side.WHITE},
        {"numbers": []},
        {"numbers": (1, 2)},
        {"numbers": [1, None]},
        {"numbers": [1, True, 2.0]},
        {"numbers": [1, "x"]},
        {"numbers": [2**31 - 1, -(2**31)]},
        {"numbers": [2**31]},
        {"numbers": "12"},
        {"numbers": None},
        {"numbers": 5},
        {"rows": [[1], None]},
        {"rows": [[1, "x"]]},
        {"rows": [1]},
        {"texts": "abc"},
        {"texts": ("a", "b")},
        {"gaps": [None, None]},
        {"gaps": ["x"]},
    ],
    ids=str,
)
async def test_a_value_is_answered_as_graphql_core_answers_it(given: dict[str, Any]) -> None:
    plain, ours = strawberry.Schema(query=Query), strawberry.Schema(query=Query, execution_context_class=Executor)
    read_plainly(ours)
    thing = Thing(**given)
    assert await answer(ours, thing) == await answer(plain, thing)


def test_what_is_kept_of_documents_is_bounded_however_long_and_many_they_are() -> None:
    """Each token takes hundreds of bytes: as many of the longest as of short ones would fill the memory."""
    for number in range(60):
        price_of(f"{{ {'name ' * 900} a{number} }}", None)
    kept = [each for each in gc.get_objects() if type(each) is DocumentNode]
    assert len([each for each in kept if each.loc and each.loc.end > 4_000]) <= REMEMBERED_CHARACTERS / 4_000
    assert price_of("{ a }", None) is price_of("{ a }", None)
