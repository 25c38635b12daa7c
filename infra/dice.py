"""Chance."""

from secrets import randbelow

from domain.board import Dice


def throw() -> Dice:
    """Two fair dice from the operating system's generator."""
    return Dice(randbelow(6) + 1, randbelow(6) + 1)
