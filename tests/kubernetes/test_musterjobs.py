"""MusterJob on a real API server: its schema takes what can be a job, refuses the rest in words, and shows status."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kit.kube.planes import AnyPlane
from muster.kube.objects import JsonObject, at, mapping
from muster.kube.resources import NAMESPACES

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples/kubernetes").glob("musterjob*.yaml"))
SPACE = "crd-blue"
GOOD: JsonObject = {"taskGroups": [{"gpus": 1}]}


class Kubectl:
    """kubectl against the plane, in one namespace."""

    def __init__(self, plane: AnyPlane) -> None:
        self._argv = [str(plane.program("kubectl")), "--kubeconfig", str(plane.kubeconfig())]

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._argv, "-n", SPACE, *words], input=stdin, capture_output=True, text=True, timeout=60, check=False
        )

    def apply(self, spec: JsonObject, *, name: str = "train") -> subprocess.CompletedProcess[str]:
        return self("apply", "-f", "-", stdin=manifest(spec, name=name))

    def get(self, name: str = "train") -> JsonObject:
        found: JsonObject = json.loads(self("get", "mj", name, "-o", "json").stdout)
        return found


def manifest(spec: JsonObject, *, name: str) -> str:
    return json.dumps(
        {"apiVersion": "muster.dev/v1alpha1", "kind": "MusterJob", "metadata": {"name": name}, "spec": spec}
    )


@pytest.fixture(scope="module")
def kubectl(plane: AnyPlane) -> Iterator[Kubectl]:
    run = Kubectl(plane)
    run("create", "namespace", SPACE)
    made = run("apply", "--server-side", "-f", str(ROOT / "k8s/base/crds/musterjob.yaml"))
    assert made.returncode == 0, made.stderr
    waited = run("wait", "--for=condition=Established", "crd/musterjobs.muster.dev", "--timeout=30s")
    assert waited.returncode == 0, waited.stderr
    yield run
    run("delete", NAMESPACES.plural, SPACE, "--wait=false")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_taken(kubectl: Kubectl, path: Path) -> None:
    applied = kubectl("apply", "-f", str(path))
    assert applied.returncode == 0, applied.stderr
    name = yaml.safe_load(path.read_text(encoding="utf-8"))["metadata"]["name"]
    assert kubectl("delete", "mj", name).returncode == 0


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"taskGroups": []}, "should have at least 1 items"),
        ({}, "spec.taskGroups: Required value"),
        (
            {"taskGroups": [{"gpus": 1, "gpuMilli": 500}]},
            "set either `gpus` (whole GPUs) or `gpuMilli` (a share of one), not both",
        ),
        ({"taskGroups": [{"replicas": 2, "minReplicas": 3}]}, "minReplicas must be at most replicas"),
        ({"taskGroups": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
        ({"taskGroups": [{"gpus": -1}]}, "should be greater than or equal to 0"),
        ({"taskGroups": [{"gpus": 1}], "queue": "No Such"}, "should match"),
        ({"taskGroups": [{"gpus": 1}], "kind": "guess"}, "supported values"),
        ({"taskGroups": [{"gpus": 1}], "totalRunTimeS": 0}, "should be greater than 0"),
        ({"taskGroups": [{"gpus": 1}], "team": "red"}, 'unknown field "spec.team"'),
        ({"taskGroups": [{"gpus": 1}], "pod": {"volumes": [{"claim": "a", "path": "here"}]}}, "should match"),
    ],
)
def test_what_can_be_no_job_is_refused_in_words(kubectl: Kubectl, spec: JsonObject, told: str) -> None:
    refused = kubectl.apply(spec, name="bad")
    assert refused.returncode != 0
    assert told in refused.stderr


def test_a_name_that_can_be_no_jobs_is_refused(kubectl: Kubectl) -> None:
    refused = kubectl.apply(GOOD, name="with.dots")
    assert "it is the job's name" in refused.stderr


def test_the_server_fills_in_what_a_job_fills_in(kubectl: Kubectl) -> None:
    assert kubectl.apply(GOOD, name="defaults").returncode == 0
    spec = mapping(kubectl.get("defaults"), "spec")
    assert (spec["priority"], spec["kind"], spec["preemptible"]) == (50, "batch", True)
    assert spec["taskGroups"] == [
        {"name": "main", "replicas": 1, "gpus": 1, "gpuMilli": 0, "cpuMilli": 1000, "memoryMib": 1024, "image": ""}
    ]
    assert "totalRunTimeS" not in spec


def test_the_spec_does_not_change_unless_the_object_was_rejected(kubectl: Kubectl) -> None:
    assert kubectl.apply(GOOD).returncode == 0
    refused = kubectl.apply({"taskGroups": [{"gpus": 2}]})
    assert "the spec of a submitted job is immutable" in refused.stderr
    shown = kubectl("patch", "mj", "train", "--subresource=status", "--type=merge", "-p", status(phase="rejected"))
    assert shown.returncode == 0, shown.stderr
    assert kubectl.apply({"taskGroups": [{"gpus": 2}]}).returncode == 0


def test_people_see_the_status_and_cannot_write_it_with_the_object(kubectl: Kubectl) -> None:
    assert kubectl.apply(GOOD, name="seen").returncode == 0
    kubectl("patch", "mj", "seen", "--type=merge", "-p", status(phase="running"))
    assert at(kubectl.get("seen"), "status") is None
    shown = kubectl(
        "patch", "mj", "seen", "--subresource=status", "--type=merge",
        "-p", status(phase="queued", reason="no-capacity", queue="blue", gpus="1"),
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    head, row = kubectl("get", "mj", "seen").stdout.splitlines()
    assert head.split() == ["NAME", "PHASE", "REASON", "QUEUE", "GPUS", "AGE"]
    assert row.split()[:5] == ["seen", "queued", "no-capacity", "blue", "1"]


def status(**fields: str) -> str:
    return json.dumps({"status": fields})
