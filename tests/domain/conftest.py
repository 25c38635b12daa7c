"""What other engines say: the whole corpus where it lies beside the repository, else the copy in tests/corpus.

The id of each test that uses it says which: `[whole]` or `[small]`.
"""

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from domain.board import Board, Color, Dice

_REPOSITORY = Path(__file__).resolve().parents[2]
_WHOLE = _REPOSITORY.parent / "shared" / "corpus"
_SMALL = _REPOSITORY / "tests" / "corpus"


def _found(whole: str, small: str) -> dict[str, Path]:
    return {"whole": _WHOLE / whole} if (_WHOLE / whole).exists() else {"small": _SMALL / small}


class Case(NamedTuple):
    """A position and a roll from the mover's side, the boards after its legal plays, the dice that must be used."""

    id: str
    own: tuple[int, ...]
    other: tuple[int, ...]
    dice: Dice
    max_dice: int
    results: frozenset[str]

    def board(self, mover: Color) -> Board:
        """The position with the mover's checkers in that colour."""
        return Board(self.own, self.other) if mover is Color.WHITE else Board(self.other, self.own)


def _case(line: str) -> Case:
    told = json.loads(line)
    return Case(
        id=told["id"],
        own=(told["off"], *(max(count, 0) for count in told["points"]), told["bar"]),
        other=(told["opp_off"], *(max(-count, 0) for count in reversed(told["points"])), told["opp_bar"]),
        dice=Dice(*told["dice"]),
        max_dice=told["max_dice"],
        results=frozenset(told["results"]),
    )


def _cases(path: Path) -> list[Case]:
    with gzip.open(path, "rt", encoding="ascii") as lines:
        return [_case(line) for line in lines]


_legal = _found("legal_public.jsonl.gz", "legal_small.jsonl.gz")
_ids = _found("ids.jsonl", "ids_small.jsonl")


@pytest.fixture(scope="session", params=_legal.values(), ids=_legal.keys())
def legal_cases(request: pytest.FixtureRequest) -> list[Case]:
    return _cases(request.param)


@pytest.fixture(scope="session", params=_ids.values(), ids=_ids.keys())
def id_pairs(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Each position as XGID, and as GNU's position id:match id."""
    rows = [json.loads(line) for line in request.param.read_text(encoding="ascii").splitlines()]
    return [(row["xgid"], row["gnuid"]) for row in rows]
