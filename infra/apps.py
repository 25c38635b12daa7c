"""The rows of apps, and of the players who are their users."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Insert, Table, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import SQLModel

from infra.database import Database
from infra.ids import id_from, new_id
from infra.log import encode_time
from infra.tables import AppRow, PlayerRow

_apps, _players = (SQLModel.metadata.tables[row.__tablename__] for row in (AppRow, PlayerRow))


ISSUER = "videau"
"""Who signs our own tokens; no app has this name."""

STALE_SECONDS = 10.0
"""How old the rows of apps may be, in any process."""


class User(Struct, frozen=True, kw_only=True):
    """A user of an app, as its token says."""

    app: str
    subject: str
    name: str | None
    """None: nothing that could be shown as a name."""
    bot: bool

    @property
    def default_name(self) -> str:
        """What to call a user whose app gives no name: this does not tell what the app calls it."""
        return f"Player {id_from(f'{self.app} {self.subject}')[:6]}"


class AppStore:
    """Which apps there are, with their keys, and who their users are here."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[AppRow]:
        """Every app, by name."""
        query = select(_apps).order_by(_apps.c.name)
        return await self._database.read(
            lambda connection: [AppRow(**row._mapping) for row in connection.execute(query)]
        )

    async def add(self, app: AppRow) -> bool:
        """Keep a new app; False if there is one of this name, which stays as it is."""

        def work(connection: Connection, tries: int) -> bool:
            added = _insert(connection, _apps).values(app.model_dump()).returning(_apps.c.name)
            return connection.execute(added).first() is not None

        return await self._database.write(work)

    async def change(self, name: str, make: Callable[[AppRow], dict[str, Any]]) -> bool:
        """Change an app to what `make` says of its row, which nobody else changes meanwhile; False if there is none."""

        def work(connection: Connection, tries: int) -> bool:
            found = connection.execute(select(_apps).where(_apps.c.name == name).with_for_update()).first()
            if found is None:
                return False
            connection.execute(update(_apps).where(_apps.c.name == name).values(make(AppRow(**found._mapping))))
            return True

        return await self._database.write(work)

    async def player(self, user: User) -> PlayerRow:
        """The player who is a user: new at first sight, of the name that it has now, and a bot from the first time that
        it is said to be one. All processes that ask at once get the same player."""
        query = select(_players).where(_players.c.app == user.app, _players.c.subject == user.subject)

        def read(connection: Connection) -> PlayerRow | None:
            found = connection.execute(query).first()
            return PlayerRow(**found._mapping) if found else None

        def work(connection: Connection, tries: int) -> PlayerRow:
            new = PlayerRow(
                id=new_id(),
                name=user.name or user.default_name,
                created_at=encode_time(datetime.now(UTC)),
                app=user.app,
                subject=user.subject,
                bot=user.bot,
            )
            connection.execute(_insert(connection, _players), new.model_dump())
            found = read(connection)
            assert found is not None
            found.name, found.bot = user.name or found.name, user.bot or found.bot
            changed = {"name": found.name, "bot": found.bot}
            connection.execute(update(_players).where(_players.c.id == found.id).values(changed))
            return found

        known = await self._database.read(read)
        if known is not None and known.name == (user.name or known.name) and known.bot >= user.bot:
            return known
        return await self._database.write(work)


def _insert(connection: Connection, table: Table) -> Insert:
    """The statement that leaves what is there already as it is."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()
