"""Ratings: the formula of FIBS (RULES.md section 7), and which matches count.

Numbers are rounded to six decimals at each match, so that whoever computes them again gets the very same.
"""

from collections.abc import Iterable
from math import sqrt

from msgspec import Struct

from domain.match import SECOND

PLACES = 6
"""Decimals of a rating, and of its change."""

SETTLED = 400
"""Experience from which on a rating changes no faster than anybody's."""

COUNTED = 3
"""Matches of the same two players that count within a day."""

DAY = 24 * 3600 * SECOND
"""In the unit of all times here."""


class Standing(Struct, frozen=True):
    """A player's rating, and what it rests on: only matches that counted. Everybody begins at 1500, with none."""

    rating: float = 1500.0
    experience: int = 0
    """The lengths of all matches together."""
    matches: int = 0
    wins: int = 0

    @property
    def factor(self) -> float:
        """How fast the rating changes: five times as fast at first, then ever less so until it is settled."""
        return max(1.0, 5 - self.experience / 100)

    @property
    def provisional(self) -> bool:
        """Whether the rating still changes faster than a settled one."""
        return self.experience < SETTLED

    def after(self, change: float, length: int, *, won: bool) -> "Standing":
        """The standing after a match that counted."""
        rating = round(self.rating + change, PLACES)
        return Standing(rating, self.experience + length, self.matches + 1, self.wins + won)


def upset(difference: float, length: int) -> float:
    """The chance that the player with the lower rating, by `difference`, wins a match of this length."""
    return 1 / (10 ** (difference * sqrt(length) / 2000) + 1)


def changes(winner: Standing, loser: Standing, length: int) -> tuple[float, float]:
    """What a match of this length does to the ratings of its winner and its loser, as they stood before it."""
    chance = upset(abs(winner.rating - loser.rating), length)
    surprise = chance if winner.rating >= loser.rating else 1 - chance
    stake = 4 * sqrt(length) * surprise
    return round(stake * winner.factor, PLACES), -round(stake * loser.factor, PLACES)


def counts(at: int, met: Iterable[int]) -> bool:
    """Whether a match that ended then counts, after the same two have ended those that counted at the times `met`.

    It does unless three have counted already within the day before it.
    """
    return sum(at - DAY < before for before in met) < COUNTED
