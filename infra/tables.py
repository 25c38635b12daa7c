"""The tables, the same on SQLite and PostgreSQL. Migrations make them (infra/migrations); these say what they hold."""

from sqlalchemy import BigInteger, String
from sqlmodel import Field, Index, SQLModel, UniqueConstraint

_Text = String().with_variant(String(collation="C"), "postgresql")
"""Text that sorts by its bytes, as SQLite's does: ids and times."""


class EventRow(SQLModel, table=True):
    """One event of one match, with its canonical JSON; the key (match, seq) is the lock."""

    __tablename__ = "events"

    match_id: str = Field(primary_key=True, sa_type=_Text)
    seq: int = Field(primary_key=True, sa_type=BigInteger)
    position: int = Field(sa_type=BigInteger, unique=True)
    """1, 2, 3 … over all matches, in the order of commits, without gaps."""
    at: str = Field(sa_type=_Text)
    event: str
    hash: str = Field(sa_type=_Text)


class FeedRow(SQLModel, table=True):
    """One row: the position of the newest event. Whoever appends holds it until the commit, so that no event can come
    in behind one that has been read."""

    __tablename__ = "feed"

    id: int = Field(primary_key=True, sa_type=BigInteger)
    position: int = Field(sa_type=BigInteger)


class MatchRow(SQLModel, table=True):
    """One match as its log has it at `version`, for lists: all of it follows from the log (`videau rebuild`).

    Times are texts that sort (infra/log.py); scores are white's and black's.
    """

    __tablename__ = "matches"
    __table_args__ = (Index("ix_matches_newest", "created_at", "id"), Index("ix_matches_series", "series", "created_at"))

    id: str = Field(primary_key=True, sa_type=_Text)
    version: int = Field(sa_type=BigInteger)
    created_at: str = Field(sa_type=_Text)
    updated_at: str = Field(sa_type=_Text)
    visibility: str = Field(sa_type=_Text)
    sandbox: bool
    imported: bool
    status: str = Field(index=True, sa_type=_Text)
    length: int | None
    white: str | None = Field(default=None, index=True, sa_type=_Text)
    black: str | None = Field(default=None, index=True, sa_type=_Text)
    white_score: int
    black_score: int
    winner: str | None = Field(default=None, sa_type=_Text)
    rated: bool = False
    app: str = Field(default="", sa_type=_Text)
    """The app of the player who opened it; empty for guests."""
    invited: str | None = Field(default=None, index=True, sa_type=_Text)
    """The player for whom a private match is."""
    series: str = Field(default="", sa_type=_Text)
    """The first match of the series of rematches."""
    finished_at: str | None = Field(default=None, index=True, sa_type=_Text)
    deadline: str | None = Field(default=None, index=True, sa_type=_Text)
    """When the running clock will have run out."""


class WishRow(SQLModel, table=True):
    """What the players of a match wish that is not in its log: who rolls by hand, who proposes a rematch."""

    __tablename__ = "wishes"

    match_id: str = Field(primary_key=True, sa_type=_Text)
    white_auto_roll: bool = True
    black_auto_roll: bool = True
    rematch_by: str | None = Field(default=None, sa_type=_Text)


class CommandRow(SQLModel, table=True):
    """What a player's idempotency key has brought about: these events, for an input with this fingerprint."""

    __tablename__ = "commands"

    player_id: str = Field(primary_key=True, sa_type=_Text)
    key: str = Field(primary_key=True, sa_type=_Text)
    fingerprint: str = Field(sa_type=_Text)
    match_id: str = Field(sa_type=_Text)
    first_seq: int = Field(sa_type=BigInteger)
    last_seq: int = Field(sa_type=BigInteger)
    at: str = Field(index=True, sa_type=_Text)
    """When it was used, UTC: keys are forgotten after a while (infra/store.py)."""


class PlayerRow(SQLModel, table=True):
    """A player. The name is here and not in any log, so that it can be forgotten."""

    __tablename__ = "players"
    __table_args__ = (UniqueConstraint("app", "subject", name="players_app_subject_key"),)

    id: str = Field(primary_key=True, sa_type=_Text)
    name: str
    created_at: str = Field(sa_type=_Text)
    app: str = Field(default="", sa_type=_Text)
    """The app whose user it is; empty for guests."""
    subject: str | None = Field(default=None, sa_type=_Text)
    """What the app calls its user; None for guests."""
    bot: bool = False


