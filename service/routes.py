"""HTTP beside GraphQL, for clients that speak no GraphQL: logs, live logs, match files, keys, limits, health."""

import asyncio
import html
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Any

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Send

from domain.board import Color
from domain.mat import write_mat
from domain.matchfile import ReadMatch
from domain.sgf import write_sgf
from infra.bus import Bus, RedisBus
from infra.log import encode_fed, encode_line, encode_time
from infra.matchfiles import read_file
from infra.store import PAGE, Unavailable
from service import limits
from service.auth import Context
from service.drain import Drain
from service.errors import ApiError, ErrorCode, logger
from service.metrics import metrics
from service.problems import Problem
from service.rates import limits_of
from service.table import Head
from service.wire import come_back

HEARTBEAT = 15
"""Seconds between the comments that keep an idle stream of events open."""

RETRY = 2_000
"""Milliseconds after which a client that lost its stream should come back."""

STREAM_LIFETIME = timedelta(minutes=30)
"""A stream of events ends after this, so that its client comes back, perhaps to another process."""

FEED, MOST_FED = 1_000, 10_000
"""Events of all matches that one request gets, and can get."""

LOG_UNITS, IMPORT_UNITS = 5, 20
"""Units that a match's log or file, and reading one, count in rate limits; all else counts 1."""

IMPORT_BYTES = 5_000
"""Bytes of a match file that count as a unit more."""

READY = 2
"""Seconds in which the database must answer, for a process to be ready."""

_ZIPPED = [Middleware(GZipMiddleware, minimum_size=1_000)]
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


def routes() -> list[Route]:
    """Every route beside /graphql and /."""
    return [
        Route("/matches/import", import_match, methods=["POST"]),
        Route("/matches/{id}/events", match_events, middleware=_ZIPPED),
        Route("/matches/{id}.json", export_json, middleware=_ZIPPED),
        Route("/matches/{id}.mat", export_mat, middleware=_ZIPPED),
        Route("/matches/{id}.sgf", export_sgf, middleware=_ZIPPED),
        Route("/join/{code}", join_page),
        Route("/events", all_events, middleware=_ZIPPED),
        Route("/keys", keys),
        Route("/limits", limits_),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
    ]


async def match_events(request: Request) -> Response:
    """The log of a match: lines of NDJSON as it stands, or live as server-sent events for who accepts those."""
    context, head = await _match(request)
    resumed = request.headers.get("last-event-id")
    after = _number("Last-Event-ID" if resumed else "after", resumed or request.query_params.get("after", "0"))
    if after > head.version:
        raise Problem(
            409,
            ErrorCode.BAD_INPUT,
            "after is {after}; the match is at version {version}",
            after=after,
            version=head.version,
        )
    if "text/event-stream" in request.headers.get("accept", ""):
        if head.match.ended and after == head.version:
            return Response(status_code=204)  # tells an EventSource not to come back
        return _streamed(request, context, _live(context, head.match.id, after))
    return await _exported(request, head, "application/x-ndjson", _ndjson(context, head, after), f"-{after}")


async def _live(context: Context, match_id: str, after: int) -> AsyncGenerator[ServerSentEvent]:
    """The events after a number, each with it as id, until the match is over."""
    async with aclosing(context.table.watch(match_id, after, context.viewer)) as steps:
        async for step in steps:
            r = step.recorded
            yield ServerSentEvent(encode_line(r.seq, encode_time(r.at), r.text, r.hash), id=str(r.seq))


def _streamed(request: Request, context: Context, events: AsyncGenerator[ServerSentEvent]) -> Response:
    drain = _drain(request)
    drain.check()
    return EventSourceResponse(
        _for_a_while(context, events, drain), ping=HEARTBEAT, headers={"vary": "accept", "cache-control": "no-store"}
    )


async def _for_a_while(
    context: Context, events: AsyncGenerator[ServerSentEvent], drain: Drain
) -> AsyncIterator[ServerSentEvent]:
    """The events until they end, the stream has lived long enough, its caller's token can be used no more, or the
    process stops."""
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout_at(loop.time() + STREAM_LIFETIME.total_seconds())
    lapsing = loop.create_task(context.lapse())

    def end(lapsed: "asyncio.Task[ApiError]") -> None:
        if not lapsed.cancelled():
            with suppress(RuntimeError):  # the stream is over already
                limit.reschedule(loop.time())

    try:
        yield ServerSentEvent(retry=RETRY, comment="videau")
        async with aclosing(events), limit as life:
            lapsing.add_done_callback(end)
            with drain.stream(life) as stream:
                async for each in events:
                    stream.sending = True
                    yield each
                    stream.sending = False
    except TimeoutError:
        retry = come_back() if drain.begun else None
        yield ServerSentEvent(retry=retry, comment=lapsing.result().code if lapsing.done() else "come back")
    finally:
        lapsing.remove_done_callback(end)
        lapsing.cancel()


