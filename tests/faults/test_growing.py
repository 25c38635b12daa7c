"""What k8s/GROWING.md says of PostgreSQL, done while they play and watch."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from infra.log import encode_time
from infra.migrations import migrate
from infra.settings import Settings
from tests.client import Client
from tests.faults.processes import processes
from tests.faults.proof import proven
from tests.faults.watchers import Watcher, caught_up
from tests.postgres import PostgresServer
from tests.server import Server, run_videau

GROWING = Path(__file__).parents[2] / "k8s" / "GROWING.md"


def statements(*, begin: datetime) -> list[str]:
    """Those of the page, with a month that begins at this moment."""
    [block] = re.findall(r"^```sql\n(.*?)^```", GROWING.read_text(), re.MULTILINE | re.DOTALL)
    text = re.sub(r"--.*", "", block)
    for month, moment in (("2027-01", begin), ("2027-02", begin + timedelta(days=31))):
        text = text.replace(f"'{month}'", f"'{encode_time(moment)}'")
    return [each.strip() for each in text.split(";\n") if each.strip()]


async def test_who_may_only_read_serves_all_but_commands(
    tmp_path: Path, own_postgres: PostgresServer, shared: dict[str, str]
) -> None:
    """A process over a replica, which is a database that takes no writes: it is watched without a gap."""
    url = own_postgres.create_database()
    migrate(Settings(database_url=url).url)
    replica = {**shared, "VIDEAU_DATABASE_URL": f"{url}?options=-c%20default_transaction_read_only%3Don"}
    async with (
        processes(tmp_path / "a", {**shared, "VIDEAU_DATABASE_URL": url}, [Server]) as servers,
        processes(tmp_path / "b", replica, [Server]) as [reading],
        proven(servers, 8) as crowd,
    ):
        for number, game in enumerate(crowd.games):
            crowd.watch(Watcher(game.id, [reading.base], by_sse=number % 2 == 0))
        await crowd.more(100)
        await caught_up(crowd.watchers, crowd.versions)
        game = crowd.games[0]
        client = Client(reading.url, game.white.token)
        assert (await client.match(game.id))["id"] == game.id
        refused = await client.post("mutation { createMatch(settings: {length: 1}) { __typename } }")
        assert [error["extensions"]["code"] for error in refused["errors"]] == ["UNAVAILABLE"]
        await client.close()
        async with httpx2.AsyncClient(base_url=reading.base, verify=False) as http:
            told = [(await http.get("/metrics")).text for _ in range(50)]
        assert {"videau_database_answering 1.0" in text for text in told} == {True}, "no alert: it may only be read"
    assert [watcher.cuts for watcher in crowd.watchers] == [0] * 16


async def test_events_are_partitioned_by_month_while_they_play(
    tmp_path: Path, own_postgres: PostgresServer, shared: dict[str, str]
) -> None:
    """No command fails, nobody who watches is cut off, and both partitions are written to; then all is whole."""
    url = own_postgres.create_database()
    migrate(Settings(database_url=url).url)
    env = {**shared, "VIDEAU_DATABASE_URL": url}

    def partition() -> None:
        with own_postgres.connect(urlsplit(url).path[1:]) as connection:
            for statement in statements(begin=datetime.now(UTC) + timedelta(seconds=2)):
                connection.execute(statement.encode())

    def counted() -> list[int]:
        with own_postgres.connect(urlsplit(url).path[1:]) as connection:
            tables = ("events_before_2027_01", "events_2027_01", "events_later")
            return [connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()[0][0] for table in tables]

    async with processes(tmp_path, env) as servers:
        async with proven(servers, 16) as crowd:
            await crowd.more(50)
            await asyncio.to_thread(partition)
            async with asyncio.timeout(30):
                while (await asyncio.to_thread(counted))[1] < 50:
                    await crowd.more(20)
        assert crowd.unavailable == 0
        assert [watcher.cuts for watcher in crowd.watchers] == [0] * 16
        before, _, later = counted()
        assert before > 50
        assert later == 0
        checked = await asyncio.to_thread(run_videau, "verify", "--all", env=servers[0].env)
        assert (checked.returncode, checked.stdout) == (0, "16 matches: 0 problems\n"), checked
        doctor = await asyncio.to_thread(run_videau, "doctor", env=servers[0].env)
        assert "ok     schema" in doctor.stdout
