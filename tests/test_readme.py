"""The README does what it says: its tour, pasted into a shell, works from the first line to the last."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import Server, Typed

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    running = Typed(tmp_path)
    running.start()
    yield running
    running.kill()


def blocks(heading: str) -> list[str]:
    """The fenced blocks below a heading."""
    chapter = re.search(rf"^## {heading}\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    assert chapter
    return re.findall(r"^```sh\n(.*?)^```", chapter[1], re.MULTILINE | re.DOTALL)


def test_run_and_test_are_one_command_line_each() -> None:
    for heading in ("Run", "Test"):
        [block] = blocks(heading)
        assert block.count("\n") == 1


def test_the_tour_works_when_pasted(own_server: Server) -> None:
    tour = "".join(blocks("Tour"))
    tour = tour.replace("http://127.0.0.1:8000/graphql", own_server.url)
    tour = tour.replace('PYTHON=".tools/bin/uv run --no-default-groups python"', f'PYTHON="{sys.executable}"')
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", tour],
        env=own_server.env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"errors"' not in done.stdout, done.stdout
    for said in (
        '"phase":"TO_PLAY","toAct":"WHITE","dice":[3,1]',
        '{"notation":"8/5 6/5","moves":[[8,5],[6,5]]}',
        '{"from":8,"to":4,"dice":"3+1","hit":false,"moves":[[8,5],[5,4]]}',
        '{"code":"NOT_THAT_DIE","message":"6/2: ',
        '"offer":{"by":"WHITE"}',
        '"cube":{"value":2,"owner":"BLACK"},"dice":[5,2],"toAct":"WHITE"',
        '"winner":"BLACK","black":{"score":5}',
        "'kind': 'resigned'",
        "white gives up the match; black wins 5, and the score is 0-5: black has won the match",
        "are whole and legal; black has won",
        "rolls are proven by the chain",
        "head: signed by ",
        " 5 point match",
        '"new":true',
        "white to play 31",
    ):
        assert said in done.stdout, done.stdout
    answers = [json.loads(line) for line in done.stdout.splitlines() if '"roll":' in line]
    assert len(answers) == 2
    assert answers[0] == answers[1]


def test_a_game_of_ones_own_is_registered_as_it_is_pasted(own_server: Server, tmp_path: Path) -> None:
    """With the functions of the tour, in an empty folder."""
    functions = blocks("Tour")[0].replace("http://127.0.0.1:8000/graphql", own_server.url)
    functions = functions.replace('PYTHON=".tools/bin/uv run --no-default-groups python"', f'PYTHON="{sys.executable}"')
    [own] = blocks("Your game's own users")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'{functions}\nVIDEAU="$PYTHON -m service"\n{own}'],
        env={**own_server.env, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for said in ('"name":"Cleo","app":"studio.example","bot":false', '"phase":"WAITING"', "studio.example: its tokens"):
        assert said in done.stdout, done.stdout


def test_every_code_of_the_readme_is_one_and_every_one_is_there() -> None:
    from service.errors import ErrorCode

    named = re.search(r"`extensions\.code`: `(.*?)`", README, re.DOTALL)
    assert named
    assert set(named[1].split()) == {code.value for code in ErrorCode}
