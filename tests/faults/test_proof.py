"""The proof can fail: whatever is taken from a log, an answer or a watcher's list, or added to it, is found."""

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from infra.log import GENESIS, encode_line, encode_time, link
from tests.faults.crowd import Call
from tests.faults.proof import Disproved, prove, proven
from tests.faults.watchers import Seen
from tests.server import Server


class Story(NamedTuple):
    """A match as it is told by its log, by its players and by a watcher."""

    lines: list[bytes]
    calls: list[Call]
    seen: Seen


def _lost_from_the_end(story: Story) -> None:
    del story.lines[-1]


def _edited(story: Story) -> None:
    story.lines[4] = story.lines[4].replace(b'"at":"2', b'"at":"3')


def _another_time(story: Story) -> None:
    """A record has another time, and the chain is whole."""
    previous = GENESIS
    for n, text in enumerate(story.lines):
        record = json.loads(text)
        event = json.dumps(record["event"], separators=(",", ":"), sort_keys=True)
        at = "2001" + record["at"][4:] if n == 0 else record["at"]
        previous = link(previous, n + 1, at, event)
        story.lines[n] = f'{{"at":"{at}","event":{event},"hash":"{previous}","seq":{n + 1}}}'.encode()


def _not_known(story: Story) -> None:
    story.calls[9].answer = None


def _nobodys(story: Story) -> None:
    del story.calls[9]


def _twice(story: Story) -> None:
    story.calls.append(copy.copy(story.calls[9]))


def _half(story: Story) -> dict[str, Any]:
    """A command was acknowledged without the last of its events."""
    answers = [call.answer for call in story.calls if call.answer is not None]
    answer = max(answers, key=lambda answer: len(answer.get("events", ())))
    assert len(answer["events"]) > 1
    answer["events"].pop()
    return answer


def _half_and_told_so(story: Story) -> None:
    """The same, and its match is the one before that event."""
    answer = _half(story)
    last = answer["events"][-1]
    answer["match"] |= {"version": last["seq"], "hash": last["hash"]}


def _missed(story: Story) -> None:
    del story.seen[5]


def _missed_the_last(story: Story) -> None:
    del story.seen[-1]


def _saw_twice(story: Story) -> None:
    story.seen.insert(5, story.seen[5])


def _saw_in_another_order(story: Story) -> None:
    story.seen[5], story.seen[6] = story.seen[6], story.seen[5]


def _saw_another(story: Story) -> None:
    story.seen[5] = (story.seen[5][0], "0" * 64)


TAMPERINGS: list[tuple[Callable[[Story], object], str]] = [
    (_lost_from_the_end, "acknowledged is not in the log"),
    (_edited, "the log is broken at seq 5"),
    (_another_time, "acknowledged is not in the log"),
    (_not_known, "not known what came of"),
    (_nobodys, "acknowledged to nobody"),
    (_twice, "acknowledged twice"),
    (_half, "not the one after its events"),
    (_half_and_told_so, "acknowledged to nobody"),
    (_missed, "another list from place 5"),
    (_missed_the_last, "events of"),
    (_saw_twice, "another list from place 6"),
    (_saw_in_another_order, "another list from place 5"),
    (_saw_another, "another list from place 5"),
]


async def test_a_true_story_is_proven_and_each_tampering_with_it_is_found(pair: list[Server]) -> None:
    async with proven(pair, 1) as crowd:
        await crowd.more(30)
    [verified], [watcher] = crowd.logs.values(), crowd.watchers
    lines = [encode_line(r.seq, encode_time(r.at), r.text, r.hash).encode() for r in verified.records]
    told = Story(lines, crowd.calls, watcher.seen)
    assert len(told.lines) > 30
    prove(told.lines, told.calls, {"the watcher": told.seen})
    for tamper, complaint in TAMPERINGS:
        story = copy.deepcopy(told)
        tamper(story)
        with pytest.raises(Disproved, match=complaint):
            prove(story.lines, story.calls, {"the watcher": story.seen})
