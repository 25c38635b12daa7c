"""Legal plays against the corpus, against a plain search written here, and the reason for every refusal.

RULES.md section 1 and DESIGN.md section 2 ("Compulsion"). Nothing is sampled: every case of the corpus is walked whole.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.board import Board, CheckerMove, Color, Dice, Play
from domain.breach import Breach, RuleError
from domain.notation import parse_play
from domain.plays import destinations, has_play, judge, legal_plays

ROLLS = [Dice(first, second) for first in range(1, 7) for second in range(1, first + 1)]
START = "24:2 13:5 8:3 6:5"
steady = settings(derandomize=True, database=None, deadline=None)


def side(text: str) -> tuple[int, ...]:
    counts = [0] * 26
    for word in text.split():
        point, count = word.split(":")
        counts[int(point)] = int(count)
    counts[0] = 15 - sum(counts)
    return tuple(counts)


def board(white: str = START, black: str = START) -> Board:
    """Each side in its own numbering, so that black's 18 is white's 7."""
    return Board(side(white), side(black))


def dice(text: str) -> Dice:
    return Dice(int(text[0]), int(text[1]))


def letters(board: Board, mover: Color) -> str:
    """A board as the corpus writes it: 26 letters, the mover's side in upper case."""
    own, other = board.side(mover), board.side(mover.opponent)
    points = [chr(64 + own[p]) if own[p] else chr(96 + other[25 - p]) if other[25 - p] else "-" for p in range(1, 25)]
    return "".join([chr(96 + other[25]) if other[25] else "-", *points, chr(64 + own[25]) if own[25] else "-"])


# A plain search: lists of counts, one die at a time, straight from RULES.md section 1.

Counts = tuple[int, ...]
Now = tuple[Counts, Counts, tuple[int, ...]]
"""The mover's checkers, the opponent's, and the dice left."""


def sources(own: Counts, other: Counts, die: int) -> list[int]:
    """The points from which one die can be moved."""
    found = []
    for src in range(1, 26):
        if not own[src] or (own[25] and src != 25):
            continue
        if die < src:
            if other[25 - (src - die)] < 2:
                found.append(src)
        elif not any(own[7:]) and (die == src or not any(own[src + 1 :])):
            found.append(src)
    return found


def moved(now: Now, src: int, die: int) -> Now:
    own, other, left = list(now[0]), list(now[1]), list(now[2])
    dst = max(src - die, 0)
    own[src] -= 1
    own[dst] += 1
    if dst and other[25 - dst] == 1:
        other[25 - dst] = 0
        other[25] += 1
    left.remove(die)
    return tuple(own), tuple(other), tuple(left)


@lru_cache(maxsize=100_000)
def most_dice(now: Now) -> int:
    own, other, left = now
    most = 0
    for die in set(left):
        for src in sources(own, other, die):
            most = max(most, 1 + most_dice(moved(now, src, die)))
            if most == len(left):
                return most
    return most


@lru_cache(maxsize=100_000)
def legal_steps(now: Now) -> frozenset[tuple[int, int]]:
    """Each (src, die) after which as many dice as possible can still be played: the larger, if either but not both."""
    own, other, left = now
    most = most_dice(now)
    found = {
        (src, die)
        for die in set(left)
        for src in sources(own, other, die)
        if 1 + most_dice(moved(now, src, die)) == most
    }
    if most == 1 and len(left) == 2 and left[0] != left[1]:
        larger = max(die for _, die in found)
        found = {(src, die) for src, die in found if die == larger}
    return frozenset(found)


