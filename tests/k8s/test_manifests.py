"""What is in k8s/ builds, has the form that Kubernetes knows, and refers only to what is there."""

import copy
import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import kubernetes_validate
import pytest
import yaml
from policy_guard.analyzers import container_security, pod_security, rbac_analyzer, workload_analyzer
from policy_guard.parser import parse_manifests
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from infra.settings import Settings
from service import limits
from service.app import create_app
from service.routes import READY
from tests.server import Server

K8S = Path(__file__).parents[2] / "k8s"

VERSIONS = ("1.31", "1.34", "1.37")

OVERLAYS: dict[str, tuple[str, list[str]]] = {
    **{folder.name: (folder.name, []) for folder in sorted((K8S / "overlays").iterdir())},
    "with all but ingress": ("production", ["cnpg", "prometheus", "dashboard", "load"]),
    "with ingress": ("production", ["ingress"]),
    "migrate with cnpg": ("production-migrate", ["cnpg"]),
}
"""What is built: each overlay, and some with more components."""

KUBECTL = shutil.which("kubectl") or str(Path(sys.executable).with_name("kubectl"))

SCHEMAS = {path.stem: json.loads(path.read_text()) for path in Path(__file__).with_name("schemas").glob("*.json")}
"""Of kinds that are no part of Kubernetes. What they do not name is refused; they know no rule between fields (CEL)."""

ACCEPTED = {
    ("PG-CTR-001", "Job"),  # probes: it is done when it is done
    ("PG-CTR-002", "Job"),
    ("PG-IMG-002", "Deployment"),  # digests: whoever builds the image knows it, and sets it in the overlay
    ("PG-IMG-002", "StatefulSet"),
    ("PG-IMG-002", "Job"),
    ("PG-WRK-001", "Deployment"),  # one replica, and nothing to spread: a trial
    ("PG-WRK-004", "Deployment"),
    ("PG-WRK-005", "Deployment"),  # priorities: a cluster's own
    ("PG-WRK-005", "StatefulSet"),
    ("PG-WRK-007", "Deployment"),  # affinity: topology spread does it
}
"""What the policy linter may find, and why: rule and kind."""

WITHIN = {"/healthz", "/readyz", "/metrics"}
"""Paths for the cluster alone."""

GRACEFUL = 5 + 10
"""What is left of the grace period for requests under way, and for closing the database."""

Manifest = dict[str, Any]


@cache
def built(name: str) -> list[Manifest]:
    """All objects of an overlay."""
    overlay, components = OVERLAYS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        kustomization = {
            "namespace": "videau",
            "resources": [os.path.relpath(K8S / "overlays" / overlay, folder)],
            "components": [os.path.relpath(K8S / "components" / each, folder) for each in components],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        command = [KUBECTL, "kustomize", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return built(request.param)


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] in kinds]


def named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    [found] = [each for each in of_kind(manifests, kind) if each["metadata"]["name"] == name]
    return found


def pods(manifests: list[Manifest]) -> list[Manifest]:
    """The templates of all pods."""
    return [each["spec"]["template"] for each in of_kind(manifests, "Deployment", "StatefulSet", "Job")]


def containers(manifests: list[Manifest]) -> list[Manifest]:
    return [container for pod in pods(manifests) for container in pod["spec"]["containers"]]


def selected(manifests: list[Manifest], labels: dict[str, str]) -> list[Manifest]:
    """The pods that have these labels."""
    return [pod for pod in pods(manifests) if labels.items() <= pod["metadata"]["labels"].items()]


