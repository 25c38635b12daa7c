"""Match files in text: every file of the corpus, written and read again, and what must be refused."""

import time
from contextlib import suppress
from typing import Any

import pytest
from gvformat import game_reconstructor, mat_parser
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from domain.board import CheckerMove, Color, Dice
from domain.events import Accepted, Created, Doubled, Joined, Moved, Refused, Resigned, Rolled, Sandbox, Settings, Stake
from domain.mat import read_mat, write_mat
from domain.match import Crawford, End, ToPlay
from domain.matchfile import FileError, NotExpressible, ReadMatch
from domain.plays import legal_plays
from domain.rules import fold
from tests.domain.matchfiles import AWKWARD, MATCHES, as_files_tell, games_of, letters, read_from_corpus, text_of
from tests.domain.test_random_play import PLAYED, log_of

ENDS = {"bearoff": End.BEAR_OFF, "drop": End.DROP, "resign": End.RESIGNATION}


def read(text: str) -> ReadMatch:
    return read_mat(text, "m1", "ann", "bob")


def game(*rows: str, length: int = 7) -> str:
    """A file with one game that has these rows."""
    return "\n".join([f" {length} point match", "", " Game 1", " Ann : 0                        Bob : 0", *rows, ""])


def refused(text: str) -> FileError:
    with pytest.raises(FileError) as caught:
        read(text)
    return caught.value


@pytest.mark.parametrize("told", MATCHES.values(), ids=MATCHES.keys())
def test_every_match_comes_to_what_the_engines_say(told: dict[str, Any]) -> None:
    got = read_from_corpus(told["file"])
    expect = told["expect"]
    assert got.names == ("White", "Black")
    assert fold(got.events) == got.match
    money = "money16" in told["file"]
    assert got.match.settings.length == (None if money else expect["length"])
    assert (got.match.winner is not None) is (money or expect["complete"])
    assert list(got.match.points) == expect["final_by_rule"]
    games = list(games_of(got.events))
    assert len(games) == len(expect["games"])
    for (begin, end), said in zip(games, expect["games"], strict=True):
        result = end.results[-1]
        assert [begin.score(color) for color in Color] == said["score_before"]
        assert (begin.crawford is Crawford.NOW) is said["crawford"]
        assert (result.winner.title(), result.cube) == (said["winner"], said["cube"])
        assert (result.points, result.end) == (said["points_by_rule"], ENDS[said["end"]])
        if board := said["final_board_winner_view"]:
            assert letters(end, result.winner) == board
        if said["capped"]:
            assert any(f"points in the file: {said['points_in_file']}, by the rules" in note for note in got.notes)


@pytest.mark.parametrize("file", MATCHES)
def test_a_match_that_was_written_reads_the_same(file: str) -> None:
    got = read_from_corpus(file)
    again = read(write_mat(got.events, got.names))
    assert again.events == got.events
    assert (again.names, again.match) == (got.names, got.match)
    assert again.notes == ()


@pytest.mark.parametrize("told", AWKWARD.values(), ids=AWKWARD.keys())
def test_an_awkward_match_is_refused_or_remarked_on(told: dict[str, Any]) -> None:
    text = text_of(told["file"])
    if "money" in told["why"] or "Jacoby" in told["why"]:
        got = read(text)
        assert got.match.settings.length is None
        assert "16 point match read as a money game" in got.notes[0]
    elif "resignation worth" in told["why"]:
        got = read(text)
        assert got.match.results[-1].stake is Stake.MATCH
        assert "read as giving up the match" in got.notes[-1]
    else:
        error = refused(text)
        quoted = "4016" if "4016" in told["why"] else told["why"].split('"')[1]
        assert quoted in error.got
        assert quoted in text.splitlines()[error.line - 1][error.column - 1 :]


