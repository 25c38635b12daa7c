"""The GraphQL API: queries, the nine mutations of play, and the live log."""

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

import msgspec
import strawberry
from graphql import ASTValidationRule
from strawberry import ID
from strawberry.extensions import AddValidationRules, MaxTokensLimiter, ValidationCache
from strawberry.schema.config import StrawberryConfig

from domain.board import Color, Dice
from domain.breach import RuleError
from domain.commands import Accept, Double, Move, Refuse, Resign
from domain.events import Sandbox, Settings, Stake, Visibility
from domain.match import Match
from domain.notation import parse_play
from domain.position import parse_position
from infra.store import Key, Status
from service import limits
from service.apps import LONGEST_NAME, name_of
from service.errors import ApiError, CodedStream, ErrorCode
from service.limits import Parsing, QueryLimits, page_length
from service.rates import limits_of
from service.table import Done, MakeCommand, Refused, Request, Throw
from service.views import (
    EVENT_TYPES,
    After,
    Answer,
    Connection,
    EventView,
    First,
    Happened,
    Info,
    MatchView,
    Player,
    Refusal,
    checker_moves,
    event_view,
    refusal_view,
)

_CURSOR = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z~[0-9a-z]{1,40}", re.ASCII)
LONGEST_KEY = 100

MatchId = Annotated[ID, strawberry.argument(description="The match.")]
ExpectedVersion = Annotated[
    int | None,
    strawberry.argument(description="Do it only if the match is at this version; else STALE_VERSION."),
]
IdempotencyKey = Annotated[
    str | None,
    strawberry.argument(
        description="A text of yours that makes the command safe to repeat: the same key with the same input takes "
        f"effect once and gives the same answer. 1 to {LONGEST_KEY} characters."
    ),
]
Entropy = Annotated[
    str,
    strawberry.argument(
        description="A text of yours that goes into the dice, so that nobody else can have chosen them: at most 64 "
        "printable ASCII characters. It is public, and in the log."
    ),
]
AutoRoll = Annotated[
    bool,
    strawberry.argument(
        description="Whether the table rolls for you when doubling is impossible or could gain nothing."
    ),
]


@strawberry.input(description="A sandbox: for tests of clients, and never rated.")
class SandboxInput:
    start: str | None = strawberry.field(
        default=None,
        description="The first position: XGID (white is X), or GNU position and match id; its length is the match's.",
    )
    dice: list[list[int]] = strawberry.field(
        default_factory=list,
        description="The first rolls, in order; an opening roll is white's die and black's. Then dice are thrown.",
    )


@strawberry.input(description="What is agreed before the first roll.")
class SettingsInput:
    length: int | None = strawberry.field(
        default=None, description="Points that win the match, 1 to 99; null is a money game: one game."
    )
    crawford: bool = strawberry.field(default=True, description="The Crawford rule; without effect in money games.")
    cube_limit: int | None = strawberry.field(
        default=None, description="The highest cube: 1 (no cube), 2, 4 … 1024; null is 64."
    )
    jacoby: bool | None = strawberry.field(default=None, description="Money only: the Jacoby rule; null is off.")
    automatic_doubles: int = strawberry.field(
        default=0, description="Money only: how many opening ties double the centred cube."
    )
    visibility: Visibility = strawberry.field(default=Visibility.PUBLIC, description="Who may see the match.")
    sandbox: SandboxInput | None = strawberry.field(default=None, description="Scripted dice and start position.")


@strawberry.input(one_of=True, description="A play, written either way.")
class PlayInput:
    notation: strawberry.Maybe[str] = strawberry.field(
        description="Standard notation: `24/18 13/11*`, `bar/20`, `6/off(2)`. A `*` may be left out."
    )
    moves: strawberry.Maybe[list[list[int]]] = strawberry.field(
        description="Checker moves as [from, to] in your own numbering, 25 = bar, 0 = off, one a die or several in one."
    )


