"""Ratings as clients meet them: changed by whatever ends a rated match, shown to everybody, and listed page by page."""

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy.engine import make_url

from domain.ratings import Standing, changes
from infra.ratings import Ratings
from infra.store import SqlStore
from service.ratings import Rater
from tests.apps import key_set, studio_key, videau
from tests.client import Client, play_out, register
from tests.server import Server

Guest = Callable[[str], Awaitable[Client]]

SOON = 10
"""Seconds within which whatever comes at all has come."""

RATING = "rating { value experience matches wins provisional }"
CHANGE = "player { id } matchId opponent { id } at length won counted ratingAfter change"
PAGE_INFO = "pageInfo { hasNextPage hasPreviousPage startCursor endCursor }"
HISTORY = f"edges {{ cursor node {{ {CHANGE} }} }} {PAGE_INFO}"
RATED = "{length: 1, rated: true}"


async def started(white: Client, black: Client, settings: str = RATED, more: str = "") -> str:
    match_id = await white.create(settings, more)
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    return match_id


async def given_up(loser: Client, winner: Client, settings: str = RATED, more: str = "") -> str:
    """A match whose white has given it up."""
    match_id = await started(loser, winner, settings, more)
    await loser.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    return match_id


async def known(client: Client, match_id: str) -> list[dict[str, Any]]:
    """What a match has done to the ratings of white and black, as soon as that is known."""
    async with asyncio.timeout(SOON):
        while True:
            found = (await client.match(match_id, f"ratingChanges {{ {CHANGE} }}"))["ratingChanges"]
            if found is not None:
                changed: list[dict[str, Any]] = found
                return changed
            await asyncio.sleep(0.02)


async def rating(client: Client, player: Client) -> dict[str, Any] | None:
    found: dict[str, Any] | None = (await client.ask(f'{{ player(id: "{player.player_id}") {{ {RATING} }} }}'))[
        "player"
    ]["rating"]
    return found


async def history(client: Client, player: Client, given: str = "first: 100") -> dict[str, Any]:
    query = f'{{ player(id: "{player.player_id}") {{ ratings({given}) {{ {HISTORY} }} }} }}'
    found: dict[str, Any] = (await client.ask(query))["player"]["ratings"]
    return found


async def code(client: Client, query: str) -> str:
    [error] = (await client.post(query))["errors"]
    told: str = error["extensions"]["code"]
    return told


async def test_a_match_that_is_played_out_changes_both_ratings(guest: Guest, anonymous: Client) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    assert await rating(anonymous, ann) is None
    match_id = await started(ann, bob, "{length: 3, rated: true}")
    assert (await ann.match(match_id, "ratingChanges { change } settings { rated }")) == {
        "ratingChanges": None,
        "settings": {"rated": True},
    }
    match = await play_out(random.Random(1), match_id, ann, bob)
    white, black = await known(anonymous, match_id)
    gain, loss = changes(Standing(), Standing(), 3)
    won = match["winner"] == "WHITE"
    ended_at = (await ann.match(match_id, "updatedAt"))["updatedAt"]
    assert white == {
        "player": {"id": ann.player_id},
        "matchId": match_id,
        "opponent": {"id": bob.player_id},
        "at": ended_at,
        "length": 3,
        "won": won,
        "counted": True,
        "ratingAfter": 1500 + (gain if won else loss),
        "change": gain if won else loss,
    }
    assert (black["player"], black["opponent"], black["won"]) == (white["opponent"], white["player"], not won)
    assert black["change"] == -white["change"]
    assert await rating(anonymous, ann) == {
        "value": white["ratingAfter"],
        "experience": 3,
        "matches": 1,
        "wins": int(won),
        "provisional": True,
    }
    assert (await ann.ask(f"{{ me {{ {RATING} }} }}"))["me"]["rating"] == await rating(bob, ann)
    assert [edge["node"] for edge in (await history(anonymous, ann))["edges"]] == [white]
    earlier = await anonymous.match(match_id, "ratingChanges { change }", version=4)
    assert earlier == {"ratingChanges": None}


