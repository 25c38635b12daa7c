"""What is told beside the log: who is there, who proposes a rematch; and matches claimed from who stays away."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection

from tests.client import Client
from tests.server import Server
from tests.service.test_websocket import SOON, acknowledged, heard, subscribe

Guest = Callable[[str], Awaitable[Client]]

NOTICES = """subscription($id: ID!) { matchNotices(matchId: $id) {
... on PresenceNotice { color presence { present awaySince } } ... on RematchNotice { proposedBy matchId } } }"""
WATCH = "subscription($id: ID!) { matchEvents(matchId: $id) { seq } }"
PRESENCE = "white { presence { present } } black { presence { present } }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server where a match may be claimed after two seconds."""
    running = Server(tmp_path_factory.mktemp("server"), VIDEAU_ABSENCE_SECONDS="2")
    running.start()
    yield running
    assert running.stop() == ""


async def played(white: Client, black: Client, more: str = "") -> str:
    """A match in which it is black's turn."""
    match_id = await white.create(f"{{length: 7, sandbox: {{dice: [[3, 1], [6, 4]]}} {more}}}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    await white.happens("move", f'matchId: "{match_id}" play: {{notation: "8/5 6/5"}}')
    return match_id


@asynccontextmanager
async def there(server: Server, client: Client, match_id: str) -> AsyncIterator[ClientConnection]:
    """The client watches the match."""
    async with acknowledged(server.url, client.token) as socket:
        await subscribe(socket, "w", WATCH, id=match_id)
        assert (await heard(socket))["type"] == "next"
        yield socket


async def notice(socket: ClientConnection) -> dict[str, Any]:
    told: dict[str, Any] = (await heard(socket))["payload"]["data"]["matchNotices"]
    return told


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """What comes of it, as soon as that is something."""
    async with asyncio.timeout(SOON):
        while not (found := await condition()):
            await asyncio.sleep(0.05)
    return found


async def test_watchers_are_told_who_is_there_and_who_has_gone(server: Server, guest: Guest) -> None:
    ann, bob, eve = await guest("Ann"), await guest("Bob"), await guest("Eve")
    match_id = await played(ann, bob)
    assert await eve.match(match_id, PRESENCE) == {"white": {"presence": None}, "black": {"presence": None}}
    async with acknowledged(server.url, eve.token) as socket:
        await subscribe(socket, "1", NOTICES, id=match_id)
        async with there(server, ann, match_id):
            assert await notice(socket) == {"color": "WHITE", "presence": {"present": True, "awaySince": None}}
            async with there(server, bob, match_id), there(server, bob, match_id):
                assert (await notice(socket))["color"] == "BLACK"
                assert (await eve.match(match_id, PRESENCE))["black"] == {"presence": {"present": True}}
            told = await notice(socket)
            assert (told["color"], told["presence"]["present"]) == ("BLACK", False)
            assert told["presence"]["awaySince"]
            async with there(server, bob, match_id):
                assert (await notice(socket))["presence"]["present"]
        kinds = {event["kind"] for event in await eve.log(match_id)}
        assert kinds == {"created", "joined", "rolled", "moved"}, "none of it is in the log"


async def test_a_page_that_is_reloaded_is_no_absence(server: Server, guest: Guest) -> None:
    ann, bob, eve = await guest("Ann"), await guest("Bob"), await guest("Eve")
    match_id = await played(ann, bob)
    async with acknowledged(server.url, eve.token) as socket:
        await subscribe(socket, "1", NOTICES, id=match_id)
        for _ in range(5):
            async with there(server, ann, match_id):
                pass
        async with there(server, ann, match_id), there(server, bob, match_id):
            assert [(await notice(socket))["color"] for _ in range(2)] == ["WHITE", "BLACK"]


async def test_a_stream_of_server_sent_events_is_a_presence_too(server: Server, guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await played(ann, bob)
    headers = {"accept": "text/event-stream", "authorization": f"Bearer {ann.token}"}

    async def ann_is_there() -> Any:
        return (await bob.match(match_id, PRESENCE))["white"]["presence"] == {"present": True}

    async with (
        httpx2.AsyncClient(base_url=server.base, headers=headers) as http,
        http.stream("GET", f"/matches/{match_id}/events"),
    ):
        await until(ann_is_there)


async def test_who_only_looks_on_is_no_presence(server: Server, guest: Guest) -> None:
    ann, bob, eve = await guest("Ann"), await guest("Bob"), await guest("Eve")
    match_id = await played(ann, bob)
    async with there(server, eve, match_id), there(server, ann, match_id):
        found = await until(lambda: eve.match(match_id, PRESENCE))
        assert found["black"] == {"presence": None}


async def test_a_rematch_is_told_when_it_is_proposed_and_when_it_starts(server: Server, guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await played(ann, bob)
    await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    async with acknowledged(server.url, bob.token) as socket:
        await subscribe(socket, "1", NOTICES, id=match_id)
        await ann.happens("rematch", f'matchId: "{match_id}"')
        assert await notice(socket) == {"proposedBy": "WHITE", "matchId": None}
        new = (await bob.happens("rematch", f'matchId: "{match_id}"'))["match"]["id"]
        assert await notice(socket) == {"proposedBy": "WHITE", "matchId": new}
    assert (await ann.match(new, "rematchOf"))["rematchOf"] == match_id
    assert (await ann.match(match_id, "rematch { match { id } }"))["rematch"]["match"]["id"] == new


async def test_a_series_has_the_score_of_all_its_matches(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await played(ann, bob)
    matches = [match_id]
    for loser in (bob, bob, ann):
        await loser.happens("resign", f'matchId: "{matches[-1]}" stake: MATCH')
        await ann.happens("rematch", f'matchId: "{matches[-1]}"')
        matches.append((await bob.happens("rematch", f'matchId: "{matches[-1]}"'))["match"]["id"])
    fields = "series { id scores { player { name } matches points } matches(first: 3) { edges { node { id } } } }"
    for each in matches:
        series = (await bob.match(each, fields))["series"]
        assert series["id"] == match_id
        assert series["scores"] == [
            {"player": {"name": "Ann"}, "matches": 2, "points": 14},
            {"player": {"name": "Bob"}, "matches": 1, "points": 7},
        ]
        assert [edge["node"]["id"] for edge in series["matches"]["edges"]] == matches[:0:-1]


async def test_a_match_is_claimed_from_who_stays_away(server: Server, guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await played(ann, bob)
    async with there(server, bob, match_id):
        await until(lambda: _is_there(ann, match_id))
        assert (await ann.match(match_id, "claimableAt"))["claimableAt"] is None
        refused = await ann.command("claimMatch", f'matchId: "{match_id}"')
        assert (refused["code"], refused["message"]) == ("OPPONENT_PRESENT", "your opponent is here")
    assert (await bob.command("claimMatch", f'matchId: "{match_id}"'))["code"] == "NOT_YOUR_TURN"

    async def claimed() -> Any:
        answer = await ann.command("claimMatch", f'matchId: "{match_id}"')
        assert answer["__typename"] == "Happened" or answer["code"] == "OPPONENT_PRESENT"
        return answer if answer["__typename"] == "Happened" else None

    answer = await until(claimed)
    assert (answer["match"]["winner"], answer["events"][-1]["kind"]) == ("WHITE", "claimed")
    assert (await ann.match(match_id, "results { end }"))["results"] == [{"end": "ABSENCE"}]
    assert server.videau("verify", match_id).returncode == 0


async def _is_there(client: Client, match_id: str) -> bool:
    presence = (await client.match(match_id, PRESENCE))["black"]["presence"]
    return bool(presence and presence["present"])


async def test_or_called_off_without_a_winner(guest: Guest) -> None:
    """Bob has never been there by a socket: his absence begins with his turn."""
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await played(ann, bob)
    assert (await ann.match(match_id, "claimableAt"))["claimableAt"]
    assert (await bob.match(match_id, "claimableAt"))["claimableAt"] is None
    early = await ann.command("claimMatch", f'matchId: "{match_id}" outcome: NO_RESULT')
    assert early["code"] == "OPPONENT_PRESENT"
    assert "a match is claimed after 2" in early["message"]

    async def settled() -> Any:
        answer = await ann.command("claimMatch", f'matchId: "{match_id}" outcome: NO_RESULT')
        return answer if answer["__typename"] == "Happened" else None

    answer = await until(settled)
    assert (answer["match"]["phase"], answer["match"]["winner"]) == ("CANCELLED", None)


async def test_a_match_with_a_clock_is_not_claimed(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    match_id = await played(ann, bob, "clock: {}")
    assert (await ann.match(match_id, "claimableAt"))["claimableAt"] is None
    assert (await ann.command("claimMatch", f'matchId: "{match_id}"'))["code"] == "CLOCK_RUNS"
