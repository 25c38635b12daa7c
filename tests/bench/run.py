"""Measures the figures that the README quotes and prints its table: `python -m tests.bench.run`.

Every row is a ratio of things measured side by side in this one run; nothing here passes or fails.
"""

import asyncio
import gc
import gzip
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec.structs import replace
from sqlalchemy.engine import make_url

from domain.board import BAR, OFF, Board, Color, Dice, Side
from domain.commands import Command, Create, Join, Move, Roll
from domain.events import Event, Settings
from domain.fairness import LINKS
from domain.match import Match, OnRoll, ToPlay
from domain.plays import judge, legal_plays
from domain.rules import decide, evolve, fold
from infra.dice import Chains
from infra.log import GENESIS, decode_event, encode_event, encode_line, encode_time, record, verify
from infra.matchfiles import read_file
from infra.store import Append, SqlStore
from tests.bench import appends, fanout, lobby, processes, tokens
from tests.bench.light import MOVE, ROLL, Connection, print_table
from tests.server import Server, Typed

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "legal_public.jsonl.gz"
SMALL = Path(__file__).parents[1] / "corpus" / "legal_small.jsonl.gz"
MATCHES = 64
SECONDS = 6.0
ROUNDS = 3


def main() -> None:
    """Measure, and print the table as it comes."""
    print_table(rows())


def rows() -> Iterator[tuple[str, ...]]:
    """All rows, each when it has been measured."""
    yield from legal_play_rows()
    yield fold_row()
    yield from log_rows()
    yield import_row()
    yield http_row()
    for part in (tokens, lobby, appends, processes, fanout):
        yield from part.rows()


# legal plays


def cases() -> list[dict[str, Any]]:
    """The corpus: positions with their roll."""
    with gzip.open(CORPUS if CORPUS.exists() else SMALL) as lines:
        return [json.loads(line) for line in lines]


def our_case(case: dict[str, Any]) -> tuple[Board, Dice]:
    """A case as ours: the mover is white."""
    own, other = [0] * 26, [0] * 26
    for point, count in enumerate(case["points"], 1):
        if count > 0:
            own[point] = count
        else:
            other[25 - point] = -count
    own[BAR], other[BAR], own[OFF], other[OFF] = case["bar"], case["opp_bar"], case["off"], case["opp_off"]
    return Board(tuple(own), tuple(other)), Dice(*case["dice"])


def per_case(work: Callable[[Any], object], given: Sequence[Any]) -> float:
    """Microseconds of CPU a case: the median of five passes."""
    passes = []
    for _ in range(5):
        begun = time.process_time()
        for each in given:
            work(each)
        passes.append((time.process_time() - begun) / len(given) * 1e6)
    return statistics.median(passes)


