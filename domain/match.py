"""The state that a log folds into: settings, seats, board, cube, phase and results, and what follows from them."""

from enum import StrEnum

from msgspec import Struct

from domain.board import BAR, OFF, Board, Color, Dice, Play
from domain.events import Settings, Stake


class Cube(Struct, frozen=True):
    """The doubling cube: its value (1 while it shows 64) and its owner; no owner is centred."""

    value: int = 1
    owner: Color | None = None


class Crawford(StrEnum):
    """Where the match stands to its one game without doubling: still to come, now, or past (or never)."""

    AHEAD = "ahead"
    NOW = "now"
    PAST = "past"


class Waiting(Struct, frozen=True):
    """A seat is free."""


class Opening(Struct, frozen=True):
    """The table is about to throw one die each for a new game; `cube` is what it will be played for.

    The board is still as the game before left it.
    """

    cube: Cube = Cube()


class OnRoll(Struct, frozen=True):
    """`color` may roll, or double."""

    color: Color


class ToPlay(Struct, frozen=True):
    """`color` has rolled and must move."""

    color: Color
    dice: Dice


class ToAnswer(Struct, frozen=True):
    """`color` must answer a resignation at `stake`, or a double where `stake` is None; refusing one resumes."""

    color: Color
    stake: Stake | None
    resume: OnRoll | ToPlay


class Over(Struct, frozen=True):
    """The match has ended."""

    winner: Color


class CalledOff(Struct, frozen=True):
    """The match was cancelled, and nobody has won."""


Phase = Waiting | Opening | OnRoll | ToPlay | ToAnswer | Over | CalledOff


class Clocks(Struct, frozen=True):
    """What is left of both reserves, as of when the clock last changed sides; all in microseconds."""

    white: int
    black: int
    since: int
    """When the clock of who must act now began to run."""

    def left(self, color: Color) -> int:
        """What was left of a side's reserve then."""
        return self.white if color is Color.WHITE else self.black


class End(StrEnum):
    """How a game ended."""

    BEAR_OFF = "bear_off"
    DROP = "drop"
    RESIGNATION = "resignation"
    TIME_OUT = "time_out"
    ABSENCE = "absence"


class Result(Struct, frozen=True):
    """One game's end. `points` are those won by rule, also beyond what the match still needed."""

    winner: Color
    points: int
    stake: Stake
    cube: int
    end: End


class LastPlay(Struct, frozen=True):
    """The play made last in this game, and the board before it."""

    by: Color
    dice: Dice
    play: Play
    before: Board


SECOND = 1_000_000
"""In the unit of all times here."""

MULTIPLIER = {Stake.SINGLE: 1, Stake.GAMMON: 2, Stake.BACKGAMMON: 3}


