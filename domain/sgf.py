"""GNU Backgammon's match files in SGF (.sgf): a game tree a game, W is white. Analysis in them is passed over."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from domain.board import BAR, OFF, CheckerMove, Color, Dice, Play
from domain.commands import Accept, Double, Refuse
from domain.events import Accepted, Doubled, Event, Moved, Refused, Rolled, Settings
from domain.match import Crawford, End, Match, OnRoll, ToAnswer, ToPlay
from domain.matchfile import (
    IMPORT_CUBE_LIMIT,
    Place,
    Reading,
    ReadMatch,
    checked_text,
    in_one_line,
    of_play,
    require_expressible,
)
from domain.rules import evolve

_VALUE = r"\[(?:[^\]\\]++|\\.)*+\]"
_SPACE = re.compile(r"\s*+")
_TOKEN = re.compile(rf"([();])|([A-Z]++)\s*+((?:{_VALUE}\s*+)++)", re.DOTALL)
_VALUES = re.compile(_VALUE, re.DOTALL)
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_SPECIAL = re.compile(r"[\]\\]")
_ROLL = re.compile(r"([1-6])([1-6])((?:[a-y][a-z]){0,4})")
_RESULT = re.compile(r"([WB])\+(\d{1,9})R?")
_COLORS = {"W": Color.WHITE, "B": Color.BLACK}
_LETTERS = {color: letter for letter, color in _COLORS.items()}
_RULES = {"", "Crawford", "CrawfordGame", "Jacoby", "NoCube"}
_USUAL = {"CV": "1", "CP": "c", "AE": None, "AW": None, "AB": None}
"""The properties that set up a game, and the values with which it is the usual one."""
_KNOWN = {"GM", "MI", "PW", "PB", "RU", "RE", "W", "B", "PL", "DI", *_USUAL}
"""All others are analysis, comments, and where and when the match was played."""
_LONGEST_GAME = 10_000
_MOST_GAMES = 1000
_DEEPEST = 100


class _Property(NamedTuple):
    """A property of a node: its values without their brackets and escapes, and where it stands."""

    name: str
    values: tuple[str, ...]
    at: Place


_Node = dict[str, _Property]


def read_sgf(text: str, match_id: str, white: str, black: str) -> ReadMatch:
    """The match that an .sgf file of GNU Backgammon tells, for the players with those ids. Raises FileError.

    A money game is one game. Of variations the first is read.
    """
    trees = _trees(checked_text(text))
    first = _Root(trees[0][0])
    reading = Reading("sgf", match_id, (white, black), first.settings(), first.at)
    for tree in trees:
        root = _Root(tree[0])
        if root.length != first.length:
            raise root.at.error(f"a game of the same match, length:{first.length}")
        reading.begin_game(root.score, root.at)
        root.require_usual(reading.match)
        _read_nodes(reading, tree)
        if result := root.result:
            reading.conclude(_COLORS[result[1]], int(result[2]), None, root.get("RE").at)
        elif tree is not trees[-1] and not reading.game_is_over:
            raise root.at.error("a result, RE[W+1], as another game follows")
    return reading.done((first.text("PW"), first.text("PB")))


def _trees(text: str) -> list[list[_Node]]:
    """The nodes of each game tree's main line."""
    trees: list[list[_Node]] = []
    depth, main = 0, False
    for mark, name, values, at in _tokens(text):
        if mark == "(":
            depth += 1
            if depth > _DEEPEST or len(trees) > _MOST_GAMES:
                raise at.error(f"at most {_MOST_GAMES} games, and variations at most {_DEEPEST} deep")
            if depth == 1:
                trees.append([])
                main = True
        elif depth == 0:
            raise at.error("`(`, the begin of a game")
        elif mark == ")":
            depth, main = depth - 1, False
        elif main and mark == ";":
            trees[-1].append({})
            if len(trees[-1]) > _LONGEST_GAME:
                raise at.error(f"a game of at most {_LONGEST_GAME} nodes")
        elif main and not trees[-1]:
            raise at.error("`;`, the begin of a node")
        elif main and name in _KNOWN:
            if name in trees[-1][-1]:
                raise at.error(f"{name} once in a node")
            found = tuple(_ESCAPED.sub(_unescaped, value[1:-1]) for value in _VALUES.findall(values))
            trees[-1][-1][name] = _Property(name, found, at)
    end = Place(text.count("\n") + 1, len(text) - text.rfind("\n"), "the end of the file")
    if depth:
        raise end.error("`)`, the end of a game")
    if not trees:
        raise end.error("`(;FF[4]GM[6]`, the begin of a game")
    for tree in trees:
        if not tree:
            raise end.error("a game with nodes in it")
    return trees


