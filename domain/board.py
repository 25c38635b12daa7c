"""Where thirty checkers stand, and how one checker moves.

Off is point 0 and the bar is point 25, each side counting from its own home: then every move is a
subtraction, entering and bearing off are not special, and the opponent's name for a point is `25 - point`.
"""

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

OFF, BAR, CHECKERS = 0, 25, 15

Side = tuple[int, ...]
"""One player's checkers: 26 counts, own numbering, 0 = off, 1 to 6 home, 25 = bar. They sum to 15."""


class Color(StrEnum):
    """White plays from 24 down in its own numbering, and so does black in black's."""

    WHITE = "white"
    BLACK = "black"

    opponent: "Color"


Color.WHITE.opponent, Color.BLACK.opponent = Color.BLACK, Color.WHITE


class Dice(NamedTuple):
    """Two numbers from 1 to 6, in the order thrown; of an opening roll, white's die and black's."""

    first: int
    second: int

    @property
    def is_double(self) -> bool:
        """Whether both dice show the same, so that the number is played four times."""
        return self.first == self.second

    @property
    def descending(self) -> tuple[int, int]:
        """The larger number first, as players say it: 31, not 13."""
        return (max(self), min(self))


class CheckerMove(NamedTuple):
    """One checker moved, in its owner's numbering: 13/7 is (13, 7), bar/20 is (25, 20), 4/off is (4, 0)."""

    src: int
    dst: int


Play = tuple[CheckerMove, ...]
"""All checker moves of one roll, one die each, highest point first; `()` is a dance."""


def _start() -> Side:
    side = [0] * 26
    side[24], side[13], side[8], side[6] = 2, 5, 3, 5
    return tuple(side)


START: Side = _start()
"""Two checkers on 24, five on 13, three on 8, five on 6."""


class Board(Struct, frozen=True):
    """Both sides, each in its owner's numbering."""

    white: Side = START
    black: Side = START

    def side(self, color: Color) -> Side:
        """The 26 counts of `color`, in its own numbering."""
        return self.white if color is Color.WHITE else self.black

    def pips(self, color: Color) -> int:
        """How many pips `color` still needs to bear everything off; a checker on the bar counts 25.

        >>> Board().pips(Color.WHITE)
        167
        """
        return sum(point * count for point, count in enumerate(self.side(color)))

    def after(self, color: Color, play: Play) -> "Board":
        """The board when `color` has made `play`; a lone opponent on a landing point goes to the bar."""
        own, other = list(self.side(color)), list(self.side(color.opponent))
        for src, dst in play:
            own[src] -= 1
            own[dst] += 1
            if dst and other[25 - dst] == 1:
                other[25 - dst] = 0
                other[BAR] += 1
        if color is Color.WHITE:
            return Board(tuple(own), tuple(other))
        return Board(tuple(other), tuple(own))

    def hits(self, color: Color, play: Play) -> tuple[bool, ...]:
        """For each checker move of `play`, whether it hits a blot."""
        other = list(self.side(color.opponent))
        marks = []
        for _, dst in play:
            hit = dst > 0 and other[25 - dst] == 1
            if hit:
                other[25 - dst] = 0
            marks.append(hit)
        return tuple(marks)
