"""Ids of matches and players, in letters that read and paste well."""

import secrets
from hashlib import sha256

_LENGTH = 22
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


def new_id() -> str:
    """An id nobody can guess: 22 letters, 108 bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def new_code() -> str:
    """A code nobody can guess but everybody can type: 10 letters, 49 bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(10))


def read_code(text: str) -> str:
    """The code in what somebody has typed or pasted: in capitals, in groups, or at the end of a link."""
    return "".join(filter(str.isalnum, text.rsplit("/", 1)[-1])).lower()[:40]


def id_from(text: str) -> str:
    """The id that stands for this text: always the same one."""
    number = int.from_bytes(sha256(text.encode()).digest())
    letters = []
    for _ in range(_LENGTH):
        number, at = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[at])
    return "".join(letters)


def rematch_id(match_id: str) -> str:
    """The id of a match's rematch: one only, whoever accepts and however often."""
    return id_from(f"rematch of {match_id}")
