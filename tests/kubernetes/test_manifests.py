"""Every object of k8s/ is one that a real API server takes, and every pod one that it lets in."""

import re
from typing import cast

import pytest
import yaml

from kit.kube.manifests import JOBS, K8S, NAMESPACE, WORKLOADS, kubectl, of_kind, pod_of, rendered, title
from kit.kube.planes import AnyPlane
from muster.kube.objects import JsonObject, at, objects, text
from muster.stack.declared import SERVICES

OVERLAYS = ("development", "production")


@pytest.fixture(scope="module", params=OVERLAYS)
def manifests(
    request: pytest.FixtureRequest, plane: AnyPlane, tmp_path_factory: pytest.TempPathFactory
) -> tuple[JsonObject, ...]:
    return rendered(plane, tmp_path_factory.mktemp(request.param), request.param)


def test_the_api_server_takes_every_object(prepared: AnyPlane, manifests: tuple[JsonObject, ...]) -> None:
    said = kubectl(
        prepared, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
        given=yaml.safe_dump_all(manifests),
    )  # fmt: skip
    assert "Warning" not in said, "deprecated fields and pods that break the namespace's standard are warned of"
    assert len(re.findall(r"serverside-applied \(server dry run\)", said)) == len(manifests)


def test_the_api_server_takes_what_clusters_with_dra_add(prepared: AnyPlane) -> None:
    said = kubectl(prepared, "apply", "--server-side", "--dry-run=server", "-k", str(K8S / "base" / "dra"))
    assert "deviceclass.resource.k8s.io/gpu.muster.dev serverside-applied (server dry run)" in said


def test_every_pod_passes_the_restricted_standard(prepared: AnyPlane, manifests: tuple[JsonObject, ...]) -> None:
    pods = [pod_of(one) for one in of_kind(manifests, *WORKLOADS)]
    said = kubectl(prepared, "create", "--dry-run=server", "-f", "-", given=yaml.safe_dump_all(pods))
    assert len(re.findall(r"created \(server dry run\)", said)) == len(pods) >= len(SERVICES)


def test_a_pod_that_is_less_confined_is_turned_away(prepared: AnyPlane, manifests: tuple[JsonObject, ...]) -> None:
    pod = pod_of(of_kind(manifests, "Deployment")[0])
    cast("JsonObject", at(pod, "spec", "securityContext"))["runAsNonRoot"] = False
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        kubectl(prepared, "create", "--dry-run=server", "-f", "-", given=yaml.safe_dump(pod))


def test_secrets_and_config_maps_that_pods_name_are_there(manifests: tuple[JsonObject, ...]) -> None:
    there = {(text(one, "kind"), text(one, "metadata", "name")) for one in of_kind(manifests, "Secret", "ConfigMap")}
    named = set()
    for workload in of_kind(manifests, *WORKLOADS):
        for volume in objects(pod_of(workload), "spec", "volumes"):
            if "secret" in volume:
                named.add(("Secret", text(volume, "secret", "secretName")))
            elif "configMap" in volume:
                named.add(("ConfigMap", text(volume, "configMap", "name")))
    assert named == there, "all that is there is mounted somewhere"


def test_a_pod_mounts_the_secret_of_its_own_part_alone(manifests: tuple[JsonObject, ...]) -> None:
    for workload in of_kind(manifests, *WORKLOADS):
        name = text(workload, "metadata", "name")
        mounted = [
            text(one, "secret", "secretName") for one in objects(pod_of(workload), "spec", "volumes") if "secret" in one
        ]
        assert all(re.fullmatch(rf"muster-{name}-[a-z0-9]+", secret) for secret in mounted), title(workload)
        assert len(mounted) == (0 if name == "otel-collector" else 1), title(workload)


def test_only_agent_and_guard_get_a_token_of_the_api_server(manifests: tuple[JsonObject, ...]) -> None:
    with_token = {
        text(one, "metadata", "name")
        for one in of_kind(manifests, *WORKLOADS)
        if at(one, "spec", "template", "spec", "automountServiceAccountToken") is not False
    }
    assert with_token == {"agent", "guard"}


