"""GNU Backgammon loads what is written here, and tells the same match.

It runs as a program of its own, once for all matches.
"""

import os
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from domain.events import Created, Event, Moved, Stake
from domain.mat import read_mat, write_mat
from domain.plays import legal_plays
from domain.rules import evolve
from domain.sgf import read_sgf, write_sgf
from tests.domain.matchfiles import MATCHES, as_files_tell, text_of
from tests.domain.test_random_play import PLAYED, whole_match

pytestmark = pytest.mark.gnubg

NAMES = ("Zoë; 1) 31: 8/5 " + "ü" * 500, "Wins; point match")
KINDS = [name for name in PLAYED if not re.match("from|.*automatic|.*without Crawford", name)]
"""Without what cannot be written, and without what the program has no setting for in a file."""


class Told(NamedTuple):
    """One match as it is here, and what the program wrote after it had loaded it from .mat and from .sgf."""

    events: Sequence[Event]
    mat_from_mat: str
    mat_from_sgf: str
    sgf_from_mat: str


def is_told_otherwise(events: Sequence[Event]) -> bool:
    """Whether the program tells this match in its own way.

    It knows nothing of giving up a match. A roll that leaves no choice it plays, although the game was given up.
    """
    match, resigned_at = None, []
    for event in events:
        before, match = match, evolve(match, event)
        given_up = before and len(match.results) > len(before.results) and not isinstance(event, Moved)
        if before and given_up and before.dice and before.turn:
            resigned_at.append(len(legal_plays(before.board, before.turn, before.dice)))
    assert match is not None
    return match.results[-1].stake is Stake.MATCH or 1 in resigned_at


def played() -> dict[str, Sequence[Event]]:
    """The corpus, and matches played by chance."""
    matches: dict[str, Sequence[Event]] = {}
    for file in MATCHES:
        matches[file.removesuffix(".mat")] = read_mat(text_of(file), "m", "ann", "bob").events
    for kind, name in enumerate(KINDS):
        for seed in range(8):
            events = whole_match(PLAYED[name], random.Random(f"gnubg {name} {seed}")).events
            if not is_told_otherwise(events):
                matches[f"random_{kind}_{seed}"] = events
    return matches


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    program = shutil.which("gnubg", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/games"]))
    if program is None:
        pytest.fail(
            "these tests need GNU Backgammon: install it (Debian and Ubuntu: `apt install gnubg`), or leave "
            "them out with `--deselect tests/domain/test_gnubg.py`"
        )
    folder, home = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("home")
    matches = played()
    commands = ["set confirm new off", "set confirm save off", "set player 0 human", "set player 1 human"]
    commands += ["set automatic game off", "set automatic roll off", "set cube use on"]
    for name, events in matches.items():
        jacoby = events[0].settings.jacoby if isinstance(events[0], Created) else False
        (folder / f"{name}.mat").write_text(write_mat(events, NAMES), encoding="utf-8")
        (folder / f"{name}.sgf").write_text(write_sgf(events, NAMES), encoding="utf-8")
        commands += [
            f"set jacoby {'on' if jacoby else 'off'}",
            f"import mat {folder / name}.mat",
            f"export match mat {folder / name}.mat.mat",
            f"save match {folder / name}.mat.sgf",
            f"load match {folder / name}.sgf",
            f"export match mat {folder / name}.sgf.mat",
        ]
    script = folder / "commands"
    script.write_text("\n".join([*commands, "quit", "y", ""]), encoding="utf-8")
    environment = {"HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"}
    subprocess.run(
        [program, "-t", "-q", "-c", str(script)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=True,
    )

    def written(file: Path) -> str:
        return file.read_text(encoding="utf-8") if file.exists() else ""

    return {
        name: Told(events, *(written(folder / f"{name}.{kind}") for kind in ("mat.mat", "sgf.mat", "mat.sgf")))
        for name, events in matches.items()
    }


def differing(told: dict[str, Told], kind: str) -> list[str]:
    """The matches of which the program tells something else."""
    wrong = []
    for name, match in told.items():
        text = getattr(match, kind)
        read = read_sgf if kind.startswith("sgf") else read_mat
        try:
            theirs, ours = as_files_tell(read(text, "m", "ann", "bob").events), as_files_tell(match.events)
        except Exception as error:
            wrong.append(f"{name}: {error}")
            continue
        created = match.events[0]
        if isinstance(created, Created) and created.settings.jacoby and not kind.startswith("sgf"):
            # its .mat files have the points without Jacoby, its .sgf files with it
            del theirs[-1], ours[-1]
        if theirs != ours:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("kind", ["mat_from_mat", "mat_from_sgf", "sgf_from_mat"])
def test_gnubg_tells_every_match_as_it_was_written(told: dict[str, Told], kind: str) -> None:
    assert differing(told, kind) == []
    assert len(told) > 60
