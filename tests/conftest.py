"""What the tests of every package share: a server in its own process, and guests who talk to it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.client import Client, register
from tests.server import Server


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
