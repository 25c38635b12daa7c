"""What can be asked: any version of a match, its log page by page, lists, boards, destinations, ids, the schema."""

import itertools
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from graphql import GraphQLNonNull, GraphQLObjectType, Undefined

from service.schema import schema
from tests.client import EVENT, STATE, Client, register
from tests.server import Server

Guest = Callable[[str], Awaitable[Client]]

SDL = Path(__file__).parents[2] / "openapi" / "schema.graphql"
START = "24:2 13:5 8:3 6:5"
BY_HAND = "autoRoll: false"


def xgid(state: str, white: str = START, black: str = START) -> str:
    """An XGID (cube, owner, turn, dice, scores, rules, length, limit); each side in its own numbering."""
    letters = ["-"] * 26
    for side, one in ((white, "A"), (black, "a")):
        for word in side.split():
            point, count = map(int, word.split(":"))
            letters[point if one == "A" else 25 - point] = chr(ord(one) + count - 1)
    return f"XGID={''.join(letters)}:{state}"


async def started(white: Client, black: Client, start: str) -> str:
    """A match from a position, where nobody wants the table to roll."""
    match_id = await white.create(f'{{sandbox: {{start: "{start}"}}}}', f", {BY_HAND}")
    await black.happens("joinMatch", f'matchId: "{match_id}" {BY_HAND}')
    return match_id


async def error(client: Client, query: str, variables: dict[str, Any] | None = None) -> str:
    """The code of the one error that a query is answered with."""
    answer = await client.post(query, variables)
    [found] = answer["errors"]
    assert found["message"]
    code: str = found["extensions"]["code"]
    return code


# versions


async def played(white: Client, black: Client) -> tuple[str, list[dict[str, Any]]]:
    """A match with every kind of event, and what its players saw in turn: the match after each command."""
    dice = "dice: [[3, 3], [3, 1], [6, 4], [5, 2]]"
    answers = [await white.happens("createMatch", f"settings: {{length: 2, sandbox: {{{dice}}}}}, {BY_HAND}")]
    match_id = answers[0]["match"]["id"]
    for player, verb, arguments in (
        (black, "joinMatch", BY_HAND),
        (white, "move", 'play: {notation: "8/5 6/5"}'),
        (black, "resign", "stake: SINGLE"),
        (white, "refuse", ""),
        (black, "double", ""),
        (white, "accept", ""),
        (black, "roll", ""),
        (black, "move", 'play: {notation: "24/14"}'),
        (white, "roll", ""),
        (white, "resign", "stake: MATCH"),
    ):
        answers.append(await player.happens(verb, f'matchId: "{match_id}" {arguments}'))
    return match_id, answers


