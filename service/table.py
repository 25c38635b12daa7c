"""The table: where commands meet matches, and where matches are watched. The whole application layer.

One process keeps the matches it has folded lately; they are a cache, and the store decides. A command is decided on
what is cached and appended after that version: if the match has moved on, the append conflicts, and the command is
decided again. A refusal is never taken from a stale match either.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from domain.board import Color
from domain.breach import Breach, RuleError
from domain.commands import Cancel, Claim, Command, Commit, Create, Join, Resume, Roll, TimeOut
from domain.events import Created, Event, Joined, Settings, Visibility
from domain.fairness import LINKS, is_entropy
from domain.match import Match, OnRoll, Opening, Waiting
from domain.matchfile import ReadMatch
from domain.rules import decide, evolve, rolls_by_itself
from infra import traces
from infra.apps import User
from infra.bus import Bus
from infra.dice import Chains
from infra.ids import new_code, new_id, read_code, rematch_id
from infra.log import GENESIS, Broken, applied, decode_time, encode_time, instant, record, replay, signed_head, verify
from infra.ratings import Ratings
from infra.signing import Head as SignedHead
from infra.signing import Signer
from infra.store import (
    PAGE,
    Append,
    Conflict,
    Damaged,
    Fed,
    Key,
    KeyTaken,
    MatchRow,
    PlayerRow,
    SeekRow,
    SqlStore,
    Unavailable,
)
from infra.timekeeping import Timekeeping
from service import lobby, notices
from service.clocks import Clocks
from service.limits import Apart
from service.lobby import Lobby
from service.notices import Notice, Notices
from service.ratings import Rater
from service.windows import Step, Windows

logger = logging.getLogger("videau")

KEPT_MATCHES = 10_000
"""Folded matches kept in memory."""

ATTEMPTS = 20
"""How often a command is decided anew because another process was quicker."""

KEPT_PLAYERS = 100_000
"""Players kept in memory, with their names."""

NAME_SECONDS = 60.0
"""How long the name of an app's user is taken for true: apps may change it, in any process."""


class Known(Struct, frozen=True):
    """A player, as it was read."""

    name: str
    app: str
    bot: bool
    until: float
    """When it is to be read again."""


MOST_WAITING = 200
"""Matches of a player that wait for an opponent at most."""

LIVE = timedelta(hours=1)
"""A match whose turns are to last no longer is played while both are there."""

REMATCHED = timedelta(days=7)
"""How long after the end of any other match a rematch can be proposed and accepted."""

INVITED = timedelta(days=7)
"""How long the code of an invitation is good for."""


class Head(Struct, frozen=True):
    """The newest version of a match that this process knows, and who wants the table to roll (white, black)."""

    match: Match
    version: int
    hash: str
    at: datetime
    auto_roll: tuple[bool, bool]


class Request(Struct, frozen=True, kw_only=True):
    """Who commands, and the guards that came with it."""

    player: str
    app: str = ""
    """The app whose user the player is; empty for a guest."""
    expected_version: int | None = None
    key: Key | None = None


class Invitation(Struct, frozen=True):
    """The code by which an unlisted match is joined, once, and until when."""

    code: str
    expires_at: datetime


class Proof(Struct, frozen=True, kw_only=True):
    """What verification says of a match's log."""

    problem: str | None
    rolls: int
    proven: int
    commitment: str | None
    imported: str | None
    public_key: str
    signature: str | None


class Refused(Exception):
    """A command was refused at the match as it stands; no match where its sender may not see it."""

    def __init__(self, error: RuleError, head: Head | None) -> None:
        super().__init__(error.message)
        self.error = error
        self.head = head


class Done(Struct, frozen=True):
    """What a command has come to: the match after it, and the steps that led there."""

    head: Head
    steps: list[Step]


Throw = Callable[[Match, Color | None, str], Roll]
"""The next roll of a match, by a side (None: the table opens a game), with what the roller adds to its chance."""

MakeCommand = Callable[[Color, Throw, Match], Command]
_Plan = tuple[Sequence[Command], tuple[bool, bool]]
"""The commands to perform, and who wants the table to roll (white, black)."""


