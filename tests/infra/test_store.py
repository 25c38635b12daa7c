"""The event store on a real SQLite file and a real PostgreSQL, and what it says when they cannot be used."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, make_url

from domain.board import Color
from domain.commands import Create, Join
from domain.events import Event, Settings, Visibility
from domain.match import Match
from domain.rules import decide, evolve, fold
from infra.append import commit
from infra.database import Database
from infra.log import GENESIS, encode_event, record
from infra.seeks import Seeks
from infra.store import Append, Conflict, Damaged, Key, KeyTaken, PlayerRow, SqlStore, Status, Unavailable
from tests.postgres import PostgresServer

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


@pytest.fixture
async def store(database: URL) -> AsyncIterator[SqlStore]:
    opened = SqlStore(database, create=True)
    yield opened
    await opened.close()


def run(database: URL, statement: str) -> None:
    """Somebody else writes into the database."""
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def created(match_id: str, key: Key | None = None, **settings: object) -> Append:
    """A new match, ready to be appended."""
    match: Match | None = None
    command = Create(match=match_id, settings=Settings(length=5, **settings), color=Color.WHITE, player="ann")  # type: ignore[arg-type]
    events = decide(None, command)
    for event in events:
        match = evolve(match, event)
    assert match is not None
    recorded = record(GENESIS, 0, NOW, events)
    return Append(match=match, recorded=recorded, auto_roll=(True, True), key=key)


def joined(append: Append, player: str, key: Key | None = None) -> Append:
    """The append after that one: somebody joins."""
    [event] = decide(append.match, Join(player=player))
    last = append.recorded[-1]
    recorded = record(last.hash, last.seq, NOW, [event])
    return Append(match=evolve(append.match, event), recorded=recorded, auto_roll=(True, False), key=key)


async def test_what_is_appended_is_read_back(store: SqlStore) -> None:
    first = created("m1")
    second = joined(first, "bob")
    await store.append(first)
    await store.append(second)
    records = await store.read("m1")
    assert records == [*first.recorded, *second.recorded]
    assert await store.read("m1", after=2) == list(second.recorded)
    assert await store.read("m1", after=1, until=2) == [first.recorded[1]]
    assert fold(r.event for r in records) == second.match
    assert await store.read("m2") == []


async def test_the_row_of_a_match_follows_its_log(store: SqlStore) -> None:
    first = created("m1")
    await store.append(first)
    row = await store.match("m1")
    assert row is not None
    assert (row.version, row.status, row.white, row.black) == (2, "waiting", "ann", None)
    await store.append(joined(first, "bob"))
    row = await store.match("m1")
    assert row is not None
    assert (row.version, row.status, row.black) == (3, "playing", "bob")
    wishes = await store.wishes("m1")
    assert (wishes.white_auto_roll, wishes.black_auto_roll) == (True, False)


async def test_of_fifty_appends_at_one_version_one_wins(store: SqlStore) -> None:
    """Optimistic concurrency: the key (match id, seq) is the lock."""
    first = created("m1")
    await store.append(first)
    tries = [store.append(joined(first, f"player {n}")) for n in range(50)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict"] * 49 + ["NoneType"]
    assert len(await store.read("m1")) == 3


async def test_a_conflict_fails_its_own_append_alone(store: SqlStore) -> None:
    """Appends that share a commit do not share their fate."""
    first = created("m1")
    await store.append(first)
    outcomes = await asyncio.gather(
        *(store.append(created(f"other {n}")) for n in range(5)),
        store.append(first),
        *(store.append(created(f"more {n}")) for n in range(5)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 5 + [Conflict] + [type(None)] * 5


async def test_two_stores_on_one_database_cannot_both_append(database: URL) -> None:
    """A second process is another store on the same database."""
    stores = [SqlStore(database, create=True) for _ in range(2)]
    first = created("m1")
    await stores[0].append(first)
    tries = [stores[n % 2].append(joined(first, f"player {n}")) for n in range(20)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert outcomes.count(None) == 1
    assert all(outcome is None or isinstance(outcome, Conflict) for outcome in outcomes)
    for each in stores:
        await each.close()


async def test_an_idempotency_key_is_taken_once(store: SqlStore) -> None:
    key = Key("ann", "k", "input")
    outcomes = await asyncio.gather(*(store.append(created(f"m{n}", key)) for n in range(10)), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["KeyTaken"] * 9 + ["NoneType"]
    command = await store.command("ann", "k")
    assert command is not None
    assert (command.fingerprint, command.first_seq, command.last_seq) == ("input", 1, 2)
    with pytest.raises(KeyTaken):
        await store.append(joined(created(command.match_id), "bob", key))
    assert await store.command("bob", "k") is None
    await store.append(joined(created(command.match_id), "bob", Key("bob", "k", "input")))


async def test_lists_show_public_matches_and_ones_own(store: SqlStore) -> None:
    for n, visibility in enumerate(Visibility):
        await store.append(created(f"m{n}", visibility=visibility))
    assert [row.id for row in await store.newest(first=9)] == ["m0"]
    assert [row.id for row in await store.newest(first=9, viewer="bob")] == ["m0"]
    assert [row.id for row in await store.newest(first=9, viewer="ann")] == ["m2", "m1", "m0"]
    assert await store.newest(first=9, status=Status.FINISHED) == []
    assert await store.newest(first=9, player="bob") == []


async def test_pages_stay_as_they_are_while_matches_come(store: SqlStore) -> None:
    for n in range(10):
        await store.append(created(f"m{n}"))
    first = await store.newest(first=4)
    await store.append(created("n0"))
    last = first[-1]
    second = await store.newest(first=4, before=(last.created_at, last.id))
    assert [row.id for row in (*first, *second)] == [f"m{n}" for n in range(9, 1, -1)]


async def test_a_stored_event_is_its_canonical_json(store: SqlStore) -> None:
    append = created("m1")
    await store.append(append)
    fed = await store.feed(0, 10)
    events: list[Event] = [r.event for r in append.recorded]
    assert [each.event for each in fed] == [encode_event(event) for event in events]


async def test_a_commit_is_on_the_disk_before_it_is_answered(store: SqlStore) -> None:
    """SQLite: WAL with synchronous FULL (2), on the writer's own connection. PostgreSQL: synchronous_commit."""

    def durability(connection: object, tries: int) -> list[object]:
        dialect = connection.dialect.name  # type: ignore[attr-defined]
        asked = {"sqlite": ["PRAGMA journal_mode", "PRAGMA synchronous"], "postgresql": ["SHOW synchronous_commit"]}
        return [connection.exec_driver_sql(each).scalar() for each in asked[dialect]]  # type: ignore[attr-defined]

    assert await store._database.write(durability) in (["wal", 2], ["on"])


