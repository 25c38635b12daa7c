"""A match's log: events with number, time and hash link; its lines, and their verification.

A line is `{"at":…,"event":…,"hash":…,"seq":…}`. The hash is SHA-256, in hexadecimal, over the hash before it (64 zeros
before the first) followed by the canonical JSON of at, event and seq: keys sorted, no white space, UTF-8.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct

from domain.breach import RuleError
from domain.events import Event, Rolled
from domain.match import Match
from domain.rules import check, evolve
from domain.words import Said, said
from infra.signing import Head, Signer, is_signed

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

    @property
    def instant(self) -> int:
        """Its time as the rules take it: microseconds since 1970, UTC."""
        return instant(self.at)


def instant(at: datetime) -> int:
    """A time as the rules take it: microseconds since 1970, UTC."""
    return (at - _EPOCH) // _MICROSECOND


def moment(instant: int) -> datetime:
    """The time, in UTC, so many microseconds after 1970."""
    return _EPOCH + instant * _MICROSECOND


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def replay(records: Iterable[Recorded], match: Match | None = None) -> Match:
    """The match that a log makes, from its start or on from `match`. Raises AssertionError if there is none."""
    for recorded in records:
        match = applied(match, recorded)
    assert match is not None, "an empty log is no match"
    return match


def applied(match: Match | None, recorded: Recorded) -> Match:
    """The match after a record; its time matters to clocks alone. Raises AssertionError for an impossible history."""
    return evolve(match, recorded.event, recorded.instant if match is not None and match.clocks is not None else 0)


def encode_event(event: Event) -> str:
    """The canonical JSON of an event, as it is stored and hashed."""
    return _encoder.encode(event).decode()


def decode_event(text: str) -> Event:
    """The event behind its JSON. Raises msgspec.ValidationError for what is not one."""
    return _events.decode(text)


def event_schema() -> dict[str, object]:
    """The JSON Schema of every kind of event, made from the types that read and write them."""
    [schema], definitions = msgspec.json.schema_components([Event], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        "description": "What `event` holds in a record of a match's log.",
        **schema,
        "$defs": definitions,
    }


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
    records, time = [], encode_time(at)
    for seq, event in enumerate(events, after + 1):
        text = encode_event(event)
        previous = link(previous, seq, time, text)
        records.append(Recorded(seq, at, event, text, previous))
    return records


def encode_line(seq: int, at: str, event: str, hash_: str) -> str:
    """A record as its line of NDJSON, without the line's end, from the texts that are stored."""
    return f'{{"at":"{at}","event":{event},"hash":"{hash_}","seq":{seq}}}'


def encode_fed(position: int, match_id: str, seq: int, at: str, event: str, hash_: str) -> str:
    """A record in the feed of all matches, as its line of NDJSON, without the line's end."""
    return f'{{"at":"{at}","event":{event},"hash":"{hash_}","match":"{match_id}","position":{position},"seq":{seq}}}'


class _Line(Struct, forbid_unknown_fields=True):
    at: str
    event: Raw
    hash: str
    seq: int


class _SignedHead(Struct, forbid_unknown_fields=True):
    head: Head
    key: str
    signature: str


def signed_head(match_id: str, seq: int, hash_: str, signer: Signer) -> str:
    """The line after a finished log's last record: what its end is, signed by the server that kept it."""
    head = Head(hash_, match_id, seq)
    return _encoder.encode(_SignedHead(head, signer.public_key, signer.sign(head))).decode()


class Verified(Struct, frozen=True):
    """A log found whole and legal."""

    match: Match
    records: list[Recorded]
    proven: int
    """How many rolls the chain of links proves; scripted and imported ones prove nothing."""
    signed_by: str | None
    """The public key under the log's head, in hexadecimal; None for a log without a signed head."""


class Broken(Exception):
    """A log is not what it claims to be, from record number `seq` on."""

    def __init__(self, seq: int, text: str, /, **more: object) -> None:
        why = said(text, more)
        self.said = Said("seq {seq}: {why}", seq=seq, why=why)
        super().__init__(str(self.said))
        self.seq = seq
        self.why = str(why)


def verify(lines: Iterable[bytes], key: str | None = None) -> Verified:
    """What a log comes to, having checked each line's form, number, time and hash, that it is legal there and that its
    dice follow from the chain; and the signed head, if there is one or `key` (hexadecimal) asks for its owner's.

    Raises Broken with the first number that is wrong.
    """
    match: Match | None = None
    records: list[Recorded] = []
    signed: _SignedHead | None = None
    for seq, text in enumerate(lines, 1):
        if signed is not None:
            raise Broken(seq, "something follows the signed head")
        if text.startswith(b'{"head":'):
            signed = _checked_head(text, match, records, key)
        else:
            recorded = _checked_record(seq, text, records)
            try:
                match = check(match, recorded.event, recorded.instant)
            except RuleError as error:
                raise Broken(
                    seq, "against the rules ({code}): {rule}", code=error.breach.value, rule=error.said
                ) from error
            records.append(recorded)
    if match is None:
        raise Broken(1, "the log is empty")
    if key is not None and signed is None:
        raise Broken(len(records) + 1, "the log ends here without a signed head")
    proven = sum(isinstance(r.event, Rolled) and r.event.link is not None for r in records)
    return Verified(match, records, proven, signed.key if signed else None)


def _checked_record(seq: int, text: bytes, before: Sequence[Recorded]) -> Recorded:
    """The record in a line, which follows those before it in number, time and hash."""
    previous = before[-1].hash if before else GENESIS
    try:
        line = msgspec.json.decode(text, type=_Line)
        canonical = _encoder.encode(msgspec.json.decode(line.event)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Broken(seq, "not a record: {error}", error=str(error)) from error
    if line.seq != seq:
        raise Broken(seq, "the record after {before} has number {got}", before=seq - 1, got=line.seq)
    try:
        at = decode_time(line.at)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or encode_time(at.astimezone(UTC)) != line.at:
        raise Broken(seq, "its time is {time!r}; it looks like 2026-11-30T08:33:12.123456Z", time=line.at)
    if before and at < before[-1].at:
        raise Broken(seq, "its time, {time}, is earlier than that of the record before it", time=line.at)
    if line.hash != link(previous, seq, line.at, canonical):
        raise Broken(seq, "its hash does not follow from its content and the record before it")
    try:
        event = decode_event(canonical)
    except msgspec.ValidationError as error:
        raise Broken(seq, "not an event: {error}", error=str(error)) from error
    return Recorded(seq, at, event, canonical, line.hash)


def _checked_head(text: bytes, match: Match | None, records: Sequence[Recorded], key: str | None) -> _SignedHead:
    """The signed head in a line, which must be that of the records before it."""
    seq = len(records) + 1
    try:
        signed = msgspec.json.decode(text, type=_SignedHead)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Broken(seq, "not a signed head: {error}", error=str(error)) from error
    head = signed.head
    if not is_signed(head, signed.key, signed.signature) or key not in (None, signed.key):
        raise Broken(seq, "the head is not signed by the key that it should be")
    if match is None or head.match != match.id:
        raise Broken(seq, "the head is that of match {match}", match=head.match)
    if (head.seq, head.hash) != (len(records), records[-1].hash):
        raise Broken(seq, "the log ends here, and its signed head is that of record {record}", record=head.seq)
    return signed