class Table:
    """Every match, for every client of this process."""

    def __init__(
        self, store: SqlStore, bus: Bus, chains: Chains, signer: Signer, absence: timedelta = timedelta(minutes=15)
    ) -> None:
        self.signer = signer
        self.windows = Windows(store, bus)
        """Where matches are watched."""
        self._store = store
        self._bus = bus
        self._chains = chains
        self._heads: OrderedDict[str, Head] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._players: OrderedDict[str, Known] = OrderedDict()
        self._users: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.clocks = Clocks(Timekeeping(store.database), self.settle)
        self.notices = Notices(store, bus, self.clocks)
        self.lobby = Lobby(store, bus, self._paired, self._tell_paired)
        self.ratings = Ratings(store.database)
        self.rater = Rater(self.ratings)
        self._absence = absence
        self.apart = Apart()
        self.watchers = 0
        """Who watches a match by an execution or a stream of its own."""
        self._prepared: list[str] = []
        """Ids of matches to come, whose chains are made."""
        self._pairs: dict[str, Done] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def ring(self, channel: str, seq: int) -> None:
        """What the bus rings: a match has come to `seq`, or something beside it has changed."""
        if channel.startswith(notices.CHANNEL):
            self.notices.ring(channel)
        elif channel.startswith(lobby.CHANNEL):
            self.lobby.ring(channel)
        else:
            self.windows.ring(channel, seq)

    # players

    async def register(self, name: str) -> PlayerRow:
        """A new player of this name."""
        player = PlayerRow(id=new_id(), name=name, created_at=encode_time(datetime.now(UTC)))
        await self._store.add_players([player])
        return player

    async def names(self, ids: Iterable[str]) -> dict[str, str]:
        """The names of those players that exist."""
        return {id_: known.name for id_, known in (await self.players(ids)).items()}

    async def players(self, ids: Iterable[str]) -> dict[str, Known]:
        """Those players that exist."""
        now, players = time.monotonic(), self._players
        found: dict[str, Known] = {}
        missing: set[str] = set()
        for id_ in ids:
            known = players.get(id_)
            if known is not None:
                found[id_] = known
            if known is None or known.until < now:
                missing.add(id_)
        if missing:
            try:
                for row in await self._store.players(missing):
                    found[row.id] = self._know(row)
            except Unavailable:
                if not missing <= found.keys():
                    raise
        return found

    async def player_of(self, user: User) -> str:
        """The id of the player who is this user of an app, new at first sight. Raises Unavailable."""
        id_ = self._users.get((user.app, user.subject))
        known = self._players.get(id_) if id_ else None
        if id_ and known and known.name and known.name == (user.name or known.name) and known.bot >= user.bot:
            return id_
        row = await self._store.apps.player(user)
        self._know(row)
        self._users[user.app, user.subject] = row.id
        if len(self._users) > KEPT_PLAYERS:
            self._users.popitem(last=False)
        return row.id

    def _know(self, row: PlayerRow) -> Known:
        known = self._players[row.id] = Known(row.name, row.app, row.bot, time.monotonic() + NAME_SECONDS)
        if len(self._players) > KEPT_PLAYERS:
            self._players.popitem(last=False)
        return known

    # commands

    async def create(
        self,
        request: Request,
        settings: Settings,
        color: Color,
        auto_roll: bool,
        entropy: str,
        opponent: str | None = None,
    ) -> Done:
        """Open a match and seat its creator. A private match is for `opponent`; an unlisted one gets a code."""
        private = settings.visibility is Visibility.PRIVATE
        if private and opponent is None:
            error = RuleError(Breach.INVALID_SETTINGS, "a private match is for one opponent: say which player")
            raise Refused(error, None)
        if opponent is not None and not await self.names([opponent]):
            raise Refused(
                RuleError(Breach.PLAYER_NOT_FOUND, "there is no player {player!r}", player=opponent[:40]), None
            )
        if await self._store.waiting_of(request.player) >= MOST_WAITING:
            if replayed := await self._replayed(request):
                return replayed
            raise Refused(
                RuleError(
                    Breach.TOO_MANY_MATCHES,
                    "{most} of your matches wait for an opponent: cancel some first",
                    most=MOST_WAITING,
                ),
                None,
            )
        match_id = new_id()
        command = Create(
            match=match_id,
            settings=settings,
            color=color,
            player=request.player,
            commitment=self._chains.commitment(match_id, 0),
            entropy=entropy,
            app=request.app,
            invited=opponent,
        )
        wishes = (auto_roll, auto_roll)
        done = await self._perform(match_id, request, lambda head, dice: ([command], wishes))
        match_id = done.head.match.id
        if settings.visibility is Visibility.UNLISTED and await self._store.invitation(match_id=match_id) is None:
            await self._invite(match_id)
        return done

    async def _invite(self, match_id: str) -> Invitation:
        """A new code for a match; the one before is good no more."""
        invitation = Invitation(new_code(), datetime.now(UTC) + INVITED)
        await self._store.put_invitation(match_id, invitation.code, invitation.expires_at)
        return invitation

    async def invite(self, match_id: str, request: Request) -> Invitation:
        """A new code for an unlisted match that waits for its second player. Raises Refused."""
        head = await self.head(match_id, request.player)
        match = head.match
        if match.seat_of(request.player) is None:
            raise Refused(RuleError(Breach.NOT_SEATED, "only who opened the match invites to it"), head)
        if match.settings.visibility is not Visibility.UNLISTED:
            raise Refused(RuleError(Breach.INVALID_SETTINGS, "only unlisted matches are joined by a code"), head)
        if not isinstance(match.phase, Waiting):
            raise Refused(RuleError(Breach.SEATS_TAKEN, "both seats of this match are taken"), head)
        return await self._invite(match_id)

    async def invitation(self, match_id: str) -> Invitation | None:
        """The code by which a match is joined, if it has one."""
        row = await self._store.invitation(match_id=match_id)
        return Invitation(row.code, decode_time(row.expires_at)) if row else None

    async def invited_by(self, code: str) -> str:
        """The match that a code is for. Raises RuleError CODE_UNKNOWN or CODE_EXPIRED."""
        row = await self._store.invitation(code=read_code(code))
        if row is None:
            raise RuleError(Breach.CODE_UNKNOWN, "there is no invitation with this code, or there is a newer one")
        if decode_time(row.expires_at) <= datetime.now(UTC):
            raise RuleError(Breach.CODE_EXPIRED, "this invitation has expired: ask for a new one")
        return row.match_id

    async def join(
        self, match_id: str, request: Request, auto_roll: bool, entropy: str, *, with_code: bool = False
    ) -> Done:
        """Take the free seat; the second player's joining starts the match. An unlisted match wants its code."""

        def plan(head: Head | None, dice: Throw) -> _Plan:
            if head is None or not visible(head.match, request.player):
                raise _not_found(match_id)
            match = head.match
            unlisted = match.settings.visibility is Visibility.UNLISTED
            if unlisted and not with_code and isinstance(match.phase, Waiting) and not match.seat_of(request.player):
                raise RuleError(Breach.CODE_NEEDED, "an unlisted match is joined by the code of its invitation")
            wishes = (head.auto_roll[0], auto_roll) if match.player(Color.WHITE) else (auto_roll, head.auto_roll[1])
            return [Join(player=request.player, entropy=entropy, app=request.app)], wishes

        return await self._perform(match_id, request, plan)

    async def decline(self, match_id: str, request: Request) -> Done:
        """The invited player does not come; the match is off."""

        def plan(head: Head | None, dice: Throw) -> _Plan:
            if head is None or not visible(head.match, request.player):
                raise _not_found(match_id)
            if head.match.invited != request.player:
                raise RuleError(Breach.NOT_INVITED, "you were not invited to this match")
            return [Cancel(by=None)], head.auto_roll

        return await self._perform(match_id, request, plan)

    async def act(self, match_id: str, request: Request, command: MakeCommand) -> Done:
        """Do what `command` makes for the seat of the player who asks."""

        def plan(head: Head | None, dice: Throw) -> _Plan:
            if head is None or not visible(head.match, request.player):
                raise _not_found(match_id)
            color = head.match.seat_of(request.player)
            if color is None:
                raise RuleError(Breach.NOT_SEATED, "only the two players of this match may do that")
            return [command(color, dice, head.match)], head.auto_roll

        return await self._perform(match_id, request, plan)

    async def absence(self, match: Match, moved_at: datetime) -> timedelta | None:
        """How long the player who must act has been away since then; None for one who is here, or if nobody must act.

        Time in which no process could serve is nobody's absence.
        """
        player_id = match.player(match.to_act) if match.to_act else None
        if player_id is None:
            return None
        await self.clocks.know()
        presence = (await self.notices.of(match.id)).get(player_id)
        if presence is not None and presence.present:
            return None
        since = max(moved_at, presence.left_at) if presence and presence.left_at else moved_at
        return self.clocks.now - since - timedelta(microseconds=self.clocks.lost(since))

    async def claimable_at(self, head: Head, viewer: str | None) -> datetime | None:
        """When the viewer may claim the match from an opponent who stays away; None while that is not foreseen."""
        match = head.match
        seat = match.seat_of(viewer) if viewer else None
        if seat is None or match.settings.clock or match.to_act is not seat.opponent:
            return None
        absent = await self.absence(match, head.at)
        return None if absent is None else datetime.now(UTC) - absent + self._absence

    async def claim(self, match_id: str, request: Request, *, win: bool) -> Done:
        """End a match without a clock whose opponent stays away: won, or without a winner."""
        head = await self.head(match_id, request.player)
        absent = await self.absence(head.match, head.at)

        def make(color: Color, dice: Throw, match: Match) -> Command:
            seconds = 0 if absent is None else int(absent.total_seconds())
            command: Command = Claim(by=color, absent=seconds) if win else Cancel(by=color, absent=max(seconds, 1))
            decide(match, command)  # what the rules say comes first
            if match != head.match or absent is None:
                raise RuleError(Breach.OPPONENT_PRESENT, "your opponent is here")
            if absent < self._absence:
                raise RuleError(
                    Breach.OPPONENT_PRESENT,
                    "your opponent has been away for {seconds} seconds; a match is claimed after {needed}",
                    seconds=seconds,
                    needed=int(self._absence.total_seconds()),
                )
            return command

        return await self.act(match_id, request, make)

    async def rematch(self, match_id: str, request: Request) -> Done:
        """Propose another match, colours swapped; or accept the other side's proposal, which starts it."""
        if replayed := await self._replayed(request):
            return replayed
        head = await self.head(match_id, request.player)
        color = head.match.seat_of(request.player)
        if color is None:
            raise Refused(RuleError(Breach.NOT_SEATED, "only the two players of this match may do that"), head)
        if head.match.winner is None:
            cancelled = RuleError(Breach.MATCH_CANCELLED, "the match was cancelled")
            if head.match.ended:
                raise Refused(cancelled, head)
            raise Refused(RuleError(Breach.MATCH_NOT_OVER, "a rematch can be proposed when the match is over"), head)
        if request.expected_version not in (None, head.version):
            raise Refused(_stale(request, head), head)
        successor = rematch_id(match_id)
        clock = head.match.settings.clock
        lasts = self._absence if clock and clock.delay <= LIVE.total_seconds() else REMATCHED
        if datetime.now(UTC) - head.at > lasts and await self._newest(successor) is None:
            error = RuleError(
                Breach.REMATCH_EXPIRED,
                "a rematch is agreed upon within {minutes} minutes of the end",
                minutes=lasts // timedelta(minutes=1),
            )
            raise Refused(error, head)
        if existing := await self._newest(successor):
            return await self._done_already(request, existing)
        if (await self._store.wishes(match_id)).rematch_by in (None, color):
            try:
                if await self._store.propose_rematch(match_id, color, head.version, request.key):
                    self.notices.tell(match_id)
                    return Done(head, [])
            except KeyTaken:
                replayed = await self._replayed(request)
                assert replayed is not None
                return replayed
        return await self._accept_rematch(head, color, successor, request)

    async def _done_already(self, request: Request, head: Head) -> Done:
        """What a command comes to that finds its effect there, at `head`; the same answer whenever it is repeated."""
        if request.key:
            try:
                await self._store.keep_key(request.key, head.match.id, head.version)
            except KeyTaken:
                if replayed := await self._replayed(request):
                    return replayed
        return Done(head, [])

    async def _accept_rematch(self, head: Head, color: Color, successor: str, request: Request) -> Done:
        """Start the rematch that the other side has proposed."""
        proposer, accepter = head.match.player(color.opponent), head.match.player(color)
        assert proposer is not None
        assert accepter is not None
        commands: list[Command] = [
            Create(
                match=successor,
                settings=head.match.settings,
                color=color,
                player=proposer,
                rematch_of=head.match.id,
                commitment=self._chains.commitment(successor, 0),
                entropy=head.match.entropy[color is Color.WHITE],
                app=head.match.apps[color is Color.WHITE],
                invited=accepter if head.match.settings.visibility is Visibility.PRIVATE else None,
                series=head.match.series or head.match.id,
            ),
            Join(
                player=accepter,
                entropy=head.match.entropy[color is Color.BLACK],
                app=head.match.apps[color is Color.BLACK],
            ),
        ]
        white, black = head.auto_roll
        try:
            key_only = Request(player=request.player, key=request.key)
            done = await self._perform(successor, key_only, lambda head, dice: (commands, (black, white)))
            self.notices.tell(head.match.id)
            return done
        except Refused:
            existing = await self._newest(successor)
            if existing is None:
                raise
            return await self._done_already(request, existing)

    async def is_app(self, name: str) -> bool:
        """Whether an app of this name is registered here."""
        return any(app.name == name for app in await self._store.apps.all())

    async def seek(self, request: Request, settings: Settings, auto_roll: bool, entropy: str, seconds: int) -> SeekRow:
        """Look for an opponent who wants the same match; it starts at once where somebody does. Raises Refused."""
        try:
            decide(None, Create(match="", settings=settings, color=Color.WHITE, player="", entropy=entropy))
            if len(self._prepared) * 2 <= self.lobby.waiting:
                self._prepared.append(match_id := new_id())
                self._chains.commitment(match_id, 0)
            terms = msgspec.json.encode(settings, order="sorted").decode()
            key = request.key.key if request.key else None
            return await self.lobby.seek(
                request.player, request.app, terms, auto_roll=auto_roll, entropy=entropy, seconds=seconds, key=key
            )
        except RuleError as error:
            raise Refused(error, None) from error

    def _paired(self, first: SeekRow, second: SeekRow) -> Append:
        """The match of two seeks: the older one's player is white. Called in the thread that writes."""
        match_id = self._prepared.pop() if self._prepared else new_id()
        commands: list[Command] = [
            Create(
                match=match_id,
                settings=msgspec.json.decode(first.terms, type=Settings),
                color=Color.WHITE,
                player=first.player_id,
                commitment=self._chains.commitment(match_id, 0),
                entropy=first.entropy,
                app=first.app,
            ),
            Join(player=second.player_id, entropy=second.entropy, app=second.app),
        ]
        wishes = first.auto_roll, second.auto_roll
        append, self._pairs[match_id] = self._decided(None, Request(player=""), lambda head, dice: (commands, wishes))
        return append

    def _tell_paired(self, match_id: str) -> None:
        """A match of two seeks is stored."""
        if done := self._pairs.pop(match_id, None):
            self._tell(done)

    async def import_match(self, read: ReadMatch) -> tuple[bool, Head]:
        """Store a match that was played elsewhere: whether it was here already, and the match."""
        match_id = read.match.id
        if known := await self._newest(match_id):
            return True, known
        recorded = record(GENESIS, 0, datetime.now(UTC), read.events)
        append = Append(match=read.match, recorded=recorded, auto_roll=(False, False))
        now = encode_time(datetime.now(UTC))
        players = [
            PlayerRow(id=player, name=name or color.value, created_at=now)
            for color, name in zip(Color, read.names, strict=True)
            if (player := read.match.player(color))
        ]
        await self._store.add_players(players)
        try:
            await self._store.append(append)
        except Conflict:
            known = await self._newest(match_id)
            assert known is not None
            return True, known
        head = _head_of(append, (False, False))
        self._keep(head)
        return False, head

    async def _perform(self, match_id: str, request: Request, plan: Callable[[Head | None, Throw], _Plan]) -> Done:
        """Decide what `plan` asks for and append it; again, if the match has moved on meanwhile. Raises Refused."""
        async with self._lock(match_id):
            head, newest = self._heads.get(match_id), False
            timed_out = False
            for _ in range(ATTEMPTS):
                if head is None and not newest:
                    head, newest = await self._newest(match_id), True
                try:
                    if head is not None and head.match.deadline is not None:
                        head = await self._settled(head)
                        timed_out = head.match.ended
                    append, done = self._decided(head, request, plan)
                    await self._recorded(append, done)
                except RuleError as error:
                    if not newest:
                        head = None
                        continue
                    if replayed := await self._replayed(request):
                        return replayed
                    if timed_out and error.breach is Breach.MATCH_OVER and head is not None:
                        loser = head.match.winner.opponent if head.match.winner else None
                        error = RuleError(Breach.TIME_IS_UP, "{side}'s time has run out", side=loser)
                    seen = head if head and visible(head.match, request.player) else None
                    raise Refused(error, seen) from error
                except KeyTaken:
                    if replayed := await self._replayed(request):
                        return replayed
                except Conflict:
                    head, newest = None, False
                else:
                    return done
        raise Refused(RuleError(Breach.CONTENDED, "too many commands for this match at once: send it again"), None)

    def _lock(self, match_id: str) -> asyncio.Lock:
        """What the commands of this process for a match wait for, one after another."""
        lock = self._locks.get(match_id)
        if lock is None:
            lock = self._locks[match_id] = asyncio.Lock()
        return lock

    async def settle(self, match_id: str) -> bool:
        """Give the clock of a match back what outages took, and end the match if it has run out; whether it did."""
        async with self._lock(match_id):
            for _ in range(ATTEMPTS):
                head = await self._newest(match_id)
                if head is None or head.match.deadline is None:
                    return False
                with suppress(Conflict):
                    return await self._settled(head) is not head
        return False

    async def _settled(self, head: Head) -> Head:
        """The match, its clock put right: what outages took is given back, and who has no time has lost.

        Raises Conflict where the match has moved on.
        """
        await self.clocks.know()
        command: Command | None = None
        match, now = head.match, max(datetime.now(UTC), head.at)
        if lost := self.clocks.lost(head.at):
            command, now = Resume(lost=lost), max(now, self.clocks.resumed or now)
        elif match.deadline is not None and match.to_act and instant(now) >= match.deadline:
            command = TimeOut(by=match.to_act)
        if command is None:
            return head
        plan = [command], head.auto_roll
        append, done = self._decided(head, Request(player=""), lambda head, dice: plan, now)
        await self._recorded(append, done)
        about = {"match": match.id, "seq": done.head.version, "player": None}
        logger.info("the clock is settled: %s", append.recorded[0].event.__struct_config__.tag, extra=about)
        return await self._settled(done.head) if done.head.match.deadline is not None else done.head

    async def _recorded(self, append: Append, done: Done) -> None:
        """Store what happened, and tell of it: also when whoever asked has gone before it was stored."""
        stored = self._store.submit(append)
        try:
            await asyncio.shield(stored)
        except asyncio.CancelledError:
            telling = asyncio.create_task(self._tell_when(stored, done))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)
            raise
        self._tell(done)

    async def _tell_when(self, stored: asyncio.Future[None], done: Done) -> None:
        with suppress(Conflict, KeyTaken, Unavailable):
            await stored
            self._tell(done)

    def _tell(self, done: Done) -> None:
        """Keep what is stored now, show it to who watches here, and ring for who watches elsewhere."""
        head = done.head
        self._keep(head)
        with traces.within("ring", match=head.match.id, seq=head.version):
            self.windows.extend(head.match.id, done.steps)
            self._bus.publish(head.match.id, head.version)
        if head.match.settings.visibility is Visibility.PUBLIC and _is_news(done):
            self.lobby.tell(head.match.apps[head.match.first_seat is Color.BLACK])
        if head.match.settings.rated and head.match.ended:
            self.rater.ring()

    def _decided(
        self,
        head: Head | None,
        request: Request,
        plan: Callable[[Head | None, Throw], _Plan],
        not_before: datetime | None = None,
    ) -> tuple[Append, Done]:
        """What a plan comes to at `head`, with all that the table does by itself afterwards. Raises RuleError."""
        at = datetime.now(UTC)
        at = max(at, head.at if head is not None else at, not_before or at)
        now = instant(at)
        commands, auto_roll = plan(head, self._thrown)
        if head is not None and request.expected_version not in (None, head.version):
            raise _stale(request, head)
        match = head.match if head else None
        events: list[Event] = []
        states: list[Match] = []

        def perform(command: Command) -> Match:
            nonlocal match
            for event in decide(match, command, now):
                match = evolve(match, event, now)
                events.append(event)
                states.append(match)
            assert match is not None
            return match

        def apply(command: Command) -> Match:  # it must not call itself, or a cycle would keep all this
            after = perform(command)
            if after.links_used == LINKS:
                after = perform(Commit(commitment=self._chains.commitment(after.id, after.chain + 1)))
            return after

        for command in commands:
            after = apply(command)
        while rolls_by_itself(after, lambda color: auto_roll[color is Color.BLACK]):
            after = apply(self._thrown(after, after.phase.color if isinstance(after.phase, OnRoll) else None, ""))
        recorded = record(head.hash if head else GENESIS, head.version if head else 0, at, events)
        wishes = auto_roll if head is None or auto_roll != head.auto_roll else None
        append = Append(match=after, recorded=recorded, auto_roll=wishes, key=request.key)
        steps = [Step(*pair) for pair in zip(recorded, states, strict=True)]
        return append, Done(_head_of(append, auto_roll), steps)

    def _thrown(self, match: Match, by: Color | None, entropy: str) -> Roll:
        """The next roll: what a sandbox's script says, else what the next link of the match's chain gives."""
        if match.scripted_dice:
            return Roll(by=by, dice=match.scripted_dice, entropy=entropy)
        if match.last_link is None:
            raise RuleError(Breach.UNPROVEN_DICE, "this match has no chain of dice: it was played elsewhere")
        dice, link = self._chains.throw(match, entropy if is_entropy(entropy) else "")
        return Roll(by=by, dice=dice, link=link, entropy=entropy)

    async def _replayed(self, request: Request) -> Done | None:
        """The answer that the request's idempotency key got before. Raises RuleError for another input."""
        key = request.key
        command = await self._store.command(key.player_id, key.key) if key else None
        if key is None or command is None:
            return None
        if command.fingerprint != key.fingerprint:
            raise RuleError(
                Breach.KEY_REUSED, "the idempotency key {key!r} was used before with other input", key=key.key
            )
        steps = [step async for step in self._steps(command.match_id, 0, command.last_seq)]
        newest = await self._newest(command.match_id)
        assert newest is not None
        last = steps[-1]
        head = Head(last.match, last.recorded.seq, last.recorded.hash, last.recorded.at, newest.auto_roll)
        return Done(head, steps[command.first_seq - 1 :])

    # views

    async def head(self, match_id: str, viewer: str | None) -> Head:
        """The match as it stands. Raises RuleError MATCH_NOT_FOUND, also for whoever may not see it."""
        head = await self._newest(match_id)
        if head is None or not visible(head.match, viewer):
            raise _not_found(match_id)
        return head

    async def heads(self, rows: Iterable[MatchRow]) -> list[Head | None]:
        """The matches of these rows, as they stand; None for one whose log is damaged, so that the others are seen."""
        heads: list[Head | None] = []
        for row in rows:
            try:
                heads.append(await self._newest(row.id, row))
            except Damaged as error:
                logger.error("%s", error)
                heads.append(None)
        return heads

    async def row(self, match_id: str) -> MatchRow | None:
        """What lists know of a match."""
        return await self._store.match(match_id)

    async def findable(self, ids: Iterable[str], viewer: str | None) -> set[str]:
        """Those of the matches that `viewer` finds in lists."""
        rows = await self._store.matches(ids)
        return {
            row.id
            for row in rows
            if row.visibility == Visibility.PUBLIC or (viewer is not None and viewer in (row.white, row.black))
        }

    async def feed(self, after: int, limit: int) -> list[Fed]:
        """Events of all matches; see SqlStore.feed."""
        return await self._store.feed(after, limit)

    async def position(self) -> int:
        """The position of the newest event of all."""
        return await self._store.position()

    async def series(self, first: str) -> list[tuple[str, int, int]]:
        """The players of the series that began with a match: who (its white first), matches won, and points."""
        return await self._store.series(first)

    async def rematch_of(self, match_id: str) -> tuple[Color | None, Head | None]:
        """Who has proposed a rematch of this match, and the rematch if it has begun."""
        wishes = await self._store.wishes(match_id)
        proposed_by = Color(wishes.rematch_by) if wishes.rematch_by else None
        return proposed_by, await self._newest(rematch_id(match_id)) if proposed_by else None

    async def newest(self, viewer: str | None, **page: Any) -> list[MatchRow]:
        """A page of the newest matches that `viewer` finds in lists; see SqlStore.newest."""
        return await self._store.newest(viewer=viewer, **page)

    async def lines(self, head: Head, after: int) -> AsyncIterator[str]:
        """The log after a number, up to this version, as lines of NDJSON; a finished one ends with its signed head."""
        async for line in self._store.lines(head.match.id, after, head.version):
            yield line
        if head.match.ended:
            yield signed_head(head.match.id, head.version, head.hash, self.signer)

    async def proof(self, match: Match, version: int, hash_: str) -> Proof:
        """The log of a match up to a version, verified now in a thread of its own."""
        lines = [line.encode() async for line in self._store.lines(match.id, 0, version)]
        problem, proven, commitment = None, 0, None
        try:
            verified = await asyncio.to_thread(verify, lines)
        except Broken as error:
            problem = str(error)
        else:
            proven = verified.proven
            created = verified.records[0].event
            commitment = created.commitment if isinstance(created, Created) else None
        signature = self.signer.sign(SignedHead(hash_, match.id, version)) if match.ended else None
        return Proof(
            problem=problem,
            rolls=match.rolls,
            proven=proven,
            commitment=commitment,
            imported=match.imported,
            public_key=self.signer.public_key,
            signature=signature,
        )

    async def steps(self, match_id: str, after: int, until: int) -> list[Step]:
        """The steps of a match with after < seq <= until."""
        return [step async for step in self._steps(match_id, after, until)]

    async def watch(self, match_id: str, after: int, viewer: str | None) -> AsyncGenerator[Step]:
        """Every step after number `after`, once and in order, those to come included; ends when the match is over.

        Raises RuleError MATCH_NOT_FOUND, and STALE_VERSION for an `after` that the match has not come to.
        """
        head = await self.watchable(match_id, after, viewer)
        steps = self.windows.past if head.match.ended else self.windows.steps
        seated = viewer is not None and head.match.seat_of(viewer) is not None
        self.watchers += 1
        try:
            with self.notices.here(match_id, viewer) if viewer and seated else nullcontext():
                async with aclosing(steps(match_id, after)) as found:
                    async for step in found:
                        yield step
        finally:
            self.watchers -= 1

    async def watch_beside(self, match_id: str, viewer: str | None) -> AsyncGenerator[Notice]:
        """What is told beside the log of a match. Raises RuleError MATCH_NOT_FOUND."""
        await self.head(match_id, viewer)
        async with aclosing(self.notices.watch(match_id)) as notices:
            async for notice in notices:
                yield notice

    async def watchable(self, match_id: str, after: int, viewer: str | None) -> Head:
        """A match that `viewer` may watch from number `after` on, as this process knows it. Raises as `watch` does."""
        head = self._heads.get(match_id)
        if head is None or not visible(head.match, viewer) or not 0 <= after <= head.version:
            head = await self.head(match_id, viewer)
        if not 0 <= after <= head.version:
            raise RuleError(
                Breach.STALE_VERSION,
                "after is {after}; the match is at version {version}, and 0 is its start",
                after=after,
                version=head.version,
            )
        return head

    async def _steps(self, match_id: str, after: int, until: int) -> AsyncIterator[Step]:
        match: Match | None = None
        for begin in range(0, until, PAGE):  # page by page: others have their turn while a long log is folded
            for recorded in await self._store.read(match_id, begin, min(begin + PAGE, until)):
                match = applied(match, recorded)
                if recorded.seq > after:
                    yield Step(recorded, match)

    async def _newest(self, match_id: str, row: MatchRow | None = None) -> Head | None:
        """The match as the store has it now, or as it had it when it gave `row`; None if there is none."""
        known = self._heads.get(match_id)
        if known is not None and (known.match.ended or (row and row.version <= known.version)):
            return known
        records = await self._store.read(match_id, known.version if known else 0)
        if not records:
            return known
        match = replay(records, known.match if known else None)
        if known is not None and not any(isinstance(recorded.event, Joined) for recorded in records):
            auto_roll = known.auto_roll
        else:
            wishes = await self._store.wishes(match_id)
            auto_roll = wishes.white_auto_roll, wishes.black_auto_roll
        last = records[-1]
        head = Head(match, last.seq, last.hash, last.at, auto_roll)
        self._keep(head)
        return head

    def _keep(self, head: Head) -> None:
        known = self._heads.get(head.match.id)
        if known is None or known.version < head.version:
            self._heads[head.match.id] = head
        self._heads.move_to_end(head.match.id)
        while len(self._heads) > KEPT_MATCHES:
            self._heads.popitem(last=False)


