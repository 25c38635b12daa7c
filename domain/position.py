"""Positions as other programs write them: XGID, and GNU Backgammon's position and match ids, read and written.

RULES.md sections 9 and 10. White is X, the side from which XGID is drawn, and GNU's player 1; black is O, player 0.
"""

import re
from base64 import b64decode, b64encode

from msgspec import Struct

from domain.board import BAR, CHECKERS, OFF, Board, Color, Dice
from domain.breach import Breach, RuleError
from domain.events import Stake
from domain.match import Crawford, Cube, Match, OnRoll, ToAnswer, ToPlay

_XGID = re.compile(
    r"(?:XGID=)?(?P<board>[-A-Oa-o]{26}):(?P<cube>\d{1,2}):(?P<owner>-1|0|1):(?P<turn>-1|1):(?P<dice>00|D|[1-6]{2})"
    r":(?P<white>\d{1,4}):(?P<black>\d{1,4}):(?P<rules>[0-3]):(?P<length>\d{1,4}):(?P<limit>\d{1,2})",
    re.ASCII,
)
_GNU_ID = re.compile(r"(?P<position>[A-Za-z0-9+/]{14}):(?P<match>[A-Za-z0-9+/]{12})", re.ASCII)
_MATCH_ID_WIDTHS = (4, 2, 1, 1, 3, 1, 1, 2, 3, 3, 15, 15, 15, 1)
"""Bits of a match id, low to high: log2 of the cube, owner, who is on roll, Crawford, state, who decides, doubled,
resigned, two dice, length, player 0's score, player 1's score, no Jacoby."""

_COLORS = {"1": Color.WHITE, "-1": Color.BLACK, "0": None}
_SIGNS = {color: sign for sign, color in _COLORS.items()}
_RESIGNED = {Stake.SINGLE: 1, Stake.GAMMON: 2, Stake.BACKGAMMON: 3}


class Position(Struct, frozen=True, kw_only=True):
    """A game in the middle: what an XGID says. `turn` is on roll, has rolled `dice`, or has just doubled."""

    board: Board
    cube: Cube
    turn: Color
    dice: Dice | None
    doubled: bool
    resigned: Stake | None = None
    score: tuple[int, int]
    crawford: bool
    jacoby: bool
    length: int | None
    cube_limit: int
    over: bool = False


def position_of(match: Match) -> Position:
    """Where the match stands; between games and before the first roll, white on roll."""
    phase = match.phase
    doubled = isinstance(phase, ToAnswer) and phase.stake is None
    return Position(
        board=match.board,
        cube=match.cube,
        turn=match.turn or match.winner or Color.WHITE,
        dice=match.dice,
        doubled=doubled,
        resigned=phase.stake if isinstance(phase, ToAnswer) else None,
        score=(match.score(Color.WHITE), match.score(Color.BLACK)),
        crawford=match.crawford is Crawford.NOW,
        jacoby=match.settings.jacoby,
        length=match.settings.length,
        cube_limit=match.settings.cube_limit,
        over=match.ended,
    )


def phase_of(position: Position) -> OnRoll | ToPlay | ToAnswer:
    """The phase in which a match stands that starts from `position`."""
    if position.doubled:
        return ToAnswer(position.turn.opponent, None, OnRoll(position.turn))
    return OnRoll(position.turn) if position.dice is None else ToPlay(position.turn, position.dice)


def format_xgid(position: Position) -> str:
    """The position as XGID. A resignation that waits for its answer has no place in it."""
    white, black = position.board.white, position.board.black
    letters = [_letter(black[BAR], "a")]
    letters += [_letter(white[p], "A") if white[p] else _letter(black[25 - p], "a") for p in range(1, 25)]
    letters += [_letter(white[BAR], "A")]
    dice = "".join(map(str, position.dice.descending)) if position.dice else "D" if position.doubled else "00"
    fields = [
        "".join(letters),
        position.cube.value.bit_length() - 1,
        _SIGNS[position.cube.owner],
        _SIGNS[position.turn],
        dice,
        *position.score,
        int(position.crawford or position.jacoby),
        position.length or 0,
        position.cube_limit.bit_length() - 1,
    ]
    return "XGID=" + ":".join(map(str, fields))


def _letter(count: int, one: str) -> str:
    return chr(ord(one) + count - 1) if count else "-"


