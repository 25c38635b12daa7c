"""Who is calling: a token that says which player, or that it is an operator; signed here (JWT, HS256)."""

import time
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import jwt

from infra.buckets import Level
from service.errors import ApiError, ErrorCode
from service.rates import UNLIMITED, Payer, RateLimited, Rates
from service.table import Table
from service.windows import Step

ISSUER = "videau"

CLOCKS_DIFFER = timedelta(minutes=10)
"""How far the clock of the process that made a token may be ahead of ours."""

OPERATE = "operate"
"""The scope of an operator's token: to read what is everybody's."""

KEPT_TOKENS = 10_000
"""Tokens whose signature need not be checked again."""


class Tokens:
    """Makes and reads the tokens of guests and operators."""

    def __init__(self, secret: str, days: int) -> None:
        self._secret = secret
        self._lasts = timedelta(days=days)
        self._signed = lru_cache(KEPT_TOKENS)(self._read)

    def issue(self, player_id: str, scope: str | None = None) -> tuple[str, datetime]:
        """A token for a player, or with scope OPERATE for an operator of this name, and when it expires."""
        now = datetime.now(UTC)
        claims = {"iss": ISSUER, "sub": player_id, "iat": now, "exp": now + self._lasts}
        if scope is not None:
            claims["scope"] = scope
        return jwt.encode(claims, self._secret, algorithm="HS256"), now + self._lasts

    def holder(self, token: str) -> tuple[str, str | None]:
        """Whose token it is, and its scope. Raises ApiError TOKEN_EXPIRED or TOKEN_INVALID."""
        try:
            holder, scope, expires = self._signed(token)
        except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError) as error:
            raise ApiError(ErrorCode.TOKEN_INVALID, f"this token cannot be used: {error}") from error
        if expires <= time.time():
            raise ApiError(ErrorCode.TOKEN_EXPIRED, "this token has expired: register again")
        return holder, scope

    def _read(self, token: str) -> tuple[str, str | None, float]:
        """Whose token it is, its scope and when it expires; its signature and form are right, and stay so."""
        claims = jwt.decode(
            token,
            self._secret,
            algorithms=["HS256"],
            issuer=ISSUER,
            options={"require": ["iss", "sub", "iat", "exp"], "verify_exp": False},
            leeway=CLOCKS_DIFFER,
        )
        return str(claims["sub"]), claims.get("scope"), float(claims["exp"])


@dataclass
class Context:
    """What a request, or all operations of one websocket, know of their caller."""

    table: Table
    tokens: Tokens
    viewer: str | None = None
    """The player's id; None for an anonymous caller."""
    operates: bool = False
    """Whether the caller is an operator, who plays nothing and may read everything."""
    connection_params: dict[str, Any] = field(default_factory=dict)
    app: str = ""
    """The app whose user the player is; empty for guests."""
    address: str = ""
    """Where the caller is, as far as it counts for limits."""
    rates: Rates = UNLIMITED
    levels: list[Level] | None = None
    """Of an HTTP request: the buckets that it was counted in, for its response."""

    @property
    def player(self) -> str:
        """The player's id. Raises ApiError UNAUTHENTICATED for an anonymous caller."""
        if self.viewer is None:
            raise ApiError(ErrorCode.UNAUTHENTICATED, "only a player may do that: registerGuest gives you a token")
        return self.viewer

    def check_operator(self) -> None:
        """Raises ApiError UNAUTHENTICATED or FORBIDDEN for whoever is no operator."""
        if not self.operates:
            code = ErrorCode.UNAUTHENTICATED if self.viewer is None else ErrorCode.FORBIDDEN
            raise ApiError(code, "only an operator may do that: `videau token` makes an operator's token")

    def watch(self, match_id: str, after: int) -> AsyncGenerator[Step]:
        """What the caller sees of a match after a number; see Table.watch."""
        return self.table.watch(match_id, after, self.viewer)

    @property
    def payer(self) -> Payer:
        """Whose buckets requests are counted in."""
        return Payer(self.viewer, self.app, self.address, self.operates)

    async def enter(self, authorization: str | None) -> None:
        """As `identify`, and count what is wrong. Raises RateLimited for who has been wrong too often."""
        try:
            await self.identify(authorization)
        except ApiError:
            await self._counted(self.rates.take_failure(self.address))
            raise

    async def count(self, units: int, registrations: int = 0) -> list[Level]:
        """Count what is asked for, before it is done. Raises RateLimited."""
        return await self._counted(self.rates.take(self.payer, units, registrations))

    async def _counted(self, taking: Awaitable[list[Level]]) -> list[Level]:
        levels: list[Level] = []
        try:
            levels = await taking
        except RateLimited as error:
            levels = error.levels
            raise
        finally:
            if self.levels is not None:
                self.levels += levels
        return levels

    async def identify(self, authorization: str | None) -> None:
        """Know the caller by the token in `Bearer TOKEN`, if there is one. Raises ApiError TOKEN_…."""
        if authorization is None:
            return
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise ApiError(ErrorCode.TOKEN_INVALID, "authorization is `Bearer` and a token")
        viewer, scope = self.tokens.holder(token.strip())
        if scope == OPERATE:
            self.operates = True
            return
        if not await self.table.names([viewer]):
            raise ApiError(ErrorCode.TOKEN_INVALID, "this token's player is not known here")
        self.viewer = viewer
