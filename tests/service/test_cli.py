"""The command line: what it prints, and that every failure is one clear line on stderr and a non-zero exit code."""

import json
import os
import pty
import re
import select
import socket
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.client import Client, register
from tests.server import Server, run_videau

ROOT = Path(__file__).parents[2]


async def scripted(white: Client, black: Client) -> str:
    """A match in which black drops white's double on its second turn, and one more game is begun."""
    dice = "[[3, 1], [6, 4], [5, 2], [6, 6]]"
    match_id = await white.create(f"{{length: 5, sandbox: {{dice: {dice}}}}}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    for client, verb, more in (
        (white, "move", 'play: {notation: "8/5 6/5"}'),
        (black, "roll", ""),
        (black, "move", 'play: {notation: "24/14"}'),
        (white, "double", ""),
        (black, "refuse", ""),
    ):
        await client.happens(verb, f'matchId: "{match_id}" {more}')
    return match_id


@pytest.fixture
async def match_id(server: Server, guest) -> str:
    return await scripted(await guest("Ann"), await guest("Bob"))


async def test_replay_tells_the_match_with_boards_scores_and_cube(server: Server, match_id: str) -> None:
    told = server.videau("replay", match_id)
    assert (told.returncode, told.stderr) == (0, "")
    for line in (
        "a match to 5 points",
        "game 1: white opens with 31",
        "white: 8/5 6/5",
        "black rolls 64",
        "black: 24/14",
        "white doubles to 2",
        "black refused the double; white wins 1, and the score is 1-0",
        "game 2: white opens with 52",
        "X white: 1 points, 163 pips, 0 off",
        "cube 1, centred",
    ):
        assert line in told.stdout


async def test_replay_at_a_number_shows_that_board_alone(server: Server, match_id: str) -> None:
    """After 8/5 6/5 white has made its 5 point; drawn from white's side, X moving down to 1."""
    told = server.videau("replay", match_id, "--at", "5")
    assert told.stdout.splitlines() == [
        "   5  white: 8/5 6/5",
        " +13-14-15-16-17-18------19-20-21-22-23-24-+  5-point match",
        " | X           O    |   | O              X |  O black: 0 points, 167 pips, 0 off",
        " | X           O    |   | O              X |",
        " | X           O    |   | O                |",
        " | X                |   | O                |",
        " | X                |   | O                |",
        " |                  |BAR|                  |  cube 1, centred",
        " | O                |   |                  |  black on roll",
        " | O                |   | X                |",
        " | O                |   | X                |",
        " | O           X    |   | X  X           O |",
        " | O           X    |   | X  X           O |  X white: 0 points, 163 pips, 0 off",
        " +12-11-10--9--8--7-------6--5--4--3--2--1-+",
    ]


async def test_export_and_verify_agree(server: Server, match_id: str, tmp_path: Path) -> None:
    exported = server.videau("export", match_id)
    lines = exported.stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert json.loads(lines[0])["event"]["match"] == match_id
    log = tmp_path / "log.ndjson"
    log.write_text(exported.stdout)
    for what in (match_id, str(log)):
        verified = server.videau("verify", what)
        assert verified.returncode == 0
        assert f"{len(lines)} events of match {match_id} are whole and legal; not finished" in verified.stdout


async def test_verify_says_the_first_number_that_is_wrong_and_why(
    server: Server, match_id: str, tmp_path: Path
) -> None:
    lines = server.videau("export", match_id).stdout.splitlines()
    log = tmp_path / "log.ndjson"
    log.write_text("\n".join([*lines[:4], lines[4].replace("[8,5]", "[8,4]"), *lines[5:]]))
    verified = server.videau("verify", str(log))
    assert verified.returncode == 1
    assert "wrong from seq 5 on: its hash does not follow" in verified.stderr


async def test_verify_finds_an_edit_in_the_database(own_server: Server) -> None:
    white, black = await register(own_server.url, "Ann"), await register(own_server.url, "Bob")
    match_id = await scripted(white, black)
    await white.close()
    await black.close()
    with sqlite3.connect(own_server.database) as database:
        database.execute("UPDATE events SET event = replace(event, '[8,5]', '[8,4]') WHERE seq = 5")
    verified = own_server.videau("verify", match_id)
    assert verified.returncode == 1
    assert "wrong from seq 5 on" in verified.stderr
    assert verified.stderr.count("\n") == 1