async def test_a_damaged_event_is_said_to_be_damaged(store: SqlStore, database: URL) -> None:
    await store.append(created("m1"))
    run(database, 'UPDATE events SET event = \'{"kind":"nonsense"}\' WHERE seq = 2')
    with pytest.raises(Damaged, match="the log of match m1 is damaged"):
        await store.read("m1")
    assert len([line async for line in store.lines("m1")]) == 2


async def test_all_events_have_one_order_without_gaps(store: SqlStore) -> None:
    """However they were grouped, and with conflicts among them."""
    firsts = [created(f"m{n}") for n in range(30)]
    await asyncio.gather(*(store.append(first) for first in firsts))
    tries = [*(joined(first, "bob") for first in firsts), *(joined(first, "cid") for first in firsts)]
    outcomes = await asyncio.gather(*(store.append(each) for each in tries), return_exceptions=True)
    assert outcomes.count(None) == 30
    fed = [*await store.feed(0, 37), *await store.feed(37, 100)]
    assert [each.position for each in fed] == list(range(1, 91))
    assert await store.feed(90, 10) == []
    for first in firsts:
        assert [each.seq for each in fed if each.match_id == first.match.id] == [1, 2, 3]
    assert await store.news(60) == (90, {each.match_id: 3 for each in fed if each.position > 60})
    assert await store.news(None) == (90, {})


