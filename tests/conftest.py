"""What the tests of every package share: servers in their own processes, and guests who talk to them."""

import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.client import Client, register
from tests.postgres import PostgresServer
from tests.postgres import found as found_postgres
from tests.redis import RedisServer
from tests.redis import found as found_redis
from tests.server import Server

# How long an example takes says nothing here: other tests run beside it.
hypothesis.settings.register_profile("videau", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("videau")


def pytest_configure() -> None:
    """Where Python may not write bytecode beside the sources, the many processes of the tests share a folder for it.

    Else each would compile all libraries anew, which takes longer than most tests.
    """
    if sys.dont_write_bytecode and not sys.pycache_prefix:
        folder = Path(tempfile.gettempdir()) / f"videau-bytecode-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if (stat.S_IFMT(found.st_mode), found.st_uid) == (stat.S_IFDIR, os.getuid()):  # nobody else's doing
            sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
            sys.dont_write_bytecode = False
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores, since tests wait for servers; none for one file: it is done before they are up."""
    alone = len(config.args) == 1 and (config.invocation_params.dir / config.args[0].split("::")[0]).is_file()
    return 0 if alone else (os.cpu_count() or 1) + 1


def pytest_report_header() -> list[str]:
    """Which servers the tests will use, and where they are from."""
    return ["servers: " + found_postgres(), "         " + found_redis()]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL where tests make databases of their own; it is shared, and runs all the time."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis, which is shared, and runs all the time."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a module; each test has players and matches of its own."""
    running = Server(tmp_path_factory.mktemp("server"))
    running.start()
    yield running
    errors = running.stop()
    assert errors == "", f"the server complained: {errors}"


@pytest.fixture
async def guest(server: Server) -> AsyncIterator[Callable[[str], Awaitable[Client]]]:
    """Makes guests of the module's server."""
    clients: list[Client] = []

    async def new(name: str) -> Client:
        clients.append(await register(server.url, name))
        return clients[-1]

    yield new
    for client in clients:
        await client.close()


@pytest.fixture
async def anonymous(server: Server) -> AsyncIterator[Client]:
    """A caller without a token."""
    client = Client(server.url)
    yield client
    await client.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server for one test alone, which may kill it."""
    running = Server(tmp_path)
    running.start()
    yield running
    running.kill()
