"""What the process says, as JSON: one object a line on stderr, and no token, code or secret in it."""

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

_SECRET = re.compile(
    r"eyJ[\w-]{5,}\.[\w-]+\.[\w-]*"  # a JWT
    r"|(?<=://)[^/\s:@\"]*:[^/\s@\"]*(?=@)"  # user and password in a URL
    r"|(?<=[Bb]earer )[^\s\"\\]+"
)


class Subject(Struct, frozen=True):
    """Whom and what a command is about."""

    match: str | None
    player: str | None
    trace: str | None
    """The id of the trace."""


subject: ContextVar[Subject | None] = ContextVar("subject", default=None)
"""What is being done now, for whatever is said meanwhile."""


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON: `time`, `level`, `message`, what is known of its subject, and `error`."""

    def format(self, record: logging.LogRecord) -> str:
        about = subject.get()
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "match": getattr(record, "match", about and about.match),
            "seq": getattr(record, "seq", None),
            "player": getattr(record, "player", about and about.player),
            "trace": getattr(record, "trace", about and about.trace),
            **getattr(record, "more", {}),
            "error": self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else None,
        }
        line = json.dumps({name: value for name, value in told.items() if value is not None}, default=str)
        suspicious = "eyJ" in line or "://" in line or "earer " in line  # quicker than the pattern
        return _SECRET.sub("***", line) if suspicious else line


def log_as_json() -> None:
    """From now on the process says all in JSON, and a line for each command."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("videau").setLevel(logging.INFO)
    logging.captureWarnings(True)