class AppRow(SQLModel, table=True):
    """A game of somebody else's, which signs tokens for its own users."""

    __tablename__ = "apps"

    name: str = Field(primary_key=True, sa_type=_Text)
    created_at: str = Field(sa_type=_Text)
    jwks_url: str | None = None
    """Where the app publishes its keys; None if they are in `jwks` alone."""
    jwks: str | None = None
    """The keys that were given to us, as a JWK set (RFC 7517)."""
    revoked_at: str | None = Field(default=None, sa_type=_Text)
    documents_only: bool = False
    """Whether the app's users may send no operations but those that the app has registered."""


class DocumentRow(SQLModel, table=True):
    """An operation that an app has registered."""

    __tablename__ = "documents"

    app: str = Field(primary_key=True, sa_type=_Text)
    hash: str = Field(primary_key=True, sa_type=_Text)
    """SHA-256 of the document, in hexadecimal."""
    document: str
    created_at: str = Field(sa_type=_Text)


class InvitationRow(SQLModel, table=True):
    """The code by which an unlisted match is joined, once."""

    __tablename__ = "invitations"

    match_id: str = Field(primary_key=True, sa_type=_Text)
    code: str = Field(unique=True, sa_type=_Text)
    expires_at: str = Field(sa_type=_Text)


class SeekRow(SQLModel, table=True):
    """A player who looks for an opponent; with a match, it has been paired."""

    __tablename__ = "seeks"
    __table_args__ = (Index("ix_seeks_open", "match_id", "created_at"),)

    id: str = Field(primary_key=True, sa_type=_Text)
    player_id: str = Field(index=True, sa_type=_Text)
    app: str = Field(sa_type=_Text)
    terms: str = Field(sa_type=_Text)
    """The settings that the match is to have, as canonical JSON: who seeks the same fits."""
    auto_roll: bool
    entropy: str
    created_at: str = Field(sa_type=_Text)
    expires_at: str = Field(index=True, sa_type=_Text)
    match_id: str | None = Field(default=None, sa_type=_Text)


class PulseRow(SQLModel, table=True):
    """One row: when any process was last known to live, and which one looks after the clocks until when."""

    __tablename__ = "pulse"

    id: int = Field(primary_key=True, sa_type=BigInteger)
    at: str = Field(sa_type=_Text)
    holder: str = Field(sa_type=_Text)
    until: str = Field(sa_type=_Text)


class OutageRow(SQLModel, table=True):
    """A time in which no process could serve: no clock ran in it."""

    __tablename__ = "outages"

    began: str = Field(primary_key=True, sa_type=_Text)
    ended: str = Field(sa_type=_Text)


class ProcessRow(SQLModel, table=True):
    """A process, which lives until then at least."""

    __tablename__ = "processes"

    id: str = Field(primary_key=True, sa_type=_Text)
    until: str = Field(sa_type=_Text)


class PresenceRow(SQLModel, table=True):
    """A player who is connected to a match by a process, or was until it left."""

    __tablename__ = "presences"

    match_id: str = Field(primary_key=True, sa_type=_Text)
    player_id: str = Field(primary_key=True, sa_type=_Text)
    process_id: str = Field(primary_key=True, sa_type=_Text)
    left_at: str | None = Field(default=None, sa_type=_Text)


class RatingRow(SQLModel, table=True):
    """What a rated match has done to one of its players' ratings; it follows from the logs (`videau rebuild`)."""

    __tablename__ = "ratings"

    player_id: str = Field(primary_key=True, sa_type=_Text)
    position: int = Field(primary_key=True, sa_type=BigInteger)
    """That of the match's last event: ratings change in this order."""
    match_id: str = Field(index=True, sa_type=_Text)
    opponent_id: str = Field(sa_type=_Text)
    at: str = Field(sa_type=_Text)
    length: int
    won: bool
    counted: bool
    """Whether it changed the rating: too many matches between the same two do not."""
    rating: float
    change: float
    experience: int


class StandingRow(SQLModel, table=True):
    """A player's newest rating; it follows from the ratings."""

    __tablename__ = "standings"
    __table_args__ = (Index("ix_standings_best", "app", "rating", "player_id"),)

    player_id: str = Field(primary_key=True, sa_type=_Text)
    app: str = Field(sa_type=_Text)
    rating: float
    experience: int
    matches: int
    wins: int


class ProjectionRow(SQLModel, table=True):
    """How far in the feed something that follows from it has come."""

    __tablename__ = "projections"

    name: str = Field(primary_key=True, sa_type=_Text)
    position: int = Field(sa_type=BigInteger)
