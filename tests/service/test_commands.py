"""The nine commands as a client meets them: DESIGN.md section 2 and RULES.md sections 1 to 4, through the API alone."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.client import STATE, Client

Guest = Callable[[str], Awaitable[Client]]

START = "24:2 13:5 8:3 6:5"
FIVE_POINTS = "6:2 5:2 4:2 3:2 2:2"
BY_HAND = "autoRoll: false"
PLAYING = (
    ("roll", ""),
    ("move", 'play: {notation: "8/5 6/5"}'),
    ("double", ""),
    ("accept", ""),
    ("refuse", ""),
    ("resign", "stake: MATCH"),
)


def xgid(state: str = "0:0:1:00:0:0:0:5:6", white: str = START, black: str = START) -> str:
    """An XGID (cube, owner, turn, dice, scores, rules, length, limit); each side in its own numbering."""
    letters = ["-"] * 26
    for side, one in ((white, "A"), (black, "a")):
        for word in side.split():
            point, count = map(int, word.split(":"))
            letters[point if one == "A" else 25 - point] = chr(ord(one) + count - 1)
    return f"XGID={''.join(letters)}:{state}"


def sandbox(start: str | None = None, dice: str = "", more: str = "") -> str:
    """Settings of a sandbox; dice as players say them: "31 64"."""
    given = [f'start: "{start}"'] if start else []
    given += [f"dice: {[[int(roll[0]), int(roll[1])] for roll in dice.split()]}"] if dice else []
    return f"{{{more} sandbox: {{{' '.join(given)}}}}}"


async def seated(white: Client, black: Client, settings: str, create: str = "", join: str = "") -> str:
    """The id of a match that white has created and black has joined."""
    if "PRIVATE" in settings:
        create += f' opponent: "{black.player_id}"'
    match_id = await white.create(settings, f" {create}")
    if "UNLISTED" in settings:
        join += f' code: "{(await white.match(match_id, "invitation { joinCode }"))["invitation"]["joinCode"]}"'
    await black.happens("joinMatch", f'matchId: "{match_id}" {join}')
    return match_id


async def on_roll(white: Client, black: Client, state: str, *, board: tuple[str, str] = (START, START)) -> str:
    """A match that starts in this state, where nobody wants the table to roll."""
    return await seated(white, black, sandbox(xgid(state, *board)), BY_HAND, BY_HAND)


async def told(client: Client, match_id: str, after: int = 3) -> list[tuple[Any, ...]]:
    """The log from an event on: kinds, and of rolls who and what."""
    return [
        (event["kind"], event["rolledBy"], event["dice"]) if event["kind"] == "rolled" else (event["kind"],)
        for event in (await client.log(match_id))[after:]
    ]


async def refused(client: Client, verb: str, match_id: str, arguments: str = "") -> str:
    """The code of a refusal, after which nothing has changed."""
    before = await client.match(match_id), await client.log(match_id)
    answer = await client.command(verb, f'matchId: "{match_id}" {arguments}')
    assert answer["__typename"] == "Refusal", answer
    assert answer["message"]
    assert answer["current"] == {"version": before[0]["version"]}
    assert (await client.match(match_id), await client.log(match_id)) == before
    code: str = answer["code"]
    return code


async def does(client: Client, verb: str, match_id: str, arguments: str = "") -> dict[str, Any]:
    """The match after a command that must take effect."""
    match: dict[str, Any] = (await client.happens(verb, f'matchId: "{match_id}" {arguments}'))["match"]
    return match


async def scores(client: Client, match_id: str) -> tuple[int, int]:
    """White's points and black's."""
    match = await client.match(match_id)
    return match["white"]["score"], match["black"]["score"]


async def results(client: Client, match_id: str) -> list[tuple[Any, ...]]:
    """The games so far: winner, points, stake, cube, end."""
    found = await client.match(match_id, "results { game winner points stake cube end }")
    assert [result["game"] for result in found["results"]] == list(range(1, len(found["results"]) + 1))
    return [tuple(result[name] for name in ("winner", "points", "stake", "cube", "end")) for result in found["results"]]


# seats


async def test_a_match_waits_for_its_second_player(server: Any, guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    answer = await ann.happens("createMatch", "settings: {length: 5}")
    match = answer["match"]
    assert [event["kind"] for event in answer["events"]] == ["created", "joined"]
    assert (match["phase"], match["toAct"], match["turn"], match["version"]) == ("WAITING", None, None, 2)
    assert match["white"]["player"] == {"id": ann.player_id, "name": "Ann"}
    assert match["black"]["player"] is None
    assert match["viewerColor"] == "WHITE"
    assert match["allowedActions"] == ["CANCEL"]
    seen = await bob.match(match["id"])
    assert (seen["viewerColor"], seen["allowedActions"]) == (None, ["JOIN"])
    joined = await bob.happens("joinMatch", f'matchId: "{match["id"]}"')
    assert joined["match"]["black"]["player"] == {"id": bob.player_id, "name": "Bob"}
    assert joined["match"]["viewerColor"] == "BLACK"
    assert joined["match"]["phase"] != "WAITING"


async def test_the_creator_may_take_black(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create("{length: 1}", ", color: BLACK")
    match = await does(bob, "joinMatch", match_id)
    assert match["black"]["player"]["name"] == "Ann"
    assert match["white"]["player"]["name"] == "Bob"
    assert [event["color"] for event in (await ann.log(match_id))[1:3]] == ["BLACK", "WHITE"]


async def test_a_seat_is_taken_once(guest: Guest) -> None:
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await ann.create("{length: 1}")
    assert await refused(ann, "joinMatch", match_id) == "ALREADY_SEATED"
    await does(bob, "joinMatch", match_id)
    assert await refused(bob, "joinMatch", match_id) == "ALREADY_SEATED"
    assert await refused(cleo, "joinMatch", match_id) == "SEATS_TAKEN"


async def test_of_several_who_join_at_once_one_gets_the_seat(guest: Guest) -> None:
    ann = await guest("Ann")
    others = [await guest(f"guest {n}") for n in range(8)]
    for _ in range(3):
        match_id = await ann.create("{length: 1}")
        answers = await asyncio.gather(*(one.command("joinMatch", f'matchId: "{match_id}"') for one in others))
        assert [answer.get("code") for answer in answers].count("SEATS_TAKEN") == len(others) - 1
        [seat] = [one for one, answer in zip(others, answers, strict=True) if answer["__typename"] == "Happened"]
        assert (await ann.match(match_id))["black"]["player"]["id"] == seat.player_id
        assert [event["kind"] for event in await ann.log(match_id)].count("joined") == 2


async def test_nothing_can_be_done_before_the_second_player_sits(guest: Guest) -> None:
    ann = await guest("Ann")
    match_id = await ann.create("{length: 5}")
    for verb, arguments in (*PLAYING, ("resign", "stake: SINGLE")):
        assert await refused(ann, verb, match_id, arguments) == "NOT_STARTED", verb


async def test_a_refused_rematch_shows_the_match_as_it_stands(guest: Guest) -> None:
    """The schema: `current` is the match as it stands, where you may see it."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create("{length: 5}")
    assert await refused(ann, "rematch", match_id) == "MATCH_NOT_OVER"
    await does(bob, "joinMatch", match_id)
    assert await refused(bob, "rematch", match_id) == "MATCH_NOT_OVER"


