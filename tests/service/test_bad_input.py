"""What is wrong is answered with a code, at once, and changes nothing: DESIGN.md promises 5, 6, 8 and 9."""

import asyncio
import json
import re
import sqlite3
import uuid
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import jwt
import pytest
from websockets.asyncio.client import connect

from tests.client import ANSWER, STATE, Client, register
from tests.server import Server

Guest = Callable[[str], Awaitable[Client]]

START = "24:2 13:5 8:3 6:5"
BY_HAND = "autoRoll: false"
AT_ONCE = 2
"""Seconds of its processor that the server takes at most for even the worst request."""

IN_A_MATCH = {
    "joinMatch": "",
    "roll": "",
    "move": 'play: {notation: "8/5 6/5"}',
    "double": "",
    "accept": "",
    "refuse": "",
    "resign": "stake: SINGLE",
    "rematch": "",
}
"""The eight commands to a match that is there, and what they take beside it."""

ALL = {"createMatch": "settings: {length: 1}"} | {
    verb: f'matchId: "{{match}}" {arguments}' for verb, arguments in IN_A_MATCH.items()
}


def xgid(state: str = "0:0:1:00:0:0:0:5:6", white: str = START, black: str = START) -> str:
    """An XGID (cube, owner, turn, dice, scores, rules, length, limit); each side in its own numbering."""
    letters = ["-"] * 26
    for side, one in ((white, "A"), (black, "a")):
        for word in side.split():
            point, count = map(int, word.split(":"))
            letters[point if one == "A" else 25 - point] = chr(ord(one) + count - 1)
    return f"XGID={''.join(letters)}:{state}"


async def started(white: Client, black: Client, start: str | None = None, more: str = "") -> str:
    """A match from a position (white on roll), where nobody wants the table to roll."""
    match_id = await white.create(f'{{{more} sandbox: {{start: "{start or xgid()}"}}}}', f", {BY_HAND}")
    await black.happens("joinMatch", f'matchId: "{match_id}" {BY_HAND}')
    return match_id


async def seen(client: Client, match_id: str) -> tuple[Any, Any]:
    """All that a command could have changed."""
    return await client.match(match_id), await client.log(match_id)


def codes(answer: dict[str, Any]) -> set[str]:
    """The codes of an answer's errors, each of which has one and says something."""
    assert answer["errors"]
    for error in answer["errors"]:
        assert error["message"]
    return {error["extensions"]["code"] for error in answer["errors"]}


def code(answer: dict[str, Any]) -> str:
    """The one code that all errors of an answer have."""
    [found] = codes(answer)
    return found


@asynccontextmanager
async def at_once(server: Server, seconds: float = AT_ONCE) -> AsyncIterator[None]:
    """What is asked in here is answered after so many seconds of work, however much else the machine has to do."""
    begin = server.processor_seconds()
    async with asyncio.timeout(15 * seconds):
        yield
    assert server.processor_seconds() - begin < seconds


@pytest.fixture
async def wire() -> AsyncIterator[httpx2.AsyncClient]:
    """HTTP as it comes, without a client's manners."""
    async with httpx2.AsyncClient(verify=False, timeout=10) as client:
        yield client


