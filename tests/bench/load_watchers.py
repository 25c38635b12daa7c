"""The watchers of tests/bench/load.py, as their own process: `python -m tests.bench.load_watchers WATCHERS CUTS URL…`.

Standard input has lines of JSON: `{"slot": 3, "match": "…"}` when another match is played in a slot, of which each
watcher has one, and at last `{"end": {match: version}}`. Each watcher sees its slot's match from the start to its
end, and then the next one. So many times a second (CUTS) one is cut off without a goodbye, and goes on from the last
`seq` that it saw, at the next address. In the end a `Report` is printed.
"""

import contextlib
import gc
import heapq
import itertools
import json
import os
import random
import resource
import select
import socket
import struct
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.bench.fanout_peers import DOCUMENT
from tests.bench.light import Delays

WATCHED = DOCUMENT.replace("seq at", "seq at hash", 1)
"""What they subscribe to: an event with the board after it."""

_PATIENCE = 30.0
"""Seconds that they have in the end, until all of them have all events."""

_REFUSED = (" 429 ", "4429", "RATE_LIMITED", "TOO_MANY")
"""What says that a service serves no more to this address."""

_UPGRADE = (
    "GET /graphql HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-protocol: graphql-transport-ws\r\n\r\n"
)


class Report(msgspec.Struct):
    """What they have seen."""

    deliveries: int
    delays: Delays
    """Seconds from an event's time in the log until a watcher had it, of events that arose while it was watching."""
    cut_by_us: int
    cut_by_them: dict[str, int]
    """How often, by why."""
    faults: list[str]
    """What was missing, twice there, or not what another watcher of the match saw; the first few."""
    logs: dict[str, list[str]]
    """The hashes of each match, which all of its watchers have seen in this order, each of them once."""


class _Event(msgspec.Struct):
    seq: int
    at: str
    hash: str


class _Data(msgspec.Struct):
    matchEvents: _Event


class _Payload(msgspec.Struct):
    data: _Data | None = None
    errors: Any = None


class _Message(msgspec.Struct):
    type: str
    id: str = ""
    payload: Any = None


class _Next(msgspec.Struct):
    type: str
    payload: _Payload


_decode = msgspec.json.Decoder(_Message).decode
_decode_next = msgspec.json.Decoder(_Next).decode