def test_every_container_says_what_it_takes_and_may_take(manifests: tuple[JsonObject, ...]) -> None:
    for workload in of_kind(manifests, *WORKLOADS):
        for container in objects(pod_of(workload), "spec", "containers"):
            assert set(cast("JsonObject", at(container, "resources", "requests"))) == {"cpu", "memory"}, title(workload)
            assert set(cast("JsonObject", at(container, "resources", "limits"))) == {"memory"}, title(workload)
            assert re.search(r":[^:/]+$", text(container, "image")), f"{title(workload)}: the image has no tag"


def test_what_runs_for_long_is_asked_whether_it_is_well(manifests: tuple[JsonObject, ...]) -> None:
    for workload in of_kind(manifests, "Deployment", "StatefulSet"):
        for container in objects(pod_of(workload), "spec", "containers"):
            assert {"readinessProbe", "livenessProbe"} <= set(container), title(workload)
            named = {text(port, "name") for port in objects(container, "ports")}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                port = text(container, probe, "httpGet", "port")
                assert not port or port in named, f"{title(workload)}: {probe} asks at {port}"


def test_services_and_budgets_select_pods_that_there_are(manifests: tuple[JsonObject, ...]) -> None:
    labels = [cast("JsonObject", at(pod_of(one), "metadata", "labels")) for one in of_kind(manifests, *WORKLOADS)]
    selectors = [(one, at(one, "spec", "selector")) for one in of_kind(manifests, "Service")]
    selectors += [
        (one, at(one, "spec", "selector", "matchLabels")) for one in of_kind(manifests, "PodDisruptionBudget")
    ]
    selectors += [(one, at(one, "spec", "podSelector", "matchLabels")) for one in of_kind(manifests, "NetworkPolicy")]
    for one, selector in selectors:
        wanted = cast("JsonObject", selector or {})
        assert any(wanted.items() <= found.items() for found in labels), title(one)


def test_whatever_has_two_of_itself_is_drained_one_at_a_time(manifests: tuple[JsonObject, ...]) -> None:
    several = {
        text(one, "metadata", "name")
        for one in of_kind(manifests, "Deployment", "StatefulSet")
        if cast("int", at(one, "spec", "replicas")) > 1
    }
    budgets = {
        text(one, "metadata", "name"): at(one, "spec", "maxUnavailable")
        for one in of_kind(manifests, "PodDisruptionBudget")
    }
    assert several <= set(budgets)
    assert set(budgets.values()) == {1}, "a budget of none would hold up every drain"


def test_nothing_lies_outside_musters_namespaces(manifests: tuple[JsonObject, ...]) -> None:
    elsewhere = [
        title(one)
        for one in manifests
        if text(one, "metadata", "namespace") not in ("", NAMESPACE, JOBS)
        and text(one, "kind") not in ("Role", "RoleBinding")
    ]
    assert elsewhere == []


def test_services_run_twice_in_production_and_once_in_development(manifests: tuple[JsonObject, ...]) -> None:
    nats = of_kind(manifests, "StatefulSet")[0]
    production = at(nats, "spec", "replicas") == 3
    for name in SERVICES:
        deployment = next(one for one in of_kind(manifests, "Deployment") if text(one, "metadata", "name") == name)
        assert at(deployment, "spec", "replicas") == (2 if production else 1), name


def test_the_page_on_sizing_says_what_production_asks_for(manifests: tuple[JsonObject, ...]) -> None:
    cores = mebibytes = 0.0
    for workload in of_kind(manifests, "Deployment", "StatefulSet"):
        replicas = cast("int", at(workload, "spec", "replicas"))
        for container in objects(pod_of(workload), "spec", "containers"):
            cpu, memory = (text(container, "resources", "requests", kind) for kind in ("cpu", "memory"))
            cores += replicas * (float(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu))
            mebibytes += replicas * int(memory[:-2]) * (1024 if memory.endswith("Gi") else 1)
    page = (K8S.parent / "docs" / "sizing.md").read_text(encoding="utf-8")
    if at(of_kind(manifests, "StatefulSet")[0], "spec", "replicas") == 3:
        assert f"requests of {cores:.1f} cores and {mebibytes / 1024:.1f} GiB" in page
    else:
        assert cores < 3, "development fits on a small machine"
