"""The servers of the tests of faults, which stop and pause them: none that anybody else uses."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.processes import SECRETS, no_traceback
from tests.postgres import PostgresServer
from tests.redis import RedisServer
from tests.server import Server, run_videau


@pytest.fixture
def one_file(tmp_path: Path) -> dict[str, str]:
    """The environment of processes that share a file."""
    return {"VIDEAU_DATABASE_URL": f"sqlite:///{tmp_path / 'videau.db'}"}


@pytest.fixture(scope="package")
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for these tests alone."""
    server = PostgresServer(private=True)
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="package")
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis for these tests alone."""
    server = RedisServer(tmp_path_factory.mktemp("redis"), private=True)
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="package")
def shared(own_postgres: PostgresServer, own_redis: RedisServer) -> dict[str, str]:
    """The environment of processes that share a database in PostgreSQL, and a Redis."""
    env = {"VIDEAU_DATABASE_URL": own_postgres.create_database(), "VIDEAU_REDIS_URL": own_redis.url}
    migrated = run_videau("migrate", env={**os.environ, **env})
    assert migrated.returncode == 0, migrated.stderr
    return env


@pytest.fixture(scope="package")
def _two(shared: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    servers = [Server(tmp_path_factory.mktemp("process"), **SECRETS, **shared) for _ in range(2)]
    yield servers
    for server in servers:
        server.kill()


@pytest.fixture
def pair(_two: list[Server]) -> Iterator[list[Server]]:
    """Two processes over PostgreSQL and Redis, the same for all tests: they have to outlive whatever befalls them."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda server: server.running or server.start(), _two))
    with no_traceback(_two):
        yield _two
