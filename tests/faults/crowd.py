"""Many players at many matches, over several servers in turn, who write down all that they sent and were answered.

A call whose answer is lost is sent again, with its idempotency key, to the next server; now and then its player gives
it up, looks at the match and goes on from there. In the end what was given up is sent once more, until each call has
its answer.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from infra.log import Verified
from tests.faults.watchers import Watcher
from tests.faults.wire import Lost, Silence, Wire

STATE = "id version hash phase toAct cube { owner } legalPlays { moves }"

_ANSWER = f"""__typename
... on Happened {{ match {{ {STATE} }} events {{ seq hash }} }}
... on Refusal {{ code message current {{ version }} }}"""

_GUARDS = "$id: ID!, $version: Int, $key: String"
_GUARDED = "matchId: $id, expectedVersion: $version, idempotencyKey: $key"


def _mutation(declared: str, verb: str, arguments: str) -> str:
    return f"mutation({declared}) {{ answer: {verb}({arguments}) {{ {_ANSWER} }} }}"


MUTATIONS = {
    "createMatch": _mutation(
        "$settings: SettingsInput!, $key: String", "createMatch", "settings: $settings, idempotencyKey: $key"
    ),
    **{
        verb: _mutation(_GUARDS, verb, _GUARDED)
        for verb in ("joinMatch", "roll", "double", "accept", "refuse", "rematch")
    },
    "move": _mutation(f"{_GUARDS}, $play: PlayInput!", "move", f"{_GUARDED}, play: $play"),
    "resign": _mutation(f"{_GUARDS}, $stake: Stake!", "resign", f"{_GUARDED}, stake: $stake"),
}

READ = f"query($id: ID!) {{ match(id: $id) {{ {STATE} }} }}"

REGISTER = "mutation($name: String!) { registerGuest(name: $name) { token player { id } } }"

PATIENCE = 15.0
"""Seconds that a player waits for an answer: longer than any server may take for one."""


class Unavailable(Lost):
    """The answer is that it cannot be done now, and not known whether it was done."""


PERSEVERANCE = 45.0
"""Seconds after which a player who gets no answer at all calls the test a failure."""


@dataclass(frozen=True)
class Player:
    """A guest."""

    id: str
    token: str


@dataclass(eq=False)
class Call:
    """One command of a player, sent until it is answered; times are of one clock that never goes back."""

    player: Player
    verb: str
    variables: dict[str, Any]
    begun: float
    ended: float = float("inf")
    answer: dict[str, Any] | None = None
    """None: whether it has happened is not known."""
    losses: int = 0
    """How often its answer was lost or said that it is not known what came of it."""

    @property
    def match_id(self) -> str | None:
        """The match it was about, or brought about; None for a creation without an answer."""
        if self.answer is not None and "match" in self.answer:
            return str(self.answer["match"]["id"])
        return self.variables.get("id")

    def __str__(self) -> str:
        return f"{self.verb} {self.variables} by {self.player.id}: {self.answer}"


@dataclass(eq=False)
class Game:
    """A match that two players are at, as they saw it last."""

    white: Player
    black: Player
    state: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.state["id"])

    @property
    def to_act(self) -> Player:
        """Whose turn it is."""
        return self.white if self.state["toAct"] == "WHITE" else self.black


class Crowd:
    """All players and all that they did."""

    def __init__(self, *, patience: float = PATIENCE, pace: float = 0.0, guests: int = 20) -> None:
        """`pace`: seconds that a player thinks about a command, on average."""
        self.chance = random.Random(1)
        self.wires: list[Wire] = []
        self.players: list[Player] = []
        self.games: list[Game] = []
        self.calls: list[Call] = []
        self.watchers: list[Watcher] = []
        self.logs: dict[str, Verified] = {}
        """What the proof has found in the end."""
        self.answered = 0
        """How many calls have been answered."""
        self.unavailable = 0
        """How often the answer was UNAVAILABLE."""
        self.silences = 0
        """How often there was none within `patience`."""
        self._guests, self._patience, self._pace = guests, patience, pace
        self._turn, self._keys = count(), count()
        self._stop = asyncio.Event()
        self._playing: list[asyncio.Task[None]] = []

    async def register(self) -> None:
        """Become players."""
        for number in range(self._guests):
            data = await self.ask(REGISTER, {"name": f"guest {number}"}, None)
            self.players.append(Player(data["registerGuest"]["player"]["id"], data["registerGuest"]["token"]))

    @contextmanager
    def at(self, urls: Sequence[str]) -> Iterator[None]:
        """Talk to these servers, or proxies, while the block lasts."""
        before = self.wires
        with ExitStack() as stack:
            self.wires = [stack.enter_context(Wire(url)) for url in urls]
            yield
        self.wires = before

    def watch(self, watcher: Watcher) -> None:
        """Let one more watch, from now on."""
        watcher.start()
        self.watchers.append(watcher)

    # asking

    async def ask(self, query: str, variables: dict[str, Any], player: Player | None) -> dict[str, Any]:
        """The data of one answer, from whichever server gives one."""
        found: dict[str, Any] | None = None

        async def once(wire: Wire) -> bool:
            nonlocal found
            found = await self.post(wire, query, variables, player)
            return True

        await self._until(once, f"an answer to {query}")
        assert found is not None
        return found

    async def read(self, match_id: str, player: Player | None = None) -> dict[str, Any]:
        """A match as it stands."""
        data = await self.ask(READ, {"id": match_id}, player)
        state: dict[str, Any] = data["match"]
        return state

    async def post(
        self, wire: Wire, query: str, variables: dict[str, Any], player: Player | None = None
    ) -> dict[str, Any]:
        """The data of this server's answer. Raises Lost."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        token = player and player.token
        status, text = await wire.ask("POST", "/graphql", token=token, body=body, patience=self._patience)
        answer = json.loads(text)
        if "errors" in answer:
            codes = {error["extensions"]["code"] for error in answer["errors"]}
            assert codes == {"UNAVAILABLE"}, f"{status}: {answer}"
            raise Unavailable(status, answer)
        assert status == 200, (status, answer)
        data: dict[str, Any] = answer["data"]
        return data

    async def _until(self, once: Callable[[Wire], Awaitable[bool]], what: str) -> None:
        """Try at one server after the other until `once` says that it is done."""
        end, pause = time.monotonic() + PERSEVERANCE, 0.02
        turn = next(self._turn)
        why: object = None
        while time.monotonic() < end:
            try:
                if await once(self.wires[turn % len(self.wires)]):
                    return
            except Lost as error:
                why = error
            turn += 1
            await asyncio.sleep(pause * self.chance.uniform(0.5, 1.5))
            pause = min(pause * 1.5, 0.5)
        raise AssertionError(f"no server gives {what}: {why}")

    # commanding

    def called(self, player: Player, verb: str, **variables: Any) -> Call:
        """A call to be sent, with a key of its own unless it has one."""
        call = Call(player, verb, {"key": f"key-{next(self._keys)}", **variables}, time.monotonic())
        self.calls.append(call)
        return call

    async def send(self, call: Call, *, give_up: float = 0.0) -> dict[str, Any] | None:
        """The answer to a call; None if its player gave it up with that probability when the first one was lost."""
        if call.answer is not None:
            return call.answer

        async def once(wire: Wire) -> bool:
            try:
                data = await self.post(wire, MUTATIONS[call.verb], call.variables, call.player)
            except Lost as error:
                call.losses += 1
                self.unavailable += isinstance(error, Unavailable)
                self.silences += isinstance(error, Silence)
                return call.losses == 1 and self.chance.random() < give_up
            answer = data["answer"]
            if answer["__typename"] == "Refusal" and answer["code"] == "CONTENDED":
                return False
            call.answer, call.ended = answer, time.monotonic()
            self.answered += 1
            return True

        await self._until(once, f"an answer to {call}")
        return call.answer

    async def do(self, player: Player, verb: str, **variables: Any) -> dict[str, Any]:
        """The answer to a new call."""
        answer = await self.send(self.called(player, verb, **variables))
        assert answer is not None
        return answer

    async def settle(self) -> None:
        """Send what was given up once more."""
        for call in self.calls:
            await self.send(call)

    # playing

    async def open_games(self, number: int, lengths: Sequence[int | None] = (99, 1, 5, None)) -> None:
        """Create and join this many matches; then there is one more `Game` for each."""
        await asyncio.gather(*(self._open(lengths[n % len(lengths)]) for n in range(number)))

    async def _open(self, length: int | None) -> None:
        white, black = self.chance.sample(self.players, 2)
        created = await self.do(white, "createMatch", settings={"length": length})
        joined = await self.do(black, "joinMatch", id=created["match"]["id"])
        self.games.append(Game(white, black, joined["match"]))

    @asynccontextmanager
    async def playing(self) -> AsyncIterator[None]:
        """Play at all tables while the block lasts; then until every call has its answer."""
        self._stop.clear()
        self._playing = [asyncio.create_task(self._play(game)) for game in self.games]
        try:
            yield
            self._stop.set()
            await asyncio.gather(*self._playing)
        finally:
            for task in self._playing:
                task.cancel()
            await asyncio.gather(*self._playing, return_exceptions=True)
        await self.settle()

    async def more(self, number: int) -> None:
        """Wait for this many more answers to commands."""
        target = self.answered + number
        await self.until(lambda: self.answered >= target)

    async def until(self, condition: Callable[[], bool], seconds: float = PERSEVERANCE) -> None:
        """Wait for something while they play."""
        async with asyncio.timeout(seconds):
            while not condition():
                for task in self._playing:
                    if task.done():
                        task.result()
                assert not all(task.done() for task in self._playing), "all matches are over"
                await asyncio.sleep(0.005)

    @property
    def versions(self) -> dict[str, int]:
        """How far each match has come, as its players were told."""
        versions = {game.id: int(game.state["version"]) for game in self.games}
        for call in self.calls:
            if call.answer is not None and "match" in call.answer:
                match = call.answer["match"]
                versions[match["id"]] = max(match["version"], versions.get(match["id"], 0))
        return versions

    async def _play(self, game: Game) -> None:
        """Random legal commands at one table, until its match is over."""
        while not self._stop.is_set() and game.state["phase"] != "OVER":
            player = game.to_act
            verb, variables = choice(game.state, self.chance)
            call = self.called(player, verb, id=game.id, version=game.state["version"], **variables)
            answer = await self.send(call, give_up=0.2)
            if answer is not None and answer["__typename"] == "Happened":
                game.state = answer["match"]
            else:
                game.state = await self.read(game.id, player)
            await asyncio.sleep(self._pace * self.chance.uniform(0.5, 1.5))


def choice(state: dict[str, Any], chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A command for whoever must act at a match, and its variables: nearly always a legal one."""
    number = chance.random()
    if state["phase"] == "TO_ANSWER":
        return ("accept" if number < 0.8 else "refuse"), {}
    if number < 0.01:
        return "resign", {"stake": chance.choice(("SINGLE", "GAMMON", "BACKGAMMON"))}
    if state["phase"] == "TO_PLAY":
        return "move", {"play": {"moves": chance.choice(state["legalPlays"])["moves"]}}
    if number < 0.1 and state["cube"]["owner"] in (None, state["toAct"]):
        return "double", {}
    return "roll", {}
