"""What somebody wants to happen. Chance comes as an argument: the dice are in the command that rolls them."""

from msgspec import Struct

from domain.board import Color, Dice, Play
from domain.events import Settings, Stake


class _Command(Struct, frozen=True, kw_only=True):
    pass


class Create(_Command):
    """Open a match and take the seat `color`."""

    match: str
    settings: Settings
    color: Color
    player: str
    rematch_of: str | None = None


class Join(_Command):
    """Take the free seat."""

    player: str


class Roll(_Command):
    """Throw the dice; `by` is None when the table does it, to open a game."""

    by: Color | None
    dice: Dice


class Move(_Command):
    """Play the roll: checker moves in any order, a checker's steps one by one or as one hop."""

    by: Color
    play: Play


class Double(_Command):
    """Offer the cube at twice its value."""

    by: Color


class Accept(_Command):
    """Accept the open double or resignation."""

    by: Color


class Refuse(_Command):
    """Refuse the open double or resignation."""

    by: Color


class Resign(_Command):
    """Offer to lose at `stake`, or give up the match."""

    by: Color
    stake: Stake


Command = Create | Join | Roll | Move | Double | Accept | Refuse | Resign