async def all_events(request: Request) -> Response:
    """The events of all matches in one order, for operators: lines of NDJSON, or live as server-sent events."""
    context = await _context(request)
    context.check_operator()
    resumed = request.headers.get("last-event-id")
    after = _number("Last-Event-ID" if resumed else "after", resumed or request.query_params.get("after", "0"))
    if "text/event-stream" in request.headers.get("accept", ""):
        return _streamed(request, context, _fed_live(context, after))
    limit = _number("limit", request.query_params.get("limit", str(FEED)))
    if not 1 <= limit <= MOST_FED:
        raise Problem(
            400,
            ErrorCode.BAD_INPUT,
            "limit is {limit}; 1 to {most} events can be asked for",
            limit=limit,
            most=MOST_FED,
        )
    headers = {"cache-control": "no-store"}
    return await _begun(_fed(context, after, limit), media_type="application/x-ndjson", headers=headers)


async def _fed(context: Context, after: int, limit: int) -> AsyncIterator[str]:
    while limit and (page := await context.table.feed(after, min(limit, PAGE))):
        yield "".join(encode_fed(*fed) + "\n" for fed in page)
        after, limit = page[-1].position, limit - len(page)


async def _fed_live(context: Context, after: int) -> AsyncGenerator[ServerSentEvent]:
    """The events after a position, and those to come, looked for every second."""
    while True:
        try:
            while page := await context.table.feed(after, PAGE):
                for fed in page:
                    yield ServerSentEvent(encode_fed(*fed), id=str(fed.position))
                after = page[-1].position
        except Unavailable as error:
            logger.error("the feed waits: %s", error)
        await asyncio.sleep(1)


async def _ndjson(context: Context, head: Head, after: int) -> AsyncIterator[str]:
    async for line in context.table.lines(head, after):
        yield line + "\n"


async def export_json(request: Request) -> Response:
    """A match as one JSON object: its id, its players' names, its records and, when it is finished, its signed head."""
    context, head = await _match(request)

    async def parts() -> AsyncIterator[str]:
        names = await _names(context, head)
        start = {"match": head.match.id, "names": dict(zip(("white", "black"), names, strict=True))}
        yield msgspec.json.encode(start).decode().removesuffix("}") + ',"records":['
        comma, signed = "", "null"
        async for line in context.table.lines(head, 0):
            if line.startswith('{"head":'):
                signed = line
                continue
            yield comma + line
            comma = ","
        yield f'],"signedHead":{signed}}}'

    return await _exported(request, head, "application/json", parts(), ".json")


async def export_mat(request: Request) -> Response:
    """A match as a .mat file, which GNU Backgammon, eXtreme Gammon and others read."""
    context, head = await _match(request)
    steps = await context.table.steps(head.match.id, 0, head.version)
    text = write_mat([step.recorded.event for step in steps], await _names(context, head))
    return await _exported(request, head, "text/plain", text, ".mat", f"{head.match.id}.mat")


async def export_sgf(request: Request) -> Response:
    """A match as GNU Backgammon's .sgf file."""
    context, head = await _match(request)
    steps = await context.table.steps(head.match.id, 0, head.version)
    text = write_sgf([step.recorded.event for step in steps], await _names(context, head))
    return await _exported(request, head, "application/x-go-sgf", text, ".sgf", f"{head.match.id}.sgf")


async def import_match(request: Request) -> Response:
    """Store the match in a .mat, .sgf or NDJSON file; one that is known already is answered with the match it is."""
    context = await _context(request, IMPORT_UNITS)
    context.player  # noqa: B018 - only players bring matches in
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, ErrorCode.BAD_REQUEST, "a request's body is sent as it is, without a content-encoding")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limits.FILE_BYTES:
            raise Problem(
                413, ErrorCode.BODY_TOO_LARGE, "a match file has at most {most} bytes", most=limits.FILE_BYTES
            )
    if units := len(body) // IMPORT_BYTES:
        if context.levels:
            context.levels.clear()  # the newest are told
        await context.count(units)
    known, head, read = await import_file(context, bytes(body))
    answer = {
        "match": head.match.id,
        "new": not known,
        "version": head.version,
        "names": {"white": read.names[0], "black": read.names[1]},
        "notes": list(read.notes),
    }
    headers = {"location": f"/matches/{head.match.id}/events"}
    return JSONResponse(answer, 200 if known else 201, headers)