@pytest.fixture(scope="module")
def spare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A second server, for what might hurt one; the tests that use it come in the order in which it survives them."""
    running = Server(tmp_path_factory.mktemp("spare"))
    running.start()
    yield running
    assert "Traceback" not in running.stop()


@pytest.fixture
async def spare_guest(spare: Server) -> AsyncIterator[Guest]:
    """Makes guests of the second server."""
    clients: list[Client] = []

    async def new(name: str) -> Client:
        clients.append(await register(spare.url, name))
        return clients[-1]

    yield new
    for client in clients:
        await client.close()


async def raw(url: str, *sent: bytes) -> bytes:
    """What a server answers at first to these bytes; nothing if it hangs up or if nothing was asked."""
    found = re.match(r"http://([\d.]+):(\d+)", url)
    assert found
    reader, writer = await asyncio.open_connection(found[1], int(found[2]))
    try:
        async with asyncio.timeout(10):
            for part in sent:
                writer.write(part)
                await writer.drain()
            return await reader.read(100) if sent[-1].endswith(b"\r\n\r\n") else b""
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


# tokens


def signed(secret: str, algorithm: str = "HS256", **claims: Any) -> str:
    """A token; claims that are None are left out."""
    now = datetime.now(UTC)
    given = {"iss": "videau", "sub": "nobody", "iat": now, "exp": now + timedelta(hours=1)} | claims
    return jwt.encode({name: value for name, value in given.items() if value is not None}, secret, algorithm)


def unsigned(header: str, payload: str = "{}") -> str:
    """A token of this header, with some signature."""
    return ".".join(urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (header, payload, "signature"))


PAST = datetime(2020, 1, 1, tzinfo=UTC)
BAD_TOKENS: dict[str, tuple[Callable[[str, str], str], str]] = {
    "signed with another secret": (lambda secret, me: signed("another secret " * 5, sub=me), "TOKEN_SIGNATURE"),
    "not signed": (lambda secret, me: signed("", "none", sub=me), "TOKEN_ALGORITHM"),
    "signed by another algorithm": (lambda secret, me: signed(secret * 2, "HS512", sub=me), "TOKEN_ALGORITHM"),
    "expired": (lambda secret, me: signed(secret, sub=me, iat=PAST, exp=PAST + timedelta(days=30)), "TOKEN_EXPIRED"),
    "expired a second ago": (
        lambda secret, me: signed(secret, sub=me, exp=datetime.now(UTC) - timedelta(seconds=1)),
        "TOKEN_EXPIRED",
    ),
    "without an end": (lambda secret, me: signed(secret, sub=me, exp=None), "TOKEN_INVALID"),
    "with an end that is no time": (lambda secret, me: signed(secret, sub=me, exp="soon"), "TOKEN_INVALID"),
    "with an end that is no number": (lambda secret, me: signed(secret, sub=me, exp=[1]), "TOKEN_INVALID"),
    "for nobody": (lambda secret, me: signed(secret, sub=None), "TOKEN_INVALID"),
    "for a number": (lambda secret, me: signed(secret, sub=5), "TOKEN_INVALID"),
    "for a player who is not known": (lambda secret, me: signed(secret, sub=me[::-1]), "TOKEN_INVALID"),
    "of another issuer": (lambda secret, me: signed(secret, sub=me, iss="gammon"), "APP_UNKNOWN"),
    "of no issuer": (lambda secret, me: signed(secret, sub=me, iss=None), "TOKEN_INVALID"),
    "from the future": (
        lambda secret, me: signed(secret, sub=me, iat=datetime.now(UTC) + timedelta(days=1)),
        "TOKEN_NOT_YET_VALID",
    ),
    "with a changed payload": (
        lambda secret, me: ".".join(
            (signed(secret).split(".")[0], signed(secret, sub=me).split(".")[1], signed(secret).split(".")[2])
        ),
        "TOKEN_SIGNATURE",
    ),
    "with an algorithm that is a list": (lambda secret, me: unsigned('{"alg": ["HS256"]}'), "TOKEN_INVALID"),
    "with a header of a thousand brackets": (lambda secret, me: unsigned("[" * 3000), "TOKEN_INVALID"),
    "with a header of a huge number": (lambda secret, me: unsigned('{"alg": ' + "1" * 9000 + "}"), "TOKEN_INVALID"),
}


@pytest.mark.parametrize(("make", "expected"), BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
async def test_a_bad_token_is_refused_with_its_code_and_the_whole_request_with_it(
    server: Server, guest: Guest, wire: httpx2.AsyncClient, make: Callable[[str, str], str], expected: str
) -> None:
    ann = await guest("Ann")
    assert ann.player_id
    token = make((server.database.parent / "videau.db.secret").read_text(), ann.player_id)
    headers = {"authorization": f"Bearer {token}"}
    for query in (
        "{ me { id } }",
        "mutation { createMatch(settings: {length: 1}) { __typename } }",
        "{ limits { name } }",
    ):
        answer = (await wire.post(server.url, json={"query": query}, headers=headers)).json()
        assert (code(answer), answer["data"]) == (expected, None)
    found = await ann.ask("query($p: ID!) { matches(filter: {player: $p}) { edges { cursor } } }", p=ann.player_id)
    assert found["matches"]["edges"] == []


@pytest.mark.parametrize(
    "authorization",
    [
        b"", b"Bearer", b"Bearer x", b"Bearer a.b.c", b"Bearer ....", b"Basic YWRtaW46YWRtaW4=",
        b"Bearer null", b"Bearer \xe9\xff.\xe9.\xe9", b"\xff", b"Bearer " + b"x" * 60_000, b"Token x", b"Bearer,x",
    ],
)  # fmt: skip
async def test_a_garbled_authorization_is_refused(
    server: Server, wire: httpx2.AsyncClient, authorization: bytes
) -> None:
    headers = {b"authorization": authorization}
    answer = (await wire.post(server.url, json={"query": "{ me { id } }"}, headers=headers)).json()
    assert (code(answer), answer["data"]) == ("TOKEN_INVALID", None)


async def test_the_scheme_bearer_may_be_in_any_case(server: Server, guest: Guest, wire: httpx2.AsyncClient) -> None:
    """RFC 9110, 11.1: the scheme is a case-insensitive token."""
    ann = await guest("Ann")
    for scheme in ("Bearer", "bearer", "BEARER"):
        headers = {"authorization": f"{scheme} {ann.token}"}
        answer = (await wire.post(server.url, json={"query": "{ me { id } }"}, headers=headers)).json()
        assert answer["data"] == {"me": {"id": ann.player_id}}


# whose turn it is, and at which match


async def test_without_a_token_nothing_can_be_done(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob)
    before = await seen(ann, match_id)
    for verb, arguments in ALL.items():
        answer = await anonymous.post(
            f"mutation {{ {verb}({arguments.replace('{match}', match_id)}) {{ __typename }} }}"
        )
        assert code(answer) == "UNAUTHENTICATED", verb
        assert answer["data"] is None
    assert await seen(ann, match_id) == before


async def test_only_who_must_act_acts(guest: Guest) -> None:
    """Each command by the wrong player, in each phase; promise 8."""
    ann, bob, cleo = await guest("Ann"), await guest("Bob"), await guest("Cleo")
    for dice, white, black in (
        ("00", {"move": "ROLL_FIRST", "accept": "NOTHING_TO_ANSWER", "refuse": "NOTHING_TO_ANSWER"}, {}),
        ("31", {"roll": "ALREADY_ROLLED", "double": "ALREADY_ROLLED", "accept": "NOTHING_TO_ANSWER"}, {}),
        (
            "D",
            dict.fromkeys(("roll", "move", "double", "accept", "refuse"), "NOT_YOUR_TURN") | {"resign": "ANSWER_FIRST"},
            dict.fromkeys(("roll", "move", "double", "resign"), "ANSWER_FIRST"),
        ),
    ):
        match_id = await started(ann, bob, xgid(f"0:0:1:{dice}:0:0:0:5:6"))
        before = await seen(cleo, match_id)
        black = black or dict.fromkeys(("roll", "move", "double"), "NOT_YOUR_TURN") | {"accept": "NOTHING_TO_ANSWER"}
        stranger = dict.fromkeys(IN_A_MATCH, "NOT_SEATED") | {"joinMatch": "SEATS_TAKEN"}
        for player, expected in ((ann, white), (bob, black), (cleo, stranger)):
            for verb, why in expected.items():
                answer = await player.command(verb, f'matchId: "{match_id}" {IN_A_MATCH[verb]}')
                assert (answer["__typename"], answer["code"]) == ("Refusal", why), (verb, dice)
                assert answer["message"]
        assert await seen(cleo, match_id) == before


UNKNOWN = {
    "a word": "nosuchmatch",
    "of the right form": "2" * 22,
    "empty": "",
    "one space": " ",
    "zero": "\x00",
    "a path": "../../videau.db",
    "SQL": "' or 1=1 --",
    "in another script": "対局",
    "90 kB": "x" * 90_000,
}


@pytest.mark.parametrize("match_id", UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_an_unknown_match_is_not_found(guest: Guest, match_id: str) -> None:
    ann = await guest("Ann")
    for verb, arguments in IN_A_MATCH.items():
        query = f"mutation($id: ID!) {{ {verb}(matchId: $id {arguments}) {{ {ANSWER} }} }}"
        answer = (await ann.ask(query, id=match_id))[verb]
        assert (answer["code"], answer["current"]) == ("MATCH_NOT_FOUND", None), verb
        assert len(answer["message"]) < 200
    assert await ann.match(match_id) is None
    assert await ann.match(match_id, version=1) is None


async def test_an_id_is_not_found_in_another_spelling(guest: Guest) -> None:
    ann = await guest("Ann")
    match_id = await ann.create("{length: 1}")
    for other in (match_id.upper(), f" {match_id}", f"{match_id} ", match_id[:-1], f"{match_id}\x00", f"{match_id}%"):
        assert await ann.match(other) is None


# illegal plays

UNREADABLE = [
    "hello", "8-5 6-5", "8/5;6/5", "8/5/", "/5", "8/5 6/", "8\\\\5", "barre/20", "6/sortie", "8/5(9)", "8/5(0)",
    "8/5((1)", "99/5", "8/-5", "+8/5", "8/5 joue 6/5", "31: 8/5 6/5", "8 /5", "\u0668/\u0665", "\uff18/\uff15",
    "8/5 " * 40, "x" * 90_000,
]  # fmt: skip
ILLEGAL = {
    # white, black, roll, the play
    "MALFORMED_NOTATION": [(START, START, "31", f'notation: "{text}"') for text in UNREADABLE],
    "NO_CHECKER": [
        (START, START, "31", 'notation: "12/9 8/7"'),
        (START, START, "31", "moves: [[12, 9], [8, 7]]"),
        (START, START, "31", "moves: [[26, 25]]"),
        (START, START, "31", "moves: [[-1, -4]]"),
        (START, START, "31", "moves: [[2147483647, 2147483644]]"),
        (START, START, "31", 'notation: "bar/22 6/5"'),
        ("8:1 6:5", START, "22", 'notation: "8/6(2)"'),
    ],
    "MUST_ENTER": [
        ("25:1 13:5 6:5", START, "31", 'notation: "13/10 6/5"'),
        ("25:2 13:5 6:5", START, "31", 'notation: "bar/21"'),
    ],
    "WRONG_DIRECTION": [
        (START, START, "31", 'notation: "6/9 8/7"'),
        (START, START, "31", "moves: [[13, 13]]"),
        (START, START, "31", "moves: [[8, 2147483647]]"),
        (START, START, "31", "moves: [[24, -1]]"),
    ],
    "NOT_THAT_DIE": [
        (START, START, "31", 'notation: "13/8 6/5"'),
        (START, START, "31", 'notation: "13/10 13/10"'),
        (START, START, "31", 'notation: "8/5 6/5 6/5"'),
        (START, START, "31", "moves: [[8, 5], [6, 5], [6, 5], [6, 5]]"),
    ],
    "POINT_BLOCKED": [
        (START, START, "51", 'notation: "24/19 6/5"'),
        (START, START, "66", 'notation: "24/12"'),
    ],
    "CANNOT_BEAR_OFF": [
        (START, START, "61", 'notation: "6/off 8/7"'),
        ("7:1 6:5", "13:5", "65", 'notation: "6/off 6/1"'),
    ],
    "HIGHER_POINT_FIRST": [("5:2 3:2", "13:5", "44", 'notation: "3/off"')],
    "BOTH_DICE_PLAYABLE": [
        (START, START, "31", 'notation: "8/5"'),
        (START, START, "31", 'notation: ""'),
        (START, START, "31", "moves: []"),
        ("20:1 12:1", "18:2 16:2", "65", 'notation: "20/14"'),
    ],
    "MORE_DICE_PLAYABLE": [
        (START, START, "22", 'notation: "13/11"'),
        (START, START, "22", "moves: []"),
        ("20:1", "16:2", "65", 'notation: ""'),
    ],
    "LARGER_DIE_FIRST": [("20:1", "16:2", "65", 'notation: "20/15"')],
    "AMBIGUOUS_PLAY": [("13:1 6:2", "14:1 18:1", "62", 'notation: "13/5"')],
}


@pytest.mark.parametrize("expected", ILLEGAL)
async def test_an_illegal_play_is_refused_by_its_rule_from_either_side(guest: Guest, expected: str) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    for n, (white, black, roll, play) in enumerate(ILLEGAL[expected]):
        sides = [(ann, "1", (white, black)), (bob, "-1", (black, white))]
        for player, turn, board in sides if n == 0 else sides[n % 2 :][:1]:
            match_id = await started(ann, bob, xgid(f"0:0:{turn}:{roll}:0:0:0:5:6", *board))
            before = await seen(ann, match_id)
            answer = await player.command("move", f'matchId: "{match_id}" play: {{{play}}}')
            assert (answer["__typename"], answer["code"]) == ("Refusal", expected), play[:60]
            assert 0 < len(answer["message"]) < 300
            assert await seen(ann, match_id) == before


@pytest.mark.parametrize("broken", ILLEGAL)
async def test_a_refused_play_is_told_the_legal_ones(guest: Guest, broken: str) -> None:
    """Promise 6: a code from a closed list, the rule in words, and for a play the legal alternatives."""
    ann, bob = await guest("Ann"), await guest("Bob")
    white, black, roll, play = ILLEGAL[broken][0]
    match_id = await started(ann, bob, xgid(f"0:0:1:{roll}:0:0:0:5:6", white, black))
    answer = await ann.command("move", f'matchId: "{match_id}" play: {{{play}}}')
    legal = (await ann.match(match_id, "legalPlays { notation moves }"))["legalPlays"]
    assert legal
    assert answer["legalPlays"] == legal
    assert answer["current"] == {"version": 3}
    await ann.happens("move", f'matchId: "{match_id}" play: {{notation: "{legal[-1]["notation"]}"}}')


async def test_every_rule_of_play_in_the_schema_is_tried_here(anonymous: Client) -> None:
    values = (await anonymous.ask('{ __type(name: "RefusalCode") { enumValues { name } } }'))["__type"]["enumValues"]
    names = [value["name"] for value in values]
    assert set(names[names.index("MALFORMED_NOTATION") :]) == set(ILLEGAL)


SPELLINGS = [
    "8/5 6/5", "6/5 8/5", "8/5,6/5", "8/5, 6/5", "  8/5\t6/5  ", "8/5\n6/5", "8/5\u00a06/5", "8/5\u202f6/5",
    "8/5* 6/5*", "08/05 06/05", "8/5(1) 6/5", "6/5,,8/5",
]  # fmt: skip


async def test_odd_spellings_of_a_legal_play_are_understood(guest: Guest) -> None:
    """Spaces of any kind or commas between, hit marks that are not checked, any order."""
    ann, bob = await guest("Ann"), await guest("Bob")
    query = f"mutation($id: ID!, $n: String!) {{ move(matchId: $id, play: {{notation: $n}}) {{ {ANSWER} }} }}"
    for spelled in SPELLINGS:
        match_id = await started(ann, bob, xgid("0:0:1:31:0:0:0:5:6"))
        answer = (await ann.ask(query, id=match_id, n=spelled))["move"]
        assert answer["__typename"] == "Happened", (spelled, answer)
        assert (await ann.log(match_id))[-1]["play"] == [[8, 5], [6, 5]], spelled


async def test_bar_and_off_are_written_in_words_or_numbers(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    for bar, off in (
        ("bar/22 22/21", "6/5 5/off"),
        ("BAR/22/21", "6/5/OFF"),
        ("25/22/21", "6/5/0"),
        ("Bar/21", "6/Off"),
    ):
        match_id = await started(ann, bob, xgid("0:0:1:31:0:0:0:5:6", "25:1 6:2"))
        await ann.happens("move", f'matchId: "{match_id}" play: {{notation: "{bar}"}}')
        match_id = await started(ann, bob, xgid("0:0:1:51:0:0:0:5:6", "6:2 1:1", "13:5"))
        await ann.happens("move", f'matchId: "{match_id}" play: {{notation: "{off}"}}')
        assert (await ann.log(match_id))[-1]["notation"] == "6/off"


# arguments of the wrong type

CREATE = "mutation($s: SettingsInput!) { createMatch(settings: $s) { __typename } }"
MOVE = 'mutation($p: PlayInput!) { move(matchId: "x", play: $p) { __typename } }'
AS_VARIABLE: dict[str, tuple[str, Any]] = {
    "Int": ('query($v: Int) { match(id: "x", version: $v) { id } }', ["1", 1.5, True, [], {}, 2**31, -(2**31) - 1]),
    "a huge Int": ('query($v: Int) { match(id: "x", version: $v) { id } }', [1e300, 2**64, 10**40, 1e10]),
    "ID": ("query($v: ID!) { match(id: $v) { id } }", [None, 1.5, True, [], {}]),
    "String": ("mutation($v: String!) { registerGuest(name: $v) { token } }", [None, 1, 1.5, True, [], {}]),
    "Boolean": (
        "mutation($v: Boolean!) { createMatch(settings: {}, autoRoll: $v) { __typename } }",
        [None, "true", 1, 0, [], {}],
    ),
    "an enum": (
        "mutation($v: Color!) { createMatch(settings: {}, color: $v) { __typename } }",
        [None, "white", "GREEN", "", 1, True, ["BLACK", "WHITE"], {}],
    ),
    "another enum": ('mutation($v: Stake!) { resign(matchId: "x", stake: $v) { __typename } }', ["SINGLES", "single"]),
    "an input": (CREATE.replace("$s", "$v"), [None, 1, "x", [], [{}, {}], {"lenght": 5}, {"length": "5"}]),
    "an input's enum": (CREATE.replace("$s", "$v"), [{"visibility": "public"}, {"visibility": None}]),
    "dice": (
        CREATE.replace("$s", "$v"),
        [
            {"sandbox": {"dice": dice}}
            for dice in (None, "31", [None], [[None, 1]], [["3", 1]], [[3.5, 1]], [[2**31, 1]])
        ],
    ),
    "a play": (
        MOVE.replace("$p", "$v"),
        [None, 1, "8/5 6/5", {}, {"notation": None}, {"notation": 5}, {"moves": None}, {"moves": [[24, None]]}],
    ),
    "a play in two ways": (MOVE.replace("$p", "$v"), [{"notation": "8/5", "moves": [[8, 5]]}, {"note": "8/5"}]),
    "a filter": (
        "query($v: MatchFilter) { matches(filter: $v) { edges { cursor } } }",
        [1, [], {"status": "waiting"}, {"status": 1}, {"player": 1.5}, {"winner": "x"}],
    ),
    "a page length": ("query($v: Int) { matches(first: $v) { edges { cursor } } }", ["20", 1.5, 2**31]),
}
MALFORMED = {"VALIDATION_FAILED", "BAD_INPUT", "BAD_REQUEST"}
"""What an argument of the wrong type may be called; INTERNAL it is not."""


@pytest.mark.parametrize(("query", "values"), AS_VARIABLE.values(), ids=AS_VARIABLE.keys())
async def test_a_variable_of_the_wrong_type_is_the_callers_mistake(guest: Guest, query: str, values: list[Any]) -> None:
    ann = await guest("Ann")
    for value in values:
        answer = await ann.post(query, {"v": value})
        assert codes(answer) <= MALFORMED, value
        assert not answer["data"]


async def test_a_variable_with_thousands_of_faults_is_answered_shortly(spare: Server, spare_guest: Guest) -> None:
    ann = await spare_guest("Ann")
    for variables in ({"dice": ["x"] * 20_000}, {"dice": [["x", None]] * 8_000}, {f"x{n}": 1 for n in range(8_000)}):
        async with at_once(spare):
            answer = await ann.post(CREATE, {"s": {"sandbox": variables}})
        assert codes(answer) <= MALFORMED
        assert len(json.dumps(answer)) < 100_000


@pytest.mark.parametrize(
    "value",
    ['"1"', "1.5", "true", "[]", "{a: 1}", "ONE", "2147483648", "-2147483649", "1e300", "1" * 400, "1" * 5000, "$v"],
    ids=lambda value: value if len(value) < 12 else f"{len(value)} digits",
)
async def test_a_literal_of_the_wrong_type_is_the_callers_mistake(anonymous: Client, value: str) -> None:
    for query in ('{ match(id: "x", version: %s) { id } }', "{ matches(first: %s) { edges { cursor } } }"):
        answer = await anonymous.post(query % value)
        assert codes(answer) <= MALFORMED | {"PARSE_FAILED"}


@pytest.mark.parametrize(
    "query",
    [
        "{ match { id } }",
        "{ match(id: null) { id } }",
        "{ match(id: 1.5) { id } }",
        '{ match(id: "x", id: "y") { id } }',
        '{ match(id: "x") }',
        "{ nope }",
        "{ me { id { x } } }",
        "mutation { createMatch { __typename } }",
        "mutation { createMatch(settings: {length: 1}, color: white) { __typename } }",
        "mutation { createMatch(settings: {length: 1}, color: GREEN) { __typename } }",
        'mutation { resign(matchId: "x", stake: DOUBLE) { __typename } }',
        'mutation { resign(matchId: "x") { __typename } }',
        'mutation { move(matchId: "x", play: {}) { __typename } }',
        'mutation { move(matchId: "x", play: {notation: null}) { __typename } }',
        'mutation { move(matchId: "x", play: {notation: "8/5", moves: []}) { __typename } }',
        'mutation { move(matchId: "x", play: "8/5") { __typename } }',
        "query($v: Nope) { me { id } }",
        "query($v: Player) { me { id } }",
        "{ me { ...Nope } }",
        "{ me @nope { id } }",
    ],
)
async def test_a_query_that_does_not_fit_the_schema_fails_validation(guest: Guest, query: str) -> None:
    assert code(await (await guest("Ann")).post(query)) == "VALIDATION_FAILED"


@pytest.mark.parametrize("query", ["{", "}", "{ me { id }", "query", " ", "#", "{ me(: }", '{ match(id: "x) }', "\x00"])
async def test_a_query_that_is_no_graphql_fails_to_parse(anonymous: Client, query: str) -> None:
    assert code(await anonymous.post(query)) == "PARSE_FAILED"


@pytest.mark.parametrize(
    "name",
    ["", " ", "\t\n", "x" * 41, "x" * 90_000, "\x00", "a\x07b", "\u202eevil", "a\u200bb", "\ufeff", "\ue000"],
    ids=lambda name: f"{name[:3]!r} {len(name)}",
)
async def test_a_name_has_1_to_40_printable_characters(anonymous: Client, name: str) -> None:
    query = "mutation($n: String!) { registerGuest(name: $n) { token } }"
    assert code(await anonymous.post(query, {"n": name})) == "BAD_INPUT"


@pytest.mark.parametrize(
    "dice", ["[[1]]", "[[1, 2, 3]]", "[[]]", "[1, 2]", "[[3, 1], [3]]", "5"], ids=lambda dice: dice
)
async def test_scripted_dice_are_pairs(guest: Guest, dice: str) -> None:
    query = f"mutation {{ createMatch(settings: {{sandbox: {{dice: {dice}}}}}) {{ __typename }} }}"
    assert code(await (await guest("Ann")).post(query)) in MALFORMED


async def test_a_script_and_a_position_have_their_limits(server: Server, guest: Guest) -> None:
    ann = await guest("Ann")
    query = f"mutation($s: SettingsInput!) {{ createMatch(settings: $s) {{ {ANSWER} }} }}"
    for sandbox, expected in (
        ({"dice": [[3, 1]] * 16_000}, "INVALID_SETTINGS"),
        ({"start": "x" * 90_000}, "INVALID_POSITION"),
        ({"start": "XGID=" + "-" * 26 + ":0" * 9}, "INVALID_POSITION"),
    ):
        async with at_once(server):
            answer = (await ann.ask(query, s={"sandbox": sandbox}))["createMatch"]
        assert answer["code"] == expected
        assert len(answer["message"]) < 300


async def test_moves_are_at_most_four_pairs(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, xgid("0:0:1:31:0:0:0:5:6"))
    query = f"mutation($id: ID!, $m: [[Int!]!]!) {{ move(matchId: $id, play: {{moves: $m}}) {{ {ANSWER} }} }}"
    for moves in ([[8]], [[8, 5, 3]], [[]], [[8, 5]] * 5, [[8, 5]] * 9_000):
        assert code(await ann.post(query, {"id": match_id, "m": moves})) == "BAD_INPUT"
    assert (await ann.match(match_id))["version"] == 3


# bodies

ME = json.dumps({"query": "{ me { id } }"})
TEN_MEGABYTES = 10_000_000
JSON = "application/json"
BODIES: dict[str, tuple[str | bytes, str, str]] = {
    "no JSON": ("{", JSON, "BAD_REQUEST"),
    "nothing": ("", JSON, "BAD_REQUEST"),
    "a number": ("5", JSON, "BAD_REQUEST"),
    "null": ("null", JSON, "BAD_REQUEST"),
    "true": ("true", JSON, "BAD_REQUEST"),
    "a text": ('"{ me { id } }"', JSON, "BAD_REQUEST"),
    "an empty list": ("[]", JSON, "BAD_REQUEST"),
    "a batch": (f"[{ME}, {ME}]", JSON, "BAD_REQUEST"),
    "no query": ("{}", JSON, "BAD_REQUEST"),
    "a query that is null": ('{"query": null}', JSON, "BAD_REQUEST"),
    "a query that is a number": ('{"query": 5}', JSON, "BAD_REQUEST"),
    "a query that is a list": ('{"query": ["{ me { id } }"]}', JSON, "BAD_REQUEST"),
    "an empty query": ('{"query": ""}', JSON, "BAD_REQUEST"),
    "variables that are a number": ('{"query": "{ me { id } }", "variables": 5}', JSON, "BAD_REQUEST"),
    "variables that are a list": ('{"query": "{ me { id } }", "variables": [1]}', JSON, "BAD_REQUEST"),
    "variables that are a text": ('{"query": "{ me { id } }", "variables": "{}"}', JSON, "BAD_REQUEST"),
    "an operation that is not there": ('{"query": "{ me { id } }", "operationName": "X"}', JSON, "BAD_REQUEST"),
    "an operation that is a number": ('{"query": "{ me { id } }", "operationName": 5}', JSON, "BAD_REQUEST"),
    "extensions that are a number": ('{"query": "{ me { id } }", "extensions": 5}', JSON, "BAD_REQUEST"),
    "no operation": ('{"query": "fragment F on Query { me { id } }"}', JSON, "BAD_REQUEST"),
    "several operations and no name": (
        '{"query": "query A { me { id } } query B { me { name } }"}',
        JSON,
        "BAD_REQUEST",
    ),
    "several mutations and no name": (
        '{"query": "mutation A { registerGuest(name: \\"a\\") { token } } query B { me { name } }"}',
        JSON,
        "BAD_REQUEST",
    ),
    "40,000 brackets": ("[" * 40_000, JSON, "BAD_REQUEST"),
    "40,000 nested lists": ('{"variables": ' + "[" * 40_000 + "]" * 40_000 + "}", JSON, "BAD_REQUEST"),
    "7,000 nested objects": ('{"variables":' * 7_000 + "1" + "}" * 7_000, JSON, "BAD_REQUEST"),
    "invalid UTF-8": (b'{"query": "{ me { id } } # \xff\xfe"}', JSON, "BAD_REQUEST"),
    "UTF-16": (ME.encode("utf-16"), JSON, "BAD_REQUEST"),
    "a lone surrogate": ('{"query": "{ player(id: \\"x\\ud800\\") { id } }"}', JSON, "BAD_REQUEST"),
    "a number beyond all": ('{"query": "{ me { id } }", "variables": {"v": 1e999}}', JSON, "BAD_REQUEST"),
    "not a number": ('{"query": "{ me { id } }", "variables": {"v": NaN}}', JSON, "BAD_REQUEST"),
    "a form": ("query=%7Bme%7Bid%7D%7D", "application/x-www-form-urlencoded", "BAD_REQUEST"),
    "plain text": (ME, "text/plain", "BAD_REQUEST"),
    "GraphQL itself": ("{ me { id } }", "application/graphql", "BAD_REQUEST"),
    "an upload": ("--x--", "multipart/form-data; boundary=x", "BAD_REQUEST"),
    "an upload without a boundary": ("--x--", "multipart/form-data", "BAD_REQUEST"),
    "no content type": (ME, "", "BAD_REQUEST"),
    "a broken content type": (ME, '"; =', "BAD_REQUEST"),
    "a byte too much": (ME + " " * (100_001 - len(ME)), JSON, "BODY_TOO_LARGE"),
    "10 MB": (b" " * TEN_MEGABYTES, JSON, "BODY_TOO_LARGE"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "expected"), BODIES.values(), ids=BODIES.keys())
async def test_a_body_that_is_no_request_is_refused(
    server: Server, wire: httpx2.AsyncClient, body: str | bytes, kind: str, expected: str
) -> None:
    async with at_once(server):
        response = await wire.post(server.url, content=body, headers={"content-type": kind} if kind else {})
    assert 400 <= response.status_code < 500
    assert response.headers["content-type"] == JSON
    answer = response.json()
    assert (code(answer), answer["data"]) == (expected, None)


async def test_a_body_may_have_100_kilobytes(server: Server, wire: httpx2.AsyncClient) -> None:
    body = ME + " " * (100_000 - len(ME))
    assert (await wire.post(server.url, content=body, headers={"content-type": JSON})).json()["data"] == {"me": None}


async def test_a_chunked_body_without_a_length_is_bounded_too(server: Server, wire: httpx2.AsyncClient) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < TEN_MEGABYTES:
            sent += 10_000
            yield b" " * 10_000

    async with at_once(server):
        response = await wire.post(server.url, content=chunks(), headers={"content-type": JSON})
    assert (response.status_code, code(response.json())) == (413, "BODY_TOO_LARGE")


async def test_media_types_are_read_in_any_case(server: Server, wire: httpx2.AsyncClient) -> None:
    """RFC 9110, 8.3.1: type and subtype are case-insensitive."""
    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON", "APPLICATION/JSON"):
        response = await wire.post(server.url, content=ME, headers={"content-type": kind})
        assert response.json()["data"] == {"me": None}, kind
    for kind in ("foo/application/json", "application/jsonx", "text/plain, application/json", "application/json x"):
        response = await wire.post(server.url, content=ME, headers={"content-type": kind})
        assert response.status_code == 400, kind


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_methods_other_than_get_and_post_are_not_allowed(
    server: Server, wire: httpx2.AsyncClient, method: str
) -> None:
    response = await wire.request(method, server.url, content=ME, headers={"content-type": JSON})
    assert (response.status_code, code(response.json())) == (405, "BAD_REQUEST")


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        pytest.param({"query": 'mutation { registerGuest(name: "x") { token } }'}, 400, id="a mutation"),
        pytest.param({}, 404, id="nothing"),
        pytest.param({"query": ""}, 400, id="an empty query"),
        pytest.param({"query": "{ me { id } }", "variables": "{"}, 400, id="broken variables"),
        pytest.param({"query": "{ me { id } }", "variables": "[1]"}, 400, id="variables that are a list"),
        pytest.param({"query": "{ me { id } }", "operationName": "X"}, 400, id="an operation that is not there"),
        pytest.param({"query": "{ me { id } }", "extensions": "5"}, 400, id="extensions that are a number"),
    ],
)
async def test_a_get_that_is_no_query_is_refused(
    server: Server, wire: httpx2.AsyncClient, parameters: dict[str, str], status: int
) -> None:
    response = await wire.get(server.url, params=parameters)
    assert (response.status_code, code(response.json())) == (status, "BAD_REQUEST")


async def test_a_subscription_over_http_is_refused(server: Server, guest: Guest, wire: httpx2.AsyncClient) -> None:
    """Subscriptions are for websockets; over HTTP they are the caller's mistake and not the server's."""
    match_id = await (await guest("Ann")).create("{length: 1}")
    query = f'subscription {{ matchEvents(matchId: "{match_id}") {{ seq }} }}'
    for name in ("", "Watch"):
        named = query.replace("subscription", f"subscription {name}")
        for response in (
            await wire.post(server.url, json={"query": named}),
            await wire.post(server.url, json={"query": named}, headers={"accept": "text/event-stream"}),
            await wire.get(server.url, params={"query": named}),
        ):
            answer = response.json()
            assert codes(answer) <= MALFORMED
            assert not answer["data"]


async def test_a_request_cut_off_in_the_middle_is_nothing_to_complain_about(own_server: Server) -> None:
    """Clients lose their connection every day."""
    head = b"POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    for rest in (
        b"content-length: 100\r\n\r\n{",
        b'content-length: 100\r\n\r\n{"query": "{ me',
        b'transfer-encoding: chunked\r\n\r\n5\r\n{"que\r\n',
        b"content-len",
    ):
        await raw(own_server.url, head + rest)
    whole = b"GET /graphql?query={limits{name}} HTTP/1.1\r\nhost: x\r\n\r\n"
    assert (await raw(own_server.url, whole)).startswith(b"HTTP/1.1 200")
    assert not own_server.stop()


async def test_headers_are_bounded(spare: Server) -> None:
    """Promise 9: a connection that sends headers without end is refused before it fills the memory."""
    lines = (b"x: " + b"y" * 995 + b"\r\n") * 1000
    request = b"GET /graphql?query={limits{name}} HTTP/1.1\r\nhost: x\r\n"
    assert (await raw(spare.url, request, b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    answer = await raw(spare.url, request, *[lines] * 20, b"\r\n\r\n")
    assert not answer.startswith(b"HTTP/1.1 200"), "20 MB of headers were taken"


# queries that would cost much


def nested(pairs: int, leaf: str = "id") -> str:
    """A valid query of depth 1 + 2 * pairs and that of the leaf."""
    return '{ match(id: "x") { ' + "rematch { match { " * pairs + leaf + " } }" * pairs + " } }"


def doubling_fragments(depth: int) -> str:
    """A query that would have 2 ** depth fields."""
    parts = [f"fragment F{n} on Query {{ ...F{n + 1} ...F{n + 1} }}" for n in range(depth)]
    return " ".join(["{ ...F0 }", *parts, f"fragment F{depth} on Query {{ me {{ id }} }}"])


def doubling_fields(depth: int) -> str:
    """A query that would have 2 ** depth different fields, each level below the last."""
    level = "fragment F%d on Match { a: rematch { match { ...F%d } } b: rematch { match { ...F%d } } }"
    parts = [level % (n, n + 1, n + 1) for n in range(depth)]
    return " ".join(['{ match(id: "x") { ...F0 } }', *parts, f"fragment F{depth} on Match {{ id }}"])


WALK = "__schema { types { fields { type { fields { type { fields { type { fields { name } } } } } } } } }"
LOOK = "__schema { types { name fields { name type { name ofType { name } } } } }"
COSTLY = {
    "16 levels": (nested(7), {"QUERY_TOO_DEEP"}),
    "60 levels": (nested(29), {"QUERY_TOO_DEEP"}),
    "300 levels": ("{ " + "a { " * 300 + "b" + " }" * 301, {"QUERY_TOO_DEEP"}),
    "300 inline fragments": ("{ " + "... { " * 300 + "me { id }" + " }" * 301, {"QUERY_TOO_DEEP"}),
    "a list 400 deep": ("{ match(id: " + "[" * 400 + "]" * 400 + ") { id } }", {"PARSE_FAILED", "QUERY_TOO_DEEP"}),
    "a type 400 deep": (
        "query($v: " + "[" * 400 + "Int" + "]" * 400 + ") { me { id } }",
        {"PARSE_FAILED", "QUERY_TOO_DEEP"},
    ),
    "31 aliases": ("{ " + " ".join(f"a{n}: me {{ id }}" for n in range(31)) + " }", {"TOO_MANY_ALIASES"}),
    "aliases in fragments": (doubling_fields(6), {"TOO_MANY_ALIASES", "QUERY_TOO_DEEP"}),
    "1,001 tokens": ("{ me { " + "id " * 996 + "} }", {"QUERY_TOO_LONG"}),
    "45,000 tokens": ("{" + "a " * 45_000 + "}", {"QUERY_TOO_LONG"}),
    "pages of pages": (
        "{ matches(first: 100) { edges { node { events(first: 100) { edges { cursor } } } } } }",
        {"QUERY_TOO_COSTLY"},
    ),
    "pages of unknown length": (
        "query($n: Int = 100) { matches(first: $n) { edges { node { events(first: $n) { edges { cursor } } } } } }",
        {"QUERY_TOO_COSTLY"},
    ),
    "pages of usual length": (
        "{ matches { edges { node { events { edges { node { match { events { edges { cursor } } } } } } } } } }",
        {"QUERY_TOO_COSTLY"},
    ),
    "fragments that double 20 times": (doubling_fragments(20), {"QUERY_TOO_COSTLY"}),
    "fragments that double 60 times": (doubling_fragments(60), {"QUERY_TOO_COSTLY"}),
    "a fragment in itself": ("{ ...A } fragment A on Query { me { id } ...A }", {"VALIDATION_FAILED"}),
    "a circle of fragments": (
        "{ ...A } fragment A on Query { ...B } fragment B on Query { ...C } fragment C on Query { ...A }",
        {"VALIDATION_FAILED"},
    ),
    "a circle below fields": (
        '{ match(id: "x") { ...A } } fragment A on Match { rematch { match { ...A } } }',
        {"VALIDATION_FAILED"},
    ),
    "the same directive 140 times": ("{ me " + "@include(if: true) " * 140 + "{ id } }", {"VALIDATION_FAILED"}),
    "400 unknown directives": ("{ me " + "@x " * 400 + "{ id } }", {"VALIDATION_FAILED"}),
    "400 unknown fields": ("{ " + " ".join(f"matche{n}" for n in range(400)) + " }", {"VALIDATION_FAILED"}),
    "a field of 90 kB": ("{ " + "m" * 90_000 + " }", {"VALIDATION_FAILED"}),
    "introspection of introspection": (
        f"{{ {WALK} }}",
        {"VALIDATION_FAILED", "QUERY_TOO_DEEP", "QUERY_TOO_COSTLY"},
    ),
    "25 such": (
        "{ " + " ".join(f"a{n}: {WALK}" for n in range(25)) + " }",
        {"VALIDATION_FAILED", "QUERY_TOO_DEEP", "QUERY_TOO_COSTLY"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), COSTLY.values(), ids=COSTLY.keys())
async def test_a_costly_query_is_refused_at_once(
    server: Server, anonymous: Client, query: str, expected: set[str]
) -> None:
    async with at_once(server):
        answer = await anonymous.post(query)
    assert codes(answer) <= expected
    assert not answer["data"]


HARMLESS = {
    "15 levels": nested(6, "white { pips }"),
    "30 aliases": "{ " + " ".join(f"a{n}: me {{ id }}" for n in range(30)) + " }",
    "1,000 tokens": "{ " + "me { id } " * 199 + "}",
    "the same field 240 times": "{ " + "me { id } " * 240 + "}",
    "a page of 100": "{ matches(first: 100) { edges { node { id version phase } } } }",
    "a comment of 90 kB": "{ me { id } } #" + "x" * 90_000,
    "commas of 90 kB": "{ me { id } " + "," * 90_000 + "}",
    "a text of 90 kB": '{ player(id: "' + "x" * 90_000 + '") { id } }',
    "all of the schema, 25 times": "{ " + " ".join(f"a{n}: {LOOK}" for n in range(25)) + " }",
}  # fmt: skip


@pytest.mark.parametrize("query", HARMLESS.values(), ids=HARMLESS.keys())
async def test_what_is_within_the_limits_is_served_at_once(server: Server, anonymous: Client, query: str) -> None:
    async with at_once(server):
        answer = await anonymous.post(query)
    assert "errors" not in answer


SPREAD = xgid("0:0:1:22:0:0:0:0:6", " ".join(f"{point}:1" for point in range(24, 9, -1)), "25:1 24:1")
"""Fifteen blots and a double: more than 1,700 legal plays."""


# versions and keys


async def test_a_command_for_another_version_is_refused(guest: Guest) -> None:
    """expectedVersion guards against a stale view: lower, higher, or nonsense."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob)
    before = await seen(ann, match_id)
    for version in (2, 4, 0, -1, 2**31 - 1, -(2**31)):
        for verb, arguments in (("roll", ""), ("double", ""), ("resign", "stake: SINGLE"), ("resign", "stake: MATCH")):
            answer = await ann.command(verb, f'matchId: "{match_id}" expectedVersion: {version} {arguments}')
            assert answer["code"] == "STALE_VERSION", (verb, version)
            assert answer["current"] == {"version": 3}
    assert await seen(ann, match_id) == before
    assert (await ann.happens("roll", f'matchId: "{match_id}" expectedVersion: 3'))["match"]["version"] >= 4


