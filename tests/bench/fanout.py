"""Measures the fan-out figures that the README quotes and prints their rows: `python -m tests.bench.fanout`.

One process serves one match to real websockets, with one event in flight; this process is all its watchers, and asks
for the next event when the one before has come to all. Ours and its peers send the events of a match that was played
before; where ours plays, the command with its rules and its durable commit is in the figures. Nothing passes or fails.
"""

import asyncio
import json
import os
import random
import re
import resource
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.request import Request, urlopen

import msgspec

from domain.board import Board, Color, Dice
from domain.plays import legal_plays
from service.limits import OPERATIONS
from tests.bench.fanout_peers import DOCUMENT, SEATED, payloads, steps
from tests.bench.light import MOVE, ROLL, print_table
from tests.client import register
from tests.server import Typed

WATCHERS = 1_000
IDLE = 5_000
EVENTS = 200
ROUNDS = 3
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NODE_PACKAGES = ("graphql@16", "graphql-ws@6", "ws@8", "@colyseus/core@0.16", "@colyseus/ws-transport@0.16")


def rows() -> list[tuple[str, ...]]:
    """The README's rows."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*delivery_rows(folder), stalled_row(folder), idle_row(folder)]


# clients


class Socket:
    """A websocket that counts messages, as light as it can be: the server is what is measured."""

    def __init__(self, address: tuple[str, int], path: str = "/", protocol: str = "") -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chosen = f"sec-websocket-protocol: {protocol}\r\n" if protocol else ""
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nhost: {address[0]}:{address[1]}\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            f"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n{chosen}\r\n".encode()
        )
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(4096)
        head, _, rest = data.partition(b"\r\n\r\n")
        assert b" 101 " in head, head
        self.messages = self.bytes = 0
        self._rest = b""
        self._read(rest)

    def send(self, payload: bytes, opcode: int = 1) -> None:
        """A message, with a mask that changes nothing."""
        size = len(payload)
        head = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
        self.socket.sendall(bytes([0x80 | opcode]) + head + b"\0\0\0\0" + payload)

    def take(self) -> int:
        """The number of messages that have come in."""
        data = self.socket.recv(262_144)
        assert data, "the server has hung up"
        return self._read(data)

    def _read(self, data: bytes) -> int:
        data = self._rest + data
        begin, messages = 0, 0
        while len(data) - begin >= 2:
            size, body = data[begin + 1], begin + 2
            if size == 126:
                size, body = int.from_bytes(data[body : body + 2], "big"), body + 2
            if len(data) < body + size:
                break
            opcode, begin = data[begin] & 15, body + size
            if opcode == 9:
                self.send(data[body:begin], 10)
            else:
                assert opcode in (1, 2), f"closed: {data[body:begin]!r}"
                messages += 1
                self.bytes += size
        self._rest = data[begin:]
        self.messages += messages
        return messages

    def wait(self, messages: int) -> None:
        """For so many."""
        while self.messages < messages:
            self.take()


class Crowd:
    """Many sockets, waited for together."""

    def __init__(self, sockets: list[Socket]) -> None:
        self.sockets = {each.socket.fileno(): each for each in sockets}
        self._ahead = 0
        self._epoll = select.epoll()
        for descriptor in self.sockets:
            self._epoll.register(descriptor, select.EPOLLIN)

    def receive(self, messages: int) -> list[float]:
        """The times at which messages came, once so many more have come to each."""
        missing, ends = messages * len(self.sockets) - self._ahead, time.perf_counter() + 60
        times: list[float] = []
        while missing > 0:
            for descriptor, _ in self._epoll.poll(1):
                count = self.sockets[descriptor].take()
                missing -= count
                times += [time.perf_counter()] * count
            assert time.perf_counter() < ends, f"{missing} messages are missing"
        self._ahead = -missing
        return times

    def close(self) -> None:
        """Hang up."""
        self._epoll.close()
        for each in self.sockets.values():
            each.socket.close()


class Http:
    """One kept-alive connection, which can be asked without waiting for the answer."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._host = f"{address[0]}:{address[1]}"

    def send(self, path: str, body: bytes = b"{}", token: str | None = None) -> None:
        """A POST of JSON."""
        authorization = f"authorization: Bearer {token}\r\n" if token else ""
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\n{authorization}content-type: application/json\r\n"
        self._socket.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def receive(self) -> bytes:
        """The answer's body."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._socket.recv(65_536)
        head, _, body = data.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert found, head
        while len(body) < int(found[1]):
            body += self._socket.recv(65_536)
        return body


def graphql(address: tuple[str, int], match_id: str = "m", after: int = 0, operations: int = 1) -> Socket:
    """A subscriber over graphql-transport-ws."""
    opened = Socket(address, "/graphql", "graphql-transport-ws")
    opened.send(b'{"type":"connection_init"}')
    opened.wait(1)
    payload = {"query": DOCUMENT, "variables": {"id": match_id, "after": after}}
    for number in range(1, operations + 1):
        opened.send(json.dumps({"id": str(number), "type": "subscribe", "payload": payload}).encode())
    return opened


def colyseus(address: tuple[str, int]) -> Socket:
    """A client in the room."""
    url = f"http://{address[0]}:{address[1]}/matchmake/joinOrCreate/match"
    with urlopen(Request(url, b"{}", {"content-type": "application/json"})) as response:
        seat = json.load(response)
    opened = Socket(address, f"/{seat['room']['processId']}/{seat['room']['roomId']}?sessionId={seat['sessionId']}")
    opened.wait(1)
    opened.send(b"\x0a", 2)
    return opened


# servers


class Served(Protocol):
    """A server with one match."""

    pid: int

    def watcher(self) -> Socket: ...

    def ask(self) -> None:
        """For what comes to one event at least."""

    def answer(self) -> int:
        """How many it came to."""

    def close(self) -> None: ...


class Ours:
    """`videau serve`, with a match that two clients play."""

    def __init__(self, folder: Path) -> None:
        self._server = Typed(Path(tempfile.mkdtemp(dir=folder)))
        self._server.start()
        found = re.search(r":(\d+)/", self._server.url)
        assert found
        assert self._server._process
        self.pid = self._server._process.pid
        self.address = ("127.0.0.1", int(found[1]))
        self._http = Http(self.address)
        self._chance = random.Random(1)
        asyncio.run(self._begin())

    async def _begin(self) -> None:
        ann, bob = await register(self._server.url, "Ann"), await register(self._server.url, "Bob")
        self.match_id = await ann.create("{length: 99, cubeLimit: 1}", ", autoRoll: false")
        await bob.happens("joinMatch", f'matchId: "{self.match_id}" autoRoll: false')
        self._tokens = {"WHITE": ann.token, "BLACK": bob.token}
        self._match = await ann.match(self.match_id)
        await ann.close()
        await bob.close()

    def watcher(self) -> Socket:
        return graphql(self.address, self.match_id, self._match["version"])

    def ask(self) -> None:
        match, variables = self._match, {"m": self.match_id}
        if match["phase"] == "TO_PLAY":
            board = Board(tuple(match["white"]["checkers"]), tuple(match["black"]["checkers"]))
            plays = legal_plays(board, Color(match["toAct"].lower()), Dice(*match["dice"]))
            variables["p"] = self._chance.choice(plays)  # type: ignore[assignment]
        body = {"query": MOVE if "p" in variables else ROLL, "variables": variables}
        self._http.send("/graphql", json.dumps(body).encode(), self._tokens[match["toAct"]])

    def answer(self) -> int:
        before: int = self._match["version"]
        self._match = json.loads(self._http.receive())["data"]["answer"]["match"]
        after: int = self._match["version"]
        return after - before

    def close(self) -> None:
        self._server.kill()


class Peer:
    """Another server: it prints its port, and sends an event to all when `POST /next` asks for it."""

    def __init__(self, command: list[str], connect: Callable[[tuple[str, int]], Socket], folder: Path) -> None:
        cwd = ROOT if command[0] == sys.executable else folder
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd)
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.address = ("127.0.0.1", int(self._process.stdout.readline()))
        self._http = Http(self.address)
        self._connect = connect

    def watcher(self) -> Socket:
        return self._connect(self.address)

    def ask(self) -> None:
        self._http.send("/next")

    def answer(self) -> int:
        self._http.receive()
        return 1

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """KiB of memory."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


