"""A lobby to many websockets: identical subscriptions share each execution, and nobody sees what is not theirs.

The servers run in the test's own event loop, so that what they keep can be looked at; the connections are real.
"""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from infra.store import Unavailable
from service.onlookers import Crowd, Onlooker, Onlookers
from tests.apps import key_set, studio_key, videau
from tests.client import Client, register
from tests.service.test_fanout import Running, aclosing_all, serving, until
from tests.service.test_lobby import LOBBY, seek
from tests.service.test_websocket import SOON, acknowledged, code, heard, say, subscribe

MANY = 30
MINE = "subscription { lobby { matchesListed { id viewerColor } } }"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with serving(tmp_path) as running:
        yield running


def onlookers(running: Running) -> Onlookers:
    found: Onlookers = running.app.state.onlookers
    return found


async def opened(socket: ClientConnection) -> list[str]:
    """The seeks that the next update with any shows as open."""
    async with asyncio.timeout(SOON):
        while True:
            seeks = (await heard(socket))["payload"]["data"]["lobby"]["seeksOpened"]
            if seeks:
                return [each["id"] for each in seeks]


async def test_many_who_look_alike_cost_an_execution_for_each_change(running: Running) -> None:
    ann = await register(running.url, "Ann")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing_all(ann))
        tokens = [None, ann.token] * (MANY // 2)
        sockets = [await stack.enter_async_context(acknowledged(running.url, token)) for token in tokens]
        for number, socket in enumerate(sockets):
            await subscribe(socket, str(number % 3), LOBBY)
        assert [(await heard(each))["payload"]["data"]["lobby"]["seeksOpened"] for each in sockets] == [[]] * MANY
        for length in (1, 2, 3):
            made = await seek(ann, f"length: {length}")
            for number, socket in enumerate(sockets):
                message = await heard(socket)
                assert message["id"] == str(number % 3)
                [seen] = message["payload"]["data"]["lobby"]["seeksOpened"]
                assert seen == {name: made[name] for name in seen}
        assert len(onlookers(running)) == 1
        assert onlookers(running).executions < MANY, "four updates for each of them"
    await until(lambda: len(onlookers(running)) == 0)
    assert running.table.lobby._halls == {}


async def test_who_comes_later_begins_with_all_there_is(running: Running) -> None:
    ann = await register(running.url, "Ann")
    async with aclosing_all(ann), acknowledged(running.url) as early:
        await subscribe(early, "1", LOBBY)
        await heard(early)
        made = [(await seek(ann, f"length: {length}"))["id"] for length in (1, 2)]
        seen = await opened(early)
        seen += [] if len(seen) == 2 else await opened(early)
        assert sorted(seen) == sorted(made)
        async with acknowledged(running.url) as late:
            await subscribe(late, "1", LOBBY)
            assert sorted(await opened(late)) == sorted(made)
        assert len(onlookers(running)) == 1


async def test_users_of_two_apps_and_guests_see_their_own_lobby_each(tmp_path: Path) -> None:
    key = studio_key("EdDSA", "one")
    (tmp_path / "keys.json").write_bytes(key_set([key]))
    apps = ("pine.example", "wood.example")
    async with serving(tmp_path) as running, AsyncExitStack() as stack:
        for app in apps:
            done = await asyncio.to_thread(videau, tmp_path / "videau.db", "add", app, "--key", f"{tmp_path}/keys.json")
            assert done.exit_code == 0, done.output
        clients = {app: Client(running.url, key.token(app, "ann")) for app in apps}
        clients[""] = await register(running.url, "Ann")
        await stack.enter_async_context(aclosing_all(*clients.values()))
        lobbies: list[tuple[ClientConnection, str]] = []
        for own, client in (*clients.items(), ("", None)):
            for said in (None, "", *apps):
                token = client.token if client else None
                socket = await stack.enter_async_context(acknowledged(running.url, token))
                await subscribe(socket, "1", LOBBY, **({} if said is None else {"app": said}))
                await heard(socket)
                lobbies.append((socket, own if said is None else said))
        made = {app: (await seek(client, "length: 5"))["id"] for app, client in clients.items()}
        for socket, app in lobbies:
            assert await opened(socket) == [made[app]]
        for socket, _ in lobbies:  # and nothing more
            await say(socket, type="ping")
            assert await heard(socket) == {"type": "pong"}


async def test_what_depends_on_who_asks_is_shared_with_nobody_else(running: Running) -> None:
    ann, bob = await register(running.url, "Ann"), await register(running.url, "Bob")
    match_id = await ann.create("{length: 1}")
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    await ann.create('{length: 1, visibility: PRIVATE}, opponent: "' + (bob.player_id or "") + '"')
    seen: list[Any] = []
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing_all(ann, bob))
        for client in (ann, bob, None):
            socket = await stack.enter_async_context(acknowledged(running.url, client.token if client else None))
            await subscribe(socket, "1", MINE)
            seen.append((await heard(socket))["payload"]["data"]["lobby"]["matchesListed"])
        assert len(onlookers(running)) == 3
    assert seen == [[{"id": match_id, "viewerColor": color}] for color in ("WHITE", "BLACK", None)]


