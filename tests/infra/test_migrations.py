"""Migrations: every way to this version's tables ends with the same tables and every row, or changes nothing."""

import ctypes
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, String, create_engine, inspect, text

import infra.migrations
import infra.tables
from infra.migrations import EMPTY, HEAD, REVISIONS, SchemaError, migrate, schema_problem

ROOT = Path(__file__).parents[2]

TABLES = infra.tables.SQLModel.metadata
"""The tables as the code has them."""

FIRST_TABLES = Path(__file__).with_name("first_tables.sql").read_text()
"""A database that `videau serve` made before there were revisions: matches under way, waiting, finished, imported,
private, in the sandbox and proposed again, played by two guests with idempotency keys."""

VIDEAU = "from service.cli import main; main()"


def driver(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    with create_engine(driver(url), poolclass=NullPool).begin() as connection:
        yield connection


def make_sqlite(folder: Path, script: str) -> str:
    """A database file made by the script, as a server leaves it."""
    with closing(sqlite3.connect(folder / "videau.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(script)
    return f"sqlite:///{folder / 'videau.db'}"


def dump(url: str) -> list[str]:
    """All that a database file holds, as SQL."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        return list(database.iterdump())


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    with connected(url) as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def run(url: str, *, before: str = "", without_rights: bool = False) -> subprocess.CompletedProcess[str]:
    """`videau migrate`; `before` it, a line of Python."""

    def give_up_rights() -> None:
        if os.geteuid() == 0:  # to root a read-only file is as good as any, unless CAP_DAC_OVERRIDE is taken away
            assert ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) == 0

    return subprocess.run(
        [sys.executable, "-c", f"{before}\n{VIDEAU}", "migrate", "--database", url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        preexec_fn=give_up_rights if without_rights else None,
    )


def refusal(url: str) -> str:
    """The line with which a migration fails."""
    with pytest.raises(SchemaError) as raised:
        migrate(driver(url))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def failure(told: subprocess.CompletedProcess[str]) -> str:
    """The line with which a command fails."""
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1), told
    assert told.stderr.startswith("videau: "), told
    return told.stderr


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'videau.db'}"
    return request.getfixturevalue("postgres").create_database()


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A database from before there were revisions."""
    return make_sqlite(tmp_path, FIRST_TABLES)


# the revisions


def test_the_revisions_are_alembics_and_lead_forwards_only() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(infra.migrations.__file__).parent))
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [HEAD]
    revisions = list(script.walk_revisions())
    assert tuple(revision.revision for revision in reversed(revisions)) == REVISIONS
    assert not any(hasattr(revision.module, "downgrade") for revision in revisions)


def test_looking_at_the_schema_does_not_load_alembic(tmp_path: Path) -> None:
    look = (
        "import sys, sqlalchemy, infra.migrations\n"
        "with sqlalchemy.create_engine('sqlite://').connect() as connection:\n"
        "    print(infra.migrations.schema_problem(connection), 'alembic' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout == f"{EMPTY} False\n"


# new databases


def test_a_new_database_has_the_tables_that_the_code_has(url: str) -> None:
    with connected(url) as connection:
        assert schema_problem(connection) == EMPTY
    assert [line[:4] for line in migrate(driver(url))] == list(REVISIONS)
    with connected(url) as connection:
        assert schema_problem(connection) is None
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, TABLES) == []
    assert rows(url, "SELECT id, position FROM feed") == [(1, 0)]
    assert migrate(driver(url)) == []


def test_texts_sort_by_their_bytes_on_postgresql(postgres) -> None:
    """Collations, and the names of what is in the tables: Alembic compares neither."""
    migrated, created = postgres.create_database(), postgres.create_database()
    migrate(driver(migrated))
    with connected(created) as connection:
        TABLES.create_all(connection)
    with connected(migrated) as one, connected(created) as other:
        for table in TABLES.sorted_tables:
            found = {column["name"]: column["type"] for column in inspect(one).get_columns(table.name)}
            for column in table.columns:
                type_ = column.type.dialect_impl(one.dialect)
                if isinstance(type_, String):
                    assert found[column.name].collation == type_.collation, f"{table.name}.{column.name}"
            for names in ("get_pk_constraint", "get_unique_constraints", "get_indexes"):
                assert getattr(inspect(one), names)(table.name) == getattr(inspect(other), names)(table.name)


# databases from before there were revisions


def test_a_database_of_the_first_version_keeps_every_row(old: str) -> None:
    tables = {
        "events": "match_id, seq, at, event, hash",
        "matches": "id, version, created_at, updated_at, visibility, sandbox, imported, status, length, white, black, "
        "white_score, black_score, winner",
        "commands": "player_id, key, fingerprint, match_id, first_seq, last_seq",
        "players": "id, name, created_at",
    }
    queries = [f"SELECT {columns} FROM {table} ORDER BY 1, 2" for table, columns in tables.items()]
    before = [rows(old, query) for query in queries]
    assert [len(found) for found in before] == [85, 7, 36, 4]
    with connected(old) as connection:
        assert schema_problem(connection) == "this database is at revision 0001, not 0003: run `videau migrate`"
    assert [line[:4] for line in migrate(old)] == ["0002", "0003"]
    assert [rows(old, query) for query in queries] == before
    assert rows(old, "PRAGMA integrity_check") == [("ok",)]


def test_old_events_are_numbered_as_they_happened(old: str) -> None:
    happened = rows(old, "SELECT match_id, seq FROM events ORDER BY at, match_id, seq")
    assert len({match_id for match_id, _ in happened[:10]}) > 1, "matches were played at the same time"
    migrate(old)
    assert rows(old, "SELECT match_id, seq, position FROM events ORDER BY position") == [
        (*key, position) for position, key in enumerate(happened, 1)
    ]
    assert rows(old, "SELECT id, position FROM feed") == [(1, len(happened))]


def test_wishes_move_out_of_the_matches(old: str) -> None:
    wishes = rows(old, "SELECT id, white_auto_roll, black_auto_roll, rematch_by FROM matches ORDER BY id")
    assert {wish[1:] for wish in wishes} == {
        (1, 1, None), (0, 0, None), (0, 1, None), (0, 1, "black"), (1, 0, "white")
    }  # fmt: skip
    migrate(old)
    found = rows(old, "SELECT match_id, white_auto_roll, black_auto_roll, rematch_by FROM wishes ORDER BY match_id")
    assert found == wishes


def test_old_commands_are_as_old_as_their_last_event(old: str) -> None:
    """One proposed a rematch, and so has no event of its own: it is as old as the end of the match."""
    times = {(match_id, seq): at for match_id, seq, at in rows(old, "SELECT match_id, seq, at FROM events")}
    migrate(old)
    commands = rows(old, "SELECT match_id, first_seq, last_seq, at FROM commands")
    assert any(first > last for _, first, last, _ in commands)
    assert all(at == times[match_id, last] for match_id, _, last, at in commands)


@pytest.mark.parametrize("wiped", [False, True], ids=["with matches", "without a row"])
def test_an_old_database_ends_with_the_very_tables_of_a_new_one(old: str, tmp_path: Path, wiped: bool) -> None:
    if wiped:
        with connected(old) as connection:
            for table in ("events", "matches", "commands", "players"):
                connection.execute(text(f"DELETE FROM {table}"))
    new = f"sqlite:///{tmp_path / 'new.db'}"
    migrate(new)
    migrate(old)
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    assert rows(old, schema) == rows(new, schema)
    with connected(old) as connection:
        assert schema_problem(connection) is None


def test_thousands_of_events_and_keys_are_no_other_matter(old: str) -> None:
    with connected(old) as connection:
        for statement in (
            "events SELECT 'm' || (n % 100), n / 100 + 1, '2026-11-30T08:00:' || (10 + n / 250), '{}', 'hash'",
            "commands SELECT 'player', n, 'fingerprint', 'm' || (n % 100), n / 100 + 1, n / 100 + 1",
        ):
            numbers = "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers LIMIT 5000)"
            connection.exec_driver_sql(f"{numbers} INSERT INTO {statement} FROM numbers")
    migrate(old)
    assert rows(old, "SELECT count(DISTINCT position), min(position), max(position) FROM events") == [(5_085, 1, 5_085)]
    behind = (
        "SELECT count(*) FROM events AS a JOIN events AS b ON b.match_id = a.match_id AND b.seq = a.seq + 1 "
        "WHERE b.position < a.position"
    )
    assert rows(old, behind) == [(0,)]
    assert rows(old, "SELECT count(*) FROM commands WHERE at LIKE '2026-11-30T%'") == [(5_036,)]


# what is refused


def test_a_database_of_a_newer_version_is_refused(url: str) -> None:
    migrate(driver(url))
    with connected(url) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))
    line = "this database is of a newer version of Videau: it is at revision 0999, and this one stops at 0003"
    with connected(url) as connection:
        assert schema_problem(connection) == line
    assert refusal(url) == line


