"""A file that cannot be written, or not read: it is said in one line, nothing acknowledged is lost, and it passes."""

import asyncio
import re
import resource
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.crowd import MUTATIONS, READ, Crowd, Unavailable, choice
from tests.faults.processes import Unprivileged, processes
from tests.faults.proof import operators_token, proof, proven
from tests.server import Server


class Stored(NamedTuple):
    """A file with two matches, the second one begun when the first had been played for a while, and who played them."""

    content: bytes
    first: Crowd
    second: Crowd


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return asyncio.run(_stored(tmp_path_factory.mktemp("stored")))


async def _stored(folder: Path) -> Stored:
    file = folder / "videau.db"
    crowds = Crowd(guests=2), Crowd(guests=2)
    async with processes(folder, {"VIDEAU_DATABASE_URL": f"sqlite:///{file}"}, [Server]) as [server]:
        for crowd in crowds:
            with crowd.at([server.base]):
                await crowd.register()
                await crowd.open_games(1)
                async with crowd.playing():
                    await crowd.more(50)
        server.stop()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Stored(file.read_bytes(), *crowds)


def said(server: Server) -> set[str]:
    """The lines that a server has written for its operator, each one once, whoever has to wait for that."""
    return {re.sub("^(clocks|ratings) wait: ", "", line) for line in server.complaints.splitlines()}


async def test_a_full_disk_stops_commands_until_there_is_room_again(tmp_path: Path, one_file: dict[str, str]) -> None:
    """Files of the process can grow no further, as on a full disk; it writes no bytecode, which would be cut short."""
    async with processes(tmp_path, {**one_file, "PYTHONDONTWRITEBYTECODE": "1"}, [Server]) as [server]:
        async with proven([server], 8) as crowd:
            await crowd.more(50)
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (65_536, resource.RLIM_INFINITY))
            await crowd.until(lambda: crowd.unavailable >= 24)
            for game in crowd.games:
                assert (await crowd.read(game.id))["version"] >= game.state["version"]
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await crowd.more(100)
        assert [watcher.cuts for watcher in crowd.watchers] == [0] * 8
        [line] = said(server)
        assert re.fullmatch(r"the (disk of the )?database .*videau\.db (is full|cannot be used): .+", line)


async def test_a_read_only_file_is_served_to_readers_alone(
    tmp_path: Path, one_file: dict[str, str], stored: Stored
) -> None:
    file = tmp_path / "videau.db"
    file.write_bytes(stored.content)
    file.chmod(0o444)
    async with processes(tmp_path, one_file, [Unprivileged]) as [server]:
        crowd, [game] = stored.second, stored.second.games
        due, more = choice(game.state, crowd.chance)
        create = "createMatch", {"settings": {"length": 1}}
        with crowd.at([server.base]):
            for verb, variables in ((due, {"id": game.id, **more}), create):
                with pytest.raises(Unavailable):
                    await crowd.post(crowd.wires[0], MUTATIONS[verb], variables, game.to_act)
        [line] = said(server)
        assert re.fullmatch(r"the database .*videau\.db is read-only: .+", line)
        await proof([server.base], stored.first)
        await proof([server.base], stored.second)


async def test_a_corrupt_page_costs_the_matches_that_it_holds_and_no_others(
    tmp_path: Path, one_file: dict[str, str], stored: Stored
) -> None:
    file, hit = tmp_path / "videau.db", stored.first
    match_id = hit.games[0].id
    page = stored.content.index(f'"match":"{match_id}"'.encode()) // 4096 * 4096
    file.write_bytes(stored.content[:page] + b"\xff" * 4096 + stored.content[page + 4096 :])
    async with processes(tmp_path, one_file, [Server]) as [server]:
        with hit.at([server.base]):
            for query in (MUTATIONS["roll"], READ):
                with pytest.raises(Unavailable):
                    await hit.post(hit.wires[0], query, {"id": match_id}, hit.players[0])
            for path in (f"/matches/{match_id}/events", "/events"):
                status, body = await hit.wires[0].ask("GET", path, token=operators_token(), patience=10)
                assert (status, b"UNAVAILABLE" in body) == (503, True)
        await proof([server.base], stored.second, fed=False)
        with (crowd := Crowd(guests=2)).at([server.base]):
            await crowd.register()
            await crowd.open_games(2)
            async with crowd.playing():
                await crowd.more(50)
        await proof([server.base], crowd, fed=False)
        [line] = said(server)
        assert re.fullmatch(r"the database .*videau\.db is damaged, or not a database: .+", line)
        server.stop()
        with file.open("r+b") as mended:
            mended.seek(page)
            mended.write(stored.content[page : page + 4096])
        server.start()
        await proof([server.base], hit)
