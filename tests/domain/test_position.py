"""Positions as other programs write them: XGID and GNU's ids (RULES.md sections 9 and 10)."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.board import Board, Color, Dice
from domain.breach import Breach, RuleError
from domain.events import Created, Joined, Resigned, Rolled, Settings, Stake
from domain.match import Cube
from domain.position import (
    Position,
    format_gnu_match_id,
    format_gnu_position_id,
    format_xgid,
    parse_xgid,
    position_of,
)
from domain.rules import fold

OPENING = "-b----E-C---eE---c-e----B-"


def gnu_id(position: Position) -> str:
    return f"{format_gnu_position_id(position)}:{format_gnu_match_id(position)}"


EXAMPLES = {
    f"{OPENING}:0:0:1:31:0:0:0:0:10": "4HPwATDgc/ABMA:cIkFAAAAAAAE",
    f"{OPENING}:1:1:1:00:2:4:0:7:10": "4HPwATDgc/ABMA:UQngAEAAEAAE",
    f"{OPENING}:0:0:1:64:6:4:1:7:10": "4HPwATDgc/ABMA:8AnzAEAAMAAE",
    f"{OPENING}:0:0:1:D:0:0:0:5:10": "4HPwATDgc/ABMA:cBGgAAAAAAAE",
    "aa--BBBB----dE---d-e----AA:2:-1:1:52:3:1:0:9:10": "4PPgAVDYNvABUA:QokqARAAGAAE",
}


@pytest.mark.parametrize(("xgid", "gnu"), EXAMPLES.items(), ids=EXAMPLES.keys())
def test_the_examples_of_the_rules_are_read_and_written(xgid: str, gnu: str) -> None:
    """RULES.md section 10."""
    assert gnu_id(parse_xgid(xgid)) == gnu
    assert format_xgid(parse_xgid(xgid)) == f"XGID={xgid}"


def test_every_xgid_of_the_corpus_is_written_as_it_was_read(id_pairs: list[tuple[str, str]]) -> None:
    assert id_pairs
    assert [format_xgid(parse_xgid(xgid)) for xgid, _ in id_pairs] == [xgid for xgid, _ in id_pairs]


def test_every_xgid_of_the_corpus_has_its_gnu_ids(id_pairs: list[tuple[str, str]]) -> None:
    found = {xgid: gnu_id(parse_xgid(xgid)) for xgid, _ in id_pairs}
    assert found == dict(id_pairs)


def test_an_xgid_says_where_everything_stands() -> None:
    """White is X and sees its own points 1 to 24 from left to right; black counts the same points from 24 to 1."""
    position = parse_xgid("XGID=aa--BBBB----dE---d-e----AA:2:-1:1:52:3:1:0:9:10")
    white, black = [0] * 26, [0] * 26
    white[4] = white[5] = white[6] = white[7] = 2
    white[13], white[24], white[25] = 5, 1, 1
    black[25], black[24], black[13], black[8], black[6] = 1, 1, 4, 4, 5
    assert position == Position(
        board=Board(tuple(white), tuple(black)),
        cube=Cube(4, Color.BLACK),
        turn=Color.WHITE,
        dice=Dice(5, 2),
        doubled=False,
        score=(3, 1),
        crawford=False,
        jacoby=False,
        length=9,
        cube_limit=1024,
    )


def test_checkers_that_are_not_on_the_board_are_off() -> None:
    position = parse_xgid("----------------------aA--:0:0:-1:00:0:0:0:1:0")
    assert position.board.white[0] == position.board.black[0] == 14
    assert position.board.pips(Color.WHITE) == 23
    assert position.board.pips(Color.BLACK) == 3


FLAGS = {
    "on roll": (f"{OPENING}:0:0:-1:00:0:0:0:7:6", {"turn": Color.BLACK, "dice": None, "doubled": False}),
    "has doubled": (f"{OPENING}:1:-1:-1:D:0:0:0:7:6", {"turn": Color.BLACK, "dice": None, "doubled": True}),
    "has rolled": (f"{OPENING}:0:0:-1:63:0:0:0:7:6", {"turn": Color.BLACK, "dice": Dice(6, 3), "doubled": False}),
    "Crawford game": (f"{OPENING}:0:0:1:00:6:0:1:7:6", {"crawford": True, "jacoby": False, "length": 7}),
    "after the Crawford game": (f"{OPENING}:0:0:1:00:6:1:0:7:6", {"crawford": False, "score": (6, 1)}),
    "money": (f"{OPENING}:0:0:1:00:0:0:0:0:6", {"length": None, "jacoby": False, "crawford": False}),
    "money by Jacoby": (f"{OPENING}:0:0:1:00:0:0:1:0:6", {"length": None, "jacoby": True, "crawford": False}),
    "cube of 64": (f"{OPENING}:6:1:1:00:0:0:0:7:6", {"cube": Cube(64, Color.WHITE), "cube_limit": 64}),
    "no cube": (f"{OPENING}:0:0:1:00:0:0:0:7:0", {"cube": Cube(1), "cube_limit": 1}),
}


@pytest.mark.parametrize(("xgid", "said"), FLAGS.values(), ids=FLAGS.keys())
def test_each_field_of_an_xgid_is_read(xgid: str, said: dict[str, object]) -> None:
    position = parse_xgid(xgid)
    assert {name: getattr(position, name) for name in said} == said
    assert format_xgid(position) == f"XGID={xgid}"


INVALID = {
    "nothing": "",
    "no fields": f"XGID={OPENING}",
    "25 letters": f"{OPENING[:-1]}:0:0:1:00:0:0:0:7:10",
    "27 letters": f"{OPENING}-:0:0:1:00:0:0:0:7:10",
    "a letter beyond O": f"{OPENING.replace('E', 'P')}:0:0:1:00:0:0:0:7:10",
    "a digit for a letter": f"{OPENING.replace('C', '3')}:0:0:1:00:0:0:0:7:10",
    "another prefix": f"GNUID={OPENING}:0:0:1:00:0:0:0:7:10",
    "nine fields": f"{OPENING}:0:0:1:00:0:0:0:7",
    "eleven fields": f"{OPENING}:0:0:1:00:0:0:0:7:10:1",
    "a line end": f"{OPENING}:0:0:1:00:0:0:0:7:10\n",
    "spaces about": f" {OPENING}:0:0:1:00:0:0:0:7:10 ",
    "sixteen checkers": f"{OPENING.replace('C', 'D')}:0:0:1:00:0:0:0:7:10",
    "sixteen black checkers": f"{OPENING.replace('c', 'd')}:0:0:1:00:0:0:0:7:10",
    "white has borne off all": "-b----------e----c-e------:0:0:1:00:0:0:0:7:10",
    "black has borne off all": "------E-C----E----------B-:0:0:1:00:0:0:0:7:10",
    "an empty board": f"{'-' * 26}:0:0:1:00:0:0:0:7:10",
    "white on black's bar": f"A{OPENING[1:]}:0:0:1:00:0:0:0:7:10",
    "black on white's bar": f"{OPENING[:-1]}a:0:0:1:00:0:0:0:7:10",
    "both shut out for ever": "cBBBBBB------------bbbbbbC:0:0:1:00:0:0:0:7:10",
    "an owner that is none": f"{OPENING}:1:2:1:00:0:0:0:7:10",
    "nobody's turn": f"{OPENING}:0:0:0:00:0:0:0:7:10",
    "a turn that is none": f"{OPENING}:0:0:2:00:0:0:0:7:10",
    "a die of 7": f"{OPENING}:0:0:1:71:0:0:0:7:10",
    "a die of 0": f"{OPENING}:0:0:1:60:0:0:0:7:10",
    "three dice": f"{OPENING}:0:0:1:631:0:0:0:7:10",
    "a small d": f"{OPENING}:0:0:1:d:0:0:0:7:10",
    "a negative score": f"{OPENING}:0:0:1:00:-1:0:0:7:10",
    "a negative length": f"{OPENING}:0:0:1:00:0:0:0:-7:10",
    "white has won": f"{OPENING}:0:0:1:00:7:0:0:7:10",
    "black has won": f"{OPENING}:0:0:1:00:3:9:0:7:10",
    "Crawford far from the end": f"{OPENING}:0:0:1:00:3:2:1:7:10",
    "Crawford with both one away": f"{OPENING}:0:0:1:00:6:6:1:7:10",
    "Crawford in a match to 1": f"{OPENING}:0:0:1:00:0:0:1:1:10",
    "a double in the Crawford game": f"{OPENING}:0:0:1:D:6:0:1:7:10",
    "a double with the other side's cube": f"{OPENING}:1:-1:1:D:0:0:0:7:10",
    "a double at the limit": f"{OPENING}:6:1:1:D:0:0:0:7:6",
    "a double without a cube": f"{OPENING}:0:0:1:D:0:0:0:7:0",
    "a cube above its limit": f"{OPENING}:7:1:1:00:0:0:0:7:6",
    "a limit above 1024": f"{OPENING}:0:0:1:00:0:0:0:7:11",
    "beavers": f"{OPENING}:0:0:1:00:0:0:2:0:10",
    "Jacoby and beavers": f"{OPENING}:0:0:1:00:0:0:3:0:10",
    "rules of a match that are none": f"{OPENING}:0:0:1:00:0:0:2:7:10",
    "a huge number": f"{OPENING}:{'9' * 5000}:0:1:00:0:0:0:7:10",
    "digits of another script": f"{OPENING}:\u0660:0:1:00:0:0:0:7:10",
    "a GNU id": "4HPwATDgc/ABMA:cIkFAAAAAAAE",
}


@pytest.mark.parametrize("xgid", INVALID.values(), ids=INVALID.keys())
def test_what_is_no_position_is_refused(xgid: str) -> None:
    with pytest.raises(RuleError) as refusal:
        parse_xgid(xgid)
    assert refusal.value.breach is Breach.INVALID_POSITION
    assert refusal.value.message


@pytest.mark.parametrize(
    "xgid",
    [
        pytest.param(f"{OPENING}:1:1:1:00:6:0:1:7:10", id="turned in the Crawford game"),
        pytest.param(f"{OPENING}:0:1:1:00:0:0:0:7:10", id="owned at 1"),
        pytest.param(f"{OPENING}:1:0:1:00:0:0:0:7:10", id="centred at 2 in a match"),
    ],
)
def test_a_cube_that_no_game_can_show_is_refused(xgid: str) -> None:
    """RULES.md sections 2 and 3: no cube in the Crawford game, centred at 1, the taker owns it; only money games
    double it at the opening.
    """
    with pytest.raises(RuleError) as refusal:
        parse_xgid(xgid)
    assert refusal.value.breach is Breach.INVALID_POSITION


def test_a_centred_cube_above_1_is_a_money_game_with_automatic_doubles() -> None:
    assert parse_xgid(f"{OPENING}:1:0:1:00:0:0:0:0:10").cube == Cube(2, None)


near_xgids = st.from_regex(
    r"(XGID=)?[-A-Fa-f]{26}:\d{1,2}:(-1|0|1):(-1|1):(00|D|[1-6][1-6]):\d\d?:\d\d?:[0-3]:\d\d?:\d\d?", fullmatch=True
)


@settings(derandomize=True, database=None, deadline=None, max_examples=500)
@given(st.one_of(st.text(), near_xgids))
def test_any_text_is_a_position_or_refused(text: str) -> None:
    position = None
    with suppress(RuleError):
        position = parse_xgid(text)
    assert position is None or parse_xgid(format_xgid(position)) == position


SIDES = st.lists(st.integers(0, 25), min_size=15, max_size=15)


@st.composite
def positions(draw: st.DrawFn) -> Position:
    own = [point or 1 for point in draw(SIDES)][: draw(st.integers(1, 15))]
    free = [point for point in range(1, 26) if point == 25 or 25 - point not in own]
    other = draw(st.lists(st.sampled_from(free), min_size=1, max_size=15))
    white, black = ([points.count(point) for point in range(26)] for points in (own, other))
    white[0], black[0] = 15 - len(own), 15 - len(other)
    length = draw(st.none() | st.integers(1, 99))
    score = draw(st.tuples(*[st.integers(0, (length or 100) - 1)] * 2))
    limit = draw(st.integers(0, 10))
    cube = draw(st.integers(0, limit))
    roll = draw(st.none() | st.builds(Dice, st.integers(1, 6), st.integers(1, 6)))
    return Position(
        board=Board(tuple(white), tuple(black)),
        cube=Cube(1 << cube, draw(st.sampled_from(Color)) if cube else None),
        turn=draw(st.sampled_from(Color)),
        dice=Dice(*roll.descending) if roll else None,
        doubled=False,
        score=score,
        crawford=False,
        jacoby=length is None and draw(st.booleans()),
        length=length,
        cube_limit=1 << limit,
    )


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(positions())
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    closed = all(
        all(count > 1 for count in side[1:7]) and side[25] for side in (position.board.white, position.board.black)
    )
    if not closed:
        assert parse_xgid(format_xgid(position)) == position


def test_a_match_shows_its_position_through_all_its_phases() -> None:
    log = [
        Created(match="m", settings=Settings(length=5, cube_limit=1024), color=Color.WHITE, rules=1),
        Joined(color=Color.WHITE, player="ann"),
        Joined(color=Color.BLACK, player="bob"),
        Rolled(by=Color.BLACK, dice=Dice(1, 3), opening=True),
    ]
    assert format_xgid(position_of(fold(log))) == f"XGID={OPENING}:0:0:-1:31:0:0:0:5:10"
    offered = position_of(fold([*log, Resigned(by=Color.BLACK, stake=Stake.GAMMON)]))
    assert offered.resigned is Stake.GAMMON
    assert not offered.doubled
    over = position_of(fold([*log, Resigned(by=Color.BLACK, stake=Stake.MATCH)]))
    assert over.over
    assert over.score == (5, 0)