async def test_a_database_that_is_read_only_says_so_and_is_used_again_when_it_is_not(database: URL) -> None:
    """As a PostgreSQL standby is, after a failover; no restart is needed. SQLite's is in tests/faults."""
    if database.get_backend_name() == "sqlite":
        return
    store = SqlStore(database)
    await store.append(created("m1"))
    run(database, f'ALTER DATABASE "{database.database}" SET default_transaction_read_only = on')
    store._database._of_thread = threading.local()  # as after a failover: connections are new
    with pytest.raises(Unavailable, match="is read-only: cannot execute"):
        await store._database.write(lambda connection, tries: commit(connection, [created("m2")], tries), patience=0.5)
    assert len(await store.read("m1")) == 2
    run(database, f'SET transaction_read_only = off; ALTER DATABASE "{database.database}" RESET ALL')
    await store.append(created("m2"))
    await store.close()


async def test_no_event_slips_in_behind_one_that_was_read(store: SqlStore, database: URL) -> None:
    """Two transactions that commit out of order: the first to take its place holds it, so that the other waits."""
    late = Database(database)
    connection = late._engine.connect()
    transaction = connection.begin()
    assert commit(connection, [created("late")], tries=0) == [None]
    other = asyncio.create_task(store.append(created("other")))
    if not late.is_sqlite:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while not await store._read(lambda c: c.exec_driver_sql(waiting).scalar()):
            assert not other.done()
    assert await store.feed(0, 10) == []
    transaction.commit()
    await other
    fed = await store.feed(0, 10)
    assert [(each.position, each.match_id) for each in fed] == [(1, "late"), (2, "late"), (3, "other"), (4, "other")]
    connection.close()
    await late.close()


async def test_a_transaction_that_began_earlier_comes_later_if_it_commits_later(database: URL) -> None:
    """Whoever has read up to a position misses nothing by going on from there."""
    store, late = SqlStore(database, create=True), Database(database)
    if late.is_sqlite:  # there, who has begun to write holds the lock: the case above
        await store.close()
        return
    connection = late._engine.connect()
    transaction = connection.begin()
    connection.exec_driver_sql(
        "INSERT INTO players (id, name, created_at, app, bot) VALUES ('x', 'x', 'x', '', false)"
    )  # it has a number now
    await store.append(created("other"))
    seen = await store.feed(0, 10)
    commit(connection, [created("late")], tries=0)
    assert await store.feed(seen[-1].position, 10) == []
    transaction.commit()
    assert [each.match_id for each in await store.feed(seen[-1].position, 10)] == ["late", "late"]
    connection.close()
    await late.close()
    await store.close()


async def test_rows_of_matches_are_made_anew_from_their_logs(store: SqlStore, database: URL) -> None:
    for n in range(5):
        first = created(f"m{n}")
        await store.append(first)
        if n % 2:
            await store.append(joined(first, "bob"))
    before = [row.model_dump() for row in await store.newest(first=9, viewer="ann")]
    assert await store.rebuild() == (5, 0, 0, [])
    run(database, "UPDATE matches SET white_score = 7, status = 'finished' WHERE id = 'm1'")
    run(database, "DELETE FROM matches WHERE id = 'm2'")
    run(database, "UPDATE matches SET id = 'nobody' WHERE id = 'm3'")
    assert await store.rebuild() == (5, 3, 1, [])
    assert [row.model_dump() for row in await store.newest(first=9, viewer="ann")] == before


async def test_one_that_cannot_be_written_does_not_stop_those_beside_it(store: SqlStore, database: URL) -> None:
    """Events without their match's row: a damaged database fails the match it concerns, and no other."""
    await store.append(created("m1"))
    run(database, "DELETE FROM matches")
    outcomes = await asyncio.gather(*(store.append(created(f"m{n}")) for n in range(4)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), Unavailable, type(None), type(None)]
    assert [each.match_id for each in await store.feed(2, 100)] == ["m0", "m0", "m2", "m2", "m3", "m3"]


async def test_what_no_driver_can_send_fails_alone_and_the_next_are_written(store: SqlStore) -> None:
    """An error of the driver's that is none of the database's: the writer goes on after it."""
    appends = [created(f"m{n}", Key("ann", "\ud800" if n == 1 else f"k{n}", "input")) for n in range(3)]
    for _ in range(2):
        outcomes = await asyncio.gather(*map(store.append, appends), return_exceptions=True)
        assert isinstance(outcomes[1], UnicodeEncodeError)
    assert [each.match_id for each in await store.feed(0, 100)] == ["m0", "m0", "m2", "m2"]
    with pytest.raises(UnicodeEncodeError):
        await store.append(appends[1])
    await store.append(created("m3"))