def parse_xgid(text: str) -> Position:
    """The position that an XGID describes, with or without its `XGID=`. Raises RuleError INVALID_POSITION.

    Refused as well as malformed text: more than fifteen checkers a side, a game already won, a score or a Crawford flag
    that cannot be, a double that the rules forbid, beavers (not played here), both sides shut out for ever.

    >>> format_xgid(parse_xgid("-b----E-C---eE---c-e----B-:1:1:1:00:2:4:0:7:10"))
    'XGID=-b----E-C---eE---c-e----B-:1:1:1:00:2:4:0:7:10'
    """
    found = _XGID.fullmatch(text)
    if found is None:
        raise _invalid(
            "an XGID is 26 letters and nine numbers, like XGID=-b----E-C---eE---c-e----B-:0:0:1:00:0:0:0:7:10"
        )
    letters = found["board"]
    if letters[0].isupper() or letters[BAR].islower():
        raise _invalid("the first letter is black's bar (lower case), the last one white's (upper case)")
    white, black = [0] * 26, [0] * 26
    for point, letter in enumerate(letters):
        if letter.isupper():
            white[point] = ord(letter) - ord("A") + 1
        elif letter.islower():
            black[25 - point] = ord(letter) - ord("a") + 1
    length, rules = int(found["length"]) or None, int(found["rules"])
    if rules > 1:
        raise _invalid("beavers are not played here: the eighth field is 0 or 1")
    cube, limit = int(found["cube"]), int(found["limit"])
    if cube > limit or limit > 10:
        raise _invalid(f"the cube is at 2^{cube} and its limit 2^{limit}; at most 2^10 can be")
    turn, dice = _COLORS[found["turn"]], found["dice"]
    assert turn is not None
    return _checked(
        white,
        black,
        cube=Cube(1 << cube, _COLORS[found["owner"]]),
        turn=turn,
        dice=Dice(int(dice[0]), int(dice[1])) if dice not in ("00", "D") else None,
        doubled=dice == "D",
        score=(int(found["white"]), int(found["black"])),
        crawford=length is not None and rules == 1,
        jacoby=length is None and rules == 1,
        length=length,
        cube_limit=1 << limit,
    )


def parse_gnu_id(text: str) -> Position:
    """The position that GNU Backgammon's position id and match id describe together, `4HPwATDgc/ABMA:cIkFAAAAAAAE`.

    The ids say nothing of the cube's limit, so it is 1024. Raises RuleError INVALID_POSITION, for the same reasons as
    parse_xgid, and for a game that is not under way or a resignation that waits for its answer.
    """
    found = _GNU_ID.fullmatch(text)
    if found is None:
        raise _invalid("a GNU id is 14 letters, a colon and 12 letters, like 4HPwATDgc/ABMA:cIkFAAAAAAAE")
    bits = int.from_bytes(b64decode(found["match"]), "little")
    values = []
    for width in _MATCH_ID_WIDTHS:
        values.append(bits & (1 << width) - 1)
        bits >>= width
    cube, owner, player, crawford, state, decision, doubled, resigned, first, second, length, black, white, plain = (
        values
    )
    if state not in (0, 1) or resigned:
        raise _invalid("the match id tells of a game that is over, or of a resignation that waits for its answer")
    if cube > 10 or owner == 2 or first > 6 or second > 6 or bool(first) != bool(second) or (doubled and first):
        raise _invalid("the match id tells of a cube above 1024, or of dice that cannot be")
    if decision != player ^ doubled:
        raise _invalid("the match id has the decision on the wrong side")
    turn = Color.WHITE if player else Color.BLACK
    bits = int.from_bytes(b64decode(found["position"] + "=="), "little")
    sides: dict[Color, list[int]] = {}
    for color in (turn.opponent, turn):
        side = sides[color] = [0]
        for _ in range(25):
            count = (~bits & bits + 1).bit_length() - 1
            side.append(count)
            bits >>= count + 1
    if bits:
        raise _invalid("the position id has more than 24 points and a bar a side")
    return _checked(
        sides[Color.WHITE],
        sides[Color.BLACK],
        cube=Cube(1 << cube, {0: Color.BLACK, 1: Color.WHITE, 3: None}[owner]),
        turn=turn,
        dice=Dice(first, second) if first else None,
        doubled=bool(doubled),
        score=(white, black),
        crawford=bool(crawford),
        jacoby=not length and not plain,
        length=length or None,
        cube_limit=1024,
    )


