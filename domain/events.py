"""What has happened: the kinds of event that a match is made of.

These names are the storage format and the public one. A kind is never renamed, a field never retyped, a new field
gets a default; tests/domain/test_events.py holds one literal line per kind for ever. Events carry no number, time or
hash: those belong to the record around them (infra/log.py).
"""

from enum import StrEnum

from msgspec import Struct

from domain.board import Color, Dice, Play

RULES = 1
"""The version of the rules by which new matches are folded, recorded in `created`."""


class Visibility(StrEnum):
    """Who may see a match: everybody, whoever knows its id, or its two players."""

    PUBLIC = "public"
    UNLISTED = "unlisted"
    PRIVATE = "private"


class Stake(StrEnum):
    """How much a resignation gives up: one, two or three times the cube, or the whole match."""

    SINGLE = "single"
    GAMMON = "gammon"
    BACKGAMMON = "backgammon"
    MATCH = "match"


class Sandbox(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sandbox match is given: a start position and the first rolls. It is for tests and never rated."""

    start: str | None = None
    """The first position as XGID, with X for white; None is the usual opening."""
    dice: tuple[Dice, ...] = ()
    """The rolls to come, in order (an opening roll is white's die, black's die); then dice are thrown."""


class Clock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long each player may think: a reserve for the whole match, which runs when the delay of a turn is used up.

    What is not used of a delay is lost (tournament style, RULES.md section 5). Days a turn are a delay and no reserve.
    """

    reserve: int
    """Seconds for each player and the whole match."""
    delay: int
    """Seconds for each turn."""


class Settings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What is agreed before the first roll (DESIGN.md section 2)."""

    length: int | None
    """Points that win the match; None is a money game: one game, won by whoever wins it."""
    crawford: bool = True
    """No doubling in the game right after a side first stands one point from winning."""
    cube_limit: int = 64
    """The highest value of the cube: a power of two up to 1024; 1 is no cube."""
    jacoby: bool = False
    """Money only: gammons and backgammons count once a player has turned the cube."""
    automatic_doubles: int = 0
    """Money only: how many tied opening rolls double the centred cube."""
    visibility: Visibility = Visibility.PUBLIC
    sandbox: Sandbox | None = None
    clock: Clock | None = None
    """None is a match without a clock."""
    rated: bool = False
    """Whether the result counts for the ratings of both players, who are of one app."""


class _Event(
    Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    tag=str.lower,
    tag_field="kind",
    forbid_unknown_fields=True,
):
    pass


class Created(_Event, frozen=True):
    """The match exists; `color` is the seat that its creator takes."""

    match: str
    settings: Settings
    color: Color
    rules: int
    rematch_of: str | None = None
    commitment: str | None = None
    """The end of the chain of links from which the dice come (domain/fairness.py), in hexadecimal."""
    imported: str | None = None
    """The format of the file that the match was read from; its dice prove nothing."""
    invited: str | None = None
    """The player for whom a private match is."""
    series: str | None = None
    """The first match of the series of rematches that this one belongs to; None for a first match."""


class Joined(_Event, frozen=True):
    """A player, known by id alone, has taken a seat; the second one starts the match."""

    color: Color
    player: str
    entropy: str = ""
    """What the player adds to the chance of every roll."""
    app: str = ""
    """The app whose user the player is; empty for a guest."""


class Committed(_Event, frozen=True):
    """The chain of links is used up, and the next one is committed to."""

    commitment: str


class Rolled(_Event, frozen=True):
    """Dice were thrown. An opening roll is white's die and black's; `by` is its winner, None for a tie."""

    by: Color | None
    dice: Dice
    opening: bool = False
    link: str | None = None
    """The link of the chain that this roll reveals, in hexadecimal; None for scripted and imported dice."""
    entropy: str = ""
    """What the player added to the chance of this roll alone."""


class Moved(_Event, frozen=True):
    """The roll was played: one checker move a die, highest point first, own numbering; empty for a dance."""

    by: Color
    play: Play


class Doubled(_Event, frozen=True):
    """The cube was offered at twice its value."""

    by: Color


class Accepted(_Event, frozen=True):
    """The open offer, a double or a resignation, was accepted."""

    by: Color


class Refused(_Event, frozen=True):
    """The open offer was refused: a double loses the game, a resignation leaves it where it stood."""

    by: Color


class Resigned(_Event, frozen=True):
    """A player offered to lose at `stake`, or gave up the match."""

    by: Color
    stake: Stake


class TimedOut(_Event, frozen=True, tag="timed_out"):
    """A player's time has run out, which loses the match."""

    by: Color


class Resumed(_Event, frozen=True):
    """The service was out of order for a while, and the clock that ran has got that time back."""

    lost: int
    """Microseconds."""


class Claimed(_Event, frozen=True):
    """A player has claimed the match from an opponent who stayed away from a match without a clock."""

    by: Color
    absent: int
    """Seconds for which the opponent had been away."""


class Cancelled(_Event, frozen=True):
    """The match is off, and nobody has won."""

    by: Color | None
    """Who cancelled it; None for the invited player, who declined."""
    absent: int = 0
    """Seconds for which the opponent had been away, where the match had begun."""


Event = (
    Created
    | Joined
    | Committed
    | Rolled
    | Moved
    | Doubled
    | Accepted
    | Refused
    | Resigned
    | TimedOut
    | Resumed
    | Claimed
    | Cancelled
)
