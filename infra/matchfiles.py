"""Match files of every kind that is read: told apart by how they begin, and made into a match of their own here."""

from hashlib import sha256

from msgspec.structs import replace

from domain.events import Committed, Created, Event, Joined, Resumed, Rolled
from domain.mat import read_mat
from domain.matchfile import FileError, ReadMatch
from domain.rules import fold
from domain.sgf import read_sgf
from infra.ids import id_from
from infra.log import Broken, verify


def read_file(data: bytes) -> ReadMatch:
    """The match in a .mat, .sgf or NDJSON file, under ids that follow from its content, so that it is one match
    however often it is read. Raises FileError, or Broken for an NDJSON log that is not whole.
    """
    digest = sha256(data).hexdigest()
    match_id, white, black = (id_from(f"{part} of file {digest}") for part in ("match", "white", "black"))
    if data.lstrip()[:1] == b"{":
        return _read_log(data, match_id, white, black)
    text = _decoded(data)
    read = read_sgf if text.lstrip("\ufeff \r\n\t")[:1] == "(" else read_mat
    return read(text, match_id, white, black)


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise FileError(line, column, "text in UTF-8", f"byte {data[error.start]:#04x}") from error


def _read_log(data: bytes, match_id: str, white: str, black: str) -> ReadMatch:
    """One of our own logs, verified as a whole. Here it is another match: its players and its chain are elsewhere."""
    lines = data.rstrip(b"\r\n").split(b"\n")
    records = verify(line.rstrip(b"\r") for line in lines).records
    first = records[0].event
    if isinstance(first, Created) and first.imported:
        raise Broken(1, "this match was itself read from a .{format} file: import that", format=first.imported)
    seats = {"white": white, "black": black}
    events: list[Event] = []
    for recorded in records:
        match recorded.event:
            case Created() as event:
                here = {"match": match_id, "commitment": None, "imported": "ndjson", "rematch_of": None}
                events.append(replace(event, **here, invited=None, series=None))
            case Joined() as event:
                events.append(replace(event, player=seats[event.color], entropy="", app=""))
            case Rolled() as event:
                events.append(replace(event, link=None, entropy=""))
            case Committed() | Resumed():
                pass
            case event:
                events.append(event)
    notes = ("players and proof of dice stay with the server that the log comes from",)
    return ReadMatch(events=tuple(events), names=("", ""), match=fold(events), notes=notes)
