"""The proof that every test of a fault ends with: the log is whole, and it is what was answered and what was seen.

Each event of a log must be in exactly one answer (a command's, with what the table did after it), and each answered one
in the log: then nothing acknowledged is lost, nothing happened by halves, and nothing happened twice. The feed of all
matches has no gap, and tells the same.
"""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from infra.log import Broken, Verified, verify
from service.auth import OPERATE, Tokens
from service.routes import MOST_FED
from tests.faults.crowd import PATIENCE, Call, Crowd
from tests.faults.processes import SECRETS
from tests.faults.watchers import Seen, Watcher, caught_up, watching
from tests.faults.wire import Wire
from tests.server import Server


class Disproved(AssertionError):
    """A promise was broken."""


def prove(lines: Sequence[bytes], calls: Iterable[Call], watched: Mapping[str, Seen]) -> Verified:
    """The log of one match, having been compared with all calls about it and with what each watcher saw."""
    try:
        verified = verify(lines)
    except Broken as error:
        raise Disproved(f"the log is broken at {error}") from error
    log = [(record.seq, record.hash) for record in verified.records]
    whose: dict[int, Call] = {}
    for call in calls:
        if call.answer is None:
            raise Disproved(f"it is not known what came of {call}")
        if call.answer["__typename"] == "Refusal":
            continue
        events = [(event["seq"], event["hash"]) for event in call.answer["events"]]
        if not events:
            continue
        first, last = events[0][0], events[-1][0]
        if events != log[first - 1 : last]:
            raise Disproved(f"what was acknowledged is not in the log: {call}")
        state = call.answer["match"]
        if (state["version"], state["hash"]) != events[-1]:
            raise Disproved(f"the match that was answered is not the one after its events: {call}")
        for seq, _ in events:
            if seq in whose:
                raise Disproved(f"event {seq} was acknowledged twice: {whose[seq]} and {call}")
            whose[seq] = call
    if unexplained := [seq for seq, _ in log if seq not in whose]:
        raise Disproved(f"events {unexplained} are in the log, and were acknowledged to nobody")
    for name, seen in watched.items():
        if seen != log:
            place = next((n for n, pair in enumerate(zip(seen, log, strict=False)) if pair[0] != pair[1]), len(seen))
            raise Disproved(f"{name} saw {len(seen)} events of {len(log)}, and another list from place {place} on")
    return verified


async def proof(urls: Sequence[str], crowd: Crowd, *, fed: bool = True) -> dict[str, Verified]:
    """The logs of all matches of a crowd, the same at each of these servers, compared as `prove` does.

    The feed is compared with them if it can be read (`fed`).
    """
    calls: dict[str, list[Call]] = defaultdict(list)
    for call in crowd.calls:
        if call.match_id is not None:
            calls[call.match_id].append(call)
        elif call.answer is None:
            raise Disproved(f"it is not known what came of {call}")
    watched: dict[str, dict[str, Seen]] = defaultdict(dict)
    for number, watcher in enumerate(watcher for watcher in crowd.watchers if watcher.match_id):
        watched[watcher.match_id][f"watcher {number} of {watcher.match_id}"] = watcher.seen
    logs = [await _logs(url, calls) for url in urls]
    for match_id in calls:
        if len({log[match_id] for log in logs}) > 1:
            raise Disproved(f"the servers tell different logs of {match_id}")
    proven = {
        match_id: prove(logs[0][match_id].splitlines(), about, watched[match_id]) for match_id, about in calls.items()
    }
    if fed:
        feed = await _feed(urls[0])
        _prove_feed(feed, proven)
        told = [(event["position"], event["hash"]) for event in feed]
        for watcher in crowd.watchers:
            begun = watcher.began_after
            if not watcher.match_id and watcher.seen != told[begun : begun + len(watcher.seen)]:
                raise Disproved("who watched the feed saw another one")
    return proven


def _prove_feed(feed: Iterable[dict[str, Any]], logs: Mapping[str, Verified]) -> None:
    """The feed has no gap, and tells of these matches what their logs tell."""
    told: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for position, event in enumerate(feed, 1):
        if event["position"] != position:
            raise Disproved(f"the feed has {event['position']} in place {position}")
        told[event["match"]].append((event["seq"], event["hash"]))
    for match_id, verified in logs.items():
        if told[match_id] != [(record.seq, record.hash) for record in verified.records]:
            raise Disproved(f"the feed and the log of {match_id} differ")


async def _logs(url: str, match_ids: Iterable[str]) -> dict[str, bytes]:
    """What one server exports."""
    logs = {}
    with Wire(url) as wire:
        for match_id in match_ids:
            status, logs[match_id] = await wire.ask("GET", f"/matches/{match_id}/events", patience=10)
            if status != 200:
                raise Disproved(f"{url} has no log of {match_id}: {status} {logs[match_id]!r}")
    return logs


def operators_token() -> str:
    """What an operator shows."""
    return Tokens(SECRETS["VIDEAU_SECRET"], 1).issue("tests", OPERATE)[0]


async def _feed(url: str) -> list[dict[str, Any]]:
    """All events of all matches, as an operator gets them."""
    feed: list[dict[str, Any]] = []
    with Wire(url) as wire:
        while True:
            path = f"/events?limit={MOST_FED}&after={len(feed)}"
            status, body = await wire.ask("GET", path, token=operators_token(), patience=10)
            assert status == 200, (status, body)
            if not body:
                return feed
            feed += [json.loads(line) for line in body.splitlines()]


@asynccontextmanager
async def proven(
    servers: Sequence[Server],
    games: int,
    *,
    through: Sequence[str] | None = None,
    patience: float = PATIENCE,
    pace: float = 0.1,
) -> AsyncIterator[Crowd]:
    """So many matches are played and watched while the block lasts; then, the servers being well, comes the proof.

    Commands go to the servers in turn, and each watcher watches at one of them, every eighth by SSE; `through` are the
    addresses to use instead of the servers' own.
    """
    direct = [server.base for server in servers]
    crowd = Crowd(patience=patience, pace=pace)
    with crowd.at(direct):
        await crowd.register()
        await crowd.open_games(games)
    urls = list(through or direct)
    for n, game in enumerate(crowd.games):
        at = n % len(urls)
        watcher = Watcher(game.id, urls[at:] + urls[:at], by_sse=n % 8 == 7, silence=2 if through else 20)
        crowd.watchers.append(watcher)
    with crowd.at(urls):
        async with watching(crowd.watchers):
            async with crowd.playing():
                yield crowd
            await caught_up((watcher for watcher in crowd.watchers if watcher.match_id), crowd.versions)
    crowd.logs = await proof(direct, crowd)
