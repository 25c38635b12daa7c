"""The ASGI application: the store, the table, and the routes."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from infra import traces
from infra.bus import Bus, LocalBus, RedisBus
from infra.dice import Chains
from infra.settings import Settings
from infra.signing import Signer
from infra.store import SqlStore, Unavailable
from service import limits
from service.apps import Apps
from service.auth import Context, Tokens
from service.drain import Drain, Exit, Server
from service.endpoint import Endpoint
from service.errors import logger
from service.metrics import Measured
from service.problems import FORESEEN, answer_problem
from service.rates import LEVELS, RateHeaders, address_of, rates_of
from service.routes import routes
from service.table import Table
from service.trusted import TrustedDocuments
from service.wire import BoundedWebSocket, Door, bounded_http
from service.words import catalogue

HEADERS = [
    ("content-security-policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
]
"""What every response tells browsers: nothing of ours runs, is framed or is taken for something else. Our pages have
neither script nor style. Strict-Transport-Security is for the proxy to say, which has the certificate."""

_TOLD = ("RateLimit", "RateLimit-Policy", "Retry-After", "ETag", "Content-Language", "Location", "WWW-Authenticate")
"""The headers of responses that a page of another origin may read."""

_WELCOME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Videau</title>
<h1>Videau</h1><p>Backgammon as a service. Play, watch and replay whole matches through the GraphQL API at
<code>/graphql</code>: queries and mutations by POST, live matches by websocket (graphql-transport-ws).</p>
<p>The schema: <code>videau schema</code>, or introspection. The tour: README.md.</p></html>"""


def create_app(settings: Settings) -> Starlette:
    """The application for these settings. Opening its database may raise Unavailable, its secret SettingsError."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        store = app.state.store = SqlStore(settings.url, create=True)
        bus: Bus = RedisBus(settings.redis_url) if settings.redis_url else LocalBus()
        endpoint.documents = TrustedDocuments(store)
        table = app.state.table = Table(store, bus, chains, signer, timedelta(seconds=settings.absence_seconds))
        table.apart.most = settings.connections_per_address  # nobody needs more of one thing
        app.state.bus, app.state.windows = bus, table.windows
        apps = Apps(store.apps, settings.audience, table.player_of)
        app.state.tokens = Tokens(secret, settings.token_days, apps, older=older)
        bus.start(table.ring)
        rates.buckets.start()
        await table.clocks.start()
        table.rater.start()
        forgetting = asyncio.create_task(_forget(store, table, timedelta(days=settings.key_days)))
        gc.freeze()  # what start-up made is never garbage: collections skip it,
        gc.set_threshold(50_000, 20, 50)  # and come seldom: neither requests nor sockets leave anything in cycles
        yield
        forgetting.cancel()
        table.windows.close()
        table.notices.close()
        table.lobby.close()
        await table.clocks.close()
        await table.rater.close()
        await bus.close()
        await rates.buckets.close()
        await store.close()
        await asyncio.to_thread(traces.stop)

    secret, *older = settings.kept("secret")
    chains, signer = Chains(*settings.kept("dice_secret")), Signer(*settings.kept("signing_key"))

    catalogue()
    rates = rates_of(settings)

    def new_context(connection: HTTPConnection) -> Context:
        scope = connection.scope
        table = cast(Table, app.state.table)
        return Context(
            table, cast(Tokens, app.state.tokens), address=address_of(scope), rates=rates, levels=scope.get(LEVELS)
        )

    endpoint = Endpoint(new_context, settings.origins, introspection=settings.introspection)
    drain = Drain(settings.drain_seconds)
    app = Starlette(
        routes=[
            Route("/", welcome),
            Route("/graphql", endpoint),
            WebSocketRoute("/graphql", endpoint),
            *routes(),
        ],
        middleware=[
            *_cross_origin(settings.origins),
            Middleware(Measured),
            Middleware(Exit, drain),
            Middleware(RateHeaders),
        ],
        exception_handlers={kind: answer_problem for kind in (*FORESEEN, Exception)},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # it would lead to whatever host a request names
    app.state.new_context = new_context
    app.state.rates = rates
    app.state.endpoint, app.state.audiences, app.state.onlookers = endpoint, endpoint.audiences, endpoint.onlookers
    app.state.drain = drain
    return app


async def _forget(store: SqlStore, table: Table, kept: timedelta) -> None:
    """Forget what is long over, such as old idempotency keys, once an hour; several processes may."""
    while True:
        await asyncio.sleep(random.uniform(1800, 5400))
        try:
            await store.forget_keys(datetime.now(UTC) - kept)
            await table.notices.tidy()
            await table.lobby.forget()
        except Unavailable as error:
            logger.error("what is long over is kept for now: %s", error)


def _cross_origin(origins: tuple[str, ...]) -> list[Middleware]:
    """What tells browsers that pages of these origins may call; without it they let none but our own."""
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", "Last-Event-ID", "Traceparent", "Tracestate"),
            expose_headers=_TOLD,
            max_age=7_200,
        )
    ]


def create_server(app: ASGIApp, settings: Settings | None = None, drain: Drain | None = None) -> uvicorn.Server:
    """The HTTP server as we run it, to be given its sockets; it drains as the application does (`app.state.drain`).

    Without settings it trusts no proxy, and any number of connections may come from an address.
    """
    proxies = settings.trusted_proxies if settings else ()
    return Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            log_config=None if settings and settings.log == "json" else uvicorn.config.LOGGING_CONFIG,
            headers=HEADERS,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            http=bounded_http(Door(settings.connections_per_address if settings else None, proxies)),
            ws=BoundedWebSocket,
            ws_max_size=limits.MESSAGE_BYTES,
            ws_per_message_deflate=False,
            timeout_keep_alive=limits.IDLE_SECONDS,
            timeout_graceful_shutdown=5,
            server_header=False,
        ),
        drain or Drain(0),
    )


async def welcome(request: Request) -> Response:
    """Where to go next."""
    return HTMLResponse(_WELCOME)