def _unescaped(escaped: re.Match[str]) -> str:
    return escaped[1].strip("\n")


def _tokens(text: str) -> Iterator[tuple[str, str, str, Place]]:
    """Brackets and semicolons, and properties as name and values, each with its place."""
    line, newline, counted, position, end = 1, -1, 0, 0, len(text.rstrip())
    while position < end:
        begin = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # it matches everywhere
        line += text.count("\n", counted, begin)
        newline = max(newline, text.rfind("\n", counted, begin))
        counted = begin
        token = _TOKEN.match(text, begin)
        if token is None:
            at = Place(line, begin - newline, text[begin : begin + 100])
            raise at.error("`(`, `)`, `;` or a property such as B[31hefe]")
        position = token.end()
        mark, name, values = token.groups("")
        yield mark, name, values, Place(line, begin - newline, token[0][:100].rstrip())


class _Root:
    """What the first node of a game says about it."""

    def __init__(self, node: _Node) -> None:
        self._properties = node
        self.at = next((property.at for property in node.values()), Place(1, 1, "an empty node"))
        if self.text("GM") != "6":
            raise self.at.error("GM[6], a game of backgammon")
        self.at = self.get("MI").at
        told = dict(value.split(":", 1) for value in self.get("MI").values if ":" in value)
        numbers = [told.get(name, "0") for name in ("length", "ws", "bs")]
        if not all(number.isdecimal() and len(number) < 10 for number in numbers):
            raise self.at.error("MI[length:5][game:0][ws:0][bs:0]")
        self.length, *score = map(int, numbers)
        self.score = score[0], score[1]
        self.rules = set(self.text("RU").split(":"))

    def get(self, name: str) -> _Property:
        """A property; FileError if it is missing."""
        if name not in self._properties:
            raise self.at.error(f"a game with the property {name}")
        return self._properties[name]

    def text(self, name: str) -> str:
        """The value of a property; empty if it is missing."""
        return self._properties[name].values[0] if name in self._properties else ""

    @property
    def result(self) -> re.Match[str] | None:
        """Who wins, and how many points, if the game has been won."""
        return _RESULT.fullmatch(self.text("RE"))

    def settings(self) -> Settings:
        """What was agreed on for the match. A match of one point has no Crawford game in either case."""
        return Settings(
            length=self.length or None,
            crawford=self.length < 2 or "Crawford" in self.rules,
            cube_limit=1 if "NoCube" in self.rules else IMPORT_CUBE_LIMIT,
            jacoby=not self.length and "Jacoby" in self.rules,
        )

    def require_usual(self, match: Match) -> None:
        """FileError if the game begins otherwise than the rules have it at this score."""
        if self.rules - _RULES:
            raise self.get("RU").at.error("backgammon with the usual rules")
        if "CrawfordGame" in self.rules and match.crawford is not Crawford.NOW:
            raise self.get("RU").at.error("a game that is not the Crawford game", "of the score before it")


def _read_nodes(reading: Reading, tree: Sequence[_Node]) -> None:
    for number, node in enumerate(tree):
        for name, (value, *_), at in node.values():
            if name in _COLORS:
                _read_action(reading, _COLORS[name], value, at, last=number == len(tree) - 1)
            elif name == "DI":
                dice, side = _ROLL.fullmatch(value), node.get("PL")
                if dice is None or dice[3] or side is None or side.values[0] not in _COLORS:
                    raise at.error("a side and its dice, PL[W]DI[31]")
                reading.roll(_COLORS[side.values[0]], Dice(int(dice[1]), int(dice[2])), at)
            elif name in _USUAL and value != _USUAL[name]:
                raise at.error("the usual opening", "a position that was set up cannot be imported")


def _read_action(reading: Reading, color: Color, value: str, at: Place, last: bool) -> None:
    expected = f"what {color} may do"
    match value:
        case "double":
            reading.do(Double(by=color), at, expected)
        case "take":
            reading.do(Accept(by=color), at, expected)
        case "drop":
            reading.do(Refuse(by=color), at, expected)
        case _:
            roll = _ROLL.fullmatch(value)
            if roll is None:
                raise at.error("double, take, drop, or dice with a play, 31hefe")
            _read_roll(reading, color, Dice(int(roll[1]), int(roll[2])), _play(color, roll[3]), at, last)


