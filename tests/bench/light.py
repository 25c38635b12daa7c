"""What the benches share: a client that costs as little as it can, how long things took, and how a table is printed."""

import asyncio
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

MATCH = "version phase toAct dice white { checkers } black { checkers }"
ANSWER = f"... on Happened {{ match {{ {MATCH} }} events {{ seq kind }} }} ... on Refusal {{ code message }}"
ROLL = f"mutation($m: ID!) {{ answer: roll(matchId: $m) {{ {ANSWER} }} }}"
MOVE = f"mutation($m: ID!, $p: [[Int!]!]!) {{ answer: move(matchId: $m, play: {{moves: $p}}) {{ {ANSWER} }} }}"
STATE = f"query($m: ID!) {{ match(id: $m) {{ {MATCH} }} }}"


class Connection:
    """One kept-alive HTTP connection."""

    def __init__(self, url: str, token: str | None) -> None:
        host, port = url.removeprefix("http://").removesuffix("/graphql").split(":")
        self._address = host, int(port)
        authorization = f"authorization: Bearer {token}\r\n" if token else ""
        self._head = f"POST /graphql HTTP/1.1\r\nhost: {host}\r\n{authorization}content-type: application/json\r\n"

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address)

    async def post(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables})
        self._writer.write(f"{self._head}content-length: {len(body)}\r\n\r\n{body}".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert found
        answer = json.loads(await self._reader.readexactly(int(found[1])))
        assert "errors" not in answer, answer
        data: dict[str, Any] = answer["data"]
        return data


class Delays(msgspec.Struct):
    """How long many things took, to two per cent; the longest exactly."""

    counts: dict[int, int] = msgspec.field(default_factory=dict)
    """How many took 1.02 to the power of so many microseconds, or less by two per cent at most."""
    most: float = 0.0
    """Seconds."""

    def add(self, seconds: float) -> None:
        """One more."""
        step = math.ceil(math.log(max(1.0, seconds * 1e6), 1.02))
        self.counts[step] = self.counts.get(step, 0) + 1
        self.most = max(self.most, seconds)

    def within(self, share: float) -> float:
        """Seconds within which this share of them were done."""
        left = share * sum(self.counts.values())
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return min(self.most, 1.02**step / 1e6)
        return self.most


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """As the README has it, with what it was measured on."""
    print(f"\n{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print("\n| what | ours | beside it | ratio |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
