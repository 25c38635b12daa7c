"""The command line. What goes wrong is one line on stderr and a non-zero exit code."""

import asyncio
import json
import os
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from domain import events
from domain.board import Color
from domain.breach import RuleError
from domain.commands import Cancel
from domain.drawing import draw
from domain.match import Match, Waiting
from domain.matchfile import FileError
from domain.notation import format_play
from domain.position import format_gnu_match_id, format_gnu_position_id, format_xgid, parse_position
from domain.rules import decide, evolve, fold
from domain.words import Said
from infra import migrations, traces
from infra.append import Append, Conflict, match_row
from infra.apps import ISSUER, STALE_SECONDS, AppStore
from infra.dice import Chains
from infra.keys import AppKey, BadKeys, check_set, check_url, fetch, read_keys, read_published, write_keys
from infra.log import Broken, Recorded, applied, encode_time, event_schema, instant, record, signed_head, verify
from infra.matchfiles import read_file
from infra.ratings import Ratings
from infra.ratings import Rebuilt as RebuiltRatings
from infra.settings import Settings, SettingsError
from infra.signing import Signer
from infra.store import Rebuilt, SqlStore, Status, Unavailable
from infra.tables import AppRow, DocumentRow

T = TypeVar("T")

_database = click.option(
    "--database", "database_url", metavar="URL", help="Where the store is; else VIDEAU_DATABASE_URL, or videau.db here."
)

_File = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="videau")
def main() -> None:
    """Videau: backgammon as a service."""
    os.umask(os.umask(0) | 0o007)  # private matches, codes and names are not for others on this machine


@main.command()
@_database
@click.option("--host", help="The address to serve; else VIDEAU_HOST, or 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; else VIDEAU_PORT, or 8000. 0 takes a free one.")
def serve(database_url: str | None, host: str | None, port: int | None) -> None:
    """Serve the GraphQL API."""
    from service.app import create_app, create_server  # here, so that the other commands start faster
    from service.errors import logger
    from service.logs import log_as_json

    settings = _settings(database_url=database_url, host=host, port=port)
    if settings.log == "json":
        log_as_json()
    try:
        traces.start(os.environ)
    except ImportError as error:
        _fail(f"an endpoint for traces is set (OTEL_EXPORTER_OTLP_ENDPOINT), and {error}: pip install 'videau[traces]'")
    try:
        app = create_app(settings)
        SqlStore(settings.url, create=True)
    except (SettingsError, Unavailable) as error:
        if settings.log == "json":
            logger.error("%s", error)
            sys.exit(1)
        _fail(str(error))
    bound = listener(settings.host, settings.port)
    address = f"http://{settings.host}:{bound.getsockname()[1]}"
    click.echo(
        f"Videau serves {address}, and keeps its matches in {settings.database}.\n"
        f"  GraphQL   {address}/graphql  (POST; live matches by websocket, graphql-transport-ws)\n"
        "  Schema    videau schema\n"
        "  Tour      README.md, five minutes with curl\n"
        "Ctrl-C stops it."
    )
    sys.stdout.flush()
    create_server(app, settings, app.state.drain).run(sockets=[bound])


@main.command()
@_database
def migrate(database_url: str | None) -> None:
    """Bring the database's tables to this version: all of it, or nothing. Only forwards: keep a backup."""
    settings = _settings(database_url=database_url)
    try:
        done = migrations.migrate(settings.url)
    except migrations.SchemaError as error:
        _fail(f"cannot migrate {settings.database}: {error}")
    for line in done:
        click.echo(line)
    click.echo(f"{settings.database} is at revision {migrations.HEAD}{'' if done else ': nothing to do'}")


