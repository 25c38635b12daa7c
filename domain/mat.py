"""Match files in text (.mat), as JellyFish, GNU Backgammon, Galaxy and Studio write them; the left column is white."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from domain.board import Board, CheckerMove, Color, Dice, Play
from domain.breach import RuleError
from domain.commands import Accept, Double, Refuse
from domain.events import Accepted, Created, Doubled, Event, Moved, Refused, Rolled, Settings
from domain.match import Match, OnRoll, ToAnswer, ToPlay
from domain.matchfile import (
    END_OF_FILE,
    IMPORT_CUBE_LIMIT,
    FileError,
    Place,
    Reading,
    ReadMatch,
    State,
    checked_text,
    in_one_line,
    of_play,
    require_expressible,
)
from domain.notation import parse_play
from domain.plays import judge
from domain.rules import evolve
from domain.words import Said

_LONGEST_LINE = 1000
_LONGEST_GAME = 10_000
_MOST_ENDS = 4
"""Cells with which a game ends: Losses, Concedes, `????` and Wins."""
_MOST_RETRIES = 20_000
"""Cells read again, in a whole file, after a hop turned out to be made by another way."""

_MIDDLE = 20
"""A cell that begins from this column on stands on the right, and one before it on the left if it is alone."""

_GALAXY_MONEY = 16
"""The length that Backgammon Galaxy gives a money game; Jacoby is in force there."""

_TAG = re.compile(r';\s*\[(\w+) "([^"]*)"\]')
_LENGTH = re.compile(r"\s*(\d+)[ -]points? match\b.*", re.IGNORECASE | re.ASCII)
_GAME = re.compile(r"\s*Game \d+\s*", re.IGNORECASE | re.ASCII)
_LEFT_SCORE = re.compile(r":\s*(\d+)\s", re.ASCII)
_CROWDED_SCORE = re.compile(r":\s*(\d+)", re.ASCII)
"""The same where a long name left no room; GNU Backgammon writes so."""
_NUMBER = re.compile(r"\s*\d+\)", re.ASCII)
_GLUED_NUMBER = re.compile(r"(?<=\s)\d+\)")
_CELL = re.compile(
    r"(\d\d):\s*(\?+|cannot move|concedes)?|doubles|takes|drops|beavers|wins|loss?es|concedes|\?\?+",
    re.IGNORECASE | re.ASCII,
)
_DOUBLES = re.compile(r"doubles => (\d+)", re.IGNORECASE | re.ASCII)
_RESULT = re.compile(r"(wins|loss?es) (\d+) points?( and the match)?", re.IGNORECASE | re.ASCII)


class _Cell(NamedTuple):
    """One side's part of a row. `word` is its first word in lower case, or its dice."""

    at: Place
    color: Color
    word: str
    unplayed: str
    """What stands where a play would: `????`, `cannot move`, or nothing."""

    @property
    def ends(self) -> bool:
        """Whether it tells of the game's end."""
        return self.word[0] in "wlc?"


class _Game(Struct):
    """A game as it stands in the file."""

    score: tuple[int, int]
    names: tuple[str, str]
    at: Place
    cells: list[_Cell]


def read_mat(text: str, match_id: str, white: str, black: str) -> ReadMatch:
    """The match that a .mat file tells, for the players with those ids. Raises FileError.

    A money game is one game. Where a hop does not say how it was made, the hit marks and then the rest of the game do.
    """
    lines = _lines(text)
    length_at, tags, length = _preamble(lines)
    games = _games(lines, length_at.line)
    settings = _settings(length, tags, games, length_at)
    reading = Reading("mat", match_id, (white, black), settings, length_at)
    if settings.length is None and length:
        reading.notes.append(f"line {length_at.line}: Galaxy's {length} point match read as a money game")
    retries = _MOST_RETRIES
    for game in games:
        reading.begin_game(game.score, game.at)
        retries = _replay(reading, game.cells, last=game is games[-1], retries=retries)
    return reading.done(games[0].names if games else ("", ""))


def _lines(text: str) -> list[str]:
    lines = checked_text(text).split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > _LONGEST_LINE:
            most = Said("a line of at most {most} characters", most=_LONGEST_LINE)
            raise FileError(number, _LONGEST_LINE + 1, most, line)
    return [line.expandtabs() for line in lines]