async def test_joining_and_rematches_heed_the_expected_version_too(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await ann.create("{length: 1}")
    for version in (1, 3):
        answer = await bob.command("joinMatch", f'matchId: "{match_id}" expectedVersion: {version}')
        assert answer["code"] == "STALE_VERSION"
    await bob.happens("joinMatch", f'matchId: "{match_id}" expectedVersion: 2')
    over = (await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH'))["match"]["version"]
    for version in (over - 1, over + 1):
        answer = await ann.command("rematch", f'matchId: "{match_id}" expectedVersion: {version}')
        assert answer["code"] == "STALE_VERSION"
    assert (await ann.match(match_id, "rematch { proposedBy }"))["rematch"] is None
    await ann.happens("rematch", f'matchId: "{match_id}" expectedVersion: {over}')


async def keyed(ann: Client, bob: Client) -> list[tuple[Client, str, str, dict[str, Any]]]:
    """A short match, each of its commands with a key: who, verb, arguments, answer."""
    done: list[tuple[Client, str, str, dict[str, Any]]] = []

    async def do(player: Client, verb: str, arguments: str) -> dict[str, Any]:
        arguments += f' idempotencyKey: "{uuid.uuid4()}"'
        done.append((player, verb, arguments, await player.happens(verb, arguments)))
        return done[-1][-1]

    settings = "settings: {length: 3, sandbox: {dice: [[3, 1], [6, 4], [5, 2], [4, 2]]}}"
    match_id = (await do(ann, "createMatch", settings))["match"]["id"]
    match = f'matchId: "{match_id}"'
    await do(bob, "joinMatch", f"{match} {BY_HAND}")
    await do(ann, "move", f'{match} play: {{notation: "8/5 6/5"}}')
    await do(bob, "double", match)
    await do(ann, "accept", match)
    await do(bob, "roll", match)
    await do(bob, "move", f"{match} play: {{moves: [[24, 14]]}} expectedVersion: 8")
    await do(ann, "resign", f"{match} stake: SINGLE")
    await do(bob, "refuse", match)
    await do(ann, "resign", f"{match} stake: MATCH")
    return done


async def test_a_key_brings_back_the_same_answer_whatever_happened_since(guest: Guest) -> None:
    """Promise 5, for each command, when the match is over; twice, and all at once."""
    ann, bob = await guest("Ann"), await guest("Bob")
    done = await keyed(ann, bob)
    before = await seen(ann, done[0][3]["match"]["id"])
    for player, verb, arguments, answer in done:
        assert await player.command(verb, arguments) == answer, verb
    again = await asyncio.gather(*(player.command(verb, arguments) for player, verb, arguments, _ in done * 3))
    assert again == [answer for *_, answer in done * 3]
    assert await seen(ann, done[0][3]["match"]["id"]) == before


async def over(ann: Client, bob: Client) -> str:
    """A finished match."""
    match_id = await ann.create("{length: 1}")
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    return match_id


async def test_a_rematch_is_proposed_and_accepted_once_by_key(guest: Guest) -> None:
    """Promise 5 holds for all nine commands: the same key gives the same answer, whatever the other side did since."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await over(ann, bob)
    proposed = await ann.happens("rematch", f'matchId: "{match_id}" idempotencyKey: "propose"')
    accepted = await bob.happens("rematch", f'matchId: "{match_id}" idempotencyKey: "accept"')
    assert accepted["events"]
    assert await bob.command("rematch", f'matchId: "{match_id}" idempotencyKey: "accept"') == accepted
    assert await ann.command("rematch", f'matchId: "{match_id}" idempotencyKey: "propose"') == proposed
    await bob.happens("resign", f'matchId: "{accepted["match"]["id"]}" stake: MATCH')
    assert await bob.command("rematch", f'matchId: "{match_id}" idempotencyKey: "accept"') == accepted


async def test_a_key_used_for_a_rematch_serves_no_other_command(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, other = await over(ann, bob), await over(ann, bob)
    for player in (ann, bob):
        await player.happens("rematch", f'matchId: "{match_id}" idempotencyKey: "again"')
        for verb, arguments in (("createMatch", "settings: {length: 1}"), ("rematch", f'matchId: "{other}"')):
            answer = await player.command(verb, f'{arguments} idempotencyKey: "again"')
            assert (answer["__typename"], answer.get("code")) == ("Refusal", "KEY_REUSED"), verb


async def test_a_key_with_other_input_is_refused(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, other = await started(ann, bob), await started(ann, bob)
    await ann.happens("roll", f'matchId: "{match_id}" idempotencyKey: "k"')
    before = await seen(ann, match_id), await seen(ann, other)
    for verb, arguments in (
        ("roll", f'matchId: "{match_id}" expectedVersion: 3'),
        ("roll", f'matchId: "{other}"'),
        ("double", f'matchId: "{match_id}"'),
        ("double", f'matchId: "{other}"'),
        ("resign", f'matchId: "{match_id}" stake: MATCH'),
        ("resign", f'matchId: "{other}" stake: MATCH'),
        ("accept", f'matchId: "{match_id}"'),
        ("createMatch", "settings: {length: 1}"),
    ):
        answer = await ann.command(verb, f'{arguments} idempotencyKey: "k"')
        assert (answer["__typename"], answer.get("code")) == ("Refusal", "KEY_REUSED"), (verb, arguments)
    assert (await seen(ann, match_id), await seen(ann, other)) == before


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("settings: {length: 1}", "settings: {length: 2}", id="settings"),
        pytest.param("settings: {length: 1}", "settings: {length: 1}, color: BLACK", id="colour"),
        pytest.param("settings: {length: 1}", "settings: {length: 1}, autoRoll: false", id="autoRoll"),
        pytest.param("settings: {length: 1}", "settings: {length: 1, visibility: UNLISTED}", id="visibility"),
        pytest.param("settings: {sandbox: {}}", "settings: {sandbox: {dice: [[3, 1]]}}", id="sandbox"),
        pytest.param("settings: {sandbox: {}}", "settings: {}", id="no sandbox"),
    ],
)
async def test_a_key_stands_for_all_arguments_of_a_match(guest: Guest, first: str, second: str) -> None:
    ann = await guest("Ann")
    made = await ann.happens("createMatch", f'{first} idempotencyKey: "k"')
    assert (await ann.command("createMatch", f'{second} idempotencyKey: "k"'))["code"] == "KEY_REUSED"
    assert await ann.command("createMatch", f'{first} idempotencyKey: "k"') == made


async def test_a_key_stands_for_the_play_as_it_was_written(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, xgid("0:0:1:31:0:0:0:5:6"))
    given = f'matchId: "{match_id}" idempotencyKey: "k"'
    made = await ann.happens("move", f'{given} play: {{notation: "8/5 6/5"}}')
    for play in ('{notation: "24/20"}', "{moves: [[24, 20]]}", "{moves: []}"):
        assert (await ann.command("move", f"{given} play: {play}"))["code"] == "KEY_REUSED"
    assert await ann.command("move", f'{given} play: {{notation: "8/5 6/5"}}') == made


async def test_a_key_is_its_players_own(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    made = [(await player.happens("createMatch", 'settings: {length: 1} idempotencyKey: "k"')) for player in (ann, bob)]
    assert made[0]["match"]["id"] != made[1]["match"]["id"]
    assert made[1]["match"]["white"]["player"]["id"] == bob.player_id


async def test_a_refusal_is_not_kept_with_its_key(guest: Guest) -> None:
    """README: sent again, the command is judged again."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, xgid("0:0:1:31:0:0:0:5:6"))
    roll = f'matchId: "{match_id}" idempotencyKey: "k"'
    assert (await bob.command("roll", roll))["code"] == "NOT_YOUR_TURN"
    await ann.happens("move", f'matchId: "{match_id}" play: {{notation: "8/5 6/5"}}')
    assert (await bob.happens("roll", roll))["events"][0]["kind"] == "rolled"


@pytest.mark.parametrize(
    "key",
    ["", "x" * 101, "x" * 90_000, "é" * 101],
    ids=["empty", "101", "90 kB", "101 of é"],
)
async def test_a_key_has_1_to_100_characters(guest: Guest, key: str) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob)
    for verb, arguments in ALL.items():
        given = arguments.replace("{match}", match_id)
        query = f"mutation($k: String) {{ {verb}({given} idempotencyKey: $k) {{ __typename }} }}"
        assert code(await ann.post(query, {"k": key})) == "BAD_INPUT", verb
    assert (await ann.match(match_id))["version"] == 3


@pytest.mark.parametrize(
    "key", ["x", "x" * 100, "é" * 100, " ", "\x00", "'", "🎲" * 100], ids=lambda key: f"{key[:1]!r} {len(key)}"
)
async def test_a_key_may_be_any_text(guest: Guest, key: str) -> None:
    ann = await guest("Ann")
    query = f"mutation($k: String) {{ createMatch(settings: {{length: 1}}, idempotencyKey: $k) {{ {ANSWER} }} }}"
    assert await ann.ask(query, k=key) == await ann.ask(query, k=key)


# fifty at once


async def test_fifty_identical_commands_with_one_key_take_effect_once(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob)
    command = f'matchId: "{match_id}" idempotencyKey: "{uuid.uuid4()}"'
    answers = await asyncio.gather(*(ann.happens("roll", command) for _ in range(50)))
    assert all(answer == answers[0] for answer in answers)
    log = await ann.log(match_id)
    assert len(log) == 3 + len(answers[0]["events"])
    assert [event["kind"] for event in log].count("rolled") == 1


async def test_fifty_identical_creations_with_one_key_create_one_match(guest: Guest) -> None:
    ann = await guest("Ann")
    command = f'settings: {{length: 1}} idempotencyKey: "{uuid.uuid4()}"'
    answers = await asyncio.gather(*(ann.happens("createMatch", command) for _ in range(50)))
    assert all(answer == answers[0] for answer in answers)
    query = "query($p: ID!) { matches(filter: {player: $p}) { edges { node { id } } } }"
    edges = (await ann.ask(query, p=ann.player_id))["matches"]["edges"]
    assert [edge["node"]["id"] for edge in edges] == [answers[0]["match"]["id"]]


async def test_of_fifty_commands_with_one_key_and_different_input_one_takes_effect(guest: Guest) -> None:
    ann = await guest("Ann")
    key = uuid.uuid4()
    answers = await asyncio.gather(
        *(ann.command("createMatch", f'settings: {{length: {n}}} idempotencyKey: "{key}"') for n in range(1, 51))
    )
    assert [answer.get("code") for answer in answers].count("KEY_REUSED") == 49
    query = "query($p: ID!) { matches(filter: {player: $p}) { edges { cursor } } }"
    assert len((await ann.ask(query, p=ann.player_id))["matches"]["edges"]) == 1


@pytest.mark.parametrize("guard", ["", "expectedVersion: 3"], ids=["unguarded", "guarded"])
async def test_of_fifty_identical_commands_without_a_key_one_takes_effect(guest: Guest, guard: str) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob)
    answers = await asyncio.gather(*(ann.command("roll", f'matchId: "{match_id}" {guard}') for _ in range(50)))
    happened = [answer for answer in answers if answer["__typename"] == "Happened"]
    assert len(happened) == 1
    refusals = {answer["code"] for answer in answers if answer["__typename"] == "Refusal"}
    assert refusals <= ({"STALE_VERSION"} if guard else {"ALREADY_ROLLED", "NOT_YOUR_TURN"})
    assert len(await ann.log(match_id)) == 3 + len(happened[0]["events"])


