"""The chains of links from which dice come. Only their owner, who has the secret, knows a link before its roll."""

import hmac
from functools import lru_cache
from hashlib import sha256

from domain.board import Dice
from domain.fairness import LINKS, dice_from
from domain.match import Match

_STRIDE = 16
"""Links between those that are kept: the others are hashed again when they are wanted."""

_KEPT_CHAINS = 4_000


class Chains:
    """Every match's chains, made from the server's secret and the match's id; nothing of them is stored."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._kept = lru_cache(_KEPT_CHAINS)(self._made)

    def commitment(self, match_id: str, chain: int) -> str:
        """The end of a match's chain (0 is its first), which is told before any of it is used; hexadecimal."""
        return self._link(match_id, chain, 0)

    def throw(self, match: Match, entropy: str = "") -> tuple[Dice, str]:
        """The next roll of a match whose chain is not used up: the dice, and the link that proves them."""
        link = self._link(match.id, match.chain, match.links_used + 1)
        white, black = match.entropy
        return dice_from(link, match.id, match.rolls + 1, white, black, entropy), link

    def _link(self, match_id: str, chain: int, number: int) -> str:
        """Link `number` of a chain: 0 is the commitment, and each is the SHA-256 of the one after it."""
        kept = self._kept(match_id, chain)
        above = -(-number // _STRIDE)
        link = kept[above * 32 : above * 32 + 32]
        for _ in range(above * _STRIDE - number):
            link = sha256(link).digest()
        return link.hex()

    def _made(self, match_id: str, chain: int) -> bytes:
        """Links 0, 16, 32 … 4096 of a chain, end to end."""
        link = hmac.digest(self._secret, f"{match_id}/{chain}".encode(), "sha256")
        kept = [link]
        for number in range(LINKS - 1, -1, -1):
            link = sha256(link).digest()
            if number % _STRIDE == 0:
                kept.append(link)
        return b"".join(reversed(kept))