async def join_page(request: Request) -> Response:
    """Where the link of an invitation leads: what the match is, and how a client joins it."""
    context = await _context(request)
    code = request.path_params["code"]
    head = await context.table.head(await context.table.invited_by(code), None)
    creator = head.match.player(head.match.first_seat)
    name = (await context.table.names([creator or ""])).get(creator or "", "")
    length = head.match.settings.length
    told = {"name": name, "kind": "money game" if length is None else f"match to {length}", "code": code}
    return HTMLResponse(_JOIN.format(**{key: html.escape(text) for key, text in told.items()}))


_JOIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Videau: an invitation</title>
<h1>{name} invites you to a {kind}</h1>
<p>Join with any client: <code>joinMatch(code: "{code}")</code>. The code is good for one player, once.</p></html>"""


async def import_file(context: Context, data: bytes) -> tuple[bool, Head, ReadMatch]:
    """Store the match in a file: whether it was known, the match, and what was read. Raises FileError, Broken."""
    read = await asyncio.to_thread(read_file, data)
    known, head = await context.table.import_match(read)
    return known, head, read


async def keys(request: Request) -> Response:
    """The server's public keys, newest first: that which signs, and those that have signed."""
    context = await _context(request)
    found = [{"algorithm": "Ed25519", "use": "head", "key": key} for key in context.table.signer.public_keys]
    return JSONResponse({"keys": found})


async def limits_(request: Request) -> Response:
    """How much may be asked for at once."""
    context = await _context(request)
    names = ("name", "value", "code", "remaining", "resetSeconds")
    return JSONResponse(
        {"limits": [dict(zip(names, limit, strict=True)) for limit in await limits_of(context.rates, context.payer)]}
    )


async def healthz(request: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """The process can serve matches: its database answers. Without Redis it does too, with slower news."""
    _drain(request).check()
    bus: Bus = request.app.state.bus
    redis = {"redis": "ok" if bus.connected else "down"} if isinstance(bus, RedisBus) else {}
    try:
        async with asyncio.timeout(READY):
            await _new_context(request).table.position()
    except (TimeoutError, Unavailable) as error:
        logger.error("not ready: %s", error or f"the database has not answered for {READY} seconds")
        down = {"database": "down", **redis}
        raise Problem(503, ErrorCode.UNAVAILABLE, "the database does not answer", beside=down) from error
    return JSONResponse({"status": "ok", "database": "ok", **redis})


def _drain(request: Request) -> Drain:
    drain: Drain = request.app.state.drain
    return drain


def _new_context(request: Request) -> Context:
    context: Context = request.app.state.new_context(request)
    return context


async def _context(request: Request, units: int = 1) -> Context:
    """Who asks, once the request has been counted."""
    context = _new_context(request)
    await context.enter(request.headers.get("authorization"))
    await context.count(units)
    return context


async def _match(request: Request) -> tuple[Context, Head]:
    context = await _context(request, LOG_UNITS)
    return context, await context.table.head(request.path_params["id"], context.viewer)


async def _names(context: Context, head: Head) -> tuple[str, str]:
    ids = [head.match.player(color) or "" for color in (Color.WHITE, Color.BLACK)]
    names = await context.table.names(ids)
    return names.get(ids[0], ""), names.get(ids[1], "")


def _number(name: str, text: str) -> int:
    if _NUMBER.fullmatch(text):
        return int(text)
    raise Problem(
        400, ErrorCode.BAD_INPUT, "{name} is {got!r}; it is the number of an event, or 0", name=name, got=text[:40]
    )


class _Cut(StreamingResponse):
    """A body read from the store as it goes; where that fails it is cut off, so that it cannot pass for the whole."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except Unavailable as error:
            logger.error("cut off: %s", error)


async def _begun(content: AsyncIterator[str], **more: Any) -> Response:
    """A streamed response whose first part is there already. Raises Unavailable while it can still be answered."""
    first = await anext(content, "")

    async def parts() -> AsyncIterator[str]:
        yield first
        async for part in content:
            yield part

    return _Cut(parts(), **more)


async def _exported(
    request: Request, head: Head, media_type: str, content: str | AsyncIterator[str], tag: str, name: str | None = None
) -> Response:
    """A version of a match, which never changes: with its tag, or 304 for who has it already."""
    etag = f'W/"{head.hash[:32]}{tag}"'
    public = head.match.settings.visibility == "public"
    lasting = "max-age=31536000, immutable" if head.match.ended else "no-cache"
    headers = {
        "etag": etag,
        "cache-control": f"{'public' if public else 'private'}, {lasting}",
        "vary": "accept, authorization",
    }
    given = {each.strip() for each in request.headers.get("if-none-match", "").split(",")}
    if etag in given or "*" in given:
        return Response(status_code=304, headers=headers)
    if name:
        headers["content-disposition"] = f'attachment; filename="{name}"'
    if isinstance(content, str):
        return Response(content, headers=headers, media_type=media_type)
    return await _begun(content, headers=headers, media_type=media_type)
