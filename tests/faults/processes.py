"""Processes of the service, as the tests of faults need them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.server import Server

SECRETS = {
    "VIDEAU_SECRET": "the secret of the tests of faults",
    "VIDEAU_DICE_SECRET": "the dice's secret of the tests of faults",
    "VIDEAU_SIGNING_KEY": "5" * 64,
}


class Behind(Server):
    """A process whose clock is five minutes behind."""

    program = ("-m", "tests.faults.shifted", "-300")


class Unprivileged(Server):
    """A process for which the permissions of files hold, also when its user is root."""

    program = (
        "-c",
        "import ctypes, os, sys\n"
        "for capability in (1, 2):  # DAC_OVERRIDE and DAC_READ_SEARCH; prctl(PR_CAPBSET_DROP) needs to be root\n"
        "    os.geteuid() or ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'service', *sys.argv[1:]])",
    )


@contextmanager
def no_traceback(servers: Sequence[Server]) -> Iterator[None]:
    """Whatever the servers complain of within the block is meant for people."""
    before = [len(server.complaints) for server in servers]
    yield
    for server, known in zip(servers, before, strict=True):
        assert "Traceback" not in server.complaints[known:], server.complaints[known:]


@asynccontextmanager
async def processes(
    folder: Path, env: dict[str, str], kinds: Sequence[type[Server]] = (Server, Server)
) -> AsyncIterator[list[Server]]:
    """Servers that live as long as the block."""
    servers = []
    for number, kind in enumerate(kinds):
        place = folder / str(number)
        place.mkdir(parents=True)
        servers.append(kind(place, **SECRETS, **env))
    try:
        await asyncio.gather(*(asyncio.to_thread(server.start) for server in servers))
        with no_traceback(servers):
            yield servers
    finally:
        for server in servers:
            server.kill()
