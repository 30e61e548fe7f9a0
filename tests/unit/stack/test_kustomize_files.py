"""k8s/ as text: what neither kubectl nor an API server is needed for to see."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import yaml

from muster.bus.settings import Settings
from muster.bus.streams import plan
from muster.stack.declared import SERVICES
from muster.stack.in_kubernetes import HEADLESS, PID_FILE, STATEFUL_SET
from muster.stack.parts import METRICS_PORT
from muster.stack.ports import USUAL_PORTS

K8S = Path(__file__).parents[3] / "k8s"
OVERLAYS = ("development", "production")
Object = dict[str, object]


def documents(path: str) -> list[Object]:
    return cast("list[Object]", list(yaml.safe_load_all((K8S / path).read_text(encoding="utf-8"))))


def at(of: object, *path: str | int) -> object:
    for key in path:
        of = cast("Mapping[object, object]", of)[key]
    return of


def find(path: str, kind: str, name: str = "") -> Object:
    return next(one for one in documents(path) if one["kind"] == kind and name in ("", at(one, "metadata", "name")))


def settings(overlay: str) -> Settings:
    told = yaml.safe_load((K8S / "overlays" / overlay / "settings.yaml").read_text())
    return Settings.model_validate({**told, "state_dir": "/x", "credentials_dir": "/x"})


def test_every_service_has_a_deployment_of_its_own() -> None:
    listed = set(cast("list[str]", documents("base/kustomization.yaml")[0]["resources"]))
    assert {path for path in listed if path.startswith("services/")} == {f"services/{name}.yaml" for name in SERVICES}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_from_the_one_image_with_its_own_secret(name: str) -> None:
    deployment = find(f"base/services/{name}.yaml", "Deployment", name)
    pod = at(deployment, "spec", "template", "spec")
    assert at(pod, "containers", 0, "args") == ["serve", name]
    assert at(pod, "volumes") == [{"name": "part", "secret": {"secretName": f"muster-{name}", "defaultMode": 0o440}}]
    assert at(deployment, "metadata", "labels", "muster.dev/runs") == "service"
    assert at(deployment, "spec", "template", "metadata", "labels", "muster.dev/uses-bus") == "true"


def test_only_agent_and_guard_have_an_account_at_the_api_server() -> None:
    accounts = {
        name: cast("Object", at(find(f"base/services/{name}.yaml", "Deployment"), "spec", "template", "spec")).get(
            "serviceAccountName"
        )
        for name in SERVICES
    }
    assert {name: found for name, found in accounts.items() if found} == {
        "agent": "muster-agent",
        "guard": "muster-guard",
    }
    assert {at(one, "metadata", "name") for one in documents("base/accounts.yaml")} == {"muster-agent", "muster-guard"}


def test_every_file_of_the_base_is_used() -> None:
    told = documents("base/kustomization.yaml")[0]
    named = set(cast("list[str]", told["resources"]))
    named |= {str(one["path"]) for one in cast("list[dict[str, str]]", told["patches"])}
    named |= {
        file.partition("=")[2]
        for one in cast("list[Mapping[str, list[str]]]", told["configMapGenerator"])
        for file in one["files"]
    }
    there = {
        str(path.relative_to(K8S / "base"))
        for path in (K8S / "base").rglob("*.yaml")
        if path.name != "kustomization.yaml"
        and not (path.parent != K8S / "base" and (path.parent / "kustomization.yaml").exists())
    }
    assert there == {path for path in named if path.endswith(".yaml")}


def test_ports_are_those_that_the_parts_listen_on() -> None:
    assert at(documents("base/patches/service.yaml")[0], "spec", "template", "spec", "containers", 0, "ports") == [
        {"name": "metrics", "containerPort": METRICS_PORT}
    ]
    ports = {
        str(port["name"]): port["port"]
        for path in ("base/nats.yaml", "base/redis.yaml", "base/services/gateway.yaml")
        for one in documents(path)
        if one["kind"] == "Service"
        for port in cast("list[dict[str, object]]", at(one, "spec", "ports"))
    }
    assert ports["client"] == USUAL_PORTS["nats"]
    assert ports["websocket"] == USUAL_PORTS["websocket"]
    assert ports["redis"] == USUAL_PORTS["redis"]
    assert ports["http"] == USUAL_PORTS["http"]


def test_servers_of_the_broker_have_the_names_that_they_look_for() -> None:
    servers = find("base/nats.yaml", "StatefulSet", STATEFUL_SET)
    assert at(servers, "spec", "serviceName") == HEADLESS
    assert find("base/nats.yaml", "Service", HEADLESS)
    container = at(servers, "spec", "template", "spec", "containers", 0)
    assert at(container, "env", 0, "name") == "SERVER_NAME"
    assert at(container, "lifecycle", "preStop", "exec", "command") == ["nats-server", "--signal", f"ldm={PID_FILE}"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_there_are_as_many_servers_as_copies_of_each_stream(overlay: str) -> None:
    servers = documents(f"overlays/{overlay}/nats.yaml")[0]
    assert at(servers, "spec", "replicas") == settings(overlay).bus.replicas


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_disk_holds_what_the_streams_may_grow_to(overlay: str) -> None:
    """The broker gives JetStream three quarters of the free disk, and refuses streams that could outgrow it."""
    servers = cast("Object", documents(f"overlays/{overlay}/nats.yaml")[0]["spec"])
    claims = servers.get("volumeClaimTemplates") or at(
        find("base/nats.yaml", "StatefulSet"), "spec", "volumeClaimTemplates"
    )
    size = re.fullmatch(r"(\d+)Gi", str(at(claims, 0, "spec", "resources", "requests", "storage")))
    assert size is not None
    streams = sum(cast("int", stream.config["max_bytes"]) for stream in plan(settings(overlay)))
    assert streams < 0.75 * int(size[1]) * 1024**3 * 0.97, "3 % are the file system's own"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_are_those_of_a_real_cluster(overlay: str) -> None:
    assert settings(overlay).kubernetes is not None


def test_images_are_pinned() -> None:
    for path in ("base/nats.yaml", "base/redis.yaml", "base/otel-collector.yaml"):
        for image in re.findall(r"image: (\S+)", (K8S / path).read_text()):
            assert re.search(r":\d+\.\d+\.\d+(-[a-z]+)?@sha256:[0-9a-f]{64}$", image), image


def test_the_same_images_run_in_compose() -> None:
    compose = (K8S.parent / "compose" / "compose.yaml").read_text()
    for path in ("base/nats.yaml", "base/redis.yaml", "base/otel-collector.yaml"):
        for image in re.findall(r"image: (\S+)", (K8S / path).read_text()):
            assert f"image: {image}\n" in compose


def test_credentials_never_get_into_git() -> None:
    assert "secrets/" in (K8S / ".gitignore").read_text().split()
