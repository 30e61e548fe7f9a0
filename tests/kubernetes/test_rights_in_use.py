"""The agent works with exactly the rights of its table, and uses each: an API server writes down what it asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.kube.audit import REFUSED, Asked, asked, audit_flags
from kit.kube.manifests import K8S, kubectl
from kit.kube.planes import open_plane
from kit.stack.kubernetes import NAMESPACE, open_kubernetes_harness
from kit.stack.living import TEAM, Harness, job
from kit.waiting import until_async
from muster.cli.kubernetes_commands import rbac_yaml
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, mapping, text
from muster.kube.permissions import AGENT, permissions_of
from muster.kube.rbac import OF_FABRICS, Scope
from muster.kube.resources import CONFIG_MAPS, JOBS, MUSTER_JOBS, PODS, RESOURCE_CLAIM_TEMPLATES
from muster.schemas.job import JobSpec, Phase
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.nodes import Devices, NodeShape
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane

ACCOUNT = "system:serviceaccount:muster:muster-agent"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:muster")
PATIENCE_S = 90.0
EVERYBODY = ("authorization.k8s.io", "selfsubjectaccessreviews", "create")
"""What each user may do."""

Right = tuple[str, str, str]
"""Group, resource, verb."""

NOT_HERE = {
    ("", "nodes", "list"): "where streaming lists are not served",
    ("", "pods", "list"): "where streaming lists are not served",
    ("batch", "jobs", "list"): "where streaming lists are not served",
    ("muster.dev", "musterjobs", "list"): "where streaming lists are not served",
    ("resource.k8s.io", "resourceslices", "list"): "where streaming lists are not served",
    ("resource.k8s.io", "resourceclaims", "list"): "where streaming lists are not served",
    ("resource.k8s.io", "resourceclaimtemplates", "list"): "where streaming lists are not served",
    ("", "namespaces", "list"): "where each team has a namespace",
    ("", "namespaces", "watch"): "where each team has a namespace",
    ("", "pods", "patch"): "where jobs are checked before their first step (test_preflight)",
    ("", "pods", "get"): "where a pod of that name is there already: an earlier leader's",
    ("resource.k8s.io", "resourceclaims/binding", "update"): "of Kubernetes 1.36",
    ("muster.dev", "nodes", "bind"): "asked about by the admission policies, not by the agent",
    **{(group, kind, verb): "the kind is not served here"
       for group, kind in (("jobset.x-k8s.io", "jobsets"), ("kubeflow.org", "mpijobs"))
       for verb in ("list", "watch", "patch")},
}  # fmt: skip
"""Rights of the table that this story has no use for, and when they are used."""

pytestmark = pytest.mark.timeout(400)


@dataclass
class Story:
    """A stack whose agent is the account of the manifests. admin: somebody who may do everything."""

    harness: Harness
    admin: KubeConnection
    audit: Path

    def of_agent(self) -> list[Asked]:
        return [one for one in asked(self.audit) if one.user == ACCOUNT and one.client.startswith("muster-agent/")]


@asynccontextmanager
async def story(directory: Path) -> AsyncIterator[Story]:
    """Two nodes whose kubelets pick GPUs, and one whose devices Muster chooses."""
    flags = audit_flags(directory / "audit", [ACCOUNT])
    options = PlaneOptions(controllers=CONTROLLERS, users=((ACCOUNT, GROUPS),), apiserver_flags=flags)
    async with open_plane(options) as plane:
        await installed(plane)
        kubeconfig = plane.kubeconfig(ACCOUNT)
        async with (
            await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as admin,
            open_kubernetes_harness(
                directory / "state", kubeconfig, devices="auto", own_nodes=True, namespaces=[TEAM], teams={TEAM: TEAM}
            ) as harness,
        ):
            yield Story(harness, admin, directory / "audit")


async def installed(plane: ControlPlane) -> None:
    """What `kubectl apply -k` would have brought, without the pods."""
    base = K8S / "base"
    for words in (
        [
            "-f",
            str(base / "namespaces.yaml"),
            "-f",
            str(base / "crds" / "musterjob.yaml"),
        ],
        ["-k", str(base / "dra")],
    ):
        kubectl(plane, "apply", "--server-side", *words)
    kubectl(plane, "create", "namespace", TEAM)
    kubectl(
        plane,
        "apply",
        "--server-side",
        "-f",
        "-",
        given=rbac_yaml(Scope(writes_in=(NAMESPACE, TEAM), without=OF_FABRICS)),
    )
    async with plane.client() as client:
        await make_fleet(client, 2, prefix="plain")
        await make_fleet(client, 1, shape=NodeShape(devices=Devices.DRA), prefix="dra")


def running(name: str, *, run_s: float | None = None, **fields: object) -> JobSpec:
    """A job whose pods KWOK ends after `run_s`; None: they run on."""
    labels = {} if run_s is None else {"sim.muster.dev/run-s": f"{run_s:g}"}
    return job(name, **fields).model_copy(update={"labels": labels})  # type: ignore[arg-type] - fields of a job


def pod_template(**metadata: object) -> JsonObject:
    """A pod that asks Muster for a place and ends soon."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "128Mi"}}}
    return {
        "metadata": {"annotations": {"muster.dev/run-s": "0.3"}, **metadata},
        "spec": {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container]},
    }


