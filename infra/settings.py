"""What the environment decides, read once."""

import ipaddress
import os
import re
import secrets
from collections.abc import Callable, Mapping
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
    """The key that signs tokens, at least 32 characters; None is made once and kept beside the database.

    This and the next two may be several, separated by commas: the first is used, the others are still understood.
    """
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
    drain_seconds: int = 10
    """How long a process that stops takes to send its watchers away, if there are many."""
    origins: tuple[str, ...] = ()
    """The origins whose pages may call in browsers, besides our own; `*` is all."""
    trusted_proxies: tuple[str, ...] = ()
    """The addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    connections_per_address: int | None = 500
    """Connections that an address may have open at this process; None (`off`) is without limit."""
    introspection: bool = True
    """Whether the schema may be asked for (`on` or `off`)."""

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
            if name in ("port", "token_days", "key_days", "absence_seconds", "drain_seconds"):
                highest = {"absence_seconds": 30 * 86_400, "drain_seconds": 600}.get(name, 65535)
                value = _number(name, str(value), 0 if name in ("port", "drain_seconds") else 1, highest)
            elif name.startswith("rate_"):
                value = _rate(name, str(value))
            elif name in _READ:
                value = _READ[name](name, str(value))
            values[name] = value
        settings = cls(**values)  # type: ignore[arg-type]
        if settings.log not in ("text", "json"):
            raise SettingsError(f"VIDEAU_LOG is {settings.log!r}; it is text or json")
        for name in ("secret", "dice_secret", "signing_key"):
            if (given_secret := getattr(settings, name)) is not None:
                _secrets(name, f"VIDEAU_{name.upper()}", given_secret.split(","))
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

    def kept(self, name: str) -> tuple[str, ...]:
        """All of `secret`, `dice_secret` or `signing_key`, the one in use first: as given, else kept beside the SQLite
        file, one a line, and made once. Raises SettingsError."""
        given: str | None = getattr(self, name)
        if given is not None:
            return _secrets(name, f"VIDEAU_{name.upper()}", given.split(","))
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
        try:
            lines = path.read_text().split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the {name} in {path}: {error}") from error
        return _secrets(name, str(path), [line for line in lines if line.strip()])


def _secrets(name: str, source: str, texts: list[str]) -> tuple[str, ...]:
    """The secrets in those texts. Raises SettingsError, which tells the number of a wrong one and never what it is."""
    found = tuple(text.strip() for text in texts)
    if not found:
        raise SettingsError(f"{source} is empty; `openssl rand -hex 32` makes a secret")
    for number, text in enumerate(found, 1):
        which = source if len(found) == 1 else f"number {number} of the {len(found)} in {source}"
        if name == "signing_key" and not re.fullmatch("[0-9a-f]{64}", text):
            raise SettingsError(f"{which} is not 64 hexadecimal digits in lower case")
        if len(text) < 32:
            raise SettingsError(f"{which} has {len(text)} characters; at least 32 are needed")
    if len(set(found)) < len(found):
        raise SettingsError(f"{source} has the same secret twice")
    return found


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


def _origins(name: str, text: str) -> tuple[str, ...]:
    found = tuple(each.strip().removesuffix("/").lower() for each in text.split(","))
    for each in found:
        if each != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+", each):
            raise SettingsError(
                f"VIDEAU_{name.upper()} has {each!r}; an origin is like https://game.example or "
                "https://game.example:8443, without a path; several are separated by commas, and * is all"
            )
    return found


def _networks(name: str, text: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(","))
    mapped: list[str] = []
    for each in found:
        try:
            network = ipaddress.ip_network(each)
            if network.version == 4:  # as it is seen by a socket that serves both versions
                mapped.append(f"::ffff:{network.network_address}/{96 + network.prefixlen}")
        except ValueError as error:
            raise SettingsError(
                f"VIDEAU_{name.upper()} has {each!r}; it is addresses like 10.0.0.7, and networks like 10.0.0.0/8 or "
                "fd00::/8, separated by commas"
            ) from error
    return (*found, *mapped)


def _most(name: str, text: str) -> int | None:
    if text == "off":
        return None
    try:
        return _number(name, text, 1, 1_000_000)
    except SettingsError as error:
        raise SettingsError(f"{error}, or off") from error


def _switch(name: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise SettingsError(f"VIDEAU_{name.upper()} is {text!r}; it is on or off")
    return text == "on"


_READ: dict[str, Callable[[str, str], object]] = {
    "origins": _origins,
    "trusted_proxies": _networks,
    "connections_per_address": _most,
    "introspection": _switch,
}
"""How those settings are read that are neither texts nor numbers nor rates."""


def _shown(url: str) -> str:
    """The URL without the password in it."""
    return re.sub(r"(://[^:@/]*):[^@/]*@", r"\1:***@", url)