# measuring


class Figures(NamedTuple):
    """Deliveries a CPU-second of the server, milliseconds from asking for an event until it is there, bytes of each."""

    rate: float
    p50: float
    p99: float
    size: float


def measured(server: Served, events: int = EVENTS, crowd: Crowd | None = None) -> Figures:
    """One event after the other to all watchers, each when the one before has come to all."""
    crowd = crowd or Crowd([server.watcher() for _ in range(WATCHERS)])
    time.sleep(0.5)
    latencies: list[float] = []
    begun = 0.0
    for number in range(-events // 10, events):
        if number == 0:
            latencies, begun = [], cpu_seconds(server.pid)
            for each in crowd.sockets.values():
                each.bytes = 0
        asked = time.perf_counter()
        server.ask()
        times = crowd.receive(1)
        if more := server.answer() - 1:
            times += crowd.receive(more)
        latencies += [(each - asked) * 1e3 for each in times]
    spent = cpu_seconds(server.pid) - begun
    size = sum(each.bytes for each in crowd.sockets.values()) / len(latencies)
    crowd.close()
    latencies.sort()
    return Figures(len(latencies) / spent, latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100], size)


def medians(figures: list[Figures]) -> Figures:
    """Each figure's median."""
    return Figures(*(statistics.median(column) for column in zip(*figures, strict=True)))


