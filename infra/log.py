"""A match's log: events with number, time and hash link; its lines, and their verification.

A line is `{"at":…,"event":…,"hash":…,"seq":…}`. The hash is SHA-256, in hexadecimal, over the hash before it (64 zeros
before the first) followed by the canonical JSON of at, event and seq: keys sorted, no white space, UTF-8.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct

from domain.breach import RuleError
from domain.events import Event
from domain.match import Match
from domain.rules import check

GENESIS = "0" * 64
"""The hash before the first event."""

_encoder = msgspec.json.Encoder(order="sorted")
_events = msgspec.json.Decoder(Event)


class Recorded(Struct, frozen=True):
    """An event in its place: number (1, 2, 3 … within the match), time (UTC), canonical JSON and hash link.

    The JSON is kept as it was hashed, so that fields which events gain later change no old log.
    """

    seq: int
    at: datetime
    event: Event
    text: str
    hash: str


def encode_event(event: Event) -> str:
    """The canonical JSON of an event, as it is stored and hashed."""
    return _encoder.encode(event).decode()


def decode_event(text: str) -> Event:
    """The event behind its JSON. Raises msgspec.ValidationError for what is not one."""
    return _events.decode(text)


def encode_time(at: datetime) -> str:
    """A time in UTC to the microsecond, `2026-11-30T08:33:12.123456Z`, which sorts as text."""
    return at.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def decode_time(text: str) -> datetime:
    """The time behind `encode_time`'s text."""
    return datetime.fromisoformat(text)


def link(previous: str, seq: int, at: str, event: str) -> str:
    """The hash of a record, given the hash before it and the canonical JSON of its event."""
    return sha256(f'{previous}{{"at":"{at}","event":{event},"seq":{seq}}}'.encode()).hexdigest()


def record(previous: str, after: int, at: datetime, events: Sequence[Event]) -> list[Recorded]:
    """`events` as the records that follow number `after`, whose hash is `previous`."""
    records = []
    for seq, event in enumerate(events, after + 1):
        text = encode_event(event)
        previous = link(previous, seq, encode_time(at), text)
        records.append(Recorded(seq, at, event, text, previous))
    return records


def encode_line(seq: int, at: str, event: str, hash_: str) -> str:
    """A record as its line of NDJSON, without the line's end, from the texts that are stored."""
    return f'{{"at":"{at}","event":{event},"hash":"{hash_}","seq":{seq}}}'


class _Line(Struct, forbid_unknown_fields=True):
    at: str
    event: Raw
    hash: str
    seq: int


class Broken(Exception):
    """A log is not what it claims to be, from record number `seq` on."""

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(f"seq {seq}: {why}")
        self.seq = seq
        self.why = why


def verify(lines: Iterable[bytes]) -> tuple[Match, list[Recorded]]:
    """The match that a log makes, having checked each line's form, number, time, hash, and that it is legal there.

    Raises Broken with the first number that is wrong.
    """
    match: Match | None = None
    records: list[Recorded] = []
    for seq, text in enumerate(lines, 1):
        previous = records[-1].hash if records else GENESIS
        try:
            line = msgspec.json.decode(text, type=_Line)
            canonical = _encoder.encode(msgspec.json.decode(line.event)).decode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Broken(seq, f"not a record: {error}") from error
        if line.seq != seq:
            raise Broken(seq, f"the record after {seq - 1} has number {line.seq}")
        try:
            at = decode_time(line.at)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None or encode_time(at.astimezone(UTC)) != line.at:
            raise Broken(seq, f"its time is {line.at!r}; it looks like 2026-11-30T08:33:12.123456Z")
        if records and at < records[-1].at:
            raise Broken(seq, f"its time, {line.at}, is earlier than that of the record before it")
        if line.hash != link(previous, seq, line.at, canonical):
            raise Broken(seq, "its hash does not follow from its content and the record before it")
        try:
            event = decode_event(canonical)
            match = check(match, event)
        except msgspec.ValidationError as error:
            raise Broken(seq, f"not an event: {error}") from error
        except RuleError as error:
            raise Broken(seq, f"against the rules ({error.breach}): {error.message}") from error
        records.append(Recorded(seq, at, event, canonical, line.hash))
    if match is None:
        raise Broken(1, "the log is empty")
    return match, records
