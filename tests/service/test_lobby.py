"""The lobby: seeks that fit are paired at once and once only, and whoever looks on sees them come and go."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from tests.client import Client, play_out
from tests.server import Server
from tests.service.test_websocket import SOON, acknowledged, code, heard, subscribe

Guest = Callable[[str], Awaitable[Client]]

SEEK = "id length rated expiresAt matchId clock { reserve delay } player { name }"
ANSWER = (
    f"__typename ... on Seek {{ {SEEK} match {{ id phase white {{ player {{ id }} }} black {{ player {{ id }} }} }} }} "
)
ANSWER += "... on Refusal { code message }"
LOBBY = f"""subscription($app: String) {{ lobby(app: $app) {{ seeksOpened {{ {SEEK} }} seeksClosed {{ {SEEK} }}
matchesListed {{ id phase white {{ score }} }} matchesUnlisted }} }}"""


async def seek(client: Client, arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.ask(f"mutation {{ seek({arguments}) {{ {ANSWER} }} }}"))["seek"]
    return answer


async def cancel(client: Client, seek_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.ask(f'mutation {{ cancelSeek(id: "{seek_id}") {{ {ANSWER} }} }}'))[
        "cancelSeek"
    ]
    return answer


async def listed(client: Client, arguments: str = "") -> list[str]:
    query = f"{{ seeks(first: 100 {arguments}) {{ edges {{ node {{ id }} }} }} }}"
    return [edge["node"]["id"] for edge in (await client.ask(query))["seeks"]["edges"]]


@pytest.fixture
async def two(guest: Guest) -> AsyncIterator[tuple[Client, Client]]:
    """Two guests, who leave nothing open behind them."""
    ann, bob = await guest("Ann"), await guest("Bob")
    yield ann, bob
    for player in (ann, bob):
        for seek_id in await listed(player, "mine: true"):
            await cancel(player, seek_id)


TERMS = [
    "length: 5",
    "length: null",
    "length: 7, clock: {}",
    "length: 7, clock: {reserve: 60, delay: 10}",
    "length: 3, clock: {daysPerTurn: 2}",
    "length: 5, rated: true",
]


@pytest.mark.parametrize("terms", TERMS)
async def test_two_who_seek_the_same_play_at_once(two: tuple[Client, Client], terms: str) -> None:
    ann, bob = two
    opened = await seek(ann, terms)
    assert opened["matchId"] is None
    assert await listed(bob) == [opened["id"]]
    paired = await seek(bob, terms)
    match = paired["match"]
    assert match["phase"] == "TO_PLAY"
    assert (match["white"]["player"]["id"], match["black"]["player"]["id"]) == (ann.player_id, bob.player_id)
    assert await listed(ann) == []
    query = f'{{ seek(id: "{opened["id"]}") {{ matchId }} }}'
    assert (await ann.ask(query))["seek"]["matchId"] == match["id"]
    kinds = [event["kind"] for event in await ann.log(match["id"])]
    assert kinds[:3] == ["created", "joined", "joined"]


async def test_seeks_of_other_terms_wait_beside_each_other(two: tuple[Client, Client]) -> None:
    ann, bob = two
    opened = [await seek(player, terms) for player, terms in zip((ann, bob) * 3, TERMS, strict=True)]
    assert [each["matchId"] for each in opened] == [None] * 6
    assert sorted(await listed(ann)) == sorted(each["id"] for each in opened)


async def test_nobody_plays_against_oneself(two: tuple[Client, Client]) -> None:
    ann, _ = two
    assert [(await seek(ann, "length: 5"))["matchId"] for _ in range(3)] == [None] * 3


async def test_a_player_has_few_seeks_open(two: tuple[Client, Client]) -> None:
    ann, bob = two
    for length in range(1, 6):
        assert (await seek(ann, f"length: {length}"))["__typename"] == "Seek"
    refused = await seek(ann, "length: 6")
    assert (refused["__typename"], refused["code"]) == ("Refusal", "TOO_MANY_SEEKS")
    await seek(bob, "length: 6")
    assert (await seek(ann, "length: 6"))["matchId"], "a seek that is paired at once is not one too many"


async def test_a_key_makes_a_seek_safe_to_repeat(two: tuple[Client, Client]) -> None:
    ann, bob = two
    first, again = await asyncio.gather(*(seek(ann, 'length: 5, idempotencyKey: "k"') for _ in range(2)))
    assert first["id"] == again["id"]
    for other in ("length: 7", "length: 5, seconds: 60", "length: 5, autoRoll: false", 'length: 5, entropy: "x"'):
        assert (await seek(ann, f'{other}, idempotencyKey: "k"'))["code"] == "KEY_REUSED", other
    paired = await seek(bob, "length: 5")
    assert (await seek(ann, 'length: 5, idempotencyKey: "k"'))["matchId"] == paired["matchId"]


async def test_a_seek_that_was_cancelled_stays_so_when_it_is_sent_again(two: tuple[Client, Client]) -> None:
    ann, bob = two
    opened = await seek(ann, 'length: 5, idempotencyKey: "k"')
    await cancel(ann, opened["id"])
    assert (await seek(ann, 'length: 5, idempotencyKey: "k"'))["id"] == opened["id"]
    assert (await seek(bob, "length: 5"))["matchId"] is None


async def test_a_seek_is_cancelled_by_its_player_alone(two: tuple[Client, Client]) -> None:
    ann, bob = two
    opened = await seek(ann, "length: 5")
    assert (await cancel(bob, opened["id"]))["code"] == "SEEK_NOT_FOUND"
    assert (await cancel(ann, opened["id"]))["matchId"] is None
    assert (await cancel(ann, opened["id"]))["matchId"] is None, "cancelling twice is cancelling once"
    assert (await seek(bob, "length: 5"))["matchId"] is None
    paired = await seek(ann, "length: 5")
    assert (await cancel(ann, paired["id"]))["matchId"] == paired["matchId"], "it is too late"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("length: 100", "INVALID_SETTINGS"),
        ("length: null, rated: true", "INVALID_SETTINGS"),
        ("length: 5, clock: {reserve: -1}", "INVALID_SETTINGS"),
        ("length: 5, clock: {reserve: 0, delay: 0}", "INVALID_SETTINGS"),
        ('length: 5, entropy: "é"', "INVALID_ENTROPY"),
    ],
)
async def test_what_could_not_be_played_is_not_sought(two: tuple[Client, Client], arguments: str, code: str) -> None:
    assert (await seek(two[0], arguments))["code"] == code


@pytest.mark.parametrize("arguments", ["length: 5, seconds: 4", "length: 5, clock: {daysPerTurn: 31}"])
async def test_bad_input_is_named(two: tuple[Client, Client], arguments: str) -> None:
    answer = await two[0].post(f"mutation {{ seek({arguments}) {{ {ANSWER} }} }}")
    assert answer["errors"][0]["extensions"]["code"] == "BAD_INPUT"


async def test_seeks_are_listed_page_by_page(two: tuple[Client, Client]) -> None:
    ann, bob = two
    opened = [(await seek(ann, f"length: {length}"))["id"] for length in (1, 2, 3)]
    found, after = [], ""
    while True:
        query = f"{{ seeks(first: 2 {after}) {{ edges {{ node {{ id }} }} pageInfo {{ hasNextPage endCursor }} }} }}"
        page = (await bob.ask(query))["seeks"]
        found += [edge["node"]["id"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            break
        after = f"after: {json.dumps(page['pageInfo']['endCursor'])}"
    assert found == opened[::-1]


async def test_the_lobby_shows_what_comes_and_goes(server: Server, two: tuple[Client, Client]) -> None:
    ann, bob = two
    early = await seek(ann, "length: 9")
    async with acknowledged(server.url, bob.token) as socket:
        await subscribe(socket, "1", LOBBY)
        first = (await heard(socket))["payload"]["data"]["lobby"]
        assert early["id"] in [each["id"] for each in first["seeksOpened"]]

        async def change(what: str) -> dict[str, Any]:
            async with asyncio.timeout(SOON):
                while True:
                    update: dict[str, Any] = (await heard(socket))["payload"]["data"]["lobby"]
                    if update[what]:
                        return update

        opened = await seek(ann, "length: 5")
        [seen] = (await change("seeksOpened"))["seeksOpened"]
        assert (seen["id"], seen["length"], seen["player"]["name"]) == (opened["id"], 5, "Ann")
        paired = await seek(bob, "length: 5")
        update = await change("seeksClosed")
        assert [(each["id"], each["matchId"]) for each in update["seeksClosed"]] == [(opened["id"], paired["matchId"])]
        if not update["matchesListed"]:
            update = await change("matchesListed")
        assert [each["id"] for each in update["matchesListed"]] == [paired["matchId"]]
        await ann.happens("resign", f'matchId: "{paired["matchId"]}" stake: MATCH')
        assert (await change("matchesUnlisted"))["matchesUnlisted"] == [paired["matchId"]]
        waiting = await ann.create("{length: 1}")
        assert [each["id"] for each in (await change("matchesListed"))["matchesListed"]] == [waiting]
        await ann.create("{length: 1, visibility: UNLISTED}")
        await ann.happens("cancelMatch", f'matchId: "{waiting}"')
        update = await change("matchesUnlisted")
        assert (update["matchesUnlisted"], update["matchesListed"]) == ([waiting], [])


async def test_an_expired_seek_is_nobodys_opponent(two: tuple[Client, Client], server: Server) -> None:
    ann, bob = two
    async with acknowledged(server.url, bob.token) as socket:
        await subscribe(socket, "1", LOBBY)
        await heard(socket)
        opened = await seek(ann, "length: 5, seconds: 5")
        async with asyncio.timeout(30):
            while True:
                update = (await heard(socket))["payload"]["data"]["lobby"]
                if update["seeksClosed"]:
                    break
    assert [(each["id"], each["matchId"]) for each in update["seeksClosed"]] == [(opened["id"], None)]
    assert (await seek(bob, "length: 5"))["matchId"] is None


async def test_matches_are_filtered_and_pages_stay_while_new_ones_come(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    finished = []
    for _ in range(3):
        match_id = await ann.create("{length: 1}")
        await bob.happens("joinMatch", f'matchId: "{match_id}"')
        await play_out(random.Random(1), match_id, ann, bob, turns=1)
        await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH')
        finished.append(match_id)
    open_ = await ann.create("{length: 1}")
    times = [(await anonymous.match(match_id, "updatedAt"))["updatedAt"] for match_id in finished]

    async def found(filter_: str, more: str = "") -> list[str]:
        query = f'{{ matches(filter: {{player: "{ann.player_id}" {filter_}}} {more}) {{ edges {{ node {{ id }} }} }} }}'
        return [edge["node"]["id"] for edge in (await anonymous.ask(query))["matches"]["edges"]]

    assert await found("status: FINISHED") == finished[::-1]
    assert await found("status: WAITING") == [open_]
    assert await found('app: ""') == [open_, *finished[::-1]]
    assert await found('app: "wood"') == []
    assert await found(f'finishedAfter: "{times[1]}"') == [finished[2], finished[1]]
    assert await found(f'finishedAfter: "{times[0]}" finishedBefore: "{times[2]}"') == [finished[1], finished[0]]
    query = f'{{ matches(first: 2 filter: {{player: "{ann.player_id}"}}) {{ pageInfo {{ endCursor }} }} }}'
    cursor = (await anonymous.ask(query))["matches"]["pageInfo"]["endCursor"]
    before = await found("", f"after: {json.dumps(cursor)}")
    newer = [await ann.create("{length: 1}") for _ in range(3)]
    assert await found("", f"after: {json.dumps(cursor)}") == before == finished[1::-1]
    await ann.happens("cancelMatch", f'matchId: "{newer[0]}"')
    assert await found("status: CANCELLED") == [newer[0]]
    async with aclosing(anonymous.watch(newer[0])) as events:
        assert [event["kind"] async for event in events][-1] == "cancelled"


async def test_a_lobby_with_everything_is_too_costly(server: Server) -> None:
    fairness = " ".join(f"a{n}: fairness {{ whole }}" for n in range(9))
    async with acknowledged(server.url) as socket:
        query = f"subscription {{ lobby {{ matchesListed {{ {fairness} }} }} }}"
        assert await code(socket, "1", query) == "QUERY_TOO_COSTLY"
        assert await code(socket, "2", 'subscription { lobby(app: "a\\u0000b") { matchesUnlisted } }') == "BAD_INPUT"
