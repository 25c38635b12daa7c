"""The GraphQL API: queries, mutations (a command each), and what can be watched."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

import msgspec
import strawberry
from strawberry import ID
from strawberry.schema.config import StrawberryConfig

from domain.board import Color, Dice
from domain.breach import Breach, RuleError
from domain.commands import Accept, Cancel, Double, Move, Refuse, Resign
from domain.events import Clock, Sandbox, Settings, Stake, Visibility
from domain.match import Match
from domain.notation import parse_play
from domain.position import parse_position
from infra.store import Key, Status
from service.apps import LONGEST_NAME, name_of
from service.commands import observed
from service.errors import ApiError, ErrorCode
from service.execution import Executor, Preparation, read_plainly
from service.limits import page_length
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
    InvitationAnswer,
    InvitationView,
    LanguageArgument,
    LobbyUpdate,
    MatchView,
    Notice,
    Player,
    Refusal,
    Seek,
    SeekAnswer,
    checker_moves,
    event_view,
    leaderboard_page,
    match_cursor,
    match_page,
    notice_view,
    player_view,
    refusal_view,
)
from service.words import code_message

LONGEST_KEY = 100


@strawberry.enum(description="What a claimed match comes to.")
class Outcome(Enum):
    WIN = strawberry.enum_value("win", description="You have won it.")
    NO_RESULT = strawberry.enum_value("no_result", description="Nobody has: it is cancelled.")


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
LobbyApp = Annotated[
    str | None, strawberry.argument(description="Whose users: an app's; an empty text: guests. Yours, if left out.")
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


@strawberry.input(
    description="How long each player may think: days a turn; or a reserve for the match, which runs when the delay of "
    "a turn is used up. What is not used of a delay is lost."
)
class ClockInput:
    reserve: int | None = strawberry.field(
        default=None,
        description="Seconds for each player and the whole match, up to 86400; null is two minutes a point, as in "
        "tournaments (ten minutes in a money game).",
    )
    delay: int = strawberry.field(default=12, description="Seconds for each turn, up to 30 days.")
    days_per_turn: int | None = strawberry.field(
        default=None, description="Instead of both, for play by correspondence: days for each turn, 1 to 30."
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
    clock: ClockInput | None = strawberry.field(default=None, description="Null is a match without a clock.")
    rated: bool = strawberry.field(
        default=False,
        description="Whether the result changes the ratings of both players, who must be of the same app. For matches "
        "with a length.",
    )


@strawberry.input(one_of=True, description="A play, written either way.")
class PlayInput:
    notation: strawberry.Maybe[str] = strawberry.field(
        description="Standard notation: `24/18 13/11*`, `bar/20`, `6/off(2)`. A `*` may be left out."
    )
    moves: strawberry.Maybe[list[list[int]]] = strawberry.field(
        description="Checker moves as [from, to] in your own numbering, 25 = bar, 0 = off, one a die or several in one."
    )


def _play_input(made: type[PlayInput], given: Mapping[str, Any], _: object) -> PlayInput:
    """What a client gives, as it is: Strawberry would look up the types of both fields each time."""
    return made(**{name: strawberry.Some(value) for name, value in given.items()})


PlayInput.__strawberry_definition__.from_input = _play_input  # type: ignore[attr-defined]


@strawberry.input(description="Which matches to list; all that is given must hold.")
class MatchFilter:
    status: Status | None = strawberry.field(default=None, description="Waiting, playing or finished.")
    player: ID | None = strawberry.field(default=None, description="Matches of this player.")
    app: str | None = strawberry.field(
        default=None, description="Matches opened by users of this app; an empty text: by guests."
    )
    finished_after: datetime | None = strawberry.field(default=None, description="Ended then or later.")
    finished_before: datetime | None = strawberry.field(default=None, description="Ended before.")
    invited: bool = strawberry.field(default=False, description="Private matches to which you are invited.")


@strawberry.type(description="How much something may be.")
class Limit:
    name: str = strawberry.field(description="What is limited.")
    value: int = strawberry.field(description="The most that is served.")
    code: str | None = strawberry.field(description="The error code beyond it; null where the connection is closed.")
    remaining: int | None = strawberry.field(description="Of a rate: the units that you have left; else null.")
    reset_seconds: int | None = strawberry.field(
        description="Of a rate: the seconds in which all its units are there again; else null."
    )


@strawberry.type(description="A code of refusals (`RefusalCode`) or of errors (`extensions.code`).")
class Code:
    code: str = strawberry.field(description="The code.")
    message: str = strawberry.field(description="What it means in general; what is told with it says more.")


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
            raise ApiError(
                ErrorCode.BAD_INPUT,
                "version is {version}; this match has versions 1 to {newest}",
                version=version,
                newest=head.version,
            )
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
        length, before = page_length(first), match_cursor(after)
        filter = filter or MatchFilter()
        table, viewer = info.context.table, info.context.viewer
        rows = await table.newest(
            viewer,
            first=length + 1,
            before=before,
            status=filter.status,
            player=filter.player,
            app=filter.app,
            finished_after=_utc(filter.finished_after),
            finished_before=_utc(filter.finished_before),
            invited=info.context.identity if filter.invited else None,
        )
        return await match_page(table, rows, length, first_page=after is None)

    @strawberry.field(description="The match to which a code invites. The errors CODE_UNKNOWN and CODE_EXPIRED say so.")
    async def invitation(
        self, info: Info, code: Annotated[str, strawberry.argument(description="The code, as it was sent.")]
    ) -> MatchView:
        table = info.context.table
        return MatchView.at_head(await table.head(await table.invited_by(code), info.context.viewer))

    @strawberry.field(
        description="The players of an app by their rating, the best first; equal ones by their id. A cursor is a "
        "rating and a player: whose rating passes that place while you turn pages is met twice, or not at all; nobody "
        "else is moved."
    )
    async def leaderboard(
        self,
        info: Info,
        app: Annotated[
            str | None, strawberry.argument(description="The app; an empty text is guests; null is your own.")
        ] = None,
        bots: Annotated[bool, strawberry.argument(description="Whether bots are among them.")] = True,
        first: First = None,
        after: After = None,
    ) -> Connection[Player]:
        app = info.context.app if app is None else app
        return await leaderboard_page(info, app, page_length(first), after, bots=bots)

    @strawberry.field(description="You; null without a token.")
    async def me(self, info: Info) -> Player | None:
        return await player_view(info, info.context.viewer)

    @strawberry.field(description="A player; null if there is none.")
    async def player(
        self, info: Info, id: Annotated[ID, strawberry.argument(description="The player.")]
    ) -> Player | None:
        return await player_view(info, id)

    @strawberry.field(description="A seek, also one that has been paired; null if it is not known.")
    async def seek(self, info: Info, id: Annotated[ID, strawberry.argument(description="The seek.")]) -> Seek | None:
        row = await info.context.table.lobby.read(id)
        return Seek.of(row) if row else None

    @strawberry.field(description="Open seeks, newest first: those that could be paired with yours, and your own.")
    async def seeks(
        self,
        info: Info,
        app: LobbyApp = None,
        mine: Annotated[bool, strawberry.argument(description="Only your own.")] = False,
        first: First = None,
        after: After = None,
    ) -> Connection[Seek]:
        length, before, context = page_length(first), match_cursor(after), info.context
        player = context.identity if mine else None
        app = context.app if app is None else app
        rows = await context.table.lobby.listed(app, length + 1, before=before, player=player)
        page = rows[:length]
        await context.table.names({row.player_id for row in page})
        items = [(f"{row.created_at}~{row.id}", Seek.of(row)) for row in page]
        return Connection.of(items, len(rows) > length, first_page=after is None)

    @strawberry.field(description="How much may be asked for, at once and in time.")
    async def limits(self, info: Info) -> list[Limit]:
        context = info.context
        return [Limit(**limit._asdict()) for limit in await limits_of(context.rates, context.payer)]

    @strawberry.field(description="Every code of refusals and of errors, in words.")
    def codes(self, info: Info, language: LanguageArgument = None) -> list[Code]:
        spoken = language or info.context.language
        names = [*(breach.name for breach in Breach), *ErrorCode]
        return [Code(code=name, message=code_message(spoken, name)) for name in names]


@strawberry.type(description="What can be done. Each command answers what happened, or why nothing did.")
class Mutation:
    @strawberry.mutation(description="Become a player, by name alone.")
    async def register_guest(
        self,
        info: Info,
        name: Annotated[str, strawberry.argument(description="What to call you: 1 to 40 printable characters.")],
    ) -> Registration:
        shown = name_of(name)
        if shown is None:
            raise ApiError(ErrorCode.BAD_INPUT, "a name has 1 to {most} printable characters", most=LONGEST_NAME)
        player = await info.context.table.register(shown)
        token, expires_at = info.context.tokens.issue(player.id)
        return Registration(player=Player(id=ID(player.id), name=shown), token=token, expires_at=expires_at)

    @strawberry.mutation(description="Open a match and take a seat; it starts when another player joins.")
    async def create_match(
        self,
        info: Info,
        settings: Annotated[SettingsInput, strawberry.argument(description="What is agreed before the first roll.")],
        color: Annotated[Color, strawberry.argument(description="The seat you take.")] = Color.WHITE,
        opponent: Annotated[
            ID | None, strawberry.argument(description="The player whom you invite; for a private match.")
        ] = None,
        auto_roll: AutoRoll = True,
        entropy: Entropy = "",
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        agreed = _settings(settings)
        request = _request(info, idempotency_key, None, agreed, color, auto_roll, entropy, opponent)
        return _happened(await info.context.table.create(request, agreed, color, auto_roll, entropy, opponent))

    @strawberry.mutation(
        description="Take the free seat of a match, which starts it. An unlisted match is joined by the code of its "
        "invitation, with or without the match's id."
    )
    async def join_match(
        self,
        info: Info,
        match_id: Annotated[ID | None, strawberry.argument(description="The match; the code says which.")] = None,
        code: Annotated[str | None, strawberry.argument(description="The code of an invitation.")] = None,
        auto_roll: AutoRoll = True,
        entropy: Entropy = "",
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id, code, auto_roll, entropy)
        table = info.context.table
        if code is not None:
            invited = await table.invited_by(code)
            if match_id not in (None, invited):
                raise RuleError(Breach.CODE_UNKNOWN, "the code is for another match")
            match_id = ID(invited)
        if match_id is None:
            raise ApiError(ErrorCode.BAD_INPUT, "say which match: its matchId, or the code of its invitation")
        return _happened(await table.join(match_id, request, auto_roll, entropy, with_code=code is not None))

    @strawberry.mutation(description="A new code for your unlisted match; the one before is good no more.")
    async def invite(self, info: Info, match_id: MatchId) -> InvitationAnswer:
        invitation = await info.context.table.invite(match_id, _request(info, None, None))
        return InvitationView(join_code=invitation.code, expires_at=invitation.expires_at)

    @strawberry.mutation(description="Call off a match that you have opened, before anybody joins.")
    async def cancel_match(
        self,
        info: Info,
        match_id: MatchId,
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id)
        return await _act(info, match_id, request, lambda by, throw, match: Cancel(by=by))

    @strawberry.mutation(
        description="End a match without a clock whose opponent, who must act, has stayed away for as long "
        "as this service asks, 15 minutes if nothing else is set (see `claimableAt`)."
    )
    async def claim_match(
        self,
        info: Info,
        match_id: MatchId,
        outcome: Annotated[Outcome, strawberry.argument(description="What the match is to come to.")] = Outcome.WIN,
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id, outcome)
        return _happened(await info.context.table.claim(match_id, request, win=outcome is Outcome.WIN))

    @strawberry.mutation(description="Decline the private match to which you are invited.")
    async def decline_match(
        self,
        info: Info,
        match_id: MatchId,
        expected_version: ExpectedVersion = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Answer:
        request = _request(info, idempotency_key, expected_version, match_id)
        return _happened(await info.context.table.decline(match_id, request))

    @strawberry.mutation(
        description="Look for an opponent among the users of your app who seeks the same: then the match starts at "
        "once, and `match` is it. Else the seek stays open for a while; follow it by `lobby`, or ask for it."
    )
    async def seek(
        self,
        info: Info,
        length: Annotated[int | None, strawberry.argument(description="Points, 1 to 99; null is a money game.")] = None,
        clock: Annotated[ClockInput | None, strawberry.argument(description="The clock; null is none.")] = None,
        rated: Annotated[bool, strawberry.argument(description="Whether ratings change.")] = False,
        seconds: Annotated[
            int, strawberry.argument(description="For how long it stays open: 5 to 604800 seconds.")
        ] = 600,
        auto_roll: AutoRoll = True,
        entropy: Entropy = "",
        idempotency_key: IdempotencyKey = None,
    ) -> SeekAnswer:
        if not 5 <= seconds <= 604_800:
            raise ApiError(
                ErrorCode.BAD_INPUT, "seconds is {seconds}; a seek stays open for 5 to 604800", seconds=seconds
            )
        settings = Settings(length=length, crawford=length is not None, clock=_clock(clock, length), rated=rated)
        request = _request(info, idempotency_key, None, settings, auto_roll, entropy, seconds)
        return Seek.of(await info.context.table.seek(request, settings, auto_roll, entropy, seconds))

    @strawberry.mutation(description="Close your seek. One that has been paired stays so: then `match` is there.")
    async def cancel_seek(
        self, info: Info, id: Annotated[ID, strawberry.argument(description="The seek.")]
    ) -> SeekAnswer:
        return Seek.of(await info.context.table.lobby.cancel(id, info.context.player))

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

    @strawberry.subscription(
        description="The lobby of an app: first all that is there, then what comes and goes, a few times a second at "
        "most (less often the more watch). Shows the 100 newest seeks and the 100 newest public matches. Does not "
        "complete."
    )
    async def lobby(self, info: Info, app: LobbyApp = None) -> AsyncIterator[LobbyUpdate]:
        table = info.context.table
        async with aclosing(info.context.lobby(app)) as changes:
            async for change in changes:
                await table.names({id_ for row in change.listed for id_ in (row.white, row.black) if id_})
                heads = await table.heads(change.listed)
                yield LobbyUpdate(
                    seeks_opened=[Seek.of(row) for row in change.opened],
                    seeks_closed=[Seek.of(row) for row in change.closed],
                    matches_listed=[MatchView.at_head(head) for head in heads if head],
                    matches_unlisted=[ID(id_) for id_ in change.unlisted],
                )

    @strawberry.subscription(
        description="What is told beside the log: first all that is so, then whatever changes. Players who watch are "
        "there; who has left is called away after a few seconds. Does not complete."
    )
    async def match_notices(self, info: Info, match_id: MatchId) -> AsyncIterator[Notice]:
        context = info.context
        async with aclosing(context.table.watch_beside(match_id, context.viewer)) as notices:
            async for notice in notices:
                yield notice_view(notice)


class _RefusalHandler(strawberry.ExceptionHandler[RuleError | Refused, Refusal]):
    """A refusal is an answer like any other."""

    def handle(self, exception: RuleError | Refused, *, field: Any, info: Any) -> Refusal:
        if isinstance(exception, Refused):
            return refusal_view(exception.error, exception.head)
        return refusal_view(exception, None)


class _Schema(strawberry.Schema):
    def process_errors(self, errors: Any, execution_context: Any = None) -> None:
        """Nothing: `coded` logs what is unforeseen, and the rest is for the client."""


schema = _Schema(
    query=Query,
    mutation=Mutation,
    subscription=Subscription,
    types=EVENT_TYPES,
    config=StrawberryConfig(auto_camel_case=True),
    execution_context_class=Executor,
    exception_handlers=[_RefusalHandler()],
    extensions=[Preparation],
)

read_plainly(schema)

_mutations = schema._schema.mutation_type
assert _mutations is not None
for _name, _field in _mutations.fields.items():
    assert _field.resolve is not None
    _field.resolve = observed(_name, _field.resolve)


async def _act(info: Info, match_id: str, request: Request, command: MakeCommand) -> Answer:
    return _happened(await info.context.table.act(match_id, request, command))


def _happened(done: Done) -> Happened:
    return Happened(match=MatchView.at_head(done.head), events=[event_view(step) for step in done.steps])


def _request(info: Info, key: str | None, expected_version: int | None, *given: object) -> Request:
    """Who commands and under which guards; a key stands for this field with all its arguments. Raises ApiError."""
    player = info.context.player
    if key is None:
        return Request(player=player, app=info.context.app, expected_version=expected_version)
    if not 1 <= len(key) <= LONGEST_KEY:
        raise ApiError(
            ErrorCode.BAD_INPUT,
            "the idempotency key has {got} characters; 1 to {most} can be",
            got=len(key),
            most=LONGEST_KEY,
        )
    if "\0" in key:  # which PostgreSQL has in no text
        key = f"sha256 {hashlib.sha256(key.encode()).hexdigest()}"
    fingerprint = hashlib.sha256(msgspec.json.encode((info.field_name, expected_version, given))).hexdigest()
    key_used = Key(player, key, fingerprint)
    return Request(player=player, app=info.context.app, expected_version=expected_version, key=key_used)


def _utc(at: datetime | None) -> datetime | None:
    """A client's time in UTC; one without a zone is. Raises ApiError BAD_INPUT."""
    try:
        return at and (at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC))
    except OverflowError as error:
        raise ApiError(
            ErrorCode.BAD_INPUT, "the time {at} is not within the years 1 to 9999, UTC", at=str(at)
        ) from error


def _clock(given: ClockInput | None, length: int | None) -> Clock | None:
    """The clock a client asks for; RULES.md section 5 says what a tournament's is."""
    if given is None:
        return None
    if given.days_per_turn is not None:
        if not 1 <= given.days_per_turn <= 30:
            raise ApiError(ErrorCode.BAD_INPUT, "daysPerTurn is {got}; it is 1 to 30", got=given.days_per_turn)
        return Clock(reserve=0, delay=given.days_per_turn * 86_400)
    reserve = 120 * (length or 5) if given.reserve is None else given.reserve
    return Clock(reserve=reserve, delay=given.delay)


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
        clock=_clock(given.clock, length),
        rated=given.rated,
    )
