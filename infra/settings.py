"""What the environment decides, read once."""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError


class SettingsError(Exception):
    """A setting cannot be used; the message names it, what was got and what would be right."""


class Settings(Struct, frozen=True, kw_only=True):
    """All settings; each comes from the environment variable VIDEAU_ and its name in capitals."""

    database_url: str = "sqlite:///videau.db"
    """Where the store is: sqlite:/// and the path of a file."""
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
    """How long a guest's token lasts."""

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
            if name in ("port", "token_days"):
                value = _number(name, str(value), 0 if name == "port" else 1, 65535)
            values[name] = value
        settings = cls(**values)  # type: ignore[arg-type]
        for name in ("secret", "dice_secret"):
            secret = getattr(settings, name)
            if secret is not None and len(secret) < 32:
                raise SettingsError(f"VIDEAU_{name.upper()} has {len(secret)} characters; at least 32 are needed")
        if settings.signing_key is not None and not re.fullmatch("[0-9a-f]{64}", settings.signing_key):
            raise SettingsError("VIDEAU_SIGNING_KEY is not 64 hexadecimal digits in lower case")
        settings.database_file  # noqa: B018 - says early what is wrong with the URL
        return settings

    @property
    def database_file(self) -> Path:
        """The SQLite file. Raises SettingsError for any other URL."""
        try:
            url = make_url(self.database_url)
        except ArgumentError:
            url = None
        if url is None or url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
            raise SettingsError(
                f"VIDEAU_DATABASE_URL is {self.database_url!r}; it is sqlite:/// and the path of a file, "
                "like sqlite:///videau.db"
            )
        assert url.database is not None
        return Path(url.database)

    def kept(self, name: str) -> str:
        """`secret`, `dice_secret` or `signing_key`: as given, else kept beside the database, and made once."""
        given: str | None = getattr(self, name)
        if given is not None:
            return given
        path = self.database_file.with_name(f"{self.database_file.name}.{name.replace('_', '-')}")
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
