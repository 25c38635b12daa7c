"""How much may be asked for in how much time: which buckets a request is counted in, and what its caller is told.

A request counts in the buckets of its player and of the player's app, or, without a player, of its address; so do
connections that are opened, in that of their address. Guests who register and tokens that are wrong count in a bucket
of their own. Operators are not counted.
"""

import ipaddress
import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.buckets import Buckets, Level
from infra.settings import Settings
from service.errors import ApiError, ErrorCode
from service.limits import QUERY_COST, Price, all_limits

LEVELS = "videau.levels"
"""Where the scope of an HTTP request has the levels of the buckets that it was counted in."""


class Payer(NamedTuple):
    """Whose buckets a request is counted in."""

    player: str | None
    app: str
    address: str
    operates: bool


class RateLimited(ApiError):
    """There is not enough left in a bucket, the last of these; nothing of what was asked for has happened."""

    def __init__(self, levels: list[Level]) -> None:
        level = levels[-1]
        self.levels = levels
        self.retry_after = max(1, math.ceil(level.retry))
        super().__init__(
            ErrorCode.RATE_LIMITED,
            "the limit {name!r} of {units} units in {seconds} seconds has {left} left, which is not enough for this: "
            "try again in {retry} seconds",
            name=level.name,
            units=level.rate.units,
            seconds=level.rate.seconds,
            left=level.remaining,
            retry=self.retry_after,
        )
        assert self.extensions is not None
        self.extensions["retryAfter"] = self.retry_after


class Rates:
    """The rate limits of a process, or of all that share a Redis."""

    def __init__(self, buckets: Buckets) -> None:
        self.buckets = buckets
        self.refused = Counter[str]()
        """How often each kind of bucket had too little."""

    async def take(self, payer: Payer, units: int, registrations: int = 0) -> list[Level]:
        """Count a request in its caller's buckets, one after the other. Raises RateLimited at the first that has too
        little: a player who floods takes nothing from the others of the app."""
        if payer.operates:
            return []
        wanted = [(name, holder, units) for name, holder in _holders(payer)]
        if registrations:
            wanted.append(("registration", payer.address, registrations))
        return await self._take(wanted)

    async def take_connection(self, address: str) -> list[Level]:
        """Count a connection that is opened. Raises RateLimited."""
        return await self._take([("address", address, 1)])

    async def take_failure(self, address: str) -> list[Level]:
        """Count a token that was wrong. Raises RateLimited."""
        return await self._take([("registration", address, 1)])

    async def levels(self, payer: Payer) -> list[Level]:
        """Every bucket of a caller."""
        holders = dict([("address", payer.address), *_holders(payer), ("registration", payer.address)])
        return [await self.buckets.look(name, holder) for name, holder in holders.items() if name in self.buckets.rates]

    async def _take(self, wanted: Iterable[tuple[str, str, int]]) -> list[Level]:
        levels = []
        for name, holder, units in wanted:
            if name in self.buckets.rates:
                levels.append(await self.buckets.take(name, holder, units))
                if not levels[-1].admitted:
                    self.refused[name] += 1
                    raise RateLimited(levels)
        return levels


UNLIMITED = Rates(Buckets({}, None))


def rates_of(settings: Settings) -> Rates:
    """The rate limits that are set, in Redis if there is one."""
    rates = {
        "player": settings.rate_player,
        "app": settings.rate_app,
        "address": settings.rate_address,
        "registration": settings.rate_registration,
    }
    return Rates(Buckets({name: rate for name, rate in rates.items() if rate}, settings.redis_url))


def _holders(payer: Payer) -> list[tuple[str, str]]:
    if payer.player is None:
        return [("address", payer.address)]
    return [("player", payer.player), ("app", payer.app)] if payer.app else [("player", payer.player)]


def address_of(scope: Scope) -> str:
    """The address of a client, as far as it is one holder's: an IPv6 network of 64 bits."""
    client = scope.get("client")
    return network_of(client[0]) if client else "local"


@lru_cache(10_000)
def network_of(host: str) -> str:
    """The address, or the network of an IPv6 address, as text; what is neither stays as it is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(address), 64), strict=False))
        address = address.ipv4_mapped
    return str(address)


def extensions(price: Price, levels: Iterable[Level]) -> dict[str, Any]:
    """What a GraphQL response says of its cost, and of the buckets that it was counted in."""
    return {
        "cost": {"requested": price.cost, "limit": QUERY_COST, "units": price.units},
        "limits": [
            {
                "name": level.name,
                "limit": level.rate.units,
                "remaining": level.remaining,
                "resetSeconds": math.ceil(level.reset),
            }
            for level in levels
        ],
    }


class CallersLimit(NamedTuple):
    """Something that is limited; of a rate, what its caller has left, and the seconds until that is the most again."""

    name: str
    value: int
    code: str | None
    remaining: int | None = None
    reset_seconds: int | None = None


async def limits_of(rates: Rates, payer: Payer) -> list[CallersLimit]:
    """Every limit, and every bucket of the caller."""
    return [
        *(CallersLimit(*limit) for limit in all_limits()),
        *(
            CallersLimit(level.name, level.rate.units, ErrorCode.RATE_LIMITED, level.remaining, math.ceil(level.reset))
            for level in await rates.levels(payer)
        ),
    ]


class RateHeaders:
    """Says in every HTTP response that was counted how full its buckets are (draft-ietf-httpapi-ratelimit-headers)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        levels: list[Level] = []
        scope[LEVELS] = levels

        async def counted(message: Message) -> None:
            if levels and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_headers(levels)]
            await send(message)

        await self.app(scope, receive, counted)


def _headers(levels: Iterable[Level]) -> list[tuple[bytes, bytes]]:
    policy = ", ".join(f'"{level.name}";q={level.rate.units};w={level.rate.seconds}' for level in levels)
    left = ", ".join(f'"{level.name}";r={level.remaining};t={math.ceil(level.reset)}' for level in levels)
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", left.encode())]
