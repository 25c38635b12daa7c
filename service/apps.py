"""Whose token it is: those of apps, which sign for their own users (JWT: EdDSA, ES256 or RS256).

Each process reads the rows of all apps every few seconds while their tokens come in, so that what is revoked, restored
or given other keys is so everywhere without a restart. Of a token that was found right (service/auth.py remembers it)
only its end, its app and its key are looked at again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
from msgspec import Struct

from infra.apps import STALE_SECONDS, AppStore, User
from infra.database import Unavailable
from infra.keys import ALGORITHMS, AppKey, BadKeys, PublishedKeys, read_keys
from infra.tables import AppRow
from service.errors import ApiError, ErrorCode, logger

CLOCKS_DIFFER = 60
"""Seconds that the clock of an app may be ahead of ours."""

FRESH_SECONDS = 3.0
"""How old the rows of apps may be before they are read again, beside what goes on."""

UNKNOWN_SECONDS = 1.0
"""How old they may be where an app is not among them."""

LONGEST_SUBJECT = 200
LONGEST_NAME = 40

SCOPES = ("play", "watch", "bot", "operate")
"""What a token may be for. `operate` is for tokens of our own alone."""


class Caller(Struct, frozen=True, kw_only=True):
    """Who is calling, by a token that was right."""

    player: str | None
    """None: an operator."""
    expires: float
    app: str = ""
    """The app that signed the token; empty for our own tokens."""
    plays: bool = True
    """Whether the caller may do anything, or only watch."""
    kid: str = ""
    thumbprint: bytes = b""
    """The key of the app's that the token was signed with."""


class _App:
    """An app and its keys."""

    def __init__(self, row: AppRow, published: PublishedKeys | None) -> None:
        self.row = row
        self.published = published
        self._given: dict[str, AppKey] = {}
        if row.jwks:
            try:
                self._given = {key.kid: key for key in read_keys(row.jwks.encode())}
            except BadKeys as error:
                logger.error("the keys of the app %r cannot be used: %s", row.name, error)

    def key(self, kid: str | None) -> AppKey | None:
        """The key of this id, or without an id the only one that there is."""
        published = self.published.keys if self.published else {}
        if kid is not None:
            return self._given.get(kid) or published.get(kid)
        keys = [*self._given.values(), *published.values()]
        return keys[0] if len(keys) == 1 else None

    @property
    def kids(self) -> list[str]:
        return [*self._given, *(self.published.keys if self.published else ())]


class Apps:
    """The apps, as this process knows them."""

    def __init__(self, store: AppStore, audience: str, player_of: Callable[[User], Awaitable[str]]) -> None:
        """Tokens must be for this audience; `player_of` gives the id of the player who is a user."""
        self._store = store
        self._audience = audience
        self._player_of = player_of
        self._apps: dict[str, _App] = {}
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._problem: Unavailable | None = None

    async def caller(self, issuer: str, token: str, header: dict[str, Any]) -> Caller:
        """Who has this token, which says that it is from this app. Raises ApiError, Unavailable."""
        app = await self._app(issuer, STALE_SECONDS)
        if app is None:
            app = await self._app(issuer, UNKNOWN_SECONDS)
        _check_app(app, issuer)
        assert app is not None
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise ApiError(
                ErrorCode.TOKEN_ALGORITHM,
                "the token's alg is {algorithm}; it is EdDSA, ES256 or RS256",
                algorithm=repr(algorithm)[:40],
            )
        key = await self._key(app, header.get("kid"))
        if key.algorithm != algorithm:
            raise ApiError(
                ErrorCode.TOKEN_ALGORITHM,
                "the token's alg is {algorithm}; its key {kid} is for {fitting}",
                algorithm=algorithm,
                kid=key.kid,
                fitting=key.algorithm,
            )
        claims = verified(
            token,
            key.key,
            algorithms=[algorithm],
            issuer=issuer,
            audience=self._audience,
            leeway=CLOCKS_DIFFER,
            options={"require": ["iss", "sub", "aud", "exp"], "verify_exp": False},
        )
        scopes = _scopes(claims)
        subject = claims["sub"]
        if not isinstance(subject, str) or not 1 <= len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            raise ApiError(
                ErrorCode.TOKEN_INVALID, "the token's sub is 1 to {most} printable characters", most=LONGEST_SUBJECT
            )
        expires = expiry(claims)
        if expires <= time.time():
            raise ApiError(ErrorCode.TOKEN_EXPIRED, "this token has expired: the app gives another")
        user = User(app=issuer, subject=subject, name=name_of(claims.get("name")), bot="bot" in scopes)
        return Caller(
            player=await self._player_of(user),
            expires=expires,
            app=issuer,
            plays="play" in scopes or "bot" in scopes,
            kid=key.kid,
            thumbprint=key.thumbprint,
        )

    async def check(self, caller: Caller) -> None:
        """Raises ApiError if the app of a caller who was known, or its key, stands no more; or Unavailable."""
        app = self._apps.get(caller.app)
        if time.monotonic() - self._read_at > FRESH_SECONDS:
            app = await self._app(caller.app, STALE_SECONDS)
        _check_app(app, caller.app)
        assert app is not None
        if app.published is not None:
            app.published.renew()
        key = app.key(caller.kid)
        if key is None or key.thumbprint != caller.thumbprint:
            raise ApiError(
                ErrorCode.TOKEN_KEY_UNKNOWN,
                "the key {kid} of the app {app} is withdrawn",
                kid=caller.kid,
                app=caller.app,
            )

    async def _app(self, name: str, oldest: float) -> _App | None:
        """The app of this name, as it was so many seconds ago at most. Raises Unavailable."""
        age = time.monotonic() - self._read_at
        if age > min(oldest, FRESH_SECONDS) and self._reading is None:
            self._reading = asyncio.create_task(self._read())
        if age > oldest and self._reading is not None:
            await asyncio.wait([self._reading])
            if self._problem is not None:
                raise self._problem
        return self._apps.get(name)

    async def _read(self) -> None:
        """Read the rows of all apps; what has not changed stays as it is."""
        begun = time.monotonic()
        try:
            apps = {}
            for row in await self._store.all():
                old = self._apps.get(row.name)
                if old is None or old.row.model_dump() != row.model_dump():
                    published = old.published if old else None
                    if published is None or published.url != row.jwks_url:
                        published = PublishedKeys(row.jwks_url) if row.jwks_url else None
                    old = _App(row, published)
                apps[row.name] = old
            self._apps, self._read_at, self._problem = apps, begun, None
        except Unavailable as error:
            self._problem = error
        finally:
            self._reading = None

    async def _key(self, app: _App, kid: str | None) -> AppKey:
        """The app's key of this id. Raises ApiError TOKEN_KEY_UNKNOWN or KEYS_UNAVAILABLE."""
        found = app.key(kid)
        if app.published is not None:
            if found is None:
                await app.published.read()
                found = app.key(kid)
            else:
                app.published.renew()
        if found is not None:
            return found
        name = app.row.name
        if app.published is not None and app.published.problem and not app.kids:
            raise ApiError(
                ErrorCode.KEYS_UNAVAILABLE, "the keys of the app {app} cannot be read now: try again", app=name
            )
        if kid is None:
            raise ApiError(
                ErrorCode.TOKEN_KEY_UNKNOWN,
                "the token has no kid, and the app {app} has {number} keys",
                app=name,
                number=len(app.kids),
            )
        raise ApiError(
            ErrorCode.TOKEN_KEY_UNKNOWN, "the app {app} has no key with the kid {kid}", app=name, kid=repr(kid)[:100]
        )