def visible(match: Match, viewer: str | None) -> bool:
    """Whether `viewer` (None: anybody) may see the match: a private one is for its players and the invited."""
    private = match.settings.visibility is Visibility.PRIVATE
    return not private or (viewer is not None and (match.seat_of(viewer) is not None or viewer == match.invited))


def _is_news(done: Done) -> bool:
    """Whether a lobby shows what has happened: somebody sat down, a game was won, or the match has ended."""
    first = done.steps[0]
    return (
        isinstance(first.recorded.event, Created | Joined)
        or done.head.match.ended
        or len(done.head.match.results) > len(first.match.results)
        or (first.match.results != () and isinstance(first.match.phase, Opening))
    )


def _head_of(append: Append, auto_roll: tuple[bool, bool]) -> Head:
    last = append.recorded[-1]
    return Head(append.match, last.seq, last.hash, last.at, auto_roll)


def _not_found(match_id: str) -> RuleError:
    return RuleError(Breach.MATCH_NOT_FOUND, "there is no match {match!r} that you may see", match=match_id[:40])


def _stale(request: Request, head: Head) -> RuleError:
    return RuleError(
        Breach.STALE_VERSION,
        "the match is at version {version}, not {expected}: look again",
        version=head.version,
        expected=request.expected_version,
    )
