"""Is all well? What a process needs, looked at one by one, without changing anything: what was found, what to mend."""

import asyncio
import difflib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

from msgspec import Struct
from redis.crc import key_slot
from redis.exceptions import RedisError
from sqlalchemy import Connection, select, text
from sqlmodel import SQLModel

from domain.events import Created
from infra import traces
from infra.apps import AppStore
from infra.bus import RedisBus, disconnect, owners_of
from infra.database import READERS, Database, Unavailable
from infra.dice import Chains
from infra.keys import BadKeys, fetch, read_keys, read_published
from infra.log import decode_event, decode_time
from infra.migrations import EMPTY, schema_problem
from infra.settings import Settings, SettingsError
from infra.signing import Head, Signer, is_signed
from infra.tables import EventRow, PulseRow

CLOCK = timedelta(seconds=1)
"""How far clocks may differ. Events are dated by their process, and an outage begins after six seconds."""

ROOM = 256 * 1024 * 1024
"""Bytes that the disk of a SQLite file should have left."""

NEWEST = 200
"""Matches among which one is looked for that was dealt here, to compare the dice's secret with."""

_events, _pulse = (SQLModel.metadata.tables[row.__tablename__] for row in (EventRow, PulseRow))


class Check(Struct, frozen=True):
    """Something that was looked at."""

    name: str
    ok: bool | None
    """Whether it is well; None where that cannot be known."""
    found: str
    mend: str | None = None
    """What to do, if it is not well."""


class _Wrong(Exception):
    """Something is not well."""

    def __init__(self, found: str, mend: str) -> None:
        super().__init__(found)
        self.mend = mend


async def examine(env: Mapping[str, str], **given: object) -> AsyncIterator[Check]:
    """Look at everything, with the settings of an environment, or as they are given."""
    try:
        settings = Settings.from_env(env, **given)
    except SettingsError as error:
        yield Check("settings", False, str(error), "set it right; README.md lists the settings")
        return
    yield _checked("settings", lambda: _unknown(env))
    for name in ("secret", "dice_secret", "signing_key"):
        yield _checked(name.replace("_", " "), partial(_secret, settings, name))
    yield _checked("secrets together", lambda: _together(settings))
    if traces.wanted(env):
        yield _checked("traces", _traced)
    file = settings.file
    if file is not None:
        yield _checked("disk", lambda: _disk(settings))
    if file is not None and not file.exists():
        yield Check("database", None, f"there is none at {file} yet; `videau serve` makes it")
    else:
        async for check in _of_database(settings):
            yield check
    if settings.redis_url is not None:
        async for check in _of_redis(settings, settings.redis_url):
            yield check
    elif file is None:
        yield Check("redis", None, "none is set: news of other processes come up to a second late, and rate limits are "
                    "each process's own")  # fmt: skip


def _checked(name: str, look: Callable[[], str]) -> Check:
    """What a look has found."""
    try:
        return Check(name, True, look())
    except _Wrong as wrong:
        return Check(name, False, str(wrong), wrong.mend)


def _unknown(env: Mapping[str, str]) -> str:
    known = {f"VIDEAU_{name.upper()}" for name in Settings.__struct_fields__}
    for name in sorted(env):
        if name.startswith("VIDEAU_") and name not in known:
            similar = difflib.get_close_matches(name, known, 1)
            raise _Wrong(f"{name} is no setting", f"unset it, or did you mean {similar[0] if similar else 'another'}?")
    return f"{sum(name in known for name in env)} are set, the others have their defaults"


# secrets


def _value(settings: Settings, name: str) -> str | None:
    """A secret, as it would be used; None if it is to be made yet."""
    given: str | None = getattr(settings, name)
    path = settings.secret_file(name)
    if given is not None or path is None:
        return given
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _Wrong(f"cannot read {path}: {error}", "let the service's user read it") from error


