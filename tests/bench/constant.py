"""The same types, endpoint and server answering `roll` and `move` with one constant, parsed, validated and executed by
Strawberry as it comes: what all the rest costs."""

import sys
from datetime import UTC, datetime

import strawberry
from starlette.applications import Starlette
from starlette.routing import Route
from strawberry import ID
from strawberry.extensions import AddValidationRules, MaxTokensLimiter, ParserCache, ValidationCache

from domain.board import Color, Dice
from domain.commands import Create, Join, Roll
from domain.events import Settings
from domain.rules import decide, evolve
from infra.log import GENESIS, record
from service.app import create_server
from service.auth import Context
from service.cli import listener
from service.endpoint import Endpoint
from service.limits import QUERY_TOKENS, QueryLimits
from service.schema import PlayInput
from service.views import EVENT_TYPES, Answer, Happened, MatchView, event_view
from service.windows import Step


def constant() -> Happened:
    """A roll that has been answered."""
    match = None
    events = []
    for command in (
        Create(match="m", settings=Settings(length=5), color=Color.WHITE, player="p"),
        Join(player="q"),
        Roll(by=None, dice=Dice(3, 1)),
    ):
        for event in decide(match, command):
            match = evolve(match, event)
            events.append(event)
    assert match is not None
    step = Step(record(GENESIS, 0, datetime.now(UTC), events)[-1], match)
    return Happened(match=MatchView.at_step(step), events=[event_view(step)])


CONSTANT = constant()


@strawberry.type
class Query:
    ok: bool = True


@strawberry.type
class Mutation:
    @strawberry.mutation
    async def roll(self, match_id: ID) -> Answer:
        return CONSTANT

    @strawberry.mutation
    async def move(self, match_id: ID, play: PlayInput) -> Answer:
        return CONSTANT


def main() -> None:
    endpoint = Endpoint(lambda connection: Context(None, None))  # type: ignore[arg-type]
    rules = [QueryLimits]
    endpoint.schema = strawberry.Schema(
        query=Query,
        mutation=Mutation,
        types=EVENT_TYPES,
        extensions=[
            lambda: MaxTokensLimiter(max_token_count=QUERY_TOKENS),
            lambda: AddValidationRules(rules),
            ParserCache,
            ValidationCache,
        ],
    )
    bound = listener("127.0.0.1", 0)
    print(f"http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
    create_server(Starlette(routes=[Route("/graphql", endpoint)])).run(sockets=[bound])


if __name__ == "__main__":
    sys.exit(main())
