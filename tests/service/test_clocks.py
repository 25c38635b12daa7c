"""Clocks as clients meet them: shown, enforced by the server, and right after everything that can befall a server."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing
from datetime import datetime
from typing import Any

import pytest

from tests.client import Client, register
from tests.server import Server

Guest = Callable[[str], Awaitable[Client]]

CLOCK = "updatedAt clock { white black running since deadline } settings { clock { reserve delay } }"
DICE = "sandbox: {dice: [[3, 1], [6, 4], [5, 2]]}"


async def started(white: Client, black: Client, clock: str, more: str = DICE) -> str:
    """A match under a clock, white to play 31."""
    match_id = await white.create(f"{{length: 7, clock: {{{clock}}}, {more}}}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    return match_id


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def ended(client: Client, match_id: str) -> list[dict[str, Any]]:
    """The events of a match that ends by itself."""
    async with asyncio.timeout(30), aclosing(client.watch(match_id)) as events:
        return [event async for event in events]


@pytest.mark.parametrize(
    ("given", "agreed"),
    [
        ("", {"reserve": 840, "delay": 12}),
        ("reserve: 60", {"reserve": 60, "delay": 12}),
        ("reserve: 0, delay: 30", {"reserve": 0, "delay": 30}),
        ("daysPerTurn: 3", {"reserve": 0, "delay": 259_200}),
    ],
)
async def test_a_clock_is_agreed_on(guest: Guest, given: str, agreed: dict[str, int]) -> None:
    """RULES.md section 5: two minutes a point and twelve seconds a turn, unless something else is asked for."""
    ann = await guest("Ann")
    match_id = await ann.create(f"{{length: 7, clock: {{{given}}}}}")
    assert (await ann.match(match_id, CLOCK))["settings"]["clock"] == agreed
    assert (await ann.match(await ann.create("{length: 7}"), CLOCK))["clock"] is None


async def test_the_clock_of_any_version_follows_from_the_times_of_the_log(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, "reserve: 100, delay: 0")
    await ann.happens("move", f'matchId: "{match_id}" play: {{notation: "8/5 6/5"}}')
    await bob.happens("roll", f'matchId: "{match_id}"')
    await bob.happens("move", f'matchId: "{match_id}" play: {{notation: "24/14"}}')
    versions = [await anonymous.match(match_id, f"{CLOCK} toAct", version) for version in range(1, 8)]
    assert [each["clock"]["running"] for each in versions] == [None, None, None, "WHITE", "BLACK", "BLACK", "WHITE"]
    opening, moved, rolled, played = versions[3:]
    assert (opening["clock"]["white"], opening["clock"]["black"]) == (100, 100)
    took = (at(moved["updatedAt"]) - at(opening["updatedAt"])).total_seconds()
    assert moved["clock"]["white"] == pytest.approx(100 - took, abs=1e-6)
    assert rolled["clock"] == moved["clock"], "a roll is of the same turn"
    took = (at(played["updatedAt"]) - at(moved["updatedAt"])).total_seconds()
    assert played["clock"]["black"] == pytest.approx(100 - took, abs=1e-6)
    left = (at(played["clock"]["deadline"]) - at(played["clock"]["since"])).total_seconds()
    assert left == pytest.approx(played["clock"]["white"], abs=1e-6)


async def test_time_that_runs_out_loses_the_match_and_watchers_are_told(
    server: Server, guest: Guest, anonymous: Client
) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, "reserve: 1, delay: 1")
    events = await ended(anonymous, match_id)
    assert events[-1]["kind"] == "timed_out"
    match = await ann.match(match_id, "winner phase black { score away } results { stake end points } " + CLOCK)
    assert (match["winner"], match["phase"], match["black"]) == ("BLACK", "OVER", {"score": 7, "away": 0})
    assert match["results"] == [{"stake": "MATCH", "end": "TIME_OUT", "points": 7}]
    before = await ann.match(match_id, CLOCK, len(events) - 1)
    late = (at(match["updatedAt"]) - at(before["clock"]["deadline"])).total_seconds()
    assert late >= 0, "nobody loses early"
    refused = await ann.command("move", f'matchId: "{match_id}" play: {{notation: "8/5 6/5"}}')
    assert refused["code"] == "MATCH_OVER"
    verified = server.videau("verify", match_id)
    assert verified.returncode == 0, verified.stderr


async def test_a_command_that_comes_too_late_ends_the_match_whoever_looks_after_the_clocks(own_server: Server) -> None:
    """Here another process is to look after them, and never does."""
    ann, bob = await register(own_server.url, "Ann"), await register(own_server.url, "Bob")
    with closing(sqlite3.connect(own_server.database)) as database:
        database.execute("UPDATE pulse SET holder = 'another', until = '2999-01-01T00:00:00.000000Z'")
        database.commit()
    match_id = await started(ann, bob, "reserve: 0, delay: 4")
    deadline = at((await ann.match(match_id, CLOCK))["clock"]["deadline"])
    async with asyncio.timeout(30):
        while (refused := await ann.command("roll", f'matchId: "{match_id}"'))["code"] == "ALREADY_ROLLED":
            pass
    assert (refused["code"], refused["message"]) == ("TIME_IS_UP", "white's time has run out")
    assert (await ann.command("roll", f'matchId: "{match_id}"'))["code"] == "MATCH_OVER"
    match = await ann.match(match_id, "winner updatedAt")
    assert match["winner"] == "BLACK"
    assert at(match["updatedAt"]) >= deadline
    assert [event["kind"] for event in await ann.log(match_id)].count("timed_out") == 1
    for client in (ann, bob):
        await client.close()
