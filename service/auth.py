"""Who is calling: a token that says which player, or that it is an operator; signed here (JWT, HS256), or by an app."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

from infra.apps import ISSUER
from infra.buckets import Level
from infra.database import Unavailable
from service.apps import Apps, Caller, expiry, token_error, verified
from service.errors import ApiError, ErrorCode, status_of
from service.lobby import CHANNEL, LobbyChange
from service.rates import UNLIMITED, Payer, RateLimited, Rates
from service.table import Table
from service.windows import Step
from service.words import Language

CLOCKS_DIFFER = timedelta(minutes=10)
"""How far the clock of the process that made a token may be ahead of ours."""

OPERATE = "operate"
"""The scope of an operator's token: to read what is everybody's."""

KEPT_TOKENS = 10_000
"""Tokens whose signature need not be checked again."""

LONGEST_TOKEN = 8_000

RECHECK_SECONDS = 10.0
"""How often what goes on for long asks whether its caller's token still stands."""


class Tokens:
    """Makes the tokens of guests and operators, and reads them and those of apps."""

    def __init__(self, secret: str, days: int, apps: Apps | None = None, *, older: Sequence[str] = ()) -> None:
        """`older` secrets are those that sign no more, but whose tokens still stand."""
        self._secret, self._older = secret, older
        self._lasts = timedelta(days=days)
        self._apps = apps
        self._known: OrderedDict[str, Caller] = OrderedDict()

    def issue(self, player_id: str, scope: str | None = None) -> tuple[str, datetime]:
        """A token for a player, or with scope OPERATE for an operator of this name, and when it expires."""
        now = datetime.now(UTC)
        claims = {"iss": ISSUER, "sub": player_id, "iat": now, "exp": now + self._lasts}
        if scope is not None:
            claims["scope"] = scope
        return jwt.encode(claims, self._secret, algorithm="HS256"), now + self._lasts

    async def caller(self, token: str) -> Caller:
        """Whose token it is. Raises ApiError TOKEN_…, APP_… or KEYS_UNAVAILABLE, and Unavailable."""
        caller = self._known.get(token)
        if caller is None:
            caller = await self._read(token)
            self._known[token] = caller
            if len(self._known) > KEPT_TOKENS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(token)
        await self.check(caller)
        return caller

    async def check(self, caller: Caller) -> None:
        """Raises what `caller` does if the token of a caller who was known can be used no more."""
        if caller.expires <= time.time():
            if caller.app:
                raise ApiError(ErrorCode.TOKEN_EXPIRED, "this token has expired: the app gives another")
            raise ApiError(ErrorCode.TOKEN_EXPIRED, "this token has expired: register again")
        if caller.app and self._apps is not None:
            await self._apps.check(caller)

    async def _read(self, token: str) -> Caller:
        """Whose token it is; its signature and form are right, and stay so."""
        if len(token) > LONGEST_TOKEN:
            raise ApiError(ErrorCode.TOKEN_INVALID, "this token is longer than {most} characters", most=LONGEST_TOKEN)
        try:
            unverified = jwt.decode_complete(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise token_error(error) from error
        issuer = unverified["payload"].get("iss")
        if not isinstance(issuer, str):
            raise ApiError(ErrorCode.TOKEN_INVALID, "the token's iss is the name of its app")
        if issuer != ISSUER and self._apps is not None:
            return await self._apps.caller(issuer, token, unverified["header"])
        claims = self._verified(token)
        operates = claims.get("scope") == OPERATE
        return Caller(player=None if operates else str(claims["sub"]), expires=expiry(claims))

    def _verified(self, token: str) -> dict[str, Any]:
        """The claims of a token of ours, signed with any of the secrets."""
        for secret in (self._secret, *self._older):
            try:
                return verified(
                    token,
                    secret,
                    algorithms=["HS256"],
                    issuer=ISSUER,
                    options={"require": ["iss", "sub", "iat", "exp"], "verify_exp": False},
                    leeway=CLOCKS_DIFFER,
                )
            except ApiError as error:
                wrong = error
                if error.code is not ErrorCode.TOKEN_SIGNATURE:
                    break
        raise wrong


@dataclass
class Context:
    """What a request, or all operations of one websocket, know of their caller."""

    table: Table
    tokens: Tokens
    viewer: str | None = None
    """The player's id; None for an anonymous caller."""
    operates: bool = False
    """Whether the caller is an operator, who plays nothing and may read everything."""
    language: Language = Language.EN
    """In which it is told what is wrong."""
    app: str = ""
    """The app whose user the player is; empty for a guest."""
    caller: Caller | None = None
    """What its token says; None for an anonymous caller."""
    connection_params: dict[str, Any] = field(default_factory=dict)
    address: str = ""
    """Where the caller is, as far as it counts for limits."""
    rates: Rates = UNLIMITED
    traceparent: str | None = None
    """The trace that the caller's request belongs to, as it says (W3C Trace Context)."""
    levels: list[Level] | None = None
    """Of an HTTP request: the buckets that it was counted in, for its response."""

    @property
    def identity(self) -> str:
        """The player's id. Raises ApiError UNAUTHENTICATED for an anonymous caller."""
        if self.viewer is None:
            raise ApiError(ErrorCode.UNAUTHENTICATED, "only a player may do that: registerGuest gives you a token")
        return self.viewer

    @property
    def player(self) -> str:
        """The id of the player, who may do something. Raises ApiError UNAUTHENTICATED for an anonymous caller, and
        FORBIDDEN for one who may only watch."""
        player = self.identity
        if self.caller is not None and not self.caller.plays:
            raise ApiError(ErrorCode.FORBIDDEN, "this token is for watching alone: its scope is neither play nor bot")
        return player

    def check_operator(self) -> None:
        """Raises ApiError UNAUTHENTICATED or FORBIDDEN for whoever is no operator."""
        if not self.operates:
            code = ErrorCode.UNAUTHENTICATED if self.viewer is None else ErrorCode.FORBIDDEN
            raise ApiError(code, "only an operator may do that: `videau token` makes an operator's token")

    async def watch(self, match_id: str, after: int) -> AsyncGenerator[Step]:
        """What the caller sees of a match after a number. Raises what Table.watch and Apart.one do."""
        with self.table.apart.one(match_id, self.address):
            async with aclosing(self.table.watch(match_id, after, self.viewer)) as steps:
                async for step in steps:
                    yield step

    async def lobby_app(self, app: str | None) -> str:
        """The app whose lobby is meant, the caller's own if none is said. Raises ApiError BAD_INPUT, Unavailable."""
        app = self.app if app is None else app
        if app not in ("", self.app) and not await self.table.is_app(app):
            raise ApiError(ErrorCode.BAD_INPUT, "there is no app {app!r} here", app=app[:40])
        return app

    async def lobby(self, app: str | None) -> AsyncGenerator[LobbyChange]:
        """What the lobby of an app shows, and whatever changes. Raises what `lobby_app` and Apart.one do."""
        with self.table.apart.one(CHANNEL, self.address):
            async with aclosing(self.table.lobby.watch(await self.lobby_app(app))) as changes:
                async for change in changes:
                    yield change

    @property
    def payer(self) -> Payer:
        """Whose buckets requests are counted in."""
        return Payer(self.viewer, self.app, self.address, self.operates)

    async def enter(self, authorization: str | None) -> None:
        """As `identify`, and count what is wrong. Raises RateLimited for who has been wrong too often."""
        try:
            await self.identify(authorization)
        except ApiError as error:
            if status_of(error.code) == 401:
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
        """Know the caller by the token in `Bearer TOKEN`, if there is one. Raises what Tokens.caller does."""
        if authorization is None:
            return
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise ApiError(ErrorCode.TOKEN_INVALID, "authorization is `Bearer` and a token")
        caller = await self.tokens.caller(token.strip())
        self.caller = caller
        if caller.player is None:
            self.operates = True
            return
        await self._check_known(caller.player)
        self.viewer, self.app = caller.player, caller.app

    async def _check_known(self, player: str) -> None:
        """Raises ApiError for one who was forgotten: a player without a name is; or Unavailable."""
        if not (await self.table.names([player])).get(player):
            raise ApiError(ErrorCode.TOKEN_INVALID, "this token's player is not known here")

    async def lapse(self) -> ApiError:
        """Why the caller's token can be used no more, as soon as that is so; never returns for an anonymous caller."""
        caller = self.caller
        if caller is None:
            await asyncio.get_running_loop().create_future()
        assert caller is not None
        while True:
            await asyncio.sleep(max(0.0, min(RECHECK_SECONDS, caller.expires - time.time())))
            try:
                await self.tokens.check(caller)
                if caller.player is not None:
                    await self._check_known(caller.player)
            except ApiError as error:
                return error
            except Unavailable:
                continue  # what is not known ends nothing
