"""HTTP beside GraphQL: what openapi.yaml says is what the running service does."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from schemathesis.specs.openapi.checks import positive_data_acceptance

from infra.log import verify
from infra.settings import Settings
from service.app import create_app
from tests.client import Client, play_out, register
from tests.server import Server, run_videau

ROOT = Path(__file__).parents[2]
SPEC = yaml.safe_load((ROOT / "openapi" / "openapi.yaml").read_text())
MATCHES = ROOT / "tests" / "corpus" / "matches"
MAT = (MATCHES / "real_031_galaxy7pt.mat").read_bytes()
OTHER_MAT = next(file for file in sorted(MATCHES.glob("*.mat")) if file.read_bytes() != MAT).read_bytes()
"""For a test that may come before those of MAT."""


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    base = server.url.removesuffix("/graphql")
    async with httpx2.AsyncClient(base_url=base, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def played(server: Server) -> tuple[str, str | None]:
    """A finished match, which nothing changes any more, and the token of one of its players."""

    async def play() -> tuple[str, str | None]:
        white, black = await register(server.url, "Ann"), await register(server.url, "Bob")
        match_id = await white.create("{length: 1}")
        await black.happens("joinMatch", f'matchId: "{match_id}"')
        await play_out(random.Random(4), match_id, white, black)
        await asyncio.gather(white.close(), black.close())
        return match_id, white.token

    return asyncio.run(play())


@pytest.fixture
async def finished(server: Server, played: tuple[str, str | None]) -> AsyncIterator[tuple[str, Client]]:
    """A finished match, and one of its players."""
    match_id, token = played
    client = Client(server.url, token)
    yield match_id, client
    await client.close()


def bearer(client: Client) -> dict[str, str]:
    return {"authorization": f"Bearer {client.token}"}


def test_the_description_is_valid_openapi() -> None:
    validate(SPEC)


def test_every_route_that_counts_says_what_comes_beyond_its_limit() -> None:
    """All but those that a probe and Prometheus ask (README, Limits)."""
    answers = {path: (methods.get("get") or methods["post"])["responses"] for path, methods in SPEC["paths"].items()}
    assert {path for path, responses in answers.items() if "429" not in responses} == {
        "/healthz",
        "/readyz",
        "/metrics",
    }


def test_every_route_is_described_and_every_description_is_a_route(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/videau.db"))
    served = {
        (route.path, method.lower())  # type: ignore[attr-defined]
        for route in app.routes
        for method in getattr(route, "methods", None) or ()
        if method != "HEAD" and route.path not in ("/", "/graphql")  # type: ignore[attr-defined]
    }
    described = {
        (path, method) for path, item in SPEC["paths"].items() for method in item if method in ("get", "post", "put")
    }
    assert served == described


def test_the_schema_of_the_events_is_as_committed() -> None:
    printed = run_videau("schema", "--events")
    assert printed.stdout == (ROOT / "openapi" / "events.schema.json").read_text()


async def test_every_event_of_a_real_log_fits_the_schema(http: httpx2.AsyncClient, finished) -> None:
    validator = Draft202012Validator(json.loads((ROOT / "openapi" / "events.schema.json").read_text()))
    match_id, _ = finished
    records = [json.loads(line) for line in (await http.get(f"/matches/{match_id}/events")).text.splitlines()]
    for record in records[:-1]:
        validator.validate(record["event"])
    with pytest.raises(Exception, match="is not valid"):
        validator.validate({"kind": "moved", "by": "white"})


async def test_the_log_is_ndjson_that_verifies(http: httpx2.AsyncClient, finished) -> None:
    match_id, _ = finished
    response = await http.get(f"/matches/{match_id}/events")
    assert response.headers["content-type"] == "application/x-ndjson"
    [key] = (await http.get("/keys")).json()["keys"]
    verified = verify(response.content.splitlines(), key["key"])
    assert verified.match.id == match_id
    assert verified.signed_by == key["key"]
    assert verified.proven == verified.match.rolls
    after = await http.get(f"/matches/{match_id}/events", params={"after": 10})
    assert after.text == "".join(line + "\n" for line in response.text.splitlines()[10:])


async def test_a_finished_version_is_kept_for_a_year_and_not_sent_again(http: httpx2.AsyncClient, finished) -> None:
    match_id, _ = finished
    for path in ("/events", ".json", ".mat", ".sgf"):
        first = await http.get(f"/matches/{match_id}{path}")
        assert first.status_code == 200, first.text
        assert first.headers["cache-control"] == "public, max-age=31536000, immutable"
        again = await http.get(f"/matches/{match_id}{path}", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = await http.get(f"/matches/{match_id}{path}", headers={"if-none-match": '"another"'})
        assert other.content == first.content
        plain = await http.get(f"/matches/{match_id}{path}", headers={"accept-encoding": "identity"})
        zipped = first.headers.get("content-encoding") == "gzip"
        assert zipped == (len(plain.content) >= 1_000)
        assert "content-encoding" not in plain.headers
        assert plain.content == first.content


async def test_an_unfinished_version_must_be_asked_for_again(http: httpx2.AsyncClient, guest) -> None:
    white = await guest("Ann")
    match_id = await white.create("{length: 1}")
    first = await http.get(f"/matches/{match_id}/events")
    assert first.headers["cache-control"] == "public, no-cache"
    await (await guest("Bob")).happens("joinMatch", f'matchId: "{match_id}"')
    again = await http.get(f"/matches/{match_id}/events", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 200
    assert len(again.text.splitlines()) > len(first.text.splitlines())


async def sse(http: httpx2.AsyncClient, match_id: str, **headers: str) -> AsyncIterator[dict[str, str]]:
    """The events of a stream, as an EventSource would take them."""
    given = {"accept": "text/event-stream", **headers}
    async with http.stream("GET", f"/matches/{match_id}/events", headers=given) as response:
        if response.status_code == 204:  # cut right after the last event: there is nothing more
            return
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        event: dict[str, str] = {}
        async for line in response.aiter_lines():
            if not line and event:
                yield event
                event = {}
            elif ": " in line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = value


async def test_a_stream_tells_the_log_live_and_resumes_where_it_was_cut(http: httpx2.AsyncClient, guest) -> None:
    """Cut after every few events, and resumed by Last-Event-ID: the list equals the log."""
    white, black = await guest("Ann"), await guest("Bob")
    match_id = await white.create("{length: 1}")

    async def follow() -> list[str]:
        chance, seen, last = random.Random(7), [], "0"
        retry = None
        while True:
            patience = chance.randint(3, 30)
            async for event in sse(http, match_id, **{"last-event-id": last}):
                retry = event.get("retry", retry)
                if "data" in event:
                    seen.append(event["data"])
                    last = event["id"]
                    patience -= 1
                if patience <= 0:
                    break
            else:
                assert retry == "2000"
                return seen

    following = asyncio.create_task(follow())
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    await play_out(random.Random(4), match_id, white, black)
    seen = await asyncio.wait_for(following, 30)
    log = (await http.get(f"/matches/{match_id}/events")).text.splitlines()
    assert seen == log[:-1]
    done = await http.get(
        f"/matches/{match_id}/events", headers={"accept": "text/event-stream", "last-event-id": str(len(seen))}
    )
    assert done.status_code == 204


async def test_a_private_match_is_seen_by_its_players_alone(http: httpx2.AsyncClient, guest) -> None:
    """DESIGN.md promise 8, on every route."""
    white, black, stranger = await guest("Ann"), await guest("Bob"), await guest("Eve")
    match_id = await white.create("{length: 1, visibility: PRIVATE}", f', opponent: "{black.player_id}"')
    for path in ("/events", ".json", ".mat", ".sgf"):
        for headers in ({}, bearer(stranger), {"accept": "text/event-stream"}):
            response = await http.get(f"/matches/{match_id}{path}", headers=headers)
            assert response.status_code == 404, path
            assert response.json()["code"] == "MATCH_NOT_FOUND"
        mine = await http.get(f"/matches/{match_id}{path}", headers=bearer(white))
        assert mine.status_code in (200, 409)
        assert mine.status_code == 409 or mine.headers["cache-control"].startswith("private")


async def test_a_match_file_comes_in_once_and_goes_out_again(http: httpx2.AsyncClient, guest, anonymous) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    first = await http.post("/matches/import", content=MAT, headers=bearer(ann))
    assert first.status_code == 201
    imported = first.json()
    again = await http.post("/matches/import", content=MAT, headers=bearer(bob))
    assert again.status_code == 200
    assert again.json()["match"] == imported["match"]
    fields = "winner white { score player { name } } black { score } fairness { whole imported provenRolls }"
    match = await anonymous.match(imported["match"], fields)
    assert (match["winner"], match["white"]["score"], match["black"]["score"]) == ("WHITE", 7, 0)  # its manifest
    assert match["fairness"] == {"whole": True, "imported": "mat", "provenRolls": 0}
    out = await http.get(f"/matches/{imported['match']}.mat")
    assert "attachment" in out.headers["content-disposition"]
    back = await http.post("/matches/import", content=out.content, headers=bearer(ann))
    assert back.status_code == 201, back.text
    again_out = await http.get(f"/matches/{back.json()['match']}.mat")
    assert again_out.text == out.text


async def test_a_log_of_ours_comes_in_as_another_match_that_proves_no_dice(http: httpx2.AsyncClient, finished) -> None:
    match_id, player = finished
    log = (await http.get(f"/matches/{match_id}/events")).content
    imported = await http.post("/matches/import", content=log, headers=bearer(player))
    assert imported.status_code == 201
    other = imported.json()["match"]
    assert other != match_id
    fields = "winner viewerColor version settings { length } fairness { whole imported provenRolls commitment }"
    there, here = await player.match(match_id, fields), await player.match(other, fields)
    assert here["winner"] == there["winner"]
    assert here["viewerColor"] is None
    assert here["fairness"] == {"whole": True, "imported": "ndjson", "provenRolls": 0, "commitment": None}
    tampered = log.replace(b'"kind":"moved","play":[[', b'"kind":"moved","play":[[2', 1)
    refused = await http.post("/matches/import", content=tampered, headers=bearer(player))
    assert (refused.status_code, refused.json()["code"]) == (422, "BAD_FILE")


GAMES = b" 5 point match\n" + b"".join(b" Game %d\n W : 0  B : 0\n" % n for n in range(1, 70_001))

BAD_FILES: dict[str, tuple[bytes, int, str, int | None]] = {
    "nothing": (b"", 422, "BAD_FILE", 1),
    "another kind of text": (b"Dear sir,\n", 422, "BAD_FILE", 1),
    "binary": (bytes(range(256)) * 10, 422, "BAD_FILE", None),
    "another charset": (MAT.replace(b"White :", "Zoë :".encode("latin-1"), 1), 422, "BAD_FILE", 10),
    "cut in the middle of a move": (MAT[: MAT.index(b" 12) ") + 12], 422, "BAD_FILE", None),
    "an illegal play": (MAT.replace(b"24/21 13/11", b"24/21 13/1 ", 1), 422, "BAD_FILE", None),
    "a line of ten megabytes": (b"x" * 10_000_000, 413, "BODY_TOO_LARGE", None),
    "a hundred thousand games": (
        b" 5 point match\n" + b" Game 1\n White : 0  Black : 0\n" * 60_000,
        422,
        "BAD_FILE",
        None,
    ),
    "a broken log": (b'{"seq":1}\n', 422, "BAD_FILE", 1),
    "a broken sgf": (b"(;FF[4]GM[6", 422, "BAD_FILE", None),
}


@pytest.mark.parametrize("name", BAD_FILES)
async def test_a_bad_file_is_answered_with_its_place_and_stores_nothing(
    http: httpx2.AsyncClient, guest, anonymous: Client, name: str
) -> None:
    data, status, code, line = BAD_FILES[name]
    count = "{ matches(first: 100) { edges { node { id } } } }"
    before = await anonymous.ask(count)
    async with asyncio.timeout(10):
        response = await http.post("/matches/import", content=data, headers=bearer(await guest("Ann")))
    problem = response.json()
    assert (response.status_code, problem["code"]) == (status, code), problem
    assert response.headers["content-type"] == "application/problem+json"
    if status == 422:
        assert problem["line"] >= 1
        assert problem["column"] >= 1
        assert line in (None, problem["line"]), problem
    assert await anonymous.ask(count) == before


async def test_only_players_bring_matches_in(http: httpx2.AsyncClient) -> None:
    response = await http.post("/matches/import", content=MAT)
    assert (response.status_code, response.json()["code"]) == (401, "UNAUTHENTICATED")
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/matches/nope/events", {}, 404, "MATCH_NOT_FOUND"),
        ("/matches/{id}/events?after=-1", {}, 400, "BAD_INPUT"),
        ("/matches/{id}/events?after=9999", {}, 409, "BAD_INPUT"),
        ("/matches/{id}/events?after=1e3", {}, 400, "BAD_INPUT"),
        ("/matches/{id}/events", {"last-event-id": "x"}, 400, "BAD_INPUT"),
        ("/matches/{id}/events", {"authorization": "Bearer nonsense"}, 401, "TOKEN_INVALID"),
        ("/nowhere", {}, 404, "BAD_REQUEST"),
    ],
)
async def test_what_is_wrong_is_a_problem_with_its_code(
    http: httpx2.AsyncClient, finished, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    response = await http.get(path.replace("{id}", finished[0]), headers=headers)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == status


async def test_the_files_name_what_they_cannot_say(http: httpx2.AsyncClient, guest) -> None:
    """A match from a position of its own has no words in .mat."""
    white, black = await guest("Ann"), await guest("Bob")
    start = "XGID=-b----E-C---eE---c-e----B-:0:0:1:00:0:0:0:5:10"
    match_id = await white.create(f'{{sandbox: {{start: "{start}"}}}}')
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    response = await http.get(f"/matches/{match_id}.mat")
    assert (response.status_code, response.json()["code"]) == (409, "NOT_EXPRESSIBLE")


def test_the_service_does_what_its_description_says(server: Server) -> None:
    """Schemathesis makes up requests of every kind from the description, and checks each answer against it."""
    base = server.url.removesuffix("/graphql")
    schema = schemathesis.openapi.from_dict(SPEC)
    guest = httpx2.post(server.url, json={"query": 'mutation { registerGuest(name: "S") { token } }'}).json()
    token = guest["data"]["registerGuest"]["token"]
    headers = {"authorization": f"Bearer {token}"}
    imported = httpx2.post(f"{base}/matches/import", content=OTHER_MAT, headers=headers).json()

    budget = settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    for operation in (result.ok() for result in schema.get_all_operations()):
        for known in (True, False) if "{id}" in operation.path else (False,):

            def check(case: Any) -> None:
                if known:  # noqa: B023 - called before it changes
                    case.path_parameters["id"] = imported["match"]
                case.headers = {**(case.headers or {}), "authorization": f"Bearer {token}"}
                # any text is valid to the schema of a file's body, and few texts are match files
                spared = [positive_data_acceptance] if case.path == "/matches/import" else []
                case.call_and_validate(base_url=base, timeout=30, excluded_checks=spared)

            budget(given(case=operation.as_strategy())(check))()
