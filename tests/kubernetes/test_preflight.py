"""Checks before the first step and work on nodes at a real API server, with kubelets that run init containers.

The agent is the account of the manifests: it has the rights of its table, and no others.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from kit.agent_shell import AgentShell
from kit.kube.manifests import kubectl
from kit.kube.objects import SPACE, asking_pod, batch_job, note
from kit.kube.planes import open_plane
from muster.agent.core.kubernetes.names import CHECK_POD_LABEL, CHECKS, GATE, GATE_ANNOTATION
from muster.agent.core.kubernetes.node_jobs import WORK_ANNOTATION
from muster.agent.core.kubernetes.pods import PodOrder, pod_manifest
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.cli.kubernetes_commands import rbac_yaml
from muster.core.settings import NodeActionSettings, NodeWorkSettings, PreflightSettings, ScalingSettings
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, at, mapping, name_of, objects, strings, text
from muster.kube.permissions import Feature
from muster.kube.rbac import OF_FABRICS, Scope
from muster.kube.resources import JOBS, NAMESPACES, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from muster.kube.shapes import Patch, Selection, Writing
from muster.kube.workload_labels import REASON
from muster.schemas.facts.job import JobPlaced, JobRouted, JobRunning, JobStopRequested, PodsExited, StopReason
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOrder,
    CheckOutcome,
    ChecksReported,
    ChecksRequested,
    NodeAction,
    NodeActionEnded,
    NodeActionRequested,
    PreflightPlan,
)
from muster.schemas.facts.workload import WorkloadSubmitRequested
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.nodes import Devices, NodeShape
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane
from unit.agent.pods.orders import POLICY, gang, spec

STAGES = Path(__file__).with_name("kwok-checks.yaml")
STATE = "nvidia.com/gpu-driver-upgrade-state"
PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"), CheckOrder(check="gpu-health")))
NODE_WORK = NodeWorkSettings(
    image="tools",
    actions={
        NodeAction.RESET: NodeActionSettings(command=("nvidia-smi", "--gpu-reset"), privileged=True),
        NodeAction.DRIVER: NodeActionSettings(
            by="label", set={STATE: "upgrade-required"}, done={STATE: "upgrade-done"}, failed={STATE: "upgrade-failed"}
        ),
    },
)
PATIENCE_S = 60.0
CLASS = "gpu.muster.dev"
FLEET = ("good-0000", "good-0001", "bad-0000", "dra-0000")
JOB = "P" * 26
ACCOUNT = "system:serviceaccount:muster:muster-agent"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Kubelets of its own, so a plane of its own."""
    with asyncio.Runner() as runner:
        users = ((ACCOUNT, ("system:serviceaccounts", "system:serviceaccounts:muster")),)
        opened = open_plane(PlaneOptions(controllers=CONTROLLERS, kwok_stages=(STAGES,), users=users))
        found = runner.run(opened.__aenter__())
        try:
            runner.run(furnish(found))
            yield found
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def furnish(plane: ControlPlane) -> None:
    async with plane.client() as client:
        await make_fleet(client, 2, prefix="good")
        await make_fleet(client, 1, prefix="bad")
        await make_fleet(client, 1, prefix="dra", shape=NodeShape(devices=Devices.DRA), device_class_name=CLASS)
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as kube:
        for name, standard in (("muster-jobs", "baseline"), ("muster-nodes", "privileged"), (SPACE, "baseline")):
            labels = {"pod-security.kubernetes.io/enforce": standard}
            await kube.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    scope = Scope(writes_in=("muster-jobs", SPACE), without=tuple(set(OF_FABRICS) - {Feature.NODE_WORK}))
    kubectl(plane, "create", "namespace", "muster")
    kubectl(plane, "apply", "--server-side", "-f", "-", given=rbac_yaml(scope))


