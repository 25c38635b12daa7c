"""What the process tells Prometheus."""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from infra.bus import RedisBus


class _Process(Collector):
    """Looks when it is asked: nothing is counted twice."""

    def __init__(self, app: Starlette) -> None:
        self._state = app.state

    def collect(self) -> Iterator[Metric]:
        store, bus, windows = self._state.store, self._state.bus, self._state.windows
        if isinstance(bus, RedisBus):
            yield GaugeMetricFamily("videau_redis_connected", "Whether Redis rings for other processes", bus.connected)
        yield GaugeMetricFamily("videau_database_answering", "Whether it did when it was last asked", store.answering)
        yield GaugeMetricFamily("videau_appends_waiting", "Appends that wait for their commit", store.waiting)
        yield CounterMetricFamily("videau_appends", "Appends that were committed", store.appended)
        yield CounterMetricFamily("videau_commits", "Commits that they shared", store.commits)
        clocks = self._state.table.clocks
        yield GaugeMetricFamily("videau_clocks_held", "Whether this process looks after the clocks", clocks.holds)
        yield CounterMetricFamily("videau_clocks_settled", "Clocks that had run out or stood still", clocks.fallen)
        rates = self._state.rates
        yield GaugeMetricFamily(
            "videau_rates_shared", "Whether Redis has the rate limits' buckets", rates.buckets.connected
        )
        refused = CounterMetricFamily("videau_rate_limited", "Requests refused by rate limits", labels=["limit"])
        for name, number in rates.refused.items():
            refused.add_metric([name], number)
        yield refused
        yield GaugeMetricFamily("videau_matches_watched", "Matches that somebody watches here", len(windows))


async def metrics(request: Request) -> Response:
    """The state of this process, as Prometheus reads it."""
    registry = CollectorRegistry()
    registry.register(_Process(request.app))
    return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})