def test_schema_prints_the_committed_schema() -> None:
    printed = run_videau("schema")
    assert printed.stdout == (Path(__file__).parents[2] / "openapi" / "schema.graphql").read_text()


@pytest.mark.parametrize(
    "position",
    ["XGID=aa--BBBB----dE---d-e----AA:2:-1:1:52:3:1:0:9:10", "4PPgAVDYNvABUA:QokqARAAGAAE"],
)
def test_show_draws_a_position_of_either_notation(position: str) -> None:
    """One of RULES.md section 10's pairs: each is drawn alike, with the other beside it."""
    shown = run_videau("show", position)
    assert shown.stdout.splitlines() == [
        " +13-14-15-16-17-18------19-20-21-22-23-24-+  9-point match",
        " | X           O    | X | O              X |  O black: 1 points, 163 pips, 0 off",
        " | X           O    |   | O                |",
        " | X           O    |   | O                |",
        " | X           O    |   | O                |",
        " | X                |   | O                |",
        " |                  |BAR|                  |  cube 4, owned by black",
        " |                  |   |                  |  white to play 52",
        " | O                |   |                  |",
        " | O                |   |                  |",
        " | O              X |   | X  X  X          |",
        " | O              X | O | X  X  X        O |  X white: 3 points, 158 pips, 0 off",
        " +12-11-10--9--8--7-------6--5--4--3--2--1-+",
        "  XGID=aa--BBBB----dE---d-e----AA:2:-1:1:52:3:1:0:9:10",
        "  4PPgAVDYNvABUA:QokqARAAGAAE",
    ]


async def test_a_gnu_id_starts_a_sandbox_as_its_xgid_does(guest) -> None:
    ann = await guest("Ann")
    for start in ("XGID=aa--BBBB----dE---d-e----AA:2:-1:1:52:3:1:0:9:10", "4PPgAVDYNvABUA:QokqARAAGAAE"):
        match_id = await ann.create(f'{{sandbox: {{start: "{start}"}}}}')
        match = await ann.match(match_id, "xgid gnuPositionId gnuMatchId white { score } settings { length cubeLimit }")
        assert match["settings"] == {"length": 9, "cubeLimit": 1024}
        assert match["white"] == {"score": 3}
        await (await guest("Bob")).happens("joinMatch", f'matchId: "{match_id}"')
        joined = await ann.match(match_id, "xgid gnuPositionId gnuMatchId")
        assert joined["xgid"] == "XGID=aa--BBBB----dE---d-e----AA:2:-1:1:52:3:1:0:9:10"
        assert f"{joined['gnuPositionId']}:{joined['gnuMatchId']}" == "4PPgAVDYNvABUA:QokqARAAGAAE"


def test_import_takes_many_files_and_says_what_became_of_each(tmp_path: Path) -> None:
    """Whole or not at all; a file that is known already is said to be."""
    url = f"sqlite:///{tmp_path}/videau.db"
    matches = Path(__file__).parents[1] / "corpus" / "matches"
    files = sorted(str(file) for file in matches.glob("*.mat"))[:5] + sorted(map(str, matches.glob("*.sgf")))[:2]
    first = run_videau("import", "--database", url, *files, files[0])
    assert (first.returncode, first.stdout.splitlines()[-1]) == (0, "8 files: 1 known already, 7 new")
    assert "importing" in first.stderr
    bad = tmp_path / "bad.mat"
    bad.write_text(re.sub(r"\d\d:", "66:", Path(files[0]).read_text(), count=1))  # no game opens with a double
    again = run_videau("import", "--database", url, files[0], str(bad))
    assert again.returncode == 1
    assert again.stdout.splitlines()[-1] == "2 files: 1 known already, 1 refused"
    assert f"{bad}: refused: line " in again.stdout
    match_id = first.stdout.split(": ", 1)[1].split(",")[0]
    verified = run_videau("verify", "--database", url, match_id)
    assert "whole and legal" in verified.stdout
    assert "dice: 0 of " in verified.stdout
    assert run_videau("replay", "--database", url, match_id).stdout.count("+13-14-15-16-17-18") > 10


async def test_replay_plays_at_a_speed(server: Server, match_id: str) -> None:
    at_once = server.videau("replay", match_id)
    played = server.videau("replay", match_id, "--speed", "100")
    assert (played.returncode, played.stdout) == (0, at_once.stdout)