def _preamble(lines: Sequence[str]) -> tuple[Place, dict[str, str], int]:
    """Where the length of the match stands, the tags before it, and the length."""
    tags: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if tag := _TAG.match(line.strip()):
            tags[tag[1].lower()] = tag[2]
        elif length := _LENGTH.fullmatch(line):
            return Place(number, length.start(1) + 1, line.strip()), tags, int(length[1])
        elif line.strip() and line.lstrip()[0] != ";":
            raise _place(number, line).error("`7 point match`, the length of the match")
    raise FileError(len(lines), 1, "`7 point match`, the length of the match", END_OF_FILE)


def _place(number: int, line: str, start: int = 0, end: int | None = None) -> Place:
    """What stands in a line between two columns, without the space around it."""
    text = line[start:end]
    return Place(number, start + len(text) - len(text.lstrip()) + 1, text.strip())


def _games(lines: Sequence[str], after: int) -> list[_Game]:
    games: list[_Game] = []
    headed = False
    for number, line in enumerate(lines[after:], after + 1):
        if not line.strip() or line.lstrip()[0] == ";":
            continue
        if headed:
            games.append(_score(number, line))
            headed = False
        elif _GAME.fullmatch(line):
            headed = True
        elif not games:
            raise _place(number, line).error("`Game 1`")
        else:
            games[-1].cells += _cells(number, line)
            if len(games[-1].cells) > _LONGEST_GAME:
                most = Said("a game of at most {most} rolls, doubles and answers", most=_LONGEST_GAME)
                raise _place(number, line).error(most)
    if headed:
        raise FileError(len(lines), 1, "the players and the score, `White : 0   Black : 0`", END_OF_FILE)
    return games


def _score(number: int, line: str) -> _Game:
    head, _, black = line.rpartition(":")
    left = _LEFT_SCORE.search(head) or next(reversed([*_CROWDED_SCORE.finditer(head)]), None)
    if left is None or not black.strip().isdecimal():
        raise _place(number, line).error("the players and the score, `White : 0   Black : 0`")
    names = head[: left.start()].strip(), head[left.end() :].strip()
    return _Game((int(left[1]), int(black)), names, _place(number, line), [])


def _cells(number: int, line: str) -> list[_Cell]:
    """The cells of a row, or of a result in a line of its own."""
    numbered = _NUMBER.match(line)
    begin = numbered.end() if numbered else 0
    found = list(_CELL.finditer(line, begin))
    stray = _place(number, line, begin, found[0].start() if found else None)
    if stray.text:
        raise stray.error("dice with a play, `31: 8/5 6/5`, or Doubles, Takes, Drops or Wins")
    if glued := _GLUED_NUMBER.search(line, begin):
        raise _place(number, line, *glued.span()).error("one row number in a row")
    results = [cell[0].lower() == "wins" for cell in found]
    if len(found) > 2 and results[2:] != [True]:
        raise _place(number, line, found[2].start()).error("two cells in a row, White's and Black's")
    cells = []
    for at, cell in enumerate(found):
        # GNU Backgammon puts a result, on either side, into the row of a roll that was not played
        second = at == 1 and not (results[1] and found[0][1])
        color = Color.BLACK if second or cell.start() >= _MIDDLE else Color.WHITE
        place = _place(number, line, cell.start(), found[at + 1].start() if at + 1 < len(found) else None)
        cells.append(_Cell(place, color, cell[1] or cell[0].lower(), (cell[2] or "").lower()))
    return cells


def _settings(length: int, tags: dict[str, str], games: Sequence[_Game], at: Place) -> Settings:
    money = length == 0 or (length == _GALAXY_MONEY and "galaxy" in tags.get("site", "").lower())
    limit = tags.get("cubelimit", "")
    return Settings(
        length=None if money else length,
        crawford=tags.get("crawford", "").lower() != "off",
        cube_limit=int(limit) if limit.isdecimal() else IMPORT_CUBE_LIMIT,
        jacoby=money and _jacoby(tags.get("jacoby", "").lower(), games),
    )


def _jacoby(tag: str, games: Iterable[_Game]) -> bool:
    """Whether Jacoby is in force for money: as the tag says, or else unless the points say that it is not."""
    if tag:
        return tag != "off"
    cells = [cell for game in games for cell in game.cells]
    results = [result for cell in cells if (result := _RESULT.match(cell.at.text))]
    centred = all(cell.word != "takes" for cell in cells)
    return not (centred and results and int(results[-1][2]) > 1)