@strawberry.input(description="Which matches to list; all that is given must hold.")
class MatchFilter:
    status: Status | None = strawberry.field(default=None, description="Waiting, playing or finished.")
    player: ID | None = strawberry.field(default=None, description="Matches of this player.")


@strawberry.type(description="How much something may be.")
class Limit:
    name: str = strawberry.field(description="What is limited.")
    value: int = strawberry.field(description="The most that is served.")
    code: str | None = strawberry.field(description="The error code beyond it; null where the connection is closed.")
    remaining: int | None = strawberry.field(description="Of a rate: the units that you have left; else null.")
    reset_seconds: int | None = strawberry.field(
        description="Of a rate: the seconds in which all its units are there again; else null."
    )


@strawberry.type(description="A guest and its token.")
class Registration:
    player: Player = strawberry.field(description="The new player.")
    token: str = strawberry.field(
        description="Send it as `Authorization: Bearer TOKEN`, and as `authorization` in a websocket's connection_init."
    )
    expires_at: datetime = strawberry.field(description="When the token stops working, UTC.")


@strawberry.type(description="What can be asked.")
class Query:
    @strawberry.field(description="A match as it stands or at an earlier version; null if there is none you may see.")
    async def match(
        self,
        info: Info,
        id: MatchId,
        version: Annotated[int | None, strawberry.argument(description="An earlier version; the newest.")] = None,
    ) -> MatchView | None:
        table, viewer = info.context.table, info.context.viewer
        try:
            head = await table.head(id, viewer)
        except RuleError:
            return None
        if version is None or version == head.version:
            return MatchView.at_head(head)
        if not 1 <= version < head.version:
            raise ApiError(ErrorCode.BAD_INPUT, f"version is {version}; this match has versions 1 to {head.version}")
        [step] = await table.steps(id, version - 1, version)
        return MatchView.at_step(step)

    @strawberry.field(description="Matches that you may find, newest first. New matches do not move older pages.")
    async def matches(
        self,
        info: Info,
        filter: Annotated[MatchFilter | None, strawberry.argument(description="Which matches; all.")] = None,
        first: First = None,
        after: After = None,
    ) -> Connection[MatchView]:
        length = page_length(first)
        before = None
        if after is not None:
            created_at, _, match_id = after.partition("~")
            if not _CURSOR.fullmatch(after):
                raise ApiError(ErrorCode.BAD_INPUT, f"after is {after[:100]!r}; it is the cursor of an edge")
            before = created_at, match_id
        filter = filter or MatchFilter()
        table, viewer = info.context.table, info.context.viewer
        rows = await table.newest(viewer, first=length + 1, before=before, status=filter.status, player=filter.player)
        page = rows[:length]
        await table.names({id_ for row in page for id_ in (row.white, row.black) if id_})
        heads = await table.heads(page)
        items = [
            (f"{row.created_at}~{row.id}", MatchView.at_head(head))
            for row, head in zip(page, heads, strict=True)
            if head is not None
        ]
        return Connection.of(items, len(rows) > length, first_page=after is None)

    @strawberry.field(description="You; null without a token.")
    async def me(self, info: Info) -> Player | None:
        return await _player(info, info.context.viewer)

    @strawberry.field(description="A player; null if there is none.")
    async def player(
        self, info: Info, id: Annotated[ID, strawberry.argument(description="The player.")]
    ) -> Player | None:
        return await _player(info, id)

    @strawberry.field(description="How much may be asked for, at once and in time.")
    async def limits(self, info: Info) -> list[Limit]:
        context = info.context
        return [Limit(**limit._asdict()) for limit in await limits_of(context.rates, context.payer)]