async def test_every_version_can_be_looked_at_again(guest: Guest, anonymous: Client) -> None:
    """DESIGN.md promise 1: what was seen at a version is what time travel to it gives."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, answers = await played(ann, bob)
    log = await anonymous.log(match_id)
    versions = [await anonymous.match(match_id, version=version) for version in range(1, len(log) + 1)]
    assert [match["version"] for match in versions] == [event["seq"] for event in log]
    assert [match["hash"] for match in versions] == [event["hash"] for event in log]
    assert [match["phase"] for match in versions] == [
        "WAITING", "WAITING", "OPENING", "OPENING", "TO_PLAY", "ON_ROLL", "TO_ANSWER", "ON_ROLL", "TO_ANSWER",
        "ON_ROLL", "TO_PLAY", "ON_ROLL", "TO_PLAY", "OVER",
    ]  # fmt: skip
    assert [match["toAct"] for match in versions] == [
        None, None, None, None, "WHITE", "BLACK", "WHITE", "BLACK", "WHITE", "BLACK", "BLACK", "WHITE", "WHITE", None,
    ]  # fmt: skip
    assert [match["cube"]["value"] for match in versions] == [1] * 9 + [2] * 5
    assert versions[0]["white"]["player"] is None
    assert versions[1]["white"]["player"]["id"] == ann.player_id
    mine = ("viewerColor", "allowedActions")
    for answer in answers:
        seen = {name: answer["match"][name] for name in answer["match"] if name not in (*mine, "legalPlays")}
        past = versions[seen["version"] - 1]
        assert seen == {name: past[name] for name in past if name not in mine}


async def test_the_viewer_keeps_its_seat_in_the_past(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, _ = await played(ann, bob)
    for version in (5, 6, 14):
        assert (await ann.match(match_id, "viewerColor", version=version)) == {"viewerColor": "WHITE"}
        assert (await bob.match(match_id, "viewerColor", version=version)) == {"viewerColor": "BLACK"}
    assert (await ann.match(match_id, "allowedActions", version=5))["allowedActions"] == ["MOVE", "RESIGN"]
    assert (await bob.match(match_id, "viewerColor", version=1)) == {"viewerColor": None}, "nobody has joined yet"


async def test_a_version_has_the_log_up_to_it(guest: Guest, anonymous: Client) -> None:
    match_id, _ = await played(await guest("Ann"), await guest("Bob"))
    log = await anonymous.log(match_id)
    fields = f"events(first: 100) {{ edges {{ node {{ {EVENT} }} }} pageInfo {{ hasNextPage }} }} updatedAt"
    for version in range(1, len(log) + 1):
        found = await anonymous.match(match_id, fields, version=version)
        assert [edge["node"] for edge in found["events"]["edges"]] == log[:version]
        assert not found["events"]["pageInfo"]["hasNextPage"]
        assert found["updatedAt"] == log[version - 1]["at"]


async def test_a_match_was_created_when_its_first_event_says(guest: Guest, anonymous: Client) -> None:
    match_id, _ = await played(await guest("Ann"), await guest("Bob"))
    log = await anonymous.log(match_id)
    for version in range(1, len(log) + 1):
        assert (await anonymous.match(match_id, "createdAt", version=version)) == {"createdAt": log[0]["at"]}


@pytest.mark.parametrize("beyond", [0, 1, 1000])
async def test_versions_that_are_not_there_are_refused(guest: Guest, anonymous: Client, beyond: int) -> None:
    match_id, answers = await played(await guest("Ann"), await guest("Bob"))
    head = answers[-1]["match"]["version"]
    query = "query($id: ID!, $v: Int) { match(id: $id, version: $v) { version } }"
    for version in (-beyond, head + 1 + beyond, 2**31 - 1, -(2**31)):
        assert await error(anonymous, query, {"id": match_id, "v": version}) == "BAD_INPUT"
    assert (await anonymous.ask(query, id=match_id, v=head))["match"]["version"] == head
    assert (await anonymous.ask(query, id=match_id, v=None))["match"]["version"] == head
    assert (await anonymous.ask(query, id="nosuchmatch", v=-beyond))["match"] is None


# the log, page by page


async def pages(client: Client, match_id: str, first: int | None) -> list[dict[str, Any]]:
    """The pages of a log, each continued behind the last one's end."""
    found: list[dict[str, Any]] = []
    after = None
    while True:
        given = ", ".join([f"first: {first}"] * (first is not None) + [f'after: "{after}"'] * (after is not None))
        fields = f"events({given})" if given else "events"
        fields += f" {{ edges {{ cursor node {{ {EVENT} }} }} "
        fields += "pageInfo { hasNextPage hasPreviousPage startCursor endCursor } }"
        page = (await client.match(match_id, fields))["events"]
        found.append(page)
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]


async def long_match(ann: Client, bob: Client) -> str:
    """A match whose log has 24 events: games given up one after the other."""
    match_id = await ann.create(
        "{length: 99, sandbox: {dice: [[3, 1], [3, 1], [3, 1], [3, 1], [3, 1], [3, 1], [3, 1]]}}"
    )
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    for _ in range(6):
        await ann.happens("resign", f'matchId: "{match_id}" stake: SINGLE')
        await bob.happens("accept", f'matchId: "{match_id}"')
    await ann.happens("move", f'matchId: "{match_id}" play: {{notation: "8/5 6/5"}}')
    await bob.happens("double", f'matchId: "{match_id}"')
    return match_id