async def test_replay_steps_by_keys_in_a_terminal(server: Server, match_id: str) -> None:
    """A key shows the next event; q stops. A key pressed before the program waits for one is lost, so press again."""
    main_end, other_end = pty.openpty()
    command = [sys.executable, "-c", "from service.cli import main; main()", "replay", "--step", match_id]
    with subprocess.Popen(command, stdin=other_end, stdout=subprocess.PIPE, env=server.env, cwd=ROOT) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        while told.count(b"\n") < 3:
            os.write(main_end, b" ")
            if select.select([process.stdout], [], [], 0.2)[0]:
                told += os.read(process.stdout.fileno(), 10_000)
        while process.poll() is None:
            os.write(main_end, b"q")
            select.select([process.stdout], [], [], 0.2)
        told += process.stdout.read()
    assert process.returncode == 0
    numbers = [line.split()[0] for line in told.splitlines() if line[:4].strip().isdigit()]
    assert numbers == [b"%d" % n for n in range(1, len(numbers) + 1)]
    assert 3 <= len(numbers) < 10
    os.close(main_end)
    os.close(other_end)


async def test_what_excludes_each_other_is_one_line(server: Server, match_id: str) -> None:
    result = server.videau("replay", match_id, "--speed", "2", "--at", "3")
    assert one_line(result.returncode, result.stderr, "exclude each other")


def test_a_position_that_is_none_is_one_line() -> None:
    result = run_videau("show", "XGID=nonsense")
    assert one_line(result.returncode, result.stderr, "is no position: an XGID is 26 letters")


FAILURES = {
    "replay an unknown match": (("replay", "nope"), "there is no match 'nope' in "),
    "export an unknown match": (("export", "nope"), "there is no match 'nope' in "),
    "verify what is neither": (("verify", "nope"), "there is no match 'nope' in "),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_an_unknown_id_is_one_line(server: Server, failure: str) -> None:
    arguments, said = FAILURES[failure]
    result = server.videau(*arguments)
    assert one_line(result.returncode, result.stderr, said)


async def test_a_number_beyond_the_log_is_one_line(server: Server, match_id: str) -> None:
    result = server.videau("replay", match_id, "--at", "99")
    assert one_line(result.returncode, result.stderr, f"match {match_id} has 10 events; there is no 99")


def test_a_missing_database_is_one_line(tmp_path: Path) -> None:
    result = run_videau("replay", "m", "--database", f"sqlite:///{tmp_path}/videau.db")
    assert one_line(result.returncode, result.stderr, "there is no database at")


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("replay", "m"), ("export", "m"), ("verify", "m")])
def test_a_damaged_database_is_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "videau.db").write_bytes(b"no database " * 1000)
    result = run_videau(*command, "--database", f"sqlite:///{tmp_path}/videau.db")
    assert one_line(result.returncode, result.stderr, "is damaged, or not a database")


def test_a_locked_database_is_one_line(tmp_path: Path) -> None:
    """Both kinds of command at once, since each waits a while for the lock."""
    with closing(sqlite3.connect(tmp_path / "videau.db")) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("CREATE TABLE t (x)")
        option = ("--database", f"sqlite:///{tmp_path}/videau.db")
        with ThreadPoolExecutor() as threads:
            results = list(
                threads.map(lambda command: run_videau(*command, *option), [("serve", "--port", "0"), ("replay", "m")])
            )
    for result in results:
        assert one_line(result.returncode, result.stderr, "is locked by another program")


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run_videau("serve", "--port", str(port), "--database", f"sqlite:///{tmp_path}/videau.db")
    assert one_line(result.returncode, result.stderr, f"cannot serve 127.0.0.1:{port}: Address already in use")


def test_a_wrong_setting_is_one_line() -> None:
    result = run_videau("serve", env={**os.environ, "VIDEAU_PORT": "http"})
    assert one_line(result.returncode, result.stderr, "VIDEAU_PORT is 'http'")


def one_line(returncode: int, stderr: str, said: str) -> bool:
    """Whether a command failed with one line that says this."""
    assert returncode == 1, stderr
    assert stderr.startswith("videau: "), stderr
    assert stderr.count("\n") == 1, stderr
    assert said in stderr, stderr
    return True
