"""A client as its author would write it: HTTP for commands, a websocket for news, nothing of ours inside."""

import json
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

STATE = """
id version hash phase toAct turn dice winner game crawford xgid viewerColor allowedActions
white { score away pips checkers player { id name } } black { score away pips checkers player { id name } }
cube { value owner } offer { by stake }
"""

ANSWER = f"""
__typename
... on Happened {{ match {{ {STATE} legalPlays {{ notation moves }} }} events {{ seq kind hash }} }}
... on Refusal {{ code message legalPlays {{ notation moves }} current {{ version }} }}
"""

# What the arguments of commands are, where they are given as variables.
TYPES = {
    "matchId": "ID!",
    "expectedVersion": "Int",
    "idempotencyKey": "String",
    "play": "PlayInput!",
    "stake": "Stake!",
}

EVENT = """
__typename seq at hash kind
... on Rolled { rolledBy: by dice opening } ... on Moved { by play notation } ... on Joined { color playerId }
"""


class Client:
    """One caller, with a token or without."""

    def __init__(self, url: str, token: str | None = None, player_id: str | None = None) -> None:
        self.url, self.token, self.player_id = url, token, player_id
        headers = {"authorization": f"Bearer {token}"} if token else {}
        # no TLS here, and a context for it takes longer than most requests
        self._http = httpx2.AsyncClient(headers=headers, timeout=30, verify=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def post(self, query: str, variables: dict[str, Any] | None = None) -> dict[str, Any]:
        """The whole answer to one request."""
        response = await self._http.post(self.url, json={"query": query, "variables": variables or {}})
        answer: dict[str, Any] = response.json()
        return answer

    async def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The data of an answer that has no errors."""
        answer = await self.post(query, variables)
        assert "errors" not in answer, answer
        data: dict[str, Any] = answer["data"]
        return data

    async def command(self, verb: str, arguments: str) -> dict[str, Any]:
        """What a mutation answers; `arguments` are written as in GraphQL."""
        answer: dict[str, Any] = (await self.ask(f"mutation {{ {verb}({arguments}) {{ {ANSWER} }} }}"))[verb]
        return answer

    async def happens(self, verb: str, arguments: str) -> dict[str, Any]:
        """What a mutation answers that must take effect."""
        answer = await self.command(verb, arguments)
        assert answer["__typename"] == "Happened", answer
        return answer

    async def act(self, verb: str, **variables: Any) -> dict[str, Any]:
        """What a mutation answers that must take effect; one document for each verb, as programs send them."""
        declared = ", ".join(f"${name}: {TYPES[name]}" for name in variables)
        given = ", ".join(f"{name}: ${name}" for name in variables)
        query = f"mutation({declared}) {{ {verb}({given}) {{ {ANSWER} }} }}"
        answer: dict[str, Any] = (await self.ask(query, **variables))[verb]
        assert answer["__typename"] == "Happened", answer
        return answer

    async def create(self, settings: str, more: str = "") -> str:
        """The id of a new match."""
        match_id: str = (await self.happens("createMatch", f"settings: {settings}{more}"))["match"]["id"]
        return match_id

    async def match(self, match_id: str, fields: str = STATE, version: int | None = None) -> Any:
        """A match, or None."""
        query = f"query($id: ID!, $v: Int) {{ match(id: $id, version: $v) {{ {fields} }} }}"
        return (await self.ask(query, id=match_id, v=version))["match"]

    async def log(self, match_id: str) -> list[dict[str, Any]]:
        """All events of a match, page by page."""
        events: list[dict[str, Any]] = []
        after = None
        while True:
            page = f"events(first: 100{f', after: {json.dumps(after)}' if after else ''})"
            fields = f"{page} {{ edges {{ node {{ {EVENT} }} }} pageInfo {{ hasNextPage endCursor }} }}"
            found = (await self.match(match_id, fields))["events"]
            events += [edge["node"] for edge in found["edges"]]
            if not found["pageInfo"]["hasNextPage"]:
                return events
            after = found["pageInfo"]["endCursor"]

    async def open_socket(self) -> ClientConnection:
        """A websocket that has been acknowledged."""
        socket = await connect(self.url.replace("http", "ws", 1), subprotocols=["graphql-transport-ws"])
        payload = {"authorization": f"Bearer {self.token}"} if self.token else {}
        await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
        assert json.loads(await socket.recv()) == {"type": "connection_ack"}
        return socket

    async def watch(self, match_id: str, after: int = 0, fields: str = EVENT) -> AsyncIterator[dict[str, Any]]:
        """The events of a match after one, live; ends when the server completes."""
        query = f"subscription($id: ID!, $after: Int!) {{ matchEvents(matchId: $id, after: $after) {{ {fields} }} }}"
        socket = await self.open_socket()
        async with aclosing(_messages(socket, query, {"id": match_id, "after": after})) as messages:
            async for payload in messages:
                yield payload["data"]["matchEvents"]


async def _messages(socket: ClientConnection, query: str, variables: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    async with socket:
        payload = {"query": query, "variables": variables}
        await socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": payload}))
        async for text in socket:
            message = json.loads(text)
            if message["type"] == "complete":
                return
            assert message["type"] == "next", message
            assert "errors" not in message["payload"], message
            yield message["payload"]


async def register(url: str, name: str) -> Client:
    """A new guest."""
    anonymous = Client(url)
    query = "mutation($name: String!) { registerGuest(name: $name) { token player { id } } }"
    guest = (await anonymous.ask(query, name=name))["registerGuest"]
    await anonymous.close()
    return Client(url, guest["token"], guest["player"]["id"])


def choose(chance: random.Random, match: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A random legal command for whoever must act at `match`: the verb, and its variables beyond the match."""
    actions = match["allowedActions"]
    if "ACCEPT" in actions:
        return ("accept", {}) if chance.random() < 0.7 else ("refuse", {})
    if "MOVE" in actions:
        play = chance.choice(match["legalPlays"])
        spelling = "notation" if chance.random() < 0.5 else "moves"
        return "move", {"play": {spelling: play[spelling]}}
    if "DOUBLE" in actions and chance.random() < 0.15:
        return "double", {}
    if chance.random() < 0.01:
        return "resign", {"stake": chance.choice(["SINGLE", "GAMMON", "BACKGAMMON"])}
    return "roll", {}


async def play_out(
    chance: random.Random, match_id: str, white: Client, black: Client, *, turns: int = 100_000
) -> dict[str, Any]:
    """Both sides choose at random, until the match is over or `turns` commands are given; the match then."""
    fields = f"{STATE} legalPlays {{ notation moves }}"
    seats = {"WHITE": white, "BLACK": black}
    match: dict[str, Any] = await white.match(match_id, fields)
    for _ in range(turns):
        if match["phase"] == "OVER":
            break
        actor = seats[match["toAct"]]
        if match["viewerColor"] != match["toAct"]:
            match = await actor.match(match_id, fields)
        verb, variables = choose(chance, match)
        key = str(uuid.uuid4())
        answer = await actor.act(
            verb, matchId=match_id, expectedVersion=match["version"], idempotencyKey=key, **variables
        )
        match = answer["match"]
    return match
