"""Ratings on a real SQLite and a real PostgreSQL: in order, once, by many processes, killed ones, and made anew."""

import asyncio
import itertools
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import URL, Engine, make_url

from domain.board import Color, Dice
from domain.commands import Cancel, Command, Create, Join, Resign, Roll, TimeOut
from domain.events import Clock, Event, Sandbox, Settings, Stake
from domain.match import SECOND, Match
from domain.ratings import Standing, changes
from domain.rules import decide, evolve
from infra.log import GENESIS, instant, record, replay
from infra.ratings import Ratings
from infra.store import Append, PlayerRow, SqlStore, Unavailable

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
WHITE, BLACK = Color.WHITE, Color.BLACK

RATERS = """
import asyncio, multiprocessing, os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from infra import ratings
from infra.settings import Settings
from infra.store import SqlStore

ratings.BATCH = 10

async def rate(left, all_here):
    def count(*_):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store, steps = SqlStore(Settings(database_url=sys.argv[1]).url), 0
    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)
    rated = ratings.Ratings(store.database)
    all_here.wait()
    while await rated.advance():
        steps += 1
    await store.close()
    print("rated" if steps else "idle", flush=True)

def process(left, all_here):
    pid = os.fork()
    if not pid:
        asyncio.run(rate(left, all_here))
        os._exit(0)
    return pid

for together in sys.argv[2:]:
    numbers = [int(left) for left in together.split("+")]
    all_here = multiprocessing.get_context("fork").Barrier(len(numbers))
    pids = [process(left, all_here) for left in numbers]
    for pid in pids:
        if os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
            print("killed", flush=True)
"""
"""Processes that rate all there is, a few events at a time, one after another or (with a +) together; each is killed
(kill -9) before the so manieth statement or commit, 0 is never."""


def raters(database: URL, *processes: str) -> list[str]:
    """What has become of the processes."""
    url = database.render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-c", RATERS, url, *processes],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
async def store(database: URL) -> AsyncIterator[SqlStore]:
    opened = SqlStore(database, create=True)
    yield opened
    await opened.close()


@pytest.fixture
def ratings(store: SqlStore) -> Ratings:
    return Ratings(store.database)


def run(database: URL, *statements: str) -> None:
    """Somebody else writes into the database."""
    engine = create_engine(database)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def rows(database: URL) -> dict[str, list[tuple[Any, ...]]]:
    """Everything there is about ratings."""
    engine = create_engine(database)
    queries = {
        "ratings": "SELECT * FROM ratings ORDER BY position, player_id",
        "standings": "SELECT * FROM standings ORDER BY player_id",
        "projections": "SELECT * FROM projections",
    }
    with engine.connect() as connection:
        found = {name: [tuple(row) for row in connection.execute(text(query))] for name, query in queries.items()}
    engine.dispose()
    return found


def played(
    match_id: str, white: str, black: str, *end: Command, at: datetime = NOW, imported: str | None = None, **agreed: Any
) -> Append:
    """A match from its creation to some end; rated, to 5 points, and white gives it up, when nothing else is said."""
    settings = Settings(**{"length": 5, "rated": True} | agreed)
    opening: list[Command] = [
        Create(match=match_id, settings=settings, color=WHITE, player=white, app="game", imported=imported),
        Join(player=black, app="game"),
        Roll(by=None, dice=Dice(3, 1)),
    ]
    if settings.sandbox or settings.length is None:
        opening[0] = replace(opening[0], settings=replace(settings, rated=False))  # type: ignore[type-var]
    match: Match | None = None
    events: list[Event] = []
    for command in [*opening, *(end or [Resign(by=WHITE, stake=Stake.MATCH)])]:
        when = instant(at) + (0 if not isinstance(command, TimeOut) else 60 * SECOND)
        for each in decide(match, command, when):
            match = evolve(match, each, when)
            events.append(each)
    assert match is not None
    return Append(match=match, recorded=record(GENESIS, 0, at, events), auto_roll=(True, True))


def resigns(color: Color) -> Resign:
    return Resign(by=color, stake=Stake.MATCH)


async def caught_up(ratings: Ratings) -> None:
    while await ratings.advance():
        pass


async def many(store: SqlStore, number: int, chance: random.Random, name: str = "m") -> None:
    """A number of matches between a few players over some days, and others that are not rated."""
    appends = []
    for n in range(number):
        white, black = chance.sample("abcdefgh", 2)
        length, at = chance.choice([1, 3, 5, 7, 25]), NOW + n * 7 * timedelta(minutes=chance.randint(1, 3))
        end = resigns(chance.choice([WHITE, BLACK]))
        appends.append(played(f"{name}{n}", white, black, end, at=at, length=length, rated=chance.random() < 0.8))
    chance.shuffle(appends)  # so that times and positions disagree somewhat, as with clocks that differ
    await asyncio.gather(*(store.append(append) for append in appends))