async def test_who_does_not_read_is_told_later_what_has_changed_in_the_meantime(running: Running) -> None:
    ann = await register(running.url, "Ann")
    async with aclosing_all(ann), acknowledged(running.url) as slow, acknowledged(running.url) as quick:
        for socket in (slow, quick):
            await subscribe(socket, "1", LOBBY)
            await heard(socket)
        [stalled] = [each for each in running.sockets if each.client == slow.local_address]
        stalled.pause_writing()
        made = [(await seek(ann, "length: 1"))["id"]]
        assert await opened(quick) == made
        made.append((await seek(ann, "length: 2"))["id"])
        assert await opened(quick) == made[1:]
        stalled.resume_writing()
        assert sorted(await opened(slow)) == sorted(made)


async def test_a_lobby_that_cannot_be_read_says_why(running: Running) -> None:
    async with acknowledged(running.url) as socket:
        assert await code(socket, "1", "subscription { lobby { nonsense } }") == "VALIDATION_FAILED"
        assert await code(socket, "2", 'subscription { lobby(app: "nobody") { matchesUnlisted } }') == "BAD_INPUT"
        assert await code(socket, "3", LOBBY, app=5) == "VALIDATION_FAILED"
        await subscribe(socket, "5", "subscription { lobby { matchesUnlisted } }")
        assert json.dumps((await heard(socket))["payload"]["data"]) == '{"lobby": {"matchesUnlisted": []}}'
    await until(lambda: len(onlookers(running)) == 0)


async def test_an_update_that_cannot_be_shown_ends_the_subscription_lest_it_be_missed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(_: object) -> None:
        raise Unavailable("for a moment")

    ann = await register(running.url, "Ann")
    async with aclosing_all(ann), acknowledged(running.url) as slow, acknowledged(running.url) as quick:
        for socket in (slow, quick):
            await subscribe(socket, "1", LOBBY)
            await heard(socket)
        [stalled] = [each for each in running.sockets if each.client == slow.local_address]
        stalled.pause_writing()
        with monkeypatch.context() as patched:
            patched.setattr(running.table, "heads", unavailable)
            match_id = await ann.create("{length: 1}")
            for socket in (quick, slow):
                [error] = (await heard(socket))["payload"]["errors"]
                assert error["extensions"]["code"] == "UNAVAILABLE"
                assert await heard(socket) == {"id": "1", "type": "complete"}
                stalled.resume_writing()
        for socket in (slow, quick):
            await subscribe(socket, "1", LOBBY)
            [listed] = (await heard(socket))["payload"]["data"]["lobby"]["matchesListed"]
            assert listed["id"] == match_id


async def test_an_address_has_so_many_different_ones_and_any_number_alike(running: Running) -> None:
    """Each of its own costs what all others wait for: also one that cannot be shared, such as one in a fragment."""
    assert running.table.apart.most == 500, "as many as connections"
    running.table.apart.most = 2
    lone = "subscription { ...all } fragment all on Subscription { lobby { matchesUnlisted } }"
    async with acknowledged(running.url) as socket, acknowledged(running.url) as other:
        for id_, query in (("1", LOBBY), ("2", lone), ("3", LOBBY)):
            await subscribe(socket, id_, query)
            assert (await heard(socket))["type"] == "next"
        await subscribe(other, "1", LOBBY)
        assert (await heard(other))["type"] == "next"
        for query in (MINE, lone):
            assert await code(other, "2", query) == "TOO_MANY_SUBSCRIPTIONS"
        await say(socket, id="2", type="complete")
        await until(lambda: len(running.table.apart) == 1)
        await subscribe(other, "2", MINE)
        assert (await heard(other))["type"] == "next"
    await until(lambda: not running.table.apart)


async def test_a_crowd_is_gone_when_it_is_over_and_not_with_the_next_collection(running: Running) -> None:
    def kept() -> int:
        return sum(issubclass(type(each), Crowd | Onlooker) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        for number in range(10):
            async with acknowledged(running.url) as socket:
                await subscribe(socket, str(number), LOBBY)
                await heard(socket)
        await until(lambda: not running.sockets and kept() == 0)
    finally:
        gc.enable()
