"""Measures the fan-out figures that the README quotes and prints their rows: `python -m tests.bench.fanout`.

One process serves one match to real websockets; this one plays it, with one event in flight, and is all the watchers. Each
peer does the same with the same event, which costs it no game, no rules and no store.
"""

import asyncio
import json
import os
import random
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from domain.board import Board, Color, Dice
from domain.plays import legal_plays
from tests.bench.run import MOVE, ROLL
from tests.client import Client, register
from tests.server import Server

WATCHERS = 1_000
IDLE = 5_000
EVENTS = 200
WARMUP = 20

DOCUMENT = """subscription($id: ID!, $after: Int! = 0) { matchEvents(matchId: $id, after: $after) {
  __typename seq at kind ... on Rolled { rolledBy: by dice } ... on Moved { by play notation }
  match { version phase toAct dice crawford cube { value owner } board { points bar off opponentBar opponentOff }
  white { score away pips checkers } black { score away pips checkers } } } }"""

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class Figures(NamedTuple):
    """What one server comes to."""

    per_cpu_second: float
    p50: float
    p99: float
    """Milliseconds from asking for an event until a watcher has it."""
    bytes: float
    """Of one message."""


class Socket:
    """A websocket that counts messages, as light as it can be: the server is what is measured."""

    def __init__(self, address: tuple[str, int], path: str, protocol: str | None) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chosen = f"sec-websocket-protocol: {protocol}\r\n" if protocol else ""
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nhost: {address[0]}:{address[1]}\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            f"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n{chosen}\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.socket.recv(4096)
        head, _, self._rest = head.partition(b"\r\n\r\n")
        assert b" 101 " in head, head
        self.messages = self.bytes = 0

    def send(self, payload: bytes, opcode: int = 1) -> None:
        """A message, with a mask that changes nothing."""
        size = len(payload)
        head = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
        self.socket.sendall(bytes([0x80 | opcode]) + head + b"\0\0\0\0" + payload)

    def take(self) -> int:
        """The number of messages that have come in."""
        data = self._rest + self.socket.recv(262_144)
        assert data, "the server has hung up"
        begin, messages = 0, 0
        while len(data) - begin >= 2:
            size, body = data[begin + 1], begin + 2
            if size == 126:
                size, body = int.from_bytes(data[body : body + 2], "big"), body + 2
            elif size == 127:
                size, body = int.from_bytes(data[body : body + 8], "big"), body + 8
            if len(data) < body + size:
                break
            opcode, begin = data[begin] & 15, body + size
            if opcode == 9:
                self.send(data[body:begin], 10)
            elif opcode in (1, 2):
                messages += 1
                self.bytes += size
                self.last = data[body:begin]
            else:
                raise AssertionError(f"closed: {data[body:begin]!r}")
        self._rest = data[begin:]
        self.messages += messages
        return messages