async def test_giving_up_and_running_out_of_time_count(guest: Guest) -> None:
    ann, bob = await guest("Ann"), await guest("Bob")
    [white, black] = await known(ann, await given_up(ann, bob))
    assert (white["change"], black["change"]) == (-10, 10)
    timed_out = await started(ann, bob, "{length: 4, rated: true, clock: {reserve: 0, delay: 1}}")
    async with asyncio.timeout(SOON):
        while (await ann.match(timed_out, "phase"))["phase"] != "OVER":
            await asyncio.sleep(0.05)
    seats = {"WHITE": 0, "BLACK": 1}
    winner = seats[(await ann.match(timed_out, "winner"))["winner"]]
    changed = await known(bob, timed_out)
    assert changed[winner]["won"]
    assert changed[winner]["change"] > 0 > changed[1 - winner]["change"]


async def test_what_is_not_rated_changes_nothing(server: Server, guest: Guest) -> None:
    """Also a rated match that is sent in as a file: it was rated where it was played, once."""
    ann, bob = await guest("Ann"), await guest("Bob")
    rated = await given_up(ann, bob)
    await known(ann, rated)
    before = [await rating(ann, player) for player in (ann, bob)]
    others = [
        await given_up(ann, bob, "{length: 1}"),
        await given_up(ann, bob, "{length: null}"),
        await given_up(ann, bob, "{length: 1, sandbox: {dice: [[3, 1]]}}"),
    ]
    async with httpx2.AsyncClient(base_url=server.base, timeout=30) as http:
        log = (await http.get(f"/matches/{rated}/events")).text
        headers = {"authorization": f"Bearer {ann.token}"}
        sent = await http.post("/matches/import", content=log, headers=headers)
        assert sent.status_code in (200, 201), sent.text
        others.append(sent.json()["match"])
    cancelled = await ann.create(RATED)
    await ann.happens("cancelMatch", f'matchId: "{cancelled}"')
    await known(ann, await given_up(await guest("Dan"), await guest("Eve")))  # rated after all of these
    for match_id in [*others, cancelled]:
        assert (await ann.match(match_id, "ratingChanges { change }")) == {"ratingChanges": None}
    assert [await rating(ann, player) for player in (ann, bob)] == before
    for settings in ("{length: 1, rated: true, sandbox: {}}", "{length: null, rated: true}"):
        answer = await ann.command("createMatch", f"settings: {settings}")
        assert (answer["code"], "rated is for matches" in answer["message"]) == ("INVALID_SETTINGS", True)


async def test_the_same_two_over_and_over_are_capped(guest: Guest) -> None:
    ann, bob, eve = await guest("Ann"), await guest("Bob"), await guest("Eve")
    for n in range(5):
        await given_up(*((ann, bob) if n % 2 else (bob, ann)))
    last = await given_up(ann, bob)
    assert [change["counted"] for change in await known(ann, last)] == [False, False]
    edges = (await history(eve, bob))["edges"]
    assert [edge["node"]["counted"] for edge in reversed(edges)] == [True, True, True, False, False, False]
    third = edges[3]["node"]
    for edge in edges[:3]:
        assert (edge["node"]["change"], edge["node"]["ratingAfter"]) == (0, third["ratingAfter"])
    now = await rating(eve, bob)
    assert now is not None
    assert (now["value"], now["matches"], now["experience"]) == (third["ratingAfter"], 3, 3)
    assert [change["counted"] for change in await known(eve, await given_up(bob, eve))] == [True, True]


async def test_history_comes_in_pages_that_stay_as_they_are(guest: Guest) -> None:
    ann = await guest("Ann")
    ids = [await given_up(await guest(f"Bob {n}"), ann) for n in range(5)]
    await known(ann, ids[-1])
    found: list[str] = []
    given = "first: 2"
    for more in (True, True, False):
        page = await history(ann, ann, given)
        cursors = [edge["cursor"] for edge in page["edges"]]
        found += [edge["node"]["matchId"] for edge in page["edges"]]
        assert page["pageInfo"] == {
            "hasNextPage": more,
            "hasPreviousPage": given != "first: 2",
            "startCursor": cursors[0],
            "endCursor": cursors[-1],
        }
        await known(ann, await given_up(await guest("Eve"), ann))  # comes before the first page
        given = f'first: 2, after: "{cursors[-1]}"'
    assert found == ids[::-1]
    for wrong in ("first: 0", "first: 101", 'after: "x"', 'after: "-1"', 'after: "99999999999999999999"'):
        assert await code(ann, f"{{ me {{ ratings({wrong}) {{ {HISTORY} }} }} }}") == "BAD_INPUT", wrong


