"""The tables, the same on SQLite and PostgreSQL. Migrations make them (infra/migrations); these say what they hold."""

from sqlalchemy import BigInteger, String
from sqlmodel import Field, Index, SQLModel

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
    __table_args__ = (Index("ix_matches_newest", "created_at", "id"),)

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

    id: str = Field(primary_key=True, sa_type=_Text)
    name: str
    created_at: str = Field(sa_type=_Text)