# the opening


@pytest.mark.parametrize(
    ("dice", "rolls", "first"),
    [
        pytest.param("31", [("WHITE", [3, 1])], "WHITE", id="white's die is higher"),
        pytest.param("35", [("BLACK", [3, 5])], "BLACK", id="black's die is higher"),
        pytest.param("66 22 14", [(None, [6, 6]), (None, [2, 2]), ("BLACK", [1, 4])], "BLACK", id="two ties first"),
    ],
)
async def test_the_table_throws_the_opening_and_records_ties(
    guest: Guest, dice: str, rolls: list[tuple[str | None, list[int]]], first: str
) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create(sandbox(dice=dice, more="length: 5"))
    answer = await bob.happens("joinMatch", f'matchId: "{match_id}"')
    match = answer["match"]
    assert [event["kind"] for event in answer["events"]] == ["joined"] + ["rolled"] * len(rolls)
    log = (await ann.log(match_id))[3:]
    assert [(event["rolledBy"], event["dice"]) for event in log] == rolls
    assert all(event["opening"] for event in log)
    assert (match["phase"], match["toAct"], match["turn"]) == ("TO_PLAY", first, first)
    assert match["dice"] == rolls[-1][1]
    assert match["cube"] == {"value": 1, "owner": None}


@pytest.mark.parametrize(
    ("settings", "dice", "cube"),
    [
        pytest.param("", "11 22 31", 1, id="off by default"),
        pytest.param("automaticDoubles: 1", "11 31", 2, id="one tie"),
        pytest.param("automaticDoubles: 1", "11 22 31", 2, id="at most one"),
        pytest.param("automaticDoubles: 3", "11 22 33 44 31", 8, id="at most three"),
        pytest.param("automaticDoubles: 2", "31", 1, id="no tie"),
        pytest.param("automaticDoubles: 4, cubeLimit: 4", "11 22 33 44 31", 4, id="not beyond the limit"),
    ],
)
async def test_automatic_doubles_turn_the_centred_cube(guest: Guest, settings: str, dice: str, cube: int) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, sandbox(dice=dice, more=settings))
    assert (await ann.match(match_id))["cube"] == {"value": cube, "owner": None}


async def test_the_next_game_opens_as_soon_as_the_last_has_ended(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, sandbox(dice="31 42", more="length: 7"))
    await does(bob, "resign", match_id, "stake: SINGLE")
    answer = await ann.happens("accept", f'matchId: "{match_id}"')
    assert [event["kind"] for event in answer["events"]] == ["accepted", "rolled"]
    match = answer["match"]
    assert (match["phase"], match["toAct"], match["dice"], match["game"]) == ("TO_PLAY", "WHITE", [4, 2], 2)
    assert (await ann.log(match_id))[-1]["opening"]
    assert match["white"]["pips"] == match["black"]["pips"] == 167
    assert await scores(ann, match_id) == (1, 0)


