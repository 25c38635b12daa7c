"""Trusted documents: registered by an app, sent by their hash over HTTP and websockets, and an app held to its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import Result
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.apps import key_set, studio_key, videau
from tests.client import register
from tests.server import Server

KEY = studio_key("EdDSA", "documents")
APP, OTHER, HELD = "gammon.example", "other.example", "held.example"
ME = "query Me { me { name } }\n"
MATCH = "query Match($id: ID!) { match(id: $id) { id phase } }"
WATCH = "subscription Watch($id: ID!, $after: Int!) { matchEvents(matchId: $id, after: $after) { seq } }"
CREATE = "mutation { createMatch(settings: {length: 1}) { ... on Happened { match { id } } } }"
OURS = "{ limits { name } }"


class Attentive(Server):
    """A server that looks more often whether an app is held."""

    program = ("-c", "from service import cli, trusted; trusted.HELD_SECONDS = 0.2; cli.main()")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Attentive(tmp_path_factory.mktemp("server"))
    running.start()
    yield running
    assert running.stop() == ""


def documents(server: Server, *arguments: str) -> Result:
    """One run of `videau documents …` over the server's database."""
    return videau(server.database, *arguments, group="documents")


def hash_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module", autouse=True)
def apps(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three apps with documents; one is held to its own."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "keys.json").write_bytes(key_set([KEY]))
    for app, *texts in ((APP, ME, MATCH, WATCH, CREATE), (OTHER, OURS), (HELD, ME, WATCH)):
        done = videau(server.database, "add", app, "--key", f"{folder}/keys.json")
        assert done.exit_code == 0, done.output
        files = []
        for number, text in enumerate(texts):
            file = folder / f"{app} {number}.graphql"
            file.write_text(text)
            files.append(str(file))
        registered = documents(server, "register", app, *files)
        assert registered.exit_code == 0, registered.stderr
        assert registered.stdout.splitlines()[0] == f"sha256:{hash_of(texts[0])}  {files[0]}"
        assert registered.stdout.splitlines()[-1] == f"{len(texts)} documents of {app}: {len(texts)} new"
    assert documents(server, "hold", HELD).exit_code == 0
    return folder


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.base, verify=False, timeout=30) as client:
        yield client


@pytest.fixture
async def match_id(server: Server) -> str:
    ann = await register(server.url, "Ann")
    match_id = await ann.create("{length: 1}")
    await ann.close()
    return match_id