def _secret(settings: Settings, name: str) -> str:
    variable, path = f"VIDEAU_{name.upper()}", settings.secret_file(name)
    value = _value(settings, name)
    if value is None and path is None:
        raise _Wrong(f"{variable} is not set", "set it to what `openssl rand -hex 32` prints, the same everywhere")
    if value is None and settings.file is not None and settings.file.exists():
        what = {"secret": "all tokens", "dice_secret": "all matches under way"}.get(name, "the old signatures' key")
        raise _Wrong(f"{path} is gone, and the database is there", f"restore it; another one would lose {what}")
    if value is None:
        return f"there is none yet; `videau serve` makes it and keeps it in {path}"
    if getattr(settings, name) is not None:
        where = f"given by {variable}"
    else:
        where = f"kept in {path}"
        assert path is not None
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise _Wrong(f"others than the service's user may read {path}", f"chmod 600 {path}")
    values = _values(value)
    if any(len(set(each)) < 6 for each in values):
        raise _Wrong(f"it is {where}, and anybody could guess it", "`openssl rand -hex 32` makes a better one")
    where += f", the newest of {len(values)}" if len(values) > 1 else ""
    if name == "signing_key":
        return f"{where}; {_signs(values[0])}"
    return where


def _values(text: str | None) -> list[str]:
    """The secrets in a setting or file, the newest first."""
    return [value for value in (each.strip() for each in re.split(r"[,\n]", text or "")) if value]


def _signs(seed: str) -> str:
    mend = "it is 64 hexadecimal digits, as `openssl rand -hex 32` prints them; restore the one that was used"
    try:
        signer = Signer(seed)
    except ValueError as error:
        raise _Wrong(f"it is no key: {error}", mend) from error
    head = Head("0" * 64, "doctor", 1)
    if not is_signed(head, signer.public_key, signer.sign(head)):
        raise _Wrong("what it signs does not verify", mend)
    return f"it signs, and its public key is {signer.public_key}"


def _together(settings: Settings) -> str:
    values: list[str] = []
    for name in ("secret", "dice_secret", "signing_key"):
        with suppress(_Wrong):
            values += _values(_value(settings, name))
    if len(set(values)) < len(values):
        raise _Wrong("two of them are the same", "give each a value of its own: whoever learns one learns no other")
    return "each is another" if values else "there are none yet"


def _traced() -> str:
    """Whether what sends traces is there; `videau serve` does not start without. The collector is not asked."""
    try:
        import_module(traces.EXPORTER)
    except ImportError as error:
        raise _Wrong(
            f"an endpoint for traces is set, and {error}", "pip install 'videau[traces]', or unset it"
        ) from error
    return "what sends them is installed"


# the database


def _disk(settings: Settings) -> str:
    file = settings.file
    assert file is not None
    folder = file.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        if file.exists() and not os.access(file, os.R_OK | os.W_OK):
            raise _Wrong(f"{file} cannot be written", "let the service's user own it")
    except OSError as error:
        mend = "let the service's user write there: SQLite keeps files beside the database"
        raise _Wrong(f"{folder} cannot be written: {error.strerror}", mend) from error
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        raise _Wrong(f"{free // 2**20} MB are left in {folder}", "make room: a full disk stops all matches")
    return f"{folder} can be written, and has {free // 2**20} MB left"


async def _of_database(settings: Settings) -> AsyncIterator[Check]:
    database = Database(settings.url)
    try:
        began = time.perf_counter()
        try:
            problem = await database.read(schema_problem)
        except Unavailable as error:
            mend = "see that it runs, that this machine can reach it, and that user and password are right"
            yield Check("database", False, str(error), mend)
            return
        took = (time.perf_counter() - began) * 1000
        yield Check("database", True, f"{database.name} answers (in {took:.0f} ms, with connecting)")
        if problem == EMPTY:
            yield Check("schema", False, "it has no tables yet", "videau migrate")
            return
        if problem:
            yield Check("schema", False, problem, "videau migrate, with the newest version of Videau")
            return
        yield Check("schema", True, "it has the tables of this version")
        looks: list[tuple[str, Callable[[Connection], str]]] = [("writing", _writing), ("durability", _durability)]
        if not database.is_sqlite:
            looks += [("connections", _connections), ("clock of the database", _clock)]
        looks += [("clock of the log", _history), ("dice of the log", lambda found: _dice(found, settings))]
        for name, look in looks:
            yield await _asked(name, partial(database.read, look))
        yield await _asked("keys of apps", lambda: _apps(AppStore(database)))
    finally:
        await database.close()