@pytest.mark.parametrize("visibility", ["PRIVATE", "UNLISTED"])
async def test_matches_that_are_not_listed_are_told_to_their_players_alone(
    guest: Guest, anonymous: Client, visibility: str
) -> None:
    """The ratings are everybody's; not which match, and against whom."""
    ann, bob, eve = await guest("Ann"), await guest("Bob"), await guest("Eve")
    settings = f"{{length: 1, rated: true, visibility: {visibility}}}"
    if visibility == "PRIVATE":
        match_id = await given_up(ann, bob, settings, f', opponent: "{bob.player_id}"')
    else:
        match_id = await ann.create(settings)
        invitation = (await ann.match(match_id, "invitation { joinCode }"))["invitation"]
        await bob.happens("joinMatch", f'code: "{invitation["joinCode"]}"')
        await ann.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    changed = await known(ann, match_id)
    assert [change["opponent"]["id"] for change in changed] == [bob.player_id, ann.player_id]
    for seen_by in (ann, bob, eve, anonymous):
        plays = seen_by in (ann, bob)
        for player, opponent in ((ann, bob), (bob, ann)):
            [edge] = (await history(seen_by, player))["edges"]
            assert edge["node"]["matchId"] == (match_id if plays else None)
            assert edge["node"]["opponent"] == ({"id": opponent.player_id} if plays else None)
            assert abs(edge["node"]["change"]) == 10
            assert match_id not in edge["cursor"]
            assert await rating(seen_by, player) is not None


async def board(client: Client, given: str) -> dict[str, Any]:
    query = f"{{ leaderboard({given}) {{ edges {{ cursor node {{ id name {RATING} }} }} {PAGE_INFO} }} }}"
    found: dict[str, Any] = (await client.ask(query))["leaderboard"]
    return found


async def test_the_leaderboard_page_by_page(guest: Guest, anonymous: Client) -> None:
    players = [await guest(f"Player {n}") for n in range(7)]
    chance = random.Random(5)
    for _ in range(9):
        last = await given_up(*chance.sample(players, 2), f"{{length: {chance.choice([1, 3, 9])}, rated: true}}")
    await known(anonymous, last)
    whole = [edge["node"] for edge in (await board(anonymous, "first: 100"))["edges"]]
    assert {player.player_id for player in players if await rating(anonymous, player)} <= {one["id"] for one in whole}
    order = [(one["rating"]["value"], one["id"]) for one in whole]
    assert order == sorted(order, reverse=True)
    assert all(one["name"] for one in whole)
    for size in (1, 3):
        found: list[dict[str, Any]] = []
        given, more = f'app: "", first: {size}', True
        while more:
            page = await board(anonymous, given)
            found += [edge["node"] for edge in page["edges"]]
            assert page["pageInfo"]["hasPreviousPage"] == ("after" in given)
            more, given = page["pageInfo"]["hasNextPage"], f'first: {size}, after: "{page["pageInfo"]["endCursor"]}"'
        assert found == whole
    assert (await board(players[0], 'app: "other"'))["edges"] == []
    assert (await board(players[0], 'app: "\\u0000"'))["edges"] == []