def test_a_database_of_something_else_is_refused(url: str) -> None:
    """Even if Alembic keeps it as well, and calls its revisions as we do."""
    with connected(url) as connection:
        for table in ("users", "orders", "events", "invoices"):
            connection.execute(text(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)"))
    line = "this is not a database of Videau: it has the tables events, invoices, orders and 1 more"
    with connected(url) as connection:
        assert schema_problem(connection) == line
    assert refusal(url) == line
    with connected(url) as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text(f"INSERT INTO alembic_version VALUES ('{HEAD}')"))
    assert (
        refusal(url)
        == "this is not a database of Videau: it has the tables alembic_version, events, invoices and 2 more"
    )
    with connected(url) as connection:
        assert len(inspect(connection).get_table_names()) == 5


def test_tables_that_only_have_our_names_are_refused(url: str) -> None:
    with connected(url) as connection:
        for table in ("events", "matches", "commands", "players"):
            connection.execute(text(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)"))
    line = "this is not a database of Videau: its table commands has other columns"
    with connected(url) as connection:
        assert schema_problem(connection) == line
    assert refusal(url) == line


# faults


def test_a_failure_half_way_leaves_an_empty_database_empty(url: str) -> None:
    """Somebody's view has the name of a table that the last revision makes."""
    with connected(url) as connection:
        connection.execute(text("CREATE VIEW feed AS SELECT 1 AS one"))
    assert "feed" in refusal(url)
    with connected(url) as connection:
        assert inspect(connection).get_table_names() == []
        assert schema_problem(connection) == EMPTY
        connection.execute(text("DROP VIEW feed"))
    assert len(migrate(driver(url))) == len(REVISIONS)


def test_a_failure_half_way_leaves_an_old_database_as_it_was(old: str) -> None:
    with connected(old) as connection:
        connection.execute(text("CREATE VIEW feed AS SELECT 1 AS one"))
    before = dump(old)
    assert "feed" in refusal(old)
    assert dump(old) == before


def test_a_full_disk_leaves_an_old_database_as_it_was(old: str) -> None:
    before = dump(old)
    size = Path(old.removeprefix("sqlite:///")).stat().st_size
    # no bytecode, which would be cut short too, and others would read it
    limit = "import resource, sys; sys.dont_write_bytecode = True; "
    limit += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 8192}, {size + 8192}))"
    assert "disk" in failure(run(old, before=limit))
    assert dump(old) == before
    assert len(migrate(old)) == 2


