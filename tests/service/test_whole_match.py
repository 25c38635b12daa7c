"""Two programs play whole matches over real sockets while a third one watches."""

import asyncio
import random
from contextlib import aclosing
from pathlib import Path
from typing import Any

from domain.rules import fold
from infra.log import verify
from tests.client import EVENT, STATE, Client, play_out, register
from tests.node import node
from tests.server import Server


async def watch_with_drops(client: Client, match_id: str, chance: random.Random) -> tuple[list[dict[str, Any]], int]:
    """All events that a watcher sees which drops its socket now and then, and how often it did."""
    seen: list[dict[str, Any]] = []
    drops = 0
    while True:
        patience = chance.randint(5, 60) if drops >= 3 else chance.randint(1, 3)
        async with aclosing(client.watch(match_id, after=seen[-1]["seq"] if seen else 0)) as events:
            async for event in events:
                seen.append(event)
                patience -= 1
                if not patience:
                    drops += 1
                    break
            else:
                return seen, drops


async def test_a_match_to_five_points_is_played_watched_and_replayed(server: Server, guest, anonymous: Client) -> None:
    """DESIGN.md promises 1 and 4, over HTTP and websockets."""
    chance = random.Random(5)
    white, black = await guest("Ann"), await guest("Bob")
    match_id = await white.create("{length: 5}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    watching = asyncio.create_task(watch_with_drops(anonymous, match_id, chance))

    final = await play_out(chance, match_id, white, black)
    seen, drops = await asyncio.wait_for(watching, 30)

    log = await anonymous.log(match_id)
    assert [event["seq"] for event in log] == list(range(1, final["version"] + 1))
    assert seen == log
    assert drops >= 3
    assert max(final["white"]["score"], final["black"]["score"]) == 5

    exported = server.videau("export", match_id)
    verified = verify(exported.stdout.encode().splitlines())
    match = verified.match
    assert len(verified.records) == len(log)
    assert fold(recorded.event for recorded in verified.records) == match
    assert verified.proven == match.rolls
    theirs = node(str(Path(__file__).parents[1] / "fairness.js"), given=exported.stdout.encode())
    assert theirs.stdout.decode() == f"whole: {match.rolls} of {match.rolls} rolls proven, head signed\n"
    assert match.winner is not None
    assert match.winner.name == final["winner"]
    assert [list(match.board.white), list(match.board.black)] == [
        final["white"]["checkers"],
        final["black"]["checkers"],
    ]
    told = server.videau("replay", match_id)
    assert told.returncode == 0
    assert told.stdout.rstrip().count("has won the match") >= 1


async def test_a_match_survives_kill_9_in_the_middle(own_server: Server) -> None:
    """DESIGN.md promises 1 and 3: what was answered is there, and play goes on where it stood."""
    chance = random.Random(9)
    white, black = await register(own_server.url, "Ann"), await register(own_server.url, "Bob")
    match_id = await white.create("{length: 3}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    for _ in range(3):
        before = await play_out(chance, match_id, white, black, turns=12)
        state, log = await white.match(match_id, STATE), await white.log(match_id)
        own_server.kill()
        own_server.start()
        assert await white.match(match_id, STATE) == state
        assert await white.log(match_id) == log
        assert state["version"] >= before["version"]
    final = await play_out(chance, match_id, white, black)
    assert final["phase"] == "OVER"
    await asyncio.gather(white.close(), black.close())


async def test_a_command_cut_off_by_kill_9_happened_whole_or_not_at_all(own_server: Server) -> None:
    """Promise 3: commands in flight when the server dies; sent again with their keys, each takes effect once."""
    guests = await asyncio.gather(*(register(own_server.url, f"guest {n}") for n in range(20)))
    tasks = [
        asyncio.create_task(client.command("createMatch", f'settings: {{length: 1}} idempotencyKey: "{n}-{i}"'))
        for n, client in enumerate(guests)
        for i in range(10)
    ]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    own_server.kill()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    acknowledged = {
        (n // 10, n % 10): answer["match"]["id"]
        for n, answer in enumerate(results)
        if not isinstance(answer, BaseException)
    }
    assert acknowledged
    assert len(acknowledged) < len(tasks), "the server died too late to cut anything off"
    own_server.start()
    for (n, _), match_id in acknowledged.items():
        assert (await guests[n].match(match_id))["version"] == 2
    for n, client in enumerate(guests):
        ids = [
            (await client.happens("createMatch", f'settings: {{length: 1}} idempotencyKey: "{n}-{i}"'))["match"]["id"]
            for i in range(10)
        ]
        assert len(set(ids)) == 10
        assert all(ids[i] == match_id for (m, i), match_id in acknowledged.items() if m == n)
        query = "query($p: ID) { matches(first: 100, filter: {player: $p}) { edges { node { id version } } } }"
        found = (await client.ask(query, p=client.player_id))["matches"]["edges"]
        assert sorted(edge["node"]["id"] for edge in found) == sorted(ids)
        assert {edge["node"]["version"] for edge in found} == {2}
        await client.close()


async def test_every_event_carries_the_match_after_it(server: Server, guest, anonymous: Client) -> None:
    """What a watcher sees with an event is what time travel to its number gives."""
    white, black = await guest("Ann"), await guest("Bob")
    match_id = await white.create("{length: 1}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    await play_out(random.Random(1), match_id, white, black)
    fields = f"{EVENT} match {{ {STATE} }}"
    async with aclosing(anonymous.watch(match_id, 0, fields)) as events:
        seen = [event async for event in events]
    for event in seen[:: max(1, len(seen) // 25)]:
        assert event["match"] == await anonymous.match(match_id, STATE, version=event["seq"])
        assert event["match"]["hash"] == event["hash"]
    assert seen[-1]["match"]["phase"] == "OVER"
