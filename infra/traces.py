"""Traces by OpenTelemetry, where an endpoint for them is set; else we import nothing of its library.

A command's trace goes on from the caller's (`traceparent`) to its append, to the ring, and, also in another process, to
the delivery of its events. The commit that appends share is a trace of its own, linked to theirs.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
"""The module of the library that sends them."""

LAST_SECONDS = 3.0

_tracer: "Tracer | None" = None
_provider: "TracerProvider | None" = None


def wanted(env: Mapping[str, str]) -> bool:
    """Whether an environment says where to send traces."""
    return any(env.get(name) for name in _ENDPOINTS)


def start(env: Mapping[str, str]) -> None:
    """Send traces from now on, if the environment says where to. Raises ImportError where the library is missing."""
    global _tracer, _provider
    if not wanted(env):
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = {} if env.get("OTEL_SERVICE_NAME") else {"service.name": "videau"}
    _provider = TracerProvider(resource=Resource.create(name), shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = _provider.get_tracer("videau")


def stop() -> None:
    """Send what is left, if that takes no longer than LAST_SECONDS, and nothing any more."""
    global _tracer, _provider
    if _provider is not None:
        sending = threading.Thread(target=_provider.shutdown, daemon=True)
        sending.start()
        sending.join(LAST_SECONDS)
    _tracer = _provider = None


def begin(name: str, *, links: "Iterable[Span | None]" = (), **about: Any) -> "Span | None":
    """A span below the current one, to be ended by whoever has begun it; None if nothing is traced."""
    if _tracer is None:
        return None
    from opentelemetry.trace import Link

    linked = [Link(span.get_span_context()) for span in links if span is not None]
    return _tracer.start_span(name, links=linked, attributes=_attributes(about))


def end(span: "Span | None", error: str | None = None, link: "Span | None" = None) -> None:
    """A span is over, perhaps because something failed; `link` is what it had to do with."""
    if span is not None:
        if link is not None:
            span.add_link(link.get_span_context())
        if error is not None:
            from opentelemetry.trace import StatusCode

            span.set_status(StatusCode.ERROR, error)
        span.end()


@contextmanager
def within(name: str, parent: str | None = None, **about: Any) -> "Iterator[Span | None]":
    """A span around a block, below the current one, or below what a `traceparent` says."""
    if _tracer is None:
        yield None
        return
    # what an exception says may quote what a client has sent: it is for the log
    with _tracer.start_as_current_span(
        name,
        _context(parent),
        attributes=_attributes(about),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


@contextmanager
def below(parent: str | None) -> Iterator[None]:
    """What is begun within the block belongs to the trace that a `traceparent` is of, if that is one."""
    if _tracer is None or parent is None:
        yield
        return
    from opentelemetry.context import attach, detach

    context = _context(parent)
    if context is None:
        yield
        return
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def note(span: "Span | None", *, failed: bool = False, **about: Any) -> None:
    """Say more of a span, and whether what it stands for has failed."""
    if span is not None:
        span.set_attributes(_attributes(about))
        if failed:
            from opentelemetry.trace import StatusCode

            span.set_status(StatusCode.ERROR)


def current() -> str | None:
    """The current span as a `traceparent` (W3C Trace Context), if it is recorded."""
    if _tracer is None:
        return None
    from opentelemetry.trace import get_current_span

    span = get_current_span().get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-01" if span.is_valid and span.trace_flags.sampled else None


def _context(parent: str | None) -> Any:
    """The context that a `traceparent` describes; None, for the current one, if it describes none."""
    if parent is None or len(parent) > 128:
        return None
    from opentelemetry.context import Context
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = TraceContextTextMapPropagator().extract({"traceparent": parent}, Context())
    return found if get_current_span(found).get_span_context().is_valid else None


def _attributes(about: dict[str, Any]) -> dict[str, Any]:
    return {f"videau.{name}": value for name, value in about.items() if value is not None}
