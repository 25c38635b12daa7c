"""A copy of a SQLite store while it serves: the file as of one moment, and the secrets without which it is no use."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

SECRETS = ("secret", "dice-secret", "signing-key")
"""What is kept beside the file (infra/settings.py)."""

PAGES = 1_000
"""Pages that are copied before others have their turn at the file."""


class BackupError(Exception):
    """There is no copy; the message says why in one line."""


def backup(source: Path, copy: Path, copied: Callable[[int, int], None] = lambda left, pages: None) -> list[Path]:
    """Copy a SQLite store: what was written. `copied` is told of the pages that are left, and of all.

    The copy appears whole or not at all, can be read by its owner alone, and replaces nothing. Raises BackupError.
    """
    if not source.exists():
        raise BackupError(f"there is no database at {source}")
    targets = [copy, *(copy.with_name(f"{copy.name}.{name}") for name in SECRETS)]
    for target in targets:
        if target.exists():
            raise BackupError(f"{target} is there already: a backup replaces nothing")
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with (
                closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as store,
                closing(sqlite3.connect(unfinished)) as written,
            ):
                store.backup(written, pages=PAGES, progress=lambda _, left, pages: copied(left, pages), sleep=0.001)
                [problem] = written.execute("PRAGMA quick_check(1)").fetchone()
                if problem != "ok":
                    raise BackupError(f"the database {source} is damaged: {problem}")
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            secrets = [_copy_secret(source, copy, name) for name in SECRETS]
            os.link(unfinished, copy)  # which fails where there is one meanwhile
        finally:
            unfinished.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        for target in targets[1:]:
            with suppress(OSError):
                target.unlink(missing_ok=True)
        raise BackupError(f"cannot copy {source} to {copy}: {error}") from error
    return [copy, *filter(None, secrets)]


def _copy_secret(source: Path, copy: Path, name: str) -> Path | None:
    """Copy a secret that is kept beside the file, if it is; it may be in the environment instead."""
    kept, target = source.with_name(f"{source.name}.{name}"), copy.with_name(f"{copy.name}.{name}")
    if not kept.exists():
        return None
    with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(kept.read_text())
        file.flush()
        os.fsync(file.fileno())
    return target