@pytest.mark.parametrize("file", MATCHES)
def test_another_reader_sees_the_same_boards(file: str) -> None:
    got = read_from_corpus(file)
    theirs = mat_parser.parse_mat_file(write_mat(got.events, got.names))
    boards = []
    for played in theirs["games"]:
        for decision in game_reconstructor.reconstruct_decisions(played, theirs["match_length"], "White", "Black")[
            "decisions"
        ]:
            if decision["kind"] == "checker":
                boards.append((*decision["dice"], *decision["board_played"][1:]))
    ours = []
    match = fold(got.events[:3])
    for event in got.events[3:]:
        if isinstance(event, Moved):
            assert match.dice is not None
            board = match.board.after(event.by, event.play)
            own, other = board.side(event.by), board.side(event.by.opponent)
            dice = match.dice.descending if match.last_play is None else match.dice
            ours.append((*dice, *(own[point] - other[25 - point] for point in range(1, 25)), own[25]))
        elif isinstance(event, Resigned) and match.dice and match.turn:
            # a roll that was not played is a dance to them
            own, other = match.board.side(match.turn), match.board.side(match.turn.opponent)
            ours.append((*match.dice, *(own[point] - other[25 - point] for point in range(1, 25)), own[25]))
        match = fold([event], match)
    assert boards == ours


def test_every_dialect_of_a_game_reads_the_same() -> None:
    plain = read(game("  1)                             31: 8/5 6/5", "  2) 52: 13/8 24/22              61: 13/7 8/7"))
    for text in (
        '\ufeff; [Site "x"]\r\n7 point match\r\n Game 1\r\n Ann : 0      Bob : 0\r\n'
        "  1)                             31: 8/5 6/5\r\n 2) 52: 24/22 13/8      61: 13/7 8/7\r\n",
        "7 Point Match\r\rGame 1\rAnn : 0  Bob : 0\r1)\t\t\t\t13: 6/5, 8/5\r2) 52: 13/8 24/22\t61: 8/7 13/7\r",
    ):
        assert read(text).events == plain.events
    assert plain.names == ("Ann", "Bob")
    assert plain.events[3] == Rolled(by=Color.BLACK, dice=Dice(1, 3), opening=True)
    assert plain.events[5] == Rolled(by=Color.WHITE, dice=Dice(5, 2))


def test_a_dance_is_told_whether_or_not_the_file_does() -> None:
    rows = "  1) 62: 24/18 13/11              61: 13/7* 8/7", "  2) 66: {}                        64: 24/20 13/7"
    told = [read(game(*rows).replace("{}", words)) for words in ("  ", "Cannot Move")]
    assert told[0].events == told[1].events
    assert Moved(by=Color.WHITE, play=()) in told[0].events


OPENED_43 = "  1)                             43: 13/9 8/5"


@pytest.mark.parametrize(
    ("hop", "then", "play"),
    [
        ("24/18", "31: 24/20", ((24, 22), (22, 18))),
        ("24/18*", "31: bar/21", ((24, 20), (20, 18))),
        ("24/18", "31: bar/21", ((24, 20), (20, 18))),
    ],
    ids=["no mark", "a mark", "no mark, and the next play enters"],
)
def test_a_hop_goes_as_the_hit_mark_says_or_else_as_the_next_plays_need(
    hop: str, then: str, play: tuple[tuple[int, int], ...]
) -> None:
    got = read(game(OPENED_43, f"  2) 24: {hop}                  {then}"))
    assert got.events[6] == Moved(by=Color.WHITE, play=tuple(CheckerMove(*move) for move in play))


def test_a_hop_that_hits_either_way_goes_as_the_next_plays_need() -> None:
    rows = "  1) 42: 6/4 6/2                 31: 24/20*", "  2) 31: bar/24 4/1"
    got = read(game(*rows))
    assert got.events[6] == Moved(by=Color.BLACK, play=(CheckerMove(24, 23), CheckerMove(23, 20)))
    assert got.notes == ("line 5: 31: 24/20* read as 24/23* 23/20",)


def test_a_hop_that_fits_no_way_is_refused_where_the_furthest_way_ends() -> None:
    rows = "  1) 42: 6/4 6/2                 31: 24/20*", "  2) 31: bar/24 4/1              31: bar/24 13/10"
    error = refused(game(*rows, "  3) 66: 24/12 23/11"))
    assert error.line == 7


def test_who_gives_up_loses_what_the_file_says() -> None:
    begun = "  1) 31: 8/5 6/5                 "
    single, gammon, backgammon, all_seven = (
        read(game(begun + "63: 24/18 13/10", f"  2) {wins}{'and the match' * (points == 7)}"))
        for points, wins in ((n, f" Wins {n} points ") for n in (1, 2, 3, 7))
    )
    assert single.events[-2:] == (Resigned(by=Color.BLACK, stake=Stake.SINGLE), Accepted(by=Color.WHITE))
    assert gammon.events[-2] == Resigned(by=Color.BLACK, stake=Stake.GAMMON)
    assert backgammon.events[-1] == Resigned(by=Color.BLACK, stake=Stake.BACKGAMMON)
    assert all_seven.events[-1] == Resigned(by=Color.BLACK, stake=Stake.MATCH)
    assert all_seven.notes


