"""Legal plays: all those of a roll, step by step, and which rule a wrong one breaks.

A roll's blocked points cannot change while it is played (a hit empties a point that was open already), so
legality needs only the mover's counts and the set of open points. A set of points is an integer with bit p
for point p, so "which checkers may move this die" is one `&`. A side is packed four bits a point, so a step
is one addition and equal numbers are equal sides. Own numbering throughout: 25 = bar, 0 = off.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from domain.board import BAR, OFF, Board, CheckerMove, Color, Dice, Play
from domain.breach import Breach, RuleError
from domain.notation import format_move
from domain.words import Said

_STEP = [[CheckerMove(src, max(src - die, OFF)) for die in range(7)] for src in range(26)]
"""_STEP[src][die]: the checker move that this die makes from this point."""

_CHANGE = [[(1 << 4 * move.dst) - (1 << 4 * move.src) for move in moves] for moves in _STEP]
"""_CHANGE[src][die]: what that checker move adds to a packed side."""

_OUTSIDE = 1 << 7
"""Sets of points below this number lie in the home board."""

_LOW = [[p for p in range(12, -1, -1) if points >> p & 1] for points in range(1 << 13)]
_HIGH = [[p + 13 for p in points] for points in _LOW]


def _each(points: int) -> list[int]:
    """The points of a set, highest first."""
    return _HIGH[points >> 13] + _LOW[points & 0x1FFF]


_ANY = -1
"""The set of all points."""

_Dice = tuple[int, ...]
"""Dice still to be played, a double's number up to four times."""

_Way = tuple[Play, int, int, int]
"""A roll partly played: the steps made, the mover's packed side, its occupied points, the blots hit."""


class _Turn:
    """What stays the same while one player plays one roll: where checkers may land, and where the blots are."""

    __slots__ = ("blots", "opened", "start")

    def __init__(self, board: Board, color: Color) -> None:
        packed = occupied = 0
        for point, count in enumerate(board.side(color)):
            if count:
                packed |= count << 4 * point
                occupied |= 1 << point
        opened = blots = 0
        for point, count in enumerate(board.side(color.opponent)[24:0:-1], 1):
            if count < 2:
                opened |= 1 << point
                if count:
                    blots |= 1 << point
        self.opened, self.blots = opened, blots
        self.start: _Way = ((), packed, occupied & ~1, 0)

    def movable(self, occupied: int, die: int) -> int:
        """The points among `occupied` from which `die` may be played."""
        sources = occupied & self.opened << die
        if occupied >> BAR:
            return sources & 1 << BAR
        if 0 < occupied < _OUTSIDE:
            highest = occupied.bit_length() - 1
            sources |= occupied & 1 << die if die < highest else 1 << highest
        return sources

    def step(self, now: _Way, src: int, die: int) -> _Way:
        """One checker moved; `src` must be movable."""
        play, packed, occupied, hits = now
        packed += _CHANGE[src][die]
        if not packed >> 4 * src & 15:
            occupied ^= 1 << src
        if die < src:
            landing = 1 << src - die
            occupied |= landing
            hits |= landing & self.blots
        return (*play, _STEP[src][die]), packed, occupied, hits

    def longest(self, now: _Way, dice: Sequence[int]) -> list[_Way]:
        """All ways to play as many of `dice` as possible in this order, in which equal dice go highest point first."""
        ways, last = [now], 0
        for die in dice:
            onward = [
                self.step(way, src, die)
                for way in ways
                for src in _each(self.movable(way[2], die))
                if die != last or src <= way[0][-1].src
            ]
            if not onward:
                break
            ways, last = onward, die
        return ways

    def fullest(self, dice: Dice) -> list[_Way]:
        """The ways that play as many dice as possible, and the larger if either but not both."""
        large, small = dice.descending
        if large == small:
            return self.longest(self.start, (large,) * 4)
        ways = self.longest(self.start, (large, small))
        others = self.longest(self.start, (small, large))
        most, other_most = len(ways[0][0]), len(others[0][0])
        if most == other_most == 2:
            return others + ways
        return ways if most >= other_most else others

    def spellings(self, way: _Way, left: _Dice, moves: Play) -> Iterator[tuple[_Way, _Dice]]:
        """Each way to make `moves` (hops allowed) with some of the dice left, and the dice then left.

        `moves` come highest point first: if any order of them can be played, that one can.
        """
        if not moves:
            yield way, left
            return
        (src, dst), rest = moves[0], moves[1:]
        for die in dict.fromkeys(left):
            landing = max(src - die, OFF)
            if landing >= dst and self.movable(way[2], die) >> src & 1:
                onward = self.step(way, src, die)
                if landing == dst:
                    yield from self.spellings(onward, _without(left, die), rest)
                else:
                    hop = CheckerMove(landing, dst)
                    pending = tuple(sorted((hop, *rest), reverse=True))
                    yield from self.spellings(onward, _without(left, die), pending)


def _faces(dice: Dice) -> _Dice:
    """Each number as often as it may be played, larger first: 31 gives (3, 1), 22 gives (2, 2, 2, 2)."""
    return dice.descending * (2 if dice.is_double else 1)