async def _asked(name: str, look: Callable[[], Awaitable[str]]) -> Check:
    """What a look at something outside has found."""
    try:
        return Check(name, True, await look())
    except _Wrong as wrong:
        return Check(name, False, str(wrong), wrong.mend)
    except Unavailable as error:
        return Check(name, False, str(error), "see what the database says of it in its own log")


def _writing(connection: Connection) -> str:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        connection.exec_driver_sql("ROLLBACK")
        return "a transaction that writes can begin"
    query = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')"
    standby, read_only = connection.execute(text(query)).one()
    if standby or read_only == "on":
        mend = "let VIDEAU_DATABASE_URL lead to the primary, unless this process is for watching alone"
        raise _Wrong("it is a standby, or read-only", mend)
    may = text("SELECT has_table_privilege(:name, :right)")
    lacking = [
        f"{right} on {table.name}"
        for table in SQLModel.metadata.sorted_tables
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE")
        if not connection.execute(may, {"name": table.name, "right": right}).scalar_one()
    ]
    if lacking:
        raise _Wrong(f"its user lacks {', '.join(lacking[:4])}", "GRANT it, or use the user who made the tables")
    return "its user may write"


def _durability(connection: Connection) -> str:
    """What is acknowledged must be on the disk."""
    if connection.dialect.name == "sqlite":
        return "each commit is on the disk (synchronous FULL)"
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        if connection.execute(text("SELECT current_setting(:name)"), {"name": name}).scalar_one() == "off":
            raise _Wrong(f"{name} is off: what was acknowledged can be lost", f"set {name} = on in postgresql.conf")
    return "each commit is on the disk"


def _connections(connection: Connection) -> str:
    query = """SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
               - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"""
    free, needed = int(connection.execute(text(query)).scalar_one()), READERS + 2
    if free < needed:
        raise _Wrong(f"{free} are left, and a process takes {needed}", "raise max_connections, or run fewer processes")
    return f"{free} are left; a process takes {needed}"


def _clock(connection: Connection) -> str:
    before = datetime.now(UTC)
    theirs = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return _compared(before, theirs, datetime.now(UTC), "the database's")


def _compared(before: datetime, theirs: datetime, after: datetime, whose: str) -> str:
    """How a clock differs from ours that was read between two moments."""
    ahead = before - theirs if before > theirs else min(after - theirs, timedelta())
    if abs(ahead) > CLOCK:
        how = "ahead of" if ahead > timedelta() else "behind"
        raise _Wrong(
            f"the clock here is {abs(ahead).total_seconds():.1f} seconds {how} {whose}",
            "let both machines keep time (NTP): players' clocks are counted by it",
        )
    return f"it is within {CLOCK.total_seconds():g} second of {whose}"


def _history(connection: Connection) -> str:
    now = datetime.now(UTC)
    newest = connection.execute(select(_events.c.at).order_by(_events.c.position.desc()).limit(1)).scalar()
    beaten = connection.execute(select(_pulse.c.at)).scalar()
    latest = max((decode_time(at) for at in (newest, beaten) if at), default=None)
    if latest is not None and latest - now > CLOCK:
        raise _Wrong(
            f"the clock here is {(latest - now).total_seconds():.1f} seconds behind what was noted last",
            "set it right, here or where that was noted: no time passes for players until then",
        )
    return "nothing is noted that is to come"


def _dice(connection: Connection, settings: Settings) -> str:
    """Whether the dice's secret is the one with which the newest match was begun: if not, no match can roll on."""
    secrets = _values(_value(settings, "dice_secret"))
    query = select(_events.c.match_id, _events.c.event).where(_events.c.seq == 1)
    for match_id, event in connection.execute(query.order_by(_events.c.position.desc()).limit(NEWEST)):
        with suppress(ValueError):
            created = decode_event(event)
            if not isinstance(created, Created) or not created.commitment or created.imported:
                continue
            if any(Chains(secret).commitment(match_id, 0) == created.commitment for secret in secrets):
                return "the dice's secret is the one of the newest match"
            raise _Wrong(
                f"the dice's secret is not the one with which match {match_id} began: it cannot be rolled in",
                "restore the secret that was used, VIDEAU_DICE_SECRET or the file beside the database",
            )
    return "no match has begun here yet"


