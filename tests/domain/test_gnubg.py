"""GNU Backgammon loads what is written here, and tells the same match.

It runs as a program of its own, once for all matches.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from domain.events import Created, Event, Stake
from domain.mat import read_mat, write_mat
from domain.rules import fold
from domain.sgf import read_sgf, write_sgf
from tests.domain.matchfiles import MATCHES, as_files_tell, text_of
from tests.domain.test_random_play import PLAYED, whole_match

NAMES = ("White", "Black")
KINDS = [name for name in PLAYED if not name.startswith(("from", "money, auto", "money by Jacoby, many"))]
"""Without what cannot be written: positions of their own and automatic doubles."""


class Told(NamedTuple):
    """One match as it is here, and what the program wrote after it had loaded it from .mat and from .sgf."""

    events: Sequence[Event]
    mat_from_mat: str
    mat_from_sgf: str
    sgf_from_mat: str


def gave_up_the_match(events: Sequence[Event]) -> bool:
    """Whether it ended by giving up the whole match, which the program knows nothing of."""
    last = fold(events).results[-1]
    return last.stake is Stake.MATCH


def played() -> dict[str, Sequence[Event]]:
    """The corpus, and matches played by chance."""
    matches: dict[str, Sequence[Event]] = {}
    for file in MATCHES:
        matches[file.removesuffix(".mat")] = read_mat(text_of(file), "m", "ann", "bob").events
    for kind, name in enumerate(KINDS):
        for seed in range(8):
            events = whole_match(PLAYED[name], random.Random(f"gnubg {name} {seed}")).events
            if not gave_up_the_match(events):
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
            same = as_files_tell(read(text, "m", "ann", "bob").events) == as_files_tell(match.events)
        except Exception as error:
            wrong.append(f"{name}: {error}")
        else:
            if not same:
                wrong.append(name)
    return wrong


@pytest.mark.parametrize("kind", ["mat_from_mat", "mat_from_sgf", "sgf_from_mat"])
def test_gnubg_tells_every_match_as_it_was_written(told: dict[str, Told], kind: str) -> None:
    assert differing(told, kind) == []
    assert len(told) > 60
