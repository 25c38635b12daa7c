"""Logs in JSON: whole, with what they are about, and without tokens, codes and secrets whatever was sent."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx2

from service.logs import JsonFormatter
from tests.apps import forged, studio_key, videau
from tests.client import Client, register
from tests.redis import RedisServer
from tests.server import Server, run_videau

SECRETS = {
    "VIDEAU_SECRET": "the-secret-of-the-logs-0123456789ab",
    "VIDEAU_DICE_SECRET": "the-dice-secret-of-the-logs-012345",
    "VIDEAU_SIGNING_KEY": "0123456789abcdef" * 4,
}
PASSWORD = "the-password-of-redis"
CREATE = """mutation { createMatch(settings: {length: 3, visibility: UNLISTED}) {
  ... on Happened { match { id invitation { joinCode } } } } }"""


def lines(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.complaints.splitlines()]


async def said(server: Server, message: str) -> dict[str, Any]:
    """The first line with this message, once it is there."""
    async with asyncio.timeout(20):
        while not (found := [line for line in lines(server) if message in line["message"]]):
            await asyncio.sleep(0.05)
    return found[0]


async def test_a_line_for_each_command_and_no_secret_in_any(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path / "redis", private=True, user=("videau", PASSWORD))
    redis.start()
    server = Server(tmp_path, VIDEAU_LOG="json", VIDEAU_REDIS_URL=redis.url, **SECRETS)
    server.start()
    hidden: list[str] = [*SECRETS.values(), PASSWORD]
    try:
        key = studio_key("EdDSA", "ed")
        (tmp_path / "key.pem").write_bytes(key.pem)
        assert videau(server.database, "add", "studio", "--key", f"{tmp_path}/key.pem").exit_code == 0
        ann, bob = await register(server.url, "Ann"), await register(server.url, "Bob")
        operator = server.videau("token", "olga").stdout.strip()
        wrong = forged({"alg": "none"}, {"sub": "ann"}), "no-jwt-at-all-but-secret"
        user, expired = key.token("studio"), key.token("studio", exp=1)
        hidden += [ann.token or "", bob.token or "", operator, user, expired, *wrong]

        opened = (await ann.ask(CREATE))["createMatch"]["match"]
        code = opened["invitation"]["joinCode"]
        hidden.append(code)
        joined = await bob.happens("joinMatch", f'code: "{code}"')
        refused = await bob.command("joinMatch", f'code: "{code}"')
        await bob.post('mutation { roll(matchId: "x", idempotencyKey: "") { __typename } }')
        async with httpx2.AsyncClient(base_url=server.base, verify=False) as http:
            for token in (user, expired, operator, *wrong):
                for path in ("/events", f"/matches/{opened['id']}.json", f"/join/{code}"):
                    await http.get(path, headers={"authorization": f"Bearer {token}"})
                caller = Client(server.url, token)
                await caller.post('mutation { registerGuest(name: "Eve") { __typename } }')
                await caller.close()
        socket = await ann.open_socket()
        await socket.close()
        redis.kill()
        await said(server, "Redis is lost")
        for client in (ann, bob):
            await client.close()
    finally:
        server.kill()
        redis.kill()

    told = lines(server)
    assert all({"time", "level", "message"} <= line.keys() for line in told)
    created = next(line for line in told if line.get("command") == "createMatch")
    assert (created["match"], created["seq"], created["player"]) == (opened["id"], 2, ann.player_id)
    assert (created["result"], created["level"]) == ("happened", "info")
    joining = [line for line in told if line.get("command") == "joinMatch"]
    assert joining[0]["seq"] == joined["match"]["version"]
    assert (joining[1]["result"], joining[1]["code"]) == ("refused", refused["code"])
    assert any(line.get("result") == "invalid" and line["match"] == "x" for line in told)
    for secret in filter(None, hidden):
        assert secret not in server.complaints, secret
        for part in secret.split("."):
            assert len(part) < 20 or part not in server.complaints, part


async def test_a_clock_that_has_run_out_is_told(tmp_path: Path) -> None:
    server = Server(tmp_path, VIDEAU_LOG="json")
    server.start()
    ann, bob = await register(server.url, "Ann"), await register(server.url, "Bob")
    try:
        match_id = await ann.create("{length: 1, clock: {reserve: 0, delay: 1}}")
        await bob.happens("joinMatch", f'matchId: "{match_id}"')
        line = await said(server, "the clock is settled: timed_out")
        assert line["match"] == match_id
        assert line["seq"] == (await ann.match(match_id))["version"]
    finally:
        for client in (ann, bob):
            await client.close()
        server.kill()


def test_whatever_is_said_is_one_line_and_secrets_in_it_are_masked() -> None:
    token = studio_key("EdDSA", "ed").token("studio")
    text = f'a\nb "{token}" Bearer abc.def redis://user:hunter2@host/0 \ud800 \x1b[31m'
    try:
        raise ValueError(text)
    except ValueError as error:
        record = logging.getLogger("test").makeRecord(
            "test", logging.ERROR, __file__, 1, "%s", (text,), (ValueError, error, error.__traceback__)
        )
    line = JsonFormatter().format(record)
    assert line.count("\n") == 0
    assert "\x1b" not in line
    told = json.loads(line)
    assert "ValueError" in told["error"]
    for secret in (token, "abc.def", "hunter2"):
        assert secret not in line
    assert "redis://***@host" in told["message"]


def test_without_the_setting_nothing_is_said_of_commands(server: Server) -> None:
    async def play() -> None:
        ann = await register(server.url, "Ann")
        await ann.create("{length: 3}")
        await ann.close()

    asyncio.run(play())
    assert server.complaints == ""
    refused = run_videau("serve", "--port", "0", env={**server.env, "VIDEAU_LOG": "xml"})
    assert refused.returncode == 1
    assert "it is text or json" in refused.stderr
