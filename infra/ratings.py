"""Ratings as the database has them: they follow from the log, match by match in the order in which matches ended.

A row says how far in the feed they have come. Any process may take them further: it holds that row until what it has
rated is committed, so that each match is rated once, whoever is killed in between.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from heapq import nlargest
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import asdict
from sqlalchemy import Connection, Select, Table, and_, bindparam, delete, func, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import SQLModel

from domain.ratings import COUNTED, DAY, Standing, changes, counts
from infra.database import Database
from infra.log import decode_time, encode_time, instant, moment
from infra.tables import EventRow, FeedRow, MatchRow, PlayerRow, ProjectionRow, RatingRow, StandingRow

Row = TypeVar("Row", StandingRow, RatingRow)

BATCH = 2_000
"""Events that are gone through in one transaction at most."""

PAGE = 5_000
"""Ratings that are looked through at once."""

STRIDE = 20_000
"""Events that are gone through at once where nothing is written."""

REMEMBERED = 100_000
"""Events without a rated match's end after which the position is written nevertheless."""

_events, _feed, _matches, _players, _ratings, _standings, _projections = (
    SQLModel.metadata.tables[row.__tablename__]
    for row in (EventRow, FeedRow, MatchRow, PlayerRow, RatingRow, StandingRow, ProjectionRow)
)

_position = select(_projections.c.position).where(_projections.c.name == "ratings")
_newest = select(_feed.c.position)


class Rebuilt(NamedTuple):
    """What making ratings anew has come to: matches rated, and rows that were not as they should be."""

    matches: int
    changed: int


class _Ended(NamedTuple):
    """A rated match that was won, by its last event."""

    position: int
    match_id: str
    at: str
    app: str
    length: int
    white: str
    black: str
    winner: str

    @property
    def pair(self) -> tuple[str, str]:
        """The two players, however they sat."""
        return min(self.white, self.black), max(self.white, self.black)


class _Book:
    """Standings, and when pairs of players have ended matches that counted, as matches are rated one after another."""

    def __init__(self) -> None:
        self.apps: dict[str, str] = {}
        self.standings: defaultdict[str, Standing] = defaultdict(Standing)
        self.met: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def rate(self, ended: _Ended) -> list[dict[str, Any]]:
        """The rows of both ratings after this match."""
        at = instant(decode_time(ended.at))
        winner, loser = (ended.white, ended.black) if ended.winner == "white" else (ended.black, ended.white)
        counted = counts(at, self.met[ended.pair])
        gain, loss = changes(self.standings[winner], self.standings[loser], ended.length) if counted else (0.0, 0.0)
        if counted:
            self.met[ended.pair] = nlargest(COUNTED, [*self.met[ended.pair], at])
        rows = []
        for player, opponent, change in ((winner, loser, gain), (loser, winner, loss)):
            self.apps[player] = ended.app
            if counted:
                self.standings[player] = self.standings[player].after(change, ended.length, won=player == winner)
            standing = self.standings[player]
            row = RatingRow(
                player_id=player,
                position=ended.position,
                match_id=ended.match_id,
                opponent_id=opponent,
                at=ended.at,
                length=ended.length,
                won=player == winner,
                counted=counted,
                rating=standing.rating,
                change=change,
                experience=standing.experience,
            )
            rows.append(row.model_dump())
        return rows

    def rows(self, players: Iterable[str]) -> list[dict[str, Any]]:
        """The rows of these players' standings."""
        stands = ((player, self.standings[player]) for player in players)
        return [{"player_id": player, "app": self.apps[player], **asdict(standing)} for player, standing in stands]