def trips(now: Now, only: int | None = None) -> Iterator[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """One checker's legal steps and what may follow them: (src, dst, dice, hits)."""
    for src, die in legal_steps(now):
        if only in (None, src):
            dst, then = max(src - die, 0), moved(now, src, die)
            hit = (dst,) if then[1] != now[1] else ()
            yield src, dst, (die,), hit
            for _, end, more, hits in trips(then, only=dst):
                yield src, end, (die, *more), hit + hits


def starting(board: Board, mover: Color, roll: Dice) -> Now:
    faces = (max(roll), min(roll)) * (2 if roll.first == roll.second else 1)
    return board.side(mover), board.side(mover.opponent), faces


def searched(now: Now) -> set[tuple[Counts, Counts]]:
    """Every position after a legal play, by the plain search; none for a dance."""
    ends: set[tuple[Counts, Counts]] = set()
    seen = {now}
    todo = [now] if most_dice(now) else []
    while todo:
        at = todo.pop()
        steps = legal_steps(at)
        if not steps:
            ends.add(at[:2])
        onward = {moved(at, src, die) for src, die in steps} - seen
        seen |= onward
        todo += onward
    return ends


# The corpus. White moves in every other case, black in the rest.


def by_colour(cases: list[Any]) -> Iterator[tuple[Any, Board, Color]]:
    for number, case in enumerate(cases):
        mover = Color.BLACK if number % 2 else Color.WHITE
        yield case, case.board(mover), mover


@pytest.mark.parametrize("mover", Color)
def test_the_legal_results_are_the_very_set_that_gnu_backgammon_gives(legal_cases: list[Any], mover: Color) -> None:
    differences = []
    for case in legal_cases:
        at = case.board(mover)
        results = [letters(at.after(mover, play), mover) for play in legal_plays(at, mover, case.dice)]
        if set(results) != case.results or len(results) != len(case.results):
            extra, lacking = set(results) - case.results, case.results - set(results)
            differences.append(f"{case.id} {case.dice}: extra {sorted(extra)}, lacking {sorted(lacking)}")
    assert not differences, "\n".join(differences)


def test_a_play_uses_as_many_dice_as_the_corpus_says(legal_cases: list[Any]) -> None:
    differences = []
    for case, at, mover in by_colour(legal_cases):
        used = {len(play) for play in legal_plays(at, mover, case.dice)} or {0}
        if used != {case.max_dice} or has_play(at, mover, case.dice) != (case.max_dice > 0):
            differences.append(f"{case.id} {case.dice}: {used} dice, not {case.max_dice}")
    assert not differences, "\n".join(differences)


def test_every_checker_move_of_a_legal_play_uses_one_die_and_goes_highest_first(legal_cases: list[Any]) -> None:
    for case, at, mover in by_colour(legal_cases):
        for play in legal_plays(at, mover, case.dice):
            assert list(play) == sorted(play, reverse=True), (case.id, play)
            left = list(case.dice) * (2 if case.dice.is_double else 1)
            for src, dst in sorted(play, key=lambda move: (move.dst == 0, move)):
                fitting = [die for die in left if die == src - dst or (dst == 0 and die > src)]
                assert fitting, (case.id, play)
                left.remove(min(fitting))


def test_walking_the_destinations_reaches_the_legal_results_and_nothing_else(legal_cases: list[Any]) -> None:
    differences = []
    for case, at, mover in by_colour(legal_cases):
        ends: set[str] = set()
        seen: set[Play] = {()}
        todo: list[Play] = [()]
        while todo:
            played = todo.pop()
            steps = [to.steps for to in destinations(at, mover, case.dice, played) if len(to.dice) == 1]
            if not steps and played:
                ends.add(letters(at.after(mover, played), mover))
            for (step,) in steps:
                onward = (*played, step)
                key = tuple(sorted(onward))
                if key not in seen:
                    seen.add(key)
                    todo.append(onward)
        if ends != case.results:
            extra, lacking = ends - case.results, case.results - ends
            differences.append(f"{case.id} {case.dice}: extra {sorted(extra)}, lacking {sorted(lacking)}")
    assert not differences, "\n".join(differences)


def test_a_step_or_trip_is_offered_exactly_when_a_legal_play_goes_on_so(legal_cases: list[Any]) -> None:
    """At every point of every order of every play, as the plain search finds it: from, to, dice, hits, steps."""
    differences = []
    for case, at, mover in by_colour(legal_cases):
        todo: list[tuple[Play, set[Now]]] = [((), {starting(at, mover, case.dice)})]
        seen: set[Play] = {()}
        while todo:
            played, nows = todo.pop()
            expected = {trip for now in nows for trip in trips(now)}
            offered = destinations(at, mover, case.dice, played)
            where = {(to.src, to.dst, len(to.dice), to.hits) for to in offered}
            labels = {(to.src, to.dst, to.dice, to.hits) for to in offered}
            if where != {(src, dst, len(used), hits) for src, dst, used, hits in expected} or not labels <= expected:
                differences.append(f"{case.id} {case.dice} after {played}: {labels ^ expected}")
            if any(to.steps != chained(to.src, to.dice) for to in offered):
                differences.append(f"{case.id} {case.dice} after {played}: steps of {offered}")
            for src, dst in {(src, dst) for src, dst, used, _ in expected if len(used) == 1}:
                onward = (*played, CheckerMove(src, dst))
                if (key := tuple(sorted(onward))) in seen:
                    continue
                seen.add(key)
                after = {
                    moved(now, s, die)
                    for now in nows
                    for s, die in legal_steps(now)
                    if (s, max(s - die, 0)) == (src, dst)
                }
                todo.append((onward, after))
    assert not differences, "\n".join(differences[:50])


def chained(src: int, used: tuple[int, ...]) -> Play:
    steps = []
    for die in used:
        steps.append(CheckerMove(src, max(src - die, 0)))
        src -= die
    return tuple(steps)


def test_a_play_is_judged_the_same_in_any_order(legal_cases: list[Any]) -> None:
    for case, at, mover in by_colour(legal_cases):
        for play in legal_plays(at, mover, case.dice):
            expected = at.after(mover, play)
            for order in (play, play[::-1], play[1:] + play[:1]):
                assert at.after(mover, judge(at, mover, case.dice, order)) == expected, (case.id, order)


# Counting: STYLE.md section 9 ("Tests").

PERFT = (
    "11:42 21:15 22:75 31:16 32:17 33:73 41:14 42:18 43:17 44:52 51:8 52:8 53:9 54:9 55:4 "
    "61:10 62:14 63:14 64:14 65:7 66:11"
)


@pytest.mark.parametrize(("roll", "count"), [word.split(":") for word in PERFT.split()], ids=PERFT.split())
def test_the_positions_after_a_first_roll_are_counted(roll: str, count: str) -> None:
    at = board()
    assert len({at.after(Color.WHITE, play) for play in legal_plays(at, Color.WHITE, dice(roll))}) == int(count)
    assert len({at.after(Color.BLACK, play) for play in legal_plays(at, Color.BLACK, dice(roll))}) == int(count)


def test_the_positions_at_depth_two_are_202782() -> None:
    """Summed over the 447 pairs of a first roll and its position and over the 21 answering rolls, not over the 406
    positions without their rolls: the positions that the answer can lead to, each counted once for its pair and roll.
    """
    first = [
        at for roll in ROLLS for at in {board().after(Color.WHITE, p) for p in legal_plays(board(), Color.WHITE, roll)}
    ]
    assert len(first) == 447
    answers = {
        at: sum(len({at.after(Color.BLACK, p) for p in legal_plays(at, Color.BLACK, roll)}) for roll in ROLLS)
        for at in set(first)
    }
    assert sum(answers[at] for at in first) == 202_782


# Refusals. One rule broken in each; RULES.md section 1 and SEEDS.md sections 1.2 to 1.5 have the rules.

REFUSED = {
    # own checkers, the opponent's in its own numbering, dice, play
    Breach.NO_CHECKER: [
        (START, START, "31", "23/20"),
        (START, START, "31", "19/18"),
        (START, START, "31", "bar/22"),
        (START, START, "11", "24/23(3)"),
        (START, START, "31", "8/5 4/3"),
        (START, START, "64", "24/18 17/13"),
    ],
    Breach.MUST_ENTER: [
        ("25:1 24:1 13:5 8:3 6:5", START, "31", "13/10"),
        ("25:1 24:1 13:5 8:3 6:5", START, "31", "13/10 6/5"),
        ("25:1 6:5 5:5 4:4", "24:2 13:5 8:3 5:5", "64", "6/off"),
        ("25:2 13:5 8:3 6:5", START, "31", "bar/22 13/12"),
        ("25:2 13:5 8:3 6:5", START, "31", "bar/21"),
        ("25:3 13:5 8:3 6:4", START, "22", "bar/23(2) 6/4(2)"),
    ],
    Breach.WRONG_DIRECTION: [
        (START, START, "31", "8/11"),
        (START, START, "31", "13/13"),
        (START, START, "21", "13/bar"),
        (START, START, "31", "8/5 6/7"),
    ],
    Breach.NOT_THAT_DIE: [
        (START, START, "31", "13/11"),
        (START, START, "31", "13/8"),
        (START, START, "31", "13/10 8/5"),
        (START, START, "31", "13/10 8/7 6/5"),
        (START, START, "22", "13/10"),
        (START, START, "22", "13/11(2) 6/4(3)"),
        ("6:2 5:3", START, "31", "6/off"),
        ("25:1 24:1 13:5 8:3 6:5", START, "31", "bar/23"),
    ],
    Breach.POINT_BLOCKED: [
        (START, START, "51", "24/19"),
        (START, START, "51", "13/12 24/19"),
        (START, "13:7 6:4 5:2 4:2", "43", "24/17"),
        (START, START, "55", "24/14"),
        ("25:1 24:1 13:5 8:3 6:5", START, "61", "bar/19"),
        ("25:1 24:1 13:5 8:3 6:5", START, "51", "bar/19"),
        ("3:1 2:1", "24:2 23:2 13:5", "21", "3/off"),
        ("6:2 3:2", "24:2 23:2 13:5", "21", "3/off"),
        ("7:1 5:2 3:2", "24:2 19:2 13:5", "61", "7/off"),
    ],
    Breach.CANNOT_BEAR_OFF: [
        ("13:1 6:5 5:5 4:4", START, "64", "6/off"),
        ("13:1 6:5 5:5 4:4", START, "64", "6/off 4/off"),
        ("8:1 6:7 5:7", START, "65", "6/off 5/off"),
        ("13:2 6:5 5:5 4:3", "13:5", "66", "13/off"),
        ("24:1 6:5 3:4", "13:5", "63", "3/off"),
    ],
    Breach.HIGHER_POINT_FIRST: [
        ("6:2 3:2", START, "54", "3/off"),
        ("5:1 4:1 2:3", START, "64", "5/off 2/off"),
        ("6:1 5:2 2:2", START, "44", "6/2 2/off"),
        ("6:3 1:2", START, "32", "1/off(2)"),
    ],
    Breach.BOTH_DICE_PLAYABLE: [
        (START, START, "31", "8/5"),
        (START, START, "31", "24/23"),
        (START, START, "31", ""),
        ("20:1 12:1", "18:2 16:2", "65", "20/14"),
        ("25:1 13:5 8:3 6:6", START, "31", "bar/22"),
    ],
    Breach.MORE_DICE_PLAYABLE: [
        (START, START, "11", "8/7(2)"),
        (START, START, "11", "8/7(2) 6/5"),
        (START, START, "11", ""),
        ("20:1", "21:2", "44", "20/12"),
        ("16:1", "21:2", "44", "16/12"),
        ("20:1", "16:2 11:2", "65", ""),
    ],
    Breach.LARGER_DIE_FIRST: [
        ("20:1", "16:2", "65", "20/15"),
        ("20:1", "16:2", "56", "20/15"),
        ("25:1", "11:2", "65", "bar/20"),
        ("25:1 23:1", "11:2 8:2 7:2", "65", "bar/20"),
    ],
    Breach.AMBIGUOUS_PLAY: [
        ("13:1 6:2", "18:1 14:1", "62", "13/5"),
        ("25:1 6:2", "6:1 2:1", "62", "bar/17"),
        ("3:1", "24:1 23:1", "21", "3/off"),
    ],
}


@pytest.mark.parametrize("mover", Color)
@pytest.mark.parametrize(
    ("own", "other", "roll", "text", "breach"),
    [
        pytest.param(*row, breach, id=f"{breach}: {row[0]}, {row[2]}, {row[3] or 'nothing'}")
        for breach, rows in REFUSED.items()
        for row in rows
    ],
)
def test_a_wrong_play_is_refused_by_the_rule_it_breaks(
    own: str, other: str, roll: str, text: str, breach: Breach, mover: Color
) -> None:
    at = board(own, other) if mover is Color.WHITE else board(other, own)
    with pytest.raises(RuleError) as refusal:
        judge(at, mover, dice(roll), parse_play(text))
    assert refusal.value.breach is breach
    assert refusal.value.legal_plays == legal_plays(at, mover, dice(roll))
    assert refusal.value.legal_plays
    assert refusal.value.message == str(refusal.value) != ""


def test_each_rule_of_play_has_its_refusal() -> None:
    codes = list(Breach)
    of_plays = codes[codes.index(Breach.MALFORMED_NOTATION) + 1 :]
    assert set(REFUSED) == set(of_plays)


SILLY = {
    "a point beyond the bar": ([(26, 20)], Breach.NO_CHECKER),
    "a huge point": ([(10**40, 5)], Breach.NO_CHECKER),
    "a negative point": ([(-1, -4)], Breach.NO_CHECKER),
    "a hugely negative point": ([(-(10**40), 3)], Breach.NO_CHECKER),
    "from off": ([(0, -3)], Breach.NO_CHECKER),
    "to below off": ([(24, -1)], Breach.WRONG_DIRECTION),
    "to far below off": ([(24, -(10**40))], Breach.WRONG_DIRECTION),
    "to a huge point": ([(24, 10**40)], Breach.WRONG_DIRECTION),
    "nowhere": ([(13, 13)], Breach.WRONG_DIRECTION),
    "a legal move and a huge one": ([(8, 5), (10**40, 10**40)], Breach.NO_CHECKER),
    "a legal move and a negative one": ([(8, 5), (6, -1)], Breach.WRONG_DIRECTION),
    "a thousand moves": ([(13, 10)] * 1000, Breach.NOT_THAT_DIE),
}


@pytest.mark.parametrize(("moves", "breach"), SILLY.values(), ids=SILLY.keys())
def test_silly_numbers_are_refused_like_any_wrong_play(moves: list[tuple[int, int]], breach: Breach) -> None:
    play = [CheckerMove(*move) for move in moves]
    for ask in (judge, destinations):
        with pytest.raises(RuleError) as refusal:
            ask(board(), Color.WHITE, Dice(3, 1), play)
        assert refusal.value.breach is breach
        assert refusal.value.legal_plays == legal_plays(board(), Color.WHITE, Dice(3, 1))


SPELLED = {
    # own checkers, the opponent's, dice, as spelled, as played
    "in any order": (START, START, "31", "6/5 8/5", "8/5 6/5"),
    "in the order of the dice": (START, START, "31", "8/5 6/5", "8/5 6/5"),
    "one checker as one hop": (START, START, "31", "24/20", "24/21 21/20"),
    "one checker step by step": (START, START, "31", "24/23 23/20", "24/23 23/20"),
    "its steps in the wrong order": (START, START, "31", "23/20 24/23", "24/23 23/20"),
    "the smaller die first": (START, START, "13", "8/5 6/5", "8/5 6/5"),
    "a double as hops": (START, START, "22", "24/20(2)", "24/22 24/22 22/20 22/20"),
    "a double as one hop": (START, START, "22", "13/5", "13/11 11/9 9/7 7/5"),
    "a double as hop and steps": (START, START, "22", "6/4(2) 24/20", "24/22 22/20 6/4 6/4"),
    "entering first whatever the order": ("25:1 24:1 13:5 8:3 6:5", START, "31", "6/5 bar/22", "25/22 6/5"),
    "entering and on in one hop": ("25:1 24:1 13:5 8:3 6:5", START, "31", "bar/21", "25/22 22/21"),
    "coming home, then off": ("7:1 6:2", "13:5", "61", "6/off 7/6", "7/6 6/0"),
    "from outside to off in one hop": ("7:1 5:2", "13:5", "61", "7/off", "7/6 6/0"),
    "off by a larger die": ("4:1 3:1", "13:5", "65", "4/off 3/off", "4/0 3/0"),
    "a lower die inside, then off": ("4:1 3:2", "13:5", "61", "4/3 3/off", "4/3 3/0"),
    "a hop that must hit": ("13:1 6:2", "18:1 14:2", "62", "13/5", "13/7 7/5"),
    "a hop that need not hit": ("13:1 6:2", "18:1", "62", "13/5", "13/11 11/5"),
    "a hop with its hit named": ("13:1 6:2", "18:1", "62", "13/7*/5", "13/7 7/5"),
    "one of two hits named": ("13:1 6:2", "18:1 14:1", "62", "13/11*/5", "13/11 11/5"),
    "both dice where one would win": ("4:1", "23:1", "62", "4/off", "4/2 2/0"),
    "only the larger die can be played": ("20:1", "16:2", "65", "20/14", "20/14"),
    "only one die can be played at all": ("20:1", "16:2 11:2", "65", "20/15", "20/15"),
    "three of four": ("20:1", "21:2", "44", "20/8", "20/16 16/12 12/8"),
    "nothing, when nothing can be played": ("25:1 13:5", "6:2 5:2", "65", "", ""),
}


@pytest.mark.parametrize(("own", "other", "roll", "text", "played"), SPELLED.values(), ids=SPELLED.keys())
def test_a_play_may_be_spelled_in_any_order_and_with_hops(
    own: str, other: str, roll: str, text: str, played: str
) -> None:
    expected = tuple(CheckerMove(*map(int, word.split("/"))) for word in played.split())
    for mover, at in ((Color.WHITE, board(own, other)), (Color.BLACK, board(other, own))):
        play = judge(at, mover, dice(roll), parse_play(text))
        assert at.after(mover, play) == at.after(mover, expected)
        assert len(play) == len(expected)
        assert list(play) == sorted(play, reverse=True)


MARKED = {
    # own checkers, the opponent's, dice, played, from, and there: where to, with which dice, hitting where
    "5, 3 or 5+3": (START, START, "53", "", 13, [(10, (3,), ()), (8, (5,), ()), (5, (5, 3), ())]),
    "the other die after the first": (START, START, "53", "13/8", 8, [(5, (3,), ())]),
    "nothing after both": (START, START, "53", "13/8 6/3", 13, []),
    "blocked in between and at the end": (START, START, "61", "", 24, [(23, (1,), ()), (18, (6,), ())]),
    "a hit on the way and none": (
        "13:1 6:2",
        "18:1",
        "62",
        "",
        13,
        [(11, (2,), ()), (7, (6,), (7,)), (5, (6, 2), (7,)), (5, (2, 6), ())],
    ),
    "two hits with one checker": ("13:1", "18:1 20:1", "62", "13/7", 7, [(5, (2,), (5,))]),
    "a double, one to four": (
        START,
        START,
        "22",
        "",
        13,
        [(11, (2,), ()), (9, (2,) * 2, ()), (7, (2,) * 3, ()), (5, (2,) * 4, ())],
    ),
    "only from the bar": ("25:1 24:1 13:5", START, "31", "", 13, []),
    "the bar": ("25:1 24:1 13:5 8:3 6:5", START, "61", "", 25, [(24, (1,), ()), (18, (1, 6), ())]),
    "no step that strands a die": ("20:1 12:1", "18:2 16:2", "65", "", 20, [(15, (5,), ())]),
    "both dice where one would win": ("4:1", "23:1", "62", "", 4, [(2, (2,), (2,)), (0, (2, 6), (2,))]),
    "off by either die": ("3:1 2:1", "13:5", "65", "", 3, [(0, (6,), ()), (0, (5,), ())]),
    "only the larger die": ("20:1", "16:2", "65", "", 20, [(14, (6,), ())]),
    "a dance": ("25:1 13:5", "6:2 5:2", "65", "", 25, []),
}


@pytest.mark.parametrize(("own", "other", "roll", "played", "src", "marks"), MARKED.values(), ids=MARKED.keys())
def test_each_checker_is_shown_where_it_may_go_with_which_dice(
    own: str, other: str, roll: str, played: str, src: int, marks: list[tuple[int, tuple[int, ...], tuple[int, ...]]]
) -> None:
    """SEEDS.md section 1.7: the mark says which dice it uses."""
    for mover, at in ((Color.WHITE, board(own, other)), (Color.BLACK, board(other, own))):
        shown = destinations(at, mover, dice(roll), parse_play(played))
        assert sorted((to.dst, to.dice, to.hits) for to in shown if to.src == src) == sorted(marks)


@pytest.mark.parametrize(
    ("own", "other", "roll", "played", "breach"),
    [
        pytest.param("20:1 12:1", "18:2 16:2", "65", "20/14", Breach.BOTH_DICE_PLAYABLE, id="strands the other die"),
        pytest.param("20:1", "16:2", "65", "20/15", Breach.LARGER_DIE_FIRST, id="the smaller die alone"),
        pytest.param(START, START, "31", "13/9 8/5", Breach.NOT_THAT_DIE, id="too many dice"),
        pytest.param("25:1 13:5", START, "31", "13/10", Breach.MUST_ENTER, id="past the bar"),
    ],
)
def test_no_destination_is_shown_after_steps_that_no_legal_play_contains(
    own: str, other: str, roll: str, played: str, breach: Breach
) -> None:
    with pytest.raises(RuleError) as refusal:
        destinations(board(own, other), Color.WHITE, dice(roll), parse_play(played))
    assert refusal.value.breach is breach
    assert refusal.value.legal_plays == legal_plays(board(own, other), Color.WHITE, dice(roll))


# Any board, any roll, any moves.


@st.composite
def boards(draw: st.DrawFn) -> Board:
    """Fifteen checkers a side, anywhere that is not the other's; crowded near home as often as not."""
    reach = draw(st.sampled_from([6, 12, 25]))
    own = draw(st.lists(st.integers(0, reach), min_size=15, max_size=15))
    free = [point for point in range(26) if point in (0, 25) or 25 - point not in own]
    other = draw(st.lists(st.sampled_from(free), min_size=15, max_size=15))
    return Board(*(tuple(points.count(point) for point in range(26)) for points in (own, other)))


rolls = st.sampled_from(ROLLS)
wild_moves = st.builds(CheckerMove, st.integers(-2, 28), st.integers(-4, 28))


@steady
@given(boards(), rolls)
def test_the_legal_results_are_those_of_a_plain_search(at: Board, roll: Dice) -> None:
    plays = legal_plays(at, Color.WHITE, roll)
    ends = [at.after(Color.WHITE, play) for play in plays]
    assert len(ends) == len(set(ends))
    assert {(end.white, end.black) for end in ends} == searched(starting(at, Color.WHITE, roll))


@settings(steady, max_examples=500)
@given(boards(), rolls, st.data())
def test_any_moves_are_a_legal_play_or_a_refusal(at: Board, roll: Dice, data: st.DataObject) -> None:
    plays = legal_plays(at, Color.WHITE, roll)
    steps = sorted({step for play in plays for step in play})
    likely = st.one_of(wild_moves, *[st.sampled_from(steps)] * 3) if steps else wild_moves
    moves = data.draw(st.lists(likely, max_size=5))
    refusals = []
    for ask in (judge, destinations):
        try:
            ask(at, Color.WHITE, roll, moves)
        except RuleError as refusal:
            refusals.append(refusal.legal_plays)
    assert all(legal == plays for legal in refusals)


@settings(steady, max_examples=500)
@given(boards(), rolls, st.data())
def test_an_accepted_play_is_legal_and_moves_what_was_asked(at: Board, roll: Dice, data: st.DataObject) -> None:
    plays = legal_plays(at, Color.WHITE, roll)
    legal = {at.after(Color.WHITE, play) for play in plays} or {at}
    steps = sorted({step for play in plays for step in play}) or [CheckerMove(25, 20)]
    moves = data.draw(st.lists(st.sampled_from(steps), max_size=4))
    asked = list(at.white)
    for src, dst in moves:
        asked[src] -= 1
        asked[dst] += 1
    try:
        end = at.after(Color.WHITE, judge(at, Color.WHITE, roll, moves))
    except RuleError:
        end = None
    assert end is None or (end in legal and end.white == tuple(asked))
    if end is None and len(moves) <= (4 if roll.is_double else 2):
        assert tuple(asked) not in {own for own, _ in searched(starting(at, Color.WHITE, roll))}