@main.command()
@_database
@click.argument("match")
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="Only the board right after this event.")
@click.option("--step", is_flag=True, help="Wait for a key after each event; q stops.")
@click.option("--speed", type=click.FloatRange(0.1, 100), metavar="N", help="Play N events a second.")
def replay(database_url: str | None, match: str, at: int | None, step: bool, speed: float | None) -> None:
    """Print MATCH move by move, with boards, scores and cube; at once, step by step, or at a speed."""
    if step + (speed is not None) + (at is not None) > 1:
        _fail("--at, --step and --speed exclude each other")
    if step and not sys.stdin.isatty():
        _fail("--step needs a terminal")
    records = _stored(database_url, match, _read)
    if at is not None and at > len(records):
        _fail(f"match {match} has {len(records)} events; there is no {at}")
    state: Match | None = None
    for recorded in records:
        try:
            before, state = state, applied(state, recorded)
        except AssertionError:
            _fail(f"the log of match {match} is damaged at seq {recorded.seq}; `videau verify {match}` says how")
        if at is None:
            click.echo(f"{recorded.seq:>4}  {_told(before, recorded, state)}")
            if isinstance(recorded.event, events.Moved) or len(state.results) > len(before.results if before else ()):
                click.echo(draw(state) + "\n")
            if step and click.getchar() in ("q", "\x1b", "\x03"):
                return
            if speed is not None:
                time.sleep(1 / speed)
        elif recorded.seq == at:
            click.echo(f"{recorded.seq:>4}  {_told(before, recorded, state)}\n{draw(state)}")


@main.command()
@click.argument("position")
def show(position: str) -> None:
    """Draw a POSITION: an XGID, or GNU Backgammon's position and match id with a colon between."""
    try:
        start = parse_position(position)
    except RuleError as error:
        _fail(f"{position[:100]!r} is no position: {error.message}")
    settings = events.Settings(
        length=start.length,
        jacoby=start.jacoby,
        cube_limit=start.cube_limit,
        sandbox=events.Sandbox(start=position),
    )
    created = events.Created(match="", settings=settings, color=Color.WHITE, rules=events.RULES)
    match = fold((created, *(events.Joined(color=color, player=color.value) for color in Color)))
    click.echo(draw(match))
    click.echo(f"  {format_xgid(start)}\n  {format_gnu_position_id(start)}:{format_gnu_match_id(start)}")


