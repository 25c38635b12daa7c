"""Linearizability: what concurrent callers were told fits one order of commands, which is the log's.

Each call took effect, or was judged, at one moment between its first sending and its answer. The rules of the domain
say what it must have come to at each version of the match.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from domain.board import CheckerMove, Color, Dice
from domain.breach import Breach, RuleError
from domain.commands import Accept, Command, Double, Join, Move, Refuse, Resign, Roll
from domain.events import Event, Rolled, Stake
from domain.match import Match
from domain.rules import decide, evolve
from infra.log import Recorded
from tests.faults.crowd import Call
from tests.faults.proof import Disproved


@dataclass(frozen=True)
class Read:
    """A look at the match: when it was asked for and answered, and the version it gave."""

    begun: float
    ended: float
    version: int


@dataclass(frozen=True)
class _Moment:
    """What is known of when something was: within a time, and after version `after` up to version `until`."""

    begun: float
    ended: float
    after: int
    until: int
    what: object


def check_order(log: Sequence[Recorded], calls: Iterable[Call], reads: Iterable[Read]) -> int:
    """How many refusals were judged again. Raises Disproved when no order of all this explains what everybody saw."""
    matches: list[Match | None] = [None]
    for record in log:
        matches.append(evolve(matches[-1], record.event))
    moments = [_Moment(read.begun, read.ended, read.version, read.version, read) for read in reads]
    refused = []
    for call in calls:
        assert call.answer is not None
        if call.answer["__typename"] == "Refusal":
            refused.append(call)
            if call.answer["current"]:
                version = call.answer["current"]["version"]
                moments.append(_Moment(call.begun, call.ended, version, version, call))
        else:
            first, last = call.answer["events"][0]["seq"], call.answer["events"][-1]["seq"]
            moments.append(_Moment(call.begun, call.ended, first - 1, last, call))
            _check_effect(matches[first - 1], call, [record.event for record in log[first - 1 : last]])
    between = {moment.after for moment in moments if moment.until > moment.after} | {len(log)}
    by_end = sorted(moments, key=lambda moment: moment.ended)
    ends = [moment.ended for moment in by_end]
    furthest = list(accumulate(by_end, lambda one, other: max(one, other, key=lambda moment: moment.until)))
    for moment in moments:
        if moment.until == moment.after and moment.until not in between:
            raise Disproved(f"version {moment.until} is in the middle of one command: {moment.what}")
        before = bisect_left(ends, moment.begun)
        if before and furthest[before - 1].until > moment.after:
            what = furthest[before - 1].what
            raise Disproved(f"{what} was answered before this was asked, and comes later: {moment.what}")
    for call in refused:
        assert call.answer is not None
        if call.answer["current"]:
            possible = [call.answer["current"]["version"]]
        else:
            lowest = max((moment.until for moment in moments if moment.ended < call.begun), default=0)
            highest = min((moment.after for moment in moments if moment.begun > call.ended), default=len(log))
            possible = [version for version in sorted(between) if lowest <= version <= highest]
        verdicts = {version: _verdict(matches[version], version, call) for version in possible}
        if call.answer["code"] not in verdicts.values():
            raise Disproved(f"it should have come to {verdicts}: {call}")
    return len(refused)


def _check_effect(match: Match | None, call: Call, events: list[Event]) -> None:
    """The first of the events are those of the command, at the match before them."""
    if match is None:
        return  # a creation
    first = events[0]
    decided = decide(match, _command(match, call, first if isinstance(first, Rolled) else None))
    version = call.variables.get("version")
    after = call.answer["events"][0]["seq"] - 1 if call.answer else 0
    if tuple(events[: len(decided)]) != decided or version not in (None, after):
        raise Disproved(f"the rules give {decided}, and the log has {events}: {call}")


def _verdict(match: Match | None, version: int, call: Call) -> str | None:
    """The code that a call is refused with at this version; None if it is not."""
    if match is None:
        return Breach.MATCH_NOT_FOUND.name
    if call.verb != "joinMatch" and match.seat_of(call.player.id) is None:
        return Breach.NOT_SEATED.name
    if call.variables.get("version") not in (None, version):
        return Breach.STALE_VERSION.name
    try:
        decide(match, _command(match, call, None))
    except RuleError as error:
        return error.breach.name
    return None


def _command(match: Match, call: Call, rolled: Rolled | None) -> Command:
    given: dict[str, Any] = call.variables
    by = match.seat_of(call.player.id) or Color.WHITE
    match call.verb:
        case "joinMatch":
            return Join(player=call.player.id)
        case "roll":
            dice, link = (rolled.dice, rolled.link) if rolled else (Dice(1, 2), None)
            return Roll(by=by, dice=dice, link=link)
        case "move":
            return Move(by=by, play=tuple(CheckerMove(*move) for move in given["play"]["moves"]))
        case "double":
            return Double(by=by)
        case "accept":
            return Accept(by=by)
        case "refuse":
            return Refuse(by=by)
        case "resign":
            return Resign(by=by, stake=Stake(given["stake"].lower()))
    raise AssertionError(call.verb)
