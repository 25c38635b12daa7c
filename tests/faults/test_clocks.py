"""Clocks and presence when processes die, all of them or one."""

import asyncio
import json
import re
import sqlite3
from contextlib import aclosing, closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2

from tests.client import Client, register
from tests.faults.processes import SECRETS, no_traceback
from tests.server import Server
from tests.service.test_clocks import CLOCK, at, started
from tests.service.test_websocket import acknowledged, subscribe

NOTICES = """subscription($id: ID!) { matchNotices(matchId: $id) { ... on PresenceNotice { color presence { present
awaySince } } } }"""


class Later(Server):
    """A process to which an hour has gone by."""

    program = ("-m", "tests.faults.shifted", "3600")


async def test_nobody_loses_by_time_that_only_an_outage_took(tmp_path: Path) -> None:
    """Killed in the middle of a turn, and started again an hour later: the turn has as long as it had."""
    server = Server(tmp_path, **SECRETS)
    server.start()
    ann, bob = await register(server.url, "Ann"), await register(server.url, "Bob")
    quick = await started(ann, bob, "reserve: 1, delay: 3")
    slow = await started(ann, bob, "reserve: 100, delay: 0")
    untimed = await ann.create("{length: 1}")
    await bob.happens("joinMatch", f'matchId: "{untimed}"')
    version = (await ann.match(untimed, "version"))["version"]
    server.kill()
    later = Later(tmp_path, **SECRETS)
    later.start()
    with no_traceback([later]):
        for client in (ann, bob):
            client.url = later.url
        async with (
            asyncio.timeout(20),
            aclosing(bob.watch(quick, fields="seq at kind ... on Resumed { lost }")) as seen,
        ):
            events = [event async for event in seen]
        assert [event["kind"] for event in events[-2:]] == ["resumed", "timed_out"]
        began, resumed, ended = (at(events[n]["at"]) for n in (-3, -2, -1))
        assert 3540 < events[-2]["lost"] < 3660, "the hour, and what starting took"
        own = (ended - began).total_seconds() - events[-2]["lost"]
        assert 4 <= own < 30, "its own time, and no more than a look late"
        assert resumed > began
        match = await ann.match(slow, CLOCK)
        left = (at(match["clock"]["deadline"]) - at(match["updatedAt"])).total_seconds()
        assert 60 < left <= 100, "nothing has happened there, and its time was given back too"
        answer = await ann.happens("move", f'matchId: "{slow}" play: {{notation: "8/5 6/5"}}')
        assert answer["match"]["toAct"] == "BLACK"
        assert (await ann.match(untimed, "version"))["version"] == version, "what has no clock gets nothing back"
        for match_id in (quick, slow):
            verified = later.videau("verify", match_id)
            assert verified.returncode == 0, verified.stderr
    with closing(sqlite3.connect(tmp_path / "videau.db")) as database:
        outages = database.execute("SELECT began, ended FROM outages").fetchall()
    assert len(outages) == 1
    later.kill()
    for client in (ann, bob):
        await client.close()


async def _holder(servers: list[Server]) -> Server:
    """The process that looks after the clocks."""
    async with httpx2.AsyncClient() as http, asyncio.timeout(30):
        while True:
            for server in servers:
                told = (await http.get(f"{server.base}/metrics")).text
                if re.search(r"^videau_clocks_held 1", told, re.MULTILINE):
                    return server


async def test_each_clock_falls_once_whoever_dies(pair: list[Server]) -> None:
    """Thirty players run out of time while the process that looks after the clocks is killed; the other one goes on.
    And who was connected to the dead process is away."""
    holder = await _holder(pair)
    other = next(server for server in pair if server is not holder)
    ann, bob, eve = [await register(other.url, name) for name in ("Ann", "Bob", "Eve")]
    watched = await ann.create("{length: 1}")
    await bob.happens("joinMatch", f'matchId: "{watched}"')
    bob_there = await Client(holder.url, bob.token, bob.player_id).open_socket()
    await subscribe(bob_there, "1", "subscription($id: ID!) { matchEvents(matchId: $id) { seq } }", id=watched)
    async with acknowledged(other.url, eve.token) as socket:
        await subscribe(socket, "1", NOTICES, id=watched)
        assert await _told(socket, present=True) == "BLACK"
        matches = [await started(ann, bob, f"reserve: {n % 6}, delay: 2") for n in range(30)]
        deadlines = [at((await ann.match(match_id, CLOCK, 4))["clock"]["deadline"]) for match_id in matches]
        holder.kill()
        assert await _told(socket, present=False) == "BLACK"
    async with asyncio.timeout(60):
        for match_id, deadline in zip(matches, deadlines, strict=True):
            while (match := await ann.match(match_id, "phase updatedAt"))["phase"] != "OVER":
                await asyncio.sleep(0.1)  # until the other one has noticed
            late = at(match["updatedAt"]) - deadline
            assert timedelta(0) <= late < timedelta(seconds=30), late
            kinds = [event["kind"] for event in await ann.log(match_id)]
            assert kinds.count("timed_out") == 1
    await bob_there.close()
    for client in (ann, bob, eve):
        await client.close()


async def _told(socket: Any, *, present: bool) -> str:
    """The colour of the next player who is told to be there, or away."""
    async with asyncio.timeout(40):
        while True:
            notice = (json.loads(await socket.recv()))["payload"]["data"]["matchNotices"]
            if notice["presence"]["present"] is present:
                assert present or datetime.fromisoformat(notice["presence"]["awaySince"])
                color: str = notice["color"]
                return color