async def test_of_fifty_different_plays_of_one_roll_one_is_made(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob, SPREAD)
    legal = (await ann.match(match_id, "legalPlays { moves }"))["legalPlays"]
    plays = [play["moves"] for play in legal[:: len(legal) // 50]][:50]
    answers = await asyncio.gather(
        *(ann.command("move", f'matchId: "{match_id}" play: {{moves: {play}}}') for play in plays)
    )
    made = [play for play, answer in zip(plays, answers, strict=True) if answer["__typename"] == "Happened"]
    assert len(made) == 1
    assert {answer["code"] for answer in answers if "code" in answer} == {"NOT_YOUR_TURN"}
    log = await ann.log(match_id)
    assert [event["kind"] for event in log[3:]] == ["moved"]
    assert log[3]["play"] == made[0]


async def test_of_fifty_different_commands_for_one_version_one_takes_effect(guest: Guest) -> None:
    """Roll, double, and both sides' resignations, all of which are legal there."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob)
    commands = [
        (ann, "roll", ""), (ann, "double", ""), (ann, "resign", "stake: SINGLE"), (bob, "resign", "stake: GAMMON"),
        (bob, "resign", "stake: SINGLE"),
    ] * 10  # fmt: skip
    answers = await asyncio.gather(
        *(
            player.command(verb, f'matchId: "{match_id}" expectedVersion: 3 {arguments}')
            for player, verb, arguments in commands
        )
    )
    happened = [answer for answer in answers if answer["__typename"] == "Happened"]
    assert len(happened) == 1
    assert {answer["code"] for answer in answers if "code" in answer} == {"STALE_VERSION"}
    log = await ann.log(match_id)
    assert [event["seq"] for event in log[3:]] == [event["seq"] for event in happened[0]["events"]]
    assert (await ann.match(match_id, STATE))["version"] == len(log)


# what is refused over HTTP is refused over a websocket


async def test_a_websocket_judges_commands_alike(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await started(ann, bob)
    for client, expected in ((bob, "NOT_YOUR_TURN"), (anonymous, None)):
        socket = await client.open_socket()
        async with socket:
            query = f'mutation {{ roll(matchId: "{match_id}") {{ {ANSWER} }} }}'
            await socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": {"query": query}}))
            payload = json.loads(await socket.recv())["payload"]
        if expected:
            assert payload["data"]["roll"]["code"] == expected
        else:
            assert code(payload) == "UNAUTHENTICATED"
    assert (await ann.match(match_id))["version"] == 3


async def test_an_unknown_match_has_no_events_to_watch(server: Server) -> None:
    for match_id in UNKNOWN.values():
        if len(match_id) > 50_000:
            continue
        async with connect(server.url.replace("http", "ws", 1), subprotocols=["graphql-transport-ws"]) as socket:
            await socket.send(json.dumps({"type": "connection_init"}))
            assert json.loads(await socket.recv())["type"] == "connection_ack"
            query = "subscription($id: ID!) { matchEvents(matchId: $id) { seq } }"
            payload = {"query": query, "variables": {"id": match_id}}
            await socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": payload}))
            message = json.loads(await socket.recv())
            errors = message["payload"] if message["type"] == "error" else message["payload"]["errors"]
            assert [error["extensions"]["code"] for error in errors] == ["MATCH_NOT_FOUND"]


# what might hurt a server


async def test_a_key_brings_back_the_same_answer_after_a_restart(spare: Server, spare_guest: Guest) -> None:
    ann, bob = await spare_guest("Ann"), await spare_guest("Bob")
    done = await keyed(ann, bob)
    spare.kill()
    spare.start()
    for player, verb, arguments, answer in done:
        assert await player.command(verb, arguments) == answer, verb


async def test_the_longest_answer_of_a_command_comes_at_once(spare: Server, spare_guest: Guest) -> None:
    """Promise 9: one command may be followed by two thousand events, each with a match that has a log."""
    ann, bob = await spare_guest("Ann"), await spare_guest("Bob")
    dancing = "25:1 6:2 5:2 4:2 3:2 2:2"
    query = f"mutation($s: SettingsInput!) {{ createMatch(settings: $s) {{ {ANSWER} }} }}"
    settings = {"sandbox": {"start": xgid("0:0:1:00:0:0:0:5:0", dancing, dancing), "dice": [[6, 6]] * 1000}}
    match_id = (await ann.ask(query, s=settings))["createMatch"]["match"]["id"]
    fields = '... on Happened { events { match { events(first: 1, after: "1000") { edges { cursor } } } } }'
    async with at_once(spare, 2 * AT_ONCE):
        await bob.post(f'mutation {{ joinMatch(matchId: "{match_id}") {{ {fields} }} }}')


async def test_no_query_keeps_the_others_waiting(spare: Server, spare_guest: Guest) -> None:
    """Promise 9: whatever one query asks for, it is refused or served, and meanwhile the server answers everybody."""
    ann, bob = await spare_guest("Ann"), await spare_guest("Bob")
    query = f"mutation($s: SettingsInput!) {{ createMatch(settings: $s) {{ {ANSWER} }} }}"
    settings = {"sandbox": {"start": SPREAD, "dice": [[3, 1]] * 1000}}
    for _ in range(20):
        match_id = (await ann.ask(query, s=settings))["createMatch"]["match"]["id"]
        await bob.happens("joinMatch", f'matchId: "{match_id}"')
    for field in ("settings { sandbox { dice } }", "legalPlays { notation moves }", "destinations { dice moves }"):
        fields = " ".join(f"a{n}: {field}" for n in range(25))
        asking = asyncio.create_task(ann.post(f"{{ matches(first: 100) {{ edges {{ node {{ {fields} }} }} }} }}"))
        try:
            for _ in range(5):
                async with at_once(spare):
                    await bob.ask("{ me { id } }")
        finally:
            asking.cancel()


async def test_a_database_that_cannot_be_used_is_said_to_be_so_whoever_asks(spare: Server, spare_guest: Guest) -> None:
    """UNAVAILABLE, with a token and without; a websocket is closed with a word."""
    ann = await spare_guest("Ann")
    spare.kill()
    spare.start()
    anonymous = Client(spare.url)
    await anonymous.ask("{ limits { name } }")
    with closing(sqlite3.connect(spare.database)) as database:
        database.execute("ALTER TABLE players RENAME TO gone")
    query = {"query": f'{{ player(id: "{ann.player_id}") {{ id }} }}'}
    assert code(await anonymous.post(query["query"])) == "UNAVAILABLE"
    await anonymous.close()
    async with httpx2.AsyncClient(verify=False) as wire:
        answer = await wire.post(spare.url, json=query, headers={"authorization": f"Bearer {ann.token}"})
    assert answer.headers["content-type"] == JSON
    assert code(answer.json()) == "UNAVAILABLE"
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    async with connect(spare.url.replace("http", "ws", 1), subprotocols=["graphql-transport-ws"]) as socket:
        payload = {"authorization": f"Bearer {ann.token}"}
        await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
        async with asyncio.timeout(10):
            await socket.wait_closed()
        assert socket.close_code != 1006


@pytest.mark.parametrize("field", ["finishedAfter", "finishedBefore"])
@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_a_time_beyond_all_years_is_bad_input(guest: Guest, field: str, time: str) -> None:
    answer = await (await guest("Ann")).post(f'{{ matches(filter: {{{field}: "{time}"}}) {{ edges {{ cursor }} }} }}')
    assert [error["extensions"]["code"] for error in answer["errors"]] == ["BAD_INPUT"]
