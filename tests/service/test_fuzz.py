"""Requests that nobody thought of, over real sockets: each is answered, and none finds an error that is ours."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_graphql import from_schema
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from service.schema import schema
from tests.client import register
from tests.infra.test_fuzz import anything, damaged
from tests.server import Server

BUDGET = settings(
    derandomize=True, database=None, deadline=None, max_examples=60, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx2.Client]:
    """A player, who may do everything that a player may."""

    async def player() -> str:
        ann = await register(server.url, "Ann")
        await ann.close()
        return ann.token or ""

    headers = {"authorization": f"Bearer {asyncio.run(player())}"}
    with httpx2.Client(base_url=server.base, headers=headers, timeout=30, verify=False) as client:
        yield client


def check(answer: dict[str, Any]) -> None:
    """Every error has a code, and none says that the service is at fault."""
    for error in answer.get("errors") or []:
        assert error["message"]
        assert error["extensions"]["code"] not in ("INTERNAL", "UNAVAILABLE"), error


def test_any_operation_of_the_schema_is_answered(http: httpx2.Client) -> None:
    @BUDGET
    @given(from_schema(schema.as_str(), custom_scalars={}))
    def asked(query: str) -> None:
        response = http.post("/graphql", json={"query": query})
        assert response.status_code < 500
        check(response.json())

    asked()


def test_any_body_is_answered(http: httpx2.Client) -> None:
    body = st.fixed_dictionaries(
        {}, optional={name: anything for name in ("query", "variables", "operationName", "extensions", "documentId")}
    )

    @BUDGET
    @given(body.map(json.dumps) | anything.map(json.dumps) | st.binary(max_size=100))
    def asked(content: str | bytes) -> None:
        response = http.post("/graphql", content=content, headers={"content-type": "application/json"})
        assert response.status_code < 500
        check(response.json())

    asked()


def test_any_file_is_imported_or_refused(http: httpx2.Client) -> None:
    @settings(BUDGET, max_examples=50)
    @given(damaged())
    def imported(data: bytes) -> None:
        response = http.post("/matches/import", content=data)
        assert response.status_code in (200, 201, 422), response.text
        assert response.status_code < 300 or response.json()["code"] == "BAD_FILE"

    imported()


def test_any_path_is_answered(http: httpx2.Client) -> None:
    wild = st.text(max_size=30) | st.text("./%0aA-_~;?&=", max_size=30)

    @BUDGET
    @given(st.sampled_from(["/{}", "/matches/{}/events", "/matches/{}.mat", "/join/{}", "/events?after={}"]), wild)
    def asked(path: str, text: str) -> None:
        for spelled in (text, httpx2.URL(params={"a": text}).query.decode()[2:]):
            try:
                url = httpx2.URL(http.base_url).join(path.format(spelled))
            except httpx2.InvalidURL:
                continue
            if url.host == "127.0.0.1":
                response = http.get(url)
                assert response.status_code < 500, response.text

    asked()


def test_any_token_is_refused(server: Server) -> None:
    part = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=", max_size=60)
    sent = st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f")  # others end a header
    token = st.tuples(part, part, part).map(".".join) | st.text(sent, min_size=1, max_size=50)

    with httpx2.Client(base_url=server.base, timeout=30, verify=False) as http:

        @BUDGET
        @given(token)
        def asked(text: str) -> None:
            response = http.get("/limits", headers={b"authorization": b"Bearer " + text.encode("latin-1")})
            assert response.status_code in (400, 401)

        asked()


def test_any_message_on_a_websocket_is_answered_or_closes_it(server: Server) -> None:
    """With a code of the protocol's, 4000 and up; 1011 would be an error of ours."""

    url = server.url.replace("http", "ws", 1)
    kinds = st.sampled_from(["connection_init", "subscribe", "complete", "ping", "pong", "next", "", 1, None])
    payload = st.fixed_dictionaries({"query": st.sampled_from(["{ me { id } }", "{", ""]) | anything}) | anything
    message = st.fixed_dictionaries(
        {"type": kinds}, optional={"id": st.sampled_from(["1"]) | anything, "payload": payload}
    )
    end = '{"type": "subscribe", "id": "end", "payload": {"query": "{ __typename }"}}'

    @BUDGET
    @given(st.lists((message | anything).map(json.dumps) | st.text(max_size=20) | st.binary(max_size=20), max_size=5))
    def sent(messages: list[str | bytes]) -> None:
        with connect(url, subprotocols=["graphql-transport-ws"], compression=None, proxy=None) as socket:  # type: ignore[list-item]
            socket.send('{"type": "connection_init"}')
            assert json.loads(socket.recv())["type"] == "connection_ack"
            try:
                for each in messages:
                    socket.send(each)
                socket.send(end)
                while (told := json.loads(socket.recv(timeout=20))).get("id") != "end":
                    check({"errors": told["payload"]} if told["type"] == "error" else told.get("payload") or {})
            except ConnectionClosed:
                assert socket.protocol.close_code is None or socket.protocol.close_code >= 4000

    sent()