@pytest.mark.parametrize(
    "end",
    [
        "63: ????\n      Wins 1 point",
        "63:\n      Wins 1 point",
        "63: Concedes\n      Wins 1 point",
        "63:\n  2)  Wins 1 point",
        "63:\n  2)                              Losses 1 point\n      Wins 1 point",
    ],
)
def test_a_roll_that_was_not_played_ends_the_game(end: str) -> None:
    got = read(game("  1) 31: 8/5 6/5                 " + end))
    assert got.events[5:] == (
        Rolled(by=Color.BLACK, dice=Dice(6, 3)),
        Resigned(by=Color.BLACK, stake=Stake.SINGLE),
        Accepted(by=Color.WHITE),
    )
    assert read(write_mat(got.events, got.names)).events == got.events


@pytest.mark.parametrize(
    ("end", "winner"),
    [
        ("63:\n      Wins 1 point", Color.WHITE),
        ("63:  Wins 1 point", Color.BLACK),
        ("63: 24/18 13/10\n                                  Wins 1 point", Color.BLACK),
        ("63: 24/18 13/10\n  2) 21:       Wins 1 point", Color.WHITE),
        ("63: 24/18 13/10\n  2) 21:                         Wins 1 point", Color.BLACK),
    ],
)
def test_a_result_in_the_row_of_a_roll_belongs_to_the_side_it_stands_on(end: str, winner: Color) -> None:
    got = read(game("  1) 31: 8/5 6/5                 " + end))
    assert got.match.results[0].winner is winner


def test_long_names_may_touch_the_score() -> None:
    got = read(game().replace("Ann : 0                        Bob", "A" * 31 + " : 0Bob"))
    assert got.names == ("A" * 31, "Bob")


def test_giving_up_with_a_double_open_is_a_drop() -> None:
    got = read(game("  1) 31: 8/5 6/5                  Doubles => 2", "                                  Wins 1 point"))
    assert got.events[-1] == Refused(by=Color.WHITE)
    assert "read as a drop" in got.notes[0]


def test_an_unfinished_match_stops_where_the_file_does() -> None:
    assert read(" 7 point match\n").match.rolls == 0
    assert read(game()).match.rolls == 0
    assert read(game("  1) 31: ")).match.phase == ToPlay(Color.WHITE, Dice(3, 1))
    got = read(game("  1) 31: 8/5 6/5                  Doubles => 2", "  2)  Takes"))
    assert got.match.cube.value == 2


def test_jacoby_is_in_force_for_money_unless_the_points_say_no() -> None:
    rows = "  1) 31: 8/5 6/5                 63: 24/18 13/10", "  2)  Wins {} points"
    one, two = (read(game(*rows, length=0).format(points)) for points in (1, 2))
    assert (one.match.settings.jacoby, two.match.settings.jacoby) == (True, False)
    assert two.match.results[0].points == 2
    assert read('; [Jacoby "Off"]\n' + game(*rows, length=0).format(1)).match.settings.jacoby is False