@asynccontextmanager
async def agent(
    plane: ControlPlane, *, devices: Literal["device-plugin", "dra"] = "device-plugin"
) -> AsyncIterator[tuple[AgentShell, KubeConnection]]:
    async def connect() -> KubeConnection:
        return await KubeConnection.open(kubeconfig=plane.kubeconfig(ACCOUNT), user_agent="muster-agent/test")

    settings = KubernetesSettings(
        image="busybox",
        devices=devices,
        device_class=CLASS,
        own_nodes=False,
        kept_s=0,
        namespaces=(SPACE,),
        teams={SPACE: "blue"},
    )
    preflight = PreflightSettings(image="tools", nodes=NODE_WORK)
    async with (
        await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as kube,
        AgentShell(settings, ScalingSettings(), connect, patience_s=PATIENCE_S, preflight=preflight) as shell,
    ):
        await shell.until(lambda: len({fact.subject_id for fact in shell.facts("node", "joined")}) == len(FLEET))
        yield shell, kube


def place(shell: AgentShell, *nodes: str, job_id: str = JOB) -> None:
    group = TaskGroup(replicas=len(nodes), gpus=1)
    spec = JobSpec(name="train", team="blue", task_groups=(group,), labels={"sim.muster.dev/run-s": "0.5"})
    job = Job(id=job_id, spec=spec, principal="ann", idempotency_key=job_id, body_hash="")
    shell.write("federation", "job", job_id, "routed", JobRouted(job=job, cluster="atlas"))
    slots = tuple(Slot(group=0, replica=index, node=node, gpus=1) for index, node in enumerate(nodes))
    shell.write("scheduler", "job", job_id, "placed", JobPlaced(attempt=1, slots=slots, preflight=PLAN))


async def take_up(shell: AgentShell, name: str) -> Job:
    """The wish of an object is accepted, and its job is routed here."""

    def wishes() -> list[WorkloadSubmitRequested]:
        payloads = [fact.payload for fact in shell.facts("workload", "submit-requested")]
        asked = [one for one in payloads if isinstance(one, WorkloadSubmitRequested)]
        return [one for one in asked if one.origin.name == name]

    await shell.until(lambda: bool(wishes()))
    (request,) = wishes()
    job = Job(
        id=request.job_id, spec=request.spec, principal=request.principal, idempotency_key=request.job_id, body_hash="",
        trace=request.trace, origin=request.origin,
    )  # fmt: skip
    shell.write("federation", "job", job.id, "routed", JobRouted(job=job, cluster="atlas"))
    return job


def put(shell: AgentShell, job: Job, *nodes: str, attempt: int = 1) -> None:
    """On these nodes, with checks before."""
    slots = tuple(Slot(group=0, replica=index, node=node, gpus=1) for index, node in enumerate(nodes))
    shell.write("scheduler", "job", job.id, "placed", JobPlaced(attempt=attempt, slots=slots, preflight=PLAN))


def exits(shell: AgentShell, job: Job) -> list[tuple[int, str]]:
    """Attempts that are over, and how."""
    facts = [fact.payload for fact in shell.facts("job", "pods-exited") if fact.subject_id == job.id]
    return [(one.attempt, one.outcome.value) for one in facts if isinstance(one, PodsExited)]


def found(shell: AgentShell, kind: str, subject: str) -> list[tuple[str, str, CheckOutcome]]:
    payloads = [fact.payload for fact in shell.facts(kind, "checks-reported") if fact.subject_id == subject]
    results: Iterable[ChecksReported] = (one for one in payloads if isinstance(one, ChecksReported))
    return [(one.node, one.check, one.outcome) for report in results for one in report.results]


async def pods(kube: KubeConnection, namespace: str = "muster-jobs") -> list[JsonObject]:
    return (await kube.list_page(PODS, select=Selection(namespace))).items


async def held(kube: KubeConnection, namespace: str) -> list[str]:
    """Devices of claims there."""
    claims = (await kube.list_page(RESOURCE_CLAIMS, select=Selection(namespace))).items
    results = (one for claim in claims for one in objects(claim, "status", "allocation", "devices", "results"))
    return sorted(text(one, "device") for one in results)


