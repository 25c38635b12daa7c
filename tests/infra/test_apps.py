"""The rows of apps and their users, on both databases."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy.engine import URL

from infra.apps import User
from infra.store import SqlStore
from infra.tables import AppRow

AT = "2026-11-30T08:00:00.000000Z"


@pytest.fixture
async def store(database: URL) -> AsyncIterator[SqlStore]:
    opened = SqlStore(database, create=True)
    yield opened
    await opened.close()


async def test_an_app_is_added_once_listed_and_changed(store: SqlStore) -> None:
    apps = store.apps
    assert await apps.all() == []
    assert await apps.add(AppRow(name="gammon", created_at=AT, jwks_url="https://gammon.example/jwks.json"))
    assert not await apps.add(AppRow(name="gammon", created_at=AT, jwks="{}"))
    assert await apps.change("gammon", lambda row: {"revoked_at": AT})
    assert not await apps.change("another", lambda row: {"revoked_at": AT})
    [row] = await apps.all()
    assert (row.name, row.jwks_url, row.jwks, row.revoked_at) == (
        "gammon", "https://gammon.example/jwks.json", None, AT
    )  # fmt: skip


async def test_two_who_change_an_app_at_once_both_have_their_way(store: SqlStore) -> None:
    await store.apps.add(AppRow(name="gammon", created_at=AT, jwks=""))
    letters = "abcdefghijklmnopqrst"
    await asyncio.gather(
        *(store.apps.change("gammon", lambda row, letter=letter: {"jwks": row.jwks + letter}) for letter in letters)
    )
    [row] = await store.apps.all()
    assert sorted(row.jwks or "") == list(letters)


async def test_a_user_is_one_player_whoever_asks_first(database: URL, store: SqlStore) -> None:
    """Two processes see the first token of one user at once."""
    other = SqlStore(database)
    user = User(app="gammon", subject="ann", name="Ann", bot=False)
    players = await asyncio.gather(*((store, other)[n % 2].apps.player(user) for n in range(40)))
    assert len({player.id for player in players}) == 1
    again = await other.apps.player(user)
    assert (again.id, again.app, again.subject, again.name, again.bot) == (players[0].id, "gammon", "ann", "Ann", False)
    await other.close()


async def test_users_of_the_same_name_in_two_apps_are_two_players(store: SqlStore) -> None:
    ids = {
        (await store.apps.player(User(app=app, subject=subject, name="Ann", bot=False))).id
        for app in ("gammon", "Gammon")
        for subject in ("ann", "Ann", "ann ")
    }
    assert len(ids) == 6


async def test_a_player_has_the_name_that_its_app_said_last_and_is_a_bot_once_it_was_said(store: SqlStore) -> None:
    async def seen(name: str | None, bot: bool = False) -> tuple[str, bool]:
        player = await store.apps.player(User(app="gammon", subject="ann", name=name, bot=bot))
        [stored] = await store.players([player.id])
        assert stored == player
        return player.name, player.bot

    first = await seen(None)
    assert first[0].startswith("Player ")
    assert await seen("Ann") == ("Ann", False)
    assert await seen(None) == ("Ann", False)
    assert await seen("Annette", bot=True) == ("Annette", True)
    assert await seen("Annette") == ("Annette", True)
