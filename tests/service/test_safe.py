"""Attacks on a server that is open to the internet, each sent over a real socket; and what must not break meanwhile."""

import random
from pathlib import Path

import httpx2

from tests.client import Client, choose, play_out, register
from tests.server import Server

OLD, NEW = "0123456789abcdef" * 4, "fedcba9876543210" * 4
NAMES = ("VIDEAU_SECRET", "VIDEAU_DICE_SECRET", "VIDEAU_SIGNING_KEY")


# secrets


async def test_secrets_are_rotated_under_running_matches(tmp_path: Path) -> None:
    """Tokens stand, matches go on with proven dice, new things are of the new secret; then the old one is gone."""
    server = Server(tmp_path, **dict.fromkeys(NAMES, OLD))
    server.start()
    try:
        ann, bob = await register(server.url, "Ann"), await register(server.url, "Bob")
        running = await ann.create("{length: 1}")
        await bob.happens("joinMatch", f'matchId: "{running}"')
        left = await ann.create("{length: 1}", ", autoRoll: false")
        await bob.happens("joinMatch", f'matchId: "{left}", autoRoll: false')
        await play_out(random.Random(1), running, ann, bob, turns=3)
        [old_key] = await keys(server)

        restarted(server, f"{NEW},{OLD}")
        new_key, kept = await keys(server)
        assert kept == old_key
        assert (await play_out(random.Random(2), running, ann, bob))["phase"] == "OVER"
        fairness = (await ann.match(running, "fairness { whole rolls provenRolls publicKey }"))["fairness"]
        assert fairness["whole"]
        assert fairness["rolls"] == fairness["provenRolls"] > 3
        assert fairness["publicKey"] == new_key
        cleo = await register(server.url, "Cleo")

        restarted(server, NEW)
        assert await keys(server) == [new_key]
        assert (await cleo.ask("{ me { name } }"))["me"]["name"] == "Cleo"
        answer = await ann.post("{ me { name } }")
        assert answer["errors"][0]["extensions"]["code"] == "TOKEN_SIGNATURE"

        restarted(server, NEW, VIDEAU_SECRET=OLD)  # its players are back, the secret of its dice is not
        match = await stopped_at_a_roll(left, ann, bob)
        actor = ann if match["toAct"] == "WHITE" else bob
        refused = await actor.command("roll", f'matchId: "{left}"')
        assert refused["code"] == "UNPROVEN_DICE"
        assert "secret" in refused["message"]
        assert (await ann.match(left))["version"] == match["version"]
        for client in (ann, bob, cleo):
            await client.close()
    finally:
        server.kill()
    assert OLD not in server.complaints
    assert "Traceback" not in server.complaints


def restarted(server: Server, secrets: str, **other: str) -> None:
    server.stop()
    server.env |= dict.fromkeys(NAMES, secrets) | other
    server.start()


async def keys(server: Server) -> list[str]:
    async with httpx2.AsyncClient(base_url=server.base, verify=False) as http:
        return [key["key"] for key in (await http.get("/keys")).json()["keys"]]


async def stopped_at_a_roll(match_id: str, white: Client, black: Client) -> dict[str, object]:
    """A match whose opening was played, so that somebody must roll."""
    match = await white.match(match_id, "toAct")
    actor = white if match["toAct"] == "WHITE" else black
    moves = await actor.match(match_id, "allowedActions legalPlays { notation moves }")
    verb, variables = choose(random.Random(3), moves)
    return (await actor.act(verb, matchId=match_id, **variables))["match"]