class Match(Struct, frozen=True, kw_only=True):
    """A match at one version. Made by the fold alone (domain/rules.py)."""

    id: str
    settings: Settings
    rematch_of: str | None = None
    first_seat: Color = Color.WHITE
    """The seat that the creator takes."""
    white: str | None = None
    black: str | None = None
    board: Board = Board()
    cube: Cube = Cube()
    phase: Phase = Waiting()
    crawford: Crawford = Crawford.PAST
    results: tuple[Result, ...] = ()
    points: tuple[int, int] = (0, 0)
    """White's and black's points so far, by rule, those of a sandbox's start included."""
    rolls: int = 0
    """Rolls made so far in the match, openings included."""
    entropy: tuple[str, str] = ("", "")
    """What white and black add to the chance of every roll."""
    last_link: str | None = None
    """The link revealed last, or the commitment; None where dice cannot be proven (imported matches)."""
    links_used: int = 0
    """Links that the chain in use has revealed."""
    chain: int = 0
    """The number of the chain in use, from 0."""
    imported: str | None = None
    """The format of the file that the match was read from."""
    last_play: LastPlay | None = None
    refused_stakes: tuple[tuple[Color, Stake], ...] = ()
    """Resignations offered and refused in this very position."""
    invited: str | None = None
    """The player for whom a private match is."""
    series: str | None = None
    """The first match of the series of rematches; None for a first match."""
    apps: tuple[str, str] = ("", "")
    """The apps whose users white and black are; empty for guests."""
    clocks: Clocks | None = None
    """None in a match without a clock."""

    def player(self, color: Color) -> str | None:
        """The id of the player in that seat; None while it is free."""
        return self.white if color is Color.WHITE else self.black

    def seat_of(self, player: str) -> Color | None:
        """The colour that a player has here; None for everybody else."""
        return Color.WHITE if player == self.white else Color.BLACK if player == self.black else None

    def score(self, color: Color) -> int:
        """Points won so far, never shown as more than the length."""
        points, length = self.points[color is Color.BLACK], self.settings.length
        return points if length is None else min(points, length)

    def away(self, color: Color) -> int | None:
        """Points that `color` still needs; None in a money game."""
        length = self.settings.length
        return None if length is None else length - self.score(color)

    @property
    def scripted_dice(self) -> Dice | None:
        """What a sandbox's script says that the next roll is; None when the dice are thrown."""
        script = self.settings.sandbox.dice if self.settings.sandbox else ()
        return script[self.rolls] if self.rolls < len(script) else None

    @property
    def ended(self) -> bool:
        """Whether nothing can happen any more: it is over, or called off."""
        return isinstance(self.phase, Over | CalledOff)

    @property
    def to_act(self) -> Color | None:
        """Who must act now, and whose clock runs; None while nobody can."""
        phase = self.phase
        return phase.color if isinstance(phase, OnRoll | ToPlay | ToAnswer) else None

    @property
    def deadline(self) -> int | None:
        """When the clock that runs will have run out: microseconds since 1970, UTC; None while none runs."""
        color = self.to_act
        if self.clocks is None or self.settings.clock is None or color is None:
            return None
        return self.clocks.since + self.settings.clock.delay * SECOND + self.clocks.left(color)

    @property
    def winner(self) -> Color | None:
        """Who has won the match."""
        return self.phase.winner if isinstance(self.phase, Over) else None

    @property
    def turn(self) -> Color | None:
        """Whose turn the game is at, also while the other side answers an offer; None before and between games."""
        phase = self.phase.resume if isinstance(self.phase, ToAnswer) else self.phase
        return phase.color if isinstance(phase, OnRoll | ToPlay) else None

    @property
    def dice(self) -> Dice | None:
        """The roll that is to be played."""
        phase = self.phase.resume if isinstance(self.phase, ToAnswer) else self.phase
        return phase.dice if isinstance(phase, ToPlay) else None

    def worth(self, points: int, winner: Color) -> int:
        """What winning `points` now brings `winner`: no more than it needs."""
        away = self.away(winner)
        return points if away is None else min(points, away)

    def doubling_is_dead(self, color: Color) -> bool:
        """Whether the cube as it stands already brings `color` all that it needs, so that doubling gains nothing."""
        away = self.away(color)
        return away is not None and self.cube.value >= away

    def most_to_lose(self, loser: Color) -> Stake:
        """The largest result that `loser` can still lose in this game.

        A single with a checker off, or by Jacoby with the cube not turned; no backgammon once the sides have passed
        each other and nothing is left on the bar or in the winner's home.
        """
        own, other = self.board.side(loser), self.board.side(loser.opponent)
        if own[OFF] or (self.settings.jacoby and self.cube.owner is None):
            return Stake.SINGLE
        rearmost = max(point for point in range(26) if own[point])
        if rearmost < 19 and rearmost + max(point for point in range(26) if other[point]) < BAR:
            return Stake.GAMMON
        return Stake.BACKGAMMON

    def lost_by(self, loser: Color, stake: Stake) -> tuple[Stake, int]:
        """What a resignation at `stake` costs: the stake that counts, never more than can be lost, and its points.

        Giving up the match costs all that the winner needs; in a money game, the most that can still be lost.
        """
        most = self.most_to_lose(loser)
        away = self.away(loser.opponent)
        if stake is Stake.MATCH:
            return stake, MULTIPLIER[most] * self.cube.value if away is None else away
        counted = stake if MULTIPLIER[stake] < MULTIPLIER[most] else most
        return counted, MULTIPLIER[counted] * self.cube.value

    def concedes_all(self, loser: Color, stake: Stake) -> bool:
        """Whether a resignation gives up all that can still be lost, so that it needs no answer."""
        if stake is Stake.MATCH:
            return True
        _, points = self.lost_by(loser, stake)
        _, most = self.lost_by(loser, self.most_to_lose(loser))
        return self.worth(points, loser.opponent) >= self.worth(most, loser.opponent)