async def test_every_app_has_its_leaderboard(server: Server, guest: Guest, anonymous: Client, tmp_path: Path) -> None:
    """Rated matches are between users of one app; bots are among them, or are not, as one likes."""
    key = studio_key("EdDSA", "ratings")
    (tmp_path / "keys.json").write_bytes(key_set([key]))
    for app in ("one.example", "two.example"):
        assert videau(server.database, "add", app, "--key", f"{tmp_path}/keys.json").exit_code == 0

    async def user(app: str, sub: str, scope: str | None = None) -> Client:
        client = Client(server.url, key.token(app, sub, scope=scope))
        client.player_id = (await client.ask("{ me { id } }"))["me"]["id"]
        return client

    ann, bob = await user("one.example", "ann"), await user("one.example", "bob")
    robot, eve = await user("one.example", "robot", "bot"), await user("two.example", "eve")
    guy = await guest("Guy")
    match_id = await ann.create(RATED)
    for stranger in (eve, guy):
        assert (await stranger.command("joinMatch", f'matchId: "{match_id}"'))["code"] == "OTHER_APP"
    await bob.happens("joinMatch", f'matchId: "{match_id}"')
    await bob.happens("resign", f'matchId: "{match_id}" stake: MATCH')
    await known(eve, await given_up(ann, robot))
    for viewer, given in ((ann, ""), (eve, ', app: "one.example"'), (anonymous, ', app: "one.example"')):
        edges = (await board(viewer, f"first: 10{given}"))["edges"]
        assert [edge["node"]["id"] for edge in edges] == [robot.player_id, ann.player_id, bob.player_id]
        people = (await board(viewer, f"first: 10, bots: false{given}"))["edges"]
        assert people == edges[1:]
    assert (await board(eve, "first: 10"))["edges"] == []
    guests = [edge["node"]["id"] for edge in (await board(guy, "first: 100"))["edges"]]
    assert not {ann.player_id, bob.player_id, robot.player_id} & set(guests)
    for client in (ann, bob, robot, eve):
        await client.close()


async def test_cursors_that_are_none_are_refused(anonymous: Client) -> None:
    for wrong in ("", "x", "1500~abc", "1500.000000", "1e400~abc", "nan~abc", "1500.000000~\\u0000", "9" * 400):
        assert await code(anonymous, f'{{ leaderboard(after: "{wrong}") {{ {PAGE_INFO} }} }}') == "BAD_INPUT", wrong
    assert (await board(anonymous, 'after: "-999999999.000000~0"'))["edges"] == []


async def test_pages_count_in_full(anonymous: Client) -> None:
    nested = "{ leaderboard(first: 100) { edges { node { ratings(first: 100) { edges { node { change } } } } } } }"
    assert await code(anonymous, nested) == "QUERY_TOO_COSTLY"
    await anonymous.ask(nested.replace("ratings(first: 100)", "ratings(first: 5)"))


async def test_what_a_killed_server_had_not_rated_is_rated_by_the_next(own_server: Server) -> None:
    ann, bob = await register(own_server.url, "Ann"), await register(own_server.url, "Bob")
    for _ in range(2):
        match_id = await given_up(ann, bob)
        own_server.kill()
        own_server.start()
        assert [change["counted"] for change in await known(ann, match_id)] == [True, True]
    now = await rating(ann, bob)
    assert now is not None
    assert now["matches"] == 2
    await ann.close()
    await bob.close()


async def test_ratings_are_rebuilt_while_the_service_runs(own_server: Server) -> None:
    players = [await register(own_server.url, f"Player {n}") for n in range(4)]
    chance = random.Random(6)
    for _ in range(8):
        last = await given_up(*chance.sample(players, 2))
    await known(players[0], last)
    told = [await history(players[0], player) for player in players]
    rebuilt = own_server.videau("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert "8 rated matches: 0 rows of ratings were wrong or missing" in rebuilt.stdout
    with closing(sqlite3.connect(own_server.database)) as database, database:
        changed = database.execute("UPDATE ratings SET rating = rating + 1, change = 7").rowcount
        changed += database.execute("DELETE FROM standings").rowcount
    rebuilt = own_server.videau("rebuild")
    assert f"8 rated matches: {changed} rows of ratings were wrong or missing" in rebuilt.stdout
    assert [await history(players[0], player) for player in players] == told
    after = await known(players[0], await given_up(players[0], players[1]))
    before = told[0]["edges"][0]["node"]["ratingAfter"]
    assert after[0]["ratingAfter"] == pytest.approx(before + after[0]["change"])
    for player in players:
        await player.close()


async def test_a_rater_that_is_rung_as_it_is_closed_ends(tmp_path: Path) -> None:
    """In Python 3.11 a cancellation can get lost in `asyncio.wait_for`, and the process would not stop."""
    store = SqlStore(make_url(f"sqlite:///{tmp_path}/videau.db"), create=True)
    rater = Rater(Ratings(store.database))
    rater.start()
    async with asyncio.timeout(SOON):
        while not rater._rung._waiters:
            await asyncio.sleep(0.005)
        rater.ring()
        await asyncio.sleep(0)
    closed, _ = await asyncio.wait([asyncio.create_task(rater.close())], timeout=SOON)
    assert closed
    await store.close()
