"""How values are distributed, counted as Prometheus reads it."""

from bisect import bisect_left
from collections.abc import Iterable

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The bounds of durations."""


class Histogram:
    """How many values there were up to each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Iterable[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; a time that two clocks make negative counts as none."""
        value = max(value, 0.0)
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def sum(self) -> float:
        """The sum of all values."""
        return self._sum

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Each bound, as a text, and how many values were not above it; the last bound is `+Inf`."""
        found: list[tuple[str, float]] = []
        number = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            number += count
            found.append(("+Inf" if bound == float("inf") else str(float(bound)), number))
        return found