@strawberry.type(description="What can be done. Each of the nine commands answers what happened, or why nothing did.")
class Mutation:
    @strawberry.mutation(description="Become a player, by name alone.")
    async def register_guest(
        self,
        info: Info,
        name: Annotated[str, strawberry.argument(description="What to call you: 1 to 40 printable characters.")],
    ) -> Registration:
        shown = name_of(name)
        if shown is None:
            raise ApiError(ErrorCode.BAD_INPUT, f"a name has 1 to {LONGEST_NAME} printable characters")
        player = await info.context.table.register(shown)
        token, expires_at = info.context.tokens.issue(player.id)
        return Registration(player=Player(id=ID(player.id), name=shown), token=token, expires_at=expires_at)

    @strawberry.mutation(description="Open a match and take a seat; it starts when another player joins.")
    async def create_match(
        self,
        info: Info,
        settings: Annotated[SettingsInput, strawberry.argument(description="What is agreed before the first roll.")],
        color: Annotated[Color, strawberry.argument(description="The seat you take.")] = Color.WHITE,
        auto_roll: AutoRoll = True,
        entropy: Entropy = "",
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        agreed = _settings(settings)
        request = _request(info, idempotency_key, None, agreed, color, auto_roll, entropy)
        return _happened(await info.context.table.create(request, agreed, color, auto_roll, entropy))

    @strawberry.mutation(description="Take the free seat of a match, which starts it.")
    async def join_match(
        self,
        info: Info,
        match_id: MatchId,
        auto_roll: AutoRoll = True,
        entropy: Entropy = "",
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id, auto_roll, entropy)
        return _happened(await info.context.table.join(match_id, request, auto_roll, entropy))

    @strawberry.mutation(description="Throw the dice.")
    async def roll(
        self,
        info: Info,
        match_id: MatchId,
        entropy: Entropy = "",
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id, entropy)
        return await _act(info, match_id, request, lambda by, throw, match: throw(match, by, entropy))

    @strawberry.mutation(description="Play the roll, as a whole.")
    async def move(
        self,
        info: Info,
        match_id: MatchId,
        play: Annotated[PlayInput, strawberry.argument(description="The whole play, written either way.")],
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        written = (play.notation.value if play.notation else None, play.moves.value if play.moves else None)
        request = _request(info, idempotency_key, expected_version, match_id, written)
        notation, pairs = written
        moves = None if notation is not None else checker_moves(pairs or [])

        def make(by: Color, throw: Throw, match: Match) -> Move:
            return Move(by=by, play=parse_play(notation or "") if moves is None else moves)

        return await _act(info, match_id, request, make)

    @strawberry.mutation(description="Offer the cube at twice its value.")
    async def double(
        self,
        info: Info,
        match_id: MatchId,
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id)
        return await _act(info, match_id, request, lambda by, throw, match: Double(by=by))

    @strawberry.mutation(description="Accept the open double (a take) or resignation.")
    async def accept(
        self,
        info: Info,
        match_id: MatchId,
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id)
        return await _act(info, match_id, request, lambda by, throw, match: Accept(by=by))

    @strawberry.mutation(description="Refuse the open double (a drop, which loses the game) or resignation.")
    async def refuse(
        self,
        info: Info,
        match_id: MatchId,
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id)
        return await _act(info, match_id, request, lambda by, throw, match: Refuse(by=by))

    @strawberry.mutation(
        description="Offer to lose the game at a stake, on either side's turn; MATCH gives up the whole match. "
        "An offer of all that can still be lost needs no answer."
    )
    async def resign(
        self,
        info: Info,
        match_id: MatchId,
        stake: Annotated[Stake, strawberry.argument(description="What is given up.")],
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id, stake)
        return await _act(info, match_id, request, lambda by, throw, match: Resign(by=by, stake=stake))

    @strawberry.mutation(
        description="After the end, propose another match, colours swapped, or accept the other side's proposal."
    )
    async def rematch(
        self,
        info: Info,
        match_id: MatchId,
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id)
        return _happened(await info.context.table.rematch(match_id, request))


@strawberry.type(description="What can be watched.")
class Subscription:
    @strawberry.subscription(
        description="Every event of a match after number `after` (0: from its start), once and in order, those to come "
        "included. Give the last `seq` you saw to go on after an interruption. Completes when the match is over."
    )
    async def match_events(
        self,
        info: Info,
        match_id: MatchId,
        after: Annotated[int, strawberry.argument(description="The last seq that you have seen; 0 is the start.")] = 0,
    ) -> AsyncIterator[EventView]:
        async with aclosing(info.context.watch(match_id, after)) as steps:
            async for step in steps:
                yield event_view(step)


class _RefusalHandler(strawberry.ExceptionHandler[RuleError | Refused, Refusal]):
    """A refusal is an answer like any other."""

    def handle(self, exception: RuleError | Refused, *, field: Any, info: Any) -> Refusal:
        if isinstance(exception, Refused):
            return refusal_view(exception.error, exception.head)
        return refusal_view(exception, None)


_RULES: list[type[ASTValidationRule]] = [QueryLimits]


class _Schema(strawberry.Schema):
    def process_errors(self, errors: Any, execution_context: Any = None) -> None:
        """Nothing: `coded` logs what is unforeseen, and the rest is for the client."""


schema = _Schema(
    query=Query,
    mutation=Mutation,
    subscription=Subscription,
    types=EVENT_TYPES,
    config=StrawberryConfig(auto_camel_case=True),
    exception_handlers=[_RefusalHandler()],
    extensions=[
        CodedStream,
        lambda: MaxTokensLimiter(max_token_count=limits.QUERY_TOKENS),
        lambda: AddValidationRules(_RULES),
        lambda: Parsing(maxsize=256),
        lambda: ValidationCache(maxsize=256),
    ],
)


async def _player(info: Info, player_id: str | None) -> Player | None:
    players = await info.context.table.players([player_id]) if player_id else {}
    return Player.of(player_id, players[player_id]) if player_id and players else None


async def _act(info: Info, match_id: str, request: Request, command: MakeCommand) -> Answer:
    return _happened(await info.context.table.act(match_id, request, command))


def _happened(done: Done) -> Happened:
    return Happened(match=MatchView.at_head(done.head), events=[event_view(step) for step in done.steps])


def _request(info: Info, key: str | None, expected_version: int | None, *given: object) -> Request:
    """Who commands and under which guards; a key stands for this field with all its arguments. Raises ApiError."""
    player = info.context.player
    if key is None:
        return Request(player=player, expected_version=expected_version)
    if not 1 <= len(key) <= LONGEST_KEY:
        raise ApiError(ErrorCode.BAD_INPUT, f"the idempotency key has {len(key)} characters; 1 to {LONGEST_KEY} can be")
    if "\0" in key:  # which PostgreSQL has in no text
        key = f"sha256 {hashlib.sha256(key.encode()).hexdigest()}"
    fingerprint = hashlib.sha256(msgspec.json.encode((info.field_name, expected_version, given))).hexdigest()
    return Request(player=player, expected_version=expected_version, key=Key(player, key, fingerprint))


def _settings(given: SettingsInput) -> Settings:
    """The settings a client asks for; what is left to a start position is taken from it. Raises RuleError, ApiError."""
    sandbox = None
    length, cube_limit, jacoby = given.length, given.cube_limit, given.jacoby
    if given.sandbox is not None:
        if any(len(dice) != 2 for dice in given.sandbox.dice):
            raise ApiError(ErrorCode.BAD_INPUT, "sandbox.dice are pairs of numbers, like [[3, 1], [6, 4]]")
        sandbox = Sandbox(start=given.sandbox.start, dice=tuple(Dice(*dice) for dice in given.sandbox.dice))
        if sandbox.start is not None:
            start = parse_position(sandbox.start)
            length = start.length if length is None else length
            cube_limit = start.cube_limit if cube_limit is None else cube_limit
            jacoby = start.jacoby if jacoby is None else jacoby
    return Settings(
        length=length,
        crawford=given.crawford and length is not None,
        cube_limit=64 if cube_limit is None else cube_limit,
        jacoby=bool(jacoby),
        automatic_doubles=given.automatic_doubles,
        visibility=given.visibility,
        sandbox=sandbox,
    )