async def test_scripted_dice_come_in_order_and_thrown_ones_after_them(guest: Guest) -> None:
    """Openings, ties and later rolls all take from the one script."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, sandbox(dice="44 16 21 55 63", more="length: 5"), BY_HAND, BY_HAND)
    for player, other in ((bob, ann), (ann, bob), (bob, ann), (ann, bob)):
        play = (await player.match(match_id, "legalPlays { moves }"))["legalPlays"][0]["moves"]
        await does(player, "move", match_id, f"play: {{moves: {play}}}")
        await does(other, "roll", match_id)
    rolls = [event["dice"] for event in await ann.log(match_id) if event["kind"] == "rolled"]
    assert rolls[:5] == [[4, 4], [1, 6], [2, 1], [5, 5], [6, 3]]
    assert len(rolls) == 6
    assert all(1 <= die <= 6 for die in rolls[5])


# rolling and dancing

ON_THE_BAR = ("25:1 13:5", FIVE_POINTS + " 13:5")


@pytest.mark.parametrize("color", ["WHITE", "BLACK"])
async def test_a_roll_without_a_legal_play_is_followed_at_once_by_a_dance(guest: Guest, color: str) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    board = ON_THE_BAR if color == "WHITE" else ON_THE_BAR[::-1]
    state = f"0:0:{1 if color == 'WHITE' else -1}:00:0:0:0:5:6"
    match_id = await seated(ann, bob, sandbox(xgid(state, *board), "65"))
    answer = await (ann if color == "WHITE" else bob).happens("roll", f'matchId: "{match_id}"')
    assert [event["kind"] for event in answer["events"]] == ["rolled", "moved"]
    match = answer["match"]
    assert (match["phase"], match["turn"] == color, match["dice"]) == ("ON_ROLL", False, None)
    moved = (await ann.log(match_id))[-1]
    assert (moved["by"], moved["play"], moved["notation"]) == (color, [], "")


async def test_a_start_that_cannot_be_played_is_danced_at_once(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create(sandbox(xgid("0:0:1:65:0:0:0:5:6", *ON_THE_BAR)))
    answer = await bob.happens("joinMatch", f'matchId: "{match_id}"')
    assert [event["kind"] for event in answer["events"]] == ["joined", "moved"]
    assert (answer["match"]["phase"], answer["match"]["toAct"]) == ("ON_ROLL", "BLACK")


async def test_two_who_dance_and_cannot_double_are_rolled_for_until_one_can_play(guest: Guest) -> None:
    """Without a cube the table rolls for both, whoever asked for the first roll."""
    ann, bob = await guest("Ann"), await guest("Bob")
    both = (f"25:1 {FIVE_POINTS}",) * 2
    start = xgid("0:0:1:00:0:0:0:5:0", *both)
    match_id = await ann.create(sandbox(start, "65 66 22 44 61"))
    answer = await bob.happens("joinMatch", f'matchId: "{match_id}"')
    assert [event["kind"] for event in answer["events"]] == ["joined"] + ["rolled", "moved"] * 4 + ["rolled"]
    assert [event for event in await told(ann, match_id) if event[0] == "rolled"] == [
        ("rolled", "WHITE", [6, 5]),
        ("rolled", "BLACK", [6, 6]),
        ("rolled", "WHITE", [2, 2]),
        ("rolled", "BLACK", [4, 4]),
        ("rolled", "WHITE", [6, 1]),
    ]
    assert (answer["match"]["phase"], answer["match"]["toAct"]) == ("TO_PLAY", "WHITE")


CANNOT_DOUBLE = {
    "the cube is the opponent's": "1:{other}:{turn}:00:0:0:0:5:6",
    "the Crawford game": "0:0:{turn}:00:{four_nil}:1:5:6",
    "the Crawford game, for the trailer": "0:0:{turn}:00:{nil_four}:1:5:6",
    "the cube is at its limit": "6:{own}:{turn}:00:0:0:0:0:6",
    "a limit of the match's own": "2:{own}:{turn}:00:0:0:0:9:2",
    "no cube": "0:0:{turn}:00:0:0:0:5:0",
    "one point suffices": "0:0:{turn}:00:{four_nil}:0:5:6",
    "a match to one point": "0:0:{turn}:00:0:0:0:1:6",
    "the own cube suffices": "2:{own}:{turn}:00:0:0:0:4:6",
    "the own cube more than suffices": "2:{own}:{turn}:00:0:0:0:3:6",
}
CAN_USEFULLY_DOUBLE = {
    "a centred cube": "0:0:{turn}:00:0:0:0:5:6",
    "the own cube does not suffice": "1:{own}:{turn}:00:0:0:0:3:6",
    "the trailer after Crawford": "0:0:{turn}:00:{nil_four}:0:5:6",
    "a money game": "0:0:{turn}:00:0:0:0:0:6",
    "the own cube one below the limit": "5:{own}:{turn}:00:0:0:0:0:6",
    "two points away, one each": "0:0:{turn}:00:3:3:0:5:6",
}


def turned(state: str, color: str) -> str:
    """The state with this colour on roll and the scores seen from it."""
    white = color == "WHITE"
    own, other = ("1", "-1") if white else ("-1", "1")
    four_nil, nil_four = ("4:0", "0:4") if white else ("0:4", "4:0")
    return state.format(own=own, other=other, turn=own, four_nil=four_nil, nil_four=nil_four)


@pytest.mark.parametrize("state", CANNOT_DOUBLE.values(), ids=CANNOT_DOUBLE.keys())
async def test_the_table_rolls_for_who_could_gain_nothing_by_doubling(guest: Guest, state: str) -> None:
    """By default; not for a seat that wished otherwise, whatever the other seat wishes."""
    ann, bob = await guest("Ann"), await guest("Bob")
    for color, player, wishes in (
        ("WHITE", ann, ("autoRoll: false", "autoRoll: true")),
        ("BLACK", bob, ("autoRoll: true", "autoRoll: false")),
    ):
        settings = sandbox(xgid(turned(state, color)), "31")
        match_id = await seated(ann, bob, settings)
        assert await told(ann, match_id) == [("rolled", color, [3, 1])]
        match_id = await seated(ann, bob, settings, *wishes)
        assert await told(ann, match_id) == []
        match = await does(player, "roll", match_id)
        assert (match["phase"], match["dice"]) == ("TO_PLAY", [3, 1])


@pytest.mark.parametrize("state", CAN_USEFULLY_DOUBLE.values(), ids=CAN_USEFULLY_DOUBLE.keys())
async def test_the_table_never_rolls_for_who_could_usefully_double(guest: Guest, state: str) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    for color, player in (("WHITE", ann), ("BLACK", bob)):
        match_id = await seated(ann, bob, sandbox(xgid(turned(state, color))), "autoRoll: true", "autoRoll: true")
        match = await ann.match(match_id)
        assert (match["phase"], match["toAct"], match["version"]) == ("ON_ROLL", color, 3)
        assert (await does(player, "double", match_id))["offer"] == {"by": color, "stake": None}


async def test_a_wish_to_roll_by_hand_is_kept_beside_the_log(guest: Guest) -> None:
    """autoRoll is not part of the log: two matches that differ in it alone have the same first events."""
    ann, bob = await guest("Ann"), await guest("Bob")
    kinds = []
    for wish in ("true", "false"):
        match_id = await seated(ann, bob, sandbox(dice="31", more="length: 5"), f"autoRoll: {wish}")
        kinds.append([event["kind"] for event in await ann.log(match_id)])
    assert kinds[0] == kinds[1]


# moving


async def test_a_play_is_made_in_notation_or_as_checker_moves_and_passes_the_turn(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    played = []
    for play in ('notation: "8/5 6/5"', "moves: [[8, 5], [6, 5]]", "moves: [[6, 5], [8, 5]]", 'notation: "6/5, 8/5"'):
        match_id = await seated(ann, bob, sandbox(dice="31", more="length: 5"))
        match = await does(ann, "move", match_id, f"play: {{{play}}}")
        assert (match["phase"], match["toAct"], match["dice"]) == ("ON_ROLL", "BLACK", None)
        last = await ann.match(match_id, "lastPlay { by dice moves notation } white { checkers }")
        played.append(last)
        assert (await ann.log(match_id))[-1]["play"] == [[8, 5], [6, 5]]
    assert played[0]["lastPlay"] == {"by": "WHITE", "dice": [3, 1], "moves": [[8, 5], [6, 5]], "notation": "8/5 6/5"}
    assert {point: n for point, n in enumerate(played[0]["white"]["checkers"]) if n} == {24: 2, 13: 5, 8: 2, 6: 4, 5: 2}
    assert all(one == played[0] for one in played)


async def test_each_side_counts_points_from_its_own_home(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, sandbox(dice="13", more="length: 5"))
    match = await does(bob, "move", match_id, 'play: {notation: "8/5 6/5"}')
    assert match["black"]["checkers"][5] == 2
    assert match["white"]["checkers"][5] == 0
    assert (await ann.log(match_id))[-1]["notation"] == "8/5 6/5"


async def test_a_hit_is_shown_and_sends_the_blot_to_the_bar(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    start = xgid("0:0:1:31:0:0:0:5:6", "8:1 6:5", "20:1 6:5")
    match_id = await seated(ann, bob, sandbox(start))
    match = await does(ann, "move", match_id, 'play: {notation: "8/5/4"}')
    assert (await ann.log(match_id))[-1]["notation"] == "8/5*/4"
    assert match["black"]["checkers"][25] == 1
    assert match["black"]["pips"] == 25 + 30


# who may act, and when


@pytest.mark.parametrize(
    ("state", "verb", "arguments", "code"),
    [
        pytest.param("0:0:1:00:0:0:0:5:6", "move", 'play: {notation: "8/5 6/5"}', "ROLL_FIRST", id="move before roll"),
        pytest.param("0:0:1:31:0:0:0:5:6", "roll", "", "ALREADY_ROLLED", id="roll twice"),
        pytest.param("0:0:1:31:0:0:0:5:6", "double", "", "ALREADY_ROLLED", id="double after the roll"),
        pytest.param("0:0:1:00:0:0:0:5:6", "accept", "", "NOTHING_TO_ANSWER", id="accept nothing"),
        pytest.param("0:0:1:00:0:0:0:5:6", "refuse", "", "NOTHING_TO_ANSWER", id="refuse nothing"),
        pytest.param("0:0:-1:00:0:0:0:5:6", "roll", "", "NOT_YOUR_TURN", id="roll for the opponent"),
        pytest.param("0:0:-1:00:0:0:0:5:6", "double", "", "NOT_YOUR_TURN", id="double for the opponent"),
        pytest.param(
            "0:0:-1:31:0:0:0:5:6", "move", 'play: {notation: "8/5 6/5"}', "NOT_YOUR_TURN", id="move for the opponent"
        ),
        pytest.param("0:0:1:D:0:0:0:5:6", "roll", "", "NOT_YOUR_TURN", id="roll while the own double is open"),
        pytest.param("0:0:1:D:0:0:0:5:6", "accept", "", "NOT_YOUR_TURN", id="accept the own double"),
        pytest.param("0:0:1:D:0:0:0:5:6", "refuse", "", "NOT_YOUR_TURN", id="refuse the own double"),
        pytest.param("0:0:-1:D:0:0:0:5:6", "roll", "", "ANSWER_FIRST", id="roll before answering"),
        pytest.param("0:0:-1:D:0:0:0:5:6", "double", "", "ANSWER_FIRST", id="double before answering"),
        pytest.param("0:0:-1:D:0:0:0:5:6", "resign", "stake: SINGLE", "ANSWER_FIRST", id="resign before answering"),
        pytest.param("0:0:1:D:0:0:0:5:6", "resign", "stake: SINGLE", "ANSWER_FIRST", id="resign after doubling"),
        pytest.param("0:0:1:00:0:0:0:5:0", "double", "", "NO_CUBE", id="double without a cube"),
        pytest.param("0:0:1:00:4:0:1:5:6", "double", "", "CRAWFORD_GAME", id="double in the Crawford game"),
        pytest.param("0:0:1:00:0:4:1:5:6", "double", "", "CRAWFORD_GAME", id="the trailer neither"),
        pytest.param("1:-1:1:00:0:0:0:5:6", "double", "", "CUBE_NOT_YOURS", id="double with the other's cube"),
        pytest.param("6:1:1:00:0:0:0:0:6", "double", "", "CUBE_AT_LIMIT", id="double at the limit"),
        pytest.param("2:1:1:00:0:0:0:0:2", "double", "", "CUBE_AT_LIMIT", id="double at the match's own limit"),
    ],
)
async def test_white_is_refused_by_the_rule_it_breaks(
    guest: Guest, state: str, verb: str, arguments: str, code: str
) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await on_roll(ann, bob, state)
    assert await refused(ann, verb, match_id, arguments) == code


async def test_strangers_and_spectators_only_watch(guest: Guest) -> None:
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await on_roll(ann, bob, "0:0:1:00:0:0:0:5:6")
    for verb, arguments in (*PLAYING, ("rematch", "")):
        answer = await cleo.command(verb, f'matchId: "{match_id}" {arguments}')
        assert answer["code"] == "NOT_SEATED", verb
    assert (await cleo.match(match_id))["allowedActions"] == []
    assert (await ann.match(match_id))["version"] == 3


@pytest.mark.parametrize(
    ("state", "white", "black"),
    [
        pytest.param("0:0:1:00:0:0:0:5:6", ["ROLL", "DOUBLE", "RESIGN"], ["RESIGN"], id="on roll"),
        pytest.param("1:-1:1:00:0:0:0:5:6", ["ROLL", "RESIGN"], ["RESIGN"], id="on roll without the cube"),
        pytest.param("0:0:1:31:0:0:0:5:6", ["MOVE", "RESIGN"], ["RESIGN"], id="to play"),
        pytest.param("0:0:1:D:0:0:0:5:6", ["RESIGN"], ["ACCEPT", "REFUSE", "RESIGN"], id="doubled"),
    ],
)
async def test_allowed_actions_are_those_that_are_not_refused(
    guest: Guest, state: str, white: list[str], black: list[str]
) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await on_roll(ann, bob, state)
    assert (await ann.match(match_id))["allowedActions"] == white
    assert (await bob.match(match_id))["allowedActions"] == black
    asked = await bob.match(match_id, "white: allowedActions(color: WHITE) black: allowedActions(color: BLACK)")
    assert asked == {"white": white, "black": black}


# the cube


async def test_a_double_waits_for_its_answer_and_the_taker_owns_the_cube(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await on_roll(ann, bob, "0:0:1:00:0:0:0:5:6")
    match = await does(ann, "double", match_id)
    assert (match["phase"], match["toAct"], match["turn"]) == ("TO_ANSWER", "BLACK", "WHITE")
    assert match["offer"] == {"by": "WHITE", "stake": None}
    assert match["cube"] == {"value": 1, "owner": None}
    match = await does(bob, "accept", match_id)
    assert match["cube"] == {"value": 2, "owner": "BLACK"}
    assert (match["phase"], match["toAct"], match["offer"]) == ("ON_ROLL", "WHITE", None)
    assert await refused(ann, "double", match_id) == "CUBE_NOT_YOURS"


async def test_after_a_take_the_table_rolls_for_the_doubler(guest: Guest) -> None:
    """The taker owns the cube, so the doubler cannot double again."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, sandbox(xgid("0:0:1:00:0:0:0:5:6"), "64"))
    await does(ann, "double", match_id)
    answer = await bob.happens("accept", f'matchId: "{match_id}"')
    assert [event["kind"] for event in answer["events"]] == ["accepted", "rolled"]
    assert (answer["match"]["phase"], answer["match"]["toAct"]) == ("TO_PLAY", "WHITE")
    assert answer["match"]["dice"] == [6, 4]


