"""Backup while it is played, restore, verification of a whole store, and players who are forgotten."""

import asyncio
import random
import re
import shutil
import sqlite3
import stat
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.client import Client, play_out, register
from tests.postgres import PostgresServer
from tests.server import Server, run_videau

Guest = Callable[[str], Awaitable[Client]]


class Attentive(Server):
    """A server that asks more often what players are called, and whether what goes on still may."""

    program = (
        "-c",
        "from service import auth, cli, table; table.NAME_SECONDS = auth.RECHECK_SECONDS = 0.2; cli.main()",
    )


async def begun(url: str, length: int = 3) -> tuple[str, Client, Client]:
    white, black = await register(url, "Ann"), await register(url, "Bob")
    match_id = await white.create(f"{{length: {length}}}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    return match_id, white, black


async def test_a_backup_is_made_while_it_is_played_and_goes_on_where_it_stood(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    server, copy = Server(first), second / "videau.db"
    server.start()
    match_id, ann, bob = await begun(server.url, 25)
    playing = asyncio.create_task(play_out(random.Random(5), match_id, ann, bob))
    while (await ann.match(match_id, "version"))["version"] < 40:
        await asyncio.sleep(0.01)
    made = await asyncio.to_thread(server.videau, "backup", str(copy))
    assert made.returncode == 0, made.stderr
    checked = await asyncio.to_thread(server.videau, "verify", "--all")
    assert (checked.returncode, checked.stdout) == (0, "1 matches: 0 problems\n"), "also while it is played"
    for file in first.glob("videau.db*"):
        assert not stat.S_IMODE(file.stat().st_mode) & 0o007, f"{file} is for others on the machine"
    names = ["videau.db", "videau.db.secret", "videau.db.dice-secret", "videau.db.signing-key"]
    assert made.stdout.split() == [str(second / name) for name in names]
    assert {stat.S_IMODE((second / name).stat().st_mode) for name in names} == {0o600}
    playing.cancel()
    with suppress(asyncio.CancelledError):
        await playing
    original = await ann.log(match_id)
    server.kill()
    checked = run_videau("verify", "--all", "--database", f"sqlite:///{copy}")
    assert (checked.returncode, checked.stdout) == (0, "1 matches: 0 problems\n"), checked.stderr
    restored = Server(second)
    restored.start()
    for client in (ann, bob):
        client.url = restored.url
    kept = await ann.log(match_id)
    assert 40 <= len(kept) <= len(original)
    assert kept == original[: len(kept)], "the log up to one moment"
    match = await play_out(random.Random(6), match_id, ann, bob, turns=20)
    assert match["version"] > len(kept)
    proven = await ann.match(match_id, "fairness { whole provenRolls rolls }")
    assert proven["fairness"]["whole"]
    assert proven["fairness"]["provenRolls"] == proven["fairness"]["rolls"], "the dice go on from the same chain"
    assert restored.stop() == ""
    for client in (ann, bob):
        await client.close()


async def test_a_backup_replaces_nothing(server: Server, tmp_path: Path) -> None:
    await (await register(server.url, "Ann")).close()
    for name in ("there.db", "beside.db.dice-secret"):
        (tmp_path / name).write_text("precious")
        refused = server.videau("backup", str(tmp_path / name.removesuffix(".dice-secret")))
        assert refused.returncode == 1
        assert "is there already: a backup replaces nothing" in refused.stderr
        assert (tmp_path / name).read_text() == "precious"
    assert not list(tmp_path.glob("*unfinished"))
    nowhere = server.videau("backup", str(tmp_path / "no" / "such.db"))
    assert nowhere.returncode == 1
    assert nowhere.stderr.splitlines()[-1].startswith("videau: cannot copy")


def test_other_databases_are_told_what_to_do(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.create_database()
    for database, told in ((url, "pg_dump"), (f"sqlite:///{tmp_path / 'none.db'}", "there is no database")):
        refused = run_videau("backup", str(tmp_path / "copy.db"), "--database", database)
        assert refused.returncode == 1
        assert told in refused.stderr


TAMPERED = {
    # a statement about one match, and what is told
    "an event": (
        "UPDATE events SET event = replace(event, 'true', 'false') WHERE seq = 4 AND match_id = ?",
        "wrong from",
    ),
    "a hash": ("UPDATE events SET hash = '00' WHERE seq = 4 AND match_id = ?", "wrong from seq 4"),
    "a row": ("UPDATE matches SET white_score = 2 WHERE id = ?", "lists say something else"),
    "a row that is behind": ("UPDATE matches SET version = version - 1 WHERE id = ?", "lists say something else"),
    "a row that is ahead": ("UPDATE matches SET version = version + 5 WHERE id = ?", "lists say something else"),
    "a log that lacks its end": (
        "DELETE FROM events WHERE match_id = ?1 AND seq = (SELECT max(seq) FROM events WHERE match_id = ?1)",
        "lists say something else",
    ),
    "a feed without a position": ("DELETE FROM feed WHERE ? > ''", "has lost the position of its feed"),
    "a row without a log": ("DELETE FROM events WHERE match_id = ?", "there is no log"),
    "a feed that ends too early": ("UPDATE feed SET position = position - 1 WHERE ? > ''", "and there is an event at"),
    "a feed that lacks an event": ("DELETE FROM events WHERE seq = 1 AND match_id = ?", "lacks 1 events"),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with two matches, and one of them."""
    server = Server(tmp_path_factory.mktemp("stored"))
    server.start()

    async def play() -> str:
        for _ in range(2):
            match_id, ann, bob = await begun(server.url)
            await play_out(random.Random(7), match_id, ann, bob, turns=6)
            for client in (ann, bob):
                await client.close()
        return match_id

    match_id = asyncio.run(play())
    assert server.stop() == ""
    return server.database, match_id


@pytest.mark.parametrize(("statement", "told"), TAMPERED.values(), ids=TAMPERED.keys())
def test_a_store_is_verified_as_a_whole(stored: tuple[Path, str], tmp_path: Path, statement: str, told: str) -> None:
    database, match_id = stored
    copy = f"sqlite:///{tmp_path / 'copy.db'}"
    for file in database.parent.glob("videau.db*"):
        shutil.copy(file, tmp_path / file.name.replace("videau.db", "copy.db"))
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        assert connection.execute(statement, [match_id]).rowcount > 0
        connection.commit()
    checked = run_videau("verify", "--all", "--database", copy)
    assert checked.returncode == 1
    assert told in checked.stderr
    assert re.fullmatch(r"[12] matches: [12] problems\n", checked.stdout)
    assert "Traceback" not in checked.stderr


async def test_a_player_is_forgotten_and_the_log_stays_whole(tmp_path: Path) -> None:
    server = Attentive(tmp_path)
    server.start()
    match_id, ann, bob = await begun(server.url, 1)
    await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH, idempotencyKey: "ann\'s key"')
    fields = "white { player { id name } } black { player { name } }"
    assert (await bob.match(match_id, fields))["white"]["player"] == {"id": ann.player_id, "name": "Ann"}
    waiting = await ann.create("{length: 3}")
    assert server.videau("forget", "nobody").returncode == 1
    socket, other = await ann.open_socket(), await bob.open_socket()
    done = server.videau("forget", ann.player_id or "")
    assert done.returncode == 0, done.stderr
    async with asyncio.timeout(15):
        while (await bob.match(match_id, fields))["white"]["player"]["name"]:
            await asyncio.sleep(0.05)
    assert (await bob.match(match_id, fields))["black"]["player"] == {"name": "Bob"}
    async with asyncio.timeout(15):
        while (await bob.match(waiting))["phase"] != "CANCELLED":
            await asyncio.sleep(0.05)
    refused = await ann.post("{ me { id } }")
    assert refused["errors"][0]["extensions"]["code"] == "TOKEN_INVALID"
    with pytest.raises(ConnectionClosed) as closed:
        await asyncio.wait_for(socket.recv(), 15)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.reason.startswith("TOKEN_INVALID"), "what was open goes on no longer"
    await other.send('{"type": "ping"}')
    assert await asyncio.wait_for(other.recv(), 15) == '{"type":"pong"}'
    await other.close()
    checked = server.videau("verify", "--all")
    assert (checked.returncode, checked.stdout) == (0, "2 matches: 0 problems\n"), checked.stderr
    with closing(sqlite3.connect(server.database)) as database:
        dump = "\n".join(database.iterdump())
    assert "Ann" not in dump
    assert "ann's key" not in dump.replace("''", "'")
    assert server.stop() == ""
    for client in (ann, bob):
        await client.close()