def delivery_rows(folder: Path) -> list[tuple[str, ...]]:
    """One event to all watchers, beside the peers; rounds alternate, medians are compared."""
    events = [msgspec.json.decode(payload)["data"]["matchEvents"] for payload in asyncio.run(payloads())]
    (folder / "events.json").write_bytes(
        msgspec.json.encode([{"by": event.get("rolledBy"), **event} for event in events])
    )
    subprocess.run(["npm", "install", "--silent", *NODE_PACKAGES], cwd=folder, check=True)
    for file in HERE.glob("*.mjs"):
        shutil.copy(file, folder)
    python = [sys.executable, "-m", "tests.bench.fanout_peers"]
    sdl = str(ROOT / "openapi" / "schema.graphql")
    match_id = steps(0)[0].match.id
    servers: dict[str, tuple[Callable[[], Served], int]] = {
        "ours": (lambda: Peer([*python, "videau"], lambda address: graphql(address, match_id, SEATED), folder), EVENTS),
        "playing": (lambda: Ours(folder), EVENTS),
        "an execution each, by Strawberry": (lambda: Peer([*python, "strawberry"], graphql, folder), 10),
        "raw Starlette websockets": (lambda: Peer([*python, "starlette"], Socket, folder), EVENTS),
        "graphql-ws on Node": (
            lambda: Peer(["node", "fanout_graphql_ws.mjs", "events.json", sdl], graphql, folder), EVENTS // 4,
        ),
        "Colyseus on Node": (lambda: Peer(["node", "fanout_colyseus.mjs", "events.json"], colyseus, folder), EVENTS),
    }  # fmt: skip
    found: dict[str, list[Figures]] = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, (start, number) in servers.items():
            with closing(start()) as server:
                found[name].append(measured(server, number))
            print(name, found[name][-1], file=sys.stderr)
    figures = {name: medians(each) for name, each in found.items()}
    ours, playing = figures.pop("ours"), figures.pop("playing")
    rows = []
    what = f"one event ({ours.size:.0f} bytes) to {WATCHERS:,} websockets, deliveries a CPU-second of the server"
    for name, theirs in figures.items():
        rows.append((what, f"{ours.rate:,.0f}", f"{name} {theirs.rate:,.0f}", f"{ours.rate / theirs.rate:.2f}"))
        what = ""
    what = "the same, from asking for it until it is there, p50 / p99 ms"
    for name, theirs in figures.items():
        rows.append((what, times(ours), f"{name} {times(theirs)}", f"{ours.p99 / theirs.p99:.2f}"))
        what = ""
    what = "the same with the command that makes the event: rules, dice, durable commit, HTTP"
    rows.append((what, f"{playing.rate:,.0f}, {times(playing)}", f"without it {ours.rate:,.0f}, {times(ours)}", ""))
    return rows


def times(figures: Figures) -> str:
    """p50 / p99."""
    return f"{figures.p50:.0f} / {figures.p99:.0f}"


def stalled_row(folder: Path) -> tuple[str, ...]:
    """The same with one watcher that does not read, and has so many operations that its buffers are full at once."""
    match_id = steps(0)[0].match.id
    alone, beside = [], []

    def start() -> Peer:
        command = [sys.executable, "-m", "tests.bench.fanout_peers", "videau"]
        return Peer(command, lambda address: graphql(address, match_id, SEATED), folder)

    for _ in range(ROUNDS):
        with closing(start()) as server:
            alone.append(measured(server, EVENTS).p99)
        with closing(start()) as server:
            stalled = graphql(server.address, match_id, SEATED, OPERATIONS)
            beside.append(measured(server, EVENTS).p99)
            stalled.socket.close()
    p99 = statistics.median(beside), statistics.median(alone)
    what = f"p99 ms of {WATCHERS:,} watchers beside one with {OPERATIONS} operations that reads nothing"
    return what, f"{p99[0]:.0f}", f"without it {p99[1]:.0f}", f"{p99[0] / p99[1]:.2f}"


def idle_row(folder: Path) -> tuple[str, ...]:
    """What a watcher costs that waits."""
    with closing(Ours(folder)) as server:
        watchers = [server.watcher() for _ in range(100)]
        time.sleep(2)
        before = resident(server.pid)
        watchers += [server.watcher() for _ in range(IDLE)]
        time.sleep(2)
        each = (resident(server.pid) - before) / IDLE
    return f"memory of an idle watcher, {IDLE:,} of them, KiB", f"{each:.1f}", "", ""


if __name__ == "__main__":
    print_table(rows())
