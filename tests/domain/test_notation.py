"""Standard notation, read and written (RULES.md section 11 has the dialects; DESIGN.md section 2 the numbering)."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.board import Board, CheckerMove, Color, Dice, Play
from domain.breach import Breach, RuleError
from domain.notation import format_play, parse_play
from domain.plays import judge, legal_plays

START = "24:2 13:5 8:3 6:5"


def side(text: str) -> tuple[int, ...]:
    counts = [0] * 26
    for word in text.split():
        point, count = word.split(":")
        counts[int(point)] = int(count)
    counts[0] = 15 - sum(counts)
    return tuple(counts)


def board(white: str = START, black: str = START) -> Board:
    return Board(side(white), side(black))


def play(*moves: tuple[int, int]) -> Play:
    return tuple(CheckerMove(*move) for move in moves)


READ = {
    "24/18 13/11*": [(24, 18), (13, 11)],
    "bar/20*/15": [(25, 20), (20, 15)],
    "6/off(2)": [(6, 0), (6, 0)],
    "13/7(2)": [(13, 7), (13, 7)],
    "8/5*(2)": [(8, 5), (8, 5)],
    "8/5*(4)": [(8, 5)] * 4,
    "24/20/16(2)": [(24, 20), (20, 16)] * 2,
    "24/13": [(24, 13)],
    "24/18/13": [(24, 18), (18, 13)],
    "24/18*/13*": [(24, 18), (18, 13)],
    "BAR/20 6/OFF": [(25, 20), (6, 0)],
    "Bar/20 6/Off": [(25, 20), (6, 0)],
    "25/20 6/0": [(25, 20), (6, 0)],
    "25/20*/15": [(25, 20), (20, 15)],
    "13/7,8/7": [(13, 7), (8, 7)],
    "13/7, 8/7": [(13, 7), (8, 7)],
    " 13/7 \t 8/7\n": [(13, 7), (8, 7)],
    "8/7 13/7": [(8, 7), (13, 7)],
    "": [],
    "   ": [],
}


@pytest.mark.parametrize(("text", "moves"), READ.items(), ids=[repr(text) for text in READ])
def test_a_play_is_read_in_its_own_order(text: str, moves: list[tuple[int, int]]) -> None:
    assert parse_play(text) == play(*moves)


MALFORMED = {
    "no destination": "24",
    "an open end": "24/",
    "an open start": "/18",
    "two slashes": "24//18",
    "a dash": "24-18",
    "words": "twenty-four to eighteen",
    "a repeat of none": "24/18(0)",
    "a repeat of five": "24/18(5)",
    "an open bracket": "24/18(2",
    "an empty bracket": "24/18()",
    "a mark at the start": "24*/18",
    "a mark twice": "24/18**",
    "a mark alone": "*",
    "a point beyond the bar": "26/20",
    "a point of three digits": "124/118",
    "a negative point": "24/-1",
    "a decimal": "24/18.0",
    "digits of another script": "٢٤/١٨",
    "superscript digits": "2⁴/18",
    "another word for the bar": "barre/20",
    "dice before it": "31: 8/5 6/5",
    "one bad word of two": "24/18 13:11",
    "a null character": "24/18\0",
    "too long": "24/18 " * 20,
    "far too long": "9" * 1_000_000,
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_play_is_refused_as_malformed(text: str) -> None:
    with pytest.raises(RuleError) as refusal:
        parse_play(text)
    assert refusal.value.breach is Breach.MALFORMED_NOTATION
    assert refusal.value.legal_plays == ()
    assert len(refusal.value.message) < 300


WRITTEN = {
    # own checkers, the opponent's in its own numbering, the play, as written
    "two checkers": (START, START, [(24, 18), (13, 11)], "24/18 13/11"),
    "a hit": (START, "24:2 14:1 13:4 8:3 6:5", [(24, 18), (13, 11)], "24/18 13/11*"),
    "one checker with both dice": (START, START, [(24, 18), (18, 13)], "24/13"),
    "a hit on the way": (START, "24:2 13:5 8:3 7:1 6:4", [(24, 18), (18, 13)], "24/18*/13"),
    "a hit at the end": (START, "24:2 14:1 13:4 8:3 6:5", [(24, 16), (16, 11)], "24/11*"),
    "two hits with one checker": ("25:1 13:5", "5:1 10:1", [(25, 20), (20, 15)], "bar/20*/15*"),
    "entering with a hit and on": ("25:1 13:5", "5:1", [(25, 20), (20, 15)], "bar/20*/15"),
    "bearing off": ("6:2 5:1", START, [(6, 0), (5, 0)], "6/off 5/off"),
    "bearing off twice from a point": ("6:2 5:1", START, [(6, 0), (6, 0)], "6/off(2)"),
    "a point made": (START, START, [(8, 5), (6, 5)], "8/5 6/5"),
    "two checkers alike": (START, START, [(13, 7), (13, 7)], "13/7(2)"),
    "two checkers alike, the first hits": (START, "24:2 20:1 13:4 8:3 6:5", [(8, 5), (8, 5)], "8/5*(2)"),
    "four alike": ("6:4 1:2", START, [(6, 0)] * 4, "6/off(4)"),
    "two pairs": (START, START, [(24, 22), (24, 22), (6, 4), (6, 4)], "24/22(2) 6/4(2)"),
    "two hops alike": (START, START, [(24, 22), (24, 22), (22, 20), (22, 20)], "24/20(2)"),
    "a hop and two steps": (START, START, [(13, 11), (11, 9), (6, 4), (6, 4)], "13/9 6/4(2)"),
    "one checker with a whole double": (START, START, [(13, 11), (11, 9), (9, 7), (7, 5)], "13/5"),
    "coming home and off": ("7:1 6:2", START, [(7, 6), (6, 0)], "7/off"),
    "a dance": ("25:1", START, [], ""),
}


@pytest.mark.parametrize(("own", "other", "moves", "text"), WRITTEN.values(), ids=WRITTEN.keys())
def test_a_play_is_written_as_players_write_it(own: str, other: str, moves: list[tuple[int, int]], text: str) -> None:
    assert format_play(board(own, other), Color.WHITE, play(*moves)) == text
    assert format_play(board(other, own), Color.BLACK, play(*moves)) == text


@pytest.mark.parametrize(
    ("hop", "steps"),
    [
        ("24/13", "24/18/13"),
        ("24/13", "24/18 18/13"),
        ("24/13", "18/13 24/18"),
        ("24/13", "24/13*"),
        ("24/13", "24/18*/13"),
    ],
)
def test_a_chain_may_be_spelled_whole_or_in_steps_and_hit_marks_are_not_checked(hop: str, steps: str) -> None:
    roll = Dice(6, 5)
    assert judge(board(), Color.WHITE, roll, parse_play(hop)) == play((24, 18), (18, 13))
    assert judge(board(), Color.WHITE, roll, parse_play(steps)) == play((24, 18), (18, 13))


def test_every_legal_play_of_the_corpus_reads_back_as_it_was_written(legal_cases: list[Any]) -> None:
    differences = []
    for number, case in enumerate(legal_cases):
        mover = Color.BLACK if number % 2 else Color.WHITE
        at = case.board(mover)
        for legal in legal_plays(at, mover, case.dice):
            text = format_play(at, mover, legal)
            try:
                read = at.after(mover, judge(at, mover, case.dice, parse_play(text)))
            except RuleError as refusal:
                differences.append(f"{case.id} {case.dice} {legal}: {text} is refused, {refusal}")
                continue
            if read != at.after(mover, legal):
                differences.append(f"{case.id} {case.dice} {legal}: {text} is another play")
    assert not differences, "\n".join(differences)


def test_a_written_play_marks_every_hit_and_no_other(legal_cases: list[Any]) -> None:
    for number, case in enumerate(legal_cases):
        mover = Color.BLACK if number % 2 else Color.WHITE
        at = case.board(mover)
        for legal in legal_plays(at, mover, case.dice):
            sent = at.after(mover, legal).side(mover.opponent)[25] - at.side(mover.opponent)[25]
            assert format_play(at, mover, legal).count("*") == sent, (case.id, legal)


near_notation = st.text(alphabet="0123456789/*(), barofBAROF\t", max_size=120)


@settings(derandomize=True, database=None, deadline=None, max_examples=500)
@given(st.one_of(st.text(), near_notation, st.from_regex(r"(\d\d?/\d\d?\*?(\([1-5]\))?[ ,]){0,20}", fullmatch=True)))
def test_any_text_is_a_play_or_malformed(text: str) -> None:
    moves: Play = ()
    with suppress(RuleError):
        moves = parse_play(text)
    assert all(0 <= point <= 25 for move in moves for point in move)