class Watcher:
    """One websocket, and where its place in the log of its match is."""

    def __init__(self, watchers: "Watchers", slot: int, urls: list[str]) -> None:
        self.slot, self.after = slot, 0
        self.match: str | None = None
        self.socket: socket.socket | None = None
        self._all, self._urls = watchers, itertools.cycle(urls)
        self._operations = itertools.count(1)
        self._rest = b""
        self._upgraded = False
        self._since = 0.0

    def connect(self) -> None:
        """To the next address; it fails when it is written to, or read."""
        at = urlsplit(next(self._urls))
        self.socket = socket.create_connection((at.hostname or "", at.port or 80), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(_UPGRADE.format(host=at.netloc).encode())
        self.socket.setblocking(False)
        self._rest, self._upgraded = b"", False
        self._all.opened(self)

    def cut(self) -> None:
        """Hang up, with a reset or without."""
        assert self.socket is not None
        if self._all.chance.random() < 0.5:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Away with the socket."""
        assert self.socket is not None
        self._all.closing(self)
        self.socket.close()
        self.socket = None

    def take_slot(self) -> None:
        """Watch what is played in the slot now, from the start."""
        match = self._all.slots[self.slot]
        if match == self.match:
            self._all.idle[self.slot].append(self)
            return
        self.match, self.after = match, 0
        self._subscribe()

    def _subscribe(self) -> None:
        payload = {"query": WATCHED, "variables": {"id": self.match, "after": self.after}}
        self._since = time.time()
        operation = str(next(self._operations))
        self._send({"id": operation, "type": "subscribe", "payload": payload})

    def _send(self, message: dict[str, Any]) -> None:
        self._frame(json.dumps(message).encode(), 1)

    def _frame(self, payload: bytes, opcode: int) -> None:
        """A frame, with a mask that changes nothing."""
        assert self.socket is not None
        size = len(payload)
        head = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
        self.socket.sendall(bytes([0x80 | opcode]) + head + b"\0\0\0\0" + payload)

    def read(self) -> None:
        """What has come. Raises OSError when the line is cut, and Cut when the server ends it."""
        assert self.socket is not None
        data = self.socket.recv(262_144)
        if not data:
            raise Cut("end of file")
        self._rest += data
        if not self._upgraded:
            head, end, rest = self._rest.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head[:20]:
                raise Cut(head.split(b"\r\n", 1)[0].decode())
            self._rest, self._upgraded = rest, True
            self._send({"type": "connection_init"})
        for opcode, payload in self._frames():
            match opcode:
                case 1:
                    self._take(payload)
                case 8:
                    raise Cut(str(int.from_bytes(payload[:2], "big")), _pause(payload[2:]))
                case 9:
                    self._frame(payload, 10)

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        data, begin = self._rest, 0
        while len(data) - begin >= 2:
            size, body = data[begin + 1], begin + 2
            if size >= 126:
                wide = 2 if size == 126 else 8
                size, body = int.from_bytes(data[body : body + wide], "big"), body + wide
            if len(data) < body + size:
                break
            opcode, begin = data[begin] & 15, body + size
            self._rest = data[begin:]
            yield opcode, data[body:begin]

    def _take(self, text: bytes) -> None:
        if text.startswith(b'{"type":"next"') or b'"type":"next"' in text[:60]:
            payload = _decode_next(text).payload
            if payload.data is None or payload.errors:
                raise Cut(_codes(payload.errors))
            self._see(payload.data.matchEvents)
            return
        message = _decode(text)
        match message.type:
            case "connection_ack":
                if self.match is None:
                    self.take_slot()
                else:
                    self._subscribe()
            case "ping":
                self._send({"type": "pong"})
            case "complete":
                assert self.match is not None
                self._all.completed(self.match, self.after)
                self.take_slot()
            case "error":
                raise Cut(_codes(message.payload))

    def _see(self, event: _Event) -> None:
        assert self.match is not None
        log = self._all.logs[self.match]
        if event.seq != self.after + 1:
            self._all.fault(f"{self.match}: {event.seq} came after {self.after}")
        elif event.seq == len(log) + 1:
            log.append(event.hash)
        elif log[event.seq - 1] != event.hash:
            self._all.fault(f"{self.match}: two watchers saw two events {event.seq}")
        self.after = event.seq
        self._all.deliveries += 1
        at = datetime.fromisoformat(event.at).timestamp()
        if at > self._since:
            self._all.delays.add(time.time() - at)


class Cut(Exception):
    """The server has ended the line, and may have said in how many seconds to come back."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


def _pause(reason: bytes) -> float:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return float(json.loads(reason)["retry"]) / 1_000
    return 0.0


def _codes(errors: Any) -> str:
    return ", ".join(error["extensions"]["code"] for error in errors)


class Watchers:
    """All of them, and what they have in common."""

    def __init__(self, number: int, cuts: float, urls: list[str]) -> None:
        self.chance = random.Random(1)
        self.slots: dict[int, str] = {}
        self.idle: defaultdict[int, list[Watcher]] = defaultdict(list)
        """Who waits for a slot's next match."""
        self.logs: defaultdict[str, list[str]] = defaultdict(list)
        self.ends: defaultdict[str, set[int]] = defaultdict(set)
        self.deliveries, self.delays = 0, Delays()
        self._number, self._cuts, self._urls = number, cuts, urls
        self._cut_by_us = 0
        self._cut_by_them: Counter[str] = Counter()
        self._faults: list[str] = []
        self._watchers: list[Watcher] = []
        self._returning: list[tuple[float, int, Watcher]] = []
        self._count = itertools.count()
        self._open: dict[int, Watcher] = {}
        self._epoll = select.epoll()
        self._input = b""
        self._end: dict[str, int] | None = None

    def opened(self, watcher: Watcher) -> None:
        """Its socket is to be listened to."""
        assert watcher.socket is not None
        self._open[watcher.socket.fileno()] = watcher
        self._epoll.register(watcher.socket, select.EPOLLIN)

    def closing(self, watcher: Watcher) -> None:
        """Its socket is about to be closed."""
        assert watcher.socket is not None
        del self._open[watcher.socket.fileno()]
        self._epoll.unregister(watcher.socket)
        with contextlib.suppress(ValueError):
            self.idle[watcher.slot].remove(watcher)

    def completed(self, match: str, version: int) -> None:
        """A watcher was told that its match is over."""
        self.ends[match].add(version)

    def fault(self, what: str) -> None:
        """A promise was broken."""
        self._faults = [*self._faults, what][:20]

    def run(self, slots: int) -> Report:
        """Watch until standard input says the end, and all have seen it."""
        self._epoll.register(0, select.EPOLLIN)
        while len(self.slots) < slots:
            self._take_input()
        places = deque(range(slots))
        for number in range(self._number):
            at = number % len(self._urls)
            self._watchers.append(Watcher(self, places[0], self._urls[at:] + self._urls[:at]))
            places.rotate(-1)
        for watcher in self._watchers:
            self._connect(watcher)
            self._turn(0)
        until = time.monotonic() + _PATIENCE
        while any(watcher.after == 0 for watcher in self._watchers) and time.monotonic() < until:
            self._turn(0.1)
        gc.freeze()  # no collection is to look through all of this
        print("watching", flush=True)
        cut = time.monotonic()
        while self._end is None:
            self._turn(0.05)
            while self._cuts and cut < time.monotonic():
                cut += self.chance.expovariate(self._cuts)
                self._cut_one()
        until = time.monotonic() + _PATIENCE
        while (late := self._late()) and time.monotonic() < until:
            self._turn(0.05)
        for watcher in late:
            self.fault(
                f"{watcher.match}: a watcher has come to {watcher.after} of {self._end.get(watcher.match or '')}"
            )
        for match, ends in self.ends.items():
            if ends != {len(self.logs[match])}:
                self.fault(f"{match}: it ended after {sorted(ends)} for its watchers")
        return Report(
            self.deliveries, self.delays, self._cut_by_us, dict(self._cut_by_them), self._faults, dict(self.logs)
        )

    def close(self) -> None:
        """Hang up."""
        for watcher in list(self._open.values()):
            watcher.close()

    def _late(self) -> list[Watcher]:
        """Who has not yet seen all that it should, one after the other."""
        assert self._end is not None
        return [
            each
            for each in self._watchers
            if each.match != self.slots[each.slot] or each.after < self._end[self.slots[each.slot]]
        ]

    def _turn(self, seconds: float) -> None:
        if self._returning:
            seconds = min(seconds, max(0, self._returning[0][0] - time.monotonic()))
        for descriptor, _ in self._epoll.poll(seconds):
            if descriptor == 0:
                self._take_input()
            elif watcher := self._open.get(descriptor):
                try:
                    watcher.read()
                except (OSError, Cut) as error:
                    if any(each in str(error) for each in _REFUSED):
                        sys.exit(
                            f"the service serves no more to this address ({error}): ask for less, or start it with "
                            "VIDEAU_CONNECTIONS_PER_ADDRESS=off, and VIDEAU_RATE_ADDRESS, _PLAYER and _REGISTRATION=off"
                        )
                    self._cut_by_them[str(error)] += 1
                    watcher.close()
                    self._return(watcher, error.pause if isinstance(error, Cut) else 0.0)
        while self._returning and self._returning[0][0] <= time.monotonic():
            self._connect(heapq.heappop(self._returning)[2])

    def _connect(self, watcher: Watcher) -> None:
        try:
            watcher.connect()
        except OSError as error:
            self._cut_by_them[str(error)] += 1
            self._return(watcher, 0.0)

    def _return(self, watcher: Watcher, pause: float) -> None:
        heapq.heappush(self._returning, (time.monotonic() + (pause or 0.2), next(self._count), watcher))

    def _cut_one(self) -> None:
        watcher = self.chance.choice(self._watchers)
        if watcher.socket is not None:
            self._cut_by_us += 1
            watcher.cut()
            self._connect(watcher)

    def _take_input(self) -> None:
        data = os.read(0, 65_536)
        assert data, "nobody plays any more"
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "end" in told:
                self._end = told["end"]
            else:
                self.slots[told["slot"]] = told["match"]
                for watcher in self.idle.pop(told["slot"], []):
                    with contextlib.suppress(OSError):  # its line is cut, which it is told next
                        watcher.take_slot()


def main() -> None:
    """Watch."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    number, cuts, slots, *urls = sys.argv[1:]
    watchers = Watchers(int(number), float(cuts), urls)
    print(msgspec.json.encode(watchers.run(int(slots))).decode(), flush=True)
    watchers.close()


if __name__ == "__main__":
    main()
