"""The chains of links from which dice come. Only their owner, who has the secret, knows a link before its roll."""

import hmac
from functools import lru_cache
from hashlib import sha256

from domain.board import Dice
from domain.breach import Breach, RuleError
from domain.fairness import LINKS, dice_from, follows
from domain.match import Match

_STRIDE = 16
"""Links between those that are kept: the others are hashed again when they are wanted."""

_KEPT_CHAINS = 4_000


class Chains:
    """Every match's chains, made from the server's secret and the match's id; nothing of them is stored.

    A new chain comes from the newest secret. One that was committed to goes on with the secret that it came from.
    """

    def __init__(self, secret: str, *older: str) -> None:
        self._secrets = [each.encode() for each in (secret, *older)]
        self._kept = lru_cache(_KEPT_CHAINS)(self._made)

    def commitment(self, match_id: str, chain: int) -> str:
        """The end of a match's chain (0 is its first), which is told before any of it is used; hexadecimal."""
        return self._link(self._secrets[0], match_id, chain, 0)

    def throw(self, match: Match, entropy: str = "") -> tuple[Dice, str]:
        """The next roll of a match whose chain is not used up: the dice, and the link that proves them.

        Raises RuleError UNPROVEN_DICE where the chain came from none of the secrets.
        """
        for secret in self._secrets:
            link = self._link(secret, match.id, match.chain, match.links_used + 1)
            if follows(link, match.last_link or ""):
                white, black = match.entropy
                return dice_from(link, match.id, match.rolls + 1, white, black, entropy), link
        raise RuleError(
            Breach.UNPROVEN_DICE, "the server has no more the secret that this match's dice come from: nobody can roll"
        )

    def _link(self, secret: bytes, match_id: str, chain: int, number: int) -> str:
        """Link `number` of a chain: 0 is the commitment, and each is the SHA-256 of the one after it."""
        kept = self._kept(secret, match_id, chain)
        above = -(-number // _STRIDE)
        link = kept[above * 32 : above * 32 + 32]
        for _ in range(above * _STRIDE - number):
            link = sha256(link).digest()
        return link.hex()

    def _made(self, secret: bytes, match_id: str, chain: int) -> bytes:
        """Links 0, 16, 32 … 4096 of a chain, end to end."""
        link = hmac.digest(secret, f"{match_id}/{chain}".encode(), "sha256")
        kept = [link]
        for number in range(LINKS - 1, -1, -1):
            link = sha256(link).digest()
            if number % _STRIDE == 0:
                kept.append(link)
        return b"".join(reversed(kept))
