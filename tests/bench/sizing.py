"""What one core and one GiB carry, over PostgreSQL and Redis: `python -m tests.bench.sizing` prints README's table.

Loads of tests/bench/load.py, each over one process and databases of its own. What a command costs, an event for all who
watch a match, and its delivery to each of them, follows from loads that differ in nothing else, and take all of a core:
a core that does little has cold caches, and takes up to twice as long for everything.
"""

import resource
import sys
import tempfile
from pathlib import Path

import click
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


@click.command()
def main() -> None:
    """Measure, then print."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    alone, one, many = (loaded(watchers=MATCHES * each, rate=0.0) for each in (0, 1, MANY))
    calm_one, calm = (loaded(watchers=MATCHES * each, rate=RATE) for each in (1, MANY))
    command = alone.used["videau"] / commands(alone)
    event = (one.used["videau"] - command * commands(one)) / one.watched.deliveries
    delivery = (many.used["videau"] - command * commands(many) - event * many.watched.deliveries / MANY) / (
        many.watched.deliveries * (1 - 1 / MANY)
    )
    events = one.watched.deliveries / commands(one)
    of_match = command + events * (event + delivery)
    idle, first, more = calm.samples[0][1].memory, *(each.samples[-2][1].memory for each in (calm_one, calm))
    watched, watcher = (first - idle) / MATCHES * 1024, (more - first) / MATCHES / (MANY - 1) * 1024
    free = (1024 - idle) * 1024
    others = {name: used / commands(alone) for name, used in alone.used.items() if name != "videau"}
    rows = [
        ("commands/s that a core of ours answers, nobody watching", f"{1 / command:,.0f}"),
        (
            "the same, measured, with clients, PostgreSQL and Redis on the same two cores",
            f"{commands(alone) / alone.seconds:,.0f}",
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
        (
            "matches a GiB, both players connected; watchers a GiB, of few matches",
            f"{free / (watched + watcher):,.0f}; {free / watcher:,.0f}",
        ),
        ("MiB of a process that does nothing", f"{idle:.0f}"),
        ("KiB of a match with its first watcher; of one more watcher", f"{watched:.0f}; {watcher:.1f}"),
        (f"p50 / p99 ms of commands, {RATE:.0f}/s, {MATCHES * MANY:,} watchers", percentiles(calm.load.delays)),
        ("p50 / p99 ms from the log to a watcher in the same", percentiles(calm.watched.delays)),
        (
            "% of a core for both, ours and PostgreSQL's",
            "; ".join(f"{calm.used[name] / calm.seconds * 100:.0f}" for name in ("videau", "postgres")),
        ),
    ]
    for row in rows:
        print("| " + " | ".join(row) + " |")


def percentiles(delays: Delays) -> str:
    """p50 / p99."""
    return f"{delays.within(0.5) * 1e3:.1f} / {delays.within(0.99) * 1e3:.1f}"


def loaded(*, watchers: int, rate: float) -> Outcome:
    """A load on a new process."""
    with tempfile.TemporaryDirectory() as folder, processes(1, Path(folder)) as servers:
        outcome = uvloop.run(
            put(
                [server.base for server in servers],
                matches=MATCHES,
                watchers=watchers,
                rate=rate,
                seconds=SECONDS,
                settings={"length": 5},
                cuts=0,
                every=SECONDS / 4,
                used=programs,
            )
        )
    print(f"\n{watchers} watchers, {rate:.0f} a second", *told(outcome), sep="\n", file=sys.stderr)
    return outcome


def commands(outcome: Outcome) -> int:
    """How many were answered."""
    return sum(outcome.load.results.values())


if __name__ == "__main__":
    main()
