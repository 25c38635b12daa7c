"""What clients see of the game: the GraphQL types, and how each is made from the domain.

Fields are plain attributes where they cost nothing, and boards are lists of numbers: executing fields is what a request
costs. Points are numbered from 1 (home) to 24 by whoever is meant, 25 is the bar and 0 is off.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Generic, Self, TypeVar

import msgspec
import strawberry
from strawberry import ID
from strawberry.relay import PageInfo

from domain import events
from domain.board import BAR, OFF, Board, CheckerMove, Color, Play
from domain.breach import Breach, RuleError
from domain.events import Stake, Visibility
from domain.match import (
    SECOND,
    CalledOff,
    Crawford,
    End,
    LastPlay,
    Match,
    OnRoll,
    Opening,
    Over,
    ToAnswer,
    ToPlay,
    Waiting,
)
from domain.notation import format_play
from domain.plays import destinations, legal_plays
from domain.position import format_gnu_match_id, format_gnu_position_id, format_xgid, position_of
from domain.ratings import Standing
from domain.rules import Action, allowed_actions
from infra.log import decode_time, moment
from infra.presence import Presence
from infra.store import MatchRow, SeekRow, Status
from infra.tables import RatingRow, StandingRow
from service.auth import Context
from service.errors import ApiError, ErrorCode
from service.limits import page_length
from service.notices import Notice as Noticed
from service.table import Head, Known, Proof, Table
from service.windows import Step
from service.words import Language, tell

Info = strawberry.Info[Context, None]
T = TypeVar("T")


class Phase(StrEnum):
    """What a match waits for; `toAct` says whom."""

    WAITING = "waiting"
    OPENING = "opening"
    ON_ROLL = "on_roll"
    TO_PLAY = "to_play"
    TO_ANSWER = "to_answer"
    OVER = "over"
    CANCELLED = "cancelled"


_PHASES = {
    Waiting: Phase.WAITING,
    Opening: Phase.OPENING,
    OnRoll: Phase.ON_ROLL,
    ToPlay: Phase.TO_PLAY,
    ToAnswer: Phase.TO_ANSWER,
    Over: Phase.OVER,
    CalledOff: Phase.CANCELLED,
}

for kind, name, description in (
    (Color, "Color", "The two sides; in XGID white is X and black is O."),
    (Phase, "Phase", "What the match waits for; `toAct` says whom."),
    (Crawford, "Crawford", "Where the match stands to its one game without doubling: to come, now, or past or never."),
    (Visibility, "Visibility", "Who may see a match: everybody, whoever knows its id, or its two players."),
    (Stake, "Stake", "What a resignation gives up: one, two or three times the cube, or the whole match."),
    (End, "End", "How a game ended."),
    (Action, "Action", "What a player can do, by the name of its mutation."),
    (Status, "Status", "Where a match is in its life: waiting for a second player, being played, finished, cancelled."),
    (Language, "Language", "A language in which every message is told."),
    (Breach, "RefusalCode", "Why a command was refused: a closed list."),
):
    strawberry.enum(kind, name=name, description=description)


First = Annotated[int | None, strawberry.argument(description="How long the page is: 1 to 100, or 20.")]
LanguageArgument = Annotated[
    Language | None,
    strawberry.argument(description="The language of the words; that of Accept-Language or of the connection_init."),
]
After = Annotated[str | None, strawberry.argument(description="The cursor after which the page begins; its start.")]


@strawberry.type(description="An item and where it stands in its list.")
class Edge(Generic[T]):
    cursor: str = strawberry.field(description="Give it as `after` to continue behind this item.")
    node: T = strawberry.field(description="The item.")


@strawberry.type(description="A page of a list.")
class Connection(Generic[T]):
    edges: list[Edge[T]] = strawberry.field(description="The items with their cursors.")
    page_info: PageInfo = strawberry.field(description="Whether there is more, and from where.")

    @classmethod
    def of(cls, items: Sequence[tuple[str, T]], more: bool, *, first_page: bool) -> Self:
        """A page of (cursor, item) pairs."""
        return cls(
            edges=[Edge(cursor=cursor, node=node) for cursor, node in items],
            page_info=PageInfo(
                has_next_page=more,
                has_previous_page=not first_page,
                start_cursor=items[0][0] if items else None,
                end_cursor=items[-1][0] if items else None,
            ),
        )


@strawberry.type(description="A player's rating. All begin at 1500; only matches that counted are in it.")
class Rating:
    value: float = strawberry.field(description="The rating, to six decimals.")
    experience: int = strawberry.field(description="The lengths of all those matches together.")
    matches: int = strawberry.field(description="How many.")
    wins: int = strawberry.field(description="How many of them the player has won.")
    provisional: bool = strawberry.field(
        description="Whether it still changes faster than others: up to an experience of 400."
    )

    @classmethod
    def of(cls, row: StandingRow) -> Self:
        """The view of a standing."""
        standing = Standing(row.rating, row.experience, row.matches, row.wins)
        return cls(
            value=row.rating,
            experience=row.experience,
            matches=row.matches,
            wins=row.wins,
            provisional=standing.provisional,
        )


@strawberry.type(description="Somebody who plays: a guest, or a user of an app.")
class Player:
    id: ID = strawberry.field(description="Stands for the player in every log.")
    name: str = strawberry.field(description="What the player wishes to be called; not unique.")
    app: str | None = strawberry.field(default=None, description="The app whose user it is; null for a guest.")
    bot: bool = strawberry.field(default=False, description="Whether it is a program, as its app says.")
    standing: strawberry.Private[StandingRow | None] = None

    @classmethod
    def of(cls, id: str, known: Known | None) -> "Player":
        """The player as it is known; without a name if it is not."""
        if known is None:
            return cls(id=ID(id), name="")
        return cls(id=ID(id), name=known.name, app=known.app or None, bot=known.bot)

    @strawberry.field(description="The rating by the formula of FIBS; null for who has played no rated match.")
    async def rating(self, info: Info) -> Rating | None:
        standing = self.standing or (await info.context.table.ratings.standings([self.id])).get(self.id)
        return Rating.of(standing) if standing else None

    @strawberry.field(
        description="The rated matches that the player has ended, newest first. New ones do not move older pages."
    )
    async def ratings(
        self, info: Info, first: First = None, after: After = None
    ) -> Connection[Annotated["RatingChange", strawberry.lazy("service.views")]]:
        length, before = page_length(first), None
        if after is not None:
            if not (after.isascii() and after.isdigit() and len(after) < 19):
                raise ApiError(ErrorCode.BAD_INPUT, "after is {after!r}; it is the cursor of an edge", after=after[:40])
            before = int(after)
        rows = await info.context.table.ratings.history(self.id, first=length + 1, before=before)
        changes = await rating_changes(info, [row for _, row in rows[:length]])
        items = [(str(number), change) for (number, _), change in zip(rows, changes, strict=False)]
        return Connection.of(items, len(rows) > length, first_page=after is None)


@strawberry.type(description="What a rated match has done to a player's rating.")
class RatingChange:
    player: Player = strawberry.field(description="Whose rating.")
    match_id: ID | None = strawberry.field(description="The match; null where you would not find it in `matches`.")
    opponent: Player | None = strawberry.field(description="Whom the player met; null where the match is.")
    at: datetime = strawberry.field(
        description="When the match ended, UTC; the beginning of that day where you would not find the match."
    )
    length: int = strawberry.field(description="Points that won it.")
    won: bool = strawberry.field(description="Whether the player did.")
    counted: bool = strawberry.field(
        description="Whether it changed ratings and experience: of the matches that the same two end within 24 hours, "
        "three do."
    )
    rating_after: float = strawberry.field(description="The rating after it.")
    change: float = strawberry.field(description="What was added to it.")


@strawberry.type(description="Whether a player watches the match by a socket or stream of its own.", name="Presence")
class PresenceView:
    present: bool = strawberry.field(description="Whether it does now.")
    away_since: datetime | None = strawberry.field(description="Since when it has not, UTC; null for one who is here.")

    @classmethod
    def of(cls, presence: Presence) -> Self:
        """The view of a presence."""
        return cls(present=presence.present, away_since=None if presence.present else presence.left_at)


@strawberry.type(description="One side of a match, seen from its own end of the board.")
class Seat:
    color: Color = strawberry.field(description="Which side this is.")
    score: int = strawberry.field(description="Points won so far, never shown as more than the match length.")
    away: int | None = strawberry.field(description="Points still needed; null in a money game.")
    checkers: list[int] = strawberry.field(
        description="26 counts of this side's checkers in its own numbering: 0 = off, 1 to 6 home, 25 = bar."
    )
    player_id: strawberry.Private[str | None]
    board: strawberry.Private[Board]
    match_id: strawberry.Private[str]

    @strawberry.field(description="Whether the player is there; null for one who never was, and for a free seat.")
    async def presence(self, info: Info) -> PresenceView | None:
        found = (await info.context.table.notices.of(self.match_id)).get(self.player_id or "")
        return PresenceView.of(found) if found else None

    @strawberry.field(description="The race: pips still needed to bear everything off; a checker on the bar needs 25.")
    def pips(self) -> int:
        return self.board.pips(self.color)

    @strawberry.field(description="Who sits here; null while the seat is free.")
    async def player(self, info: Info) -> Player | None:
        if self.player_id is None:
            return None
        players = await info.context.table.players([self.player_id])
        return Player.of(self.player_id, players.get(self.player_id))


@strawberry.type(description="The doubling cube.")
class Cube:
    value: int = strawberry.field(description="What the game is played for; 1 while the cube shows 64 in the middle.")
    owner: Color | None = strawberry.field(description="Who alone may double next; null while it is centred.")


@strawberry.type(description="What a sandbox match was given; sandboxes are for tests and are never rated.")
class Sandbox:
    start: str | None = strawberry.field(description="The first position, as XGID; null for the usual opening.")
    dice: list[list[int]] = strawberry.field(description="The first rolls, in order.")


@strawberry.type(description="How long each player may think.")
class ClockSettings:
    reserve: int = strawberry.field(description="Seconds for each player and the whole match.")
    delay: int = strawberry.field(description="Seconds for each turn, before the reserve runs; what is left is lost.")


@strawberry.type(
    description="The clock at a version. The time left of who must act is: its reserve, less what has passed since "
    "`since` beyond the delay."
)
class Clock:
    white: float = strawberry.field(description="Seconds of white's reserve when the clock last changed sides.")
    black: float = strawberry.field(description="Seconds of black's reserve then.")
    running: Color | None = strawberry.field(description="Whose clock runs; null while nobody's does.")
    since: datetime | None = strawberry.field(description="When it began to run, UTC.")
    deadline: datetime | None = strawberry.field(description="When it will have run out, UTC.")


@strawberry.type(description="What is agreed before the first roll.")
class Settings:
    length: int | None = strawberry.field(description="Points that win the match; null is a money game: one game.")
    crawford: bool = strawberry.field(description="No doubling in the game after a side first stands one point away.")
    cube_limit: int = strawberry.field(description="The highest cube; 1 is no cube.")
    jacoby: bool = strawberry.field(description="Money only: gammons count once a player has turned the cube.")
    automatic_doubles: int = strawberry.field(description="Money only: opening ties that double the centred cube.")
    visibility: Visibility = strawberry.field(description="Who may see the match.")
    sandbox: Sandbox | None = strawberry.field(description="Scripted dice and start position; null for a real match.")
    clock: ClockSettings | None = strawberry.field(description="How long each may think; null without a clock.")
    rated: bool = strawberry.field(description="Whether the result changes the players' ratings.")


@strawberry.type(description="The board as one side sees it.", name="Board")
class BoardView:
    perspective: Color = strawberry.field(description="Whose view and numbering this is.")
    points: list[int] = strawberry.field(
        description="24 counts for points 1 to 24: positive are the perspective's checkers, negative the opponent's."
    )
    bar: int = strawberry.field(description="The perspective's checkers on the bar.")
    off: int = strawberry.field(description="The perspective's checkers borne off.")
    opponent_bar: int = strawberry.field(description="The opponent's checkers on the bar.")
    opponent_off: int = strawberry.field(description="The opponent's checkers borne off.")


@strawberry.type(description="The play made last in this game.", name="LastPlay")
class LastPlayView:
    by: Color = strawberry.field(description="Who made it.")
    dice: list[int] = strawberry.field(description="The two numbers thrown.")
    moves: list[list[int]] = strawberry.field(
        description="Its checker moves as [from, to], one a die, in the numbering of who made it; empty for a dance."
    )
    notation: str = strawberry.field(description="The play in standard notation, `24/18 13/11*`.")


@strawberry.type(description="One finished game.")
class GameResult:
    game: int = strawberry.field(description="The game's number, from 1.")
    winner: Color = strawberry.field(description="Who won it.")
    points: int = strawberry.field(description="Points by rule, cube included, also beyond what the match needed.")
    stake: Stake = strawberry.field(description="Single, gammon or backgammon; MATCH for a match given up.")
    cube: int = strawberry.field(description="The cube's value at the end.")
    end: End = strawberry.field(description="How it ended.")


@strawberry.type(description="A legal play.")
class LegalPlay:
    notation: str = strawberry.field(description="In standard notation, as `move` takes it.")
    moves: list[list[int]] = strawberry.field(description="Its checker moves as [from, to], one a die, own numbering.")


@strawberry.type(
    description="Where one checker may go next, so that the play can still be completed legally.", name="Destination"
)
class DestinationView:
    from_: int = strawberry.field(name="from", description="Where it stands: 1 to 24, or 25 for the bar.")
    to: int = strawberry.field(description="Where it may go: 1 to 24, or 0 for off.")
    dice: str = strawberry.field(description="The dice it uses, in order: `5`, `3`, `5+3`.")
    hit: bool = strawberry.field(description="Whether it hits a blot, there or on the way.")
    hits: list[int] = strawberry.field(description="The points on which it hits.")
    moves: list[list[int]] = strawberry.field(description="The checker moves that this is, to add to `played`.")


@strawberry.type(description="An offer that waits for its answer.")
class Offer:
    by: Color = strawberry.field(description="Who made it.")
    stake: Stake | None = strawberry.field(description="What a resignation would give up; null for a double.")


@strawberry.type(description="Whether the dice and the log of a match can be relied upon, checked on asking.")
class Fairness:
    whole: bool = strawberry.field(description="Whether every record up to this version is linked, legal and proven.")
    problem: str | None = strawberry.field(description="The first record that is not, and why.")
    rolls: int = strawberry.field(description="Rolls made.")
    proven_rolls: int = strawberry.field(
        description="Rolls that the chain of links proves: all, but for a sandbox's script and imported matches."
    )
    commitment: str | None = strawberry.field(description="What the server committed to before the first roll.")
    imported: str | None = strawberry.field(description="The format of the file that the match came from, if any.")
    public_key: str = strawberry.field(description="The server's key (Ed25519, hexadecimal) that signs finished logs.")
    signature: str | None = strawberry.field(
        description="The signature under `videau head MATCH SEQ HASH` of a finished log, in hexadecimal."
    )


@strawberry.type(description="Another match between the same two, colours swapped.")
class Rematch:
    proposed_by: Color | None = strawberry.field(description="Who proposed it, by colour in this match.")
    match: Annotated["MatchView", strawberry.lazy("service.views")] | None = strawberry.field(
        description="The new match, once the other side has accepted."
    )


@strawberry.type(description="How an unlisted match is joined by somebody who was told.", name="Invitation")
class InvitationView:
    join_code: str = strawberry.field(description="Good for one player, once: ten letters and digits.")
    expires_at: datetime = strawberry.field(description="Until when, UTC.")

    @strawberry.field(description="The path of a page that says what the match is, on this server.")
    def link(self) -> str:
        return f"/join/{self.join_code}"


@strawberry.type(description="A player's score over a series of rematches.")
class SeriesScore:
    player: Player = strawberry.field(description="Who.")
    matches: int = strawberry.field(description="Matches won.")
    points: int = strawberry.field(description="Points won in all of them, those of a match under way included.")


@strawberry.type(description="A match and all its rematches.")
class Series:
    id: ID = strawberry.field(description="The first match.")

    @strawberry.field(description="The score of both players, white of the first match first.")
    async def scores(self, info: Info) -> list[SeriesScore]:
        table = info.context.table
        scores = await table.series(self.id)
        players = await table.players([player for player, _, _ in scores])
        return [
            SeriesScore(player=Player.of(player, players.get(player)), matches=matches, points=points)
            for player, matches, points in scores
        ]

    @strawberry.field(description="The matches that you may find, newest first.")
    async def matches(
        self, info: Info, first: First = None, after: After = None
    ) -> Connection[Annotated["MatchView", strawberry.lazy("service.views")]]:
        length, before, table = page_length(first), match_cursor(after), info.context.table
        rows = await table.newest(info.context.viewer, first=length + 1, before=before, series=self.id)
        return await match_page(table, rows, length, first_page=after is None)


@strawberry.type(description="A player is there, or is away.")
class PresenceNotice:
    color: Color = strawberry.field(description="Whose seat.")
    presence: PresenceView = strawberry.field(description="How it is now.")


@strawberry.type(description="A rematch is proposed, or has started.")
class RematchNotice:
    proposed_by: Color = strawberry.field(description="Who proposed it, by colour in this match.")
    match_id: ID | None = strawberry.field(description="The new match, once it has started.")


Notice = Annotated[
    PresenceNotice | RematchNotice,
    strawberry.union("Notice", description="What is told beside the log of a match, and is not in it."),
]


@strawberry.type(name="Match", description="A match at one version of its log.")
class MatchView:
    id: ID = strawberry.field(description="The match.")
    version: int = strawberry.field(description="The number of the last event folded into this state.")
    hash: str = strawberry.field(description="The hash link of that event: it stands for the whole log up to it.")
    updated_at: datetime = strawberry.field(description="When that event was recorded, UTC.")
    settings: Settings = strawberry.field(description="What was agreed before the first roll.")
    phase: Phase = strawberry.field(description="What the match waits for.")
    to_act: Color | None = strawberry.field(description="Who must act now; null while nobody can.")
    turn: Color | None = strawberry.field(description="Whose turn it is, also while the other side answers an offer.")
    white: Seat = strawberry.field(description="White's side.")
    black: Seat = strawberry.field(description="Black's side.")
    cube: Cube = strawberry.field(description="The doubling cube.")
    dice: list[int] | None = strawberry.field(description="The roll to be played, in the order thrown; null if none.")
    offer: Offer | None = strawberry.field(description="The double or resignation that waits for its answer.")
    game: int = strawberry.field(description="The number of the game being played, or of the last one, from 1.")
    crawford: Crawford = strawberry.field(description="Where the match stands to its Crawford game.")
    winner: Color | None = strawberry.field(description="Who has won the match.")
    state: strawberry.Private[Match]

    @classmethod
    def of(cls, match: Match, version: int, at: datetime, hash_: str) -> Self:
        """The view of a match at a version."""
        phase, settings = match.phase, match.settings
        finished = match.ended
        return cls(
            id=ID(match.id),
            version=version,
            hash=hash_,
            updated_at=at,
            settings=Settings(
                length=settings.length,
                crawford=settings.crawford,
                cube_limit=settings.cube_limit,
                jacoby=settings.jacoby,
                automatic_doubles=settings.automatic_doubles,
                visibility=settings.visibility,
                sandbox=Sandbox(
                    start=settings.sandbox.start,
                    dice=[list(dice) for dice in settings.sandbox.dice],
                )
                if settings.sandbox
                else None,
                clock=ClockSettings(reserve=settings.clock.reserve, delay=settings.clock.delay)
                if settings.clock
                else None,
                rated=settings.rated,
            ),
            phase=_PHASES[type(phase)],
            to_act=match.to_act,
            turn=match.turn,
            white=_seat(match, Color.WHITE),
            black=_seat(match, Color.BLACK),
            cube=Cube(value=match.cube.value, owner=match.cube.owner),
            dice=list(match.dice) if match.dice else None,
            offer=Offer(by=phase.color.opponent, stake=phase.stake) if isinstance(phase, ToAnswer) else None,
            game=len(match.results) + (not finished),
            crawford=match.crawford,
            winner=match.winner,
            state=match,
        )

    @classmethod
    def at_head(cls, head: Head) -> Self:
        """The view of a match as it stands."""
        return cls.of(head.match, head.version, head.at, head.hash)

    @classmethod
    def at_step(cls, step: Step) -> Self:
        """The view of a match right after an event."""
        recorded = step.recorded
        return cls.of(step.match, recorded.seq, recorded.at, recorded.hash)

    @strawberry.field(description="Your colour here; null for everybody who does not play.")
    def viewer_color(self, info: Info) -> Color | None:
        viewer = info.context.viewer
        return self.state.seat_of(viewer) if viewer else None

    @strawberry.field(description="The board from one side; from your own, or white's, when `perspective` is left out.")
    def board(
        self,
        info: Info,
        perspective: Annotated[Color | None, strawberry.argument(description="Whose view; yours, or white's.")] = None,
    ) -> BoardView:
        color = perspective or self.viewer_color(info) or Color.WHITE
        return _board(self.state.board, color)

    @strawberry.field(description="What `color` may do now; you, when it is left out.")
    def allowed_actions(
        self,
        info: Info,
        color: Annotated[Color | None, strawberry.argument(description="Whose actions; yours.")] = None,
    ) -> list[Action]:
        return list(allowed_actions(self.state, color or self.viewer_color(info)))

    @strawberry.field(description="Every legal play of the roll, one for each position that can result.")
    def legal_plays(self) -> list[LegalPlay]:
        phase = self.state.phase
        if not isinstance(phase, ToPlay):
            return []
        plays = legal_plays(self.state.board, phase.color, phase.dice)
        return legal_play_views(self.state.board, phase.color, plays)

    @strawberry.field(
        description="Where checkers may go next: the one on `from`, or each; after the checker moves already `played`. "
        "Empty when the play is complete."
    )
    def destinations(
        self,
        from_: Annotated[
            int | None, strawberry.argument(name="from", description="1 to 24, or 25 for the bar.")
        ] = None,
        played: Annotated[
            list[list[int]], strawberry.argument(description="[from, to] pairs, as `moves` gives them.")
        ] = [],  # noqa: B006 - GraphQL shows the default
    ) -> list[DestinationView]:
        phase = self.state.phase
        if not isinstance(phase, ToPlay):
            return []
        found = destinations(self.state.board, phase.color, phase.dice, checker_moves(played))
        return [
            DestinationView(
                from_=to.src,
                to=to.dst,
                dice="+".join(map(str, to.dice)),
                hit=bool(to.hits),
                hits=list(to.hits),
                moves=[list(move) for move in to.steps],
            )
            for to in found
            if from_ in (None, to.src)
        ]

    @strawberry.field(description="The play made last in this game, for marking it on the board.")
    def last_play(self) -> LastPlayView | None:
        last = self.state.last_play
        return _last_play(last) if last else None

    @strawberry.field(description="The games finished so far.")
    def results(self) -> list[GameResult]:
        return [
            GameResult(
                game=number,
                winner=result.winner,
                points=result.points,
                stake=result.stake,
                cube=result.cube,
                end=result.end,
            )
            for number, result in enumerate(self.state.results, 1)
        ]

    @strawberry.field(description="The position as XGID (eXtreme Gammon); white is X.")
    def xgid(self) -> str:
        return format_xgid(position_of(self.state))

    @strawberry.field(description="The position as GNU Backgammon's position id.")
    def gnu_position_id(self) -> str:
        return format_gnu_position_id(position_of(self.state))

    @strawberry.field(description="Score, cube, dice and turn as GNU Backgammon's match id.")
    def gnu_match_id(self) -> str:
        return format_gnu_match_id(position_of(self.state))

    @strawberry.field(description="The clock; null in a match without one.")
    def clock(self) -> Clock | None:
        match = self.state
        if match.clocks is None:
            return None
        return Clock(
            white=match.clocks.white / SECOND,
            black=match.clocks.black / SECOND,
            running=match.to_act,
            since=moment(match.clocks.since) if match.to_act else None,
            deadline=None if match.deadline is None else moment(match.deadline),
        )

    @strawberry.field(description="The player for whom a private match is.")
    async def invited(self, info: Info) -> Player | None:
        return await player_view(info, self.state.invited)

    @strawberry.field(description="How an unlisted match is joined; told to who has opened it, while it waits.")
    async def invitation(self, info: Info) -> InvitationView | None:
        viewer, match = info.context.viewer, self.state
        if viewer is None or not isinstance(match.phase, Waiting) or match.seat_of(viewer) is None:
            return None
        invitation = await info.context.table.invitation(match.id)
        return InvitationView(join_code=invitation.code, expires_at=invitation.expires_at) if invitation else None

    @strawberry.field(description="When the match was created, UTC.")
    async def created_at(self, info: Info) -> datetime:
        row = await info.context.table.row(self.state.id)
        assert row is not None
        return decode_time(row.created_at)

    @strawberry.field(description="The match of which this one is the rematch.")
    def rematch_of(self) -> ID | None:
        return ID(self.state.rematch_of) if self.state.rematch_of else None

    @strawberry.field(description="This match and all its rematches.")
    def series(self) -> Series:
        return Series(id=ID(self.state.series or self.state.id))

    @strawberry.field(
        description="From when on you may claim this match without a clock from an opponent who stays away; null while "
        "the opponent is there or need not act."
    )
    async def claimable_at(self, info: Info) -> datetime | None:
        table, viewer = info.context.table, info.context.viewer
        return await table.claimable_at(await table.head(self.state.id, viewer), viewer)

    @strawberry.field(
        description="What the match has done to the ratings of white and of black; null for one that is not rated, and "
        "until it is known, which is a moment after the end."
    )
    async def rating_changes(self, info: Info) -> list[RatingChange] | None:
        if self.state.winner is None or not self.state.settings.rated:
            return None
        rows = await info.context.table.ratings.of_match(self.state.id)
        rows.sort(key=lambda row: row.player_id != self.state.white)
        return await rating_changes(info, rows, of=self.state) or None

    @strawberry.field(description="The rematch of this match, once it is proposed.")
    async def rematch(self, info: Info) -> Rematch | None:
        if self.state.winner is None:
            return None
        proposed_by, successor = await info.context.table.rematch_of(self.state.id)
        if proposed_by is None:
            return None
        return Rematch(proposed_by=proposed_by, match=MatchView.at_head(successor) if successor else None)

    @strawberry.field(description="The proof of the dice and of the log, checked now.")
    async def fairness(self, info: Info) -> Fairness:
        return fairness_view(await info.context.table.proof(self.state, self.version, self.hash))

    @strawberry.field(description="The log up to this version, in order; an event's cursor is its `seq`.")
    async def events(
        self, info: Info, first: First = None, after: After = None
    ) -> Connection[Annotated["EventView", strawberry.lazy("service.views")]]:
        length = page_length(first)
        start = 0
        if after is not None:
            if not (after.isascii() and after.isdigit() and len(after) < 10):
                raise ApiError(
                    ErrorCode.BAD_INPUT, "after is {after!r}; an event's cursor is its seq", after=after[:40]
                )
            start = int(after)
        until = min(start + length, self.version)
        steps = await info.context.table.steps(self.state.id, start, until)
        items = [(str(step.recorded.seq), event_view(step)) for step in steps]
        return Connection.of(items, until < self.version, first_page=start == 0)


@strawberry.type(description="Somebody looks for an opponent.")
class Seek:
    id: ID = strawberry.field(description="Stands for the seek.")
    length: int | None = strawberry.field(description="Points that win the match; null is a money game.")
    clock: ClockSettings | None = strawberry.field(description="How long each may think; null without a clock.")
    rated: bool = strawberry.field(description="Whether the result changes the players' ratings.")
    created_at: datetime = strawberry.field(description="When it was opened, UTC.")
    expires_at: datetime = strawberry.field(description="Until when it is open, UTC.")
    match_id: ID | None = strawberry.field(description="The match that it has led to; null while it is not paired.")
    player_id: strawberry.Private[str]

    @strawberry.field(description="Who seeks.")
    async def player(self, info: Info) -> Player | None:
        return await player_view(info, self.player_id)

    @strawberry.field(description="The match that it has led to, as it stands.")
    async def match(self, info: Info) -> MatchView | None:
        if self.match_id is None:
            return None
        return MatchView.at_head(await info.context.table.head(self.match_id, info.context.viewer))

    @classmethod
    def of(cls, row: SeekRow) -> Self:
        """The view of a seek."""
        terms = msgspec.json.decode(row.terms, type=events.Settings)
        return cls(
            id=ID(row.id),
            length=terms.length,
            clock=ClockSettings(reserve=terms.clock.reserve, delay=terms.clock.delay) if terms.clock else None,
            rated=terms.rated,
            created_at=decode_time(row.created_at),
            expires_at=decode_time(row.expires_at),
            match_id=ID(row.match_id) if row.match_id else None,
            player_id=row.player_id,
        )


@strawberry.type(description="What has come to the lobby and gone from it; the first one is all that is there.")
class LobbyUpdate:
    seeks_opened: list[Seek] = strawberry.field(description="Seeks that are open now.")
    seeks_closed: list[Seek] = strawberry.field(description="Seeks that are not any more: paired, cancelled, expired.")
    matches_listed: list[MatchView] = strawberry.field(
        description="Public matches that wait or are played; one whose players or score have changed is here again."
    )
    matches_unlisted: list[ID] = strawberry.field(description="Matches that have ended, or are no longer shown.")


@strawberry.interface(name="Event", description="Something that happened, in its place in the log.")
class EventView:
    seq: int = strawberry.field(description="Its number within the match: 1, 2, 3 …")
    at: datetime = strawberry.field(description="When it was recorded, UTC; never earlier than the event before.")
    hash: str = strawberry.field(description="SHA-256 over the hash before it and the canonical JSON of this record.")
    kind: str = strawberry.field(description="`created`, `joined`, `rolled`, `moved`, `doubled` and so on.")
    step: strawberry.Private[Step]

    @strawberry.field(description="The match right after this event.")
    def match(self) -> MatchView:
        return MatchView.at_step(self.step)


@strawberry.type(description="The match exists.")
class Created(EventView):
    color: Color = strawberry.field(description="The seat that the creator takes.")
    rules: int = strawberry.field(description="The version of the rules.")
    commitment: str | None = strawberry.field(
        description="The end of the chain of links from which the dice come; null for an imported match."
    )


@strawberry.type(description="A player has taken a seat; the second one starts the match.")
class Joined(EventView):
    color: Color = strawberry.field(description="The seat.")
    player_id: ID = strawberry.field(description="The player.")
    entropy: str = strawberry.field(description="What the player adds to the chance of every roll.")


@strawberry.type(description="The chain of links is used up, and the next one is committed to.")
class Committed(EventView):
    commitment: str = strawberry.field(description="The end of the new chain.")


@strawberry.type(description="Dice were thrown.")
class Rolled(EventView):
    by: Color | None = strawberry.field(description="Whose roll it is; null for a tied opening.")
    dice: list[int] = strawberry.field(description="Two numbers; of an opening, white's die and black's.")
    opening: bool = strawberry.field(description="Whether the table threw them to open a game.")
    link: str | None = strawberry.field(
        description="The link that proves the roll: its SHA-256 is the link before, at first the commitment. Null for "
        "scripted and imported dice."
    )
    entropy: str = strawberry.field(description="What the player added to the chance of this roll alone.")


@strawberry.type(description="The roll was played.")
class Moved(EventView):
    by: Color = strawberry.field(description="Who played.")
    play: list[list[int]] = strawberry.field(
        description="Checker moves as [from, to], one a die, own numbering; empty for a dance."
    )

    @strawberry.field(description="The play in standard notation; empty for a dance.")
    def notation(self) -> str:
        event = self.step.recorded.event
        assert isinstance(event, events.Moved)
        return format_play(self.before, event.by, event.play)

    before: strawberry.Private[Board]


@strawberry.type(description="The cube was offered at twice its value.")
class Doubled(EventView):
    by: Color = strawberry.field(description="Who doubled.")


@strawberry.type(description="The open double or resignation was accepted.")
class Accepted(EventView):
    by: Color = strawberry.field(description="Who accepted.")


@strawberry.type(description="The open double or resignation was refused.")
class Refused(EventView):
    by: Color = strawberry.field(description="Who refused.")


@strawberry.type(description="A resignation was offered, or the match given up.")
class Resigned(EventView):
    by: Color = strawberry.field(description="Who resigns.")
    stake: Stake = strawberry.field(description="What it gives up.")


@strawberry.type(description="A player's time has run out, which loses the match.")
class TimedOut(EventView):
    by: Color = strawberry.field(description="Whose time it was.")


@strawberry.type(description="The service was out of order for a while, and the clock that ran has got that time back.")
class Resumed(EventView):
    lost: float = strawberry.field(description="Seconds.")


@strawberry.type(description="A player has claimed a match without a clock from an opponent who stayed away.")
class Claimed(EventView):
    by: Color = strawberry.field(description="Who claimed it.")
    absent: int = strawberry.field(description="Seconds for which the opponent had been away.")


@strawberry.type(description="The match is off, and nobody has won.")
class Cancelled(EventView):
    by: Color | None = strawberry.field(description="Who cancelled it; null for the invited player, who declined.")
    absent: int = strawberry.field(description="Seconds for which the opponent had been away; 0 before the start.")


EVENT_TYPES = (
    Created, Joined, Committed, Rolled, Moved, Doubled, Accepted, Refused, Resigned, TimedOut, Resumed, Claimed,
    Cancelled,
)  # fmt: skip


@strawberry.type(description="The command took effect.")
class Happened:
    match: MatchView = strawberry.field(description="The match after it; for `rematch`, the new one once it starts.")
    events: list[EventView] = strawberry.field(
        description="What happened: the command, and what the table did by itself after it."
    )


@strawberry.type(description="The command is against the rules, or came too late. Nothing happened.")
class Refusal:
    code: Breach = strawberry.field(description="Which rule.")
    legal_plays: list[LegalPlay] | None = strawberry.field(description="For a refused play, what could be played.")
    current: MatchView | None = strawberry.field(description="The match as it stands, where you may see it.")
    error: strawberry.Private[RuleError]

    @strawberry.field(description="The rule in words.")
    def message(self, info: Info, language: LanguageArgument = None) -> str:
        return tell(language or info.context.language, self.error.breach.name, self.error.said)


InvitationAnswer = Annotated[
    InvitationView | Refusal, strawberry.union("InvitationAnswer", description="The new code, or why there is none.")
]
SeekAnswer = Annotated[Seek | Refusal, strawberry.union("SeekAnswer", description="The seek, or why there is none.")]
Answer = Annotated[Happened | Refusal, strawberry.union("Answer", description="What happened, or why nothing did.")]


def event_view(step: Step) -> EventView:
    """The GraphQL type of a recorded event."""
    recorded, event = step.recorded, step.recorded.event
    place: dict[str, Any] = {"seq": recorded.seq, "at": recorded.at, "hash": recorded.hash, "step": step}
    match event:
        case events.Created():
            return Created(kind="created", color=event.color, rules=event.rules, commitment=event.commitment, **place)
        case events.Joined():
            return Joined(kind="joined", color=event.color, player_id=ID(event.player), entropy=event.entropy, **place)
        case events.Committed():
            return Committed(kind="committed", commitment=event.commitment, **place)
        case events.Rolled():
            return Rolled(
                kind="rolled",
                by=event.by,
                dice=list(event.dice),
                opening=event.opening,
                link=event.link,
                entropy=event.entropy,
                **place,
            )
        case events.Moved():
            assert step.match.last_play is not None
            return Moved(
                kind="moved",
                by=event.by,
                play=[list(move) for move in event.play],
                before=step.match.last_play.before,
                **place,
            )
        case events.Doubled():
            return Doubled(kind="doubled", by=event.by, **place)
        case events.Accepted():
            return Accepted(kind="accepted", by=event.by, **place)
        case events.Refused():
            return Refused(kind="refused", by=event.by, **place)
        case events.Resigned():
            return Resigned(kind="resigned", by=event.by, stake=event.stake, **place)
        case events.TimedOut():
            return TimedOut(kind="timed_out", by=event.by, **place)
        case events.Resumed():
            return Resumed(kind="resumed", lost=event.lost / SECOND, **place)
        case events.Claimed():
            return Claimed(kind="claimed", by=event.by, absent=event.absent, **place)
        case events.Cancelled():
            return Cancelled(kind="cancelled", by=event.by, absent=event.absent, **place)


def notice_view(notice: Noticed) -> Notice:
    """The GraphQL type of what is told beside a log."""
    if notice.presence is None:
        return RematchNotice(proposed_by=notice.color, match_id=ID(notice.rematch) if notice.rematch else None)
    return PresenceNotice(color=notice.color, presence=PresenceView.of(notice.presence))


async def player_view(info: Info, player_id: str | None) -> Player | None:
    """The GraphQL type of a player; None if there is none."""
    players = await info.context.table.players([player_id]) if player_id else {}
    return Player.of(player_id, players[player_id]) if player_id and players else None


_CURSOR = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z~[0-9a-z]{1,40}", re.ASCII)


def match_cursor(after: str | None) -> tuple[str, str] | None:
    """Where a page of matches begins, by the cursor before it. Raises ApiError BAD_INPUT."""
    if after is None:
        return None
    if not _CURSOR.fullmatch(after):
        raise ApiError(ErrorCode.BAD_INPUT, "after is {after!r}; it is the cursor of an edge", after=after[:100])
    created_at, _, match_id = after.partition("~")
    return created_at, match_id


async def match_page(table: Table, rows: Sequence[MatchRow], length: int, *, first_page: bool) -> Connection[MatchView]:
    """A page of matches, of rows one more than it is long if there is more."""
    page = rows[:length]
    await table.names({id_ for row in page for id_ in (row.white, row.black) if id_})
    heads = await table.heads(page)
    items = [
        (f"{row.created_at}~{row.id}", MatchView.at_head(head))
        for row, head in zip(page, heads, strict=True)
        if head is not None
    ]
    return Connection.of(items, len(rows) > length, first_page=first_page)


async def rating_changes(info: Info, rows: Sequence[RatingRow], of: Match | None = None) -> list[RatingChange]:
    """The GraphQL types of changes; with match and opponent where the viewer finds the match, or looks `of` it."""
    table, viewer = info.context.table, info.context.viewer
    found = {of.id} if of else await table.findable((row.match_id for row in rows), viewer)
    players = await table.players({id_ for row in rows for id_ in (row.player_id, row.opponent_id)})
    return [
        RatingChange(
            player=Player.of(row.player_id, players.get(row.player_id)),
            match_id=ID(row.match_id) if row.match_id in found else None,
            opponent=Player.of(row.opponent_id, players.get(row.opponent_id)) if row.match_id in found else None,
            at=decode_time(row.at if row.match_id in found else f"{row.at[:10]}T00:00:00.000000Z"),
            length=row.length,
            won=row.won,
            counted=row.counted,
            rating_after=row.rating,
            change=row.change,
        )
        for row in rows
    ]


_STANDING = re.compile(r"(-?\d{1,9}\.\d{6})~([0-9a-z]{1,40})", re.ASCII)


async def leaderboard_page(info: Info, app: str, length: int, after: str | None, *, bots: bool) -> Connection[Player]:
    """A page of players by their rating. Raises ApiError BAD_INPUT."""
    place = None
    if after is not None:
        read = _STANDING.fullmatch(after)
        if read is None:
            raise ApiError(ErrorCode.BAD_INPUT, "after is {after!r}; it is the cursor of an edge", after=after[:100])
        place = float(read[1]), read[2]
    table = info.context.table
    rows = await table.ratings.best(app, first=length + 1, after=place, bots=bots)
    players = await table.players({row.player_id for row in rows})
    items = []
    for row in rows[:length]:
        player = Player.of(row.player_id, players.get(row.player_id))
        player.standing = row
        items.append((f"{row.rating:.6f}~{row.player_id}", player))
    return Connection.of(items, len(rows) > length, first_page=after is None)


def fairness_view(proof: Proof) -> Fairness:
    """The GraphQL type of a proof."""
    return Fairness(
        whole=proof.problem is None,
        problem=proof.problem,
        rolls=proof.rolls,
        proven_rolls=proof.proven,
        commitment=proof.commitment,
        imported=proof.imported,
        public_key=proof.public_key,
        signature=proof.signature,
    )


def refusal_view(error: RuleError, head: Head | None) -> Refusal:
    """The GraphQL type of a refusal at a match."""
    plays = None
    phase = head.match.phase if head else None
    if head and isinstance(phase, ToPlay) and (error.legal_plays or error.breach is Breach.MALFORMED_NOTATION):
        legal = error.legal_plays or legal_plays(head.match.board, phase.color, phase.dice)
        plays = legal_play_views(head.match.board, phase.color, legal)
    current = MatchView.at_head(head) if head else None
    return Refusal(code=error.breach, error=error, legal_plays=plays, current=current)


def legal_play_views(board: Board, color: Color, plays: Sequence[Play]) -> list[LegalPlay]:
    """Plays with their notation."""
    return [LegalPlay(notation=format_play(board, color, play), moves=[list(move) for move in play]) for play in plays]


def checker_moves(pairs: list[list[int]]) -> Play:
    """Checker moves from a client's [from, to] pairs. Raises ApiError BAD_INPUT."""
    if len(pairs) > 4 or any(len(pair) != 2 for pair in pairs):
        raise ApiError(ErrorCode.BAD_INPUT, "moves are up to four pairs [from, to], like [[24, 18], [13, 11]]")
    return tuple(CheckerMove(*pair) for pair in pairs)


def _seat(match: Match, color: Color) -> Seat:
    return Seat(
        color=color,
        score=match.score(color),
        away=match.away(color),
        checkers=list(match.board.side(color)),
        player_id=match.player(color),
        board=match.board,
        match_id=match.id,
    )


def _board(board: Board, color: Color) -> BoardView:
    own, other = board.side(color), board.side(color.opponent)
    return BoardView(
        perspective=color,
        points=[own[point] - other[25 - point] for point in range(1, 25)],
        bar=own[BAR],
        off=own[OFF],
        opponent_bar=other[BAR],
        opponent_off=other[OFF],
    )


def _last_play(last: LastPlay) -> LastPlayView:
    return LastPlayView(
        by=last.by,
        dice=list(last.dice),
        moves=[list(move) for move in last.play],
        notation=format_play(last.before, last.by, last.play),
    )
