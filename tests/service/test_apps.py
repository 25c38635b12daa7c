"""Apps: tokens of their users, over HTTP, websockets and server-sent events, against running servers."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from infra.keys import read_keys
from infra.migrations import migrate
from infra.settings import Settings
from tests.apps import Site, StudioKey, forged, key_set, studio_key, videau
from tests.client import Client, play_out
from tests.faults.processes import processes
from tests.postgres import PostgresServer
from tests.server import Server

ED, ES, RS = studio_key("EdDSA", "ed"), studio_key("ES256", "es"), studio_key("RS256", "rs")
APP = "gammon.example"
GONE = "gone.example"
OTHER = studio_key("EdDSA", "other")
ME = "{ me { id name app bot } }"
FUTURE = 2_000

Made = Callable[[], str]


@pytest.fixture(scope="module", autouse=True)
def apps(server: Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An app with a key of each kind, one that was revoked, and one with a key of no name."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "set.json").write_bytes(key_set([ED, ES, RS]))
    (folder / "one.pem").write_bytes(OTHER.pem)
    for arguments in (
        ("add", APP, "--key", f"{folder}/set.json"),
        ("add", GONE, "--key", f"{folder}/set.json"),
        ("add", "single.example", "--key", f"{folder}/one.pem"),
        ("revoke", GONE),
    ):
        done = videau(server.database, *arguments)
        assert done.exit_code == 0, done.output


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.base, verify=False, timeout=30) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def asked(http: httpx2.AsyncClient, token: str, query: str = ME) -> dict[str, Any]:
    answer: dict[str, Any] = (await http.post("/graphql", json={"query": query}, headers=bearer(token))).json()
    return answer


def code(answer: dict[str, Any]) -> str | None:
    """The code of an answer's error; None if it has none."""
    found: str | None = answer["errors"][0]["extensions"]["code"] if "errors" in answer else None
    return found