async def from_the_log(store: SqlStore) -> tuple[list[tuple[Any, ...]], dict[str, Standing]]:
    """What ratings must be, by reading the log alone and slowly."""
    last = {}
    for fed in await store.feed(0, 1_000_000):
        last[fed.match_id] = fed.position
    standings: dict[str, Standing] = defaultdict(Standing)
    counted: dict[frozenset[str], list[datetime]] = defaultdict(list)
    told = []
    for match_id, position in sorted(last.items(), key=lambda item: item[1]):
        records = await store.read(match_id)
        match, at = replay(records), records[-1].at
        if match.winner is None or not match.settings.rated or match.imported or match.settings.sandbox:
            continue
        winner, loser = match.player(match.winner), match.player(match.winner.opponent)
        assert winner
        assert loser
        assert match.settings.length
        pair = frozenset((winner, loser))
        counts = len([then for then in counted[pair] if then > at - 24 * HOUR]) < 3
        gained = (0.0, 0.0)
        if counts:
            counted[pair].append(at)
            gained = changes(standings[winner], standings[loser], match.settings.length)
        for player, change in zip((winner, loser), gained, strict=True):
            if counts:
                before, n = standings[player], match.settings.length
                standings[player] = before.after(change, n, won=player == winner)
            after = standings[player]
            told.append((position, player, match_id, counts, change, after.rating, after.experience))
    return sorted(told), standings


async def agree(database: URL, store: SqlStore) -> None:
    """What is in the database is what the log says, and all of it."""
    found = rows(database)
    told, standings = await from_the_log(store)
    assert [
        (position, player, match_id, bool(counted), change, rating, experience)
        for player, position, match_id, _, _, _, _, counted, rating, change, experience in found["ratings"]
    ] == told
    assert {row[0]: Standing(*row[2:]) for row in found["standings"]} == standings
    [(name, position)] = found["projections"]
    assert name == "ratings"
    # DECISIONS.md 37: events after the last rated match are read, and not noted one by one
    assert max((row[0] for row in told), default=0) <= position <= await store.position()


async def test_a_match_changes_both_ratings(store: SqlStore, ratings: Ratings) -> None:
    assert not await ratings.advance()
    await store.append(played("m1", "ann", "bob"))
    await caught_up(ratings)
    changed = {row.player_id: row for row in await ratings.of_match("m1")}
    assert {row.match_id for row in changed.values()} == {"m1"}
    assert (changed["bob"].change, changed["bob"].rating, changed["bob"].won) == (22.36068, 1522.36068, True)
    assert (changed["ann"].change, changed["ann"].rating, changed["ann"].won) == (-22.36068, 1477.63932, False)
    assert changed["ann"].opponent_id == "bob"
    standings = await ratings.standings(["ann", "bob", "nobody"])
    assert standings.keys() == {"ann", "bob"}
    bob = standings["bob"]
    assert (bob.app, bob.rating, bob.experience, bob.matches, bob.wins) == ("game", 1522.36068, 5, 1, 1)


async def test_forfeits_count_and_whatever_is_no_rated_match_does_not(store: SqlStore, ratings: Ratings) -> None:
    on_time = Clock(reserve=0, delay=30)
    for append in (
        played("resigned", "a", "b"),
        played("timed out", "c", "d", TimeOut(by=WHITE), clock=on_time),
        played("unrated", "a", "b", rated=False),
        played("money", "a", "b", resigns(WHITE), length=None),
        played("sandbox", "a", "b", resigns(WHITE), sandbox=Sandbox()),
        played("imported", "a", "b", imported="ndjson"),
        played("called off", "a", "b", Cancel(by=BLACK, absent=900)),
        played("going on", "a", "b", Resign(by=WHITE, stake=Stake.SINGLE)),
    ):
        await store.append(append)
    await caught_up(ratings)
    assert [row.match_id for _, row in await ratings.history("a", first=10)] == ["resigned"]
    [(number, row)] = await ratings.history("c", first=10)
    assert number == 1
    assert (row.match_id, row.won) == ("timed out", False)