REFUSED = {
    "nothing": ("", 1, 1, "point match"),
    "another kind of file": ("(;FF[4]GM[6])", 1, 1, "point match"),
    "no game": (" 7 point match\n hello\n", 2, 2, "Game 1"),
    "no score": (" 7 point match\n Game 1\n hello\n", 3, 2, "the players and the score"),
    "an endless match": ("99999999999 point match\n Game 1\n A : 0   B : 0\n", 1, 1, "can be played"),
    "a wrong score": (game().replace("Ann : 0", "Ann : 3"), 4, 2, "0:0"),
    "an illegal play": (game("  1) 31: 8/5 6/4"), 5, 10, "a legal play"),
    "a play of one die": (game("  1) 31: 8/5"), 5, 10, "a legal play"),
    "an unreadable play": (game("  1) 31: 8-5 6-5"), 5, 10, "a play"),
    "no such dice": (game("  1) 71: 8/1 6/5"), 5, 6, "dice from 11 to 66"),
    "an opening double": (game("  1) 33: 8/5(2) 6/3(2)"), 5, 6, "two different dice"),
    "a roll out of turn": (game("  1) 31: 8/5 6/5", "  2) 31: 8/5 6/5"), 6, 6, "white may do"),
    "a missing play": (game("  1) 31:                         31: 8/5 6/5"), 5, 6, "a play of 31"),
    "a wrong cube": (game("  1) 31: 8/5 6/5                  Doubles => 4"), 5, 35, "Doubles => 2"),
    "an answer to nothing": (game("  1) 31: 8/5 6/5                  Takes"), 5, 35, "black may do"),
    "a beaver": (game("  1) 31: 8/5 6/5                  Doubles => 2", "  2)  Beavers => 4"), 6, 7, "Takes or Drops"),
    "three cells": (game("  1) 31: 8/5 6/5    31: 8/5 6/5   31: 8/5 6/5"), 5, 35, "two cells"),
    "a stray word": (game("  1) hello"), 5, 6, "dice with a play"),
    "a result before the roll": (game("  1)  Wins 1 point"), 5, 7, "can be resigned"),
    "absurd points": (game("  1) 31: 8/5 6/5                  Wins 4016 points"), 5, 35, "1, 2 or 3 times"),
    "play after the end": (
        game("  1) 31: 8/5 6/5                  Wins 1 point", "  2) 31: 8/5 6/5"),
        6,
        6,
        "nothing after",
    ),
    "a roll after the last checker": (
        "\n".join([*text_of("real_011_galaxy3pt.mat").split("\n")[:37], " 99) 31: 8/5 6/5"]),
        38,
        6,
        "the end of this game",
    ),
    "many ends": (game("  1) 31: 8/5 6/5", *["  2) ????    ????"] * 4000), 8, 6, "nothing after"),
    "a game after no end": (game("  1) 31: 8/5 6/5", " Game 2", " A : 0   B : 0"), 5, 6, "a result"),
    "a control character": (game("  1) 31: 8/5 \0 6/5"), 5, 14, "text"),
    "a long line": (game("x" * 2000), 5, 1001, "a line of at most"),
    "a long file": ("x" * 10_000_000, 1, 1, "a file of at most"),
    "many games": (" 7 point match\n" + " Game 1\n A : 0   B : 0\n" * 100_000, 5, 2, "the result"),
    "many rows": (game(*["  1) 31: 8/5 6/5      31: 8/5 6/5"] * 20_000), 5005, 3, "a game of at most"),
    "an absurd cube limit": ('; [CubeLimit "7"]\n' + game(), 2, 2, "can be played"),
    "two games for money": (
        game("  1) 31: 8/5 6/5                  Wins 1 point", " Game 2", " A : 0   B : 1", length=0),
        7,
        2,
        "the end of the file",
    ),
}


