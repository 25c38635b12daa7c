"""Dice that anyone can check, roll by roll, from the log alone.

Before anybody can act, the server commits to the end of a chain of SHA-256 links. Each roll reveals the link before the
one known last, so that SHA-256(link) is the last one, and the roll is computed from that link, which the server could
not change any more, and from what the players added, which it could not know when it committed.
"""

import hmac
import json
from hashlib import sha256

from domain.board import Dice

LINKS = 4096
"""Links of a chain: so many rolls can be made before the next chain must be committed to."""

LONGEST_ENTROPY = 64

_FAIR = 252
"""Bytes from here on are skipped: 252 is the largest multiple of 6 that a byte can reach."""

_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def dice_from(link: str, match_id: str, number: int, white: str, black: str, entropy: str) -> Dice:
    """The dice of roll `number` (1, 2, 3 … within the match, openings included), given its link in hexadecimal.

    HMAC-SHA256 with the link as key, over the JSON array of match id, number, white's and black's entropy and that of
    this roll. Of its bytes, those below 252, modulo 6, plus 1, are the dice, the first two of them; should there be
    fewer, the HMAC of that HMAC goes on.

    >>> dice_from("00" * 32, "m", 1, "", "", "")
    Dice(first=6, second=1)
    """
    key = bytes.fromhex(link)
    digest = hmac.digest(key, _json([match_id, number, white, black, entropy]).encode(), "sha256")
    faces: list[int] = []
    while True:
        for byte in digest:
            if byte < _FAIR:
                faces.append(byte % 6 + 1)
                if len(faces) == 2:
                    return Dice(faces[0], faces[1])
        digest = hmac.digest(key, digest, "sha256")


def follows(link: str, last: str) -> bool:
    """Whether `link` is what comes before `last` in its chain: SHA-256(link) = last."""
    try:
        return len(link) == 64 and link == link.lower() and sha256(bytes.fromhex(link)).hexdigest() == last
    except ValueError:
        return False


def is_entropy(text: str) -> bool:
    """Whether a player may add this text: at most 64 printable ASCII characters, alike in every language's JSON."""
    return len(text) <= LONGEST_ENTROPY and text.isascii() and text.isprintable()