async def test_pages_of_any_length_give_the_same_log(guest: Guest, anonymous: Client) -> None:
    match_id = await long_match(await guest("Ann"), await guest("Bob"))
    logs = []
    for first, lengths in ((1, [1] * 24), (7, [7, 7, 7, 3]), (24, [24]), (100, [24]), (None, [20, 4]), (12, [12, 12])):
        found = await pages(anonymous, match_id, first)
        assert [len(page["edges"]) for page in found] == lengths
        edges = [edge for page in found for edge in page["edges"]]
        assert [edge["cursor"] for edge in edges] == [str(edge["node"]["seq"]) for edge in edges]
        logs.append([edge["node"] for edge in edges])
        for number, page in enumerate(found):
            info = page["pageInfo"]
            assert info["hasPreviousPage"] == (number > 0)
            assert (info["startCursor"], info["endCursor"]) == (page["edges"][0]["cursor"], page["edges"][-1]["cursor"])
    assert [event["seq"] for event in logs[0]] == list(range(1, 25))
    assert all(log == logs[0] for log in logs)


async def test_a_log_goes_on_behind_any_event(guest: Guest, anonymous: Client) -> None:
    match_id = await long_match(await guest("Ann"), await guest("Bob"))
    for after in range(26):
        fields = f'events(first: 100, after: "{after}") {{ edges {{ node {{ seq }} }} pageInfo {{ hasNextPage }} }}'
        found = (await anonymous.match(match_id, fields))["events"]
        assert [edge["node"]["seq"] for edge in found["edges"]] == list(range(after + 1, 25))
        assert not found["pageInfo"]["hasNextPage"]


@pytest.mark.parametrize(
    "after",
    ["", " ", "x", "-1", "1.5", "1e3", "0x1", "²", "\u0661", "99999999999999999999", "1 ", "null", "\x00", "9" * 5000],
)
async def test_what_is_no_cursor_of_an_event_is_refused(guest: Guest, anonymous: Client, after: str) -> None:
    match_id = await (await guest("Ann")).create("{length: 1}")
    query = "query($id: ID!, $after: String) { match(id: $id) { events(after: $after) { edges { cursor } } } }"
    assert await error(anonymous, query, {"id": match_id, "after": after}) == "BAD_INPUT"


@pytest.mark.parametrize("first", [0, -1, 101, 2**31 - 1, -(2**31)])
async def test_a_page_has_1_to_100_items(guest: Guest, anonymous: Client, first: int) -> None:
    match_id = await (await guest("Ann")).create("{length: 1}")
    query = "query($id: ID!, $n: Int) { match(id: $id) { events(first: $n) { edges { cursor } } } }"
    assert await error(anonymous, query, {"id": match_id, "n": first}) == "BAD_INPUT"
    query = "query($n: Int) { matches(first: $n) { edges { cursor } } }"
    assert await error(anonymous, query, {"n": first}) == "BAD_INPUT"


# lists

LIST = """query($filter: MatchFilter, $first: Int, $after: String) {
matches(filter: $filter, first: $first, after: $after) {
edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }"""


async def listed(client: Client, **given: Any) -> list[str]:
    """The ids on one page."""
    return [edge["node"]["id"] for edge in (await client.ask(LIST, **given))["matches"]["edges"]]


async def test_pages_of_matches_stay_while_new_ones_come(guest: Guest, anonymous: Client) -> None:
    """Newest first; whoever turns the pages sees each match that was there once."""
    ann = await guest("Ann")
    made = [await ann.create("{length: 1}") for _ in range(10)]
    for given in ({"filter": {"player": ann.player_id}}, {}):
        seen: list[str] = []
        after = None
        new = []
        while len(seen) < 10:
            page = (await anonymous.ask(LIST, first=3, after=after, **given))["matches"]
            seen += [edge["node"]["id"] for edge in page["edges"]]
            info = page["pageInfo"]
            assert info["hasPreviousPage"] == (after is not None)
            assert (info["startCursor"], info["endCursor"]) == (page["edges"][0]["cursor"], page["edges"][-1]["cursor"])
            after = info["endCursor"]
            new.append(await ann.create("{length: 1}"))
        assert seen[:10] == made[::-1]
        made = [*made, *new][-10:]