def gym() -> ModuleType:
    """gym_backgammon's rules, without the rendering that its package imports."""
    spec = importlib.util.find_spec("gym_backgammon")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "envs" / "backgammon.py"
    found = importlib.util.spec_from_file_location("gym_backgammon_rules", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def mirrored(side: Side) -> list[int]:
    """A side's counts in the other side's numbering; the bar stays 25."""
    return [0, *side[24:0:-1], side[BAR]]


def legal_play_rows() -> list[tuple[str, ...]]:
    """Ours beside gym_backgammon, gvformat and gnubg_nn, on the same cases."""
    import gnubg_nn
    from gvformat import legality

    corpus = cases()
    ours = [our_case(case) for case in corpus]
    generating = per_case(lambda case: legal_plays(case[0], Color.WHITE, case[1]), ours)

    chance = random.Random(1)
    submitted = []
    for board, dice in ours:
        plays = legal_plays(board, Color.WHITE, dice)
        if plays:
            submitted.append((board, dice, chance.choice(plays)))
    with_plays = [case[:2] for case in submitted]
    generating_those = per_case(lambda case: legal_plays(case[0], Color.WHITE, case[1]), with_plays)
    checking = per_case(lambda case: judge(case[0], Color.WHITE, case[1], case[2]), submitted)

    rules = gym()

    def gym_case(case: dict[str, Any]) -> tuple[Any, tuple[int, int]]:
        game = rules.Backgammon()
        game.board = [(n, rules.WHITE) if n > 0 else (-n, rules.BLACK) if n < 0 else (0, None) for n in case["points"]]
        game.bar, game.off = [case["bar"], case["opp_bar"]], [case["off"], case["opp_off"]]
        game.players_positions = game.get_players_positions()
        first, second = case["dice"]
        return game, (-first, -second)

    gym_time = per_case(lambda case: case[0].get_valid_plays(rules.WHITE, case[1]), [gym_case(case) for case in corpus])

    gv_time = per_case(
        lambda case: legality.legal_plays(*case),
        [(list(board.white), mirrored(board.black), *dice) for board, dice in ours],
    )
    gnubg_time = per_case(
        lambda case: gnubg_nn.moves(*case),
        [([list(board.black[1:]), list(board.white[1:])], *dice) for board, dice in ours],
    )
    for board, dice in ours[::50]:  # the peers were asked the same thing
        count = len(legal_plays(board, Color.WHITE, dice))
        assert len(gnubg_nn.moves([list(board.black[1:]), list(board.white[1:])], *dice)) == count
    name = f"legal plays, µs per (position, roll), {len(corpus)} cases"
    return [
        (name, f"{generating:.1f}", f"gym_backgammon {gym_time:.1f}", f"{generating / gym_time:.2f}"),
        ("", f"{generating:.1f}", f"gvformat {gv_time:.1f}", f"{generating / gv_time:.2f}"),
        ("", f"{generating:.1f}", f"gnubg_nn (C) {gnubg_time:.1f}", f"{generating / gnubg_time:.1f}"),
        (
            "checking a submitted play, µs",
            f"{checking:.1f}",
            f"generating the same rolls {generating_those:.1f}",
            f"{checking / generating_those:.2f}",
        ),
    ]


# the fold


CHAINS = Chains("bench")


def played(length: int, seed: int) -> list[Event]:
    """A match played at random to its end, with chained dice."""
    chance = random.Random(seed)
    events: list[Event] = []
    match: Match | None = None

    def do(command: Command) -> Match:
        nonlocal match
        for event in decide(match, command):
            match = evolve(match, event)
            events.append(event)
        assert match is not None
        return match

    match_id = f"bench {seed}"
    settings = Settings(length=length)
    commitment = CHAINS.commitment(match_id, 0)
    do(Create(match=match_id, settings=settings, color=Color.WHITE, player="a", commitment=commitment))
    now = do(Join(player="b"))
    while now.winner is None:
        phase = now.phase
        if isinstance(phase, ToPlay):
            now = do(Move(by=phase.color, play=chance.choice(legal_plays(now.board, phase.color, phase.dice))))
        else:
            dice, link = CHAINS.throw(now)
            now = do(Roll(by=phase.color if isinstance(phase, OnRoll) else None, dice=dice, link=link))
    return events


def about_450_events() -> list[Event]:
    """A finished seven-point match of about that length."""
    return min((played(7, seed) for seed in range(40)), key=lambda events: abs(len(events) - 450))


def fold_row() -> tuple[str, ...]:
    """A finished seven-point match of about 450 events, from stored JSON to its final state."""
    events = about_450_events()
    stored = [encode_event(event) for event in events]
    both, decoding = [], []
    for _ in range(30):
        begun = time.process_time()
        fold(decode_event(text) for text in stored)
        both.append(time.process_time() - begun)
        begun = time.process_time()
        for text in stored:
            decode_event(text)
        decoding.append(time.process_time() - begun)
    whole, decode = statistics.median(both) * 1e3, statistics.median(decoding) * 1e3
    name = f"stored JSON to final state, {len(stored)} events, ms"
    return name, f"{whole:.2f}", f"decoding alone {decode:.2f}", f"{whole / decode:.1f}"


# logs and files


def log_rows() -> list[tuple[str, ...]]:
    """Verifying a log of about 450 events, and what one roll's dice cost; exporting a log of 5,000."""
    events = about_450_events()
    lines = log_of(events)
    verifying = milliseconds(lambda: verify(lines), 10)
    folding = milliseconds(lambda: fold(decode_event(encode_event(event)) for event in events), 10)
    first = fold(events[:4])
    link = partial(CHAINS._link, CHAINS._secrets[0], first.id, 0)
    rolls = [replace(first, links_used=n, rolls=n, last_link=link(n)) for n in range(0, LINKS, 41)]
    throwing = milliseconds(lambda: [CHAINS.throw(match) for match in rolls], 10) / len(rolls)
    return [
        (
            f"verifying {len(events)} events: rules, hashes, dice, ms",
            f"{verifying:.1f}",
            f"folding them {folding:.2f}",
            f"{verifying / folding:.0f}",
        ),
        ("one roll's dice, ms", f"{throwing:.4f}", "(see the requests/s below)", ""),
        export_row(),
    ]


def log_of(events: Sequence[Event]) -> list[bytes]:
    """The lines of a log."""
    records = record(GENESIS, 0, datetime.now(UTC), events)
    return [encode_line(r.seq, encode_time(r.at), r.text, r.hash).encode() for r in records]


def milliseconds(work: Callable[[], object], times: int) -> float:
    """Milliseconds of CPU, the median of some runs."""
    runs = []
    for _ in range(times):
        begun = time.process_time()
        work()
        runs.append(time.process_time() - begun)
    return statistics.median(runs) * 1e3


def export_row() -> tuple[str, ...]:
    """The most memory that exporting a log takes: 5,000 events beside 500."""

    async def peak(length: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            store = SqlStore(make_url(f"sqlite:///{folder}/videau.db"), create=True)
            match = fold(events)
            recorded = record(GENESIS, 0, datetime.now(UTC), (events * 20)[:length])
            await store.append(Append(match=match, recorded=recorded, auto_roll=(True, True)))
            tracemalloc.start()
            size = 0
            async for line in store.lines(match.id):
                size += len(line)
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            await store.close()
            return most / 1e3

    events = about_450_events()
    long, short = asyncio.run(peak(5_000)), asyncio.run(peak(500))
    return "exporting 5,000 events, most memory, kB", f"{long:.0f}", f"exporting 500 {short:.0f}", f"{long / short:.2f}"


def import_row() -> tuple[str, ...]:
    """Reading a seven-point .mat, every move by the rules, beside gvformat, which reads without judging."""
    from gvformat import mat_parser

    file = Path(__file__).parents[1] / "corpus" / "matches" / "real_031_galaxy7pt.mat"
    data = file.read_bytes()
    ours = milliseconds(lambda: read_file(data), 10)
    text = data.decode()
    theirs = milliseconds(lambda: mat_parser.parse_mat_file(text), 10)
    return "reading a 7-point .mat, ms", f"{ours:.1f}", f"gvformat {theirs:.1f}", f"{ours / theirs:.1f}"


# commands over HTTP


async def answered_by_us(server: Server) -> float:
    """Requests a second: 64 matches, each playing on as soon as it is answered."""
    games = [await processes.begun(server, n) for n in range(MATCHES)]

    async def play(game: processes.Game, until: float) -> int:
        requests = 0
        while time.perf_counter() < until:
            await game.go_on()
            requests += 1
        return requests

    begun = time.perf_counter()
    played = await asyncio.gather(*(play(game, begun + SECONDS) for game in games))
    return sum(played) / (time.perf_counter() - begun)


async def answered_by_constant(url: str) -> float:
    """Requests a second of the constant, asked in the same two ways by as many connections."""
    connections = [Connection(url, None) for _ in range(MATCHES)]
    for connection in connections:
        await connection.open()

    async def ask(connection: Connection, until: float) -> int:
        requests = 0
        while time.perf_counter() < until:
            await connection.post(ROLL, {"m": "m"})
            await connection.post(MOVE, {"m": "m", "p": [[8, 5], [6, 5]]})
            requests += 2
        return requests

    begun = time.perf_counter()
    asked = await asyncio.gather(*(ask(connection, begun + SECONDS) for connection in connections))
    return sum(asked) / (time.perf_counter() - begun)


def http_row() -> tuple[str, ...]:
    """`roll` and `move`, durable on SQLite, beside the constant; rounds alternate, medians are compared."""
    gc.collect()
    gc.freeze()  # what the other rows left is not for this process, which is the client now, to look through again
    ours, constant = [], []
    with tempfile.TemporaryDirectory() as folder:
        server = Typed(Path(folder))
        server.start()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.constant"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        url = process.stdout.readline().strip() + "/graphql"
        for _ in range(ROUNDS):
            constant.append(asyncio.run(answered_by_constant(url)))
            ours.append(asyncio.run(answered_by_us(server)))
        process.kill()
        server.kill()
    mine, beside = statistics.median(ours), statistics.median(constant)
    name = f"answering roll and move over HTTP, {MATCHES} matches at once, SQLite synchronous FULL, requests/s"
    return (
        name,
        f"{mine:.0f}",
        f"the same types answering a constant, by Strawberry as it comes {beside:.0f}",
        f"{mine / beside:.2f}",
    )


if __name__ == "__main__":
    main()
