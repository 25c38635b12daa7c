"""Real matches of the corpus, as they were appended to a log: a few events at a time."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from domain.match import Match
from domain.rules import evolve
from infra.log import GENESIS, record
from infra.matchfiles import read_file
from infra.store import Append
from service.windows import Step

CORPUS = Path(__file__).parent / "corpus" / "matches"


class Script(NamedTuple):
    """A real match, cut into appends."""

    match_id: str
    appends: list[tuple[Append, list[Step]]]

    @property
    def events(self) -> int:
        return self.appends[-1][0].recorded[-1].seq


def script(name: str, chance: random.Random) -> Script:
    """A match of the corpus, one to three events an append."""
    read = read_file((CORPUS / name).read_bytes())
    appends: list[tuple[Append, list[Step]]] = []
    match: Match | None = None
    hash_, seq, events = GENESIS, 0, list(read.events)
    while events:
        number = chance.randint(1, 3) if seq else 2
        steps = []
        for recorded in record(hash_, seq, datetime.now(UTC), events[:number]):
            match = evolve(match, recorded.event)
            steps.append(Step(recorded, match))
            hash_, seq = recorded.hash, recorded.seq
        assert match is not None
        append = Append(match=match, recorded=[step.recorded for step in steps], auto_roll=(False, False))
        appends.append((append, steps))
        del events[:number]
    return Script(read.match.id, appends)