def _replay(reading: Reading, cells: Sequence[_Cell], last: bool, retries: int) -> int:
    """Read one game, taking the first way of each hop with which the rest is legal; the retries then left."""
    others: list[tuple[int, State, Play]] = []
    furthest: tuple[int, FileError] | None = None
    at = 0
    while True:
        try:
            if at == len(cells):
                if cells and not (last or reading.game_is_over):
                    raise cells[-1].at.error("a result after this, as another game follows")
                return retries
            ways = _read_cell(reading, cells, at)
        except FileError as error:
            if furthest is None or at > furthest[0]:
                furthest = at, error
            if not others or retries <= 0:
                raise furthest[1] from None
            retries -= at - others[-1][0] + 1
            at, state, way = others.pop()
            reading.back_to(state)
            ways = [way]
        if ways:
            cell, board = cells[at], reading.match.board
            others += [(at, reading.state, way) for way in ways[:0:-1]]
            reading.note(cell.at, f"{cell.at.text} read as {_steps(board, cell.color, ways[0])}")
            reading.move(cell.color, ways[0], cell.at)
        at += 1


def _read_cell(reading: Reading, cells: Sequence[_Cell], at: int) -> list[Play]:
    """Let happen what a cell tells. Where its play is a hop that can be made in several ways: those, best first."""
    cell = cells[at]
    match cell.word:
        case "doubles":
            _double(reading, cell)
        case "takes":
            _answer(reading, cell, Accept(by=cell.color))
        case "drops":
            _answer(reading, cell, Refuse(by=cell.color))
        case "beavers":
            raise cell.at.error("Takes or Drops", "beavers are not played here")
        case word if word.isdecimal():
            following = cells[at + 1] if at + 1 < len(cells) else None
            return _roll(reading, cell, ends=following is None or following.ends)
        case _:
            _end(reading, cells, at)
    return []


def _double(reading: Reading, cell: _Cell) -> None:
    value = _DOUBLES.fullmatch(cell.at.text)
    doubled = reading.match.cube.value * 2
    if value is None or int(value[1]) != doubled:
        raise cell.at.error(Said("`Doubles => {doubled}`", doubled=doubled))
    reading.do(Double(by=cell.color), cell.at, Said("what {side} may do", side=cell.color))


def _answer(reading: Reading, cell: _Cell, answer: Accept | Refuse) -> None:
    if cell.at.text.lower() != cell.word:
        raise cell.at.error("Takes or Drops alone")
    reading.do(answer, cell.at, Said("what {side} may do", side=cell.color))


def _roll(reading: Reading, cell: _Cell, ends: bool) -> list[Play]:
    """A roll and its play; without one it was a dance, or the game (`ends`) or the file ends there."""
    first, second = map(int, cell.word)
    if not (1 <= first <= 6 and 1 <= second <= 6):
        raise cell.at.error("dice from 11 to 66")
    reading.roll(cell.color, Dice(first, second), cell.at)
    line, column, text = cell.at
    spelled = text[3:].lstrip()
    place = Place(line, column + len(text) - len(spelled), spelled)
    if not isinstance(reading.match.phase, ToPlay):
        if spelled and cell.unplayed not in ("cannot move", "????"):
            raise place.error("no play", Said("{dice} cannot be played", dice=cell.word))
        return []
    if not spelled or cell.unplayed:
        if not ends or cell.unplayed == "cannot move":
            expected = Said("a play of {dice}", dice=cell.word)
            raise (place if spelled else cell.at).error(expected, "it can be played, so it must be")
        return []
    try:
        moves = parse_play(spelled)
    except RuleError as error:
        raise place.error("a play", error.said) from None
    ways = _ways(reading.match, cell.color, moves, "*" in spelled) if len(moves) == 1 else []
    if len(ways) > 1:
        return ways
    reading.move(cell.color, ways[0] if ways else moves, place)
    return []


def _ways(match: Match, color: Color, hop: Play, marked: bool) -> list[Play]:
    """The legal plays that one move of one checker can mean; those come first that hit as it is marked, and least."""
    [(src, dst)] = hop
    dice, board = match.dice, match.board
    assert dice is not None, "only a roll is played"
    found: dict[Board, Play] = {}
    for steps in (hop, *(((src, src - die), (src - die, dst)) for die in dice.descending if src - die > dst)):
        try:
            play = judge(board, color, dice, tuple(CheckerMove(*step) for step in steps))
        except RuleError:
            continue
        found.setdefault(board.after(color, play), play)
    hits = {play: sum(board.hits(color, play)) for play in found.values()}
    return sorted(hits, key=lambda play: (bool(hits[play]) is not marked, hits[play]))