@pytest.mark.parametrize(
    ("state", "points"),
    [
        pytest.param("0:0:1:00:0:0:0:9:6", 1, id="a drop of the first double"),
        pytest.param("1:1:1:00:0:0:0:9:6", 2, id="a drop at 4"),
        pytest.param("2:1:1:00:0:0:0:9:6", 4, id="a drop at 8"),
    ],
)
async def test_a_refused_double_loses_the_value_before_it(guest: Guest, state: str, points: int) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await on_roll(ann, bob, state)
    await does(ann, "double", match_id)
    answer = await bob.happens("refuse", f'matchId: "{match_id}"')
    assert [event["kind"] for event in answer["events"]][:2] == ["refused", "rolled"]
    assert await results(ann, match_id) == [("WHITE", points, "SINGLE", points, "DROP")]
    assert await scores(ann, match_id) == (points, 0)
    assert (await ann.match(match_id))["cube"] == {"value": 1, "owner": None}


async def test_the_cube_goes_back_and_forth_up_to_its_limit(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    settings = sandbox(dice="31 31 31 31 31 31", more="cubeLimit: 8")
    match_id = await seated(ann, bob, settings, BY_HAND, BY_HAND)
    play = 'play: {notation: "24/23 13/10"}'
    await does(ann, "move", match_id, play)
    for doubler, taker, value, owner in ((bob, ann, 2, "WHITE"), (ann, bob, 4, "BLACK"), (bob, ann, 8, "WHITE")):
        await does(doubler, "double", match_id)
        assert (await does(taker, "accept", match_id))["cube"] == {"value": value, "owner": owner}
        await does(doubler, "roll", match_id)
        chosen = (await doubler.match(match_id, "legalPlays { moves }"))["legalPlays"][0]["moves"]
        await does(doubler, "move", match_id, f"play: {{moves: {chosen}}}")
    assert await refused(ann, "double", match_id) == "CUBE_AT_LIMIT"


async def test_a_dead_cube_may_be_turned(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await on_roll(ann, bob, "0:0:1:00:4:0:0:5:6")
    await does(ann, "double", match_id)
    assert (await does(bob, "accept", match_id))["cube"] == {"value": 2, "owner": "BLACK"}


LAST_CHECKER = "3:1"


@pytest.mark.parametrize(
    ("cube", "black", "stake", "points", "score"),
    [
        pytest.param("0:0", "13:14", "SINGLE", 1, 1, id="a single"),
        pytest.param("0:0", "13:15", "GAMMON", 2, 2, id="a gammon"),
        pytest.param("0:0", "13:14 24:1", "BACKGAMMON", 3, 3, id="a backgammon from the winner's home"),
        pytest.param("0:0", "13:14 25:1", "BACKGAMMON", 3, 3, id="a backgammon from the bar"),
        pytest.param("0:0", "13:14 19:1", "BACKGAMMON", 3, 3, id="a backgammon from the home's far end"),
        pytest.param("0:0", "13:14 18:1", "GAMMON", 2, 2, id="no backgammon from outside the home"),
        pytest.param("0:0", "13:13 24:1", "SINGLE", 1, 1, id="a single with one off and one far back"),
        pytest.param("1:1", "13:15", "GAMMON", 4, 4, id="a gammon on a 2-cube"),
        pytest.param("2:1", "13:15", "GAMMON", 8, 7, id="a gammon on a 4-cube is 8 points"),
        pytest.param("3:-1", "13:14 24:1", "BACKGAMMON", 24, 7, id="a backgammon on an 8-cube"),
    ],
)
async def test_a_win_counts_its_stake_times_the_cube(
    guest: Guest, cube: str, black: str, stake: str, points: int, score: int
) -> None:
    """The score never shows more than the length; the result keeps the points won."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, sandbox(xgid(f"{cube}:1:66:0:0:0:7:6", LAST_CHECKER, black)))
    match = await does(ann, "move", match_id, 'play: {notation: "3/off"}')
    assert await results(ann, match_id) == [("WHITE", points, stake, 1 << int(cube[0]), "BEAR_OFF")]
    assert (match["white"]["score"], match["white"]["away"]) == (score, 7 - score)
    assert (match["phase"] == "OVER") == (score == 7)
    assert match["winner"] == ("WHITE" if score == 7 else None)


@pytest.mark.parametrize(
    ("state", "black", "points", "stake"),
    [
        pytest.param("0:0:1:66:0:0:1:0:6", "13:15", 1, "SINGLE", id="a gammon with the cube untouched"),
        pytest.param("0:0:1:66:0:0:1:0:6", "13:14 24:1", 1, "SINGLE", id="a backgammon with the cube untouched"),
        pytest.param("1:1:1:66:0:0:1:0:6", "13:15", 4, "GAMMON", id="a gammon with the cube turned"),
        pytest.param("1:-1:1:66:0:0:1:0:6", "13:14 24:1", 6, "BACKGAMMON", id="a backgammon with the cube turned"),
        pytest.param("0:0:1:66:0:0:0:0:6", "13:15", 2, "GAMMON", id="a gammon without Jacoby"),
    ],
)
async def test_by_jacoby_gammons_count_once_the_cube_was_turned(
    guest: Guest, state: str, black: str, points: int, stake: str
) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, sandbox(xgid(state, LAST_CHECKER, black)))
    match = await does(ann, "move", match_id, 'play: {notation: "3/off"}')
    assert [(won, kept) for _, won, kept, _, _ in await results(ann, match_id)] == [(points, stake)]
    assert (match["phase"], match["winner"]) == ("OVER", "WHITE")
    assert await scores(ann, match_id) == (points, 0)
    assert match["white"]["away"] is None


# Crawford


async def lose(loser: Client, winner: Client, match_id: str, stake: str = "SINGLE") -> dict[str, Any]:
    """One game resigned at a stake; the match then."""
    match = await does(loser, "resign", match_id, f"stake: {stake}")
    return match if match["phase"] != "TO_ANSWER" else await does(winner, "accept", match_id)


async def test_the_crawford_game_is_the_one_after_a_side_first_stands_one_away(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, "{length: 3}", BY_HAND, BY_HAND)
    assert (await ann.match(match_id))["crawford"] == "AHEAD"
    assert (await lose(bob, ann, match_id))["crawford"] == "AHEAD"
    match = await lose(bob, ann, match_id)
    assert (match["crawford"], match["white"]["away"]) == ("NOW", 1)
    assert ":1:3:6" in match["xgid"]
    mover = ann if match["toAct"] == "WHITE" else bob
    waiting = bob if mover is ann else ann
    play = (await mover.match(match_id, "legalPlays { moves }"))["legalPlays"][0]["moves"]
    await does(mover, "move", match_id, f"play: {{moves: {play}}}")
    assert await refused(waiting, "double", match_id) == "CRAWFORD_GAME"
    assert (await waiting.match(match_id))["allowedActions"] == ["ROLL", "RESIGN"]
    match = await lose(ann, bob, match_id)
    assert (match["crawford"], match["game"]) == ("PAST", 4)
    match = await lose(ann, bob, match_id)
    assert (match["crawford"], match["black"]["away"]) == ("PAST", 1), "there is one Crawford game a match"


@pytest.mark.parametrize(
    "settings", ["length: 2, crawford: false", "length: 1", "length: null"], ids=["off", "one point", "money"]
)
async def test_without_crawford_there_is_no_such_game(guest: Guest, settings: str) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, f"{{{settings}}}")
    assert (await ann.match(match_id))["crawford"] == "PAST"
    assert (await lose(bob, ann, match_id))["crawford"] == "PAST"


# resigning

RESIGNATIONS = {
    # state, white, black, white resigns, points if accepted or None: at once, points at once
    "a single": ("0:0:{turn}:{dice}:0:0:0:7:6", START, START, "SINGLE", 1, False),
    "a gammon": ("0:0:{turn}:{dice}:0:0:0:7:6", START, START, "GAMMON", 2, False),
    "a backgammon is all": ("0:0:{turn}:{dice}:0:0:0:7:6", START, START, "BACKGAMMON", 3, True),
    "a single on a 4-cube": ("2:1:{turn}:{dice}:0:0:0:9:6", START, START, "SINGLE", 4, False),
    "a gammon on a 2-cube": ("1:-1:{turn}:{dice}:0:0:0:9:6", START, START, "GAMMON", 4, False),
    "a single with one off is all": ("0:0:{turn}:{dice}:0:0:0:7:6", "6:5 5:9", "13:15", "SINGLE", 1, True),
    "a gammon after the sides have passed is all": ("0:0:{turn}:{dice}:0:0:0:7:6", "6:15", "6:15", "GAMMON", 2, True),
    "a single after they have passed is not": ("0:0:{turn}:{dice}:0:0:0:7:6", "6:15", "6:15", "SINGLE", 1, False),
    "a single by Jacoby is all": ("0:0:{turn}:{dice}:0:0:1:0:6", START, START, "SINGLE", 1, True),
    "a single by Jacoby on a turned cube is not": ("1:1:{turn}:{dice}:0:0:1:0:6", START, START, "SINGLE", 2, False),
    "a single that wins the match is all": ("0:0:{turn}:{dice}:0:6:0:7:6", START, START, "SINGLE", 1, True),
    "a gammon that wins the match is all": ("0:0:{turn}:{dice}:0:5:0:7:6", START, START, "GAMMON", 2, True),
    "a single that does not win the match": ("0:0:{turn}:{dice}:0:5:0:7:6", START, START, "SINGLE", 1, False),
}
MOMENTS = {
    "on the own turn before the roll": ("1", "00"),
    "on the own turn after the roll": ("1", "31"),
    "on the opponent's turn before the roll": ("-1", "00"),
    "on the opponent's turn after the roll": ("-1", "31"),
}


@pytest.mark.parametrize(
    ("state", "white", "black", "stake", "points", "at_once"), RESIGNATIONS.values(), ids=RESIGNATIONS.keys()
)
async def test_white_offers_to_lose_and_what_concedes_all_needs_no_answer(
    guest: Guest, state: str, white: str, black: str, stake: str, points: int, at_once: bool
) -> None:
    """On either side's turn, before the roll and after it."""
    ann, bob = await guest("Ann"), await guest("Bob")
    for moment, (turn, dice) in MOMENTS.items():
        match_id = await on_roll(ann, bob, state.format(turn=turn, dice=dice), board=(white, black))
        before = await ann.match(match_id)
        match = await does(ann, "resign", match_id, f"stake: {stake}")
        if not at_once:
            assert (match["phase"], match["toAct"]) == ("TO_ANSWER", "BLACK"), moment
            assert match["offer"] == {"by": "WHITE", "stake": stake}, moment
            assert [match[name] for name in ("turn", "dice", "cube")] == [
                before[name] for name in ("turn", "dice", "cube")
            ]
            await does(bob, "accept", match_id)
        found = await results(ann, match_id)
        assert [(winner, won, end) for winner, won, _, _, end in found] == [("BLACK", points, "RESIGNATION")], moment
        assert (await scores(ann, match_id))[1] == before["black"]["score"] + points, moment


async def test_after_a_refused_resignation_play_goes_on_where_it_stood(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    for turn, dice in MOMENTS.values():
        match_id = await on_roll(ann, bob, f"0:0:{turn}:{dice}:0:0:0:7:6")
        before = await ann.match(match_id)
        await does(ann, "resign", match_id, "stake: SINGLE")
        assert await refused(ann, "roll", match_id) in ("NOT_YOUR_TURN", "ANSWER_FIRST")
        await does(bob, "refuse", match_id)
        after = await ann.match(match_id)
        assert after["version"] == before["version"] + 2
        assert {**after, "version": 0, "hash": ""} == {**before, "version": 0, "hash": ""}


async def test_a_refused_stake_is_not_offered_again_before_the_position_has_changed(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    settings = sandbox(xgid("0:0:1:00:0:0:0:7:6"), "31 42")
    match_id = await seated(ann, bob, settings, BY_HAND, BY_HAND)
    await does(ann, "resign", match_id, "stake: SINGLE")
    await does(bob, "refuse", match_id)
    assert await refused(ann, "resign", match_id, "stake: SINGLE") == "STAKE_REFUSED_BEFORE"
    await does(ann, "roll", match_id)
    assert await refused(ann, "resign", match_id, "stake: SINGLE") == "STAKE_REFUSED_BEFORE", "dice move no checker"
    await does(ann, "resign", match_id, "stake: GAMMON")
    await does(bob, "refuse", match_id)
    assert await refused(ann, "resign", match_id, "stake: GAMMON") == "STAKE_REFUSED_BEFORE"
    await does(bob, "resign", match_id, "stake: SINGLE")
    await does(ann, "refuse", match_id)
    await does(ann, "move", match_id, 'play: {notation: "8/5 6/5"}')
    assert (await does(ann, "resign", match_id, "stake: SINGLE"))["phase"] == "TO_ANSWER"


@pytest.mark.parametrize(
    ("state", "points", "score"),
    [
        pytest.param("0:0:{turn}:{dice}:2:3:0:7:6", 4, (2, 7), id="all that the winner needs"),
        pytest.param("1:1:{turn}:{dice}:0:0:0:0:6", 6, (0, 6), id="a money game at its most"),
        pytest.param("0:0:{turn}:{dice}:0:0:1:0:6", 1, (0, 1), id="a money game by Jacoby"),
    ],
)
async def test_giving_up_the_match_ends_it_at_once(
    guest: Guest, state: str, points: int, score: tuple[int, int]
) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    for turn, dice in MOMENTS.values():
        match_id = await on_roll(ann, bob, state.format(turn=turn, dice=dice))
        match = await does(ann, "resign", match_id, "stake: MATCH")
        assert (match["phase"], match["winner"], match["toAct"]) == ("OVER", "BLACK", None)
        assert match["allowedActions"] == ["REMATCH"]
        assert [result[:3] for result in await results(ann, match_id)] == [("BLACK", points, "MATCH")]
        assert await scores(ann, match_id) == score


async def test_a_finished_match_takes_no_command_but_a_rematch(guest: Guest) -> None:
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await seated(ann, bob, "{length: 1}")
    await does(ann, "resign", match_id, "stake: MATCH")
    for player in (ann, bob):
        for verb, arguments in (*PLAYING, ("resign", "stake: SINGLE")):
            assert await refused(player, verb, match_id, arguments) == "MATCH_OVER", verb
    assert await refused(cleo, "joinMatch", match_id) in ("SEATS_TAKEN", "MATCH_OVER")


# rematches

REMATCH = "rematch { proposedBy match { id phase rematchOf white { player { id } } black { player { id } } } }"


async def finished(ann: Client, bob: Client, settings: str = "{length: 1}") -> str:
    """A match that white, Ann, has given up."""
    match_id = await seated(ann, bob, settings)
    await does(ann, "resign", match_id, "stake: MATCH")
    return match_id


async def test_a_rematch_is_proposed_and_starts_when_the_other_accepts(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    settings = "settings { length crawford cubeLimit jacoby automaticDoubles visibility }"
    match_id = await finished(ann, bob, "{length: 5, crawford: false, cubeLimit: 8, visibility: UNLISTED}")
    assert (await ann.match(match_id, REMATCH))["rematch"] is None
    for _ in range(2):
        answer = await ann.happens("rematch", f'matchId: "{match_id}"')
        assert (answer["match"]["id"], answer["events"]) == (match_id, []), "proposing twice is proposing once"
        assert (await bob.match(match_id, REMATCH))["rematch"] == {"proposedBy": "WHITE", "match": None}
    log = await ann.log(match_id)

    answer = await bob.happens("rematch", f'matchId: "{match_id}"')
    new = answer["match"]["id"]
    assert new != match_id
    assert [event["kind"] for event in answer["events"]][:4] == ["created", "joined", "joined", "rolled"]
    assert answer["match"]["white"]["player"]["id"] == bob.player_id
    assert answer["match"]["black"]["player"]["id"] == ann.player_id
    assert answer["match"]["phase"] == "TO_PLAY"
    assert await ann.match(new, settings) == await ann.match(match_id, settings)
    assert await ann.match(new, "rematchOf") == {"rematchOf": match_id}
    seen = (await ann.match(match_id, REMATCH))["rematch"]
    assert (seen["proposedBy"], seen["match"]["id"], seen["match"]["rematchOf"]) == ("WHITE", new, match_id)
    for player in (ann, bob):
        assert (await does(player, "rematch", match_id))["id"] == new, "asking again leads to the same match"
    assert await ann.log(match_id) == log, "the finished match has not changed"


async def test_two_who_propose_at_once_get_one_new_match(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    for _ in range(8):
        match_id = await finished(ann, bob)
        command = f'matchId: "{match_id}"'
        await asyncio.gather(*(player.happens("rematch", command) for player in (ann, bob, ann, bob)))
        new = (await ann.match(match_id, REMATCH))["rematch"]["match"]
        assert new["white"]["player"]["id"] == bob.player_id
        assert [event["kind"] for event in await ann.log(new["id"])].count("created") == 1
        query = "query($p: ID!) { matches(first: 100, filter: {player: $p}) { edges { node { id rematchOf } } } }"
        found = [edge["node"] for edge in (await ann.ask(query, p=ann.player_id))["matches"]["edges"]]
        assert [one["id"] for one in found if one["rematchOf"] == match_id] == [new["id"]]


async def test_a_rematch_can_be_followed_by_another(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await finished(ann, bob)
    seen = {match_id}
    for _ in range(2):
        await does(bob, "rematch", match_id)
        match_id = (await does(ann, "rematch", match_id))["id"]
        seen.add(match_id)
        await does(bob, "resign", match_id, "stake: MATCH")
    assert len(seen) == 3
    assert (await ann.match(match_id))["white"]["player"]["id"] == ann.player_id, "the colours are swapped each time"


async def test_a_rematch_comes_after_the_end_and_for_the_players_alone(guest: Guest, anonymous: Client) -> None:
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await seated(ann, bob, "{length: 3}")
    for player in (ann, bob):
        assert (await player.command("rematch", f'matchId: "{match_id}"'))["code"] == "MATCH_NOT_OVER"
    await does(ann, "resign", match_id, "stake: MATCH")
    assert (await cleo.command("rematch", f'matchId: "{match_id}"'))["code"] == "NOT_SEATED"
    answer = await anonymous.post(f'mutation {{ rematch(matchId: "{match_id}") {{ __typename }} }}')
    assert answer["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    assert (await ann.match(match_id, REMATCH))["rematch"] is None


async def test_a_rematch_keeps_who_rolls_by_hand(guest: Guest) -> None:
    """The wish goes with the player to its new colour."""
    ann, bob = await guest("Ann"), await guest("Bob")
    settings = sandbox(xgid("0:0:1:00:0:0:0:5:0"))
    match_id = await seated(ann, bob, settings, "autoRoll: false", "autoRoll: true")
    assert (await ann.match(match_id))["phase"] == "ON_ROLL"
    await does(ann, "resign", match_id, "stake: MATCH")
    await does(ann, "rematch", match_id)
    match = await does(bob, "rematch", match_id)
    assert match["white"]["player"]["id"] == bob.player_id
    assert (match["phase"], match["toAct"]) == ("TO_PLAY", "WHITE")


# start positions


@pytest.mark.parametrize(
    ("dice", "phase"),
    [
        pytest.param("00", "ON_ROLL", id="on roll"),
        pytest.param("31", "TO_PLAY", id="rolled"),
        pytest.param("D", "TO_ANSWER", id="doubled"),
    ],
)
async def test_a_sandbox_starts_in_the_phase_that_its_xgid_says(guest: Guest, dice: str, phase: str) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    for color, other, turn in (("WHITE", "BLACK", "1"), ("BLACK", "WHITE", "-1")):
        start = xgid(f"1:{turn}:{turn}:{dice}:2:3:0:7:10", "24:1 13:5 6:5", "23:2 13:3")
        match_id = await seated(ann, bob, sandbox(start))
        match = await ann.match(match_id, f"{STATE} settings {{ length cubeLimit sandbox {{ start dice }} }}")
        assert (match["phase"], match["turn"]) == (phase, color)
        assert match["toAct"] == (other if phase == "TO_ANSWER" else color)
        assert match["dice"] == ([3, 1] if phase == "TO_PLAY" else None)
        assert match["offer"] == ({"by": color, "stake": None} if phase == "TO_ANSWER" else None)
        assert match["cube"] == {"value": 2, "owner": color}
        assert (match["white"]["score"], match["black"]["score"]) == (2, 3)
        assert (match["white"]["pips"], match["black"]["pips"]) == (24 + 65 + 30, 46 + 39)
        assert (match["white"]["checkers"][0], match["black"]["checkers"][0]) == (4, 10)
        assert match["settings"] == {"length": 7, "cubeLimit": 1024, "sandbox": {"start": start, "dice": []}}
        assert match["xgid"] == start


async def test_a_start_is_written_with_or_without_its_xgid_prefix(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    start = xgid("0:0:1:31:0:0:0:5:6")
    match_id = await seated(ann, bob, sandbox(start.removeprefix("XGID=")))
    assert (await ann.match(match_id))["xgid"] == start


# settings

START_OF_FIVE = xgid()
WRONG_SETTINGS = {
    "length 0": ("{length: 0}", "INVALID_SETTINGS"),
    "length -1": ("{length: -1}", "INVALID_SETTINGS"),
    "length 100": ("{length: 100}", "INVALID_SETTINGS"),
    "length 2**31-1": (f"{{length: {2**31 - 1}}}", "INVALID_SETTINGS"),
    "cubeLimit 0": ("{length: 5, cubeLimit: 0}", "INVALID_SETTINGS"),
    "cubeLimit 3": ("{length: 5, cubeLimit: 3}", "INVALID_SETTINGS"),
    "cubeLimit -2": ("{length: 5, cubeLimit: -2}", "INVALID_SETTINGS"),
    "cubeLimit 2048": ("{length: 5, cubeLimit: 2048}", "INVALID_SETTINGS"),
    "Jacoby in a match": ("{length: 5, jacoby: true}", "INVALID_SETTINGS"),
    "automatic doubles in a match": ("{length: 5, automaticDoubles: 1}", "INVALID_SETTINGS"),
    "automatic doubles below 0": ("{automaticDoubles: -1}", "INVALID_SETTINGS"),
    "a die of 7": ("{sandbox: {dice: [[7, 1]]}}", "INVALID_SETTINGS"),
    "a die of 0": ("{sandbox: {dice: [[3, 1], [0, 1]]}}", "INVALID_SETTINGS"),
    "a die below 0": ("{sandbox: {dice: [[-1, 1]]}}", "INVALID_SETTINGS"),
    "another length than the start": (f'{{length: 7, sandbox: {{start: "{START_OF_FIVE}"}}}}', "INVALID_SETTINGS"),
    "another limit than the start": (f'{{cubeLimit: 2, sandbox: {{start: "{START_OF_FIVE}"}}}}', "INVALID_SETTINGS"),
    "Jacoby and a start of a match": (f'{{jacoby: true, sandbox: {{start: "{START_OF_FIVE}"}}}}', "INVALID_SETTINGS"),
}
CLOSED = "25:1 6:2 5:2 4:2 3:2 2:2 1:2"
WRONG_STARTS = {
    "no XGID": "nonsense",
    "an empty text": "",
    "half a GNU id": "4HPwATDgc/ABMA",
    "more than an XGID": f"{START_OF_FIVE}:0",
    "sixteen checkers": xgid(white="6:15 5:1"),
    "a side that has borne off all": xgid(white=""),
    "a match that is over": xgid("0:0:1:00:5:0:0:5:6"),
    "a score beyond the length": xgid("0:0:1:00:0:9:0:5:6"),
    "Crawford at 0-0": xgid("0:0:1:00:0:0:1:5:6"),
    "a double in the Crawford game": xgid("0:0:1:D:4:0:1:5:6"),
    "a double with the other's cube": xgid("1:-1:1:D:0:0:0:5:6"),
    "a double at the limit": xgid("6:1:1:D:0:0:0:0:6"),
    "a cube beyond the limit": xgid("7:1:1:00:0:0:0:0:6"),
    "both shut out for ever": xgid(white=CLOSED, black=CLOSED),
}
WRONG_SETTINGS |= {
    f"start: {name}": (f'{{sandbox: {{start: "{start}"}}}}', "INVALID_POSITION") for name, start in WRONG_STARTS.items()
}


@pytest.mark.parametrize(("settings", "code"), WRONG_SETTINGS.values(), ids=WRONG_SETTINGS.keys())
async def test_settings_that_cannot_be_played_are_refused(guest: Guest, settings: str, code: str) -> None:
    ann = await guest("Ann")
    answer = await ann.command("createMatch", f"settings: {settings}")
    assert (answer["__typename"], answer["code"]) == ("Refusal", code)
    assert answer["message"]
    found = await ann.ask("query($p: ID!) { matches(filter: {player: $p}) { edges { cursor } } }", p=ann.player_id)
    assert found["matches"]["edges"] == []


async def test_a_refusal_of_settings_names_all_that_is_wrong(guest: Guest) -> None:
    answer = await (await guest("Ann")).command("createMatch", "settings: {length: 100, cubeLimit: 3, jacoby: true}")
    for name in ("length", "cubeLimit", "jacoby"):
        assert name in answer["message"]


@pytest.mark.parametrize(
    ("settings", "agreed"),
    [
        pytest.param("length: 5", [5, True, 64, False, 0, "PUBLIC", None], id="as usual"),
        pytest.param("", [None, False, 64, False, 0, "PUBLIC", None], id="a money game"),
        pytest.param("length: 99, cubeLimit: 1024", [99, True, 1024, False, 0, "PUBLIC", None], id="the longest"),
        pytest.param(
            "length: 1, cubeLimit: 1, crawford: false, visibility: UNLISTED",
            [1, False, 1, False, 0, "UNLISTED", None],
            id="the shortest",
        ),
        pytest.param(
            "jacoby: true, automaticDoubles: 2, visibility: UNLISTED",
            [None, False, 64, True, 2, "UNLISTED", None],
            id="a money game with everything",
        ),
    ],
)
async def test_settings_are_kept_as_agreed(guest: Guest, settings: str, agreed: list[Any]) -> None:
    ann = await guest("Ann")
    match_id = await ann.create(f"{{{settings}}}")
    fields = "settings { length crawford cubeLimit jacoby automaticDoubles visibility sandbox { start } }"
    assert list((await ann.match(match_id, fields))["settings"].values()) == agreed


# who sees a match


async def listed(client: Client, match_id: str, player_id: str | None) -> bool:
    """Whether a caller finds a match in the list of a player's matches."""
    query = "query($p: ID!) { matches(first: 100, filter: {player: $p}) { edges { node { id } } } }"
    edges = (await client.ask(query, p=player_id))["matches"]["edges"]
    return match_id in [edge["node"]["id"] for edge in edges]


async def test_a_private_match_is_seen_by_its_players_alone(guest: Guest, anonymous: Client) -> None:
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await seated(ann, bob, "{length: 1, visibility: PRIVATE}")
    for player in (ann, bob):
        assert (await player.match(match_id, "id")) == {"id": match_id}
        assert await listed(player, match_id, ann.player_id)
        assert len(await player.log(match_id)) >= 4
    for stranger in (cleo, anonymous):
        for version in (None, 1, 4, 99):
            assert await stranger.match(match_id, version=version) is None
        assert not await listed(stranger, match_id, ann.player_id)
        assert not await listed(stranger, match_id, bob.player_id)
    for verb, arguments in (*PLAYING, ("rematch", "")):
        answer = await cleo.command(verb, f'matchId: "{match_id}" {arguments}')
        unknown = await cleo.command(verb, f'matchId: "{match_id[::-1]}" {arguments}')
        assert (answer["code"], answer["current"]) == ("MATCH_NOT_FOUND", None), verb
        assert answer["message"] == unknown["message"].replace(match_id[::-1], match_id), "as if there were none"


@pytest.mark.parametrize("version", [0, 1, 5, 2**31 - 1])
async def test_joining_tells_a_stranger_nothing_of_a_private_match(guest: Guest, version: int) -> None:
    """Promise 8: private matches are seen by their players alone, their progress included."""
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await seated(ann, bob, "{length: 1, visibility: PRIVATE}")
    told_at = []
    for _ in range(2):
        command = f'matchId: "{match_id}" expectedVersion: {version}'
        answer = await cleo.command("joinMatch", command)
        assert answer["__typename"] == "Refusal"
        told_at.append((answer["code"], answer["message"]))
        if len(told_at) == 1:
            await does(ann, "resign", match_id, "stake: MATCH")
    assert told_at[0] == told_at[1], "what a stranger is told depends on how far the match has come"


async def test_an_unlisted_match_is_seen_by_id_and_in_no_list_but_its_players(guest: Guest, anonymous: Client) -> None:
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await seated(ann, bob, "{length: 1, visibility: UNLISTED}")
    for caller in (ann, bob, cleo, anonymous):
        assert (await caller.match(match_id, "id")) == {"id": match_id}
        assert len(await caller.log(match_id)) >= 4
        assert await listed(caller, match_id, ann.player_id) == (caller in (ann, bob))


async def test_a_rematch_of_a_private_match_is_private_too(guest: Guest) -> None:
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    match_id = await finished(ann, bob, "{length: 1, visibility: PRIVATE}")
    await does(ann, "rematch", match_id)
    new = (await does(bob, "rematch", match_id))["id"]
    assert await ann.match(new, "id") == {"id": new}
    assert await cleo.match(new) is None
    assert (await cleo.command("rematch", f'matchId: "{match_id}"'))["code"] == "MATCH_NOT_FOUND"


# telling


async def test_the_log_says_all_that_happened_in_players_words(guest: Guest) -> None:
    """One verb, one mutation, one event: a game with each of them."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await seated(ann, bob, sandbox(dice="31 64 52 66", more="length: 3"), BY_HAND, BY_HAND)
    await does(ann, "move", match_id, 'play: {notation: "8/5 6/5"}')
    await does(bob, "double", match_id)
    await does(ann, "accept", match_id)
    await does(bob, "roll", match_id)
    await does(bob, "move", match_id, 'play: {notation: "24/14"}')
    await does(bob, "resign", match_id, "stake: SINGLE")
    await does(ann, "refuse", match_id)
    await does(bob, "resign", match_id, "stake: MATCH")
    log = await ann.log(match_id)
    assert [event["kind"] for event in log] == [
        "created", "joined", "joined", "rolled", "moved", "doubled", "accepted", "rolled", "moved",
        "resigned", "refused", "resigned",
    ]  # fmt: skip
    assert [event["__typename"].lower() for event in log] == [event["kind"] for event in log]
    assert [event["seq"] for event in log] == list(range(1, 13))
    assert [event["at"] for event in log] == sorted(event["at"] for event in log)
    fields = "events(first: 100) { edges { node { ... on Doubled { by } ... on Accepted { by } ... on Refused { by } "
    fields += "... on Resigned { by stake } ... on Created { color rules } } } }"
    said = [edge["node"] for edge in (await ann.match(match_id, fields))["events"]["edges"]]
    assert [json.dumps(one) for one in said if one] == [
        '{"color": "WHITE", "rules": 1}',
        '{"by": "BLACK"}',
        '{"by": "WHITE"}',
        '{"by": "BLACK", "stake": "SINGLE"}',
        '{"by": "WHITE"}',
        '{"by": "BLACK", "stake": "MATCH"}',
    ]
