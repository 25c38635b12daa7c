"""The load of tests/bench, for a moment: nothing fails, and nothing of it is left in the processes."""

from infra.database import READERS
from tests.bench.load import put
from tests.server import Server


async def test_a_load_with_cut_lines_is_proven_and_leaves_nothing_behind(pair: list[Server]) -> None:
    """`put` proves that each watcher has seen each event once, in order, and each is of one command."""
    outcome = await put(
        [server.base for server in pair],
        matches=10,
        watchers=40,
        rate=60,
        seconds=4,
        settings={"length": 1},
        cuts=25,
        every=1,
    )
    assert dict(outcome.load.losses) == {}
    assert dict(outcome.watched.cut_by_them) == {}
    assert outcome.watched.cut_by_us > 50
    assert outcome.events > 200
    [(_, before), *_, (_, after)] = outcome.samples
    assert after.watchers == after.audiences == after.matches == 0
    assert after.tasks - before.tasks <= outcome.idle + len(pair), "connections, and who is asked"
    assert after.files - before.files <= outcome.idle + len(pair) * (READERS + 2), "connections, and the database's"
