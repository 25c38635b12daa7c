"""Processes of `videau` that need not load Python and all libraries first, which takes longer than most tests.

A process that has loaded them, and has done nothing else, forks for each that is to be run. What it forks is a process
like any other, with arguments, an environment, files and an end of its own.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]

LOADED = ("service.cli", "service.app", "service.doctor", "infra.backup", "alembic.command", "uvloop", "psycopg")
"""What commands would load."""


class Process:
    """One run of `videau`; its methods are those of subprocess.Popen."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int) -> None:
        """Start it; what it says goes to these files."""
        self.returncode: int | None = None
        self.pid, self._told = _warm().fork(arguments, env, stdout, stderr)

    def poll(self) -> int | None:
        """How it has ended; None while it runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ends, a negative number for a signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("videau", timeout or 0)
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, if it runs."""
        self.send_signal(signal.SIGKILL)


def run(arguments: Sequence[str], env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """One run of `videau` to its end, and what it said."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = Process(arguments, env, stdout.fileno(), stderr.fileno())
        try:
            ended = process.wait(timeout)
        finally:
            process.kill()
        for file in (stdout, stderr):
            file.seek(0)
        return subprocess.CompletedProcess(["videau", *arguments], ended, stdout.read(), stderr.read())


class _Warm:
    """The process that has everything loaded; it ends with this one."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._channel, other = socket.socketpair()
        with other:
            # a session of its own: Ctrl-C is for the tests, which end their processes in their order
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm"], stdin=other, cwd=ROOT, start_new_session=True
            )
        atexit.register(self._end)

    def fork(self, arguments: Sequence[str], env: Mapping[str, str], *files: int) -> tuple[int, IO[bytes]]:
        """The number of a new process, and a pipe that will say how it has ended."""
        reads, writes = os.pipe()
        told = os.fdopen(reads, "rb", buffering=0)
        asked = json.dumps([[*arguments], {**env}]).encode() + b"\n"
        with self._asking:
            socket.send_fds(self._channel, [asked[:1]], [*files, writes])
            os.close(writes)
            self._channel.sendall(asked[1:])
            return int(told.readline()), told

    def _end(self) -> None:
        self._channel.close()
        self._process.wait()


@cache
def _warm() -> _Warm:
    return _Warm()


def _wait_to_be_run() -> None:
    """Load everything, and return in what is forked, once for each that is asked for."""
    for name in LOADED:
        import_module(name)
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.freeze()
    channel = socket.socket(fileno=os.dup(0))
    while True:
        begun, files, _, _ = socket.recv_fds(channel, 1, 3)
        with suppress(ChildProcessError):  # those who have said how the others ended
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not begun:
            os._exit(0)
        with channel.makefile("rb") as rest:
            arguments, env = json.loads(begun + rest.readline())
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    channel.close()
    stdout, stderr, told = files
    if pid := os.fork():
        os.close(stdout)
        os.close(stderr)
        os.write(told, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.close(told)
    for file, place in (os.open(os.devnull, os.O_RDONLY), 0), (stdout, 1), (stderr, 2):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["videau", *arguments]


if __name__ == "__main__":
    _wait_to_be_run()
    from service.cli import main

    main(prog_name="videau")