async def test_three_matches_of_the_same_two_count_within_a_day(store: SqlStore, ratings: Ratings) -> None:
    """By the time of their ends, in either seat; others are not concerned, and the day after they count again."""
    for n, hours in enumerate([0, 1, 2, 3, 23.9, 24, 24.5, 25]):
        pair = ("ann", "bob") if n % 2 else ("bob", "ann")
        await store.append(played(f"m{n}", *pair, at=NOW + hours * HOUR))
        if hours == 3:
            await store.append(played("other", "ann", "eve", at=NOW + 3 * HOUR))
            before = (await ratings.standings(["ann"])).get("ann")
            assert before is None
    await caught_up(ratings)
    history = [row for _, row in await ratings.history("bob", first=10)]
    assert [(row.match_id, row.counted) for row in reversed(history)] == [
        ("m0", True), ("m1", True), ("m2", True), ("m3", False), ("m4", False), ("m5", True), ("m6", False),
        ("m7", True),
    ]  # fmt: skip
    for row, before in itertools.pairwise(history):
        if not row.counted:
            assert (row.rating, row.experience, row.change) == (before.rating, before.experience, 0)
    assert (await ratings.history("eve", first=1))[0][1].counted
    bob = (await ratings.standings(["bob"]))["bob"]
    assert (bob.matches, bob.experience) == (5, 25)


