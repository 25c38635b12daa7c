"""The service as its own process on a free port, to be talked to over real sockets, and killed."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import psutil

from tests import warm


class Server:
    """`videau serve` over one database file; started again, it serves the same port. It limits no rates and
    connections unless told."""

    program: tuple[str, ...] | None = None
    """What a new Python is to run; None: `videau`, forked from a process that has loaded it."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.database = folder / "videau.db"
        unlimited = {f"VIDEAU_RATE_{name}": "off" for name in ("PLAYER", "APP", "ADDRESS", "REGISTRATION")}
        unlimited["VIDEAU_CONNECTIONS_PER_ADDRESS"] = "off"
        self.env = {**os.environ, "VIDEAU_DATABASE_URL": f"sqlite:///{self.database}", **unlimited, **env}
        self._complaints = folder / "stderr"
        self._port = 0
        self._process: subprocess.Popen[bytes] | warm.Process | None = None
        self._stdout: IO[str] | None = None

    def start(self) -> None:
        """Start, and return once the socket is open."""
        self._port = self._port or free_port()
        arguments = ("serve", "--port", str(self._port))
        reads, writes = os.pipe()
        self._stdout = os.fdopen(reads)
        with self._complaints.open("a") as complaints:  # a file: a full pipe would stop the server
            if self.program is None:
                self._process = warm.Process(arguments, self.env, writes, complaints.fileno())
            else:
                self._process = subprocess.Popen(
                    [sys.executable, *self.program, *arguments],
                    env=self.env,
                    stdout=writes,
                    stderr=complaints,
                    cwd=warm.ROOT,
                )
        os.close(writes)
        giving_up = threading.Timer(60, self._process.kill)
        giving_up.start()
        line = self._stdout.readline()
        giving_up.cancel()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, f"no address in {line!r}: {self._complaints.read_text()}"
        self._port = int(found[1])

    @property
    def url(self) -> str:
        """The GraphQL endpoint."""
        return f"{self.base}/graphql"

    @property
    def base(self) -> str:
        """The address that paths follow."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    @property
    def complaints(self) -> str:
        """What it has said on stderr so far, since it was started first."""
        return self._complaints.read_text() if self._complaints.exists() else ""

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """kill -9, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._ended()
            self._process = None

    def stop(self) -> str:
        """SIGTERM; what it said on stderr while it ran."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._ended(timeout=15)
        return self.complaints

    def _ended(self, timeout: float | None = None) -> None:
        assert self._process is not None
        assert self._stdout is not None
        self._process.wait(timeout)
        self._stdout.close()

    def videau(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One run of the command line over the same database."""
        return run_videau(*arguments, env=self.env)

    def processor_seconds(self) -> float:
        """What the process has used of a processor so far: how long it took, whatever runs beside it."""
        assert self._process is not None
        used = psutil.Process(self._process.pid).cpu_times()
        return float(used.user + used.system)


class Typed(Server):
    """A server that is started as it is typed."""

    program = ("-m", "service")


def free_port() -> int:
    """A port below those that the kernel gives to clients, so that it is still free after a stop and a start."""
    for port in random.SystemRandom().sample(range(15_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


def run_videau(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """One run of the `videau` command."""
    return warm.run(arguments, os.environ if env is None else env, timeout=60)
