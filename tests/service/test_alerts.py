"""The dashboard and the alerts: they ask for what /metrics tells, and Prometheus's own tool accepts them."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.redis import RedisServer
from tests.server import Server

COMPONENTS = Path(__file__).parents[2] / "k8s" / "components"
RULES = yaml.safe_load((COMPONENTS / "prometheus" / "alerts.yaml").read_text())["spec"]
DASHBOARD = json.loads((COMPONENTS / "dashboard" / "dashboard.json").read_text())
SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}


def alerts() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def asked() -> list[str]:
    """Every expression, as Prometheus gets it."""
    targets = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [rule["expr"] for rule in alerts()] + [expr.replace("$__rate_interval", "5m") for expr in targets]


@pytest.fixture(scope="module")
def text(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What /metrics of a process with Redis tells."""
    server = Server(tmp_path_factory.mktemp("server"), VIDEAU_REDIS_URL=redis_server.url)
    server.start()
    told = httpx2.get(f"{server.base}/metrics").text
    server.kill()
    return told


@pytest.fixture
def told(text: str) -> set[str]:
    """The names of all series that it has or may have."""
    families = list(text_string_to_metric_families(text))
    return {family.name + suffix for family in families for suffix in SUFFIXES[family.type]}


def test_all_that_is_asked_for_is_told(told: set[str]) -> None:
    used = {name for expr in asked() for name in re.findall(r"\b(?:videau|process)_\w+", expr)}
    assert used <= told, used - told
    shown = {name for name in told if name.startswith("videau_")}
    missing = {re.sub("_(bucket|sum|count)$", "", name) for name in shown} - {
        re.sub("_(bucket|sum|count)$", "", name) for name in used
    }
    assert missing <= {"videau_commits_total"}, "what is told is shown"


def test_the_dashboard_is_whole() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_every_alert_says_what_to_do() -> None:
    names = [alert["alert"] for alert in alerts()]
    assert len(set(names)) == len(names) > 10
    for alert in alerts():
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert alert["annotations"].keys() == {"summary", "description"}


@pytest.mark.promtool
def test_promtool_accepts_the_alerts_and_what_the_dashboard_asks(tmp_path: Path) -> None:
    records = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(asked())]
    for name, rules in (("alerts", RULES), ("panels", {"groups": [{"name": "panels", "rules": records}]})):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(rules))
        checked = promtool("check", "rules", "--lint=all", "--lint-fatal", str(tmp_path / f"{name}.yaml"))
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.promtool
def test_promtool_finds_nothing_wrong_with_the_metrics(text: str) -> None:
    checked = promtool("check", "metrics", given=text)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.promtool
def test_alerts_fire_and_do_not(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(RULES))
    healthy = {
        "videau_database_answering": "1x60",
        "videau_redis_connected": "1x60",
        "videau_rates_shared": "1x60",
        "videau_clocks_held": "1x60",
        'videau_commands_total{command="roll", result="happened"}': "0+600x60",
        'videau_command_seconds_bucket{command="roll", le="0.005"}': "0+600x60",
        'videau_command_seconds_bucket{command="roll", le="2.5"}': "0+600x60",
        'videau_command_seconds_bucket{command="roll", le="+Inf"}': "0+600x60",
    }
    broken = {
        "VideauDatabaseDown": {"videau_database_answering": "0x60"},
        "VideauCommandsFail": {'videau_commands_total{command="roll", result="failed"}': "0+60x60"},
        "VideauCommandsSlow": {'videau_command_seconds_bucket{command="roll", le="0.005"}': "0+300x60"},
        "VideauRedisDown": {"videau_redis_connected": "0x60"},
        "VideauRatesNotShared": {"videau_rates_shared": "0x60"},
        "VideauClocksUnattended": {"videau_clocks_held": "0x60"},
        "VideauUnforeseenErrors": {'videau_errors_total{code="INTERNAL"}': "0+1x60"},
        "VideauTokensRefused": {'videau_errors_total{code="TOKEN_EXPIRED"}': "0+600x60"},
    }
    for name in (None, *broken):
        series = healthy | (broken[name] if name else {})
        test = {
            "rule_files": ["alerts.yaml"],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [{"series": each, "values": values} for each, values in series.items()],
                    "promql_expr_test": [
                        {
                            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                            "eval_time": "40m",
                            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else [],
                        }
                    ],
                }
            ],
        }
        (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
        tested = promtool("test", "rules", str(tmp_path / "test.yaml"))
        assert tested.returncode == 0, (name, tested.stdout, tested.stderr)


def promtool(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    program = os.environ.get("PROMTOOL") or shutil.which("promtool")
    assert program, "no promtool: it is in Debian's package prometheus, or set PROMTOOL"
    return subprocess.run([program, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False)
