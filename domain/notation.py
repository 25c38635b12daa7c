"""Plays in standard notation: `24/18 13/11*`, `bar/20*/15`, `6/off(2)`; parsed and printed."""

import itertools
import re
from collections.abc import Sequence

from domain.board import BAR, OFF, Board, CheckerMove, Color, Play
from domain.breach import Breach, RuleError

_POINT = r"(?:bar|off|\d{1,2})"
_WORD = re.compile(rf"({_POINT}(?:/{_POINT}\*?)+)(?:\(([1-4])\)\*?)?", re.IGNORECASE | re.ASCII)
_NAMES = {"bar": BAR, "off": OFF}
_POINTS = {BAR: "bar", OFF: "off", **{point: str(point) for point in range(1, 25)}}
_LONGEST = 100


def point_name(point: int) -> str:
    """`bar`, `off`, or the number of the point, whatever it is."""
    return _POINTS.get(point) or str(point)


def format_move(move: Sequence[int]) -> str:
    """One checker move or hop, `13/7`, without its hit mark."""
    return "/".join(point_name(point) for point in move)


def format_play(board: Board, color: Color, play: Play) -> str:
    """A play in standard notation as made on `board`; a point passed over is shown only where it hits.

    >>> format_play(Board(), Color.WHITE, (CheckerMove(24, 18), CheckerMove(18, 13)))
    '24/13'
    """
    trails: list[list[tuple[int, bool]]] = []
    for (src, dst), hit in zip(play, board.hits(color, play), strict=True):
        trail = next((trail for trail in trails if trail[-1][0] == src), None)
        if trail is None:
            trails.append(trail := [(src, False)])
        trail.append((dst, hit))
    words: dict[tuple[int, ...], tuple[int, str]] = {}
    for trail in trails:
        shown = [trail[0], *(stop for stop in trail[1:-1] if stop[1]), trail[-1]]
        points = tuple(point for point, _ in shown)
        text = "/".join(point_name(point) + "*" * hit for point, hit in shown)
        times, first = words.get(points, (0, text))
        words[points] = (times + 1, first)
    return " ".join(text if times == 1 else f"{text}({times})" for times, text in words.values())


def parse_play(text: str) -> Play:
    """The checker moves that `text` spells, in its order; a move may span several dice (`24/13`).

    `bar` or 25, `off` or 0, any case, spaces or commas between. A hit mark is accepted and not checked.
    Empty text is an empty play. Raises RuleError MALFORMED_NOTATION.

    >>> parse_play("bar/20*/15, 6/off(2)")[-1]
    CheckerMove(src=6, dst=0)
    """
    if len(text) > _LONGEST:
        raise RuleError(
            Breach.MALFORMED_NOTATION,
            "a play is at most {most} characters long; got {got}",
            most=_LONGEST,
            got=len(text),
        )
    moves: list[CheckerMove] = []
    for word in text.replace(",", " ").split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise RuleError(
                Breach.MALFORMED_NOTATION,
                "cannot read {word!r}: a checker move looks like 13/7, bar/20*, 6/off or 8/5*(2)",
                word=word,
            )
        points = [
            _NAMES[name] if (name := stop.rstrip("*").lower()) in _NAMES else int(name) for stop in match[1].split("/")
        ]
        if any(point > BAR for point in points):
            raise RuleError(
                Breach.MALFORMED_NOTATION,
                "cannot read {word!r}: points are 1 to 24, bar (25) and off (0)",
                word=word,
            )
        trail = [CheckerMove(*pair) for pair in itertools.pairwise(points)]
        moves += trail * int(match[2] or 1)
    return tuple(moves)