@pytest.mark.parametrize(("text", "line", "column", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_where_it_stands(text: str, line: int, column: int, expected: str) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column), str(error)
    assert expected in error.expected
    assert len(str(error)) < 400


def test_an_illegal_play_is_refused_with_its_rule() -> None:
    error = refused(game("  1) 31: 8/5 6/4"))
    assert str(error) == (
        "line 5, column 10: expected a legal play, found '8/5 6/4': 6/4: 2 pips, and the dice left are 1"
    )


def test_hops_that_could_all_be_otherwise_do_not_take_for_ever() -> None:
    # white's only ways to 24/18 are by a blot or not, again and again; what follows is never legal
    hops = "  2) 24: 24/18                   31: 24/20", "  3) 66: 18/6"
    begin = time.process_time()
    refused(game(OPENED_43, *hops * 2000))
    assert time.process_time() - begin < 2


def test_a_match_to_seven_is_read_in_less_than_fifty_milliseconds() -> None:
    text = text_of("real_031_galaxy7pt.mat")
    read(text)
    begin = time.process_time()
    read(text)
    assert time.process_time() - begin < 0.05


MUTATED = [text_of(file) for file in list(MATCHES)[:: max(1, len(MATCHES) // 12)]]
LINES = sorted({line for text in MUTATED for line in text.splitlines()})


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_befalls_a_file_it_is_read_or_refused(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(MUTATED)).splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["drop", "copy", "other", "insert", "replace", "cut"])):
            case "drop" if len(lines) > 1:
                del lines[at]
            case "copy":
                lines.insert(at, lines[at])
            case "other":
                lines[at] = data.draw(st.sampled_from(LINES))
            case "cut":
                lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
            case kind:
                column = data.draw(st.integers(0, len(lines[at])))
                noise = data.draw(
                    st.text(max_size=5) | st.text("0123456789/*():;[]= obarffWinsTakesDrops?", max_size=5)
                )
                lines[at] = lines[at][:column] + noise + lines[at][column + len(noise) * (kind == "replace") :]
    try:
        got = read("\n".join(lines))
    except FileError:
        return
    assert fold(got.events) == got.match


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, " 7 point match\n" + text, game(text)):
        with suppress(FileError):
            read(whole)


CREATED = Created(match="m1", settings=Settings(length=3), color=Color.WHITE, rules=1)
SEATED = (CREATED, Joined(color=Color.WHITE, player="ann"), Joined(color=Color.BLACK, player="bob"))


def first_play() -> Moved:
    begun = fold([*SEATED, Rolled(by=Color.WHITE, dice=Dice(3, 1), opening=True)])
    return Moved(by=Color.WHITE, play=legal_plays(begun.board, Color.WHITE, Dice(3, 1))[0])


def test_a_match_given_up_while_a_double_waits_is_told() -> None:
    begun = (*SEATED, Rolled(by=Color.WHITE, dice=Dice(3, 1), opening=True), first_play(), Doubled(by=Color.BLACK))
    for by in Color:
        events = (*begun, Resigned(by=by, stake=Stake.MATCH))
        assert read(write_mat(events, ("", ""))).events[1:] == events[1:]


def test_names_cannot_break_a_file() -> None:
    events = (*SEATED, Rolled(by=Color.WHITE, dice=Dice(3, 1), opening=True), first_play())
    for name in ("", "A : 3   B", "; [Crawford]", "1) 31: 8/5", "Game 2", "a\nb\x00", "ü" * 500, "Wins 3 points"):
        assert read(write_mat(events, (name, name))).events[1:] == events[1:]


def test_ties_and_refused_resignations_are_left_out() -> None:
    rolled = Rolled(by=Color.WHITE, dice=Dice(3, 1), opening=True)
    offered = (Resigned(by=Color.WHITE, stake=Stake.SINGLE), Refused(by=Color.BLACK))
    tied = Rolled(by=None, dice=Dice(2, 2), opening=True)
    told = read(write_mat((*SEATED, tied, rolled, *offered, first_play()), ("", "")))
    assert told.events[1:] == (*SEATED[1:], rolled, first_play())


def test_a_double_that_waits_and_a_roll_that_waits_are_written() -> None:
    begun = (*SEATED, Rolled(by=Color.WHITE, dice=Dice(3, 1), opening=True))
    doubled = (*begun, first_play(), Doubled(by=Color.BLACK))
    for events in (SEATED, begun, doubled):
        assert read(write_mat(events, ("", ""))).events[1:] == events[1:]


@pytest.mark.parametrize(
    "name", [name for name in PLAYED if not name.startswith(("from", "money, auto", "money by Jacoby, many"))]
)
def test_matches_of_every_kind_are_told_as_far_as_the_format_can(name: str) -> None:
    for seed in range(20):
        events = log_of(name, f"told {seed}")
        got = read(write_mat(events, ("Ann", "Bob")))
        assert as_files_tell(got.events) == as_files_tell(events)
        assert got.match.settings == replace(fold(events).settings, sandbox=None, crawford=got.match.settings.crawford)


def test_a_position_of_ones_own_cannot_be_written() -> None:
    sandbox = Sandbox(start="-b----E-C---eE---c-e----B-:0:0:1:00:0:0:0:3:6")
    created = Created(match="m1", settings=Settings(length=3, sandbox=sandbox), color=Color.WHITE, rules=1)
    with pytest.raises(NotExpressible, match="position of its own"):
        write_mat((created, *SEATED[1:]), ("", ""))


def test_an_automatic_double_cannot_be_written() -> None:
    money = Created(match="m1", settings=Settings(length=None, automatic_doubles=1), color=Color.WHITE, rules=1)
    with pytest.raises(NotExpressible, match="automatic double"):
        write_mat((money, *SEATED[1:], Rolled(by=None, dice=Dice(2, 2), opening=True)), ("", ""))