async def until(is_so: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    """Wait for what must come to be."""
    async with asyncio.timeout(seconds):
        while not await is_so():
            await asyncio.sleep(0.05)


async def user(server: Server, key: StudioKey, sub: str, app: str = APP, **claims: Any) -> Client:
    """A client with its own token, who has been seen."""
    client = Client(server.url, key.token(app, sub, **claims))
    client.player_id = (await client.ask(ME))["me"]["id"]
    return client


# who it is


async def test_a_user_of_an_app_is_a_player_with_the_name_that_its_token_gives(http: httpx2.AsyncClient) -> None:
    first = (await asked(http, ED.token(APP, "who", name="  Ann   Other ")))["data"]["me"]
    assert (first["name"], first["app"], first["bot"]) == ("Ann Other", APP, False)
    for key in (ED, ES, RS):
        for name in (None, "", "x" * 41, "a\nb\0", 5, ["Ann"], "\ud800"):
            assert (await asked(http, key.token(APP, "who", name=name)))["data"]["me"] == first
    renamed = (await asked(http, RS.token(APP, "who", name="Zoë")))["data"]["me"]
    assert renamed == first | {"name": "Zoë"}
    shown = await asked(http, ED.token(APP, "another"), f'{{ player(id: "{first["id"]}") {{ name app bot }} }}')
    assert shown["data"]["player"] == {"name": "Zoë", "app": APP, "bot": False}


async def test_a_user_without_a_name_gets_one_that_does_not_tell_what_the_app_calls_it(
    http: httpx2.AsyncClient,
) -> None:
    names = [(await asked(http, ED.token(APP, f"{n}@mail.example")))["data"]["me"]["name"] for n in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("Player ") and "mail" not in name for name in names)


async def test_a_guest_has_no_app(guest: Callable[[str], Awaitable[Client]]) -> None:
    ann = await guest("Ann")
    assert (await ann.ask(ME))["me"] == {"id": ann.player_id, "name": "Ann", "app": None, "bot": False}


async def test_a_bot_comes_by_the_same_door_and_is_known_as_one_from_then_on(server: Server) -> None:
    bot, human = await user(server, ED, "robot", scope="bot"), await user(server, ED, "human")
    match_id = await human.create("{length: 1}")
    answer = await bot.happens("joinMatch", f'matchId: "{match_id}"')
    assert answer["match"]["phase"] == "TO_PLAY"
    match = await human.match(match_id, "white { player { bot } } black { player { bot } }")
    assert match == {"white": {"player": {"bot": False}}, "black": {"player": {"bot": True}}}
    again = Client(server.url, ED.token(APP, "robot", scope="play"))
    assert (await again.ask(ME))["me"]["bot"] is True
    for client in (bot, human, again):
        await client.close()


@pytest.mark.parametrize("key", [ED, ES, RS], ids=lambda key: key.algorithm)
async def test_two_users_of_an_app_play_a_whole_match(server: Server, key: StudioKey) -> None:
    white, black = [await user(server, key, f"{key.algorithm} {name}") for name in ("white", "black")]
    match_id = await white.create("{length: 1}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    match = await play_out(random.Random(key.algorithm), match_id, white, black)
    assert match["phase"] == "OVER"
    assert match["white"]["player"]["id"] == white.player_id
    await white.close()
    await black.close()


# what is refused


def hmac_with_the_public_key(key: StudioKey) -> str:
    """The oldest trick: the public key taken for a shared secret."""
    now = int(time.time())
    claims = {"iss": APP, "sub": "ann", "aud": "videau", "exp": now + 600}
    secret = key.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    header, payload = forged({"alg": "HS256", "typ": "JWT", "kid": key.kid}, claims).split(".")[:2]
    signature = jwt.get_algorithm_by_name("HS256").sign(f"{header}.{payload}".encode(), secret)
    return f"{header}.{payload}.{jwt.utils.base64url_encode(signature).decode()}"


def spliced() -> str:
    """The claims of one token under the signature of another."""
    mine, yours = ED.token(APP, "ann").split("."), ED.token(APP, "bob").split(".")
    return ".".join((mine[0], yours[1], mine[2]))


CLAIMS = {"iss": APP, "sub": "ann", "aud": "videau", "exp": 4_000_000_000}


def now(seconds: float) -> int:
    return int(time.time() + seconds)


BAD: dict[str, tuple[Made, str]] = {
    "without a signature": (lambda: forged({"alg": "none", "kid": "ed"}, CLAIMS, b""), "TOKEN_ALGORITHM"),
    "with no algorithm": (lambda: forged({"kid": "ed"}, CLAIMS), "TOKEN_ALGORITHM"),
    "with an algorithm that is a list": (lambda: forged({"alg": ["EdDSA"], "kid": "ed"}, CLAIMS), "TOKEN_ALGORITHM"),
    "signed by the public key as a secret": (lambda: hmac_with_the_public_key(RS), "TOKEN_ALGORITHM"),
    "of a longer hash": (lambda: forged({"alg": "RS512", "kid": "rs"}, CLAIMS), "TOKEN_ALGORITHM"),
    "of another algorithm than its key": (lambda: RS.token(APP, header={"kid": "ed"}), "TOKEN_ALGORITHM"),
    "of another algorithm than its key, too": (lambda: ES.token(APP, header={"kid": "rs"}), "TOKEN_ALGORITHM"),
    "signed with a key of somebody else": (lambda: OTHER.token(APP, header={"kid": "ed"}), "TOKEN_SIGNATURE"),
    "with no signature": (lambda: forged({"alg": "EdDSA", "kid": "ed"}, CLAIMS, b""), "TOKEN_SIGNATURE"),
    "with some signature": (lambda: forged({"alg": "ES256", "kid": "es"}, CLAIMS, b"s" * 64), "TOKEN_SIGNATURE"),
    "with a signature of zeros": (lambda: forged({"alg": "ES256", "kid": "es"}, CLAIMS, bytes(64)), "TOKEN_SIGNATURE"),
    "with a changed payload": (spliced, "TOKEN_SIGNATURE"),
    "of an unknown key": (lambda: OTHER.token(APP), "TOKEN_KEY_UNKNOWN"),
    "that does not say which key": (lambda: forged({"alg": "EdDSA"}, CLAIMS), "TOKEN_KEY_UNKNOWN"),
    "of a key with half a letter": (lambda: forged({"alg": "EdDSA", "kid": "\ud800"}, CLAIMS), "TOKEN_KEY_UNKNOWN"),
    "of a key that is a number": (lambda: forged({"alg": "EdDSA", "kid": 5}, CLAIMS), "TOKEN_INVALID"),
    "with its own key in it": (
        lambda: OTHER.token(APP, header={"kid": "other", "jwk": OTHER.jwk, "jku": "http://127.0.0.1:9/"}),
        "TOKEN_KEY_UNKNOWN",
    ),
    "with a critical extension": (lambda: ED.token(APP, header={"crit": ["x"], "x": 1}), "TOKEN_INVALID"),
    "expired": (lambda: ED.token(APP, exp=now(-1)), "TOKEN_EXPIRED"),
    "expired long ago": (lambda: ED.token(APP, iat=1, exp=2), "TOKEN_EXPIRED"),
    "without an end": (lambda: ED.token(APP, exp=None), "TOKEN_INVALID"),
    "with an end that is a text": (lambda: ED.token(APP, exp="2000000000"), "TOKEN_INVALID"),
    "with an end that is true": (lambda: ED.token(APP, exp=True), "TOKEN_INVALID"),
    "with an infinite end": (lambda: ED.token(APP, exp=float("inf")), "TOKEN_INVALID"),
    "with an end that is no number": (lambda: ED.token(APP, exp=float("nan")), "TOKEN_INVALID"),
    "with a huge end": (lambda: ED.token(APP, exp=10**400), "TOKEN_INVALID"),
    "issued in the future": (lambda: ED.token(APP, iat=now(FUTURE)), "TOKEN_NOT_YET_VALID"),
    "not to be used yet": (lambda: ED.token(APP, nbf=now(FUTURE)), "TOKEN_NOT_YET_VALID"),
    "issued at no time": (lambda: ED.token(APP, iat="now"), "TOKEN_INVALID"),
    "issued at infinity": (lambda: ED.token(APP, iat=float("inf")), "TOKEN_INVALID"),
    "to be used from a list": (lambda: ED.token(APP, nbf=[1]), "TOKEN_INVALID"),
    "for somebody else": (lambda: ED.token(APP, aud="another service"), "TOKEN_AUDIENCE"),
    "for several others": (lambda: ED.token(APP, aud=["a", "b"]), "TOKEN_AUDIENCE"),
    "for nobody": (lambda: ED.token(APP, aud=None), "TOKEN_AUDIENCE"),
    "for a number": (lambda: ED.token(APP, aud=5), "TOKEN_AUDIENCE"),
    "of nobody": (lambda: ED.token(APP, None), "TOKEN_INVALID"),
    "of a number": (lambda: ED.token(APP, 5), "TOKEN_INVALID"),
    "of an empty text": (lambda: ED.token(APP, ""), "TOKEN_INVALID"),
    "of too long a text": (lambda: ED.token(APP, "x" * 201), "TOKEN_INVALID"),
    "of a text with a NUL": (lambda: ED.token(APP, "a\0b"), "TOKEN_INVALID"),
    "of half a letter": (lambda: ED.token(APP, "\ud800"), "TOKEN_INVALID"),
    "of an unknown app": (lambda: ED.token("nobody.example"), "APP_UNKNOWN"),
    "of an app of another case": (lambda: ED.token(APP.upper()), "APP_UNKNOWN"),
    "of an app of half a letter": (lambda: ED.token("\ud800"), "APP_UNKNOWN"),
    "of no app": (lambda: ED.token(APP, iss=None), "TOKEN_INVALID"),
    "of an app that is a list": (lambda: ED.token(APP, iss=[APP]), "TOKEN_INVALID"),
    "of Videau, by an app's key": (lambda: ED.token("videau"), "TOKEN_ALGORITHM"),
    "of a revoked app": (lambda: ED.token(GONE), "APP_REVOKED"),
    "of another app's key": (lambda: ED.token("single.example"), "TOKEN_KEY_UNKNOWN"),
    "to operate": (lambda: ED.token(APP, scope="operate"), "TOKEN_SCOPE"),
    "to play and operate": (lambda: ED.token(APP, scope="play operate"), "TOKEN_SCOPE"),
    "for something else": (lambda: ED.token(APP, scope="openid profile"), "TOKEN_SCOPE"),
    "for nothing": (lambda: ED.token(APP, scope=""), "TOKEN_SCOPE"),
    "for a list": (lambda: ED.token(APP, scope=["play"]), "TOKEN_SCOPE"),
    "that is too long": (lambda: ED.token(APP, more="x" * 8_000), "TOKEN_INVALID"),
    "of a payload that is a list": (lambda: forged({"alg": "EdDSA", "kid": "ed"}, [1]), "TOKEN_INVALID"),  # type: ignore[arg-type]
    "of a header that is a list": (lambda: forged([1], CLAIMS), "TOKEN_INVALID"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), BAD.values(), ids=BAD.keys())
async def test_a_bad_token_is_refused_with_its_code_at_every_door(
    server: Server, http: httpx2.AsyncClient, make: Made, expected: str
) -> None:
    token = make()
    response = await http.post("/graphql", json={"query": ME}, headers=bearer(token))
    assert (response.status_code, code(response.json()), response.json()["data"]) == (401, expected, None)
    async with connect(server.url.replace("http", "ws", 1), subprotocols=["graphql-transport-ws"]) as socket:  # type: ignore[list-item]
        payload = {"authorization": f"Bearer {token}"}
        await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd
        assert (closed.value.rcvd.code, closed.value.rcvd.reason.split(":")[0]) == (4403, expected)
    streamed = await http.get("/matches/any/events", headers=bearer(token) | {"accept": "text/event-stream"})
    assert (streamed.status_code, streamed.json()["code"]) == (401, expected)


GOOD: dict[str, Made] = {
    "from a clock a little ahead": lambda: ED.token(APP, iat=now(30), nbf=now(30)),
    "issued at no time": lambda: ED.token(APP, iat=None),
    "for several": lambda: ED.token(APP, aud=["another", "videau"]),
    "for more than we know": lambda: ED.token(APP, scope="openid play"),
    "until half past": lambda: ED.token(APP, exp=time.time() + 60.5),
    "without a kid, of the only key": lambda: OTHER.token("single.example", header={"kid": None}),
    "with a key in it that is not asked": lambda: ES.token(APP, header={"jwk": OTHER.jwk, "typ": "at+jwt"}),
    "of a long subject": lambda: ED.token(APP, "x" * 200),
    "of a subject in any script": lambda: ED.token(APP, "Zoë 🎲"),
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD.keys())
async def test_what_is_right_is_taken(http: httpx2.AsyncClient, make: Made) -> None:
    assert code(await asked(http, make())) is None


# scopes


async def test_who_may_only_watch_reads_and_subscribes_and_does_nothing(
    server: Server, http: httpx2.AsyncClient
) -> None:
    watcher, player = await user(server, ED, "scoped", scope="watch"), await user(server, ED, "scoped")
    assert watcher.player_id == player.player_id
    match_id = await player.create("{length: 1, visibility: PRIVATE}")
    assert (await watcher.match(match_id, "viewerColor"))["viewerColor"] == "WHITE"
    async for event in watcher.watch(match_id):
        assert event["kind"] == "created"
        break
    for mutation in (
        "createMatch(settings: {length: 1}) { __typename }",
        f'resign(matchId: "{match_id}", stake: MATCH) {{ __typename }}',
        f'roll(matchId: "{match_id}") {{ __typename }}',
    ):
        answer = await asked(http, watcher.token or "", f"mutation {{ {mutation} }}")
        assert (code(answer), answer["data"]) == ("FORBIDDEN", None)
    imported = await http.post("/matches/import", content=b"x", headers=bearer(watcher.token or ""))
    assert (imported.status_code, imported.json()["code"]) == (403, "FORBIDDEN")
    feed = await http.get("/events", headers=bearer(player.token or ""))
    assert (feed.status_code, feed.json()["code"]) == (403, "FORBIDDEN")
    await watcher.close()
    await player.close()


# what ends


async def test_a_websocket_and_a_stream_end_when_their_token_expires(server: Server, http: httpx2.AsyncClient) -> None:
    player = await user(server, ED, "brief")
    match_id = await player.create("{length: 1}")
    brief = Client(server.url, ED.token(APP, "brief", exp=now(3)))
    socket = await brief.open_socket()
    ended: list[str] = []

    async def streamed() -> None:
        headers = bearer(brief.token or "") | {"accept": "text/event-stream"}
        async with http.stream("GET", f"/matches/{match_id}/events", headers=headers) as response:
            ended.extend([line async for line in response.aiter_lines()])

    async with asyncio.timeout(20):
        reading = asyncio.create_task(streamed())
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        await reading
    assert closed.value.rcvd
    assert (closed.value.rcvd.code, closed.value.rcvd.reason.split(":")[0]) == (4403, "TOKEN_EXPIRED")
    assert ": TOKEN_EXPIRED" in ended
    assert code(await asked(http, brief.token or "")) == "TOKEN_EXPIRED"
    await brief.close()
    await player.close()


class Hasty(Server):
    """A server that looks at its apps, their keys and what goes on ten times as often, so that nobody waits here."""

    program = (
        "-c",
        "import infra.keys, service.apps, service.auth\n"
        "service.apps.FRESH_SECONDS, service.apps.STALE_SECONDS, service.auth.RECHECK_SECONDS = 0.3, 1.0, 1.0\n"
        "infra.keys.APART_SECONDS, infra.keys.KEPT_SECONDS = 0.5, 3.0\n"
        "from service.cli import main; main()",
    )


@pytest.fixture
def hasty_server(tmp_path: Path) -> Iterator[Server]:
    running = Hasty(tmp_path)
    running.start()
    yield running
    running.kill()


async def test_revoking_an_app_and_withdrawing_a_key_hold_without_a_restart(
    hasty_server: Server, tmp_path: Path
) -> None:
    """What goes on ends, what comes is refused; and both come back."""
    database = hasty_server.database
    for key in (ED, ES):
        (tmp_path / f"{key.kid}.json").write_bytes(json.dumps(key.jwk).encode())

    def does(*arguments: str) -> None:
        done = videau(database, *arguments)
        assert done.exit_code == 0, done.output

    does("add", APP, "--key", f"{tmp_path}/ed.json")
    ann = await user(hasty_server, ED, "ann")
    async with httpx2.AsyncClient(base_url=hasty_server.base, verify=False) as http:

        async def says(key: StudioKey, expected: str | None) -> None:
            """The same token, which the server knows, and a new one."""
            token = ann.token if key is ED else key.token(APP, "ann")

            async def is_so() -> bool:
                return code(await asked(http, token or "")) == expected

            await until(is_so)
            assert code(await asked(http, key.token(APP, "ann"))) == expected

        await says(ES, "TOKEN_KEY_UNKNOWN")
        does("key", APP, "--add", f"{tmp_path}/es.json")
        await says(ES, None)
        match_id = await ann.create("{length: 1}")
        socket = await ann.open_socket()
        headers = bearer(ann.token or "") | {"accept": "text/event-stream"}
        async with http.stream("GET", f"/matches/{match_id}/events", headers=headers, timeout=60) as response:
            does("key", APP, "--remove", "ed")
            await says(ED, "TOKEN_KEY_UNKNOWN")
            await says(ES, None)
            does("revoke", APP)
            await says(ES, "APP_REVOKED")
            async with asyncio.timeout(60):
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.recv()
                last = [line async for line in response.aiter_lines() if line][-1]
        reasons = {"TOKEN_KEY_UNKNOWN", "APP_REVOKED"}
        assert closed.value.rcvd
        assert closed.value.rcvd.code == 4403
        assert closed.value.rcvd.reason.split(":")[0] in reasons
        assert last.removeprefix(": ") in reasons
        does("restore", APP)
        await says(ES, None)
        again = (await asked(http, ES.token(APP, "ann")))["data"]["me"]
        assert again["id"] == ann.player_id
    await ann.close()
    assert hasty_server.complaints == ""


@pytest.fixture
def site() -> Iterator[Site]:
    running = Site()
    yield running
    running.stop()


async def test_keys_at_a_url_rotate_without_a_restart_and_are_used_while_it_is_down(
    hasty_server: Server, site: Site
) -> None:
    added = videau(hasty_server.database, "add", APP, "--jwks-url", site.url)
    assert (added.exit_code, "could not be read now" in added.output) == (0, True)
    async with httpx2.AsyncClient(base_url=hasty_server.base, verify=False) as http:
        response = await http.post("/graphql", json={"query": ME}, headers=bearer(ED.token(APP)))
        assert (response.status_code, code(response.json())) == (503, "KEYS_UNAVAILABLE")
        assert "retry-after" in response.headers
        site.body = key_set([ED])
        site.start()

        async def takes(key: StudioKey) -> bool:
            return code(await asked(http, key.token(APP))) is None

        await until(lambda: takes(ED))
        hits = site.hits
        flood = await asyncio.gather(*(asked(http, studio_key("ES256", "es").token(APP, f"{n}")) for n in range(50)))
        assert {code(answer) for answer in flood} == {"TOKEN_KEY_UNKNOWN"}
        assert site.hits <= hits + 1
        site.body = key_set([ED, ES])
        await until(lambda: takes(ES))
        site.stop()
        assert await takes(ED)
        assert await takes(ES)
        assert code(await asked(http, RS.token(APP))) == "TOKEN_KEY_UNKNOWN"
        known = ED.token(APP)
        assert code(await asked(http, known)) is None
        site.body = key_set([ES])
        site.start()

        async def is_withdrawn() -> bool:
            return code(await asked(http, known)) == "TOKEN_KEY_UNKNOWN"

        await until(is_withdrawn)
        assert not await takes(ED)
        assert await takes(ES)


async def test_the_first_tokens_of_a_user_at_two_processes_at_once_are_one_player(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.create_database()
    migrate(Settings(database_url=url).url)
    (tmp_path / "set.json").write_bytes(key_set([ED, ES, RS]))
    added = videau(url, "add", APP, "--key", f"{tmp_path}/set.json")
    assert added.exit_code == 0, added.output
    async with processes(tmp_path, {"VIDEAU_DATABASE_URL": url}) as servers, httpx2.AsyncClient(verify=False) as http:

        async def seen(n: int, subject: str) -> str:
            key = (ED, ES, RS)[n % 3]
            token = key.token(APP, subject, jti=f"{n}")
            response = await http.post(servers[n % 2].url, json={"query": ME}, headers=bearer(token))
            found: str = response.json()["data"]["me"]["id"]
            return found

        for subject in ("ann", "bob"):
            assert len(set(await asyncio.gather(*(seen(n, subject) for n in range(24))))) == 1
        rename = ED.token(APP, "ann", name="Annette")
        assert (await http.post(servers[0].url, json={"query": ME}, headers=bearer(rename))).json()["data"]["me"][
            "name"
        ] == "Annette"


# the command line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "videau", "--key", "{ed}"), "'videau' is no app's name; it is 1 to 100 printable ASCII characters"),
        (("add", "a b", "--key", "{ed}"), "'a b' is no app's name"),
        (("add", "", "--key", "{ed}"), "'' is no app's name"),
        (("add", "x" * 101, "--key", "{ed}"), "is no app's name"),
        (("add", "zoë", "--key", "{ed}"), "'zoë' is no app's name"),
        (("add", "new"), "give either --jwks-url, or --key"),
        (("add", "new", "--key", "{ed}", "--jwks-url", "https://new.example/"), "give either --jwks-url, or --key"),
        (("add", "new", "--jwks-url", "http://new.example/"), "'http://new.example/' is no URL for keys"),
        (("add", "new", "--key", "{bad}"), "bad: neither PEM nor JSON"),
        (("add", APP, "--key", "{ed}"), f"there is an app {APP} already; `videau app key` changes its keys"),
        (("key", APP), "give either --add, or --remove"),
        (("key", APP, "--add", "{ed}"), "two keys with the kid 'ed'; each has one of its own"),
        (("key", APP, "--add", "{bad}"), "bad: neither PEM nor JSON"),
        (("key", APP, "--remove", "nope"), f"the app {APP} has no key 'nope', only ed (EdDSA), es (ES256), rs (RS256)"),
        (("key", "single.example", "--remove", "{thumbprint}"), "is the only key of the app single.example"),
        (("key", "nobody", "--add", "{ed}"), "there is no app nobody; `videau app list` lists them"),
        (("revoke", "nobody"), "there is no app nobody"),
        (("restore", "nobody"), "there is no app nobody"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    server: Server, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "ed.json").write_bytes(json.dumps(ED.jwk).encode())
    (tmp_path / "bad").write_text("nonsense")
    names = {"ed": tmp_path / "ed.json", "bad": tmp_path / "bad", "thumbprint": read_keys(OTHER.pem)[0].kid}
    done = videau(server.database, *(each.format_map(names) for each in arguments))
    assert done.exit_code == 1
    assert said in done.stderr
    assert (done.stderr.count("\n"), done.stdout) == (1, "")


def test_apps_are_listed_with_their_keys_and_nothing_secret_is_kept(server: Server, tmp_path: Path) -> None:
    (tmp_path / "private.pem").write_bytes(studio_key("EdDSA", "secret").private_pem)
    added = videau(server.database, "add", "a.example", "--key", f"{tmp_path}/private.pem")
    assert (added.exit_code, "(EdDSA)" in added.stdout) == (0, True)
    listed = videau(server.database, "list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == sorted(["a.example", APP, GONE, "single.example"])
    assert "ed (EdDSA), es (ES256), rs (RS256)" in next(line for line in listed if line.startswith(APP))
    assert ", revoked 20" in next(line for line in listed if line.startswith(GONE))
    private = json.loads(jwt.get_algorithm_by_name("EdDSA").to_jwk(studio_key("EdDSA", "secret").private))
    assert private["d"].encode() not in server.database.with_name("videau.db-wal").read_bytes()
    assert private["d"].encode() not in server.database.read_bytes()
