"""Positions as other programs write them: XGID read and written, GNU Backgammon's position and match ids written.

RULES.md sections 9 and 10. White is X, the side from which XGID is drawn, and GNU's player 1; black is O, player 0.
"""

import re
from base64 import b64encode

from msgspec import Struct

from domain.board import BAR, CHECKERS, OFF, Board, Color, Dice
from domain.breach import Breach, RuleError
from domain.events import Stake
from domain.match import Crawford, Cube, Match, OnRoll, Over, ToAnswer, ToPlay

_XGID = re.compile(
    r"(?:XGID=)?(?P<board>[-A-Oa-o]{26}):(?P<cube>\d{1,2}):(?P<owner>-1|0|1):(?P<turn>-1|1):(?P<dice>00|D|[1-6]{2})"
    r":(?P<white>\d{1,4}):(?P<black>\d{1,4}):(?P<rules>[0-3]):(?P<length>\d{1,4}):(?P<limit>\d{1,2})",
    re.ASCII,
)
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
        over=isinstance(phase, Over),
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
    for name, side in (("white", white), ("black", black)):
        if not 0 < sum(side) <= CHECKERS:
            raise _invalid(f"{name} has {sum(side)} checkers on the board; 1 to {CHECKERS} can be")
        side[OFF] = CHECKERS - sum(side)
    if white[BAR] and black[BAR] and _closed(white) and _closed(black):
        raise _invalid("both sides are on the bar against a closed board, so that no roll could ever be played")
    length, rules = int(found["length"]) or None, int(found["rules"])
    if rules > 1:
        raise _invalid("beavers are not played here: the eighth field is 0 or 1")
    turn = _COLORS[found["turn"]]
    assert turn is not None
    numbers = {name: int(found[name]) for name in ("cube", "limit", "white", "black")}
    if numbers["cube"] > numbers["limit"] or numbers["limit"] > 10:
        raise _invalid(f"the cube is at 2^{numbers['cube']} and its limit 2^{numbers['limit']}; at most 2^10 can be")
    score = numbers["white"], numbers["black"]
    if length is not None and max(score) >= length:
        raise _invalid(f"at {score[0]}-{score[1]} a match to {length} is over")
    crawford = length is not None and rules == 1
    if crawford and (length is None or length - max(score) != 1 or score[0] == score[1]):
        raise _invalid(f"the game at {score[0]}-{score[1]} in a match to {length} cannot be the Crawford game")
    dice, owner = found["dice"], _COLORS[found["owner"]]
    if owner is not None and not numbers["cube"]:
        raise _invalid("a cube at 1 has no owner")
    if length is not None and owner is None and numbers["cube"]:
        raise _invalid("a centred cube above 1 comes of automatic doubles, which are for money games")
    if crawford and numbers["cube"]:
        raise _invalid("nobody can have turned the cube in the Crawford game")
    doubled = dice == "D"
    if doubled and (crawford or owner is turn.opponent or numbers["cube"] >= numbers["limit"]):
        raise _invalid("this double is against the rules: Crawford game, cube of the other side, or cube at its limit")
    return Position(
        board=Board(tuple(white), tuple(black)),
        cube=Cube(1 << numbers["cube"], owner),
        turn=turn,
        dice=Dice(int(dice[0]), int(dice[1])) if dice not in ("00", "D") else None,
        doubled=doubled,
        score=score,
        crawford=crawford,
        jacoby=length is None and rules == 1,
        length=length,
        cube_limit=1 << numbers["limit"],
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
    fields = (  # value, width in bits
        (position.cube.value.bit_length() - 1, 4),
        ({Color.BLACK: 0, Color.WHITE: 1, None: 3}[position.cube.owner], 2),
        (int(white_turn), 1),
        (int(position.crawford), 1),
        (2 if position.over else 1, 3),
        (int(white_turn != answering), 1),
        (int(position.doubled), 1),
        (_RESIGNED.get(position.resigned, 0) if position.resigned else 0, 2),
        (first, 3),
        (second, 3),
        (position.length or 0, 15),
        (min(position.score[1], 32767), 15),
        (min(position.score[0], 32767), 15),
        (int(not position.jacoby), 1),
    )
    bits = count = 0
    for value, width in fields:
        bits |= value << count
        count += width
    return _base64(bits, 9)


def _base64(bits: int, size: int) -> str:
    return b64encode(bits.to_bytes(size, "little")).decode()