async def test_playing_a_match_does_not_move_it_in_lists(guest: Guest, anonymous: Client) -> None:
    """Newest first is by creation, so that whoever turns the pages meets no match twice."""
    ann, bob = await guest("Ann"), await guest("Bob")
    made = [await ann.create("{length: 1}") for _ in range(4)]
    mine = {"player": ann.player_id}
    page = (await anonymous.ask(LIST, first=2, filter=mine))["matches"]
    await bob.happens("joinMatch", f'matchId: "{made[0]}"')
    await bob.happens("joinMatch", f'matchId: "{made[1]}"')
    await bob.happens("resign", f'matchId: "{made[1]}" stake: MATCH')
    rest = await listed(anonymous, first=2, filter=mine, after=page["pageInfo"]["endCursor"])
    assert [edge["node"]["id"] for edge in page["edges"]] + rest == made[::-1]
    assert await listed(anonymous, filter=mine) == made[::-1]


async def test_the_last_page_says_that_it_is_the_last(guest: Guest, anonymous: Client) -> None:
    ann = await guest("Ann")
    for _ in range(4):
        await ann.create("{length: 1}")
    mine = {"player": ann.player_id}
    for first, more in ((1, True), (3, True), (4, False), (5, False), (100, False)):
        info = (await anonymous.ask(LIST, first=first, filter=mine))["matches"]["pageInfo"]
        assert info["hasNextPage"] == more
    nobody = (await anonymous.ask(LIST, filter={"player": "nobody"}))["matches"]
    assert nobody["edges"] == []
    assert nobody["pageInfo"] == {
        "hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None,
    }  # fmt: skip


