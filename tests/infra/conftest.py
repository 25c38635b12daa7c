"""The two kinds of database, each test with one of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from infra.migrations import migrate
from infra.settings import Settings
from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def template(postgres: PostgresServer) -> str:
    """A PostgreSQL database with empty tables, to be copied."""
    url = postgres.create_database()
    migrate(Settings(database_url=url).url)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[URL]:
    """A database with nothing in it: a SQLite file that is not there yet, or a PostgreSQL with empty tables."""
    if request.param == "sqlite":
        yield Settings(database_url=f"sqlite:///{tmp_path}/videau.db").url
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url = postgres.create_database(request.getfixturevalue("template"))
    yield Settings(database_url=url).url
    postgres.drop(url)