async def _apps(apps: AppStore) -> str:
    rows = [row for row in await apps.all() if not row.revoked_at]
    for row in rows:
        mend = f"`videau app key {row.name}` changes its keys"
        try:
            if row.jwks:
                read_keys(row.jwks.encode())
            if row.jwks_url:
                mend = f"let the app {row.name} publish its keys there: its users cannot come in without"
                read_published(await fetch(row.jwks_url))
        except BadKeys as error:
            raise _Wrong(f"those of {row.name}: {error}", mend) from error
    return f"those of {len(rows)} apps can be used"


# Redis


async def _of_redis(settings: Settings, url: str) -> AsyncIterator[Check]:
    bus = RedisBus(url)
    asked = bus.connection(None)
    try:
        async with asyncio.timeout(5):
            owners = await owners_of(asked)
    except (RedisError, OSError, TimeoutError) as error:
        mend = "see that it runs, that this machine can reach it, and that user and password are right"
        yield Check("redis", False, f"it does not answer: {_line(error)}", mend)
        return
    finally:
        await disconnect(asked)
    servers = {address: (first, last) for first, last, address in owners}
    cluster = None not in servers
    yield Check("redis", True, f"it answers ({f'a cluster of {len(servers)}' if cluster else 'one server'})")
    rated = any(getattr(settings, name) for name in Settings.__struct_fields__ if name.startswith("rate_"))
    for address, slots in servers.items():
        where = f" {address[0]}:{address[1]}" if address else ""
        look = partial(_permitted, bus.connection(address), slots, cluster, rated)
        yield await _asked(f"commands of redis{where}", look)
        if rated:
            yield await _asked(f"clock of redis{where}", partial(_redis_clock, bus.connection(address)))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


_SCRIPT = "redis.call('SET', KEYS[1], '1', 'EX', 1) redis.call('TIME') return redis.call('GET', KEYS[1])"


async def _ask(connection: Any, *command: str | int) -> Any:
    await connection.send_command(*command)
    return await connection.read_response(disconnect_on_error=False, push_request=True)


async def _permitted(connection: Any, slots: tuple[int, int], cluster: bool, rated: bool) -> str:
    """Whether our user may do what the bus and the rate limits do. Leaves a key behind, for a second."""
    names = (f"doctor-{number}" for number in count())
    channel, key = (
        next(name for name in map(prefix.__add__, names) if slots[0] <= key_slot(name.encode()) <= slots[1])
        for prefix in ("videau:match:", "videau:rate:")
    )
    sharded = "S" if cluster else ""
    acl = f"&videau:match:* +ping +{sharded}subscribe +{sharded}unsubscribe +{sharded}publish".lower()
    acl += " +cluster|slots" if cluster else ""
    acl += " ~videau:rate:* +evalsha +script|load +get +set +time" if rated else ""
    try:
        async with asyncio.timeout(5):
            await connection.connect()
            await _ask(connection, "PING")
            await _ask(connection, f"{sharded}PUBLISH", channel, 0)
            await _ask(connection, f"{sharded}SUBSCRIBE", channel)
            await _ask(connection, f"{sharded}UNSUBSCRIBE", channel)
            if rated:
                await _ask(connection, "EVALSHA", await _ask(connection, "SCRIPT", "LOAD", _SCRIPT), 1, key)
    except (RedisError, OSError, TimeoutError) as error:
        raise _Wrong(f"not all of ours work: {_line(error)}", f"its user needs {acl}, and room to write") from error
    finally:
        await disconnect(connection)
    return f"all of ours are permitted ({acl})"


async def _redis_clock(connection: Any) -> str:
    try:
        async with asyncio.timeout(5):
            await connection.connect()
            before = datetime.now(UTC)
            seconds, micros = await _ask(connection, "TIME")
            after = datetime.now(UTC)
    except (RedisError, OSError, TimeoutError) as error:
        raise _Wrong(f"it cannot be asked: {_line(error)}", "permit its user `+time`") from error
    finally:
        await disconnect(connection)
    return _compared(before, datetime.fromtimestamp(int(seconds) + int(micros) / 1e6, UTC), after, "Redis's")
