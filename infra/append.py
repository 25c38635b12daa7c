"""Appending to the log, many matches in one transaction: an append is whole or absent, and conflicts fail alone.

PostgreSQL does it in one statement, so that no lock waits for a client; SQLite in a few, behind its one write lock. On
both the feed's row is taken last and held until the commit: positions come in the order of commits.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection

from domain.board import Color
from domain.match import Match, Over, Waiting
from infra.log import Recorded, encode_time
from infra.tables import MatchRow


class Conflict(Exception):
    """The match has moved on from the version that this append follows. Nothing was written."""


class KeyTaken(Exception):
    """The player has used this idempotency key before. Nothing was written."""


class Key(Struct, frozen=True):
    """An idempotency key: whose it is, and a fingerprint of the input that it came with."""

    player_id: str
    key: str
    fingerprint: str


class Append(Struct, frozen=True, kw_only=True):
    """Events to append to one match, all or none: they follow version `recorded[0].seq - 1` and make `match`."""

    match: Match
    recorded: Sequence[Recorded]
    auto_roll: tuple[bool, bool] | None = None
    """Whether the table is to roll for white, and for black, from now on; None leaves it as it is."""
    key: Key | None = None

    @property
    def after(self) -> int:
        """The version that these events follow; 0 for a new match."""
        return self.recorded[0].seq - 1


def match_row(match: Match, created_at: str, version: int, updated_at: str) -> MatchRow:
    """What lists know of a match whose log has come to `version`."""
    return MatchRow(id=match.id, created_at=created_at, **_state(match, version, updated_at), **_origin(match))


def _origin(match: Match) -> dict[str, Any]:
    return {
        "visibility": match.settings.visibility.value,
        "sandbox": match.settings.sandbox is not None,
        "imported": match.imported is not None,
        "length": match.settings.length,
        "rated": False,
        "app": "",
        "series": match.id,
    }


def _state(match: Match, version: int, updated_at: str) -> dict[str, Any]:
    if isinstance(match.phase, Over):
        status = "finished"
    else:
        status = "waiting" if isinstance(match.phase, Waiting) else "playing"
    return {
        "version": version,
        "updated_at": updated_at,
        "status": status,
        "white": match.white,
        "black": match.black,
        "white_score": match.score(Color.WHITE),
        "black_score": match.score(Color.BLACK),
        "winner": match.winner and match.winner.value,
    }


def commit(connection: Connection, appends: Sequence[Append], tries: int) -> list[Exception | None]:
    """Append those that conflict with nothing; for each, None or why not. No two may be of one match or key.

    `tries` before this one may have been committed although their answer was lost: what is in the log already is done.
    """
    on_sqlite = connection.dialect.name == "sqlite"
    outcomes = _on_sqlite(connection, appends) if on_sqlite else _on_postgres(connection, appends)
    if tries:
        for n, append in enumerate(appends):
            if outcomes[n] is not None and _is_stored(connection, append):
                outcomes[n] = None
    return outcomes


def _is_stored(connection: Connection, append: Append) -> bool:
    last = append.recorded[-1]
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    query = f"SELECT hash FROM events WHERE match_id = {mark} AND seq = {mark}"
    return connection.exec_driver_sql(query, (append.match.id, last.seq)).scalar() == last.hash


_STATE = ("version", "updated_at", "status", "white", "black", "white_score", "black_score", "winner")
_NEW = ("id", "created_at", *_STATE, "visibility", "sandbox", "imported", "length", "rated", "app", "series")


def _commands(append: Append, at: str) -> tuple[Any, ...]:
    assert append.key
    key, recorded = append.key, append.recorded
    return key.player_id, key.key, key.fingerprint, append.match.id, recorded[0].seq, recorded[-1].seq, at


# SQLite


def _marks(number: int) -> str:
    return ", ".join("?" * number)


_MAKE = f"INSERT INTO matches ({', '.join(_NEW)}) VALUES ({_marks(len(_NEW))})"
_CHANGE = f"UPDATE matches SET ({', '.join(_STATE)}) = ({_marks(len(_STATE))}) WHERE id = ?"
_WISH = (
    "INSERT INTO wishes (match_id, white_auto_roll, black_auto_roll) VALUES (?, ?, ?) ON CONFLICT (match_id) "
    "DO UPDATE SET white_auto_roll = excluded.white_auto_roll, black_auto_roll = excluded.black_auto_roll"
)
_KEY = f"INSERT INTO commands (player_id, key, fingerprint, match_id, first_seq, last_seq, at) VALUES ({_marks(7)})"
_EVENT = f"INSERT INTO events (match_id, seq, position, at, event, hash) VALUES ({_marks(6)})"


def _on_sqlite(connection: Connection, appends: Sequence[Append]) -> list[Exception | None]:
    do = connection.exec_driver_sql
    ids = tuple(append.match.id for append in appends)
    versions = {
        id_: version for id_, version in do(f"SELECT id, version FROM matches WHERE id IN ({_marks(len(ids))})", ids)
    }
    keys = tuple(text for append in appends if append.key for text in (append.key.player_id, append.key.key))
    taken: set[tuple[str, str]] = set()
    if keys:
        pairs = ", ".join(["(?, ?)"] * (len(keys) // 2))
        found = do(f"SELECT player_id, key FROM commands WHERE (player_id, key) IN (VALUES {pairs})", keys)
        taken = {(player_id, key) for player_id, key in found}
    outcomes: list[Exception | None] = []
    made: list[tuple[Any, ...]] = []
    changed: list[tuple[Any, ...]] = []
    wishes: list[tuple[Any, ...]] = []
    commands: list[tuple[Any, ...]] = []
    events: list[tuple[Any, ...]] = []
    position: int = do("SELECT position FROM feed").scalar_one()
    for append in appends:
        match, recorded, after, key = append.match, append.recorded, append.after, append.key
        if versions.get(match.id, 0) != after:
            outcomes.append(Conflict())
            continue
        if key and (key.player_id, key.key) in taken:
            outcomes.append(KeyTaken())
            continue
        outcomes.append(None)
        at = encode_time(recorded[-1].at)
        state = tuple(_state(match, recorded[-1].seq, at).values())
        if after:
            changed.append((*state, match.id))
        else:
            made.append((match.id, encode_time(recorded[0].at), *state, *_origin(match).values()))
        if append.auto_roll:
            wishes.append((match.id, *append.auto_roll))
        if key:
            commands.append(_commands(append, at))
        for each in recorded:
            position += 1
            events.append((match.id, each.seq, position, encode_time(each.at), each.text, each.hash))
    for statement, rows in ((_MAKE, made), (_CHANGE, changed), (_WISH, wishes), (_KEY, commands), (_EVENT, events)):
        if rows:
            do(statement, rows)
    if events:
        do("UPDATE feed SET position = ?", (position,))
    return outcomes


# PostgreSQL

_TYPES = {"version": "bigint", "white_score": "int", "black_score": "int", "length": "int"}
_TYPES |= {"sandbox": "bool", "imported": "bool", "rated": "bool"}

_STATEMENT = f"""
WITH given AS MATERIALIZED (
  SELECT * FROM json_to_recordset(%s::json) AS g(
    n int, after bigint, {", ".join(f"{name} {_TYPES.get(name, 'text')}" for name in _NEW)},
    white_auto_roll bool, black_auto_roll bool, player_id text, key text, fingerprint text, events json)
), held AS MATERIALIZED (  -- sees what others have committed meanwhile; in one order everywhere: no deadlock
  SELECT id, version FROM matches WHERE id IN (SELECT id FROM given) ORDER BY id FOR UPDATE
), fit AS MATERIALIZED (
  SELECT given.* FROM given LEFT JOIN held ON held.id = given.id WHERE coalesce(held.version, 0) = given.after
), keyed AS (
  INSERT INTO commands (player_id, key, fingerprint, match_id, first_seq, last_seq, at)
  SELECT player_id, key, fingerprint, id, after + 1, version, updated_at FROM fit WHERE key IS NOT NULL
  ORDER BY player_id, key ON CONFLICT DO NOTHING RETURNING player_id, key
), free AS MATERIALIZED (
  SELECT * FROM fit WHERE key IS NULL OR (player_id, key) IN (SELECT player_id, key FROM keyed)
), made AS (  -- where two processes make one match at once (a rematch), the later one's key is kept and means the same
  INSERT INTO matches ({", ".join(_NEW)}) SELECT {", ".join(_NEW)} FROM free WHERE after = 0
  ORDER BY id ON CONFLICT DO NOTHING RETURNING id
), changed AS (
  UPDATE matches SET {", ".join(f"{name} = free.{name}" for name in _STATE)}
  FROM free WHERE free.after > 0 AND matches.id = free.id
), won AS MATERIALIZED (
  SELECT * FROM free WHERE after > 0 OR id IN (SELECT id FROM made)
), wished AS (
  INSERT INTO wishes (match_id, white_auto_roll, black_auto_roll)
  SELECT id, white_auto_roll, black_auto_roll FROM won WHERE white_auto_roll IS NOT NULL
  ON CONFLICT (match_id) DO UPDATE
  SET white_auto_roll = excluded.white_auto_roll, black_auto_roll = excluded.black_auto_roll
), written AS MATERIALIZED (
  SELECT won.id, e.seq, e.at, e.event, e.hash, row_number() OVER (ORDER BY won.n, e.seq) AS nth
  FROM won, json_to_recordset(won.events) AS e(seq bigint, at text, event text, hash text)
), numbered AS (
  UPDATE feed SET position = position + (SELECT count(*) FROM written) WHERE id = 1 AND EXISTS (SELECT FROM written)
  RETURNING position
), stored AS (
  INSERT INTO events (match_id, seq, position, at, event, hash)
  SELECT id, seq, position - (SELECT count(*) FROM written) + nth, at, event, hash FROM written, numbered
)
SELECT given.n, won.n IS NOT NULL, fit.n IS NOT NULL AND free.n IS NULL
FROM given LEFT JOIN fit ON fit.n = given.n LEFT JOIN free ON free.n = given.n LEFT JOIN won ON won.n = given.n
"""


def _on_postgres(connection: Connection, appends: Sequence[Append]) -> list[Exception | None]:
    given = []
    for n, append in enumerate(appends):
        recorded, match = append.recorded, append.match
        row = {
            "n": n,
            "id": match.id,
            "after": append.after,
            **_state(match, recorded[-1].seq, encode_time(recorded[-1].at)),
            "events": [
                {"seq": each.seq, "at": encode_time(each.at), "event": each.text, "hash": each.hash}
                for each in recorded
            ],
        }
        if not append.after:
            row |= {"created_at": encode_time(recorded[0].at), **_origin(match)}
        if append.auto_roll:
            row["white_auto_roll"], row["black_auto_roll"] = append.auto_roll
        if append.key:
            row |= {"player_id": append.key.player_id, "key": append.key.key, "fingerprint": append.key.fingerprint}
        given.append(row)
    outcomes: list[Exception | None] = [None] * len(appends)
    for n, won, key_taken in connection.exec_driver_sql(_STATEMENT, (msgspec.json.encode(given).decode(),)):
        if not won:
            outcomes[n] = KeyTaken() if key_taken else Conflict()
    return outcomes
