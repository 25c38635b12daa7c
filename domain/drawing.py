"""A match in text: its board, score and cube, as a terminal shows them."""

from domain.board import BAR, OFF, Color
from domain.match import CalledOff, Crawford, Match, OnRoll, Opening, Over, ToAnswer, ToPlay, Waiting

_MARKS = {Color.WHITE: "X", Color.BLACK: "O"}
_HEIGHT = 5


def draw(match: Match) -> str:
    """The board from white's side (X moves down to 1, O the other way), with score, cube and what comes next.

    A pile higher than five shows its count on top.
    """
    top = _half(match, range(13, 25))
    bottom = [list(row) for row in reversed(_half(match, range(12, 0, -1)))]
    notes = _notes(match)
    ruler_top = " +13-14-15-16-17-18------19-20-21-22-23-24-+"
    ruler_bottom = " +12-11-10--9--8--7-------6--5--4--3--2--1-+"
    middle = [" |                  |BAR|                  |"]
    rows = [ruler_top, *map(_row, top), *middle, *map(_row, bottom), ruler_bottom]
    return "\n".join(f"{row}  {notes.get(at, '')}".rstrip() for at, row in enumerate(rows))


def _half(match: Match, points: range) -> list[list[str]]:
    """Five rows of cells, from the rim inwards: six points, the bar, six points."""
    white, black = match.board.white, match.board.black
    piles = [(white[p], "X") if white[p] else (black[25 - p], "O") for p in points]
    bar = (black[BAR], "O") if points[0] == 12 else (white[BAR], "X")
    piles.insert(6, bar)
    rows = []
    for level in range(_HEIGHT):
        cells = []
        for count, mark in piles:
            if level == _HEIGHT - 1 and count > _HEIGHT:
                cells.append(str(count))
            else:
                cells.append(mark if count > level else "")
        rows.append(cells)
    return rows


def _row(cells: list[str]) -> str:
    left = "".join(f"{cell:>2} " for cell in cells[:6])
    right = "".join(f"{cell:>2} " for cell in cells[7:])
    return f" |{left}|{cells[6]:^3}|{right}|"


def _notes(match: Match) -> dict[int, str]:
    """What stands beside each row."""
    cube = f"cube {match.cube.value}"
    cube += f", owned by {match.cube.owner}" if match.cube.owner else ", centred"
    if match.settings.cube_limit == 1:
        cube = "no cube"
    elif match.crawford is Crawford.NOW:
        cube = "Crawford game: no doubling"
    length = match.settings.length
    return {
        0: "money game" if length is None else f"{length}-point match",
        1: _side(match, Color.BLACK),
        6: cube,
        7: _waiting(match),
        11: _side(match, Color.WHITE),
    }


def _side(match: Match, color: Color) -> str:
    off = match.board.side(color)[OFF]
    return f"{_MARKS[color]} {color}: {match.score(color)} points, {match.board.pips(color)} pips, {off} off"


def _waiting(match: Match) -> str:
    """What the match waits for, in a few words."""
    match match.phase:
        case Waiting():
            return "waiting for a player"
        case Opening():
            return "the opening roll is next"
        case OnRoll(color=color):
            return f"{color} on roll"
        case ToPlay(color=color, dice=dice):
            return f"{color} to play {dice.first}{dice.second}"
        case ToAnswer(color=color, stake=None):
            return f"{color}: take or drop?"
        case ToAnswer(color=color, stake=stake):
            return f"{color}: accept a {stake}?"
        case Over(winner=winner):
            return f"{winner} has won the match"
        case CalledOff():
            return "the match was cancelled"