async def cordon(kube: KubeConnection, node: str, *, unschedulable: bool) -> None:
    await kube.patch(NODES, node, {"spec": {"unschedulable": unschedulable}}, kind=Patch.MERGE)


async def test_a_gang_is_checked_waits_at_its_gate_and_then_runs(plane: ControlPlane) -> None:
    async with agent(plane) as (shell, kube):
        place(shell, "good-0000", "good-0001")
        await shell.until(lambda: bool(shell.facts("job", "checks-reported")))
        assert [fact.name for fact in shell.log if fact.subject_id == JOB][2:] == ["pods-started", "checks-reported"]
        assert {outcome for _, _, outcome in found(shell, "job", JOB)} == {CheckOutcome.PASS}
        waiting = await pods(kube)
        assert [text(one, "status", "phase") for one in waiting] == ["Pending", "Pending"]
        assert all(GATE_ANNOTATION not in strings(one, "metadata", "annotations") for one in waiting)
        shell.write("scheduler", "job", JOB, "running", JobRunning(attempt=1, preflight="quick"))
        await shell.until(lambda: bool(shell.facts("job", "pods-exited")))
        (exited,) = shell.facts("job", "pods-exited")
        assert isinstance(exited.payload, PodsExited)
        assert (exited.payload.outcome.value, exited.payload.exit_code) == ("succeeded", 0)


async def test_a_bad_node_is_named_and_its_gang_never_begins(plane: ControlPlane) -> None:
    job_id = "Q" * 26
    async with agent(plane) as (shell, _):
        place(shell, "good-0000", "bad-0000", job_id=job_id)
        await shell.until(lambda: bool(found(shell, "job", job_id)))
        failed = {node for node, _, outcome in found(shell, "job", job_id) if outcome is CheckOutcome.FAIL}
        assert failed == {"bad-0000"}
        stop = JobStopRequested(attempt=1, reason=StopReason.NODE_LOST)
        shell.write("scheduler", "job", job_id, "stop-requested", stop)
        await shell.until(lambda: bool(shell.facts("job", "pods-exited")))
        (exited,) = shell.facts("job", "pods-exited")
        assert isinstance(exited.payload, PodsExited)
        assert (exited.payload.outcome.value, exited.payload.ran_s) == ("stopped", 0.0)


async def test_the_api_server_takes_the_patch_of_a_gate_only_for_the_pod_that_was_meant(plane: ControlPlane) -> None:
    async with agent(plane) as (shell, kube):
        place(shell, "good-0000", job_id="R" * 26)
        await shell.until(lambda: bool(shell.facts("job", "checks-reported")))
        (pod,) = await pods(kube)
        body: JsonObject = {"metadata": {"uid": "another", "annotations": {GATE_ANNOTATION: "open"}}}
        with pytest.raises(Exception, match=r"uid|[Pp]recondition|conflict"):
            await kube.patch(PODS, name_of(pod), body, kind=Patch.MERGE, namespace="muster-jobs")


async def test_a_job_of_kubernetes_is_let_go_when_its_nodes_were_checked(plane: ControlPlane) -> None:
    async with agent(plane) as (shell, kube):
        await kube.create(JOBS, batch_job("sweep"), namespace=SPACE)
        job = await take_up(shell, "sweep")
        put(shell, job, "good-0000", "good-0001")
        await shell.until(lambda: bool(found(shell, "job", job.id)))
        assert {outcome for _, _, outcome in found(shell, "job", job.id)} == {CheckOutcome.PASS}
        checking = [one for one in await pods(kube) if strings(one, "metadata", "labels").get(CHECK_POD_LABEL)]
        assert {text(one, "spec", "nodeName") for one in checking} == {"good-0000", "good-0001"}
        assert {text(one, "status", "phase") for one in checking} == {"Succeeded"}
        assert await pods(kube, SPACE) == [], "it is suspended"

        async def tells_why() -> bool:
            return "are checked before it begins" in note(await kube.get(JOBS, "sweep", namespace=SPACE), REASON)

        await shell.until_async(tells_why)
        shell.write("scheduler", "job", job.id, "running", JobRunning(attempt=1, preflight="quick"))
        await shell.until(lambda: exits(shell, job) == [(1, "succeeded")])
        assert {text(one, "spec", "nodeName") for one in await pods(kube, SPACE)} == {"good-0000", "good-0001"}
        assert not [one for one in await pods(kube) if strings(one, "metadata", "labels").get(CHECK_POD_LABEL)]


