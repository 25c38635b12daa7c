"""Promise 5: commands from everywhere at once come to one order, and a key takes effect once wherever it is sent."""

import asyncio
import copy
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from infra.log import Recorded
from tests.faults.crowd import MUTATIONS, READ, Call, Crowd, Game, Player, choice
from tests.faults.order import Read, check_order
from tests.faults.proof import Disproved, proof
from tests.server import Server

VERBS = ("roll", "move", "double", "accept", "refuse", "resign", "joinMatch")


async def test_concurrent_commands_to_one_match_come_to_one_order(pair: list[Server]) -> None:
    """Each player has three clients, and somebody who does not play meddles; every call goes to another process."""
    urls = [server.base for server in pair]
    crowd, reads = Crowd(guests=3), list[Read]()
    with crowd.at(urls):
        await crowd.register()
        await crowd.open_games(1)
        [game] = crowd.games
        stranger = next(player for player in crowd.players if player not in (game.white, game.black))
        clients = [game.white] * 3 + [game.black] * 3 + [stranger]
        await asyncio.gather(*(_client(crowd, game, player, reads) for player in clients))
    logs = await proof(urls, crowd)
    records = logs[game.id].records
    refusals = check_order(records, crowd.calls, reads)
    assert len(records) > 40
    assert refusals > 100
    told = Counter(call.answer["code"] for call in crowd.calls if call.answer and "code" in call.answer)
    assert len(told) > 6, told
    for tamper in TAMPERINGS:
        calls, looks = copy.deepcopy(crowd.calls), list(reads)
        tamper(records, calls, looks)
        with pytest.raises(Disproved):
            check_order(records, calls, looks)


async def _client(crowd: Crowd, game: Game, player: Player, reads: list[Read]) -> None:
    """Fifty commands, most of them sensible when it looked last, many of them too late."""
    for _ in range(50):
        begun = time.monotonic()
        state = await crowd.read(game.id, player)
        reads.append(Read(begun, time.monotonic(), state["version"]))
        verb, more = choice(state, crowd.chance)
        if crowd.chance.random() < 0.3:
            verb, more = crowd.chance.choice(VERBS), {"play": {"moves": [[13, 11]]}, "stake": "SINGLE"}
        if crowd.chance.random() < 0.5:
            more = {**more, "version": state["version"]}
        await crowd.do(player, verb, id=game.id, **more)


def _happened(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.answer and call.answer["__typename"] == "Happened"]


def _answered_before_an_earlier_one_was_sent(records: list[Recorded], calls: list[Call], reads: list[Read]) -> None:
    earlier, *_, later = _happened(calls)
    later.begun, later.ended = earlier.begun - 2, earlier.begun - 1


def _looked_back(records: list[Recorded], calls: list[Call], reads: list[Read]) -> None:
    now = time.monotonic()
    reads.append(Read(now, now + 1, reads[0].version))


def _looked_between(records: list[Recorded], calls: list[Call], reads: list[Read]) -> None:
    call = next(call for call in _happened(calls) if len(call.answer["events"]) > 1)
    reads.append(Read(call.begun, call.ended, call.answer["events"][0]["seq"]))


def _refused_without_reason(records: list[Recorded], calls: list[Call], reads: list[Read]) -> None:
    call = next(call for call in calls if call.answer["__typename"] == "Refusal")
    call.answer["code"] = "MATCH_OVER"


def _did_something_else(records: list[Recorded], calls: list[Call], reads: list[Read]) -> None:
    next(call for call in _happened(calls) if call.verb == "roll").verb = "double"


TAMPERINGS: list[Callable[[list[Recorded], list[Call], list[Read]], None]] = [
    _answered_before_an_earlier_one_was_sent,
    _looked_back,
    _looked_between,
    _refused_without_reason,
    _did_something_else,
]


