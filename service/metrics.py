"""What the process tells Prometheus. Nothing in it names a match, a player or an address."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import ClassVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.bus import RedisBus
from infra.histogram import Histogram
from service.commands import commands
from service.errors import told_codes


class _Process(Collector):
    """Looks when it is asked: nothing is counted twice."""

    def __init__(self, app: Starlette) -> None:
        self._state = app.state

    def collect(self) -> Iterator[Metric]:
        yield from self._of_requests()
        yield from self._of_the_store()
        yield from self._of_watching()
        yield from self._of_clocks()
        rates = self._state.rates
        yield GaugeMetricFamily(
            "videau_rates_shared", "Whether Redis had the rate limits' buckets when asked last", rates.buckets.connected
        )
        yield GaugeMetricFamily("videau_tasks", "Tasks of asyncio: about one a connection", len(asyncio.all_tasks()))
        yield _counter("videau_rate_limited", "Requests refused by rate limits", ["limit"], rates.refused)

    def _of_requests(self) -> Iterator[Metric]:
        yield _counter(
            "videau_commands", "Mutations, by what they have come to", ["command", "result"], commands.results
        )
        yield _counter("videau_refusals", "Commands that a rule refused, by which", ["code"], commands.refusals)
        yield _counter("videau_errors", "Errors that were told, by code; refusals are none", ["code"], told_codes)
        yield _histogram("videau_command_seconds", "From a command to its answer", commands.seconds, "command")
        yield _counter("videau_http_requests", "HTTP requests", ["route", "status"], Measured.responses)
        yield _histogram("videau_http_seconds", "Until an HTTP response begins", Measured.seconds, "route")

    def _of_the_store(self) -> Iterator[Metric]:
        store = self._state.store
        yield GaugeMetricFamily("videau_database_answering", "Whether it did when it was last asked", store.answering)
        yield _histogram(
            "videau_database_seconds", "Work in the database, waiting included", store.database.seconds, "work"
        )
        yield GaugeMetricFamily("videau_appends_waiting", "Appends that wait for their commit", store.waiting)
        yield CounterMetricFamily("videau_appends", "Appends that were committed", store.appended)
        yield CounterMetricFamily("videau_commits", "Commits that they shared", store.commits)
        yield _counter("videau_appends_unwritten", "Appends that were not written", ["reason"], store.unwritten)
        yield _histogram("videau_append_seconds", "From an append to its answer", {"": store.append_seconds})
        yield _histogram("videau_append_batch_size", "Appends that a commit was tried with", {"": store.batches})
        yield _histogram("videau_commit_seconds", "Commits", {"": store.commit_seconds})

    def _of_watching(self) -> Iterator[Metric]:
        bus, table, audiences = self._state.bus, self._state.table, self._state.audiences
        if isinstance(bus, RedisBus):
            yield GaugeMetricFamily("videau_redis_connected", "Whether Redis rings for other processes", bus.connected)
            yield CounterMetricFamily("videau_redis_losses", "How often Redis was lost", bus.losses)
            yield CounterMetricFamily("videau_rings_sent", "Rings to other processes", bus.sent)
            yield CounterMetricFamily("videau_rings_received", "Rings of other processes", bus.received)
            yield GaugeMetricFamily("videau_rings_waiting", "Rings that have not been sent", bus.waiting)
        yield GaugeMetricFamily("videau_matches_watched", "Matches that somebody watches here", len(table.windows))
        watchers = GaugeMetricFamily(
            "videau_watchers", "Who watches a match here, together or alone, a lobby, or notices", labels=["served"]
        )
        watchers.add_metric(["together"], audiences.watchers)
        watchers.add_metric(["alone"], table.watchers)
        watchers.add_metric(["lobby"], table.lobby.watchers)
        watchers.add_metric(["notices"], table.notices.watchers)
        yield watchers
        connections = GaugeMetricFamily("videau_connections", "Websockets and streams that are open", labels=["kind"])
        connections.add_metric(["websocket"], self._state.endpoint.websockets)
        connections.add_metric(["stream"], len(self._state.drain.streams))
        yield connections
        yield GaugeMetricFamily("videau_audiences", "Executions that watchers share", len(audiences))
        yield _histogram(
            "videau_fanout_seconds",
            "From the time in the log until an event was written to all of an audience",
            {"": audiences.delays},
        )
        yield _histogram(
            "videau_news_seconds",
            "From the time in the log until an event of another process was known here",
            {"": table.windows.news_seconds},
        )
        yield GaugeMetricFamily("videau_events_behind", "Events that the slowest audience lags", audiences.behind)
        yield CounterMetricFamily("videau_rings_missed", "News that no ring had told of", table.windows.missed)

    def _of_clocks(self) -> Iterator[Metric]:
        clocks = self._state.table.clocks
        yield GaugeMetricFamily("videau_clocks_held", "Whether this process looks after the clocks", clocks.holds)
        yield CounterMetricFamily("videau_clocks_settled", "Clocks that had run out or stood still", clocks.fallen)
        yield GaugeMetricFamily("videau_clocks_overdue_seconds", "How late the last look was", clocks.overdue)
        yield _histogram("videau_clock_look_seconds", "Looks at the clocks", {"": clocks.look_seconds})


def _counter(
    name: str, what: str, labels: list[str], counts: Mapping[str, int] | Mapping[tuple[str, str], int]
) -> Metric:
    family = CounterMetricFamily(name, what, labels=labels)
    for key, number in counts.items():
        family.add_metric([str(label) for label in ([key] if isinstance(key, str) else key)], number)
    return family


def _histogram(name: str, what: str, histograms: Mapping[str, Histogram], label: str = "") -> Metric:
    family = HistogramMetricFamily(name, what, labels=[label] if label else [])
    for key, histogram in histograms.items():
        family.add_metric([key] if label else [], histogram.buckets, histogram.sum)
    return family


async def metrics(request: Request) -> Response:
    """The state of this process, as Prometheus reads it."""
    registry = CollectorRegistry()
    registry.register(_Process(request.app))
    ProcessCollector(registry=registry)
    return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})


class Measured:
    """Counts HTTP requests by their route, and how long each took until its response began."""

    responses: ClassVar[Counter[tuple[str, str]]] = Counter()
    seconds: ClassVar[defaultdict[str, Histogram]] = defaultdict(Histogram)

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._paths: dict[object, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()

        async def measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = self._route(scope)
                self.seconds[route].observe(time.perf_counter() - began)
                self.responses[route, str(message["status"])] += 1
            await send(message)

        await self.app(scope, receive, measured)

    def _route(self, scope: Scope) -> str:
        """The route that has answered, as it was written; `none` if there is none."""
        if not self._paths:
            self._paths = {route.endpoint: route.path for route in scope["app"].routes if isinstance(route, Route)}
        return self._paths.get(scope.get("endpoint"), "none")
