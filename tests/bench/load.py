"""Plays many matches with many watchers over the public API, and says how it went: `python -m tests.bench.load --help`.

Commands come at a rate that does not wait for the service: each table's next one is due at a random time, and its delay
counts from when it was due, not from when a slow service let it be sent. What is not answered is sent again with its
key, at the next address. In the end comes the proof (tests/faults/proof.py): every log is whole, each event of it was
answered to one command, and every watcher has seen each of them once, in order.
"""

import asyncio
import contextlib
import gc
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, cycle
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import psutil
import uvloop

from tests.bench.light import Delays
from tests.bench.load_watchers import Report
from tests.bench.processes import processes
from tests.faults.crowd import MUTATIONS, READ, REGISTER, Call, Game, Player, choice
from tests.faults.proof import prove
from tests.faults.wire import Lost, Wire

PATIENCE = 15.0
"""Seconds that a player waits for an answer, before it sends its command again."""

AGAIN = {"UNAVAILABLE", "CONTENDED", "RATE_LIMITED"}
"""Codes after which a command is sent again."""

AT_ONCE = 32
"""Matches that are opened at the same time before it begins, and logs that are fetched after it."""


_MEASURED = re.compile(
    r"^(process_\w+|videau_(?:tasks|watchers|audiences|matches_watched))(?:{.*})? (\S+)$", re.MULTILINE
)
"""What a sample has of `/metrics`; to read all of it would keep the players waiting."""


class Sample(NamedTuple):
    """What the processes of the service say of themselves, summed over them."""

    cpu: float
    """Seconds."""
    memory: float
    """MiB."""
    files: int
    tasks: int
    watchers: int
    audiences: int
    matches: int
    """Those that are watched."""


