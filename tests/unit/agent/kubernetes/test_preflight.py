"""Checks before the first step of pods: what the pods are made of, what is read of them, and when they may begin."""

from dataclasses import replace

import pytest

from muster.agent.core.cluster import ChecksSeen, CreatePods, NodeClosedSeen, OpenGate, PodsExitedSeen, PodsStartedSeen
from muster.agent.core.kubernetes.calls import Done, Kind, Merge, Refused
from muster.agent.core.kubernetes.names import CHECKS, GATE, GATE_ANNOTATION
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.pods import PodOrder, pod_manifest
from muster.agent.core.kubernetes.preflight import STUCK_S
from muster.agent.core.kubernetes.projections import PodProjection
from muster.agent.core.kubernetes.verdicts import FOR_PODS_MAX
from muster.agent.core.kubernetes.views import PodView, PreflightView
from muster.checks.report import dump
from muster.kube.objects import JsonObject, at, mapping, objects, text
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, CheckResult, PreflightPlan
from muster.schemas.job import ClaimMount, PodOptions, TaskGroup
from unit.agent.kubernetes.rig import JOB, Rig, failed, key, order, slot
from unit.agent.kubernetes.rig import pod as seen_pod
from unit.agent.pods.orders import POLICY, gang, spec

PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"), CheckOrder(check="storage")))
CHECKED = replace(order(slot(0), slot(1)), preflight=PLAN)


def manifest(*groups: TaskGroup, image: str = "", claimed: bool = False) -> JsonObject:
    whole = gang(spec(*groups))
    policy = replace(POLICY, preflight_image=image)
    return pod_manifest(PodOrder(whole, whole.slots[0], policy, claimed=claimed, checks=PLAN))


def inits(made: JsonObject) -> dict[str, JsonObject]:
    return {text(one, "name"): one for one in objects(made, "spec", "initContainers")}


def variables(container: JsonObject) -> dict[str, str]:
    return {text(one, "name"): text(one, "value") for one in objects(container, "env")}


def checking(replica: int, report: str | None = None, *, code: int = 0, is_open: bool = False) -> PodView:
    """A pod in its checks, or after them."""
    preflight = PreflightView(started=True, report=report, exit_code=code, is_open=is_open)
    return seen_pod(key(replica), node=f"n{replica}", preflight=preflight)


def found(*outcomes: CheckOutcome) -> str:
    results = [
        CheckResult(node="?", check=one.check, outcome=outcome)
        for one, outcome in zip(PLAN.checks, outcomes, strict=True)
    ]
    return dump(results)


def begun(wanted: CreatePods = CHECKED) -> Rig:
    """Both pods are in their checks, and the log knows that they started."""
    rig = Rig().ready()
    rig.create(wanted)
    rig.see(checking(0), checking(1))
    (started,) = rig.observe()
    assert isinstance(started, PodsStartedSeen)
    rig.cluster.acknowledge(started, rig.now)
    return rig


def reports(rig: Rig) -> list[tuple[str, str, CheckOutcome]]:
    return [
        (result.node, result.check, result.outcome)
        for seen in rig.observe()
        if isinstance(seen, ChecksSeen)
        for result in seen.results
    ]


PASS, FAIL, CANNOT_RUN = CheckOutcome.PASS, CheckOutcome.FAIL, CheckOutcome.CANNOT_RUN


# --- what the pods are made of -----------------------------------------------------------------------------------


def test_a_pod_with_a_plan_checks_and_then_waits_at_its_gate() -> None:
    made = manifest(TaskGroup(gpus=2))
    assert list(inits(made)) == [CHECKS, GATE]
    plan = PreflightPlan.model_validate_json(variables(inits(made)[CHECKS])["MUSTER_PREFLIGHT_PLAN"])
    assert plan == PLAN
    assert variables(inits(made)[CHECKS])["MUSTER_PREFLIGHT_GPUS"] == "2"


