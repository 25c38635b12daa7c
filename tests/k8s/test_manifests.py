"""What is in k8s/ builds, has the form that Kubernetes knows, and refers only to what is there."""

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
import kubernetes_validate
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from infra.settings import Settings
from service.app import create_app
from service.routes import READY
from tests.server import Server

K8S = Path(__file__).parents[2] / "k8s"

VERSIONS = ("1.31", "1.34", "1.37")

OVERLAYS: dict[str, tuple[str, list[str]]] = {
    **{folder.name: (folder.name, []) for folder in sorted((K8S / "overlays").iterdir())},
    "with cnpg, servicemonitor and load": ("production", ["cnpg", "servicemonitor", "load"]),
    "with ingress": ("production", ["ingress"]),
    "migrate with cnpg": ("production-migrate", ["cnpg"]),
}
"""What is built: each overlay, and some with more components."""

KUBECTL = shutil.which("kubectl") or str(Path(sys.executable).with_name("kubectl"))

OTHERS = {"HTTPRoute", "ServiceMonitor", "Cluster"}
"""Kinds that are no part of Kubernetes, so that it has no schemas for them."""

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


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_has_the_form_that_kubernetes_knows(manifests: list[Manifest], version: str) -> None:
    for manifest in manifests:
        if manifest["kind"] not in OTHERS:
            kubernetes_validate.validate(manifest, version, strict=True)


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


def test_settings_are_settings_and_secrets_come_by_reference(manifests: list[Manifest]) -> None:
    known = {f"VIDEAU_{name.upper()}" for name in Settings.__struct_fields__}
    for config in of_kind(manifests, "ConfigMap"):
        assert set(config["data"]) <= known
        Settings.from_env(config["data"])
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
    for overlay, kind in (("with cnpg, servicemonitor and load", "Deployment"), ("migrate with cnpg", "Job")):
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
        [config] = of_kind(manifests, "ConfigMap")
        settings = Settings.from_env(config["data"])
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
    [scaler] = of_kind(built("with cnpg, servicemonitor and load"), "HorizontalPodAutoscaler")
    used = {each["pods"]["metric"]["name"] for each in scaler["spec"]["metrics"] if each["type"] == "Pods"}
    assert used == made