async def test_with_chosen_devices_those_that_were_checked_are_the_jobs(plane: ControlPlane) -> None:
    async with agent(plane, devices="dra") as (shell, kube):
        request = {"name": "gpus", "exactly": {"deviceClassName": CLASS, "count": 2}}
        template: JsonObject = {"metadata": {"name": "two"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        await kube.create(RESOURCE_CLAIM_TEMPLATES, template, namespace=SPACE)
        body = batch_job("chosen", pods=1, gpus=0)
        spec = mapping(body, "spec", "template", "spec")
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
        objects(spec, "containers")[0]["resources"] = {"claims": [{"name": "gpus"}]}
        await kube.create(JOBS, body, namespace=SPACE)
        job = await take_up(shell, "chosen")
        slot = Slot(group=0, replica=0, node="dra-0000", devices=(5, 2))
        shell.write("scheduler", "job", job.id, "placed", JobPlaced(attempt=1, slots=(slot,), preflight=PLAN))
        checked: set[str] = set()

        async def have_reported() -> bool:
            """The claim controller takes the claim of a pod that ended."""
            checked.update(await held(kube, "muster-jobs"))
            return bool(found(shell, "job", job.id))

        await shell.until_async(have_reported)
        assert (len(checked), await held(kube, SPACE)) == (2, [])
        shell.write("scheduler", "job", job.id, "running", JobRunning(attempt=1, preflight="quick"))

        async def holds() -> bool:
            return await held(kube, SPACE) == sorted(checked)

        await shell.until_async(holds)
        assert await held(kube, "muster-jobs") == []
        await shell.until(lambda: exits(shell, job) == [(1, "succeeded")])


async def test_pods_that_people_made_wait_unbound_until_they_are_on_nodes_that_pass(plane: ControlPlane) -> None:
    async with agent(plane) as (shell, kube):
        for name in ("ring-0", "ring-1"):
            await kube.create(PODS, asking_pod(name, gang="ring", size=2), namespace=SPACE)
        job = await take_up(shell, "ring")
        put(shell, job, "good-0000", "bad-0000")
        await shell.until(lambda: bool(found(shell, "job", job.id)))
        assert {(node, one) for node, _, one in found(shell, "job", job.id) if one is not CheckOutcome.PASS} == {
            ("bad-0000", CheckOutcome.FAIL)
        }
        stop = JobStopRequested(attempt=1, reason=StopReason.NODE_LOST)
        shell.write("scheduler", "job", job.id, "stop-requested", stop)
        await shell.until(lambda: exits(shell, job) == [(1, "stopped")])
        rings = [one for one in await pods(kube, SPACE) if name_of(one).startswith("ring")]
        assert [(text(one, "spec", "nodeName"), text(one, "status", "phase")) for one in rings] == [("", "Pending")] * 2
        put(shell, job, "good-0000", "good-0001", attempt=2)
        await shell.until(lambda: len(found(shell, "job", job.id)) > 4)
        shell.write("scheduler", "job", job.id, "running", JobRunning(attempt=2, preflight="quick"))
        await shell.until(lambda: exits(shell, job)[1:] == [(2, "succeeded")])
        rings = [one for one in await pods(kube, SPACE) if name_of(one).startswith("ring")]
        assert [text(one, "spec", "nodeName") for one in rings] == ["good-0000", "good-0001"]


@pytest.mark.parametrize("claimed", [False, True], ids=["counted", "claimed"])
async def test_pods_with_checks_pass_the_strictest_standard(plane: ControlPlane, claimed: bool) -> None:
    where = f"strict-{'claims' if claimed else 'counts'}"
    policy = replace(POLICY, namespace=where, run_as=1000, preflight_image="tools:1")
    whole = gang(spec(TaskGroup(replicas=2, gpus=2)))
    made = pod_manifest(PodOrder(whole, whole.slots[0], policy, claimed=claimed, checks=PLAN))
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as kube:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        await kube.create(NAMESPACES, {"metadata": {"name": where, "labels": labels}})
        kept = await kube.create(PODS, made, namespace=where, writing=Writing(dry_run=True, strict=True))
    assert [text(one, "name") for one in objects(kept, "spec", "initContainers")] == [CHECKS, GATE]


async def test_work_on_a_node_is_a_job_that_a_cordon_does_not_keep_away(plane: ControlPlane) -> None:
    async with agent(plane) as (shell, kube):
        await cordon(kube, "bad-0000", unschedulable=True)
        asked = NodeActionRequested(request_id="reset-1", action=NodeAction.RESET, device="GPU-7")
        shell.write("health", "node", "bad-0000", "action-requested", asked)
        checks = ChecksRequested(request_id="look-1", checks=PLAN.checks)
        shell.write("health", "node", "bad-0000", "checks-requested", checks)
        await shell.until(lambda: bool(shell.facts("node", "action-ended") and shell.facts("node", "checks-reported")))
        (ended,) = shell.facts("node", "action-ended")
        assert isinstance(ended.payload, NodeActionEnded)
        assert (ended.payload.outcome, ended.payload.version) == (ActionOutcome.DONE, "9.9")
        made = (await kube.list_page(JOBS, select=Selection("muster-nodes"))).items
        assert {at(one, "spec", "template", "spec", "nodeName") for one in made} == {"bad-0000"}
        assert {outcome for _, _, outcome in found(shell, "node", "bad-0000")} == {CheckOutcome.CANNOT_RUN}
        await cordon(kube, "bad-0000", unschedulable=False)


async def test_another_agent_finds_the_work_of_the_first_and_begins_nothing_twice(plane: ControlPlane) -> None:
    asked = NodeActionRequested(request_id="reset-2", action=NodeAction.RESET)
    for _ in range(2):
        async with agent(plane) as (shell, kube):
            shell.write("health", "node", "good-0000", "action-requested", asked)
            await shell.until(lambda of=shell: bool(of.facts("node", "action-ended")))  # type: ignore[misc]
            made = (await kube.list_page(JOBS, select=Selection("muster-nodes"))).items
            marks = [strings(one, "metadata", "annotations").get(WORK_ANNOTATION) for one in made]
            assert marks.count("reset-2") == 1


async def test_a_label_asks_an_operator_whose_answer_is_awaited(plane: ControlPlane) -> None:
    async with agent(plane) as (shell, kube):
        await kube.patch(NODES, "good-0001", {"metadata": {"labels": {STATE: "upgrade-done"}}}, kind=Patch.MERGE)
        asked = NodeActionRequested(request_id="driver-1", action=NodeAction.DRIVER, version="580.105")
        shell.write("upgrader", "node", "good-0001", "action-requested", asked)

        async def is_asked() -> bool:
            return strings(await kube.get(NODES, "good-0001"), "metadata", "labels").get(STATE) == "upgrade-required"

        await shell.until_async(is_asked)
        assert shell.facts("node", "action-ended") == []
        await kube.patch(NODES, "good-0001", {"metadata": {"labels": {STATE: "upgrade-done"}}}, kind=Patch.MERGE)
        await shell.until(lambda: bool(shell.facts("node", "action-ended")))

        async def is_taken_back() -> bool:
            return WORK_ANNOTATION not in strings(await kube.get(NODES, "good-0001"), "metadata", "annotations")

        await shell.until_async(is_taken_back)
