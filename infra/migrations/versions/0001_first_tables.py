"""matches, their events, commands, and players"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("match_id", sa.String, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("at", sa.String, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("hash", sa.String, nullable=False),
    )
    op.create_table(
        "matches",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("updated_at", sa.String, nullable=False),
        sa.Column("visibility", sa.String, nullable=False),
        sa.Column("sandbox", sa.Boolean, nullable=False),
        sa.Column("imported", sa.Boolean, nullable=False),
        sa.Column("status", sa.String, nullable=False, index=True),
        sa.Column("length", sa.Integer),
        sa.Column("white", sa.String, index=True),
        sa.Column("black", sa.String, index=True),
        sa.Column("white_score", sa.Integer, nullable=False),
        sa.Column("black_score", sa.Integer, nullable=False),
        sa.Column("winner", sa.String),
        sa.Column("white_auto_roll", sa.Boolean, nullable=False),
        sa.Column("black_auto_roll", sa.Boolean, nullable=False),
        sa.Column("rematch_by", sa.String),
        sa.Index("ix_matches_newest", "created_at", "id"),
    )
    op.create_table(
        "commands",
        sa.Column("player_id", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("match_id", sa.String, nullable=False),
        sa.Column("first_seq", sa.Integer, nullable=False),
        sa.Column("last_seq", sa.Integer, nullable=False),
    )
    op.create_table(
        "players",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
    )