class Load:
    """The players, and what became of their commands."""

    def __init__(self, urls: Sequence[str], tables: int, rate: float, settings: dict[str, Any]) -> None:
        """`rate`: commands a second of all tables; 0 is as fast as they are answered. `settings`: of each match."""
        self.delays = Delays()
        self.results: Counter[str] = Counter()
        """How often a command was answered so: `happened`, or the code of a refusal."""
        self.losses: Counter[str] = Counter()
        """How often a command was sent again, by why."""
        self.unsent = 0
        """How many commands were due, and could not be sent in time since those before were not answered."""
        self.calls: dict[str, list[Call]] = {}
        """All that was answered about each match, of the answers only what the proof needs."""
        self.counting = False
        """Whether what is answered counts."""
        self.slots: list[Game] = []
        self.changed: Callable[[int, str], None] = lambda slot, match_id: None
        """Called when another match is played in a slot."""
        self._urls, self._tables, self._rate, self._settings = urls, tables, rate, settings
        self._chance = random.Random(1)
        self._keys = count()
        self._run = f"{time.time():.0f}"
        self._wires: list[Wire] = []
        self._turns: Iterator[Wire] = iter(())
        self._guests: list[Player] = []

    @contextmanager
    def connected(self) -> Iterator[None]:
        """With lines to the service."""
        with ExitStack() as stack:
            self._wires = [stack.enter_context(Wire(url)) for url in self._urls]
            self._turns = cycle(self._wires)
            yield

    async def open(self) -> None:
        """Register guests, and begin a match at each table."""
        for number in range(max(2, min(50, self._tables))):
            data = await self._post(REGISTER, {"name": f"load {number}"}, None)
            self._guests.append(Player(data["registerGuest"]["player"]["id"], data["registerGuest"]["token"]))
        limit = asyncio.Semaphore(AT_ONCE)

        async def begin() -> Game:
            async with limit:
                return await self._begin()

        self.slots = list(await asyncio.gather(*(begin() for _ in range(self._tables))))

    async def play(self, seconds: float) -> None:
        """Play at all tables for so long; what is under way then is answered."""
        begun = time.monotonic()
        await asyncio.gather(*(self._play(slot, begun, begun + seconds) for slot in range(self._tables)))

    async def _play(self, slot: int, due: float, until: float) -> None:
        pause = self._rate and self._tables / self._rate
        while True:
            if pause:
                due += self._chance.expovariate(1 / pause)
                await asyncio.sleep(max(0.0, min(due, until) - time.monotonic()))
                if due < until <= time.monotonic():
                    self.unsent += 1 + int((until - due) / pause)
                    return
            else:
                due = time.monotonic()
            if due >= until:
                return
            game = self.slots[slot]
            verb, variables = choice(game.state, self._chance)
            answer = await self._do(game.to_act, verb, due, id=game.id, version=game.state["version"], **variables)
            if answer["__typename"] == "Refusal":
                game.state = (await self._post(READ, {"id": game.id}, game.white))["match"]
                continue
            game.state = answer["match"]
            if game.state["phase"] == "OVER":
                self.slots[slot] = game = await self._begin()
                self.changed(slot, game.id)

    async def _begin(self) -> Game:
        white, black = self._chance.sample(self._guests, 2)
        now = time.monotonic()
        created = await self._do(white, "createMatch", now, settings=self._settings)
        joined = await self._do(black, "joinMatch", time.monotonic(), id=created["match"]["id"])
        return Game(white, black, joined["match"])

    async def _do(self, player: Player, verb: str, due: float, **variables: Any) -> dict[str, Any]:
        """The answer to a command, however often it must be sent for it."""
        variables["key"] = f"load-{self._run}-{next(self._keys)}"
        while True:
            answer: dict[str, Any] = (await self._post(MUTATIONS[verb], variables, player))["answer"]
            code = answer.get("code", "happened")
            if code not in AGAIN:
                break
            self.losses[code] += 1
            await asyncio.sleep(0.1)
        if self.counting:
            self.delays.add(time.monotonic() - due)
            self.results[code] += 1
        call = Call(player, verb, variables, due, time.monotonic(), _for_the_proof(answer))
        assert call.match_id is not None, answer
        self.calls.setdefault(call.match_id, []).append(call)
        return answer

    async def _post(self, query: str, variables: dict[str, Any], player: Player | None) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        while True:
            pause = 0.1
            try:
                status, answer = await next(self._turns).ask(
                    "POST", "/graphql", token=player.token if player else None, body=body, patience=PATIENCE
                )
            except Lost as error:
                self.losses[type(error).__name__] += 1
            else:
                told = json.loads(answer)
                errors = told.get("errors") or ([told] if "code" in told else [])
                if not errors:
                    data: dict[str, Any] = told["data"]
                    return data
                for each in errors:
                    extensions = each.get("extensions", each)
                    assert extensions["code"] in AGAIN, (status, told)
                    self.losses[extensions["code"]] += 1
                    pause = max(pause, extensions.get("retryAfter", 0))
            await asyncio.sleep(pause)

    async def _got(self, wire: Wire, path: str) -> bytes:
        """What is there; asked for again while lines were idle for too long. Raises Lost."""
        for _ in range(2 * AT_ONCE):
            with contextlib.suppress(Lost):
                status, body = await wire.ask("GET", path, patience=PATIENCE)
                assert status == 200, (status, body)
                return body
        raise Lost(f"no answer for {path}")

    # the end

    async def prove(self, seen: dict[str, list[str]]) -> int:
        """How many events there are: each was answered once, and stands in `seen`, if its match does."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def log(match_id: str) -> int:
            async with limit:
                lines = await self._got(next(self._turns), f"/matches/{match_id}/events")
            watched = {"who watched": list(enumerate(seen[match_id], 1))} if match_id in seen else {}
            return len(prove(lines.splitlines(), self.calls[match_id], watched).records)

        return sum(await asyncio.gather(*map(log, self.calls)))

    @property
    def idle(self) -> int:
        """Lines that are open, while nothing is asked."""
        return sum(wire.idle for wire in self._wires)

    async def sample(self) -> Sample:
        """What the processes say now."""
        sums: defaultdict[str, float] = defaultdict(float)
        for wire in self._wires:
            text = await self._got(wire, "/metrics")
            for name, value in _MEASURED.findall(text.decode()):
                sums[name] += float(value)
        return Sample(
            sums["process_cpu_seconds_total"],
            sums["process_resident_memory_bytes"] / 2**20,
            *(
                int(sums[name])
                for name in (
                    "process_open_fds",
                    "videau_tasks",
                    "videau_watchers",
                    "videau_audiences",
                    "videau_matches_watched",
                )
            ),
        )


def _for_the_proof(answer: dict[str, Any]) -> dict[str, Any]:
    if "match" in answer:
        match = {name: answer["match"][name] for name in ("id", "version", "hash")}
        return {"__typename": answer["__typename"], "match": match, "events": answer["events"]}
    return {"__typename": answer["__typename"], "current": answer.get("current")}


class Outcome(NamedTuple):
    """How a load went."""

    seconds: float
    load: Load
    watched: Report
    samples: list[tuple[float, Sample]]
    """Before, then every so often while it went on (seconds since its beginning), and after all had left."""
    used: dict[str, float]
    """Seconds of CPU for the time that was measured, by program."""
    idle: int
    """Lines of the players that are still open, at the last sample."""
    events: int
    """In all logs, which are proven."""


async def put(
    urls: Sequence[str],
    *,
    watch_at: Sequence[str] = (),
    matches: int,
    watchers: int,
    rate: float,
    seconds: float,
    settings: dict[str, Any],
    cuts: float,
    every: float,
    used: Callable[[], dict[str, float]] = dict,
) -> Outcome:
    """A load on the service at these addresses. `used` says what programs beside the service have used of a CPU."""
    load = Load(urls, matches, rate, settings)
    with load.connected():
        before = await load.sample()
        samples = [(0.0, before)]
        await load.open()
        command = [sys.executable, "-m", "tests.bench.load_watchers", str(watchers), str(cuts), str(matches)]
        process = await asyncio.create_subprocess_exec(
            *command,
            *(watch_at or urls),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=2**30,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdin is not None
        assert process.stdout is not None
        tell = process.stdin.write
        load.changed = lambda slot, match: tell(json.dumps({"slot": slot, "match": match}).encode() + b"\n")
        for slot, game in enumerate(load.slots):
            load.changed(slot, game.id)
        if await process.stdout.readline() != b"watching\n":
            raise click.ClickException("nobody can watch")

        gc.collect()
        gc.disable()  # all that it has is kept for the proof: to look through it for garbage would keep players waiting
        load.counting = True
        begun, first, spent = time.monotonic(), await load.sample(), used()

        async def look() -> None:
            while True:
                await asyncio.sleep(every)
                samples.append((time.monotonic() - begun, await load.sample()))

        looking = asyncio.create_task(look())
        await load.play(seconds)
        took = time.monotonic() - begun
        looking.cancel()
        last = await load.sample()
        spending = {name: total - spent.get(name, 0) for name, total in used().items()}
        spending = {"videau": last.cpu - first.cpu, **spending}

        load.counting = False
        gc.enable()
        ends = {game.id: game.state["version"] for game in load.slots}
        tell(json.dumps({"end": ends}).encode() + b"\n")
        line = await process.stdout.readline()
        if await process.wait():
            raise click.ClickException("nobody could watch any more")
        report = msgspec.json.decode(line, type=Report)
        if report.faults:
            raise AssertionError("\n".join(report.faults))
        for _ in range(100):  # until it has noticed that all have gone
            if (after := await load.sample()).watchers <= before.watchers and after.matches <= before.matches:
                break
            await asyncio.sleep(0.1)
        samples.append((time.monotonic() - begun, after))
        idle = load.idle
        watched = {match: hashes for match, hashes in report.logs.items() if hashes}
        events = await load.prove(watched)
    return Outcome(took, load, report, samples, spending, idle, events)


def told(outcome: Outcome) -> Iterator[str]:
    """What there is to say of it."""
    load, watched, seconds = outcome.load, outcome.watched, outcome.seconds
    commands = sum(load.results.values())
    yield "| ms | p50 | p90 | p99 | p99.9 | most |"
    yield "|---|---|---|---|---|---|"
    for name, delays in (
        ("from when a command was due to its answer", load.delays),
        ("from an event's time in the log to a watcher", watched.delays),
    ):
        figures = [delays.within(share) for share in (0.5, 0.9, 0.99, 0.999)]
        yield f"| {name} | " + " | ".join(f"{1e3 * each:.1f}" for each in (*figures, delays.most)) + " |"
    yield ""
    yield f"{commands:,} commands, {commands / seconds:,.1f} a second: {_counts(load.results)}"
    yield f"sent again: {_counts(load.losses)}; due, but never sent: {load.unsent:,}"
    yield (
        f"{watched.deliveries:,} deliveries, about {watched.deliveries / seconds:,.0f} a second; "
        f"lines cut by us: {watched.cut_by_us:,}, by them: {_counts(watched.cut_by_them)}"
    )
    for name, used in outcome.used.items():
        yield f"CPU of {name}: {used / seconds:.0%} of a core, {used / commands * 1e3:.2f} ms a command"
    yield (
        f"proof: {outcome.events:,} events in {len(load.calls):,} logs, each acknowledged once, "
        f"{len(watched.logs):,} logs seen by each of their watchers whole, once, in order"
    )
    yield ""
    yield "| after s | memory, MiB | open files | tasks | watchers | audiences | matches watched |"
    yield "|---|---|---|---|---|---|---|"
    for after, sample in outcome.samples:
        yield f"| {after:.0f} | {sample.memory:.1f} | " + " | ".join(map(str, sample[2:])) + " |"
    if growth := _growth(outcome.samples[1:-1]):
        yield growth


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())) or "none"


def _growth(samples: Sequence[tuple[float, Sample]]) -> str | None:
    """How memory goes in the second half, by the line that fits best."""
    half = samples[len(samples) // 2 :]
    if len(half) < 3:
        return None
    slope = statistics.linear_regression([after for after, _ in half], [sample.memory for _, sample in half]).slope
    return f"memory in the second half: {slope * 60:+.2f} MiB a minute"


def programs() -> dict[str, float]:
    """Seconds of CPU that programs which were started from here have used, but for the service itself."""
    used: defaultdict[str, float] = defaultdict(float)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            name, times = process.name(), process.cpu_times()
            if name != "sh" and not name.startswith("python"):
                used[name] += times.user + times.system
    return dict(used)


@click.command()
@click.option("--at", "urls", multiple=True, help="An address of a service that runs; else processes are started here.")
@click.option("--watch-at", multiple=True, help="Where those who watch are, if elsewhere.")
@click.option("--processes", "number", default=1, help="How many are started, over a PostgreSQL and a Redis of theirs.")
@click.option("--matches", default=100)
@click.option("--watchers", default=1_000)
@click.option("--rate", default=100.0, help="Commands a second; 0 is as fast as they are answered.")
@click.option("--seconds", default=60.0)
@click.option("--length", default=3, help="Points of a match: another begins when one is over.")
@click.option("--start", help="The XGID of a position that matches start from, as near their end as you like.")
@click.option("--cuts", default=5.0, help="How many watchers a second are cut off, and go on from where they were.")
def main(urls: tuple[str, ...], number: int, length: int, start: str | None, **given: Any) -> None:
    """Put a load on the service, at a rate, with watchers, and say how it went."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    given["settings"] = {"length": length, **({"sandbox": {"start": start}} if start else {})}
    with ExitStack() as stack:
        if not urls:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            urls = tuple(server.base for server in stack.enter_context(processes(number, folder)))
        outcome = uvloop.run(put(urls, every=given["seconds"] / 10, used=programs, **given))
    print("\n".join(told(outcome)))


if __name__ == "__main__":
    main()