def _end(reading: Reading, cells: Sequence[_Cell], at: int) -> None:
    """A game's end. `Losses` says the same as the `Wins` that follows it; `Concedes` and `????` say less."""
    cell = cells[at]
    for number, later in enumerate(cells[at:]):
        if not later.ends or number == _MOST_ENDS:
            raise later.at.error("nothing after the end of this game")
    if any(later.word == "wins" for later in cells[at + 1 :]):
        return
    if cell.word[0] == "?":
        return
    result = _RESULT.fullmatch(cell.at.text)
    if result is None:
        raise cell.at.error("`Wins 2 points`")
    winner = cell.color if cell.word == "wins" else cell.color.opponent
    reading.conclude(winner, int(result[2]), bool(result[3]), cell.at)


def write_mat(events: Sequence[Event], names: tuple[str, str]) -> str:
    """The match as a .mat file that GNU Backgammon loads, white on the left. Raises NotExpressible.

    It has no words for tied openings and for resignations that were refused or not answered: they are left out.
    """
    # a colon sets off the score, a semicolon a comment
    shown = (in_one_line(name.translate({ord(":"): " ", ord(";"): " "})) for name in names)
    white, black = (name or color.title() for name, color in zip(shown, Color, strict=True))
    match: Match | None = None
    lines: list[str] = []
    cells: list[tuple[Color, str]] = []
    for event in of_play(events):
        before, match = match, evolve(match, event)
        require_expressible(match)
        match event:
            case Created(settings=settings):
                lines += _head(settings)
            case Rolled(by=Color() as by, dice=dice, opening=True):
                score = f"{white} : {match.score(Color.WHITE)}"
                lines += ["", f" Game {len(match.results) + 1}"]
                lines.append(f" {score:<30}  {black} : {match.score(Color.BLACK)}")
                cells = [(by, "{}{}: ".format(*dice.descending))]
            case Rolled(by=Color() as by, dice=dice):
                cells.append((by, f"{dice.first}{dice.second}: "))
            case Moved(by=by, play=play):
                assert before is not None, "a play is not the first event"
                cells[-1] = by, cells[-1][1] + _steps(before.board, by, play)
            case Doubled(by=by):
                cells.append((by, f" Doubles => {match.cube.value * 2}"))
            case Accepted(by=by) | Refused(by=by) if before and before.phase == ToAnswer(by, None, OnRoll(by.opponent)):
                cells.append((by, " Takes" if isinstance(event, Accepted) else " Drops"))
        if before and len(match.results) > len(before.results):
            unplayed = before.dice is not None and not isinstance(event, Moved)
            rows, result = _rows(cells, unplayed), _result(match)
            if cells[-1] == (Color.WHITE, " Drops"):
                # GNU Backgammon takes a result on a line of its own there for a second one
                rows[-1] = f"{rows[-1]:<33}{result.lstrip()}"
            else:
                rows.append(result)
            lines += rows
            cells = []
    return "\n".join([*lines, *_rows(cells, unplayed=match is not None and match.dice is not None), ""])


def _head(settings: Settings) -> list[str]:
    tags = [f'; [CubeLimit "{settings.cube_limit}"]', f'; [Crawford "{"On" if settings.crawford else "Off"}"]']
    if settings.length is None:
        tags.append(f'; [Jacoby "{"On" if settings.jacoby else "Off"}"]')
    return [*tags, "", f" {settings.length or 0} point match"]


def _steps(board: Board, color: Color, play: Play) -> str:
    """A play with one checker move a die, hits marked: what every reader of the format understands."""
    hits = board.hits(color, play)
    return " ".join(f"{src}/{dst}{'*' * hit}" for (src, dst), hit in zip(play, hits, strict=True))


def _rows(cells: Sequence[tuple[Color, str]], unplayed: bool) -> list[str]:
    """The numbered rows of a game; `unplayed` says that the last cell is a roll that could have been played."""
    rows: list[tuple[str, str]] = []
    for number, (color, text) in enumerate(cells, 1):
        cell = f"{text}????" if unplayed and number == len(cells) else text.rstrip()
        if color is Color.WHITE or not rows:
            rows.append((cell, "") if color is Color.WHITE else ("", cell))
        else:
            rows[-1] = rows[-1][0], cell
    return [f"{number:3}) {left:<27} {right}".rstrip() for number, (left, right) in enumerate(rows, 1)]


def _result(match: Match) -> str:
    result = match.results[-1]
    indent = 6 if result.winner is Color.WHITE else 34
    wins_match = " and the match" * (match.winner is not None and match.settings.length is not None)
    return f"{'':{indent}}Wins {result.points} point{'s' * (result.points != 1)}{wins_match}"