def test_the_checks_get_the_devices_and_the_gate_gets_none() -> None:
    made = manifest(TaskGroup(gpus=2))
    assert at(inits(made)[CHECKS], "resources", "limits", "nvidia.com/gpu") == "2"
    assert "nvidia.com/gpu" not in mapping(inits(made)[GATE], "resources", "limits")
    claimed = manifest(TaskGroup(gpus=2), claimed=True)
    assert objects(inits(claimed)[CHECKS], "resources", "claims") == [{"name": "gpus"}]
    assert objects(inits(claimed)[GATE], "resources", "claims") == []


def test_a_pod_without_gpus_runs_only_the_checks_that_need_none() -> None:
    plan = variables(inits(manifest(TaskGroup()))[CHECKS])["MUSTER_PREFLIGHT_PLAN"]
    assert [one.check for one in PreflightPlan.model_validate_json(plan).checks] == ["storage"]


def test_the_gate_reads_the_verdict_from_an_annotation_of_its_own_pod() -> None:
    made = manifest(TaskGroup(gpus=1))
    (volume,) = (one for one in objects(made, "spec", "volumes") if text(one, "name") == "muster-gate")
    (item,) = objects(volume, "downwardAPI", "items")
    assert at(item, "fieldRef", "fieldPath") == f"metadata.annotations['{GATE_ANNOTATION}']"
    (mount,) = objects(inits(made)[GATE], "volumeMounts")
    assert inits(made)[GATE]["command"] == ["muster", "preflight", "gate", "--file", f"{text(mount, 'mountPath')}/gate"]


def test_the_image_of_the_checks_is_the_settings() -> None:
    assert {text(one, "image") for one in inits(manifest(TaskGroup(gpus=1), image="tools:7")).values()} == {"tools:7"}


def test_without_an_image_of_the_settings_the_jobs_own_checks_nothing() -> None:
    asked = replace(order(slot(0)), preflight=PLAN)
    assert not inits(PodOrders(replace(POLICY, preflight_image="")).pod(asked, asked.slots[0], asked.slots))


@pytest.mark.parametrize(
    ("path", "is_seen"), [("/usr/bin", False), ("/", False), ("/data", True), ("/data/deep", False), ("/dat", False)]
)
def test_a_jobs_volume_is_only_where_a_check_writes(path: str, is_seen: bool) -> None:
    """Anywhere else it could stand where the tools of the checks are, and say what they say."""
    asked = spec(TaskGroup(gpus=1), pod=PodOptions(volumes=(ClaimMount(claim="own", path=path),)))
    whole = gang(asked)
    policy = replace(POLICY, preflight_image="tools:7", names_objects=True)
    writes = CheckOrder(check="storage", parameters={"path": "/data/in"})
    plan = PLAN.model_copy(update={"checks": (PLAN.checks[0], writes)})
    made = pod_manifest(PodOrder(whole, whole.slots[0], policy, checks=plan))
    mounts = {text(one, "mountPath") for one in objects(inits(made)[CHECKS], "volumeMounts")}
    assert (path in mounts) == is_seen
    (main,) = objects(made, "spec", "containers")
    assert path in {text(one, "mountPath") for one in objects(main, "volumeMounts")}


def test_what_a_pod_without_checks_does_before_the_verdict_is_the_jobs_own_failure() -> None:
    rig = Rig().ready()
    rig.create(CHECKED)
    rig.see(*(seen_pod(key(replica), node=f"n{replica}", phase="Running") for replica in (0, 1)))
    (started,) = rig.observe()
    rig.cluster.acknowledge(started, rig.now)
    rig.see(seen_pod(key(0), node="n0", end=failed(code=1)))
    (found,) = rig.observe()
    assert isinstance(found, ChecksSeen), "its failure is told once it may have begun"
    assert {one.outcome for one in found.results} == {CANNOT_RUN}


def test_a_pod_without_a_plan_is_as_ever() -> None:
    whole = gang(spec())
    made = pod_manifest(PodOrder(whole, whole.slots[0], POLICY))
    assert "initContainers" not in mapping(made, "spec")


# --- what is read of them ----------------------------------------------------------------------------------------


