"""Invitations: who may join which match, by which code; and that a private match is nowhere to be seen by others."""

import asyncio
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests.client import ANSWER, Client
from tests.server import Server
from tests.service.test_websocket import acknowledged, asked, heard, subscribe

Guest = Callable[[str], Awaitable[Client]]

INVITE = "__typename ... on Invitation { joinCode expiresAt link } ... on Refusal { code message }"


async def unlisted(client: Client) -> tuple[str, str]:
    """A match of the client's that waits, and the code to join it by."""
    match_id = await client.create("{length: 1, visibility: UNLISTED}")
    return match_id, (await client.match(match_id, "invitation { joinCode }"))["invitation"]["joinCode"]


async def refused(client: Client, verb: str, arguments: str) -> str:
    answer = await client.command(verb, arguments)
    assert answer["__typename"] == "Refusal", answer
    code: str = answer["code"]
    return code


async def invite(client: Client, match_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.ask(f'mutation {{ invite(matchId: "{match_id}") {{ {INVITE} }} }}'))[
        "invite"
    ]
    return answer


async def test_an_unlisted_match_is_joined_by_its_code_alone(guest: Guest, anonymous: Client) -> None:
    ann, bob, eve = await guest("Ann"), await guest("Bob"), await guest("Eve")
    match_id, code = await unlisted(ann)
    assert len(set(code)) > 3
    assert await refused(bob, "joinMatch", f'matchId: "{match_id}"') == "CODE_NEEDED"
    assert await refused(bob, "joinMatch", 'code: "2222222222"') == "CODE_UNKNOWN"
    other, _ = await unlisted(ann)
    assert await refused(bob, "joinMatch", f'matchId: "{other}" code: "{code}"') == "CODE_UNKNOWN"
    assert await refused(ann, "joinMatch", f'code: "{code}"') == "ALREADY_SEATED"
    joined = await bob.happens("joinMatch", f'code: "{code}"')
    assert (joined["match"]["id"], joined["match"]["phase"]) == (match_id, "TO_PLAY")
    assert await refused(eve, "joinMatch", f'code: "{code}"') == "SEATS_TAKEN", "a code is good for one"
    assert await refused(bob, "joinMatch", f'code: "{code}"') == "ALREADY_SEATED"


@pytest.mark.parametrize("spelling", ["{0}", "{1}", "{2}", "https://videau.example/join/{0}"])
async def test_a_code_may_be_written_as_it_was_told(guest: Guest, spelling: str) -> None:
    match_id, code = await unlisted(await guest("Ann"))
    written = spelling.format(code, code.upper(), f" {code[:5]}-{code[5:]} ")
    joined = await (await guest("Bob")).happens("joinMatch", f"code: {json.dumps(written)}")
    assert joined["match"]["id"] == match_id


async def test_whoever_has_a_code_may_look_before_joining(guest: Guest, anonymous: Client) -> None:
    match_id, code = await unlisted(await guest("Ann"))
    query = f'{{ invitation(code: "{code}") {{ id settings {{ length }} white {{ player {{ name }} }} }} }}'
    found = (await anonymous.ask(query))["invitation"]
    assert found == {"id": match_id, "settings": {"length": 1}, "white": {"player": {"name": "Ann"}}}
    unknown = await anonymous.post('{ invitation(code: "xxxxxxxxxx") { id } }')
    assert [error["extensions"]["code"] for error in unknown["errors"]] == ["CODE_UNKNOWN"]