@main.command(name="import")
@_database
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_files(database_url: str | None, files: tuple[Path, ...]) -> None:
    """Store the matches in FILES: .mat, GNU Backgammon's .sgf, or our own NDJSON. Each is whole, or not stored."""
    from infra.bus import LocalBus  # here, so that the other commands start faster
    from service import limits
    from service.table import Table

    settings = _settings(database_url=database_url)
    told: list[str] = []
    counts = Counter[str]()

    async def run() -> None:
        store = SqlStore(settings.url, create=True)
        try:
            chains, signer = Chains(*settings.kept("dice_secret")), Signer(*settings.kept("signing_key"))
            table = Table(store, LocalBus(), chains, signer)
            with click.progressbar(files, label="importing", file=sys.stderr) as bar:
                for file in bar:
                    try:
                        if file.stat().st_size > limits.FILE_BYTES:
                            most = Said("at most {most} bytes", most=limits.FILE_BYTES)
                            raise FileError(1, 1, most, f"{file.stat().st_size}")
                        read = read_file(file.read_bytes())
                        known, head = await table.import_match(read)
                    except (FileError, Broken, OSError) as error:
                        counts["refused"] += 1
                        told.append(f"{file}: refused: {error}")
                        continue
                    counts["known already" if known else "new"] += 1
                    told.append(f"{file}: {head.match.id}, {head.version} events{' (known already)' if known else ''}")
                    told.extend(f"  {note}" for note in read.notes)
        finally:
            await store.close()

    try:
        asyncio.run(run())
    except (Unavailable, SettingsError) as error:
        _fail(str(error))
    for line in told:
        click.echo(line)
    click.echo(f"{len(files)} files: " + ", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    if counts["refused"]:
        sys.exit(1)


@main.command()
@_database
@click.argument("match")
def export(database_url: str | None, match: str) -> None:
    """Print the log of MATCH as NDJSON, a record a line; a finished one ends with its signed head."""
    for line in _stored(database_url, match, _lines):
        click.echo(line)


@main.command(name="verify")
@_database
@click.argument("file_or_match", required=False)
@click.option("--all", "whole_store", is_flag=True, help="Check every match of the store, and what lists say of it.")
@click.option("--key", metavar="HEX", help="Ask for a head signed by this public key (the server's is at /keys).")
def verify_command(database_url: str | None, file_or_match: str | None, whole_store: bool, key: str | None) -> None:
    """Check the log in a FILE, or of a MATCH: numbers, times, hashes, rules, dice, and the signature under its end."""
    if whole_store == (file_or_match is not None):
        _fail("say which FILE or MATCH, or --all")
    if file_or_match is None:
        _verify_all(_settings(database_url=database_url), key)
        return
    path = Path(file_or_match)
    try:
        if path.is_file():
            with path.open("rb") as lines:
                verified = verify((line.rstrip(b"\r\n") for line in lines), key)
        else:
            verified = verify([line.encode() for line in _stored(database_url, file_or_match, _lines)], key)
    except Broken as error:
        _fail(f"{file_or_match}: wrong from seq {error.seq} on: {error.why}")
    except OSError as error:
        _fail(f"cannot read {file_or_match}: {error.strerror}")
    match = verified.match
    ended = f"{match.winner} has won" if match.winner else "cancelled" if match.ended else "not finished"
    click.echo(f"{file_or_match}: {len(verified.records)} events of match {match.id} are whole and legal; {ended}")
    click.echo(f"  dice: {verified.proven} of {match.rolls} rolls are proven by the chain that was committed to")
    click.echo(f"  head: {f'signed by {verified.signed_by}' if verified.signed_by else 'not signed'}")


def _verify_all(settings: Settings, key: str | None) -> None:
    """Check every log of the store, and that the rows of lists are what the logs say."""
    wrong: list[str] = []

    async def run() -> int:
        store = SqlStore(settings.url)
        signed_by = None if key is None else Signer(*settings.kept("signing_key")).public_key  # which may make one
        checked = 0
        try:
            with click.progressbar(length=await store.count(), label="verifying", file=sys.stderr) as bar:
                async for match_id in store.ids():
                    before = await store.match(match_id)
                    lines = [line async for line in store.lines(match_id)]
                    after = await store.match(match_id)  # it may be played meanwhile
                    try:
                        verified = verify([line.encode() for line in lines])
                        if verified.match.ended and signed_by != key:
                            raise Broken(len(lines), "the head is not signed by the key that it should be")
                        first, last = verified.records[0], verified.records[-1]
                        said = match_row(verified.match, encode_time(first.at), last.seq, encode_time(last.at))
                        if (
                            before is None
                            or after is None
                            or not before.version <= last.seq <= after.version
                            or (after.version == last.seq and after.model_dump() != said.model_dump())
                        ):
                            wrong.append(
                                f"{match_id}: lists say something else than the log; `videau rebuild` mends that"
                            )
                    except Broken as error:
                        wrong.append(f"{match_id}: wrong from seq {error.seq} on: {error.why}")
                    checked += 1
                    bar.update(1)
            unlogged = await store.unlogged()
            wrong.extend(
                f"{match_id}: lists have it, and there is no log; `videau rebuild` mends that" for match_id in unlogged
            )
            if problem := await store.feed_problem():
                wrong.append(problem)
        finally:
            await store.close()
        return checked

    try:
        checked = asyncio.run(run())
    except (Unavailable, SettingsError) as error:
        _fail(str(error))
    for problem in wrong:
        click.echo(f"videau: {problem}", err=True)
    click.echo(f"{checked} matches: {len(wrong)} problems")
    if wrong:
        sys.exit(1)


@main.command()
@_database
@click.argument("file", type=click.Path(path_type=Path))
def backup(database_url: str | None, file: Path) -> None:
    """Copy the SQLite store to FILE, with its secrets beside it, as of one moment, also while it serves."""
    from infra.backup import BackupError
    from infra.backup import backup as copy

    settings = _settings(database_url=database_url)
    if settings.url.get_backend_name() != "sqlite":
        _fail("PostgreSQL has its own backups: pg_dump --format=custom, or a base backup with the write-ahead log")
    try:
        with click.progressbar(length=1, label="copying", file=sys.stderr) as bar:

            def copied(left: int, pages: int) -> None:
                bar.length = pages
                bar.update(pages - left - bar.pos)

            written = copy(Path(settings.database), file, copied)
    except BackupError as error:
        _fail(str(error))
    for path in written:
        click.echo(path)


@main.command()
@_database
@click.argument("player")
def forget(database_url: str | None, player: str) -> None:
    """Forget who PLAYER is: name, account, keys. The matches stay, under an id that stands for nobody, and those that
    wait for an opponent are called off. Again a minute later, it finds what the player has done until all knew."""
    settings = _settings(database_url=database_url)

    async def run() -> bool:
        store = SqlStore(settings.url)
        try:
            await _call_off(store, player)
            return await store.forget_player(player)
        finally:
            await store.close()

    try:
        found = asyncio.run(run())
    except Unavailable as error:
        _fail(str(error))
    if not found:
        _fail(f"there is no player {player!r} in {settings.database}")
    click.echo(f"{player} is forgotten; processes that serve know it within a minute: forget it again then")


async def _call_off(store: SqlStore, player: str) -> None:
    """Call off each match in which a player waits; one that begins in the meantime goes on. Raises Unavailable."""
    more_than_may_wait = 1_000
    for row in await store.newest(first=more_than_may_wait, status=Status.WAITING, player=player, viewer=player):
        match: Match | None = None
        for last in await store.read(row.id):
            match = applied(match, last)
        color = match.seat_of(player) if match else None
        if match and color and isinstance(match.phase, Waiting):
            at = max(datetime.now(UTC), last.at)
            [event] = decide(match, Cancel(by=color), instant(at))
            recorded = record(last.hash, last.seq, at, [event])
            with suppress(Conflict):
                await store.append(Append(match=evolve(match, event, instant(at)), recorded=recorded))


@main.command()
@_database
def rebuild(database_url: str | None) -> None:
    """Make the rows of matches, which lists are read from, and ratings anew from the logs; also while it serves."""
    settings = _settings(database_url=database_url)

    async def run() -> tuple[Rebuilt, RebuiltRatings]:
        store = SqlStore(settings.url)
        try:
            with click.progressbar(length=await store.count(), label="rebuilding", file=sys.stderr) as bar:
                rows = await store.rebuild(lambda: bar.update(1))
            return rows, await Ratings(store.database).rebuild()
        finally:
            await store.close()

    try:
        rebuilt, ratings = asyncio.run(run())
    except Unavailable as error:
        _fail(str(error))
    for problem in rebuilt.damaged:
        click.echo(f"videau: {problem}", err=True)
    click.echo(
        f"{rebuilt.matches} matches: {rebuilt.changed} rows were wrong or missing, {rebuilt.removed} had no log, "
        f"{len(rebuilt.damaged)} logs are damaged"
    )
    click.echo(f"{ratings.matches} rated matches: {ratings.changed} rows of ratings were wrong or missing")
    if rebuilt.damaged:
        sys.exit(1)


@main.command()
@_database
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
def doctor(database_url: str | None, as_json: bool) -> None:
    """Look at all that a process needs here, change nothing, and say what to mend; fails if there is anything."""
    from service.doctor import Check, examine  # here, so that the other commands start faster

    async def run() -> list[Check]:
        found = []
        async for check in examine(os.environ, database_url=database_url):
            found.append(check)
            if not as_json:
                word = {True: "ok", False: click.style("WRONG", fg="red"), None: "-"}[check.ok]
                click.echo(f"{word:<5}  {check.name}: {check.found}")
                if check.mend:
                    click.echo(f"       to mend it: {check.mend}")
        return found

    checks = asyncio.run(run())
    well = all(check.ok is not False for check in checks)
    if as_json:
        click.echo(msgspec.json.encode({"ok": well, "checks": checks}))
    else:
        wrong = sum(check.ok is False for check in checks)
        click.echo("all is well" if well else f"{wrong} of {len(checks)} are wrong")
    if not well:
        sys.exit(1)


@main.command()
@_database
@click.argument("name")
def token(database_url: str | None, name: str) -> None:
    """Print a token for the operator NAME, who may read the feed of all matches (GET /events)."""
    from service.auth import OPERATE, Tokens  # here, so that the other commands start faster

    settings = _settings(database_url=database_url)
    try:
        tokens = Tokens(settings.kept("secret")[0], settings.token_days)
    except SettingsError as error:
        _fail(str(error))
    click.echo(tokens.issue(name, OPERATE)[0])


@main.group()
def documents() -> None:
    """The operations that an app has registered, which its users may send by their SHA-256."""


@documents.command(name="register")
@_database
@click.argument("app")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def register_documents(database_url: str | None, app: str, files: tuple[Path, ...]) -> None:
    """Register the GraphQL documents in FILES for APP: all of them, or none. Each is known by its exact text."""
    from service.trusted import problem_of  # here, so that the other commands start faster

    rows, wrong = [], []
    for file in files:
        try:
            text = file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            wrong.append(f"{file}: cannot be read as UTF-8: {error}")
            continue
        if problem := problem_of(text):
            wrong.append(f"{file}: {problem}")
        at = encode_time(datetime.now(UTC))
        rows.append(DocumentRow(app=app, hash=sha256(text.encode()).hexdigest(), document=text, created_at=at))
    if wrong:
        _fail("nothing is registered: " + "\nvideau: ".join(wrong))
    new = _of_app(database_url, app, lambda store: store.add_documents(rows))
    for row, file in zip(rows, files, strict=True):
        click.echo(f"sha256:{row.hash}  {file}")
    click.echo(f"{len(files)} documents of {app}: {new} new")


@documents.command(name="list")
@_database
@click.argument("app")
def list_documents(database_url: str | None, app: str) -> None:
    """Print what APP has registered, and whether it is held to that."""

    async def read(store: SqlStore) -> tuple[list[DocumentRow], bool]:
        return await store.documents_of_app(app), await store.is_held(app)

    rows, held = _of_app(database_url, app, read)
    for row in rows:
        click.echo(f"sha256:{row.hash}  {row.created_at}  {' '.join(row.document.split())[:60]}")
    click.echo(f"{len(rows)} documents; users of {app} may send {'them alone' if held else 'any operation'}")


@documents.command()
@_database
@click.argument("app")
def hold(database_url: str | None, app: str) -> None:
    """Let users of APP send its registered documents alone; within 10 seconds everywhere."""
    _of_app(database_url, app, lambda store: store.hold_app(app, True))
    click.echo(f"users of {app} may send its registered documents alone")


@documents.command()
@_database
@click.argument("app")
def free(database_url: str | None, app: str) -> None:
    """Let users of APP send any operation."""
    _of_app(database_url, app, lambda store: store.hold_app(app, False))
    click.echo(f"users of {app} may send any operation")


def _of_app(database_url: str | None, app: str, work: Callable[[SqlStore], Awaitable[T]]) -> T:
    """What `work` comes to in the database; a failure if there is no such app."""
    settings = _settings(database_url=database_url)

    async def run() -> T:
        store = SqlStore(settings.url)
        try:
            return await work(store) if await store.has_app(app) else _fail(f"there is no app {app!r}")
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except Unavailable as error:
        _fail(str(error))


@main.group()
def app() -> None:
    """Apps: games of others, who sign tokens for their own users."""


@app.command(name="add")
@_database
@click.argument("name")
@click.option("--jwks-url", metavar="URL", help="Where the app publishes its keys, as a JWK set.")
@click.option("--key", "file", type=_File, help="A file with its public key: PEM, JWK, or a JWK set.")
def app_add(database_url: str | None, name: str, jwks_url: str | None, file: Path | None) -> None:
    """Register the app NAME, which is the `iss` of its tokens, with its keys: Ed25519, P-256 or RSA."""
    if not re.fullmatch(r"[!-~]{1,100}", name) or name == ISSUER:
        _fail(
            f"{name[:120]!r} is no app's name; it is 1 to 100 printable ASCII characters without spaces, not {ISSUER!r}"
        )
    if (jwks_url is None) == (file is None):
        _fail("give either --jwks-url, or --key")
    try:
        keys = _published(jwks_url) if jwks_url is not None else _key_file(file)
    except BadKeys as error:
        _fail(str(error))
    row = AppRow(name=name, created_at=encode_time(datetime.now(UTC)), jwks_url=jwks_url)
    row.jwks = write_keys(keys) if file is not None else None
    if not _with_apps(database_url, lambda apps: apps.add(row)):
        _fail(f"there is an app {name} already; `videau app key` changes its keys")
    click.echo(f"{name}: its tokens are taken, signed with {_kids(keys) or 'the keys at its URL'}")


@app.command(name="list")
@_database
def app_list(database_url: str | None) -> None:
    """Print every app: since when, whether it was revoked, and its keys by kid."""
    for row in _with_apps(database_url, lambda apps: apps.all()):
        revoked = f", revoked {row.revoked_at[:10]}" if row.revoked_at else ""
        try:
            keys = [row.jwks_url, row.jwks and _kids(read_keys(row.jwks.encode()))]
        except BadKeys as error:
            _fail(f"the keys of the app {row.name} cannot be used: {error}")
        click.echo(f"{row.name}  since {row.created_at[:10]}{revoked}  {', '.join(filter(None, keys))}")


@app.command(name="key")
@_database
@click.argument("name")
@click.option("--add", "file", type=_File, help="A file with another public key: PEM, JWK, or a JWK set.")
@click.option("--remove", metavar="KID", help="The kid of a key that is withdrawn.")
def app_key(database_url: str | None, name: str, file: Path | None, remove: str | None) -> None:
    """Add a key to those of the app NAME, or withdraw one. It holds for every process within seconds."""
    if (file is None) == (remove is None):
        _fail("give either --add, or --remove")

    def make(row: AppRow) -> dict[str, Any]:
        keys = read_keys(row.jwks.encode()) if row.jwks else []
        if file is not None:
            return {"jwks": write_keys(check_set(keys + _key_file(file)))}
        left = [key for key in keys if key.kid != remove]
        if len(left) == len(keys):
            at_url = "; those at its URL are withdrawn there" if row.jwks_url else ""
            raise BadKeys(f"the app {name} has no key {remove!r}, only {_kids(keys) or 'none'}{at_url}")
        if not left and not row.jwks_url:
            raise BadKeys(f"{remove!r} is the only key of the app {name}; `videau app revoke {name}` revokes the app")
        return {"jwks": write_keys(left) if left else None}

    _change_app(database_url, name, make, "its keys are changed")


@app.command(name="revoke")
@_database
@click.argument("name")
def app_revoke(database_url: str | None, name: str) -> None:
    """Take no more tokens of the app NAME. Its players and matches stay."""
    now = encode_time(datetime.now(UTC))
    _change_app(
        database_url, name, lambda row: {"revoked_at": row.revoked_at or now}, "its tokens are refused from now on"
    )


@app.command(name="restore")
@_database
@click.argument("name")
def app_restore(database_url: str | None, name: str) -> None:
    """Take tokens of the app NAME again."""
    _change_app(database_url, name, lambda row: {"revoked_at": None}, "its tokens are taken again")


@main.command()
@click.option("--events", "of_events", is_flag=True, help="The JSON Schema of the events in a log instead.")
def schema(of_events: bool) -> None:
    """Print the GraphQL schema (SDL)."""
    if of_events:
        click.echo(json.dumps(event_schema(), indent=2))
        return
    from service.schema import schema as graphql_schema

    click.echo(graphql_schema.as_str())


def _fail(message: str) -> NoReturn:
    click.echo(f"videau: {message}", err=True)
    sys.exit(1)


def _with_apps(database_url: str | None, work: Callable[[AppStore], Awaitable[T]]) -> T:
    """What work with the rows of apps comes to."""
    settings = _settings(database_url=database_url)

    async def run() -> T:
        store = SqlStore(settings.url, create=True)
        try:
            return await work(store.apps)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except (Unavailable, BadKeys) as error:
        _fail(str(error))


def _change_app(database_url: str | None, name: str, make: Callable[[AppRow], dict[str, Any]], told: str) -> None:
    """Change an app, and say so."""
    if not _with_apps(database_url, lambda apps: apps.change(name, make)):
        _fail(f"there is no app {name}; `videau app list` lists them")
    click.echo(f"{name}: {told}, in every process within {STALE_SECONDS:.0f} seconds")


def _key_file(file: Path | None) -> list[AppKey]:
    """The keys in a file. Raises BadKeys."""
    assert file is not None
    try:
        return read_keys(file.read_bytes())
    except OSError as error:
        raise BadKeys(f"cannot read {file}: {error.strerror}") from error
    except BadKeys as error:
        raise BadKeys(f"{file}: {error}") from error


def _published(url: str) -> list[AppKey]:
    """The keys at a URL; none if it cannot be reached from here, which the server may. Raises BadKeys."""
    check_url(url)
    try:
        data = asyncio.run(fetch(url))
    except BadKeys as error:
        click.echo(f"videau: {url} could not be read now, and will be when it is needed: {error}", err=True)
        return []
    try:
        return read_published(data)
    except BadKeys as error:
        raise BadKeys(f"{url}: {error}") from error


def _kids(keys: list[AppKey]) -> str:
    """The keys, as people tell them apart."""
    return ", ".join(f"{key.kid} ({key.algorithm})" for key in keys)


def _settings(**given: object) -> Settings:
    try:
        return Settings.from_env(**given)
    except SettingsError as error:
        _fail(str(error))


def listener(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(2048)
    except OSError as error:
        _fail(f"cannot serve {host}:{port}: {error.strerror}")
    return bound


async def _lines(store: SqlStore, settings: Settings, match_id: str) -> list[str]:
    """The stored lines of a match, whatever they are, with its signed head if it is finished."""
    lines = [line async for line in store.lines(match_id)]
    row = await store.match(match_id)
    if row and row.finished_at:
        with suppress(msgspec.MsgspecError):  # a damaged line is for verify to name
            last = msgspec.json.decode(lines[-1])
            lines.append(signed_head(match_id, last["seq"], last["hash"], Signer(*settings.kept("signing_key"))))
    return lines


async def _read(store: SqlStore, settings: Settings, match_id: str) -> list[Recorded]:
    return await store.read(match_id)


def _stored(
    database_url: str | None, match_id: str, read: Callable[[SqlStore, Settings, str], Awaitable[list[T]]]
) -> list[T]:
    """What `read` finds of a match in the database; a failure if that is nothing."""

    async def run() -> list[T]:
        store = SqlStore(settings.url)
        try:
            return await read(store, settings, match_id)
        finally:
            await store.close()

    settings = _settings(database_url=database_url)
    try:
        found = asyncio.run(run())
    except (Unavailable, SettingsError) as error:
        _fail(str(error))
    if not found:
        _fail(f"there is no match {match_id!r} in {settings.database}")
    return found


def _told(before: Match | None, recorded: Recorded, after: Match) -> str:
    """An event in a line, as a commentator would say it."""
    event = recorded.event
    match event:
        case events.Created(settings=settings):
            told = "a money game" if settings.length is None else f"a match to {settings.length} points"
        case events.Joined():
            told = f"{event.player} plays {event.color}"
        case events.Committed():
            told = "the table goes on with a new chain of dice"
        case events.Rolled(opening=True, by=None):
            told = f"opening roll {event.dice.first}{event.dice.second}: a tie"
        case events.Rolled(opening=True):
            told = f"game {(after.results and len(after.results) + 1) or 1}: {event.by} opens with "
            told += "".join(map(str, event.dice.descending))
        case events.Rolled():
            told = f"{event.by} rolls {event.dice.first}{event.dice.second}"
        case events.Moved(by=by, play=play):
            assert before is not None
            told = f"{by}: {format_play(before.board, by, play)}" if play else f"{by} cannot move"
        case events.Doubled():
            told = f"{event.by} doubles to {after.cube.value * 2}"
        case events.Accepted() | events.Refused():
            offer = before.phase if before else None
            what = "the double" if getattr(offer, "stake", None) is None else "the resignation"
            told = f"{event.by} {event.__struct_config__.tag} {what}"
        case events.Resigned():
            told = f"{event.by} gives up the match" if event.stake == "match" else f"{event.by} resigns a {event.stake}"
        case events.TimedOut():
            told = f"{event.by}'s time has run out"
        case events.Resumed():
            told = f"the service was out of order, and the clock gets {event.lost / 1_000_000:.1f} seconds back"
        case events.Claimed():
            told = f"{event.by} claims the match: the opponent was away for {event.absent} seconds"
        case events.Cancelled(by=None):
            told = "the invited player declines"
        case events.Cancelled():
            told = f"{event.by} cancels the match"
    if before is not None and len(after.results) > len(before.results):
        result = after.results[-1]
        told += f"; {result.winner} wins {result.points}, and the score is "
        told += f"{after.score(Color.WHITE)}-{after.score(Color.BLACK)}"
        if after.winner:
            told += f": {after.winner} has won the match"
    return told