async def whole_fleet_then_somebody_more_urgent(story: Story) -> None:
    """A gang on all nodes, with devices of both sorts, is evicted for another."""
    low = await story.harness.muster.submit(running("low", gpus=8, replicas=3, priority=10, min_slice_s=0))
    await story.harness.job_that(low.id, lambda view: view.phase is Phase.RUNNING, PATIENCE_S)
    urgent = await story.harness.muster.submit(running("urgent", run_s=0.3, gpus=8, replicas=3, priority=90))
    await story.harness.ended([urgent.id], patience_s=PATIENCE_S)
    await story.harness.job_that(low.id, lambda view: view.phase is Phase.RUNNING, PATIENCE_S)
    await story.harness.muster.cancel(low.id)
    await story.harness.ended([low.id], patience_s=PATIENCE_S)


async def jobs_that_are_objects(story: Story) -> None:
    """A MusterJob, a pod and a Job of a queue; each shows its end."""
    labels = {"muster.dev/queue": TEAM}
    group = {"cpuMilli": 100, "memoryMib": 128}
    asking = {
        "metadata": {"name": "asks"},
        "spec": {"image": "busybox", "taskGroups": [group], "labels": {"sim.muster.dev/run-s": "0.3"}},
    }
    await story.admin.create(
        MUSTER_JOBS, {"apiVersion": "muster.dev/v1alpha1", "kind": "MusterJob", **asking}, namespace=TEAM
    )
    await story.admin.create(PODS, pod_template(name="alone", labels=labels), namespace=TEAM)
    batch = {"suspend": True, "template": pod_template()}
    body: JsonObject = {"metadata": {"name": "held", "labels": labels}, "spec": batch}
    await story.admin.create(JOBS, body, namespace=TEAM)

    async def are_done() -> bool:
        said = await asyncio.gather(
            story.admin.get(MUSTER_JOBS, "asks", namespace=TEAM), story.admin.get(JOBS, "held", namespace=TEAM)
        )
        pod = await story.admin.get(PODS, "alone", namespace=TEAM)
        phases = [text(said[0], "status", "phase"), text(said[1], "metadata", "annotations", "muster.dev/phase")]
        return [*phases, text(pod, "status", "phase")] == ["succeeded", "succeeded", "Succeeded"]

    await until_async(are_done, patience_s=PATIENCE_S)


async def a_pod_with_a_claim(story: Story) -> None:
    """The claim that the cluster makes of a template is protected by a patch, whoever is quicker. Claims of Muster's
    own need one only where their finalizer is not taken away by the claim controller first.
    """
    for node in ("plain-0000", "plain-0001"):  # whose GPUs are not had by claims
        await story.harness.muster.cordon(node, reason="a pod with a claim comes")

    async def are_closed() -> bool:
        closed = {fact.subject_id for fact in await story.harness.facts() if fact.name == "cordon-forwarded"}
        return {"plain-0000", "plain-0001"} <= closed

    await until_async(are_closed, patience_s=PATIENCE_S)
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.muster.dev", "count": 1}}
    template: JsonObject = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await story.admin.create(RESOURCE_CLAIM_TEMPLATES, template, namespace=TEAM)
    body = pod_template(name="claims", labels={"muster.dev/queue": TEAM})
    mapping(body, "spec")["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "one"}]
    await story.admin.create(PODS, body, namespace=TEAM)

    async def is_done() -> bool:
        pod = await story.admin.get(PODS, "claims", namespace=TEAM)
        return text(pod, "status", "phase") == "Succeeded"

    await until_async(is_done, patience_s=PATIENCE_S)


async def nodes_with_devices_are_ours(story: Story) -> None:
    """They carry a taint, and the admission policies know them."""

    async def are_listed() -> bool:
        list_of_them = await story.admin.get(CONFIG_MAPS, "muster-own-nodes", namespace="muster")
        return text(list_of_them, "data", "dra-0000") != ""

    await until_async(are_listed, patience_s=PATIENCE_S)


async def test_the_agent_is_refused_nothing_and_uses_every_right_that_it_has(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await whole_fleet_then_somebody_more_urgent(told)
        await jobs_that_are_objects(told)
        await a_pod_with_a_claim(told)
        await nodes_with_devices_are_ours(told)
        requests = told.of_agent()
    assert [one for one in requests if one.code == REFUSED] == []
    used = {(one.group, one.resource, one.verb) for one in requests if one.resource} - {EVERYBODY}
    table = {(row.group, row.resource, verb) for row in permissions_of(AGENT, without=OF_FABRICS) for verb in row.verbs}
    assert used <= table
    assert {right for right in table - used if right not in NOT_HERE} == set(), "nobody needs these: take them away"
    assert set(NOT_HERE) <= table, "these are no longer granted"