def raw(**state: object) -> JsonObject:
    labels = {
        "muster.dev/cluster": "atlas", "muster.dev/job": JOB.lower(), "muster.dev/attempt": "1",
        "muster.dev/group-index": "0", "muster.dev/replica": "0",
    }  # fmt: skip
    statuses = [{"name": CHECKS, "state": state}]
    status = {"phase": "Pending", "initContainerStatuses": statuses}
    return {"metadata": {"name": "p", "labels": labels, "annotations": {GATE_ANNOTATION: "open"}}, "status": status}


@pytest.mark.parametrize(
    ("state", "view"),
    [
        ({"waiting": {"reason": "PodInitializing"}}, PreflightView(is_open=True)),
        ({"running": {}}, PreflightView(started=True, is_open=True)),
        ({"terminated": {"exitCode": 0, "message": "{}"}}, PreflightView(True, "{}", 0, is_open=True)),
        ({"terminated": {"exitCode": 137}}, PreflightView(True, "", 137, is_open=True)),
    ],
)
def test_what_is_seen_of_the_checks(state: dict[str, object], view: PreflightView) -> None:
    assert PodProjection()(raw(**state)).preflight == view


def test_time_in_checks_is_no_time_of_the_run() -> None:
    status = {
        "phase": "Succeeded",
        "initContainerStatuses": [{"name": CHECKS, "state": {"terminated": {"startedAt": "2026-01-01T00:00:00Z"}}}],
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {
                "exitCode": 0, "startedAt": "2026-01-01T01:00:00Z", "finishedAt": "2026-01-01T01:00:30Z"}}}
        ],
    }  # fmt: skip
    end = PodProjection()({"metadata": {"name": "p"}, "status": status}).end
    assert end is not None
    assert end.ran_s == 30.0


# --- what is told of them ----------------------------------------------------------------------------------------


def test_nothing_is_told_before_every_pod_has_reported() -> None:
    rig = begun()
    rig.see(checking(0, found(PASS, PASS)))
    assert rig.observe() == ()
    rig.see(checking(1, found(PASS, CANNOT_RUN)))
    (seen,) = rig.observe()
    assert isinstance(seen, ChecksSeen)
    assert seen.is_last
    assert reports(rig) == [
        ("n0", "device-count", PASS), ("n0", "storage", PASS),
        ("n1", "device-count", PASS), ("n1", "storage", CANNOT_RUN),
    ]  # fmt: skip


def test_a_failure_is_told_at_once_and_the_rest_when_it_is_known() -> None:
    rig = begun()
    rig.see(checking(0, found(FAIL, PASS)))
    (first,) = rig.observe()
    assert isinstance(first, ChecksSeen)
    assert ([one.outcome for one in first.results], first.is_last) == ([FAIL], False)
    rig.cluster.acknowledge(first, rig.now)
    assert rig.observe() == ()
    rig.see(checking(1, found(PASS, PASS)))
    assert reports(rig) == [("n0", "storage", PASS), ("n1", "device-count", PASS), ("n1", "storage", PASS)]


def test_pods_of_one_node_speak_with_one_voice() -> None:
    together = replace(order(slot(0, node="n0"), slot(1, node="n0")), preflight=PLAN)
    rig = Rig().ready()
    rig.create(together)
    views = [replace(checking(n, found(PASS if n else FAIL, PASS)), node="n0") for n in (0, 1)]
    rig.see(*views)
    rig.cluster.acknowledge(rig.observe()[0], rig.now)
    assert reports(rig) == [("n0", "device-count", FAIL), ("n0", "storage", PASS)]


def test_a_pod_that_was_made_without_checks_could_not_run_them() -> None:
    rig = begun()
    rig.see(*(seen_pod(key(n), node=f"n{n}", phase="Running") for n in (0, 1)))
    assert {outcome for _, _, outcome in reports(rig)} == {CANNOT_RUN}


# --- when they may begin -----------------------------------------------------------------------------------------


