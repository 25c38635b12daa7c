"""What the match files (mat.py, sgf.py) have in common: errors, results, and a match read command by command."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from domain.board import Color, Dice, Play
from domain.breach import RuleError
from domain.commands import Accept, Command, Create, Join, Move, Refuse, Resign, Roll
from domain.events import Committed, Created, Event, Settings, Stake
from domain.match import Match, Opening, ToAnswer
from domain.rules import decide, evolve
from domain.words import Said, said

IMPORT_CUBE_LIMIT = 1024
"""The cube limit of a file that names none: the highest there is."""

LONGEST_FILE = 5_000_000
"""Characters in a file; a long match with all its analysis has fewer."""

END_OF_FILE = "the end of the file"
"""What is found where a file ends too early."""

_LONGEST_QUOTE = 60
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class FileError(Exception):
    """A match file cannot be read: where (from 1), what was expected, what was found, and the rule it breaks."""

    def __init__(self, line: int, column: int, expected: str | Said, got: str, rule: str | Said = "") -> None:
        got = got if len(got) <= _LONGEST_QUOTE else got[:_LONGEST_QUOTE] + "…"
        self.found: str | Said = Said("the end of the file") if got == END_OF_FILE else got
        self.wanted = said(expected, {})
        self.said = Said(
            "line {line}, column {column}: expected {expected}, found {got!r}",
            line=line,
            column=column,
            expected=self.wanted,
            got=self.found,
        )
        if rule:
            self.said = Said("{fault}: {rule}", fault=self.said, rule=said(rule, {}))
        super().__init__(str(self.said))
        self.line = line
        self.column = column
        self.expected = str(self.wanted)
        self.got = got


class NotExpressible(Exception):
    """A match has something that the file format has no words for."""

    def __init__(self, text: str, /, **more: object) -> None:
        self.said = said(text, more)
        super().__init__(str(self.said))


class ReadMatch(Struct, frozen=True, kw_only=True):
    """A match read from a file: its events, what they fold to, and what was tolerated on the way."""

    events: tuple[Event, ...]
    names: tuple[str, str]
    """White's name and black's as the file has them; empty where it has none."""
    match: Match
    notes: tuple[str, ...]


class Place(NamedTuple):
    """A piece of the file: where it begins (from 1), and what it says."""

    line: int
    column: int
    text: str

    def error(self, expected: str | Said, rule: str | Said = "") -> FileError:
        """The error that something else was expected here."""
        return FileError(self.line, self.column, expected, self.text, rule)


State = tuple[Match, int, int]
"""A match while it is read, with the numbers of its events and notes."""


class Reading:
    """A match while it is read: every event is decided by the law, so nothing illegal can enter."""

    def __init__(self, imported: str, match_id: str, players: tuple[str, str], settings: Settings, at: Place) -> None:
        white, black = players
        create = Create(match=match_id, settings=settings, color=Color.WHITE, player=white)
        try:
            created, joined = decide(None, create)
        except RuleError as error:
            raise at.error("a match that can be played", error.said) from None
        assert isinstance(created, Created)
        created = replace(created, imported=imported)
        self.match = evolve(evolve(None, created), joined)
        self.events: list[Event] = [created, joined]
        self.notes: list[str] = []
        self.do(Join(player=black), at, "two players")
        self._game: Match | None = None
        """The match when the game began that is read; None before the first."""

    @property
    def state(self) -> State:
        """Where reading stands, to come back to."""
        return self.match, len(self.events), len(self.notes)

    def back_to(self, state: State) -> None:
        """Forget what was read since `state`."""
        self.match, events, notes = state
        del self.events[events:], self.notes[notes:]

    def do(self, command: Command, at: Place, expected: str | Said) -> None:
        """Let happen what stands in the file at that place; FileError with the rule if it is not legal."""
        try:
            decided = decide(self.match, command)
        except RuleError as error:
            raise at.error(expected, error.said) from None
        for event in decided:
            self.match = evolve(self.match, event)
        self.events += decided

    def begin_game(self, score: tuple[int, int], at: Place) -> None:
        """The file begins a game at that score, which must be the one that was reached."""
        if self.match.winner:
            if self.match.settings.length is None:
                raise at.error("the end of the file", "a money game is one game")
            raise at.error("the end of the file", Said("{side} has won", side=self.match.winner))
        if self._game and not self.game_is_over:
            raise at.error("the result of the game before")
        reached = self.match.score(Color.WHITE), self.match.score(Color.BLACK)
        if score != reached:
            raise at.error(
                Said("the score {white}:{black}, as the games before add up", white=reached[0], black=reached[1])
            )
        self._game = self.match

    @property
    def game_is_over(self) -> bool:
        """Whether the game that began last has been won."""
        return self._game is not None and len(self.match.results) > len(self._game.results)

    def roll(self, by: Color, dice: Dice, at: Place) -> None:
        """Roll, with the higher die on the side of who plays it if that opens the game."""
        if self.game_is_over:
            raise at.error("the end of this game", "it has been won")
        if not isinstance(self.match.phase, Opening):
            self.do(Roll(by=by, dice=dice), at, Said("what {side} may do", side=by))
            return
        high, low = dice.descending
        if high == low:
            raise at.error("two different dice", "an opening roll is never a double")
        self.do(Roll(by=None, dice=Dice(high, low) if by is Color.WHITE else Dice(low, high)), at, "an opening roll")

    def move(self, by: Color, play: Play, at: Place) -> None:
        """Play the roll."""
        self.do(Move(by=by, play=play), at, "a legal play")

    def conclude(self, winner: Color, points: int, wins_match: bool | None, at: Place) -> None:
        """The file says who wins the game, how many points, and (None: it does not) whether that wins the match.

        Without bear-off or drop it was a resignation.
        """
        if not self.game_is_over:
            self._give_up(winner, points, wins_match, at)
        result = self.match.results[-1]
        if result.winner is not winner:
            raise at.error(
                Said("{side} to win", side=result.winner),
                Said("{side} has won this game ({end})", side=result.winner, end=result.end),
            )
        by_rule = self._worth(winner, result.points)
        if points not in by_rule:
            raise at.error(
                Said("{points} points", points=result.points),
                Said("the cube shows {cube}, and the game is a {stake}", cube=result.cube, stake=result.stake),
            )
        if points != result.points:
            self.note(at, f"points in the file: {points}, by the rules: {result.points}")
        if wins_match and self.match.settings.length is not None and not self.match.winner:
            raise at.error("a game that does not win the match", "the points do not reach its length")

    def note(self, at: Place, what: str) -> None:
        """Remember what was tolerated there."""
        self.notes.append(f"line {at.line}: {what}")

    def _worth(self, winner: Color, points: int) -> set[int]:
        """How files write a win: by the rules, or no more than needed, or no more than the match is long."""
        needed = self._game.worth(points, winner) if self._game else points
        return {points, needed, min(points, self.match.settings.length or points)}

    def _give_up(self, winner: Color, points: int, wins_match: bool | None, at: Place) -> None:
        match, loser = self.match, winner.opponent
        offered = isinstance(match.phase, ToAnswer)
        if offered and match.turn is winner and points in self._worth(winner, match.cube.value):
            self.note(at, f"{loser} gave up instead of answering the double: read as a drop")
            self.do(Refuse(by=loser), at, "an answer")
            return
        stakes = () if offered else (Stake.SINGLE, Stake.GAMMON, Stake.BACKGAMMON)
        fitting = (stake for stake in stakes if points in self._worth(winner, match.lost_by(loser, stake)[1]))
        stake = next(fitting, None)
        if stake is None:
            if wins_match is False or points != match.away(winner):
                most = match.lost_by(loser, Stake.BACKGAMMON)[1]
                raise at.error(
                    Said(
                        "a resignation worth 1, 2 or 3 times the cube, {cube}, and at most {most} points",
                        cube=match.cube.value,
                        most=most,
                    )
                )
            stake = Stake.MATCH
            self.note(at, f"{points} points with the cube at {match.cube.value}: read as giving up the match")
        self.do(Resign(by=loser, stake=stake), at, "a game that can be resigned")
        if isinstance(self.match.phase, ToAnswer):
            self.do(Accept(by=winner), at, "a resignation that can be accepted")

    def done(self, names: tuple[str, str]) -> ReadMatch:
        """All that was read."""
        return ReadMatch(events=tuple(self.events), names=names, match=self.match, notes=tuple(self.notes))


def require_expressible(match: Match) -> None:
    """NotExpressible if the match began, or this game did, from something else than the usual opening."""
    sandbox = match.settings.sandbox
    if sandbox and sandbox.start is not None:
        raise NotExpressible("the match begins from a position of its own")
    if isinstance(match.phase, Opening) and match.phase.cube.value > 1:
        raise NotExpressible("an automatic double turned the cube before the first move")


def checked_text(text: str) -> str:
    """The text without BOM and with plain line ends; FileError if it is too long, or no text."""
    if len(text) > LONGEST_FILE:
        most = Said("a file of at most {most} characters", most=LONGEST_FILE)
        raise FileError(1, 1, most, f"{len(text)} characters")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if control := _CONTROL.search(text):
        at = control.start()
        raise FileError(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), "text", control[0])
    return text


def of_play(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events without those that only prove the dice."""
    return tuple(event for event in events if not isinstance(event, Committed))


def in_one_line(name: str) -> str:
    """A name as match files can hold it: printable, in one line, and no longer than GNU Backgammon reads (31 bytes)."""
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in name).split())
    return line.encode()[:31].decode(errors="ignore").strip()
