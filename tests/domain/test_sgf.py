"""GNU Backgammon's SGF: the same matches as in text, written and read again, and what must be refused."""

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from domain.board import CheckerMove, Color, Dice
from domain.events import Accepted, Created, Doubled, Joined, Moved, Resigned, Rolled, Sandbox, Settings, Stake
from domain.match import OnRoll, ToPlay
from domain.matchfile import FileError, NotExpressible, ReadMatch
from domain.rules import fold
from domain.sgf import read_sgf, write_sgf
from tests.domain.matchfiles import MATCHES, PAIRS, as_files_tell, read_from_corpus, text_of, told_alike
from tests.domain.test_random_play import PLAYED, log_of

ROOT = "(;FF[4]GM[6]MI[length:7][game:0][ws:0][bs:0]PW[Ann]PB[Bob]RU[Crawford]"
PLAYED_31 = ";W[31hefe]"
"""8/5 6/5."""


def read(text: str) -> ReadMatch:
    return read_sgf(text, "m1", "ann", "bob")


def refused(text: str) -> FileError:
    with pytest.raises(FileError) as caught:
        read(text)
    return caught.value


@pytest.mark.parametrize("pair", PAIRS)
def test_both_files_of_a_match_tell_the_same(pair: str) -> None:
    sgf, mat = read(text_of(f"{pair}.sgf")), read_from_corpus(f"{pair}.mat")
    assert told_alike(sgf.events) == told_alike(mat.events)
    assert sgf.events[0].imported == "sgf" if isinstance(sgf.events[0], Created) else False
    assert sgf.names == mat.names == ("White", "Black")
    assert sgf.notes == ()


@pytest.mark.parametrize("file", MATCHES)
def test_a_match_that_was_written_reads_the_same(file: str) -> None:
    got = read_from_corpus(file)
    again = read(write_sgf(got.events, got.names))
    assert told_alike(again.events) == told_alike(got.events)
    assert again.names == got.names


@pytest.mark.parametrize("pair", PAIRS)
def test_a_file_written_by_gnubg_reads_the_same_when_written_here(pair: str) -> None:
    got = read(text_of(f"{pair}.sgf"))
    assert read(write_sgf(got.events, got.names)) == got


def test_a_game_is_read_with_its_names_and_without_its_analysis() -> None:
    text = (
        "\ufeff(;FF[4]GM[6]CA[UTF-8]AP[GNU Backgammon:1.07]MI[length:7][game:0][ws:0][bs:0]\r\n"
        "PW[A\\]\\\\n\\:n]PB[]RU[Crawford]\r\n"
        ";W[31hefe]A[0][hefe E ver 3 0.5][xuxw E \\] ver 3]C[a (comment);B[66\\]]\r\n"
        ";B[61lrqr]LU[0.1]\r\n(;W[double]\n(;B[take];W[52mhxv])(;B[drop]))(;W[11fefe]))\n"
    )
    got = read(text)
    assert got.names == ("A]\\n:n", "")
    assert got.events[5:] == (
        Rolled(by=Color.BLACK, dice=Dice(6, 1)),
        Moved(by=Color.BLACK, play=(CheckerMove(13, 7), CheckerMove(8, 7))),
        Doubled(by=Color.WHITE),
        Accepted(by=Color.BLACK),
        Rolled(by=Color.WHITE, dice=Dice(5, 2)),
        Moved(by=Color.WHITE, play=(CheckerMove(24, 22), CheckerMove(13, 8))),
    )
    assert got.match.phase == OnRoll(Color.BLACK)


def test_a_roll_that_waits_is_read() -> None:
    for roll in (";PL[B]DI[21]", ";DI[21]PL[B]", ";B[21]"):
        assert read(ROOT + PLAYED_31 + roll + ")").match.phase == ToPlay(Color.BLACK, Dice(2, 1))
    assert read(ROOT + ";PL[W]DI[31]" + PLAYED_31 + ")").match.phase == OnRoll(Color.BLACK)


def test_a_result_without_bear_off_or_drop_is_a_resignation() -> None:
    events = read(ROOT + "RE[W+2R]" + PLAYED_31 + ")").events
    assert events[-2:] == (Resigned(by=Color.BLACK, stake=Stake.GAMMON), Accepted(by=Color.WHITE))
    assert read(ROOT + "RE[W+7R]" + PLAYED_31 + ")").events[-1] == Resigned(by=Color.BLACK, stake=Stake.MATCH)


@pytest.mark.parametrize(
    ("head", "agreed"),
    [
        ("MI[length:0]RU[Jacoby]", Settings(length=None, cube_limit=1024, jacoby=True)),
        ("MI[length:0]", Settings(length=None, cube_limit=1024)),
        ("MI[length:1]", Settings(length=1, cube_limit=1024)),
        ("MI[length:3]", Settings(length=3, cube_limit=1024, crawford=False)),
        ("MI[length:3]RU[Crawford:NoCube]", Settings(length=3, cube_limit=1)),
        ("MI[length:3]RU[Crawford]CV[1]CP[c]", Settings(length=3, cube_limit=1024)),
    ],
)
def test_the_settings_are_read(head: str, agreed: Settings) -> None:
    assert read(f"(;GM[6]{head})").match.settings == agreed


