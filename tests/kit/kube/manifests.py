"""The manifests of k8s/ as `kubectl apply -k` sends them, with credentials that are made for the test alone."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import yaml

from kit.kube.planes import AnyPlane, kubectl_argv
from muster.kube.objects import JsonObject, at, objects, text

K8S = Path(__file__).parents[3] / "k8s"
NAMESPACE, JOBS = "muster", "muster-jobs"
COMMAND_S_MAX = 120
WORKLOADS = frozenset({"Deployment", "StatefulSet", "Job"})


def kubectl(plane: AnyPlane, *words: str, given: str = "") -> str:
    """What it printed. Raises AssertionError with what it said."""
    argv = kubectl_argv(plane, *words)
    done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(words)}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout + done.stderr


def copy_with_secrets(directory: Path, overlay: str, *, changed: tuple[str, str] = ("", "")) -> Path:
    """A copy of k8s/ with an overlay's credentials in it; the overlay's directory.

    changed: words of its settings, and what stands there instead.
    """
    copied = directory / "k8s"
    shutil.copytree(K8S, copied, ignore=shutil.ignore_patterns("secrets"))
    place = copied / "overlays" / overlay
    settings = place / "settings.yaml"
    old, new = changed
    assert old in settings.read_text(encoding="utf-8")
    settings.write_text(settings.read_text(encoding="utf-8").replace(old, new) if old else settings.read_text())
    argv = [sys.executable, "-m", "muster.cli.main", "init", "kubernetes", "--into", str(place / "secrets")]
    done = subprocess.run(
        [*argv, "--settings", str(place / "settings.yaml")],
        capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return place


def rendered(plane: AnyPlane, directory: Path, overlay: str) -> tuple[JsonObject, ...]:
    """Every object of an overlay."""
    said = kubectl(plane, "kustomize", str(copy_with_secrets(directory, overlay)))
    return tuple(cast("Iterator[JsonObject]", yaml.safe_load_all(said)))


def of_kind(manifests: tuple[JsonObject, ...], *kinds: str) -> list[JsonObject]:
    """Those of these kinds."""
    return [one for one in manifests if text(one, "kind") in kinds]


def title(of: JsonObject) -> str:
    """As people call it: "Deployment muster/agent"."""
    namespace = text(of, "metadata", "namespace")
    return f"{text(of, 'kind')} {namespace + '/' if namespace else ''}{text(of, 'metadata', 'name')}"


def pod_of(workload: JsonObject) -> JsonObject:
    """The pod that a workload would make."""
    template = cast("JsonObject", at(workload, "spec", "template"))
    spec = dict(cast("JsonObject", template["spec"]))
    claims = [
        {"name": text(claim, "metadata", "name"), "persistentVolumeClaim": {"claimName": "data"}}
        for claim in objects(workload, "spec", "volumeClaimTemplates")
    ]
    spec["volumes"] = [*cast("list[JsonObject]", spec.get("volumes", [])), *claims]
    name = f"{text(workload, 'metadata', 'name')}-0"
    metadata = {
        "name": name,
        "namespace": text(workload, "metadata", "namespace"),
        "labels": at(template, "metadata", "labels"),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