async def test_keys_are_forgotten_when_they_are_old(store: SqlStore) -> None:
    await store.append(created("m1", Key("ann", "k", "input")))
    assert await store.forget_keys(NOW) == 0
    assert await store.command("ann", "k") is not None
    assert await store.forget_keys(NOW + timedelta(seconds=1)) == 1
    assert await store.command("ann", "k") is None


async def test_an_append_that_was_committed_without_an_answer_is_done_when_tried_again(store: SqlStore) -> None:
    """The connection was lost after the commit: the second try finds its own events, and no conflict."""
    first = created("m1", Key("ann", "k", "input"))
    await store.append(first)
    assert await store._database.write(lambda connection, tries: commit(connection, [first], tries=1)) == [None]
    other = created("m1", Key("ann", "k2", "input"))
    other = Append(
        match=other.match, recorded=record(GENESIS, 0, NOW + timedelta(1), [r.event for r in other.recorded])
    )
    [outcome] = await store._database.write(lambda connection, tries: commit(connection, [other], tries=1))
    assert isinstance(outcome, Conflict)


async def test_what_can_be_no_id_is_not_found(store: SqlStore) -> None:
    """PostgreSQL has no text with a NUL in it."""
    assert await store.match("a\0") is None
    assert await store.read("a\0") == []
    assert await store.newest(first=1, player="a\0") == []
    assert await store.players(["a\0"]) == []


async def test_players_are_kept(store: SqlStore) -> None:
    ann = PlayerRow(id="p", name="Ann", created_at="2026-11-30T08:00:00.000000Z")
    for name in ("Ann", "another"):  # known players stay as they are
        await store.add_players([PlayerRow(**{**ann.model_dump(), "name": name})])
    assert [player.name for player in await store.players(["p", "q"])] == ["Ann"]


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "videau.db"
    file.write_bytes(b"not a database at all, whatever it is" * 100)
    with pytest.raises(Unavailable, match="damaged, or not a database"):
        SqlStore(make_url(f"sqlite:///{file}"), create=True)


def test_a_missing_file_is_not_made_by_looking_for_it(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="there is no database at"):
        SqlStore(make_url(f"sqlite:///{tmp_path}/videau.db"))
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="unable to open"):
        SqlStore(make_url(f"sqlite:///{tmp_path}/nowhere/videau.db"), create=True)


async def test_what_the_driver_refuses_is_not_tried_again(store: SqlStore) -> None:
    """A text with a NUL is in no PostgreSQL, however often it is asked: nobody else waits for that."""
    tries = 0

    def ask(connection: Connection) -> object:
        nonlocal tries
        tries += 1
        return connection.execute(text("SELECT id FROM matches WHERE id = :id"), {"id": "a\0b"}).scalar()

    with suppress(Unavailable):
        assert await store.database.read(ask) is None
    assert tries == 1
    assert await Seeks(store.database).listed("a\0b", datetime.now(UTC), 5) == []


async def test_an_address_may_name_several_hosts_and_options_of_its_own(postgres: PostgresServer) -> None:
    """The first host that answers is used; options beside ours do not take their place, and ours give way to others."""
    own = make_url(postgres.url())
    hosts = ["127.0.0.1:1", f"{own.host or own.query.get('host')}:{own.port or own.query.get('port', 5432)}"]
    said = {
        "host": hosts,
        "application_name": "mine",
        "options": ["-c statement_timeout=77", "-c extra_float_digits=2"],
    }
    url = URL.create(
        "postgresql+psycopg",
        username=own.username,
        password=own.password,
        database=own.database,
        query=said,
    )
    database = Database(url)
    names = ("application_name", "statement_timeout", "extra_float_digits", "lock_timeout")
    try:
        shown = [await database.read(lambda c, n=n: c.exec_driver_sql(f"SHOW {n}").scalar_one()) for n in names]
    finally:
        await database.close()
    assert shown == ["mine", "77ms", "2", "3s"]
