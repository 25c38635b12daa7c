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
    app: str = ""
    invited: str | None = None
    series: str | None = None


class Join(Struct, frozen=True, kw_only=True):
    """Take the free seat."""

    player: str
    entropy: str = ""
    app: str = ""


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


class TimeOut(Struct, frozen=True, kw_only=True):
    """End the match of a player whose time has run out; the table does it."""

    by: Color


class Resume(Struct, frozen=True, kw_only=True):
    """Give the clock that runs the microseconds back that an outage took; the table does it."""

    lost: int


class Claim(Struct, frozen=True, kw_only=True):
    """Claim the match from an opponent who has been away for so many seconds."""

    by: Color
    absent: int


class Cancel(Struct, frozen=True, kw_only=True):
    """Call the match off: before it began, or with an opponent who has been away for so many seconds.

    `by` is None when the invited player declines.
    """

    by: Color | None
    absent: int = 0


Command = Create | Join | Commit | Roll | Move | Double | Accept | Refuse | Resign | TimeOut | Resume | Claim | Cancel
