"""The database's tables, brought from one version to the next: whole or not at all, forwards only.

Each file in versions/ is a revision, and history: it is never edited, and imports none of our tables.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, NullPool, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

REVISIONS = ("0001", "0002", "0003")
HEAD = REVISIONS[-1]
"""The newest revision: what this version of Videau works with."""

EMPTY = "this database is empty: run `videau migrate`"
"""What `schema_problem` says of a database without any table."""

PATIENCE = 30
"""Seconds to wait for whoever else holds the database, or its tables."""

_UNVERSIONED = {
    "commands": {"player_id", "key", "fingerprint", "match_id", "first_seq", "last_seq"},
    "events": {"match_id", "seq", "at", "event", "hash"},
    "matches": {
        "id", "version", "created_at", "updated_at", "visibility", "sandbox", "imported", "status", "length", "white",
        "black", "white_score", "black_score", "winner", "white_auto_roll", "black_auto_roll", "rematch_by",
    },
    "players": {"id", "name", "created_at"},
}  # fmt: skip
"""The tables of revision 0001, which were in use before revisions were noted; every later one has them too."""

_LOCK = 0x766964656175  # "videau": the advisory lock that a migration holds on PostgreSQL


class SchemaError(Exception):
    """The database cannot be brought to this version; the message says why in one line. Nothing was changed."""


def schema_problem(connection: Connection) -> str | None:
    """Why the tables are not those of HEAD and what to do, in one line (EMPTY if there are none); None if they are."""
    try:
        found = _revision(connection)
    except SchemaError as error:
        return str(error)
    if found is None:
        return EMPTY
    return None if found == HEAD else f"this database is at revision {found}, not {HEAD}: run `videau migrate`"


def migrate(url: str | URL) -> list[str]:
    """Bring the database at this SQLAlchemy URL to HEAD; what was done, a line a revision, none if it was there.

    In one transaction, and one at a time whoever else tries. Raises SchemaError.
    """
    try:
        backend = make_url(url).get_backend_name()
        arguments: dict[str, Any] = {"connect_timeout": PATIENCE}
        if backend == "sqlite":
            arguments = {"timeout": PATIENCE, "isolation_level": None}  # None: the driver leaves transactions to us
        engine = create_engine(url, poolclass=NullPool, connect_args=arguments)
        if backend == "sqlite":
            event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        with engine.begin() as connection:
            if backend == "postgresql":
                connection.execute(text(f"SET LOCAL lock_timeout = '{PATIENCE}s'"))
                connection.execute(text("SET LOCAL statement_timeout = 0"))  # big tables take what they take
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            found = _revision(connection)
            return [] if found == HEAD else _upgrade(connection, found)
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise SchemaError(" ".join(str(cause).split())) from error


def _revision(connection: Connection) -> str | None:
    """The revision of the tables, None if there is no table. Raises SchemaError if they are no version's, or newer."""
    inspector = inspect(connection)
    tables = set(inspector.get_table_names())
    found: str | None = None
    if "alembic_version" in tables:
        found = connection.scalar(text("SELECT max(version_num) FROM alembic_version"))
    if found is None and tables <= {"alembic_version"}:
        return None
    if not tables >= _UNVERSIONED.keys():
        named = ", ".join(sorted(tables)[:3]) + (f" and {len(tables) - 3} more" if len(tables) > 3 else "")
        raise SchemaError(f"this is not a database of Videau: it has the tables {named}")
    if found is None:
        for table, columns in _UNVERSIONED.items():
            if {column["name"] for column in inspector.get_columns(table)} != columns:
                raise SchemaError(f"this is not a database of Videau: its table {table} has other columns")
        return "0001"
    if found not in REVISIONS:
        raise SchemaError(
            f"this database is of a newer version of Videau: it is at revision {found}, and this one stops at {HEAD}"
        )
    return found


def _upgrade(connection: Connection, found: str | None) -> list[str]:
    from alembic import command  # here, since it takes half a second, and serving does not need it
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    revisions = ScriptDirectory.from_config(config).iterate_revisions(HEAD, found or "base")
    if found:
        command.stamp(config, found)  # says so, if it was not said
    command.upgrade(config, HEAD)
    return [f"{revision.revision}: {revision.doc}" for revision in reversed(list(revisions))]