async def test_ratings_are_what_the_log_says(
    database: URL, store: SqlStore, ratings: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the matches' ends, whatever comes in one go; and there is nothing to mend."""
    monkeypatch.setattr("infra.ratings.BATCH", 37)
    monkeypatch.setattr("infra.ratings.STRIDE", 11)
    for n in range(3):
        await many(store, 60, random.Random(n)) if n == 0 else await store.append(played(f"more{n}", "a", "b"))
        await caught_up(ratings)
        await agree(database, store)
    before = rows(database)
    assert any(not row[7] for row in before["ratings"]), "some did not count"
    assert (await ratings.rebuild()).changed == 0
    assert rows(database) == before


async def test_where_nothing_is_rated_nothing_is_written_for_long(
    database: URL, store: SqlStore, ratings: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.ratings.REMEMBERED", 20)
    for n in range(3):
        await store.append(played(f"m{n}", "a", "b", rated=False))
        await caught_up(ratings)
        assert rows(database)["projections"] == [("ratings", 0)]
    for n in range(3, 9):
        await store.append(played(f"m{n}", "a", "b", rated=False))
        await caught_up(ratings)
    position = rows(database)["projections"][0][1]
    assert 20 <= position <= await store.position()
    await store.append(played("rated", "a", "b"))
    await caught_up(ratings)
    await agree(database, store)


async def test_processes_together_rate_every_match_once(database: URL, store: SqlStore) -> None:
    for seed in range(2, 7):  # one may have done it all before the other had its turn
        await many(store, 150, random.Random(seed), f"m{seed}-")
        done = raters(database, "0+0")
        await agree(database, store)
        if done == ["rated"] * 2:
            return
    raise AssertionError("one of them never had anything to do")


async def test_a_killed_process_loses_nothing(database: URL, store: SqlStore) -> None:
    """kill -9 before each kind of statement, and before the commit; the next one goes on where it was."""
    await many(store, 100, random.Random(3))
    each = [str(statement) for statement in range(20, 32)]
    assert raters(database, *each, "0") == ["killed"] * len(each) + ["rated"]
    await agree(database, store)


async def test_rebuilding_mends_what_somebody_has_changed(
    database: URL, store: SqlStore, ratings: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ratings that are wrong, missing, too many or of nothing; the standings, and how far they have come."""
    monkeypatch.setattr("infra.ratings.BATCH", 50)
    monkeypatch.setattr("infra.ratings.PAGE", 7)
    await many(store, 60, random.Random(4))
    await caught_up(ratings)
    before = rows(database)
    some = before["ratings"][0][1]
    for statements, wrong in (
        ([f"UPDATE ratings SET rating = rating + 0.000001 WHERE position = {some}"], 2),
        (["DELETE FROM ratings WHERE player_id = 'a'"], len([row for row in before["ratings"] if row[0] == "a"])),
        (["UPDATE standings SET rating = 3000, wins = 0 WHERE player_id = 'b'"], 1),
        (["DELETE FROM standings WHERE player_id IN ('a', 'c')"], 2),
        (["INSERT INTO standings VALUES ('x', 'game', 9999, 0, 0, 0)"], 1),
        ([f"INSERT INTO ratings SELECT 'x', {n}, match_id, opponent_id, at, length, won, counted, rating, change, "
          f"experience FROM ratings WHERE position = {some} AND player_id < opponent_id"
          for n in (some, "-4", "1000000")], 3),
        (["UPDATE ratings SET match_id = 'none' WHERE player_id = 'a'"],
         len([row for row in before["ratings"] if row[0] == "a"]) * 2),
        (["INSERT INTO ratings SELECT 'x', 3, id, 'y', created_at, 5, true, true, 1500, 0, 5 FROM matches "
          "WHERE NOT rated LIMIT 1"], 1),
        (["UPDATE projections SET position = 1000000"], 0),
        (["UPDATE projections SET position = 0"], len(before["ratings"]) + len(before["standings"])),
        (["DELETE FROM ratings", "DELETE FROM standings", "UPDATE projections SET position = 0"], 0),
        (["UPDATE matches SET rated = false"], 0),
    ):  # fmt: skip
        run(database, *statements)
        await store.rebuild()
        rebuilt = await ratings.rebuild()
        assert rebuilt.changed == wrong, statements
        assert rows(database) == before, statements


async def test_rebuilding_while_matches_end(
    database: URL, store: SqlStore, ratings: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong standings are the ground of what is rated meanwhile; in the end everything is right."""
    await many(store, 60, random.Random(5))
    await caught_up(ratings)
    run(database, "UPDATE standings SET rating = rating + 100", "UPDATE ratings SET rating = rating + 100")
    ended = 0

    async def service() -> None:
        nonlocal ended
        chance = random.Random(6)
        while not rebuilding.done():
            white, black = chance.sample("abcdefgh", 2)
            await store.append(played(f"meanwhile{ended}", white, black, at=NOW + ended * HOUR))
            await Ratings(store.database).advance()
            ended += 1

    monkeypatch.setattr("infra.ratings.BATCH", 20)
    rebuilding = asyncio.create_task(ratings.rebuild())
    await service()
    assert (await rebuilding).changed > 60
    assert ended > 0
    await caught_up(ratings)
    await agree(database, store)


async def test_two_rebuild_at_once(database: URL, store: SqlStore, ratings: Ratings) -> None:
    await many(store, 60, random.Random(7))
    await caught_up(ratings)
    run(database, "UPDATE ratings SET rating = rating + 100", "UPDATE standings SET matches = 0")
    other = SqlStore(database)
    await asyncio.gather(ratings.rebuild(), Ratings(other.database).rebuild())
    await other.close()
    await agree(database, store)


async def test_a_position_that_was_set_back_harms_nothing_but_is_said(
    database: URL, store: SqlStore, ratings: Ratings
) -> None:
    await many(store, 20, random.Random(8))
    await caught_up(ratings)
    before = rows(database)
    run(database, "UPDATE projections SET position = 0")
    with pytest.raises(Unavailable):
        await caught_up(ratings)
    await ratings.rebuild()
    assert rows(database) == before


async def test_the_best_page_by_page(store: SqlStore, ratings: Ratings) -> None:
    """Equal ratings by their ids; without bots on request; other apps have theirs."""
    for n, (winner, loser) in enumerate([("a", "b"), ("c", "d"), ("e", "f"), ("a", "c")]):
        await store.append(played(f"m{n}", loser, winner, at=NOW + n * HOUR))
    await caught_up(ratings)
    await store.add_players(
        [PlayerRow(id=id_, name=id_, created_at="", app="game", subject=id_, bot=id_ in "ce") for id_ in "abcdef"]
    )
    all_ = await ratings.best("game", first=10)
    assert [row.player_id for row in all_] == ["a", "e", "c", "f", "d", "b"]
    assert len({row.rating for row in all_}) < len(all_), "some are equal"
    for size in (1, 2, 3):
        paged: list[str] = []
        after = None
        while page := await ratings.best("game", first=size, after=after):
            paged += [row.player_id for row in page]
            after = page[-1].rating, page[-1].player_id
        assert paged == [row.player_id for row in all_]
    assert [row.player_id for row in await ratings.best("game", first=10, bots=False)] == ["a", "f", "d", "b"]
    assert await ratings.best("", first=10) == []
    assert await ratings.best("game\0", first=10) == []


async def test_history_page_by_page(store: SqlStore, ratings: Ratings) -> None:
    for n in range(7):
        await store.append(played(f"m{n}", "ann", f"p{n}"))
    await caught_up(ratings)
    found: list[str] = []
    before = None
    while page := await ratings.history("ann", first=3, before=before):
        found += [row.match_id for _, row in page]
        before = page[-1][0]
        await store.append(played(f"later{before}", "ann", f"later{before}"))
        await caught_up(ratings)
    assert found == [f"m{n}" for n in reversed(range(7))]


async def test_positions_are_what_is_searched_by(tmp_path: Path) -> None:
    """What the unrated cost is a range of the feed, however many matches there are."""
    asked: list[tuple[str, Any]] = []
    database = make_url(f"sqlite:///{tmp_path}/videau.db")
    store = SqlStore(database, create=True)
    await store.append(played("m1", "a", "b"))
    event.listen(Engine, "before_cursor_execute", listener := lambda *it: asked.append(it[2:4]))
    await Ratings(store.database).advance()
    event.remove(Engine, "before_cursor_execute", listener)
    await store.close()
    engine = create_engine(database)
    plans = []
    with engine.connect() as connection:
        for query, values in asked:
            if "JOIN matches" in query:
                plans.append([row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", values)])
    engine.dispose()
    assert len(plans) == 2
    for plan in plans:
        assert "position>? AND position<?" in plan[0], plan
        assert "(id=?)" in plan[1], plan