def _without(dice: _Dice, die: int) -> _Dice:
    at = dice.index(die)
    return dice[:at] + dice[at + 1 :]


def _position(way: _Way) -> tuple[int, int]:
    """What tells results apart: where the mover's checkers stand, and which blots were hit."""
    return way[1], way[3]


def _descends(moves: Sequence[CheckerMove]) -> bool:
    return all(OFF <= dst < src <= BAR for src, dst in moves)


def legal_plays(board: Board, color: Color, dice: Dice) -> tuple[Play, ...]:
    """Every legal play of a roll, one for each position that can result; none for a dance.

    As many dice as possible, and the larger if either but not both (RULES.md section 1). A play lists one
    checker move a die, highest point first. Plays that leave the same checkers but hit differently are two.

    >>> len(legal_plays(Board(), Color.WHITE, Dice(3, 1)))
    16
    """
    results = {_position(way): way[0] for way in _Turn(board, color).fullest(dice)}
    return tuple(play if play[0] >= play[-1] else play[::-1] for play in results.values() if play)


def has_play(board: Board, color: Color, dice: Dice) -> bool:
    """Whether the roll can be played at all; if not, the player dances."""
    turn = _Turn(board, color)
    return any(turn.movable(turn.start[2], die) for die in dice)


def judge(board: Board, color: Color, dice: Dice, moves: Sequence[CheckerMove]) -> Play:
    """The legal play that `moves` spell: in any order, a checker's steps one by one or as one hop.

    A hop hits only where it lands, if it has the choice. Raises RuleError with the rule that is broken and the
    legal plays; AMBIGUOUS_PLAY when a hop can be made only by hitting on its way, and in more ways than one.
    """
    turn = _Turn(board, color)
    ordered = tuple(sorted(moves, reverse=True))
    ways = list(turn.spellings(turn.start, _faces(dice), ordered)) if _descends(moves) else []
    complete = [way for way, left in ways if not left]
    if ways and not complete:
        legal = {_position(way) for way in turn.fullest(dice)}
        complete = [way for way, _ in ways if _position(way) in legal]
    results = {_position(way): way[0] for way in complete}
    if len(results) > 1:
        landings = sum({1 << dst for _, dst in moves})
        hitting_less = {at: play for at, play in results.items() if not at[1] & ~landings}
        results = hitting_less or results
    if len(results) == 1:
        return tuple(sorted(*results.values(), reverse=True))
    if results:
        breach, said = (
            Breach.AMBIGUOUS_PLAY,
            Said("name the points it passes: on its way it can hit different checkers"),
        )
    elif ways:
        breach, said = _too_few_dice(turn, dice, max(len(way[0]) for way, _ in ways))
    else:
        breach, said = _broken_rule(turn, dice, ordered)
    raise RuleError(breach, said, legal_plays=legal_plays(board, color, dice))


def _too_few_dice(turn: _Turn, dice: Dice, played: int) -> tuple[Breach, Said]:
    """Why a play is not legal although each of its steps is."""
    possible = len(turn.fullest(dice)[0][0])
    large, small = dice.descending
    if played == possible == 1:
        return (
            Breach.LARGER_DIE_FIRST,
            Said("only one die can be played, so it must be the {large}, not the {small}", large=large, small=small),
        )
    if possible == 2 and not dice.is_double:
        return (
            Breach.BOTH_DICE_PLAYABLE,
            Said("both the {large} and the {small} can be played, so both must be", large=large, small=small),
        )
    return (
        Breach.MORE_DICE_PLAYABLE,
        Said(
            "of {dice}, {possible} can be played, so {possible} must be; got {played}",
            dice="/".join(map(str, _faces(dice))),
            possible=possible,
            played=played,
        ),
    )


def _broken_rule(turn: _Turn, dice: Dice, moves: Play) -> tuple[Breach, Said]:
    """The first of `moves`, highest first, that cannot be made, and why."""
    way, left = turn.start, _faces(dice)
    for move in moves:
        if fault := _broken_step(turn, way, left, move):
            return fault
        way, left = next(turn.spellings(way, left, (move,)))
    return (
        Breach.NOT_THAT_DIE,
        Said("{first} and {second} cannot make these moves together", first=dice.first, second=dice.second),
    )