def port_names(pod: Manifest) -> set[str]:
    return {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", ())}


def settings_of(manifests: list[Manifest]) -> Settings:
    """What the processes of an overlay are told."""
    [config] = [each for each in of_kind(manifests, "ConfigMap") if "VIDEAU_HOST" in each["data"]]
    return Settings.from_env(config["data"])


def check(manifest: Manifest, version: str) -> None:
    """Raises an error if the object has not the form of its kind."""
    schema = SCHEMAS.get(manifest["kind"])
    if schema is None:
        kubernetes_validate.validate(manifest, version, strict=True)
    else:
        jsonschema.validate(manifest, schema)
        bare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": manifest["metadata"]}
        kubernetes_validate.validate(bare, version, strict=True)


def faults(manifests: list[Manifest], folder: Path) -> set[tuple[str, str]]:
    """What the policy linter finds: rule and kind."""
    (folder / "all.yaml").write_text(yaml.safe_dump_all(manifests))
    resources = parse_manifests(str(folder / "all.yaml"))
    assert len(resources) == len(manifests)
    analyzers = (pod_security, container_security, rbac_analyzer, workload_analyzer)
    return {(each.rule_id, each.resource_kind) for analyzer in analyzers for each in analyzer.analyze(resources)}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_has_the_form_of_its_kind(version: str) -> None:
    distinct = {json.dumps(manifest, sort_keys=True): manifest for name in OVERLAYS for manifest in built(name)}
    assert {manifest["kind"] for manifest in distinct.values()} >= set(SCHEMAS)
    for manifest in distinct.values():
        check(manifest, version)


@pytest.mark.parametrize(
    ("kind", "path", "wrong"),
    [
        ("HTTPRoute", "spec/rules/0/timeouts/requests", "30s"),
        ("HTTPRoute", "spec/rules/0/timeouts/request", "30 s"),
        ("HTTPRoute", "spec/rules/0/matches/0/path/type", "Prefix"),
        ("HTTPRoute", "spec/rules/0/backendRefs/0/name", None),
        ("HTTPRoute", "metadata/label", {}),
        ("ServiceMonitor", "spec/endpoints/0/intervall", "15s"),
        ("ServiceMonitor", "spec/endpoints/0/interval", "15"),
        ("ServiceMonitor", "spec/selector", None),
        ("PrometheusRule", "spec/groups/0/rules/0/annotation", {}),
        ("PrometheusRule", "spec/groups/0/rules/0/for", "2 minutes"),
        ("PrometheusRule", "spec/groups/0/rules/0/expr", None),
        ("Cluster", "spec/postgresql/synchronous/methods", "any"),
        ("Cluster", "spec/postgresql/synchronous/method", "some"),
        ("Cluster", "spec/instances", "three"),
        ("Cluster", "apiVersion", "postgresql.cnpg.io/v2"),
        ("Deployment", "spec/template/spec/containers/0/port", []),
    ],
)
def test_a_field_that_is_wrong_or_missing_is_refused(kind: str, path: str, wrong: object) -> None:
    manifest = copy.deepcopy(of_kind(built("with all but ingress"), kind)[0])
    *way, last = path.split("/")
    place: Any = manifest
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if wrong is None:
        del place[last]
    else:
        place[last] = wrong
    with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
        check(manifest, VERSIONS[-1])


def test_the_policy_linter_finds_nothing_but_what_is_accepted(manifests: list[Manifest], tmp_path: Path) -> None:
    assert faults(manifests, tmp_path) <= ACCEPTED


def test_the_policy_linter_finds_what_is_wrong(tmp_path: Path) -> None:
    manifests = copy.deepcopy(built("production"))
    pod = named(manifests, "Deployment", "videau")["spec"]["template"]["spec"]
    pod["hostNetwork"] = True
    del pod["containers"][0]["resources"]
    pod["containers"][0]["securityContext"] = {"privileged": True}
    assert len(faults(manifests, tmp_path) - ACCEPTED) >= 5


NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def test_names_labels_and_networks_are_what_an_api_server_takes(manifests: list[Manifest]) -> None:
    """It looks at them closer than the schemas do."""
    for manifest in manifests:
        metadata = manifest["metadata"]
        assert NAME.fullmatch(metadata["name"])
        assert len(metadata["name"]) <= 63
        for key, value in [*metadata.get("labels", {}).items(), *metadata.get("annotations", {}).items()]:
            prefix, _, name = key.rpartition("/")
            assert LABEL.fullmatch(name), key
            assert not prefix or NAME.fullmatch(prefix), key
            assert key in metadata.get("annotations", {}) or LABEL.fullmatch(value), value
    for pod in pods(manifests):
        for name in port_names(pod):
            assert re.fullmatch("(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", name), name
    for policy in of_kind(manifests, "NetworkPolicy"):
        for rule in [*policy["spec"].get("egress", ()), *policy["spec"].get("ingress", ())]:
            for peer in [*rule.get("to", ()), *rule.get("from", ())]:
                block = peer.get("ipBlock", {})
                for each in block.get("except", ()):
                    within: Any = ipaddress.ip_network(block["cidr"])
                    assert within.supernet_of(ipaddress.ip_network(each)), each


def test_every_component_is_tried() -> None:
    used = {each for _, components in OVERLAYS.values() for each in components}
    for overlay in (K8S / "overlays").iterdir():
        kustomization = yaml.safe_load((overlay / "kustomization.yaml").read_text())
        used |= {Path(each).name for each in kustomization.get("components", ())}
    assert used == {folder.name for folder in (K8S / "components").iterdir()}


def test_objects_are_there_once_and_in_one_namespace(manifests: list[Manifest]) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert len(names) == len(set(names))
    assert {each["metadata"].get("namespace") for each in manifests if each["kind"] != "Namespace"} == {"videau"}
    assert not of_kind(manifests, "Secret"), "secrets are no part of a repository"


def test_selectors_select_pods_and_ports_have_names(manifests: list[Manifest]) -> None:
    for owner in of_kind(manifests, "Deployment", "StatefulSet"):
        assert (
            owner["spec"]["selector"]["matchLabels"].items() <= owner["spec"]["template"]["metadata"]["labels"].items()
        )
        for spread in owner["spec"]["template"]["spec"].get("topologySpreadConstraints", ()):
            assert spread["maxSkew"] >= 1
            assert selected(manifests, spread["labelSelector"]["matchLabels"]) == [owner["spec"]["template"]]
    for service in of_kind(manifests, "Service"):
        [pod] = selected(manifests, service["spec"]["selector"])
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= port_names(pod)
    for budget in of_kind(manifests, "PodDisruptionBudget"):
        assert len(selected(manifests, budget["spec"]["selector"]["matchLabels"])) == 1
    for monitor in of_kind(manifests, "ServiceMonitor"):
        [service] = of_kind(manifests, "Service")
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {
            port["name"] for port in service["spec"]["ports"]
        }
        assert {each["path"] for each in monitor["spec"]["endpoints"]} == {"/metrics"}
    for scaler in of_kind(manifests, "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        assert "replicas" not in named(manifests, target["kind"], target["name"])["spec"]


def test_policies_deny_by_default_and_allow_what_is_needed(manifests: list[Manifest]) -> None:
    policies = of_kind(manifests, "NetworkPolicy")
    if not of_kind(manifests, "Deployment"):
        return
    assert named(policies, "NetworkPolicy", "deny-by-default")["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
    }
    for policy in policies:
        labels = policy["spec"]["podSelector"].get("matchLabels", {})
        targets = selected(manifests, labels)
        assert targets or "cnpg.io/cluster" in labels, labels
        for rule in policy["spec"].get("ingress", ()):
            for port in rule["ports"]:
                assert not targets or {port["port"]} <= set.union(*map(port_names, targets))
            for peer in rule["from"]:
                labels = peer.get("podSelector", {}).get("matchLabels", {})
                assert selected(manifests, labels) or "cnpg.io/cluster" in labels, labels
    for service in of_kind(manifests, "Service"):
        name = service["metadata"]["name"]
        [rule] = named(policies, "NetworkPolicy", name)["spec"]["ingress"]
        assert {port["port"] for port in rule["ports"]} == {port["targetPort"] for port in service["spec"]["ports"]}


def test_our_pods_reach_what_they_need_and_others_nothing(manifests: list[Manifest]) -> None:
    policies = of_kind(manifests, "NetworkPolicy")
    for pod in pods(manifests) if of_kind(manifests, "Deployment") else ():
        labels = pod["metadata"]["labels"]
        selecting = [
            policy["spec"]
            for policy in policies
            if policy["spec"]["podSelector"].get("matchLabels", {}).items() <= labels.items()
        ]
        reached = {port["port"] for spec in selecting for rule in spec.get("egress", ()) for port in rule["ports"]}
        given = {
            variable["name"] for variable in pod["spec"]["containers"][0].get("env", ()) if "valueFrom" in variable
        }
        wanted = {53, 443} if labels["app.kubernetes.io/name"] == "videau" else set()  # names, and the keys of apps
        assert reached == wanted | ({5432, 6379} if "VIDEAU_DATABASE_URL" in given else set())


def test_settings_are_settings_and_secrets_come_by_reference(manifests: list[Manifest]) -> None:
    known = {f"VIDEAU_{name.upper()}" for name in Settings.__struct_fields__}
    for config in of_kind(manifests, "ConfigMap"):
        if "dashboard.json" not in config["data"]:
            assert set(config["data"]) <= known
            assert config["metadata"]["name"] != "videau", "other settings have another name, and so other pods"
    secrets = re.compile("SECRET|KEY$|PASSWORD|_URL$")
    for container in containers(manifests):
        for source in container.get("envFrom", ()):
            named(manifests, "ConfigMap", source["configMapRef"]["name"])
        for variable in container.get("env", ()):
            name = variable["name"]
            assert not name.startswith("VIDEAU_") or name in known
            if secrets.search(name) and not variable.get("value", "").startswith("sqlite://"):
                reference = variable["valueFrom"]["secretKeyRef"]
                assert reference in ({"name": "videau", "key": name}, {"name": "videau-db-app", "key": "uri"})


@pytest.mark.parametrize("overlay", ["production", "rehearsal"])
def test_with_postgresql_every_secret_is_given(overlay: str) -> None:
    [container] = named(built(overlay), "Deployment", "videau")["spec"]["template"]["spec"]["containers"]
    given = {variable["name"] for variable in container["env"]}
    wanted = {"DATABASE_URL", "REDIS_URL", "SECRET", "DICE_SECRET", "SIGNING_KEY"}
    assert given == {f"VIDEAU_{name}" for name in wanted}


def test_the_operators_database_is_used_by_all() -> None:
    """Where there is one, its own Secret has the address."""
    for overlay, kind in (("with all but ingress", "Deployment"), ("migrate with cnpg", "Job")):
        [container] = containers(of_kind(built(overlay), kind))
        [url] = [each for each in container["env"] if each["name"] == "VIDEAU_DATABASE_URL"]
        cluster = of_kind(built(overlay), "Cluster")[0]["metadata"]["name"]
        assert url["valueFrom"]["secretKeyRef"] == {"name": f"{cluster}-app", "key": "uri"}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The paths of all routes."""
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path_factory.mktemp('app') / 'videau.db'}"))
    return {route.path for route in app.routes if isinstance(route, Route)}


def test_probes_ask_for_the_process_and_only_readiness_for_the_database(
    manifests: list[Manifest], paths: set[str]
) -> None:
    for deployment in of_kind(manifests, "Deployment"):
        if deployment["metadata"]["name"] != "videau":
            continue
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
        assert asked == {
            "startup": {"path": "/healthz", "port": "http"},
            "liveness": {"path": "/healthz", "port": "http"},
            "readiness": {"path": "/readyz", "port": "http"},
        }
        assert {each["path"] for each in asked.values()} <= paths
        assert container["readinessProbe"]["timeoutSeconds"] > READY
        [port] = container["ports"]
        settings = settings_of(manifests)
        assert port["containerPort"] == settings.port
        spec = deployment["spec"]["template"]["spec"]
        leaving = container["lifecycle"]["preStop"]["sleep"]["seconds"] + settings.drain_seconds + GRACEFUL
        assert leaving <= spec["terminationGracePeriodSeconds"]


def test_clients_reach_every_route_but_those_for_the_cluster(paths: set[str]) -> None:
    """By the gateway and by the ingress; what lasts has no limit of time."""
    [route] = of_kind(built("production"), "HTTPRoute")
    [ingress] = of_kind(built("with ingress"), "Ingress")
    by_route = {
        (match["path"]["value"], match["path"]["type"] == "Exact"): rule["timeouts"]["request"]
        for rule in route["spec"]["rules"]
        for match in rule["matches"]
    }
    by_ingress = {
        (path["path"], path["pathType"] == "Exact")
        for rule in ingress["spec"]["rules"]
        for path in rule["http"]["paths"]
    }
    assert set(by_route) == by_ingress
    reached: dict[str, str] = {}
    for (value, exact), limit in by_route.items():
        found = {path for path in paths if path == value or (not exact and path.startswith(value + "/"))}
        assert found, f"{value} leads nowhere"
        reached |= dict.fromkeys(found, limit)
    assert set(reached) == paths - WITHIN
    assert {path for path, limit in reached.items() if limit == "0s"} >= {"/graphql", "/events", "/matches/{id}/events"}
    backends = [rule["backendRefs"] for rule in route["spec"]["rules"]]
    [service] = of_kind(built("production"), "Service")
    [port] = service["spec"]["ports"]
    assert backends == [[{"name": service["metadata"]["name"], "port": port["port"]}]] * len(backends)
    for rule in ingress["spec"]["rules"]:
        for path in rule["http"]["paths"]:
            expected = {"name": service["metadata"]["name"], "port": {"name": port["name"]}}
            assert path["backend"]["service"] == expected


def test_who_comes_through_a_gateway_keeps_the_own_address(manifests: list[Manifest]) -> None:
    """Else all clients were one, with one client's rate limits and connections."""
    if of_kind(manifests, "Deployment"):
        proxies = [ipaddress.ip_network(each) for each in settings_of(manifests).trusted_proxies]
        assert bool(proxies) is bool(of_kind(manifests, "HTTPRoute", "Ingress"))
        for address in ("10.42.0.7", "172.20.1.2", "192.168.128.3", "100.64.8.9", "fd00:10:244::5"):
            assert not proxies or any(ipaddress.ip_address(address) in each for each in proxies)


def test_the_way_in_is_by_tls_and_takes_match_files() -> None:
    [route] = of_kind(built("production"), "HTTPRoute")
    assert {parent["sectionName"] for parent in route["spec"]["parentRefs"]} == {"https"}
    for rule in route["spec"]["rules"]:
        [header] = [each for kind in rule["filters"] for each in kind["responseHeaderModifier"]["set"]]
        assert header == {"name": "Strict-Transport-Security", "value": "max-age=31536000"}
    [ingress] = of_kind(built("with ingress"), "Ingress")
    assert [host for each in ingress["spec"]["tls"] for host in each["hosts"]] == [
        rule["host"] for rule in ingress["spec"]["rules"]
    ]
    told = ingress["metadata"]["annotations"]
    for name in ("nginx.org/client-max-body-size", "nginx.ingress.kubernetes.io/proxy-body-size"):
        assert int(told[name].removesuffix("m")) * 2**20 >= limits.FILE_BYTES


def test_alerts_and_dashboard_are_applied_as_they_are_checked() -> None:
    """tests/service/test_alerts.py looks at the files."""
    manifests = built("with all but ingress")
    rules = yaml.safe_load((K8S / "components/prometheus/alerts.yaml").read_text())
    assert named(manifests, "PrometheusRule", "videau")["spec"] == rules["spec"]
    dashboard = named(manifests, "ConfigMap", "videau-dashboard")
    assert dashboard["data"] == {"dashboard.json": (K8S / "components/dashboard/dashboard.json").read_text()}
    assert dashboard["metadata"]["labels"] == {"grafana_dashboard": "1"}, "what Grafana's sidecar looks for"


def test_pods_keep_to_the_restricted_standard(manifests: list[Manifest]) -> None:
    [namespace] = of_kind(manifests, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in pods(manifests):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        mounted = {mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", ())}
        claims: set[str] = {volume["name"] for volume in spec.get("volumes", ())}
        assert mounted - claims <= {"data"}
        assert claims <= mounted
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert set(container["resources"]) == {"requests", "limits"}
            assert "memory" in container["resources"]["limits"]
            assert not container["image"].endswith(":latest")
            assert ":" in container["image"]


def test_all_pods_of_ours_run_the_image_of_this_version(manifests: list[Manifest]) -> None:
    project = (K8S.parent / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"', project, re.MULTILINE)
    assert version
    images = {container["image"] for container in containers(manifests) if container["image"].startswith("videau")}
    assert images == {f"videau:{version[1]}"}


def test_what_scales_is_measured(server: Server) -> None:
    """Each metric of the autoscaler is made by a rule of the adapter, from a metric that there is."""
    text = httpx2.get(f"{server.base}/metrics", verify=False).text
    known = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    rules = yaml.safe_load((K8S / "components/load/adapter-rules.yaml").read_text())["rules"]
    made = set()
    for rule in rules:
        [series] = re.findall(r"^(\w+)\{", rule["seriesQuery"])
        assert series in known
        made.add(re.sub(rule["name"]["matches"], re.sub(r"\$\{?(\d)\}?", r"\\\1", rule["name"]["as"]), series))
    [scaler] = of_kind(built("with all but ingress"), "HorizontalPodAutoscaler")
    used = {each["pods"]["metric"]["name"] for each in scaler["spec"]["metrics"] if each["type"] == "Pods"}
    assert used == made
