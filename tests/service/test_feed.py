"""The feed of all matches, for operators: one order, pages, live, and what others are told."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.client import Client, play_out
from tests.server import Server


@pytest.fixture(scope="module")
def token(server: Server) -> str:
    """An operator's."""
    return server.videau("token", "Olga").stdout.strip()


@pytest.fixture
async def operator(server: Server, token: str) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"authorization": f"Bearer {token}"}
    base = server.url.removesuffix("/graphql")
    async with httpx2.AsyncClient(base_url=base, timeout=30, headers=headers) as client:
        yield client


async def played(guest: Any, settings: str = "{length: 1}") -> tuple[str, Client]:
    """A finished match, and one of its players."""
    white, black = await guest("Ann"), await guest("Bob")
    invited = f', opponent: "{black.player_id}"' if "PRIVATE" in settings else ""
    match_id = await white.create(settings, invited)
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    await play_out(random.Random(7), match_id, white, black)
    return match_id, white


def lines(response: httpx2.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


async def test_the_feed_has_every_event_of_every_match_once_and_in_order(operator: httpx2.AsyncClient, guest) -> None:
    matches = await asyncio.gather(
        *(played(guest) for _ in range(3)), played(guest, "{length: 1, visibility: PRIVATE}")
    )
    fed: list[dict[str, Any]] = []
    while page := lines(await operator.get("/events", params={"after": len(fed), "limit": 37})):
        fed += page
    assert [each["position"] for each in fed] == list(range(1, len(fed) + 1))
    for match_id, player in matches:
        headers = {"authorization": f"Bearer {player.token}"}
        log = lines(await operator.get(f"/matches/{match_id}/events", headers=headers))
        mine = [each for each in fed if each["match"] == match_id]
        assert [{name: each[name] for name in ("at", "event", "hash", "seq")} for each in mine] == log[:-1]


async def test_the_feed_is_followed_live_and_resumed(operator: httpx2.AsyncClient, guest) -> None:
    await played(guest)
    newest = lines(await operator.get("/events", params={"limit": 10_000}))[-1]["position"]
    seen: list[int] = []
    for _ in range(2):  # a second client goes on where the first was cut
        headers = {"accept": "text/event-stream", "last-event-id": str(newest + len(seen))}
        async with operator.stream("GET", "/events", headers=headers) as stream:
            await (await guest("Ann")).create("{length: 1}")
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    seen.append(json.loads(line.removeprefix("data: "))["position"])
                    if len(seen) % 2 == 0:
                        break
    assert seen == [newest + 1, newest + 2, newest + 3, newest + 4]


@pytest.mark.parametrize(
    ("query", "code"),
    [("after=-1", 400), ("after=x", 400), ("limit=0", 400), ("limit=10001", 400), (f"after={'9' * 19}", 400)],
)
async def test_a_wrong_question_is_told_what_is_right(operator: httpx2.AsyncClient, query: str, code: int) -> None:
    response = await operator.get(f"/events?{query}")
    assert (response.status_code, response.json()["code"]) == (code, "BAD_INPUT")


async def test_only_operators_read_the_feed(server: Server, guest) -> None:
    base = server.url.removesuffix("/graphql")
    ann: Client = await guest("Ann")
    async with httpx2.AsyncClient(base_url=base, timeout=30) as client:
        anybody = await client.get("/events")
        player = await client.get("/events", headers={"authorization": f"Bearer {ann.token}"})
    assert (anybody.status_code, anybody.json()["code"]) == (401, "UNAUTHENTICATED")
    assert (player.status_code, player.json()["code"]) == (403, "FORBIDDEN")
    assert "videau token" in player.json()["detail"]


async def test_an_operator_plays_nothing(server: Server, token: str) -> None:
    operator = Client(server.url, token)
    assert (await operator.ask("{ me { id } }"))["me"] is None
    answer = await operator.post("mutation { createMatch(settings: {}) { __typename } }")
    assert answer["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    await operator.close()


async def test_rows_are_rebuilt_while_the_service_runs(server: Server, guest) -> None:
    match_id, player = await played(guest)
    rebuilt = server.videau("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert ": 0 rows were wrong or missing, 0 had no log, 0 logs are damaged" in rebuilt.stdout
    assert (await player.match(match_id))["phase"] == "OVER"


async def test_metrics_tell_what_the_process_does(server: Server, guest) -> None:
    await played(guest)
    async with httpx2.AsyncClient(base_url=server.url.removesuffix("/graphql")) as client:
        told = (await client.get("/metrics")).text
    values = dict(line.rsplit(" ", 1) for line in told.splitlines() if not line.startswith("#"))
    assert float(values["videau_database_answering"]) == 1
    assert float(values["videau_appends_total"]) >= float(values["videau_commits_total"]) > 10
    assert "videau_redis_connected" not in values