REFUSED = {
    "nothing": ("", 1, 1, "the begin of a game"),
    "another kind of file": (" 7 point match\n", 1, 2, "B[31hefe]"),
    "no node": ("()", 1, 3, "a game with nodes"),
    "no end": (ROOT, 1, len(ROOT) + 1, "the end of a game"),
    "a value without end": (ROOT + ";B[31", 1, len(ROOT) + 2, "B[31hefe]"),
    "text after the game": (ROOT + ")\n\nhello", 3, 1, "B[31hefe]"),
    "another game": ("(;GM[1]SZ[19])", 1, 3, "GM[6]"),
    "no length": ("(;GM[6])", 1, 3, "the property MI"),
    "an absurd length": ("(;GM[6]MI[length:99999999999999])", 1, 8, "MI[length:5]"),
    "an endless match": ("(;GM[6]MI[length:1000])", 1, 8, "can be played"),
    "a wrong score": ("(;GM[6]MI[length:7][ws:3][bs:0])", 1, 8, "0:0"),
    "another variant": ("(;GM[6]MI[length:7]RU[Nackgammon])", 1, 20, "the usual rules"),
    "a Crawford game at 0:0": ("(;GM[6]MI[length:7]RU[Crawford:CrawfordGame])", 1, 20, "not the Crawford game"),
    "a turned cube": (ROOT + "\n;CV[2]CP[w])", 2, 2, "the usual opening"),
    "a position": (ROOT + "\n;AE[a:y]AW[a][b]PL[W])", 2, 2, "the usual opening"),
    "an illegal play": (ROOT + "\n;W[31hefd])", 2, 2, "a legal play"),
    "an unreadable play": (ROOT + "\n;W[31he?])", 2, 2, "double, take, drop"),
    "an opening double": (ROOT + "\n;W[11fefehghg])", 2, 2, "two different dice"),
    "a missing play": (ROOT + "\n;W[31];B[61lrqr])", 2, 2, "a legal play"),
    "a beaver": (ROOT + PLAYED_31 + "\n;B[double];W[beaver])", 2, 12, "double, take, drop"),
    "an answer to nothing": (ROOT + PLAYED_31 + "\n;B[take])", 2, 2, "black may do"),
    "dice without a side": (ROOT + "\n;DI[31])", 2, 2, "PL[W]DI[31]"),
    "a property twice": (ROOT + "\n;W[31hefe]W[31hefe])", 2, 11, "once in a node"),
    "absurd points": (ROOT + "RE[W+4016R]" + PLAYED_31 + ")", 1, len(ROOT) + 1, "1, 2 or 3 times"),
    "a game after no end": (ROOT + PLAYED_31 + ")\n" + ROOT + ")", 1, 13, "RE[W+1]"),
    "deep nonsense": ("(;GM[6]" * 100_000, 1, 701, "deep"),
    "brackets": ("(" * 4_000_000, 1, 101, "deep"),
    "open values": ("(;A" + "[a" * 1_000_000, 1, 3, "B[31hefe]"),
    "backslashes": ("(;A[" + "\\" * 4_000_000, 1, 3, "B[31hefe]"),
    "many nodes": ("(" + ";" * 1_000_000, 1, 10_002, "10000 nodes"),
    "many games": ("(;)" * 100_000, 1, 3004, "1000 games"),
    "a long file": ("x" * 10_000_000, 1, 1, "a file of at most"),
    "a control character": ("(;\0)", 1, 3, "text"),
}


@pytest.mark.parametrize(("text", "line", "column", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_where_it_stands(text: str, line: int, column: int, expected: str) -> None:
    begin = time.process_time()
    error = refused(text)
    assert time.process_time() - begin < 2
    assert (error.line, error.column) == (line, column), str(error)
    assert expected in error.expected
    assert len(str(error)) < 400


MUTATED = [text_of(f"{pair}.sgf") for pair in PAIRS if len(text_of(f"{pair}.sgf")) < 8000]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_befalls_a_file_it_is_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(MUTATED))
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 20)))
        text = (
            text[:begin]
            + data.draw(st.text("()[];:\\\nWBRE+12356abyzMI", max_size=8) | st.text(max_size=3))
            + text[end:]
        )
    try:
        got = read(text)
    except FileError:
        return
    assert fold(got.events) == got.match


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, ROOT + text + ")", f"{ROOT};W[{text}])"):
        with suppress(FileError):
            read(whole)


@pytest.mark.parametrize(
    "name", [name for name in PLAYED if not name.startswith(("from", "money, auto", "money by Jacoby, many"))]
)
def test_matches_of_every_kind_are_told_as_far_as_the_format_can(name: str) -> None:
    for seed in range(20):
        events = log_of(name, f"told {seed}")
        got = read(write_sgf(events, ("Ann", "Bob")))
        assert as_files_tell(got.events) == as_files_tell(events)


SEATED = (
    Created(match="m1", settings=Settings(length=3, cube_limit=1024), color=Color.WHITE, rules=1),
    Joined(color=Color.WHITE, player="ann"),
    Joined(color=Color.BLACK, player="bob"),
)


def test_names_are_escaped() -> None:
    for name in ("", "a]b", "a\\", "[;(", "ü: x"):
        got = read(write_sgf(SEATED, (name, name)))
        assert got.names == (name, name)
        assert told_alike(got.events) == SEATED


def test_a_position_of_ones_own_cannot_be_written() -> None:
    sandbox = Sandbox(start="-b----E-C---eE---c-e----B-:0:0:1:00:0:0:0:3:6")
    created = replace(SEATED[0], settings=Settings(length=3, sandbox=sandbox))
    with pytest.raises(NotExpressible, match="position of its own"):
        write_sgf((created, *SEATED[1:]), ("", ""))