def test_a_read_only_database_is_left_alone(old: str, postgres) -> None:
    before = dump(old)
    Path(old.removeprefix("sqlite:///")).chmod(0o444)
    assert "attempt to write a readonly database" in failure(run(old, without_rights=True))
    assert dump(old) == before
    standby = postgres.create_database()
    with connected(standby) as connection:
        name = connection.engine.url.database
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    assert "read-only transaction" in refusal(standby)


def test_what_cannot_be_reached_is_said_in_a_line(tmp_path: Path, postgres) -> None:
    assert refusal(f"sqlite:///{tmp_path / 'nowhere' / 'videau.db'}") == "unable to open database file"
    (tmp_path / "letter.db").write_text("Dear Sir or Madam, " * 100)
    assert refusal(f"sqlite:///{tmp_path / 'letter.db'}") == "file is not a database"
    gone = postgres.create_database()
    postgres.drop(gone)
    assert "does not exist" in refusal(gone)
    assert "refused" in refusal("postgresql://postgres@127.0.0.1:1/videau")


def test_two_migrations_at_once_both_end_well(url: str, postgres) -> None:
    """Both wait for a third, and then one does it all and the other finds it done."""
    command = [sys.executable, "-c", f"from infra.migrations import migrate; print(len(migrate({driver(url)!r})))"]

    def start() -> list[subprocess.Popen[str]]:
        return [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)]

    if url.startswith("sqlite"):
        file = url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file, isolation_level=None)) as third:
            third.execute("BEGIN IMMEDIATE")
            started = start()
            for process in started:
                until(lambda pid=process.pid: file in {opened.path for opened in psutil.Process(pid).open_files()})
    else:
        with psycopg.connect(url) as third:
            third.execute("SELECT pg_advisory_xact_lock(%s)", (infra.migrations._LOCK,))
            started = start()
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = %s::oid"
            oid = third.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
            until(lambda: third.execute(waiting, oid).fetchone() == (2,))
    assert sorted(process.communicate(timeout=60)[0] for process in started) == ["0\n", f"{len(REVISIONS)}\n"]


def test_the_command_says_what_it_did(old: str) -> None:
    first, second, file = run(old), run(old), old.removeprefix("sqlite:///")
    assert (first.returncode, first.stderr) == (second.returncode, second.stderr) == (0, "")
    assert first.stdout == (
        "0002: all events in one order, wishes beside the matches, and the times of commands\n"
        "0003: apps, invitations, seeks, clocks, presence and ratings\n"
        f"{file} is at revision 0003\n"
    )
    assert second.stdout == f"{file} is at revision 0003: nothing to do\n"


def test_the_command_fails_in_one_line_without_the_password() -> None:
    said = failure(run("postgresql://ann:swordfish@127.0.0.1:1/videau"))
    assert said.startswith("videau: cannot migrate postgresql")
    assert "refused" in said
    assert "swordfish" not in said