def parse_position(text: str) -> Position:
    """The position behind an XGID or a GNU position and match id. Raises RuleError INVALID_POSITION."""
    return parse_gnu_id(text) if _GNU_ID.fullmatch(text) else parse_xgid(text)


def _checked(
    white: list[int],
    black: list[int],
    *,
    cube: Cube,
    turn: Color,
    dice: Dice | None,
    doubled: bool,
    score: tuple[int, int],
    crawford: bool,
    jacoby: bool,
    length: int | None,
    cube_limit: int,
) -> Position:
    """The position, if a game can stand so; `white` and `black` are counts without those borne off."""
    for name, side in (("white", white), ("black", black)):
        if not 0 < sum(side) <= CHECKERS:
            raise _invalid(f"{name} has {sum(side)} checkers on the board; 1 to {CHECKERS} can be")
        side[OFF] = CHECKERS - sum(side)
    for point in range(1, 25):
        if white[point] and black[25 - point]:
            raise _invalid(f"both sides have checkers on white's point {point}")
    if white[BAR] and black[BAR] and _closed(white) and _closed(black):
        raise _invalid("both sides are on the bar against a closed board, so that no roll could ever be played")
    if length is not None and max(score) >= length:
        raise _invalid(f"at {score[0]}-{score[1]} a match to {length} is over")
    if crawford and (length is None or length - max(score) != 1 or score[0] == score[1]):
        raise _invalid(f"the game at {score[0]}-{score[1]} in a match to {length} cannot be the Crawford game")
    if cube.owner is not None and cube.value == 1:
        raise _invalid("a cube at 1 has no owner")
    if length is not None and cube.owner is None and cube.value > 1:
        raise _invalid("a centred cube above 1 comes of automatic doubles, which are for money games")
    if crawford and cube.value > 1:
        raise _invalid("nobody can have turned the cube in the Crawford game")
    if doubled and (crawford or cube.owner is turn.opponent or cube.value >= cube_limit):
        raise _invalid("this double is against the rules: Crawford game, cube of the other side, or cube at its limit")
    return Position(
        board=Board(tuple(white), tuple(black)),
        cube=cube,
        turn=turn,
        dice=dice,
        doubled=doubled,
        score=score,
        crawford=crawford,
        jacoby=jacoby,
        length=length,
        cube_limit=cube_limit,
    )


def _closed(side: list[int]) -> bool:
    return all(count > 1 for count in side[1:7])


def _invalid(why: str) -> RuleError:
    return RuleError(Breach.INVALID_POSITION, why)


def format_gnu_position_id(position: Position) -> str:
    """GNU Backgammon's position id, 14 characters, seen by the player whose turn it is."""
    bits = count = 0
    for color in (position.turn.opponent, position.turn):
        for checkers in position.board.side(color)[1:]:
            bits |= ((1 << checkers) - 1) << count
            count += checkers + 1
    return _base64(bits, 10)[:14]


def format_gnu_match_id(position: Position) -> str:
    """GNU Backgammon's match id, 12 characters; a score above 32,767 does not fit and is cut to it."""
    first, second = position.dice.descending if position.dice else (0, 0)
    answering = position.doubled or position.resigned is not None
    white_turn = position.turn is Color.WHITE
    values = (
        position.cube.value.bit_length() - 1,
        {Color.BLACK: 0, Color.WHITE: 1, None: 3}[position.cube.owner],
        int(white_turn),
        int(position.crawford),
        2 if position.over else 1,
        int(white_turn != answering),
        int(position.doubled),
        _RESIGNED.get(position.resigned, 0) if position.resigned else 0,
        first,
        second,
        position.length or 0,
        min(position.score[1], 32767),
        min(position.score[0], 32767),
        int(not position.jacoby),
    )
    bits = count = 0
    for value, width in zip(values, _MATCH_ID_WIDTHS, strict=True):
        bits |= value << count
        count += width
    return _base64(bits, 9)


def _base64(bits: int, size: int) -> str:
    return b64encode(bits.to_bytes(size, "little")).decode()