def _broken_step(turn: _Turn, way: _Way, left: _Dice, move: CheckerMove) -> tuple[Breach, Said] | None:
    src, dst = move
    _, packed, occupied, _ = way
    name = format_move(move)
    if not OFF < src <= BAR or not packed >> 4 * src & 15:
        point = Said("bar") if src == BAR else Said("off") if src == OFF else src
        return Breach.NO_CHECKER, Said("{move}: you have no checker on {point}", move=name, point=point)
    if not OFF <= dst < src:
        return Breach.WRONG_DIRECTION, Said("{move}: checkers move to lower points, and off is 0", move=name)
    if occupied >> BAR and src != BAR:
        return Breach.MUST_ENTER, Said("{move}: a checker on the bar must enter first", move=name)
    if not left:
        return Breach.NOT_THAT_DIE, Said("{move}: no die is left for it", move=name)
    if any(turn.spellings(way, left, (move,))):
        return None
    dice = ", ".join(map(str, left))
    trips = [trip for trip in _trips(left) if src - sum(trip) == dst or (dst == OFF and sum(trip) > src)]
    if dst == OFF:
        others = occupied if packed >> 4 * src & 15 > 1 else occupied & ~(1 << src)
        if others >= _OUTSIDE or (src > 6 and (not trips or min(map(len, trips)) < 2)):
            return Breach.CANNOT_BEAR_OFF, Said("{move}: all your checkers must be at home first", move=name)
        highest = others.bit_length() - 1
        if src < highest and any(sum(trip) > src for trip in trips) and not any(sum(trip) == src for trip in trips):
            return (
                Breach.HIGHER_POINT_FIRST,
                Said("{move}: a larger die bears off only from your highest point, {point}", move=name, point=highest),
            )
    if not trips:
        return (
            Breach.NOT_THAT_DIE,
            Said("{move}: {pips} pips, and the dice left are {dice}", move=name, pips=src - dst, dice=dice),
        )
    if src == BAR and packed >> 4 * BAR & 15 > 1 and min(map(len, trips)) > 1:
        return Breach.MUST_ENTER, Said("{move}: every checker on the bar must enter first", move=name)
    landings = {src - sum(trip[: n + 1]) for trip in trips for n in range(len(trip))}
    blocked = sorted((p for p in landings if p > OFF and not turn.opened >> p & 1), reverse=True)
    if not blocked:
        return Breach.CANNOT_BEAR_OFF, Said("{move}: all your checkers must be at home first", move=name)
    held: object = blocked[0]
    for point in blocked[1:]:
        held = Said("{points} and {point}", points=held, point=point)
    return Breach.POINT_BLOCKED, Said(
        "{move}: two or more opposing checkers hold point {points}", move=name, points=held
    )


def _trips(left: _Dice) -> list[_Dice]:
    """The dice that one checker may use, in each order: 3 1 gives (3,), (3, 1), (1,), (1, 3)."""
    found: list[_Dice] = []
    for die in dict.fromkeys(left):
        found += [(die,), *((die, *more) for more in _trips(_without(left, die)))]
    return found


class Destination(NamedTuple):
    """Where one checker may go next: from `src` to `dst` with `dice`, in the order used, hitting on `hits`.

    `steps` are its checker moves, one a die. Points in the mover's numbering.
    """

    src: int
    dst: int
    dice: tuple[int, ...]
    hits: tuple[int, ...]
    steps: Play


def destinations(board: Board, color: Color, dice: Dice, played: Sequence[CheckerMove] = ()) -> tuple[Destination, ...]:
    """Every next move of one checker, over one die or several, after the checker moves already made.

    A step is here if and only if some legal play contains it after `played`, so no sequence of them strands a
    die that had to be played. Empty: the play is complete. Raises RuleError when no legal play begins so.
    """
    turn = _Turn(board, color)
    fullest = turn.fullest(dice)
    legal, most = {_position(way) for way in fullest}, len(fullest[0][0])

    def onwards(way: _Way, left: _Dice, points: int) -> Iterator[tuple[int, _Way, _Dice]]:
        for die in dict.fromkeys(left):
            for src in _each(turn.movable(way[2], die) & points):
                yield die, turn.step(way, src, die), _without(left, die)

    def completes(way: _Way, left: _Dice) -> bool:
        if len(way[0]) == most:
            return _position(way) in legal
        return any(completes(onward, rest) for _, onward, rest in onwards(way, left, _ANY))

    def trips(way: _Way, left: _Dice, points: int) -> Iterator[tuple[_Dice, _Way, _Dice]]:
        """Legal steps and, with the same checker, what may follow: the dice used, the way, the dice left."""
        if len(way[0]) < most:
            for die, onward, rest in onwards(way, left, points):
                if completes(onward, rest):
                    yield (die,), onward, rest
                    for more, end, last in trips(onward, rest, 1 << onward[0][-1].dst):
                        yield (die, *more), end, last

    starts: list[tuple[_Way, _Dice]] = []
    if _descends(played):
        ordered = tuple(sorted(played, reverse=True))
        starts = [now for now in turn.spellings(turn.start, _faces(dice), ordered) if completes(*now)]
    if not starts:
        judge(board, color, dice, played)
    found: dict[tuple[object, ...], Destination] = {}
    for start, left in starts:
        for used, way, rest in trips(start, left, _ANY):
            steps = way[0][len(start[0]) :]
            src, dst = steps[0].src, steps[-1].dst
            hits = tuple(stop for _, stop in steps if 1 << stop & way[3] & ~start[3])
            then = () if len(way[0]) == most else rest
            found.setdefault((src, dst, hits, then), Destination(src, dst, used, hits, steps))
    return tuple(sorted(found.values(), key=lambda to: (-to.src, len(to.dice), -to.dst)))
