"""Whatever bytes come in as a file, a log, a position, a play or an id: it is read, or refused by a declared error.

The fuzzers of each format alone are with its tests (tests/domain); here what all of them come in by, and logs whose
hashes are right and whose content is not.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.breach import RuleError
from domain.matchfile import FileError
from domain.notation import parse_play
from domain.position import parse_position
from infra.ids import id_from, new_id, read_code
from infra.log import GENESIS, Broken, encode_line, encode_time, link, record, signed_head, verify
from infra.matchfiles import read_file
from infra.signing import Signer
from tests.domain.matchfiles import AWKWARD, MATCHES, PAIRS, text_of
from tests.domain.test_fairness import played

SIGNER = Signer("5f" * 32)
START = datetime(2026, 11, 30, 8, tzinfo=UTC)


def lines_of(match_id: str) -> list[dict[str, Any]]:
    """The records of a whole match with proven dice."""
    records = record(GENESIS, 0, START, played(match_id))
    return [json.loads(encode_line(r.seq, encode_time(r.at), r.text, r.hash)) for r in records]


LOG = lines_of("m1")
FILES = [
    *(text_of(file).encode() for file in sorted([*AWKWARD, *list(MATCHES)[:10]])),
    *(text_of(f"{name}.sgf").encode() for name in PAIRS[:5]),
    "\n".join(json.dumps(line, separators=(",", ":"), sort_keys=True) for line in LOG[:60]).encode(),
]

MANY = 150
"""Examples of each, the same in each run; tens of thousands were tried once."""

anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
words = st.one_of(
    st.sampled_from(["white", "black", "single", "match", "rolled", "moved", "created", "joined", "committed"]),
    st.sampled_from(
        [0, 1, -1, 6, 7, 25, 26, 63, 64, 2**31, 2**63, 2**64, 10**400, 1.5, None, True, "", "\x00", "\ud7ff"]
    ),
    anything,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file with parts cut out, doubled, moved or replaced by other bytes."""
    data = bytearray(draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(begin + draw(st.sampled_from([1, 10, 1_000])), len(data))))
        by = draw(
            st.binary(max_size=8)
            | st.sampled_from([b"", b"(", b")" * 3, b"[", b"\\", b"\n", b"\r\n", b"\x00", b"\xff", b"99", b"{" * 50])
            | st.just(bytes(data[begin:end]) * 2)
        )
        data[begin:end] = by
    return bytes(data)


@st.composite
def forged(draw: st.DrawFn) -> list[bytes]:
    """A log that says something else than what happened, with hashes that fit it."""
    records = [{**line, "event": {**line["event"]}} for line in LOG[: draw(st.sampled_from([3, 12, 60, len(LOG)]))]]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(records) - 1))
        event = records[at]["event"]
        match draw(st.sampled_from(["value", "value", "remove", "add", "drop", "double", "time", "inside"])):
            case "value":
                event[draw(st.sampled_from(sorted(event)))] = draw(words)
            case "inside":
                holder = event
                while inner := [key for key, value in holder.items() if isinstance(value, dict) and value]:
                    holder[inner[0]] = holder = {**holder[inner[0]]}
                holder[draw(st.sampled_from(sorted(holder)))] = draw(words)
            case "remove":
                del event[draw(st.sampled_from(sorted(event)))]
                event.setdefault("kind", "moved")
            case "add":
                event[draw(st.sampled_from(["by", "link", "entropy", "clock", "series"]) | st.text(max_size=5))] = draw(
                    words
                )
            case "drop" if len(records) > 1:
                del records[at]
            case "double":
                records.insert(at, {**records[at], "event": {**event}})
            case "time":
                records[at]["at"] = draw(st.sampled_from(["", "2026-11-30", "9999-12-31T23:59:59.999999Z"]) | st.text())
    lines, previous = [], GENESIS
    for seq, one in enumerate(records, 1):
        text = json.dumps(one["event"], separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        previous = link(previous, seq, one["at"], text)
        lines.append(encode_line(seq, json.dumps(one["at"])[1:-1], text, previous).encode())
    if draw(st.booleans()):
        lines.append(signed_head("m1", len(lines), previous, SIGNER).encode())
    return lines


def only(*declared: type[Exception], read: Callable[[], object]) -> None:
    """Read it; nothing but the declared errors comes of it, and they have words."""
    try:
        read()
    except declared as error:
        told = str(error)
    else:
        return
    assert told


@settings(derandomize=True, database=None, max_examples=MANY)
@given(damaged() | st.binary(max_size=200))
def test_any_file_is_read_or_refused(data: bytes) -> None:
    only(FileError, Broken, read=lambda: read_file(data))


@settings(derandomize=True, database=None, max_examples=MANY)
@given(forged())
def test_a_forged_log_with_hashes_that_fit_is_verified_or_broken(lines: list[bytes]) -> None:
    only(Broken, read=lambda: verify(lines))
    only(Broken, read=lambda: verify(lines, SIGNER.public_key))
    only(FileError, Broken, read=lambda: read_file(b"\n".join(lines)))


@settings(derandomize=True, database=None, max_examples=MANY)
@given(
    st.text() | st.text("0123456789/*()barof ,-", max_size=60),
    st.text() | st.text("XGID=-abcoABCO:0123456789", max_size=60),
)
def test_any_text_is_a_play_and_a_position_or_refused(play: str, position: str) -> None:
    only(RuleError, read=lambda: parse_play(play))
    only(RuleError, read=lambda: parse_position(position))


@given(st.text())
def test_any_text_makes_an_id_and_is_read_as_a_code(text: str) -> None:
    assert len(id_from(text)) == len(new_id())
    assert len(read_code(text)) <= 40
    assert set(id_from(text)) <= set("23456789abcdefghjkmnpqrstuvwxyz")