def opened(rig: Rig) -> list[Merge]:
    return [call for call in rig.calls() if isinstance(call, Merge) and call.kind is Kind.PODS]


def test_every_gate_is_opened_once_the_run_may_begin_and_not_before() -> None:
    rig = begun()
    rig.see(checking(0, found(PASS, PASS)), checking(1, found(PASS, PASS)))
    assert opened(rig) == []
    rig.cluster.carry_out(OpenGate(JOB, 1, rig.now))
    calls = opened(rig)
    assert [(call.name, at(call.body, "metadata", "annotations")) for call in calls] == [
        (f"mj-{JOB.lower()}-1-0-{n}", {GATE_ANNOTATION: "open"}) for n in (0, 1)
    ]
    assert {text(call.body, "metadata", "uid") for call in calls} == {f"uid-{call.name}" for call in calls}
    rig.answer(Done())
    rig.see(checking(0, found(PASS, PASS)))
    assert opened(rig) == []


def test_a_gate_that_is_open_is_not_opened_again_by_a_new_leader() -> None:
    rig = begun()
    rig.cluster.carry_out(OpenGate(JOB, 1, rig.now))
    rig.cluster.reset()
    rig.see(checking(0, found(PASS, PASS), is_open=True), checking(1, found(PASS, PASS)))
    rig.cluster.synced()
    assert [call.name[-1] for call in opened(rig)] == ["1"]


def test_a_gate_whose_opening_is_refused_is_tried_again() -> None:
    rig = begun()
    rig.cluster.carry_out(OpenGate(JOB, 1, rig.now))
    assert len(opened(rig)) == 2
    rig.answer(Refused(403, "Forbidden", "no"))
    assert opened(rig) == []
    rig.pass_time(20)
    assert len(opened(rig)) == 2


def test_what_ends_in_its_checks_uses_none_of_the_jobs_retries_but_only_so_often() -> None:
    rig = Rig().ready()
    for attempt in range(1, FOR_PODS_MAX + 2):
        wanted = replace(CHECKED, attempt=attempt)
        pods = rig.create(wanted)
        dead = replace(pods[0], phase="Failed", end=failed(code=127), preflight=PreflightView(True, "", 127))
        rig.see(dead, replace(pods[1], phase="Failed", end=failed(code=127)))
        exited = rig.exit()
        last = attempt > FOR_PODS_MAX
        assert exited.outcome is (PodsOutcome.FAILED if last else PodsOutcome.NODE_LOST)
        assert "what checks it ended with 127" in exited.reason
        rig.cluster.acknowledge(PodsExitedSeen(JOB, exited), rig.now)
        rig.calls()
        rig.tasks.clear()


def test_checks_that_hang_beyond_every_limit_send_the_gang_elsewhere_and_close_the_node() -> None:
    rig = begun()
    rig.see(checking(0, found(PASS, PASS)))
    rig.cluster.carry_out(OpenGate(JOB, 1, rig.now))
    rig.calls()
    rig.answer(Done())
    rig.pass_time(STUCK_S - 1)
    assert not any(isinstance(seen, NodeClosedSeen) for seen in rig.observe())
    rig.pass_time(2)
    (closed,) = (seen for seen in rig.observe() if isinstance(seen, NodeClosedSeen))
    assert closed.node == "n1"
    rig.calls()
    rig.answer(Done())
    for replica in (0, 1):
        rig.lose(checking(replica))
    assert (rig.exit().outcome, rig.exit().node) == (PodsOutcome.NODE_LOST, "n1")


def test_a_failure_after_the_first_step_is_the_jobs_own() -> None:
    rig = begun()
    rig.cluster.carry_out(OpenGate(JOB, 1, rig.now))
    rig.see(replace(checking(0, found(PASS, PASS), is_open=True), phase="Failed", end=failed(code=3)))
    rig.see(replace(checking(1, found(PASS, PASS), is_open=True), phase="Failed", end=failed(code=3)))
    assert (rig.exit().outcome, rig.exit().exit_code) == (PodsOutcome.FAILED, 3)