def verified(token: str, key: Any, **how: Any) -> dict[str, Any]:
    """The claims of a token whose signature and claims are right; `exp` is looked at apart. Raises ApiError TOKEN_…."""
    try:
        return jwt.decode(token, key, **how)
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise token_error(error) from error


def token_error(error: Exception) -> ApiError:
    """What is wrong with a token, by what its reader says."""
    code = ErrorCode.TOKEN_INVALID
    match error:
        case jwt.InvalidSignatureError():
            code = ErrorCode.TOKEN_SIGNATURE
        case jwt.InvalidAlgorithmError():
            code = ErrorCode.TOKEN_ALGORITHM
        case jwt.InvalidAudienceError() | jwt.MissingRequiredClaimError(claim="aud"):
            code = ErrorCode.TOKEN_AUDIENCE
        case jwt.ImmatureSignatureError():
            code = ErrorCode.TOKEN_NOT_YET_VALID
    return ApiError(code, "this token cannot be used: {error}", error=ascii(str(error))[1:-1][:200])


def expiry(claims: dict[str, Any]) -> float:
    """When a token expires. Raises ApiError TOKEN_INVALID."""
    expires = claims["exp"]
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not 0 <= expires < 1e11:
        raise ApiError(ErrorCode.TOKEN_INVALID, "the token's exp is a number of seconds since 1970")
    return float(expires)


def name_of(given: object) -> str | None:
    """The name that somebody wishes to be called, if it can be one: 1 to 40 printable characters."""
    name = " ".join(given.split()) if isinstance(given, str) else ""
    return name if 1 <= len(name) <= LONGEST_NAME and name.isprintable() else None


def _check_app(app: _App | None, name: str) -> None:
    if app is None:
        raise ApiError(
            ErrorCode.APP_UNKNOWN, "no app is registered here as {app}, the token's iss", app=repr(name)[:100]
        )
    if app.row.revoked_at is not None:
        raise ApiError(ErrorCode.APP_REVOKED, "the app {app} has been revoked", app=name)


def _scopes(claims: dict[str, Any]) -> set[str]:
    """What a token of an app is for; names that mean nothing here are for others."""
    given = claims.get("scope", "play")
    scopes = set(given.split()) & set(SCOPES) if isinstance(given, str) else set()
    if "operate" in scopes:
        raise ApiError(
            ErrorCode.TOKEN_SCOPE, "an app's token cannot have the scope operate: `videau token` gives those"
        )
    if not scopes:
        raise ApiError(ErrorCode.TOKEN_SCOPE, "the token's scope has play, watch or bot in it, or there is no scope")
    return scopes