async def test_the_code_is_told_to_who_opened_the_match_alone(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, code = await unlisted(ann)
    for caller in (bob, anonymous):
        assert await caller.match(match_id, "invitation { joinCode }") == {"invitation": None}
    await bob.happens("joinMatch", f'code: "{code}"')
    for caller in (ann, bob):
        assert await caller.match(match_id, "invitation { joinCode }") == {"invitation": None}
    for event in await ann.log(match_id):
        assert code not in json.dumps(event)


async def test_a_new_code_replaces_the_one_before(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, old = await unlisted(ann)
    new = await invite(ann, match_id)
    assert new["link"] == f"/join/{new['joinCode']}"
    assert await refused(bob, "joinMatch", f'code: "{old}"') == "CODE_UNKNOWN"
    assert (await invite(bob, match_id))["code"] == "NOT_SEATED"
    assert (await bob.happens("joinMatch", f'code: "{new["joinCode"]}"'))["match"]["id"] == match_id
    assert (await invite(ann, match_id))["code"] == "SEATS_TAKEN"
    public = await ann.create("{length: 1}")
    assert (await invite(ann, public))["code"] == "INVALID_SETTINGS"


async def test_a_code_expires(server: Server, guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, code = await unlisted(ann)
    expires = (await ann.match(match_id, "invitation { expiresAt }"))["invitation"]["expiresAt"]
    assert timedelta(days=6) < datetime.fromisoformat(expires) - datetime.now(UTC) < timedelta(days=8)
    with closing(sqlite3.connect(server.database)) as database:  # a week goes by
        database.execute("UPDATE invitations SET expires_at = '2020-01-01T00:00:00.000000Z' WHERE code = ?", [code])
        database.commit()
    assert await refused(bob, "joinMatch", f'code: "{code}"') == "CODE_EXPIRED"
    again = await invite(ann, match_id)
    await bob.happens("joinMatch", f'code: "{again["joinCode"]}"')


async def test_two_with_one_code_at_once_are_one_player_and_one_refusal(guest: Guest) -> None:
    players = [await guest(name) for name in ("Bob", "Cleo", "Dan", "Eve")]
    _, code = await unlisted(await guest("Ann"))
    answers = await asyncio.gather(*(player.command("joinMatch", f'code: "{code}"') for player in players))
    assert sorted(answer.get("code", "joined") for answer in answers) == ["SEATS_TAKEN"] * 3 + ["joined"]


async def test_a_match_that_waits_is_cancelled_by_who_opened_it(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, code = await unlisted(ann)
    assert await refused(bob, "cancelMatch", f'matchId: "{match_id}"') == "NOT_SEATED"
    cancelled = await ann.happens("cancelMatch", f'matchId: "{match_id}"')
    assert (cancelled["match"]["phase"], cancelled["match"]["winner"]) == ("CANCELLED", None)
    assert cancelled["match"]["allowedActions"] == []
    for client, verb, arguments in (
        (bob, "joinMatch", f'code: "{code}"'),
        (ann, "cancelMatch", f'matchId: "{match_id}"'),
        (ann, "roll", f'matchId: "{match_id}"'),
        (ann, "resign", f'matchId: "{match_id}" stake: MATCH'),
        (ann, "rematch", f'matchId: "{match_id}"'),
    ):
        assert await refused(client, verb, arguments) == "MATCH_CANCELLED", verb
    begun = await ann.create("{length: 1}")
    await bob.happens("joinMatch", f'matchId: "{begun}"')
    assert await refused(ann, "cancelMatch", f'matchId: "{begun}"') == "STARTED_ALREADY"


async def test_new_codes_at_once_are_each_a_code(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id, _ = await unlisted(ann)
    answers = await asyncio.gather(*(invite(ann, match_id) for _ in range(8)))
    codes = [answer["joinCode"] for answer in answers]
    newest = (await ann.match(match_id, "invitation { joinCode }"))["invitation"]["joinCode"]
    assert newest in codes
    for code in set(codes) - {newest}:
        assert await refused(bob, "joinMatch", f'code: "{code}"') == "CODE_UNKNOWN"
    assert (await bob.happens("joinMatch", f'code: "{newest}"'))["match"]["id"] == match_id


async def test_a_player_has_so_many_matches_waiting_and_no_more(guest: Guest) -> None:
    ann = await guest("Ann")
    create = "mutation { " + " ".join(f"a{n}: createMatch(settings: {{length: 1}}) {{ __typename }}" for n in range(20))
    for _ in range(10):
        assert set(map(str, (await ann.ask(create + " }")).values())) == {"{'__typename': 'Happened'}"}
    assert await refused(ann, "createMatch", "settings: {length: 1}") == "TOO_MANY_MATCHES"
    waiting = "{ matches(first: 1, filter: {status: WAITING}) { edges { node { id } } } }"
    one = (await ann.ask(waiting))["matches"]["edges"][0]["node"]["id"]
    await ann.happens("cancelMatch", f'matchId: "{one}"')
    await ann.create("{length: 1}")


async def test_a_private_match_is_for_one_opponent_who_may_decline(guest: Guest) -> None:
    ann, bob, eve = await guest("Ann"), await guest("Bob"), await guest("Eve")
    settings = "settings: {length: 1, visibility: PRIVATE}"
    assert await refused(ann, "createMatch", settings) == "INVALID_SETTINGS"
    assert await refused(ann, "createMatch", f'{settings} opponent: "nobody"') == "PLAYER_NOT_FOUND"
    assert await refused(ann, "createMatch", f'{settings} opponent: "{ann.player_id}"') == "ALREADY_SEATED"
    public = f'settings: {{length: 1}} opponent: "{bob.player_id}"'
    assert await refused(ann, "createMatch", public) == "INVALID_SETTINGS"
    first, second = [
        await ann.create("{length: 1, visibility: PRIVATE}", f', opponent: "{bob.player_id}"') for _ in range(2)
    ]
    query = "{ matches(filter: {invited: true}) { edges { node { id white { player { name } } invited { name } } } } }"
    nodes = [edge["node"] for edge in (await bob.ask(query))["matches"]["edges"]]
    assert [node["id"] for node in nodes] == [second, first]
    assert nodes[0]["invited"] == {"name": "Bob"}
    assert (await bob.match(first))["allowedActions"] == ["JOIN", "DECLINE"]
    assert await refused(eve, "joinMatch", f'matchId: "{first}"') == "MATCH_NOT_FOUND"
    assert await refused(eve, "declineMatch", f'matchId: "{first}"') == "MATCH_NOT_FOUND"
    assert await refused(ann, "declineMatch", f'matchId: "{first}"') == "NOT_INVITED"
    declined = await bob.happens("declineMatch", f'matchId: "{first}"')
    assert (declined["match"]["phase"], declined["events"][-1]["kind"]) == ("CANCELLED", "cancelled")
    assert await refused(bob, "joinMatch", f'matchId: "{first}"') == "MATCH_CANCELLED"
    assert [edge["node"]["id"] for edge in (await bob.ask(query))["matches"]["edges"]] == [second], "what still waits"
    assert (await bob.happens("joinMatch", f'matchId: "{second}"'))["match"]["phase"] == "TO_PLAY"
    assert (await bob.ask(query))["matches"]["edges"] == []
    assert await refused(bob, "declineMatch", f'matchId: "{second}"') == "STARTED_ALREADY"


async def test_the_link_leads_to_a_page_for_people(server: Server, guest: Guest) -> None:
    _, code = await unlisted(await guest("<b>Ann & Co</b>"))
    async with httpx2.AsyncClient(base_url=server.base) as http:
        page = await http.get(f"/join/{code}")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "&lt;b&gt;Ann &amp; Co&lt;/b&gt; invites you" in page.text
        assert code in page.text
        unknown = await http.get("/join/xxxxxxxxxx")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "CODE_UNKNOWN")


# a private match is nowhere to be seen

OF_NO_MATCH = {"registerGuest", "createMatch", "limits", "codes", "me", "cancelSeek", "invitation"}
"""What tells of no match that its caller does not know: the caller's own things, what is so for all, and a code's."""


async def test_others_find_a_private_match_nowhere(server: Server, guest: Guest, anonymous: Client) -> None:
    """DESIGN.md promise 8: every query, list, feed, export and subscription that the schema and the routes have."""
    ann, bob, eve = await guest("Ann"), await guest("Bob"), await guest("Eve")
    match_id = await ann.create("{length: 1, visibility: PRIVATE, rated: true}", f', opponent: "{bob.player_id}"')
    states = ["waiting", "playing", "over", "rematch"]
    for state in states:
        if state == "playing":
            await bob.happens("joinMatch", f'matchId: "{match_id}"')
        elif state == "over":
            await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH')
        elif state == "rematch":
            await ann.happens("rematch", f'matchId: "{match_id}"')
            await bob.happens("rematch", f'matchId: "{match_id}"')
        for stranger in (eve, anonymous):
            for text in await everything_told(server, stranger, match_id, [ann.player_id or "", bob.player_id or ""]):
                assert match_id not in text, (state, text[:300])
    series = "{ id series { id scores { points } matches { edges { node { id } } } } }"
    found = (await ann.ask(f'{{ match(id: "{match_id}") {series} }}'))["match"]["series"]
    assert len(found["matches"]["edges"]) == 2


async def everything_told(server: Server, stranger: Client, match_id: str, players: list[str]) -> list[str]:
    """What a stranger is told by whatever could tell of a match; its own words are taken out of the answers."""
    told = []
    walked = {"matchEvents", "matchNotices", "lobby"}

    async def ask(query: str) -> None:
        walked.update(re.findall(r"^(?:mutation )?{ (\w+)", query))
        told.append(json.dumps(await stranger.post(query)).replace(f"'{match_id}'", "?"))

    await ask(f'{{ match(id: "{match_id}") {{ id }} }}')
    await ask(f'{{ match(id: "{match_id}", version: 1) {{ id }} }}')
    lists = ["", 'app: ""', *(f'player: "{player}"' for player in players)]
    lists += [f"status: {status}" for status in ("WAITING", "PLAYING", "FINISHED", "CANCELLED")]
    lists += ['finishedAfter: "2020-01-01T00:00:00Z"', "invited: true"]
    for each in lists:
        await ask(f"{{ matches(first: 100, filter: {{{each}}}) {{ edges {{ cursor node {{ id }} }} }} }}")
    for player in players:
        changes = "ratings(first: 100) { edges { cursor node { matchId at opponent { id } } } }"
        await ask(f'{{ player(id: "{player}") {{ id name rating {{ value }} {changes} }} }}')
    await ask(f"{{ leaderboard(first: 100) {{ edges {{ cursor node {{ id {changes} }} }} }} }}")
    await ask('{ seek(id: "1") { matchId } }')
    await ask("{ seeks(first: 100) { edges { node { id matchId } } } }")
    for verb in (
        "joinMatch",
        "declineMatch",
        "cancelMatch",
        "claimMatch",
        "roll",
        "double",
        "accept",
        "refuse",
        "rematch",
    ):
        await ask(f'mutation {{ {verb}(matchId: "{match_id}") {{ {ANSWER} }} }}')
    await ask(f'mutation {{ resign(matchId: "{match_id}", stake: MATCH) {{ {ANSWER} }} }}')
    await ask(f'mutation {{ move(matchId: "{match_id}", play: {{moves: []}}) {{ {ANSWER} }} }}')
    await ask(f'mutation {{ invite(matchId: "{match_id}") {{ {INVITE} }} }}')
    headers = {"authorization": f"Bearer {stranger.token}"} if stranger.token else {}
    async with httpx2.AsyncClient(base_url=server.base, headers=headers, timeout=30) as http:
        for path in ("/events", ".json", ".mat", ".sgf"):
            for accept in ("*/*", "text/event-stream"):
                response = await http.get(f"/matches/{match_id}{path}", headers={"accept": accept})
                assert response.status_code == 404, path
        response = await http.get("/events")
        assert response.status_code in (401, 403)
    async with acknowledged(server.url, stranger.token) as socket:
        for field in ("matchEvents", "matchNotices"):
            refused = await asked(socket, field, f'subscription {{ {field}(matchId: "{match_id}") {{ __typename }} }}')
            assert [error["extensions"]["code"] for error in refused["errors"]] == ["MATCH_NOT_FOUND"]
        await subscribe(socket, "lobby", 'subscription { lobby(app: "") { matchesListed { id } matchesUnlisted } }')
        told.append(json.dumps(await heard(socket)))
    kinds = "queryType { fields { name } } mutationType { fields { name } } subscriptionType { fields { name } }"
    schema = (await stranger.ask(f"{{ __schema {{ {kinds} }} }}"))["__schema"]
    fields = {field["name"] for kind in schema.values() for field in kind["fields"]}
    assert fields - OF_NO_MATCH == walked, "what is new in the schema is to be walked too"
    return told
