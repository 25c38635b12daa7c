"""The corpus's match files: all of them where they lie beside the repository, else the copies in tests/corpus."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from domain.board import BAR, Color
from domain.events import Accepted, Created, Doubled, Event, Moved, Refused, Rolled
from domain.mat import read_mat
from domain.match import Match, ToAnswer
from domain.matchfile import ReadMatch
from domain.rules import evolve

_REPOSITORY = Path(__file__).resolve().parents[2]
_WHOLE = _REPOSITORY.parent / "shared" / "corpus"
_CORPUS = _WHOLE if (_WHOLE / "matches").exists() else _REPOSITORY / "tests" / "corpus"


def _manifest(folder: str) -> dict[str, Any]:
    lines = (_CORPUS / folder / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines()
    return {told["file"]: told for told in map(json.loads, lines)}


MATCHES = _manifest("matches")
AWKWARD = _manifest("matches_awkward")
PAIRS = [file.removesuffix(".mat") for file in MATCHES if (_CORPUS / "matches" / file).with_suffix(".sgf").exists()]


def text_of(file: str) -> str:
    """What stands in a file of the corpus, line ends and all."""
    folder = "matches_awkward" if file in AWKWARD else "matches"
    return (_CORPUS / folder / file).read_bytes().decode()


@cache
def read_from_corpus(file: str) -> ReadMatch:
    """What a .mat file of the corpus says; read once for all tests that begin with it."""
    return read_mat(text_of(file), "m1", "ann", "bob")


def told_alike(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events but for what only one of the formats can say: its name."""
    created, *others = events
    assert isinstance(created, Created)
    return (replace(created, imported=None), *others)


def games_of(events: tuple[Event, ...]) -> Iterator[tuple[Match, Match]]:
    """The match as each game begins, and as it ends."""
    match = begin = None
    for event in events:
        before, match = match, evolve(match, event)
        if before is None or begin is None or len(match.results) > len(before.results):
            if before is not None and begin is not None:
                yield begin, match
            begin = match


def letters(match: Match, winner: Color) -> str:
    """The board in 26 letters from the winner's side, its checkers in upper case."""
    own, other = match.board.side(winner), match.board.side(winner.opponent)
    counts = [-other[BAR], *(own[point] - other[25 - point] for point in range(1, 25)), own[BAR]]
    return "".join("-" if not n else chr(64 + n) if n > 0 else chr(96 - n) for n in counts)


def as_files_tell(events: Sequence[Event]) -> list[object]:
    """A match without what no file has words for, game by game: its actions, then who has how many points.

    Left out are tied openings, resignations that were refused or wait for an answer, and how the last one was put.
    """
    told: list[object] = []
    match: Match | None = None
    for event in events:
        before, match = match, evolve(match, event)
        match event:
            case Rolled(by=Color() as by, dice=dice, opening=opening):
                told.append((by, dice.descending if opening else dice))
            case Moved(by=by, play=play):
                told.append((by, play))
            case Doubled() | Accepted() | Refused() if before and not _is_answer_to_resignation(before):
                told.append(event)
        if before and len(match.results) > len(before.results):
            told.append((match.results[-1].winner, [match.score(color) for color in Color]))
    return told


def _is_answer_to_resignation(match: Match) -> bool:
    return isinstance(match.phase, ToAnswer) and match.phase.stake is not None
