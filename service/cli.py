"""The command line. What goes wrong is one line on stderr and a non-zero exit code."""

import asyncio
import json
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TypeVar

import click
import msgspec

from domain import events
from domain.board import Color
from domain.breach import RuleError
from domain.drawing import draw
from domain.match import Match
from domain.matchfile import FileError
from domain.notation import format_play
from domain.position import format_gnu_match_id, format_gnu_position_id, format_xgid, parse_position
from domain.rules import evolve, fold
from domain.words import Said
from infra import migrations
from infra.bus import LocalBus
from infra.dice import Chains
from infra.log import Broken, Recorded, event_schema, signed_head, verify
from infra.matchfiles import read_file
from infra.settings import Settings, SettingsError
from infra.signing import Signer
from infra.store import Rebuilt, SqlStore, Unavailable
from service.table import Table

T = TypeVar("T")

_database = click.option(
    "--database", "database_url", metavar="URL", help="Where the store is; else VIDEAU_DATABASE_URL, or videau.db here."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="videau")
def main() -> None:
    """Videau: backgammon as a service."""


@main.command()
@_database
@click.option("--host", help="The address to serve; else VIDEAU_HOST, or 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; else VIDEAU_PORT, or 8000. 0 takes a free one.")
def serve(database_url: str | None, host: str | None, port: int | None) -> None:
    """Serve the GraphQL API."""
    from service.app import create_app, create_server  # here, so that the other commands start faster

    settings = _settings(database_url=database_url, host=host, port=port)
    try:
        app = create_app(settings)
        SqlStore(settings.url, create=True)
    except (SettingsError, Unavailable) as error:
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
    create_server(app, app.state.drain).run(sockets=[bound])


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
            before, state = state, evolve(state, recorded.event, recorded.instant)
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
    from service import limits  # here, so that the other commands start faster

    settings = _settings(database_url=database_url)
    told: list[str] = []
    counts = Counter[str]()

    async def run() -> None:
        store = SqlStore(settings.url, create=True)
        try:
            chains, signer = Chains(settings.kept("dice_secret")), Signer(settings.kept("signing_key"))
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
@click.argument("file_or_match")
@click.option("--key", metavar="HEX", help="Ask for a head signed by this public key (the server's is at /keys).")
def verify_command(database_url: str | None, file_or_match: str, key: str | None) -> None:
    """Check the log in a FILE, or of a MATCH: numbers, times, hashes, rules, dice, and the signature under its end."""
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


@main.command()
@_database
def rebuild(database_url: str | None) -> None:
    """Make the rows of matches, which lists are read from, anew from the logs; also while the service runs."""
    settings = _settings(database_url=database_url)

    async def run() -> Rebuilt:
        store = SqlStore(settings.url)
        try:
            with click.progressbar(length=await store.count(), label="rebuilding", file=sys.stderr) as bar:
                return await store.rebuild(lambda: bar.update(1))
        finally:
            await store.close()

    try:
        rebuilt = asyncio.run(run())
    except Unavailable as error:
        _fail(str(error))
    for problem in rebuilt.damaged:
        click.echo(f"videau: {problem}", err=True)
    click.echo(
        f"{rebuilt.matches} matches: {rebuilt.changed} rows were wrong or missing, {rebuilt.removed} had no log, "
        f"{len(rebuilt.damaged)} logs are damaged"
    )
    if rebuilt.damaged:
        sys.exit(1)


@main.command()
@click.argument("name")
def token(name: str) -> None:
    """Print a token for the operator NAME, who may read the feed of all matches (GET /events)."""
    from service.auth import OPERATE, Tokens  # here, so that the other commands start faster

    settings = _settings()
    try:
        tokens = Tokens(settings.kept("secret"), settings.token_days)
    except SettingsError as error:
        _fail(str(error))
    click.echo(tokens.issue(name, OPERATE)[0])


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
            lines.append(signed_head(match_id, last["seq"], last["hash"], Signer(settings.kept("signing_key"))))
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
