"""apps, invitations, seeks, clocks, presence and ratings"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def text(name: str, **more: object) -> sa.Column:
    return sa.Column(name, TEXT, nullable=False, **more)


def upgrade() -> None:
    with op.batch_alter_table("matches") as batch:
        batch.add_column(sa.Column("rated", sa.Boolean, nullable=False, server_default=sa.false()))
        batch.add_column(sa.Column("app", TEXT, nullable=False, server_default=""))
        batch.add_column(sa.Column("invited", TEXT))
        batch.add_column(sa.Column("series", TEXT, nullable=False, server_default=""))
        batch.add_column(sa.Column("finished_at", TEXT))
        batch.add_column(sa.Column("deadline", TEXT))
        batch.create_index("ix_matches_series", ["series", "created_at"])
        for name in ("invited", "finished_at", "deadline"):
            batch.create_index(f"ix_matches_{name}", [name])
    # Rematches of before are series of their own: what came before them is in their logs, and `videau rebuild` finds it.
    op.execute("UPDATE matches SET series = id")
    op.execute("UPDATE matches SET finished_at = updated_at WHERE status = 'finished'")
    with op.batch_alter_table("matches") as batch:
        for name in ("rated", "app", "series"):
            batch.alter_column(name, server_default=None)

    with op.batch_alter_table("players") as batch:
        batch.add_column(sa.Column("app", TEXT, nullable=False, server_default=""))
        batch.add_column(sa.Column("subject", TEXT))
        batch.add_column(sa.Column("bot", sa.Boolean, nullable=False, server_default=sa.false()))
        batch.create_unique_constraint("players_app_subject_key", ["app", "subject"])
    with op.batch_alter_table("players") as batch:
        for name in ("app", "bot"):
            batch.alter_column(name, server_default=None)

    op.create_table(
        "apps",
        text("name", primary_key=True),
        text("created_at"),
        sa.Column("jwks_url", sa.String),
        sa.Column("jwks", sa.String),
        sa.Column("revoked_at", TEXT),
        sa.Column("documents_only", sa.Boolean, nullable=False),
    )
    op.create_table(
        "documents",
        text("app", primary_key=True),
        text("hash", primary_key=True),
        sa.Column("document", sa.String, nullable=False),
        text("created_at"),
    )
    op.create_table(
        "invitations",
        text("match_id", primary_key=True),
        text("code"),
        text("expires_at"),
        sa.UniqueConstraint("code", name="invitations_code_key"),
    )
    op.create_table(
        "seeks",
        text("id", primary_key=True),
        text("player_id"),
        text("app"),
        text("terms"),
        sa.Column("auto_roll", sa.Boolean, nullable=False),
        sa.Column("entropy", sa.String, nullable=False),
        text("created_at"),
        text("expires_at"),
        sa.Column("match_id", TEXT),
    )
    op.create_index("ix_seeks_open", "seeks", ["match_id", "created_at"])
    op.create_index("ix_seeks_player_id", "seeks", ["player_id"])
    op.create_index("ix_seeks_expires_at", "seeks", ["expires_at"])
    op.create_table(
        "pulse",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        text("at"),
        text("holder"),
        text("until"),
    )
    op.create_table("outages", text("began", primary_key=True), text("ended"))
    op.create_table("processes", text("id", primary_key=True), text("until"))
    op.create_table(
        "presences",
        text("match_id", primary_key=True),
        text("player_id", primary_key=True),
        text("process_id", primary_key=True),
        sa.Column("left_at", TEXT),
    )
    op.create_table(
        "ratings",
        text("player_id", primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        text("match_id"),
        text("opponent_id"),
        text("at"),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("won", sa.Boolean, nullable=False),
        sa.Column("counted", sa.Boolean, nullable=False),
        sa.Column("rating", sa.Float, nullable=False),
        sa.Column("change", sa.Float, nullable=False),
        sa.Column("experience", sa.Integer, nullable=False),
    )
    op.create_index("ix_ratings_match_id", "ratings", ["match_id"])
    op.create_table(
        "standings",
        text("player_id", primary_key=True),
        text("app"),
        sa.Column("rating", sa.Float, nullable=False),
        sa.Column("experience", sa.Integer, nullable=False),
        sa.Column("matches", sa.Integer, nullable=False),
        sa.Column("wins", sa.Integer, nullable=False),
    )
    op.create_index("ix_standings_best", "standings", ["app", "rating", "player_id"])
    op.create_table(
        "projections", text("name", primary_key=True), sa.Column("position", sa.BigInteger, nullable=False)
    )
    op.execute("INSERT INTO projections VALUES ('ratings', 0)")