async def test_lists_are_narrowed_by_status_and_player(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    waiting, playing, over = [await ann.create("{length: 1}") for _ in range(3)]
    other = await bob.create("{length: 1}")
    for match_id in (playing, over):
        await bob.happens("joinMatch", f'matchId: "{match_id}"')
    await ann.happens("resign", f'matchId: "{over}" stake: MATCH')
    for caller in (ann, bob, anonymous):
        for status, mine, his in (
            ("WAITING", [waiting], [other]),
            ("PLAYING", [playing], [playing]),
            ("FINISHED", [over], [over]),
            (None, [over, playing, waiting], [other, over, playing]),
        ):
            assert await listed(caller, filter={"status": status, "player": ann.player_id}) == mine
            assert await listed(caller, filter={"status": status, "player": bob.player_id}) == his
        newest = await listed(caller, filter={"status": "WAITING"}, first=2)
        assert newest == [other, waiting]
    assert await listed(anonymous, filter={}, first=4) == [other, over, playing, waiting]


async def test_a_damaged_log_does_not_hide_the_matches_beside_it(own_server: Server) -> None:
    ann = await register(own_server.url, "Ann")
    made = [await ann.create("{length: 1}") for _ in range(3)]
    with closing(sqlite3.connect(own_server.database)) as database, database:
        database.execute("UPDATE events SET event = '{}' WHERE match_id = ?", [made[1]])
    own_server.kill()
    own_server.start()
    assert await listed(ann, filter={"player": ann.player_id}) == [made[2], made[0]]
    assert await error(ann, f'{{ match(id: "{made[1]}") {{ id }} }}') == "UNAVAILABLE"
    await ann.close()


async def test_lists_hold_what_the_caller_may_find(guest: Guest, anonymous: Client) -> None:
    """Public matches for everybody, the caller's own whatever they are."""
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    public, unlisted = [
        await ann.create(f"{{length: 1, visibility: {visibility}}}") for visibility in ("PUBLIC", "UNLISTED")
    ]
    private = await ann.create("{length: 1, visibility: PRIVATE}", f', opponent: "{bob.player_id}"')
    mine = {"player": ann.player_id}
    assert await listed(ann, filter=mine) == [private, unlisted, public]
    assert await listed(bob, filter=mine) == [private, public], "who is invited finds it too"
    assert await listed(cleo, filter=mine) == await listed(anonymous, filter=mine) == [public]
    assert await listed(anonymous, first=1) == [public]


@pytest.mark.parametrize(
    "after", ["", "x", "~", "x~", "~x", "x~y", "2026-11-30~x", "null", "1", "\x00~\x00", "9" * 5000, "~" * 50]
)
async def test_what_is_no_cursor_of_a_match_is_refused(anonymous: Client, after: str) -> None:
    assert await error(anonymous, LIST, {"after": after}) == "BAD_INPUT"


async def test_a_cursor_of_another_list_or_of_a_hidden_match_tells_nothing(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    public = await ann.create("{length: 1}")
    await ann.create("{length: 1, visibility: PRIVATE}", f', opponent: "{bob.player_id}"')
    private = (await ann.ask(LIST, first=1))["matches"]["edges"][0]["cursor"]
    assert await listed(anonymous, after=private, first=1) == [public]


# the board

ODD = ("24:1 20:2 13:4 8:3 6:3", "25:1 22:2 13:5 7:3 4:2")
"""White has two checkers off, black two, and one on the bar."""


async def test_the_board_is_seen_from_either_side(guest: Guest, anonymous: Client) -> None:
    """The own side by default, white's for everybody else; the other side's points are mirrored and negative."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, xgid("0:0:1:00:0:0:0:5:6", *ODD))
    fields = "perspective points bar off opponentBar opponentOff"
    white = {
        "perspective": "WHITE",
        "points": [0, 0, -2, 0, 0, 3, 0, 3, 0, 0, 0, -5, 4, 0, 0, 0, 0, -3, 0, 2, -2, 0, 0, 1],
        "bar": 0, "off": 2, "opponentBar": 1, "opponentOff": 2,
    }  # fmt: skip
    black = {
        "perspective": "BLACK",
        "points": [-1, 0, 0, 2, -2, 0, 3, 0, 0, 0, 0, -4, 5, 0, 0, 0, -3, 0, -3, 0, 0, 2, 0, 0],
        "bar": 1, "off": 2, "opponentBar": 0, "opponentOff": 2,
    }  # fmt: skip
    assert black["points"] == [-count for count in white["points"][::-1]]
    for caller, own in ((ann, white), (bob, black), (anonymous, white)):
        asked = f"board {{ {fields} }} white: board(perspective: WHITE) {{ {fields} }}"
        asked += f" black: board(perspective: BLACK) {{ {fields} }} null: board(perspective: null) {{ {fields} }}"
        found = await caller.match(match_id, asked)
        assert found == {"board": own, "white": white, "black": black, "null": own}


async def test_the_board_is_seen_from_the_own_side_in_the_past_too(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, xgid("0:0:1:00:0:0:0:5:6", *ODD))
    await ann.happens("roll", f'matchId: "{match_id}"')
    seen = await bob.match(match_id, "board { perspective bar }", version=3)
    assert seen == {"board": {"perspective": "BLACK", "bar": 1}}


async def test_pips_are_counted_with_25_for_the_bar(guest: Guest) -> None:
    match_id = await started(await guest("Ann"), await guest("Bob"), xgid("0:0:1:00:0:0:0:5:6", *ODD))
    assert await (await guest("Cleo")).match(match_id, "white { pips } black { pips }") == {
        "white": {"pips": 24 + 40 + 52 + 24 + 18},
        "black": {"pips": 25 + 44 + 65 + 21 + 8},
    }


# destinations

DESTINATIONS = "from to dice hit hits moves"


async def destinations(client: Client, match_id: str, given: str = "") -> list[list[Any]]:
    """Where checkers may go, as lists."""
    found = await client.match(match_id, f"destinations{given} {{ {DESTINATIONS} }}")
    return [list(one.values()) for one in found["destinations"]]


async def test_destinations_say_which_dice_they_use_and_where_they_hit(guest: Guest, anonymous: Client) -> None:
    """RULES.md section 1: with 53 a checker on 13 goes to 10, to 8, or with both to 5; the blot is on 8."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, xgid("0:0:1:53:0:0:0:5:6", "13:5 6:5", "17:1 13:5 6:5"))
    assert sorted(await destinations(anonymous, match_id, "(from: 13)")) == [
        [13, 5, "3+5", False, [], [[13, 10], [10, 5]]],
        [13, 5, "5+3", True, [8], [[13, 8], [8, 5]]],
        [13, 8, "5", True, [8], [[13, 8]]],
        [13, 10, "3", False, [], [[13, 10]]],
    ]
    assert await destinations(anonymous, match_id, "(from: 13, played: [[13, 8]])") == [
        [13, 10, "3", False, [], [[13, 10]]]
    ]
    assert await destinations(anonymous, match_id, "(from: 8, played: [[13, 8]])") == [[8, 5, "3", False, [], [[8, 5]]]]
    assert {one[0] for one in await destinations(anonymous, match_id, "(played: [[13, 8]])")} == {13, 8, 6}
    assert await destinations(anonymous, match_id, "(played: [[13, 8], [8, 5]])") == []
    assert await destinations(anonymous, match_id, "(played: [[13, 5]])") == []
    assert await destinations(anonymous, match_id, "(from: 24)") == []


async def test_a_play_put_together_from_destinations_is_legal_and_each_legal_play_can_be(guest: Guest) -> None:
    """A thin client that knows no rules: every tap leads to a whole legal play, and to every one of them."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, xgid("0:0:1:21:0:0:0:5:6", "13:1 6:1", "17:1 22:2 13:5"))
    legal = {
        json.dumps(sorted(play["moves"])) for play in (await ann.match(match_id, "legalPlays { moves }"))["legalPlays"]
    }
    reached: set[str] = set()
    tapped: list[list[list[int]]] = [[]]
    while tapped:
        played = tapped.pop()
        onward = await destinations(ann, match_id, f"(played: {played})")
        if not onward:
            reached.add(json.dumps(sorted(played)))
        tapped += [[*played, *one[5]] for one in onward]
    assert legal <= reached
    for play in reached:
        assert (await ann.match(match_id, f"destinations(played: {play}) {{ to }}"))["destinations"] == []
    last = max(reached)
    assert (await ann.happens("move", f'matchId: "{match_id}" play: {{moves: {last}}}'))["match"]["toAct"] == "BLACK"


async def test_destinations_from_the_bar_and_off(guest: Guest) -> None:
    """With 61 a checker on the bar enters with the 1, for 19 is held, and can go on with the 6."""
    ann, bob = await guest("Ann"), await guest("Bob")
    bar = await started(ann, bob, xgid("0:0:1:61:0:0:0:5:6", "25:1 13:5 6:5"))
    assert [one[:3] for one in await destinations(ann, bar)] == [[25, 24, "1"], [25, 18, "1+6"]]
    off = await started(ann, bob, xgid("0:0:1:64:0:0:0:5:6", "6:1 4:1 3:2", "13:5"))
    assert [one[:3] for one in await destinations(ann, off, "(from: 6)")] == [[6, 2, "4"], [6, 0, "6"]]


@pytest.mark.parametrize(
    ("played", "code"),
    [
        pytest.param("[[13, 9]]", "NOT_THAT_DIE", id="no such die"),
        pytest.param("[[24, 19]]", "POINT_BLOCKED", id="blocked"),
        pytest.param("[[12, 9]]", "NO_CHECKER", id="no checker"),
        pytest.param("[[8, 13]]", "WRONG_DIRECTION", id="backwards"),
        pytest.param("[[-1, -4]]", "NO_CHECKER", id="below 0"),
        pytest.param("[[2147483647, 0]]", "NO_CHECKER", id="far beyond the bar"),
        pytest.param("[[13, 8], [13, 8]]", "NOT_THAT_DIE", id="a die twice"),
        pytest.param("[[13]]", "BAD_INPUT", id="half a pair"),
        pytest.param("[[13, 8, 5]]", "BAD_INPUT", id="three in a pair"),
        pytest.param("[[]]", "BAD_INPUT", id="no pair"),
        pytest.param("[[13, 8], [13, 10], [8, 5], [8, 5], [6, 5]]", "BAD_INPUT", id="five pairs"),
    ],
)
async def test_what_no_legal_play_begins_with_has_no_destinations(
    guest: Guest, anonymous: Client, played: str, code: str
) -> None:
    match_id = await started(await guest("Ann"), await guest("Bob"), xgid("0:0:1:53:0:0:0:5:6"))
    query = f'{{ match(id: "{match_id}") {{ destinations(played: {played}) {{ to }} }} }}'
    assert await error(anonymous, query) == code


async def test_there_is_nowhere_to_go_but_in_a_roll(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    for state in ("0:0:1:00:0:0:0:5:6", "0:0:1:D:0:0:0:5:6"):
        match_id = await started(ann, bob, xgid(state))
        assert await ann.match(match_id, "destinations { to } legalPlays { notation }") == {
            "destinations": [],
            "legalPlays": [],
        }


@pytest.mark.parametrize(
    ("roll", "count"),
    [("31", 16), ("21", 15), ("42", 18), ("65", 7), ("62", 14), ("51", 8)],
)
async def test_all_legal_plays_are_listed_for_both_sides(guest: Guest, roll: str, count: int) -> None:
    """STYLE.md section 9: how many positions each opening roll leads to."""
    ann, bob = await guest("Ann"), await guest("Bob")
    for turn in ("1", "-1"):
        match_id = await started(ann, bob, xgid(f"0:0:{turn}:{roll}:0:0:0:5:6"))
        plays = (await ann.match(match_id, "legalPlays { notation moves }"))["legalPlays"]
        assert len(plays) == count
        assert len({play["notation"] for play in plays}) == count
        assert all(len(play["moves"]) == 2 for play in plays)


# ids of other programs

IDS = [
    ("-b----E-C---eE---c-e----B-:0:0:1:31:0:0:0:0:10", "4HPwATDgc/ABMA:cIkFAAAAAAAE"),
    ("-b----E-C---eE---c-e----B-:1:1:1:00:2:4:0:7:10", "4HPwATDgc/ABMA:UQngAEAAEAAE"),
    ("-b----E-C---eE---c-e----B-:0:0:1:64:6:4:1:7:10", "4HPwATDgc/ABMA:8AnzAEAAMAAE"),
    ("-b----E-C---eE---c-e----B-:0:0:1:D:0:0:0:5:10", "4HPwATDgc/ABMA:cBGgAAAAAAAE"),
    ("aa--BBBB----dE---d-e----AA:2:-1:1:52:3:1:0:9:10", "4PPgAVDYNvABUA:QokqARAAGAAE"),
]
"""RULES.md section 10: five positions as eXtreme Gammon and as GNU Backgammon write them."""


@pytest.mark.parametrize(("position", "gnu"), IDS, ids=["money", "cube", "Crawford", "double", "bar"])
async def test_a_position_is_written_as_other_programs_write_it(
    guest: Guest, anonymous: Client, position: str, gnu: str
) -> None:
    match_id = await started(await guest("Ann"), await guest("Bob"), f"XGID={position}")
    found = await anonymous.match(match_id, "xgid gnuPositionId gnuMatchId", version=3)
    assert found["xgid"] == f"XGID={position}"
    assert f"{found['gnuPositionId']}:{found['gnuMatchId']}" == gnu


async def test_a_match_goes_on_from_the_xgid_that_it_shows(guest: Guest) -> None:
    """What one match shows can be the start of another, which shows the same."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, xgid("0:0:1:31:1:2:0:5:6"))
    await ann.happens("move", f'matchId: "{match_id}" play: {{notation: "8/5 6/5"}}')
    ids = "xgid gnuPositionId gnuMatchId"
    shown = await ann.match(match_id, ids)
    other = await started(ann, bob, shown["xgid"])
    assert await ann.match(other, ids) == shown


# players


async def test_me_is_who_the_token_says(guest: Guest, anonymous: Client) -> None:
    ann = await guest("Ann  of\tGreen   Gables")
    assert await ann.ask("{ me { id name } }") == {"me": {"id": ann.player_id, "name": "Ann of Green Gables"}}
    assert await anonymous.ask("{ me { id name } }") == {"me": None}


async def test_a_player_is_found_by_id_and_by_nothing_else(guest: Guest, anonymous: Client) -> None:
    ann = await guest("Ann")
    query = "query($id: ID!) { player(id: $id) { id name } }"
    assert await anonymous.ask(query, id=ann.player_id) == {"player": {"id": ann.player_id, "name": "Ann"}}
    for other in ("Ann", "", "nobody", ann.player_id[:-1], "\x00", "%", "x" * 90_000):
        assert await anonymous.ask(query, id=other) == {"player": None}


async def test_names_need_not_be_unique_and_may_be_in_any_script(guest: Guest) -> None:
    for name in ("Ann", "Ann", "Zoë", "王", "Ω" * 40, "a" * 40, "'; drop table players; --", "<b>"):
        one = await guest(name)
        assert (await one.ask("{ me { name } }"))["me"]["name"] == name


# limits and schema


async def test_limits_say_how_much_may_be_asked_for(anonymous: Client) -> None:
    found = (await anonymous.ask("{ limits { name value code } }"))["limits"]
    limits = {limit["name"]: limit["value"] for limit in found}
    assert len(limits) == len(found)
    for name in ("page", "queryTokens", "queryDepth", "queryCost", "queryAliases", "operationsPerWebsocket"):
        assert limits[name] > 0
    assert limits["page"] == 100
    codes = {"BAD_INPUT", "QUERY_TOO_LONG", "QUERY_TOO_DEEP", "QUERY_TOO_COSTLY", "TOO_MANY_ALIASES"}
    assert codes | {"TOO_MANY_OPERATIONS", "BODY_TOO_LARGE"} <= {limit["code"] for limit in found}


def test_the_printed_schema_is_the_committed_one(server: Server) -> None:
    printed = server.videau("schema")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert printed.stdout == SDL.read_text(), "openapi/schema.graphql is stale: videau schema > openapi/schema.graphql"


TYPES = """{ __schema { types { kind name description
  fields(includeDeprecated: true) { name description args { name description } }
  inputFields { name description } enumValues(includeDeprecated: true) { name } } } }"""


async def introspected(client: Client) -> list[dict[str, Any]]:
    """The schema's own types."""
    types = (await client.ask(TYPES))["__schema"]["types"]
    built_in = ("Int", "Float", "String", "Boolean", "ID")
    return [one for one in types if not one["name"].startswith("__") and one["name"] not in built_in]


async def test_everything_in_the_schema_is_described(anonymous: Client) -> None:
    """Types, fields, arguments, inputs and enums: the schema is what a client's author reads."""
    silent = []
    for one in await introspected(anonymous):
        if not one["description"]:
            silent.append(one["name"])
        for field in itertools.chain(one["fields"] or (), one["inputFields"] or ()):
            if not field["description"]:
                silent.append(f"{one['name']}.{field['name']}")
            for argument in field.get("args", ()):
                if not argument["description"]:
                    silent.append(f"{one['name']}.{field['name']}({argument['name']}:)")
    assert silent == []


async def test_the_schema_has_one_verb_one_mutation_and_one_event_kind_each(anonymous: Client) -> None:
    """DESIGN.md section 5: roll, Roll, Rolled, "rolled"."""
    types = {one["name"]: one for one in await introspected(anonymous)}
    mutations = {field["name"] for field in types["Mutation"]["fields"]}
    commands = {"createMatch", "joinMatch", "roll", "move", "double", "accept", "refuse", "resign", "rematch"}
    assert commands <= mutations
    for verb in ("created", "joined", "rolled", "moved", "doubled", "accepted", "refused", "resigned"):
        assert types[verb.capitalize()]["kind"] == "OBJECT"
    assert {one["name"] for one in types["Stake"]["enumValues"]} == {"SINGLE", "GAMMON", "BACKGAMMON", "MATCH"}
    queries = {field["name"] for field in types["Query"]["fields"]}
    assert {"match", "matches", "me", "player", "limits"} <= queries


async def test_a_query_is_answered_over_get_as_over_post(guest: Guest, anonymous: Client) -> None:
    """GraphQL over HTTP: queries may be GETs."""
    match_id = await (await guest("Ann")).create("{length: 1}")
    query = f'{{ match(id: "{match_id}") {{ {STATE} }} }}'
    async with httpx2.AsyncClient(verify=False) as browser:
        response = await browser.get(anonymous.url, params={"query": query})
    assert response.json() == await anonymous.post(query)


def test_what_may_be_null_may_be_left_out() -> None:
    """The specification says so (GraphQL, 5.4.3), and a resolver without a default would fail."""
    lacking = [
        f"{type_.name}.{name}({argument}:)"
        for type_ in schema._schema.type_map.values()
        if isinstance(type_, GraphQLObjectType) and not type_.name.startswith("__")
        for name, field in type_.fields.items()
        for argument, given in field.args.items()
        if not isinstance(given.type, GraphQLNonNull) and given.default is Undefined
    ]
    assert lacking == []
