"""What the environment decides, read once."""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError


class SettingsError(Exception):
    """A setting cannot be used; the message names it, what was got and what would be right."""


class Rate(Struct, frozen=True):
    """So many units at once, which come back evenly over so many seconds."""

    units: int
    seconds: int


class Settings(Struct, frozen=True, kw_only=True):
    """All settings; each comes from the environment variable VIDEAU_ and its name in capitals."""

    database_url: str = "sqlite:///videau.db"
    """Where the store is: sqlite:/// and the path of a file, or postgresql://user:password@host:port/name."""
    redis_url: str | None = None
    """Where processes ring for each other: redis://, rediss:// or unix://; None for one process alone, or few."""
    host: str = "127.0.0.1"
    port: int = 8000
    """The address to serve; port 0 takes any free one."""
    secret: str | None = None
    """The key that signs tokens, at least 32 characters; None is made once and kept beside the database."""
    dice_secret: str | None = None
    """The secret behind all chains of dice, at least 32 characters; None is made once and kept beside the database."""
    signing_key: str | None = None
    """The key that signs finished logs: 64 hexadecimal digits; None is made once and kept beside the database."""
    token_days: int = 30
    """How long a token lasts."""
    audience: str = "videau"
    """What the tokens of apps must name as their audience (`aud`)."""
    key_days: int = 7
    """How long idempotency keys are remembered at least."""
    absence_seconds: int = 900
    """How long a player must stay away from a match without a clock for the opponent to claim it."""
    log: str = "text"
    """How the process says what it has to: `text`, or `json` with a line for each command."""
    rate_player: Rate | None = Rate(1_000, 20)
    rate_app: Rate | None = Rate(50_000, 20)
    rate_address: Rate | None = Rate(600, 20)
    """What a player, all users of an app, and an address may use, as `units/seconds`; None (`off`) is without limit."""
    rate_registration: Rate | None = Rate(60, 60)
    """How many guests may register from an address, and how many wrong tokens come from it."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ, /, **given: object) -> Self:
        """The settings of an environment; what is `given` and not None comes first. Raises SettingsError."""
        values: dict[str, object] = {}
        for name in cls.__struct_fields__:
            value = given.get(name)
            if value is None:
                value = env.get(f"VIDEAU_{name.upper()}")
            if value in (None, ""):
                continue
            if name in ("port", "token_days", "key_days", "absence_seconds"):
                highest = 30 * 86_400 if name == "absence_seconds" else 65535
                value = _number(name, str(value), 0 if name == "port" else 1, highest)
            elif name.startswith("rate_"):
                value = _rate(name, str(value))
            values[name] = value
        settings = cls(**values)  # type: ignore[arg-type]
        if settings.log not in ("text", "json"):
            raise SettingsError(f"VIDEAU_LOG is {settings.log!r}; it is text or json")
        for name in ("secret", "dice_secret"):
            secret = getattr(settings, name)
            if secret is not None and len(secret) < 32:
                raise SettingsError(f"VIDEAU_{name.upper()} has {len(secret)} characters; at least 32 are needed")
        if settings.signing_key is not None and not re.fullmatch("[0-9a-f]{64}", settings.signing_key):
            raise SettingsError("VIDEAU_SIGNING_KEY is not 64 hexadecimal digits in lower case")
        settings._check()
        return settings

    @property
    def url(self) -> URL:
        """The database, with its driver."""
        url = make_url(self.database_url)
        return url.set(drivername="postgresql+psycopg") if url.drivername != "sqlite" else url

    @property
    def database(self) -> str:
        """What to call the database: its file, or its URL without the password."""
        return self.url.database or "" if self.file else self.url.set(drivername="postgresql").render_as_string()

    @property
    def file(self) -> Path | None:
        """The SQLite file; None with PostgreSQL."""
        return Path(self.url.database or "") if self.url.get_backend_name() == "sqlite" else None

    def _check(self) -> None:
        """Say early what is wrong with the URLs, or missing."""
        try:
            url = make_url(self.database_url)
            right = bool(url.database) and url.database != ":memory:"
            right &= url.drivername in ("sqlite", "postgresql", "postgres", "postgresql+psycopg")
        except ArgumentError:
            right = False
        if not right:
            raise SettingsError(
                f"VIDEAU_DATABASE_URL is {_shown(self.database_url)!r}; it is sqlite:/// and the path of a file, like "
                "sqlite:///videau.db, or postgresql://user:password@host:port/name"
            )
        if self.redis_url is not None:
            from infra.bus import RedisBus  # here, since only those who have Redis need its library

            try:
                RedisBus(self.redis_url)
            except ValueError as error:
                raise SettingsError(f"VIDEAU_REDIS_URL is {_shown(self.redis_url)!r}: {error}") from error

    def secret_file(self, name: str) -> Path | None:
        """Where a secret that is not given is kept; None if it must be given."""
        return self.file and self.file.with_name(f"{self.file.name}.{name.replace('_', '-')}")

    def kept(self, name: str) -> str:
        """`secret`, `dice_secret` or `signing_key`: as given, else kept beside the SQLite file, and made once."""
        given: str | None = getattr(self, name)
        if given is not None:
            return given
        path = self.secret_file(name)
        if path is None:
            raise SettingsError(
                f"VIDEAU_{name.upper()} is not set; with PostgreSQL it must be, the same for every process: "
                "`openssl rand -hex 32` makes one"
            )
        try:
            with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
        except FileExistsError:
            pass
        except OSError as error:
            raise SettingsError(f"cannot keep the {name} in {path}: {error.strerror}") from error
        return path.read_text()


def _number(name: str, text: str, lowest: int, highest: int) -> int:
    if text.isascii() and text.isdigit() and lowest <= int(text) <= highest:
        return int(text)
    raise SettingsError(f"VIDEAU_{name.upper()} is {text!r}; it is a number from {lowest} to {highest}")


def _rate(name: str, text: str) -> Rate | None:
    if text == "off":
        return None
    found = re.fullmatch(r"([1-9]\d{0,8})/([1-9]\d{0,4})", text, re.ASCII)
    if found is None:
        raise SettingsError(
            f"VIDEAU_{name.upper()} is {text!r}; it is units/seconds, like 1000/20 (1000 units at once, which come "
            "back within 20 seconds; up to 999999999 and 99999), or off"
        )
    return Rate(int(found[1]), int(found[2]))


def _shown(url: str) -> str:
    """The URL without the password in it."""
    return re.sub(r"(://[^:@/]*):[^@/]*@", r"\1:***@", url)