class Ratings:
    """The ratings of all players."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked = 0, 0
        """A position that ratings had come to, and one up to which no rated match has ended since."""

    # keeping up with the log

    async def advance(self) -> bool:
        """Rate the matches that have ended since, or some of them; whether there may be more. Raises Unavailable."""
        position, newest = await self._database.read(_places)
        if newest <= position:
            return False
        after = self._looked[1] if self._looked[0] == position else position
        until = min(newest, after + STRIDE)
        found = await self._database.read(partial(_ended, after, until, limit=1))
        if found:
            await self._database.write(partial(_rate, position, found[0].position - 1))
            return True
        self._looked = position, until
        if until - position >= REMEMBERED:
            await self._database.write(partial(_move_on, position, until))
        return until < newest

    async def rebuild(self) -> Rebuilt:
        """Make all rows anew from the rows of matches and the feed, where they are not as they should be.

        Matches may end and be rated meanwhile; what has been computed from wrong standings then is mended too.
        """
        book = _Book()
        changed = await self._remove_strays()
        matches = reached = 0
        standing: int | None = None
        while standing is None:
            position, newest = await self._database.read(_places)
            while reached < min(position, newest):
                until = min(reached + BATCH, position, newest)
                ended = await self._database.read(partial(_ended, reached, until))
                right = {(row["player_id"], row["position"]): row for each in ended for row in book.rate(each)}
                wrong = await self._database.read(partial(_wrong_ratings, [each.match_id for each in ended], right))
                if wrong:
                    await self._database.write(partial(_mend_ratings, wrong))
                matches, changed, reached = matches + len(ended), changed + len(wrong), until
            stands = {(row["player_id"],): row for row in book.rows(book.standings)}
            wrong = await self._database.read(partial(_wrong_standings, stands))
            standing = await self._database.write(partial(_mend_standings, position, reached, wrong))
        while await self.advance():
            pass
        return Rebuilt(matches, changed + standing)

    async def _remove_strays(self) -> int:
        """Remove the ratings that are of no rated match; how many there were."""
        removed, last = 0, ("", 0)
        while page := await self._database.read(partial(_ratings_page, last)):
            if strays := [key for key, match_id in page if match_id is None]:
                await self._database.write(partial(_mend_ratings, dict.fromkeys(strays)))
            removed, last = removed + len(strays), page[-1][0]
        return removed

    # what they are

    async def standings(self, players: Iterable[str]) -> dict[str, StandingRow]:
        """The standings of those of the players who have played a rated match."""
        query = select(_standings).where(_standings.c.player_id.in_(list(players)))
        rows = await self._rows(StandingRow, query)
        return {row.player_id: row for row in rows}

    async def best(
        self, app: str, *, first: int, after: tuple[float, str] | None = None, bots: bool = True
    ) -> list[StandingRow]:
        """The `first` best players of an app after the one with this rating and id."""
        if "\0" in app:
            return []
        query = select(_standings).where(_standings.c.app == app)
        if after is not None:
            query = query.where(tuple_(_standings.c.rating, _standings.c.player_id) < after)
        if not bots:
            query = query.join(_players, _players.c.id == _standings.c.player_id).where(_players.c.bot.is_(False))
        query = query.order_by(_standings.c.rating.desc(), _standings.c.player_id.desc()).limit(first)
        return await self._rows(StandingRow, query)

    async def history(self, player: str, *, first: int, before: int | None = None) -> list[tuple[int, RatingRow]]:
        """The `first` newest ratings of a player with their numbers (1 is the player's first), before a number."""
        number = func.row_number().over(order_by=_ratings.c.position).label("number")
        numbered = select(_ratings, number).where(_ratings.c.player_id == player).subquery()
        query = select(numbered).order_by(numbered.c.number.desc()).limit(first)
        if before is not None:
            query = query.where(numbered.c.number < before)

        def read(connection: Connection) -> list[tuple[int, RatingRow]]:
            rows = [dict(row) for row in connection.execute(query).mappings()]
            return [(row.pop("number"), RatingRow(**row)) for row in rows]

        return await self._database.read(read)

    async def of_match(self, match_id: str) -> list[RatingRow]:
        """What a match has done to both ratings; nothing as long as it is not known."""
        return await self._rows(RatingRow, select(_ratings).where(_ratings.c.match_id == match_id))

    async def _rows(self, kind: type[Row], query: Select[Any]) -> list[Row]:
        return await self._database.read(
            lambda connection: [kind(**row) for row in connection.execute(query).mappings()]
        )


def _places(connection: Connection) -> tuple[int, int]:
    """How far ratings have come, and the position of the newest event."""
    position, newest = connection.execute(select(_position.scalar_subquery(), _newest.scalar_subquery())).one()
    return position, newest


def _held(connection: Connection) -> int:
    """How far ratings have come; they go no further until the end of this transaction, but by it."""
    return int(connection.execute(_position.with_for_update()).scalar_one())


def _put_position(connection: Connection, position: int) -> None:
    connection.execute(update(_projections).where(_projections.c.name == "ratings").values(position=position))


# by columns without an index, so that the positions are what is searched by
_RATED = and_(_matches.c.rated, _matches.c.winner.is_not(None), ~_matches.c.sandbox, ~_matches.c.imported)


def _ended(after: int, until: int, connection: Connection, limit: int | None = None) -> list[_Ended]:
    """The rated matches that were won with an event after one position and up to another, in this order."""
    query = (
        select(
            _events.c.position,
            _matches.c.id,
            _events.c.at,
            _matches.c.app,
            _matches.c.length,
            _matches.c.white,
            _matches.c.black,
            _matches.c.winner,
        )
        .join(_matches, (_matches.c.id == _events.c.match_id) & (_matches.c.version == _events.c.seq))
        .where(_events.c.position > after, _events.c.position <= until)
        .where(_RATED)
        .order_by(_events.c.position)
        .limit(limit)
    )
    return [_Ended(*row) for row in connection.execute(query)]


def _move_on(position: int, until: int, connection: Connection, tries: int) -> None:
    """Note that no rated match has ended between these."""
    if position <= _held(connection) < until:
        _put_position(connection, until)


def _rate(position: int, after: int, connection: Connection, tries: int) -> None:
    """Rate the next matches. There was nothing to rate from `position` until `after`."""
    held = _held(connection)
    if held < position:
        return
    after = max(held, after)
    until = min(after + BATCH, int(connection.execute(_newest).scalar_one()))
    ended = _ended(after, until, connection)
    if ended:
        book = _book(connection, ended)
        connection.execute(insert(_ratings), [row for each in ended for row in book.rate(each)])
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        put = dialect.insert(_standings)
        named = {name: put.excluded[name] for name in ("app", "rating", "experience", "matches", "wins")}
        rows = book.rows({player for each in ended for player in each.pair})
        connection.execute(put.on_conflict_do_update(index_elements=["player_id"], set_=named), rows)
    _put_position(connection, max(held, until))


def _book(connection: Connection, ended: Sequence[_Ended]) -> _Book:
    """What must be known to rate these matches."""
    book = _Book()
    players = {player for each in ended for player in each.pair}
    for row in connection.execute(select(_standings).where(_standings.c.player_id.in_(players))):
        book.standings[row.player_id] = Standing(row.rating, row.experience, row.matches, row.wins)
    earliest = min(instant(decode_time(each.at)) for each in ended)
    pairs = {each.pair for each in ended}
    met = select(_ratings.c.player_id, _ratings.c.opponent_id, _ratings.c.at).where(
        _ratings.c.player_id.in_({first for first, _ in pairs}),
        _ratings.c.counted,
        _ratings.c.at > encode_time(moment(earliest - DAY)),
    )
    for player, opponent, at in connection.execute(met):
        if (player, opponent) in pairs:
            book.met[player, opponent].append(instant(decode_time(at)))
    return book


# mending

_Rows = dict[tuple[Any, ...], dict[str, Any]]
"""Rows by their keys."""

_Wrong = dict[tuple[Any, ...], dict[str, Any] | None]
"""What rows should be, by their keys, where they are not; None for those that should not be."""


def _wrong(query: Select[Any], names: tuple[str, ...], right: _Rows, connection: Connection) -> _Wrong:
    found = {tuple(row[name] for name in names): dict(row) for row in connection.execute(query).mappings()}
    return {key: right.get(key) for key in found.keys() | right.keys() if found.get(key) != right.get(key)}


def _wrong_ratings(matches: list[str], right: _Rows, connection: Connection) -> _Wrong:
    query = select(_ratings).where(_ratings.c.match_id.in_(matches))
    return _wrong(query, ("player_id", "position"), right, connection)


def _ratings_page(after: tuple[str, int], connection: Connection) -> list[tuple[tuple[str, int], str | None]]:
    """The keys of the next ratings, with the match if it is a rated one that was won."""
    key = _ratings.c.player_id, _ratings.c.position
    query = (
        select(*key, _matches.c.id)
        .join(_matches, and_(_matches.c.id == _ratings.c.match_id, _RATED), isouter=True)
        .where(tuple_(*key) > after)
        .order_by(*key)
        .limit(PAGE)
    )
    return [((player, position), match_id) for player, position, match_id in connection.execute(query)]


def _wrong_standings(right: _Rows, connection: Connection) -> _Wrong:
    return _wrong(select(_standings), ("player_id",), right, connection)


def _mend(connection: Connection, table: Table, wrong: _Wrong) -> None:
    keys = [column.name for column in table.primary_key]
    remove = delete(table).where(*(table.c[key] == bindparam(f"its_{key}") for key in keys))
    if wrong:
        named = [{f"its_{key}": part for key, part in zip(keys, parts, strict=True)} for parts in wrong]
        connection.execute(remove, named)
    if rows := [row for row in wrong.values() if row is not None]:
        connection.execute(insert(table), rows)


def _mend_ratings(wrong: _Wrong, connection: Connection, tries: int) -> None:
    _held(connection)
    _mend(connection, _ratings, wrong)


def _mend_standings(position: int, reached: int, wrong: _Wrong, connection: Connection, tries: int) -> int | None:
    """How many rows this mends; None, and it does nothing, where ratings have come further than `position`.

    It removes ratings at positions not yet reached too: they are not there yet.
    """
    if _held(connection) != position:
        return None
    early = connection.execute(delete(_ratings).where(_ratings.c.position > reached)).rowcount
    _mend(connection, _standings, wrong)
    _put_position(connection, reached)
    return len(wrong) + early