async def test_a_key_sent_to_two_processes_at_once_takes_effect_once(pair: list[Server]) -> None:
    """Every verb, in twenty matches; and the key is refused for any other input, at once or later."""
    urls = [server.base for server in pair]
    crowd = Crowd()
    with crowd.at(urls):
        await crowd.register()
        await asyncio.gather(*(_whole_match_of_repeated_calls(crowd) for _ in range(20)))
    await proof(urls, crowd)


async def _whole_match_of_repeated_calls(crowd: Crowd) -> None:
    white, black = crowd.chance.sample(crowd.players, 2)
    created = await _once(crowd, white, "createMatch", settings={"length": 3})
    match_id = created["match"]["id"]
    state = (await _once(crowd, black, "joinMatch", id=match_id))["match"]
    first, other = (white, black) if state["toAct"] == "WHITE" else (black, white)
    await _once(crowd, first, "move", id=match_id, play={"moves": state["legalPlays"][0]["moves"]})
    await _once(crowd, other, "roll", id=match_id)
    await _once(crowd, white, "resign", id=match_id, stake="MATCH")
    await _once(crowd, black, "rematch", id=match_id)
    accepted = await _once(crowd, white, "rematch", id=match_id)
    assert len(accepted["events"]) >= 4
    late = await _once(crowd, black, "rematch", id=match_id)
    assert (late["match"]["id"], late["events"]) == (accepted["match"]["id"], [])
    await _one_of_two(crowd, white)


async def _once(crowd: Crowd, player: Player, verb: str, **variables: Any) -> dict[str, Any]:
    """The one answer to a call that is sent four times at once, and then once more; with other input it is refused."""
    call = crowd.called(player, verb, **variables)
    again = [copy.copy(call) for _ in range(4)]
    first, *others = await asyncio.gather(*(crowd.send(each) for each in [call, *again[:3]]))
    assert first is not None
    assert first["__typename"] == "Happened", call
    others.append(await crowd.send(again[3]))
    assert others == [first] * 4
    other = {"settings": {"length": 5}} if verb == "createMatch" else {"version": 1}
    refused = await crowd.do(player, verb, **{**call.variables, **other})
    assert refused.get("code") == "KEY_REUSED", refused
    return first


async def test_a_key_may_be_any_text_and_what_can_be_no_id_is_not_found(pair: list[Server]) -> None:
    """PostgreSQL has no text with a NUL in it."""
    crowd = Crowd(guests=1)
    with crowd.at([server.base for server in pair]):
        await crowd.register()
        [player] = crowd.players
        for key in ("\0", "a\0b", "a\nb", "\\0", "🎲" * 100):
            calls = [crowd.called(player, "createMatch", settings={"length": 1}, key=key) for _ in pair]
            one, other = [await crowd.send(call) for call in calls]
            assert one == other, key
        for wire in crowd.wires:
            assert await crowd.post(wire, READ, {"id": "a\0b"}, player) == {"match": None}
            refused = await crowd.post(wire, MUTATIONS["roll"], {"id": "a\0b"}, player)
            assert refused["answer"]["code"] == "MATCH_NOT_FOUND"


async def test_when_both_propose_a_rematch_at_once_it_begins(pair: list[Server]) -> None:
    urls = [server.base for server in pair]
    crowd = Crowd(guests=2)
    with crowd.at(urls):
        await crowd.register()
        for _ in range(20):
            await crowd.open_games(1)
            game = crowd.games[-1]
            await crowd.do(game.white, "resign", id=game.id, stake="MATCH")
            answers = await asyncio.gather(
                *(crowd.do(player, "rematch", id=game.id) for player in (game.white, game.black))
            )
            assert max(len(answer["events"]) for answer in answers) >= 4
    await proof(urls, crowd)


async def _one_of_two(crowd: Crowd, player: Player) -> None:
    """Two calls of one key and unlike input at once: one is done, and the other refused."""
    one = crowd.called(player, "createMatch", settings={"length": 1})
    other = crowd.called(player, "createMatch", settings={"length": 3}, key=one.variables["key"])
    answers = await asyncio.gather(crowd.send(one), crowd.send(other))
    assert {answer and answer.get("code") for answer in answers} == {None, "KEY_REUSED"}
