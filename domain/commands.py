"""What somebody wants to happen. Chance comes as an argument: the dice are in the command that rolls them."""

from msgspec import Struct

from domain.board import Color, Dice, Play
from domain.events import Settings, Stake


class Create(Struct, frozen=True, kw_only=True):
    """Open a match and take the seat `color`."""

    match: str
    settings: Settings
    color: Color
    player: str
    rematch_of: str | None = None
    commitment: str | None = None
    imported: str | None = None
    entropy: str = ""


class Join(Struct, frozen=True, kw_only=True):
    """Take the free seat."""

    player: str
    entropy: str = ""


class Commit(Struct, frozen=True, kw_only=True):
    """Go on with a new chain of links, the old one being used up; the table does it."""

    commitment: str


class Roll(Struct, frozen=True, kw_only=True):
    """Throw the dice; `by` is None when the table does it, to open a game."""

    by: Color | None
    dice: Dice
    link: str | None = None
    entropy: str = ""


class Move(Struct, frozen=True, kw_only=True):
    """Play the roll: checker moves in any order, a checker's steps one by one or as one hop."""

    by: Color
    play: Play


class Double(Struct, frozen=True, kw_only=True):
    """Offer the cube at twice its value."""

    by: Color


class Accept(Struct, frozen=True, kw_only=True):
    """Accept the open double or resignation."""

    by: Color


class Refuse(Struct, frozen=True, kw_only=True):
    """Refuse the open double or resignation."""

    by: Color


class Resign(Struct, frozen=True, kw_only=True):
    """Offer to lose at `stake`, or give up the match."""

    by: Color
    stake: Stake


Command = Create | Join | Commit | Roll | Move | Double | Accept | Refuse | Resign
