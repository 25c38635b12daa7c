"""Traces, as a collector gets them: one from the mutation to its delivery by another process."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.client import Client, register
from tests.faults.processes import processes
from tests.postgres import PostgresServer
from tests.redis import RedisServer
from tests.server import Server, run_videau

ROOT = Path(__file__).parents[2]
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Span(NamedTuple):
    """What a collector knows of a span."""

    name: str
    trace: str
    id: str
    parent: str
    about: dict[str, Any]
    links: list[tuple[str, str]]
    service: str


class Collector:
    """An OTLP receiver over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces"
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    service = next(
                        a.value.string_value for a in resource.resource.attributes if a.key == "service.name"
                    )
                    for scope in resource.scope_spans:
                        spans.extend(_read(span, service) for span in scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *given: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    async def first(self, name: str, **about: Any) -> Span:
        """The first span of that name with these attributes, once it has come."""
        async with asyncio.timeout(20):
            while True:
                for span in list(self.spans):
                    if span.name == name and all(span.about.get(f"videau.{key}") == about[key] for key in about):
                        return span
                await asyncio.sleep(0.05)


def _read(span: Any, service: str) -> Span:
    about = {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}
    links = [(link.trace_id.hex(), link.span_id.hex()) for link in span.links]
    return Span(span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), about, links, service)


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.close()


@pytest.fixture
async def pair(
    postgres: PostgresServer, redis_server: RedisServer, collector: Collector, tmp_path: Path
) -> AsyncIterator[list[Server]]:
    """Two traced processes over one PostgreSQL and one Redis."""
    shared = {
        "VIDEAU_DATABASE_URL": postgres.create_database(),
        "VIDEAU_REDIS_URL": redis_server.url,
        "VIDEAU_LOG": "json",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    assert run_videau("migrate", env={**os.environ, **shared}).returncode == 0
    async with processes(tmp_path, shared) as servers:
        yield servers


async def test_a_trace_leads_from_the_caller_to_the_delivery_by_another_process(
    pair: list[Server], collector: Collector
) -> None:
    here, there = pair
    ann, bob, watcher = await register(here.url, "Ann"), await register(here.url, "Bob"), Client(there.url)
    match_id = await ann.create("{length: 3}")
    seen = asyncio.Event()

    async def watch() -> None:
        async with aclosing(watcher.watch(match_id)) as events:
            async for event in events:
                seen.set()
                if event["kind"] == "rolled":
                    return

    async with httpx2.AsyncClient(base_url=there.base, verify=False) as http, asyncio.timeout(20):
        while "videau_redis_connected 1.0" not in (await http.get("/metrics")).text:
            await asyncio.sleep(0.05)
    watching = asyncio.create_task(watch())
    async with asyncio.timeout(20):
        await seen.wait()
    query = "mutation($m: ID!) { joinMatch(matchId: $m) { ... on Happened { match { version } } } }"
    headers = {"authorization": f"Bearer {bob.token}", "traceparent": f"00-{TRACE}-{CALLER}-01"}
    async with httpx2.AsyncClient(verify=False) as http:
        answer = await http.post(here.url, json={"query": query, "variables": {"m": match_id}}, headers=headers)
    version = answer.json()["data"]["joinMatch"]["match"]["version"]
    async with asyncio.timeout(20):
        await watching

    mutation = await collector.first("mutation joinMatch", match=match_id)
    assert (mutation.trace, mutation.parent) == (TRACE, CALLER)
    assert mutation.about["videau.result"] == "happened"
    assert mutation.service == "videau"
    append = await collector.first("append", match=match_id, seq=version)
    assert (append.trace, append.parent) == (TRACE, mutation.id)
    [(commit_trace, commit_id)] = append.links
    commit = next(span for span in collector.spans if span.id == commit_id)
    assert (commit.name, commit.trace) == ("commit", commit_trace)
    assert (TRACE, append.id) in commit.links
    ring = await collector.first("ring", match=match_id, seq=version)
    assert (ring.trace, ring.parent) == (TRACE, mutation.id)
    news = await collector.first("news", match=match_id)
    assert (news.trace, news.parent) == (TRACE, ring.id)
    deliver = await collector.first("deliver", match=match_id, seq=version)
    assert (deliver.trace, deliver.parent) == (TRACE, news.id)
    assert deliver.about["videau.watchers"] == 1

    line = next(line for line in map(json.loads, here.complaints.splitlines()) if line.get("command") == "joinMatch")
    assert line["trace"] == TRACE
    assert bob.token
    assert not any(bob.token in str(span) for span in collector.spans)
    for client in (ann, bob, watcher):
        await client.close()


async def test_what_is_no_trace_is_none_and_what_is_left_is_sent_at_the_end(
    collector: Collector, tmp_path: Path
) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_SERVICE_NAME": "mine",
        "OTEL_BSP_SCHEDULE_DELAY": "60000",
    }
    server = Server(tmp_path, **env)
    server.start()
    ann = await register(server.url, "Ann")
    async with httpx2.AsyncClient(verify=False) as http:
        for parent in ("nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\xe9" * 500):
            headers = [(b"authorization", f"Bearer {ann.token}".encode()), (b"traceparent", parent.encode())]
            query = 'mutation { roll(matchId: "x") { ... on Refusal { code } } }'
            answer = await http.post(server.url, json={"query": query}, headers=headers)
            assert answer.json()["data"]["roll"]["code"] == "MATCH_NOT_FOUND"
    await ann.close()
    assert collector.spans == []
    assert server.stop() == ""
    rolled = [span for span in collector.spans if span.name == "mutation roll"]
    assert len({span.trace for span in rolled}) == len(rolled) == 3
    assert {span.parent for span in rolled} == {""}
    assert {span.about["videau.code"] for span in rolled} == {"MATCH_NOT_FOUND"}
    assert {span.service for span in rolled} == {"mine"}


async def test_a_collector_that_is_not_there_is_no_hindrance(tmp_path: Path) -> None:
    server = Server(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_BSP_SCHEDULE_DELAY="50")
    server.start()
    ann = await register(server.url, "Ann")
    await ann.create("{length: 3}")
    await ann.close()
    server.stop()  # which fails if it takes 15 seconds


def test_without_an_endpoint_nothing_is_sent_and_with_one_the_library_is_asked_for(tmp_path: Path) -> None:
    # redis-py imports OpenTelemetry's SDK by itself, where it is
    program = "import sys, service.app, service.cli; assert 'opentelemetry.exporter.otlp.proto' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, cwd=ROOT)
    program = "import sys; sys.modules['opentelemetry'] = None; from service.cli import main; main()"
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "VIDEAU_DATABASE_URL": f"sqlite:///{tmp_path}/v.db"}
    for command in ("serve", "doctor"):
        run = subprocess.run(
            [sys.executable, "-c", program, command],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=ROOT,
        )
        assert run.returncode == 1
        assert "pip install 'videau[traces]'" in (run.stderr if command == "serve" else run.stdout)
        assert "Traceback" not in run.stderr
