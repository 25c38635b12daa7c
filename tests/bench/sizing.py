"""What one core and one GiB carry, over PostgreSQL and Redis: `python -m tests.bench.sizing` prints README's table.

Loads of tests/bench/load.py, each over one process and databases of its own. What a command costs, an event for all who
watch a match, and its delivery to each of them, follows from loads that differ in nothing else.
"""

import resource
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.bench.light import Delays
from tests.bench.load import Outcome, programs, put, told
from tests.bench.processes import processes

MATCHES = 100
RATE = 100.0
SECONDS = 40.0
MANY = 50
"""Watchers of each match, where there are many."""

THOUGHT = 5.0
"""Seconds from one command of a match to the next, where people play."""


def main() -> None:
    """Measure, then print."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    full, alone, one, many = (
        loaded(matches=64, watchers=0, rate=0.0),
        loaded(matches=MATCHES, watchers=0, rate=RATE),
        loaded(matches=MATCHES, watchers=MATCHES, rate=RATE),
        loaded(matches=MATCHES, watchers=MATCHES * MANY, rate=RATE),
    )
    command = alone.used["videau"] / commands(alone)
    event = (one.used["videau"] - command * commands(one)) / one.watched.deliveries
    delivery = (many.used["videau"] - one.used["videau"]) / (many.watched.deliveries - one.watched.deliveries)
    events = one.watched.deliveries / commands(one)
    of_match = command + events * (event + delivery)
    memory = {name: outcome.samples[-2][1].memory for name, outcome in (("alone", alone), ("one", one), ("many", many))}
    first = (memory["one"] - memory["alone"]) / MATCHES * 1024
    more = (memory["many"] - memory["one"]) / (MATCHES * (MANY - 1)) * 1024
    others = {name: used / commands(alone) for name, used in alone.used.items() if name != "videau"}
    rows = [
        ("commands/s that a core of ours answers, nobody watching", f"{1 / command:,.0f}"),
        (
            "the same, measured, with clients, PostgreSQL and Redis on the same two cores",
            f"{commands(full) / full.seconds:,.0f}",
        ),
        ("CPU of a command, ms", f"{command * 1e3:.2f}, " + ", ".join(f"{n} {u * 1e3:.2f}" for n, u in others.items())),
        (
            "CPU of an event in a match that is watched, µs; of its delivery to one more",
            f"{event * 1e6:.0f}; {delivery * 1e6:.1f}",
        ),
        (
            f"matches a core, both players connected, a command each {THOUGHT:.0f} s",
            f"{THOUGHT / of_match:,.0f}",
        ),
        (
            f"watchers a core, {MANY} at each of such matches",
            f"{MANY * THOUGHT / (of_match + MANY * events * delivery):,.0f}",
        ),
        ("KiB of a match with its first watcher; of one more watcher", f"{first:.0f}; {more:.1f}"),
        (f"p50 / p99 ms of commands, {RATE:.0f}/s, {MATCHES * MANY:,} watchers", percentiles(many.load.delays)),
        ("p50 / p99 ms from the log to a watcher in the same", percentiles(many.watched.delays)),
    ]
    for row in rows:
        print("| " + " | ".join(row) + " |")


def percentiles(delays: Delays) -> str:
    """p50 / p99."""
    return f"{delays.within(0.5) * 1e3:.1f} / {delays.within(0.99) * 1e3:.1f}"


def loaded(*, matches: int, watchers: int, rate: float) -> Outcome:
    """A load on a new process."""
    with tempfile.TemporaryDirectory() as folder, processes(1, Path(folder)) as servers:
        outcome = uvloop.run(
            put(
                [server.base for server in servers],
                matches=matches,
                watchers=watchers,
                rate=rate,
                seconds=SECONDS,
                settings={"length": 5},
                cuts=0,
                every=SECONDS / 4,
                used=programs,
            )
        )
    print(f"\n{matches} matches, {watchers} watchers, {rate:.0f} a second", *told(outcome), sep="\n", file=sys.stderr)
    return outcome


def commands(outcome: Outcome) -> int:
    """How many were answered."""
    return sum(outcome.load.results.values())


if __name__ == "__main__":
    main()
