"""No seek is paired twice, whoever seeks where."""

import asyncio
from collections import Counter

from tests.client import register
from tests.server import Server
from tests.service.test_lobby import seek


async def test_five_hundred_at_two_processes_are_each_paired_once(pair: list[Server]) -> None:
    """Over PostgreSQL and Redis, all at once, of seven kinds: whoever is paired plays one match, and nobody is left
    over but one of a kind."""
    players = await asyncio.gather(*(register(pair[n % 2].url, f"P{n}") for n in range(500)))
    answers = await asyncio.gather(*(seek(player, f"length: {n % 7 + 1}") for n, player in enumerate(players)))

    async def now(n: int) -> str | None:
        found = (await players[n].ask(f'{{ seek(id: "{answers[n]["id"]}") {{ matchId }} }}'))["seek"]
        match_id: str | None = found["matchId"]
        return match_id

    matches = await asyncio.gather(*(now(n) for n in range(500)))
    seats = Counter(match_id for match_id in matches if match_id)
    assert set(seats.values()) == {2}, "each match has the two whose seeks name it"
    left = [n % 7 for n in range(500) if matches[n] is None]
    assert len(left) == len(set(left)), "two of one kind were left over"
    for match_id in seats:
        both = {players[n].player_id for n in range(500) if matches[n] == match_id}
        found = await players[0].match(match_id, "settings { length } white { player { id } } black { player { id } }")
        assert {found["white"]["player"]["id"], found["black"]["player"]["id"]} == both
        assert {n % 7 + 1 for n in range(500) if matches[n] == match_id} == {found["settings"]["length"]}
    await asyncio.gather(*(player.close() for player in players))
