"""Promises 1, 3 and 4: any process serves any match, and kill -9 of it loses nothing that was acknowledged."""

import asyncio
from pathlib import Path

from tests.faults.processes import Behind, processes
from tests.faults.proof import proven
from tests.server import Server


async def test_kill_9_of_each_process_in_turn_loses_nothing(pair: list[Server]) -> None:
    await _killed_in_turn(pair, 200)


async def test_kill_9_of_each_process_over_one_file_loses_nothing(tmp_path: Path, one_file: dict[str, str]) -> None:
    async with processes(tmp_path, one_file) as servers:
        await _killed_in_turn(servers, 40)


async def _killed_in_turn(servers: list[Server], games: int) -> None:
    async with proven(servers, games, pace=games / 200) as crowd:
        for server in servers:
            await crowd.more(games // 2)
            server.kill()
            await crowd.more(games // 2)
            await asyncio.to_thread(server.start)
        await crowd.more(games // 2)
    assert sum(call.losses for call in crowd.calls) > 10
    assert sum(watcher.cuts for watcher in crowd.watchers) > games / 2


async def test_time_does_not_go_back_within_a_match_whatever_the_clocks_say(
    tmp_path: Path, pair: list[Server], shared: dict[str, str]
) -> None:
    """A third process lives five minutes behind the others; all three play every match."""
    async with processes(tmp_path, shared, [Behind]) as behind, proven([*pair, *behind], 12) as crowd:
        await crowd.more(200)
    lasted = []
    for verified in crowd.logs.values():
        times = [record.at for record in verified.records]
        assert times == sorted(times)
        lasted.append((times[-1] - times[0]).total_seconds())
    assert min(lasted) < 60, "no match began where the clock is right"
    assert max(lasted) > 240, "no match began where it is behind"