class Crowd:
    """Many sockets, waited for together."""

    def __init__(self, sockets: list[Socket]) -> None:
        self.sockets = {each.socket.fileno(): each for each in sockets}
        self._ahead = 0
        self._epoll = select.epoll()
        for descriptor in self.sockets:
            self._epoll.register(descriptor, select.EPOLLIN)

    def receive(self, messages: int, seconds: float = 60) -> list[float]:
        """The times at which messages came, once so many more have come to each."""
        missing, times, ends = messages * len(self.sockets) - self._ahead, [], time.perf_counter() + seconds
        while missing > 0:
            for descriptor, _ in self._epoll.poll(1):
                count = self.sockets[descriptor].take()
                missing -= count
                times += [time.perf_counter()] * count
            assert time.perf_counter() < ends, f"{missing} messages are missing"
        self._ahead = -missing
        return times

    def close(self) -> None:
        for each in self.sockets.values():
            each.socket.close()
        self._epoll.close()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """KiB of memory."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return float(found[1])


# watchers by protocol


def graphql(address: tuple[str, int], match_id: str, after: int, path: str = "/graphql") -> Socket:
    """A subscriber over graphql-transport-ws."""
    opened = Socket(address, path, "graphql-transport-ws")
    opened.send(b'{"type":"connection_init"}')
    while not opened.messages:
        opened.take()
    payload = {"query": DOCUMENT, "variables": {"id": match_id, "after": after}}
    opened.send(json.dumps({"id": "1", "type": "subscribe", "payload": payload}).encode())
    opened.messages = opened.bytes = 0
    return opened


# servers


class Ours:
    """`videau serve`, with a match that two clients play."""

    def __init__(self, folder: Path, command: str = "serve") -> None:
        self._server = Server(folder)
        self._server.start()
        assert self._server._process
        self.pid = self._server._process.pid
        self.address = ("127.0.0.1", self._server._port)
        self._http = Http(self.address)
        self._chance = random.Random(1)
        asyncio.run(self._begin())

    async def _begin(self) -> None:
        ann, bob = await register(self._server.url, "Ann"), await register(self._server.url, "Bob")
        self.match_id = await ann.create("{length: 99, cubeLimit: 1}", ", autoRoll: false")
        joined = await bob.happens("joinMatch", f'matchId: "{self.match_id}" autoRoll: false')
        self._tokens = {"WHITE": ann.token, "BLACK": bob.token}
        self._match = joined["match"]
        self._match |= await ann.match(self.match_id, "white { checkers } black { checkers }")
        await ann.close()
        await bob.close()

    @property
    def version(self) -> int:
        version: int = self._match["version"]
        return version

    def watcher(self) -> Socket:
        return graphql(self.address, self.match_id, self.version)

    def ask(self) -> None:
        """Send the command that comes to one event at least."""
        match, variables = self._match, {"m": self.match_id}
        if match["phase"] == "TO_PLAY":
            board = Board(tuple(match["white"]["checkers"]), tuple(match["black"]["checkers"]))
            plays = legal_plays(board, Color(match["toAct"].lower()), Dice(*match["dice"]))
            variables["p"] = self._chance.choice(plays)  # type: ignore[assignment]
        body = {"query": MOVE if "p" in variables else ROLL, "variables": variables}
        self._http.send("/graphql", json.dumps(body).encode(), self._tokens[match["toAct"]])

    def answer(self) -> int:
        """How many events it has come to."""
        before = self.version
        self._match = json.loads(self._http.receive())["data"]["answer"]["match"]
        return self.version - before

    def close(self) -> None:
        self._server.kill()


class Peer:
    """Another server: it prints its port, and sends an event to all when `POST /next` asks for it."""

    def __init__(self, *command: str, connect: Any) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.address = ("127.0.0.1", int(self._process.stdout.readline()))
        self._http = Http(self.address)
        self._connect = connect

    def watcher(self) -> Socket:
        opened: Socket = self._connect(self.address)
        return opened

    def ask(self) -> None:
        self._http.send("/next", b"{}")

    def answer(self) -> int:
        self._http.receive()
        return 1

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Http:
    """One kept-alive connection, which can be asked without waiting for the answer."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._host = f"{address[0]}:{address[1]}"

    def send(self, path: str, body: bytes, token: str | None = None) -> None:
        authorization = f"authorization: Bearer {token}\r\n" if token else ""
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\n{authorization}content-type: application/json\r\n"
        self._socket.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def receive(self) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._socket.recv(65_536)
        head, _, body = data.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert found, head
        while len(body) < int(found[1]):
            body += self._socket.recv(65_536)
        return body


def measured(server: Any, watchers: int = WATCHERS, events: int = EVENTS) -> Figures:
    """One event after the other to all watchers, each when the one before has come to all."""
    crowd = Crowd([server.watcher() for _ in range(watchers)])
    time.sleep(1)
    latencies: list[float] = []
    deliveries, begun = 0, 0.0
    for number in range(WARMUP + events):
        if number == WARMUP:
            latencies, deliveries, begun = [], 0, cpu_seconds(server.pid)
            for each in crowd.sockets.values():
                each.bytes = 0
        asked = time.perf_counter()
        server.ask()
        times = crowd.receive(1)
        if more := server.answer() - 1:
            times += crowd.receive(more)
        latencies += [each - asked for each in times]
        deliveries += len(times)
    spent = cpu_seconds(server.pid) - begun
    size = sum(each.bytes for each in crowd.sockets.values()) / deliveries
    crowd.close()
    latencies.sort()
    return Figures(
        deliveries / spent, latencies[len(latencies) // 2] * 1e3, latencies[len(latencies) * 99 // 100] * 1e3, size
    )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(Path(folder))
        print(measured(ours))
        ours.close()
        for name, connect in (
            ("starlette", lambda address: Socket(address, "/raw", None)),
            #("strawberry", lambda address: graphql(address, "m", 0)),
        ):
            peer = Peer(sys.executable, "-m", "tests.bench.fanout_peers", name, connect=connect)
            print(name, measured(peer, events=EVENTS if name == "starlette" else 20))
            peer.close()