def _read_roll(reading: Reading, color: Color, dice: Dice, moves: Play, at: Place, last: bool) -> None:
    if reading.match.phase != ToPlay(color, dice):
        reading.roll(color, dice, at)
    if isinstance(reading.match.phase, ToPlay):
        if moves or not last:
            reading.move(color, moves, at)
    elif moves:
        raise at.error("no play", f"{dice.first}{dice.second} cannot be played")


def _play(color: Color, letters: str) -> Play:
    points = [_point(color, letter) for letter in letters]
    return tuple(CheckerMove(*pair) for pair in zip(points[::2], points[1::2], strict=True))


def _point(color: Color, letter: str) -> int:
    """The point that a letter names: `a` is white's 1 and black's 24, `y` the bar, `z` off."""
    if letter in "yz":
        return BAR if letter == "y" else OFF
    point = ord(letter) - ord("a") + 1
    return point if color is Color.WHITE else 25 - point


def _letter(color: Color, point: int) -> str:
    if point in (BAR, OFF):
        return "y" if point == BAR else "z"
    return chr(ord("a") - 1 + (point if color is Color.WHITE else 25 - point))


def write_sgf(events: Sequence[Event], names: tuple[str, str]) -> str:
    """The match as an .sgf file that GNU Backgammon loads. Raises NotExpressible.

    It has no words for tied openings, for resignations that were refused or not answered, and for cube limits.
    """
    match: Match | None = None
    games: list[str] = []
    head, nodes = "", [""]
    for event in of_play(events):
        before, match = match, evolve(match, event)
        require_expressible(match)
        match event:
            case Rolled(by=Color(), opening=True):
                head, nodes = _head(match, names), [""]
            case Moved(by=by, play=play):
                assert before is not None, "a play follows its roll"
                assert before.dice is not None, "a play follows its roll"
                dice = before.dice.descending if len(nodes) == 1 else before.dice
                letters = "".join(_letter(by, point) for move in play for point in move)
                nodes.append(f";{_LETTERS[by]}[{dice[0]}{dice[1]}{letters}]")
            case Doubled(by=by):
                nodes.append(f";{_LETTERS[by]}[double]")
            case Accepted(by=by) | Refused(by=by) if before and before.phase == ToAnswer(by, None, OnRoll(by.opponent)):
                nodes.append(f";{_LETTERS[by]}[{'take' if isinstance(event, Accepted) else 'drop'}]")
        if before and len(match.results) > len(before.results):
            result = match.results[-1]
            resigned = "" if result.end in (End.BEAR_OFF, End.DROP) else "R"
            if resigned:
                nodes += _unplayed(before)
            games.append(f"{head}RE[{_LETTERS[result.winner]}+{result.points}{resigned}]" + "\n".join(nodes) + ")\n")
            head = ""
    if match and head:
        games.append(head + "\n".join([*nodes, *_unplayed(match)]) + ")\n")
    if not games:
        games.append(_head(match, names) + ")\n" if match else "")
    return "\n".join(games)


def _head(match: Match, names: tuple[str, str]) -> str:
    """The root node of the game that begins, but for its result."""
    settings = match.settings
    score = f"[ws:{match.score(Color.WHITE)}][bs:{match.score(Color.BLACK)}]"
    white, black = (_SPECIAL.sub(r"\\\g<0>", in_one_line(name)) for name in names)
    crawford = settings.crawford and settings.length is not None and settings.length > 1
    said = {
        "Crawford": crawford,
        "CrawfordGame": match.crawford is Crawford.NOW,
        "Jacoby": settings.jacoby,
        "NoCube": settings.cube_limit == 1,
    }
    rules = ":".join(name for name, holds in said.items() if holds)
    return (
        f"(;FF[4]GM[6]CA[UTF-8]MI[length:{settings.length or 0}][game:{len(match.results)}]{score}"
        f"PW[{white}]PB[{black}]" + (f"RU[{rules}]" if rules else "")
    )


def _unplayed(match: Match) -> list[str]:
    """The roll that was not played, if there is one."""
    if match.dice is None or match.turn is None:
        return []
    return [f";PL[{_LETTERS[match.turn]}]DI[{match.dice.first}{match.dice.second}]"]
