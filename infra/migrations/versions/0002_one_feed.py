"""all events in one order, wishes beside the matches, and the times of commands"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")

TEXTS = {
    "events": ("match_id", "at", "hash"),
    "matches": ("id", "created_at", "updated_at", "visibility", "status", "white", "black", "winner"),
    "commands": ("player_id", "key", "fingerprint", "match_id"),
    "players": ("id", "created_at"),
}
NUMBERS = {"events": ("seq",), "matches": ("version",), "commands": ("first_seq", "last_seq"), "players": ()}


def upgrade() -> None:
    op.create_table(
        "wishes",
        sa.Column("match_id", TEXT, primary_key=True),
        sa.Column("white_auto_roll", sa.Boolean, nullable=False),
        sa.Column("black_auto_roll", sa.Boolean, nullable=False),
        sa.Column("rematch_by", TEXT),
    )
    op.execute("INSERT INTO wishes SELECT id, white_auto_roll, black_auto_roll, rematch_by FROM matches")

    for table in TEXTS:
        with op.batch_alter_table(table) as batch:
            for name in TEXTS[table]:
                batch.alter_column(name, type_=TEXT)
            for name in NUMBERS[table]:
                batch.alter_column(name, type_=sa.BigInteger)
            if table == "events":
                batch.add_column(sa.Column("position", sa.BigInteger))
            if table == "commands":
                batch.add_column(sa.Column("at", TEXT))
            if table == "matches":
                for name in ("white_auto_roll", "black_auto_roll", "rematch_by"):
                    batch.drop_column(name)

    op.execute("""
        UPDATE events SET position = numbered.position
        FROM (SELECT match_id, seq, row_number() OVER (ORDER BY at, match_id, seq) AS position FROM events) AS numbered
        WHERE events.match_id = numbered.match_id AND events.seq = numbered.seq
    """)
    with op.batch_alter_table("events") as batch:
        batch.alter_column("position", nullable=False)
        batch.create_unique_constraint("events_position_key", ["position"])
    op.create_table(
        "feed",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO feed SELECT 1, coalesce(max(position), 0) FROM events")

    # A command is as old as its last event; one without any, in a damaged database, is old enough to be forgotten.
    op.execute("""
        UPDATE commands SET at = coalesce(
            (SELECT max(at) FROM events WHERE events.match_id = commands.match_id AND seq <= last_seq),
            '1970-01-01T00:00:00.000000Z'
        )
    """)
    with op.batch_alter_table("commands") as batch:
        batch.alter_column("at", nullable=False)
        batch.create_index("ix_commands_at", ["at"])