def bearer(app: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {KEY.token(app, 'ann', name='Ann')}"} if app else {}


def by_id(text: str, **variables: Any) -> dict[str, Any]:
    return {"documentId": f"sha256:{hash_of(text)}", "variables": variables}


def by_apollo(text: str, **variables: Any) -> dict[str, Any]:
    return {
        "extensions": {"persistedQuery": {"version": 1, "sha256Hash": hash_of(text)}},
        "variables": variables,
    }


async def code(http: httpx2.AsyncClient, app: str | None, body: dict[str, Any]) -> str:
    """The code of the one error that a request is answered with."""
    response = await http.post("/graphql", json=body, headers=bearer(app))
    assert response.status_code < 500
    [error] = response.json()["errors"]
    found: str = error["extensions"]["code"]
    return found


@pytest.mark.parametrize("app", [None, APP, OTHER])
@pytest.mark.parametrize("how", [by_id, by_apollo])
async def test_a_document_is_sent_by_its_hash(
    http: httpx2.AsyncClient, match_id: str, app: str | None, how: Any
) -> None:
    body = how(MATCH, id=match_id)
    posted = await http.post("/graphql", json=body, headers=bearer(app))
    assert posted.json()["data"]["match"] == {"id": match_id, "phase": "WAITING"}
    assert posted.json()["extensions"]["cost"]["requested"] == 3
    params = {name: value if isinstance(value, str) else json.dumps(value) for name, value in body.items()}
    got = await http.get("/graphql", params=params, headers=bearer(app))
    assert got.json()["data"] == posted.json()["data"]


async def test_a_mutation_by_hash_is_for_post_alone(http: httpx2.AsyncClient) -> None:
    got = await http.get("/graphql", params={"documentId": f"sha256:{hash_of(CREATE)}"}, headers=bearer(APP))
    assert got.status_code == 400
    posted = await http.post("/graphql", json=by_id(CREATE), headers=bearer(APP))
    assert posted.json()["data"]["createMatch"]["match"]["id"]


@pytest.mark.parametrize("app", [None, APP, HELD])
async def test_a_hash_that_nobody_has_registered_is_unknown(http: httpx2.AsyncClient, app: str | None) -> None:
    assert await code(http, app, by_id(ME.strip())) == "DOCUMENT_UNKNOWN"
    assert await code(http, app, by_apollo("{ me { id } }")) == "DOCUMENT_UNKNOWN"


@pytest.mark.parametrize(
    "body",
    [
        {"documentId": 5},
        {"documentId": ""},
        {"documentId": hash_of(ME)},
        {"documentId": f"sha256:{hash_of(ME).upper()}"},
        {"documentId": "sha256:" + "é" * 64},
        {"documentId": f"md5:{hash_of(ME)}"},
        {"documentId": {"sha256": hash_of(ME)}},
        {"extensions": {"persistedQuery": None}},
        {"extensions": {"persistedQuery": "x"}},
        {"extensions": {"persistedQuery": {}}},
        {"extensions": {"persistedQuery": {"sha256Hash": [1]}}},
        {"extensions": {}},
        {},
    ],
    ids=json.dumps,
)
async def test_what_is_no_hash_is_a_bad_request(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    assert await code(http, APP, body) == "BAD_REQUEST"


async def test_a_held_app_sends_its_own_documents_and_no_others(http: httpx2.AsyncClient, match_id: str) -> None:
    for body in ({"query": ME}, by_id(ME), by_apollo(ME)):
        answer = (await http.post("/graphql", json=body, headers=bearer(HELD))).json()
        assert answer["data"] == {"me": {"name": "Ann"}}
    for other in ({"query": ME.strip()}, {"query": MATCH, "variables": {"id": match_id}}):
        assert await code(http, HELD, other) == "DOCUMENT_NOT_REGISTERED"
    assert await code(http, HELD, by_id(MATCH, id=match_id)) == "DOCUMENT_NOT_REGISTERED"
    free = (await http.post("/graphql", json={"query": OURS}, headers=bearer(APP))).json()
    assert free["data"]["limits"]


# websockets


@asynccontextmanager
async def opened(server: Server, app: str | None) -> AsyncIterator[ClientConnection]:
    async with connect(server.url.replace("http", "ws", 1), subprotocols=["graphql-transport-ws"]) as socket:
        await socket.send(json.dumps({"type": "connection_init", "payload": bearer(app)}))
        assert json.loads(await socket.recv()) == {"type": "connection_ack"}
        yield socket


async def told(socket: ClientConnection, id_: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The first message that answers an operation."""
    await socket.send(json.dumps({"id": id_, "type": "subscribe", "payload": payload}))
    async with asyncio.timeout(15):
        while (message := json.loads(await socket.recv())).get("id") != id_:
            pass
    found: dict[str, Any] = message
    return found


@pytest.mark.parametrize("app", [None, APP, HELD])
@pytest.mark.parametrize("how", [by_id, by_apollo])
async def test_a_subscription_by_hash_is_in_the_audience_of_its_text(
    server: Server, match_id: str, app: str | None, how: Any
) -> None:
    async with opened(server, app) as by_hash, opened(server, APP) as by_text:
        variables = {"id": match_id, "after": 0}
        for socket, payload in (
            (by_hash, how(WATCH, **variables)),
            (by_text, {"query": WATCH, "variables": variables}),
        ):
            message = await told(socket, "1", payload)
            assert (message["type"], message["payload"]) == ("next", {"data": {"matchEvents": {"seq": 1}}})
        bob = await register(server.url, "Bob")
        await bob.happens("joinMatch", f'matchId: "{match_id}"')
        await bob.close()
        seen = [json.loads(await socket.recv()) for socket in (by_hash, by_text)]
        assert seen[0] == seen[1]
        assert seen[0]["payload"]["data"]["matchEvents"]["seq"] == 2


async def test_on_a_websocket_what_is_refused_costs_the_operation_alone(server: Server, match_id: str) -> None:
    async with opened(server, HELD) as socket:
        for payload, expected in (
            (by_id(ME.strip()), "DOCUMENT_UNKNOWN"),
            (by_id(MATCH, id=match_id), "DOCUMENT_NOT_REGISTERED"),
            ({"query": MATCH, "variables": {"id": match_id}}, "DOCUMENT_NOT_REGISTERED"),
            ({"documentId": 5}, "BAD_REQUEST"),
        ):
            message = await told(socket, "1", payload)
            assert (message["type"], message["payload"][0]["extensions"]["code"]) == ("error", expected)
        assert (await told(socket, "1", by_id(ME)))["payload"]["data"] == {"me": {"name": "Ann"}}
    async with opened(server, APP) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await told(socket, "1", {"variables": {}})
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4400


# the command line


async def test_holding_and_freeing_and_registering_hold_without_a_restart(
    server: Server, http: httpx2.AsyncClient, tmp_path: Path
) -> None:
    """What an app registers is there at once; whether it is held is known in a moment."""
    name = "changing.example"
    (tmp_path / "keys.json").write_bytes(key_set([KEY]))
    assert videau(server.database, "add", name, "--key", f"{tmp_path}/keys.json").exit_code == 0
    query = {"query": "{ me { name app } }"}
    async with asyncio.timeout(30):
        while not (await http.post("/graphql", json=query, headers=bearer(name))).json()["data"]:
            await asyncio.sleep(0.02)  # until the app is known
    assert documents(server, "hold", name).stdout == f"users of {name} may send its registered documents alone\n"
    async with asyncio.timeout(30):
        while "data" in (answer := (await http.post("/graphql", json=query, headers=bearer(name))).json()):
            if answer["data"] is None:
                break
            await asyncio.sleep(0.02)
    assert answer["errors"][0]["extensions"]["code"] == "DOCUMENT_NOT_REGISTERED"
    (tmp_path / "me.graphql").write_text(query["query"])
    assert documents(server, "register", name, f"{tmp_path}/me.graphql").exit_code == 0
    assert (await http.post("/graphql", json=query, headers=bearer(name))).json()["data"]["me"]["app"] == name
    assert documents(server, "free", name).stdout == f"users of {name} may send any operation\n"
    async with asyncio.timeout(30):
        while "errors" in (await http.post("/graphql", json={"query": OURS}, headers=bearer(name))).json():
            await asyncio.sleep(0.02)


def test_documents_are_listed(server: Server, apps: Path) -> None:
    listed = documents(server, "list", HELD)
    lines = listed.stdout.splitlines()
    assert {line.split()[0] for line in lines[:-1]} == {f"sha256:{hash_of(text)}" for text in (ME, WATCH)}
    assert lines[-1] == f"2 documents; users of {HELD} may send them alone"
    assert documents(server, "list", OTHER).stdout.splitlines()[-1].endswith("may send any operation")
    again = documents(server, "register", HELD, f"{apps}/{HELD} 0.graphql")
    assert again.stdout.splitlines()[-1] == f"1 documents of {HELD}: 0 new"


def test_what_can_never_be_executed_is_not_registered(server: Server, tmp_path: Path) -> None:
    for name, content in {
        "right": ME.encode(),
        "broken": b"{ me {",
        "unknown": b"{ nothing }",
        "costly": b"{ matches(first: 100) { edges { node { events(first: 100) { edges { cursor } } } } } }",
        "deep": b"{" * 100,
        "long": b"{" + b" a" * 2_000 + b"}",
        "chars": b"\xff",
    }.items():
        (tmp_path / f"{name}.graphql").write_bytes(content)
    files = sorted(str(file) for file in tmp_path.iterdir())
    refused = documents(server, "register", OTHER, *files)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("videau: nothing is registered: ")
    assert "Traceback" not in refused.stderr
    for file in files:
        assert (f"{file}: " in refused.stderr) is not file.endswith("right.graphql")
    assert documents(server, "list", OTHER).stdout.splitlines()[-1].startswith("1 documents;")


@pytest.mark.parametrize("command", ["list", "hold", "free"])
def test_an_unknown_app_is_said_in_one_line(server: Server, command: str) -> None:
    done = documents(server, command, "nobody.example")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "videau: there is no app 'nobody.example'\n"
