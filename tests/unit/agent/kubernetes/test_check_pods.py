"""Pods that check the places of a job whose own pods others make: before those begin, and then never again."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from muster.agent.core.cluster import ChecksSeen, Observation, PodsExitedSeen, PodsStartedSeen
from muster.agent.core.kubernetes.calls import Bind, Call, Create, Delete, Done, Kind, Merge, Refused
from muster.agent.core.kubernetes.live import HELD_UP
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.pod_creator import HELD_UP_S, REFUSALS_MAX
from muster.agent.core.kubernetes.preflight import STUCK_S
from muster.agent.core.kubernetes.verdicts import FOR_PODS_MAX
from muster.agent.core.kubernetes.views import End, Member
from muster.agent.core.workload_values import WorkloadKind
from muster.kube.objects import at as found_at
from muster.kube.objects import objects, text
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, PreflightPlan
from muster.schemas.job import Slot, TaskGroup
from unit.agent.kubernetes.checked_pods import (
    BIND_S,
    PASSED,
    PLAN,
    PODS,
    THEIRS,
    Story,
    adopted,
    check_pod,
    found,
    order,
    said,
)
from unit.agent.kubernetes.rig import JOB, SPACE, at, key, slot

CHECKS = [f"mj-{JOB.lower()}-1-0-{number}-check" for number in (0, 1)]
PASS, FAIL, CANNOT_RUN = CheckOutcome.PASS, CheckOutcome.FAIL, CheckOutcome.CANNOT_RUN
KINDS = [WorkloadKind.JOB, WorkloadKind.POD]
Change = Callable[[Story], None]
LEADERS: list[Change] = [lambda _: None, Story.relead, Story.lead_again]
led = pytest.mark.parametrize("change", LEADERS, ids=["one leader", "another leader", "the same leader again"])
kinds = pytest.mark.parametrize("kind", KINDS)


def pods_of(calls: Iterable[Call], sort: type[Create | Delete]) -> list[str]:
    return [call.name for call in calls if isinstance(call, sort) and call.kind is Kind.PODS]


def binds(calls: Iterable[Call]) -> list[tuple[str, str]]:
    return [(call.name, call.node) for call in calls if isinstance(call, Bind)]


def outcomes(news: Iterable[Observation]) -> list[tuple[str, CheckOutcome]]:
    return [(one.node, one.outcome) for seen in news if isinstance(seen, ChecksSeen) for one in seen.results]


def exits(news: Iterable[Observation]) -> list[PodsExited]:
    return [seen.exited for seen in news if isinstance(seen, PodsExitedSeen)]


# --- the way of a job that passes --------------------------------------------------------------------------------


@kinds
@led
def test_checks_come_first_then_the_pods_of_others_are_bound(kind: WorkloadKind, change: Change) -> None:
    story = Story(kind)
    story.begin()
    change(story)
    calls = story.work()
    assert (pods_of(calls, Create), binds(calls)) == (CHECKS, [(CHECKS[0], "n0"), (CHECKS[1], "n1")])
    change(story)
    assert story.work() == []
    story.appear(check_pod(0, phase="Running"), check_pod(1, phase="Running"))
    assert story.told() == [PodsStartedSeen(JOB, 1, ((), ()))]
    change(story)
    story.appear(check_pod(0, phase="Succeeded", end=PASSED), check_pod(1, phase="Succeeded", end=PASSED))
    change(story)
    assert outcomes(story.told()) == [("n0", PASS), ("n0", PASS), ("n1", PASS), ("n1", PASS)]
    change(story)
    assert story.work() == [], "the object is not let go, and nothing is bound"
    story.open()
    change(story)
    calls = story.work()
    assert pods_of(calls, Delete) == CHECKS
    assert binds(calls) == [("g0", "n0"), ("g1", "n1")]
    let_go = int(kind is WorkloadKind.JOB)
    assert story.let_go == let_go
    story.appear(adopted(0, node="n0", phase="Running"), adopted(1, node="n1", phase="Running"))
    change(story)
    assert (story.told(), story.let_go) == ([], let_go)
    story.rig.now_s = 30
    end = End(succeeded=True, finished_at=at(30), ran_s=20.0)
    story.appear(*(adopted(number, node=f"n{number}", phase="Succeeded", end=end) for number in (0, 1)))
    (exited,) = exits(story.told())
    assert (exited.outcome, exited.ran_s) == (PodsOutcome.SUCCEEDED, 21.0)


@kinds
@led
def test_nothing_is_let_go_or_bound_before_every_pod_that_checked_is_gone(kind: WorkloadKind, change: Change) -> None:
    story = Story(kind)
    story.checked()
    story.open()
    change(story)
    calls = story.work(keeps=CHECKS)
    assert (pods_of(calls, Delete), binds(calls), story.let_go) == (CHECKS, [], 0)
    story.vanish(CHECKS[0])
    change(story)
    assert (binds(story.work(keeps=CHECKS)), story.let_go) == ([], 0)
    story.vanish(CHECKS[1])
    assert binds(story.work()) == [("g0", "n0"), ("g1", "n1")]


def test_the_time_of_the_run_counts_from_the_opening_and_not_from_the_checks() -> None:
    story = Story()
    story.checked()
    story.rig.now_s = 100
    story.open()
    story.work()
    story.appear(adopted(0, node="n0", phase="Running"), adopted(1, node="n1", phase="Running"))
    story.rig.now_s = 107
    ends = [adopted(number, node=f"n{number}", end=End(succeeded=True, finished_at=at(107))) for number in (0, 1)]
    story.appear(*ends)
    assert [one.ran_s for one in exits(story.told())] == [7.0]


def test_the_success_of_pods_that_check_is_not_the_jobs() -> None:
    story = Story()
    story.checked()
    assert exits(story.told()) == []
    story.open()
    story.work()
    assert exits(story.told()) == []


def test_uuids_of_a_pod_that_checks_are_told_where_it_had_all_of_its_node() -> None:
    """Else the kubelet may give the job others."""
    story = Story()
    story.begin()
    story.work()
    given = tuple(f"GPU-{number}" for number in range(8)), ("GPU-0",)
    story.appear(*(check_pod(number, phase="Running", devices=given[number]) for number in (0, 1)))
    assert story.told() == [PodsStartedSeen(JOB, 1, (given[0], ()))]


def test_what_pods_need_beside_them_is_taken_back_before_the_pods_of_others_have_it() -> None:
    story = Story()
    story.checked()
    story.open()
    story.work()
    ours = [("begin", True), *2 * [("prepare", True)], *2 * [("release", True)], ("end", True)]
    assert story.auxiliary.told == [*ours, ("begin", False), *2 * [("prepare", False)]]


@kinds
def test_a_claim_that_goes_with_a_pod_that_checked_is_not_missed(kind: WorkloadKind) -> None:
    """The claim controller takes it as soon as the pod ended, which its own watch may tell later."""
    story = Story(kind)
    story.checking()
    gangs, uids = story.rig.cluster.gangs, [check_pod(replica).uid for replica in (0, 1)]
    gangs.is_refused(key(0), story.rig.now, uid=uids[0], reason="its claim is gone")
    story.open()
    gangs.is_refused(key(0), story.rig.now, uid=uids[0], reason="its claim is gone")
    story.work(keeps=CHECKS)
    gangs.is_refused(key(1), story.rig.now, uid=uids[1], reason="its claim is gone")
    story.vanish(*CHECKS)
    assert (binds(story.work()), story.rig.cluster.notes.rolled_back) == ([("g0", "n0"), ("g1", "n1")], 0)


def test_what_pods_that_check_need_is_taken_back_when_the_attempt_ends_with_them() -> None:
    story = Story()
    story.checked()
    story.stop()
    story.told()
    assert story.auxiliary.told[-3:] == [("release", True), ("release", True), ("end", True)]


def test_nothing_is_told_of_checks_once_the_job_began_without_waiting_for_them() -> None:
    story = Story()
    story.checking()
    story.open()
    story.work()
    story.appear(adopted(0, node="n0", phase="Running"), adopted(1, node="n1", phase="Running"))
    assert story.told() == []


def test_a_pod_of_others_that_carries_our_name_and_labels_is_none_of_ours() -> None:
    story = Story(WorkloadKind.POD)
    story.checking()
    copied = Member("atlas", PodKey(JOB, 1, 0, 0))
    story.rig.see(adopted(0, name=CHECKS[0].removesuffix("-check"), uid="copied", member=copied))
    assert (story.work(), story.rig.cluster.notes.rolled_back) == ([], 0)


# --- what they are made of ---------------------------------------------------------------------------------------


def created(story: Story) -> Create:
    story.begin()
    (first, _) = (call for call in story.rig.calls() if isinstance(call, Create))
    return first


def test_a_pod_that_checks_is_ours_in_our_namespace_and_does_nothing_else() -> None:
    call = created(Story())
    assert call.namespace == SPACE != THEIRS
    (container,) = objects(call.body, "spec", "containers")
    assert (container["image"], container["command"]) == ("tools:1", ["muster", "preflight", "run"])
    variables = {text(one, "name"): text(one, "value") for one in objects(container, "env")}
    assert variables["MUSTER_PREFLIGHT_NODES"] == "2"
    assert variables["MUSTER_PREFLIGHT_FIRST"].startswith("main-0.mj-")
    assert objects(call.body, "spec", "initContainers") == []
    assert found_at(call.body, "metadata", "labels", "muster.dev/check-pod") == "true"
    assert found_at(call.body, "spec", "restartPolicy") == "Never"


def test_it_has_the_devices_of_the_place_and_memory_without_a_limit() -> None:
    (container,) = objects(created(Story()).body, "spec", "containers")
    assert found_at(container, "resources", "limits") == {"nvidia.com/gpu": "1"}
    asked = {"cpu": "500m", "memory": "512Mi", "nvidia.com/gpu": "1"}
    assert found_at(container, "resources", "requests") == asked


def test_storage_of_the_job_is_not_tried_where_it_is_not_mounted() -> None:
    story = Story()
    wanted = order(WorkloadKind.JOB)
    checks = (*PLAN.checks, CheckOrder(check="storage", parameters={"path": "/data"}))
    story.do(replace(wanted, preflight=PLAN.model_copy(update={"checks": checks})))
    (call, _) = story.work()[:2]
    assert isinstance(call, Create)
    (container,) = objects(call.body, "spec", "containers")
    variables = {text(one, "name"): text(one, "value") for one in objects(container, "env")}
    assert PreflightPlan.model_validate_json(variables["MUSTER_PREFLIGHT_PLAN"]) == PLAN
    story.appear(*(check_pod(number, phase="Succeeded", end=PASSED) for number in (0, 1)))
    (report,) = (seen for seen in story.told() if isinstance(seen, ChecksSeen))
    assert [(one.check, one.outcome) for one in report.results[:3]] == [
        ("device-count", PASS), ("gpu-health", PASS), ("storage", CANNOT_RUN),
    ]  # fmt: skip


def test_without_an_image_nothing_is_checked_and_the_setting_is_named() -> None:
    story = Story(policy=replace(PODS, preflight_image=""))
    story.begin()
    assert binds(story.work()) == [("g0", "n0"), ("g1", "n1")]
    story.appear(adopted(0, node="n0", phase="Running"), adopted(1, node="n1", phase="Running"))
    news = story.told()
    assert {outcome for _, outcome in outcomes(news)} == {CANNOT_RUN}
    (report,) = (seen for seen in news if isinstance(seen, ChecksSeen))
    assert "preflight.image" in report.results[0].detail


# --- what goes wrong with them -----------------------------------------------------------------------------------


@kinds
@led
def test_a_failed_check_is_told_at_once_and_a_stop_touches_nothing_of_the_owners(
    kind: WorkloadKind, change: Change
) -> None:
    story = Story(kind)
    story.checking()
    story.appear(check_pod(1, phase="Succeeded", end=said(found(FAIL, PASS))))
    change(story)
    assert outcomes(story.told()) == [("n1", FAIL)]
    story.stop()
    change(story)
    calls = story.work()
    assert pods_of(calls, Delete)[0] == CHECKS[0]
    assert not any(call.namespace == THEIRS for call in calls if isinstance(call, Delete | Merge | Bind))
    (exited,) = exits(story.told())
    assert (exited.outcome, exited.ran_s) == (PodsOutcome.STOPPED, 0.0)
    story.work()
    assert set(story.there) == ({"g0", "g1"} if kind is WorkloadKind.POD else set()), "what checked is not kept"


@led
def test_one_that_is_deleted_behind_our_back_sends_the_gang_to_the_queue(change: Change) -> None:
    story = Story()
    story.checking()
    story.vanish(CHECKS[0])
    change(story)
    assert CHECKS[1] in pods_of(story.work(), Delete)
    (exited,) = exits(story.told())
    assert (exited.outcome, exited.node) == (PodsOutcome.NODE_LOST, "n0")
    assert story.let_go == 0
    assert not story.there


@led
def test_one_that_can_never_be_sends_nobody_to_the_queue(change: Change) -> None:
    story = Story()
    story.begin()
    refused = Refused(403, "Forbidden", "violates PodSecurity")
    checks = story.rig.calls()
    for call in checks:
        story.rig.answer(refused if call.name == CHECKS[0] else None, call=call)
    story.appear(check_pod(1, node=""))
    story.work()
    story.appear(check_pod(1, phase="Running"))
    story.told()
    change(story)
    for call in story.rig.calls():
        assert call.name == CHECKS[0]
        story.rig.answer(refused, call=call)
    assert exits(story.told()) == []
    story.appear(check_pod(1, phase="Succeeded", end=PASSED))
    assert ("n1", PASS) in outcomes(story.told())


@led
def test_one_that_went_when_all_was_told_is_missed_by_no_leader(change: Change) -> None:
    story = Story()
    story.checked()
    story.vanish(CHECKS[0])
    change(story)
    story.work()
    assert exits(story.told()) == []


def test_one_that_went_after_it_had_said_what_it_found_is_missed_by_nobody() -> None:
    story = Story()
    story.checking()
    story.appear(check_pod(0, phase="Succeeded", end=PASSED))
    story.vanish(CHECKS[0])
    story.appear(check_pod(1, phase="Succeeded", end=PASSED))
    news = story.told()
    assert (len(outcomes(news)), exits(news)) == (4, [])


def test_one_that_its_kubelet_turns_away_sends_the_gang_to_the_queue_and_closes_the_node() -> None:
    story = Story()
    story.begin()
    story.work()
    story.appear(check_pod(0, phase="Failed", end=End(succeeded=False, reason="OutOfnvidia.com/gpu")))
    story.work()
    (exited,) = exits(story.told())
    assert (exited.outcome, exited.node) == (PodsOutcome.NODE_LOST, "n0")


@pytest.mark.parametrize("is_started", [False, True], ids=["at once", "after a while"])
def test_what_ends_in_its_checks_goes_to_the_queue_but_only_so_often(is_started: bool) -> None:
    story = Story()
    for attempt in range(1, FOR_PODS_MAX + 2):
        story.begin(attempt=attempt)
        story.work()
        mine = check_pod(0, attempt=attempt), check_pod(1, attempt=attempt)
        story.there = {view.name: view for view in mine}
        if is_started:
            story.appear(*(replace(view, phase="Running") for view in mine))
            assert len(story.told()) == 1
        story.appear(replace(mine[0], phase="Failed", end=said(code=137, reason="OOMKilled")))
        story.work()
        (exited,) = exits(story.told())
        last = attempt > FOR_PODS_MAX
        assert exited.outcome is (PodsOutcome.FAILED if last else PodsOutcome.NODE_LOST)
        assert "what checks it ended with 137: OOMKilled" in exited.reason
        story.work()


def test_a_stop_that_comes_with_such_an_end_does_not_make_it_the_jobs() -> None:
    story = Story()
    story.checking()
    story.rig.cluster.pod_seen(check_pod(0, phase="Failed", end=said(code=1)), story.rig.now)
    story.stop()
    story.work()
    assert [one.outcome for one in exits(story.told())] == [PodsOutcome.STOPPED]


@pytest.mark.parametrize(
    ("refusal", "times"),
    [
        (Refused(403, "Forbidden", "violates PodSecurity"), 1),
        (Refused(404, "NotFound", 'namespaces "jobs" not found'), 1),
        (Refused(403, "Forbidden", "exceeded quota: gpus"), REFUSALS_MAX + 1),
    ],
)
def test_a_job_does_without_a_pod_that_the_api_server_never_accepts(refusal: Refused, times: int) -> None:
    story = Story()
    story.begin()
    for _ in range(times):
        (call,) = (call for call in story.rig.calls() if call.name == CHECKS[0])
        story.rig.answer(refusal, call=call)
        story.rig.pass_time(6)
    for task in tuple(story.rig.tasks):
        story.rig.answer(Done({"metadata": {"uid": f"uid-{CHECKS[1]}"}}), call=task.call)
    story.appear(check_pod(1, node=""))
    assert binds(story.work()) == [(CHECKS[1], "n1")]
    story.appear(check_pod(1, phase="Succeeded", end=PASSED))
    news = story.told()
    assert outcomes(news) == [("n0", CANNOT_RUN), ("n0", CANNOT_RUN), ("n1", PASS), ("n1", PASS)]
    (report,) = (seen for seen in news if isinstance(seen, ChecksSeen))
    assert refusal.message in report.results[0].detail
    story.rig.pass_time(BIND_S + 1)
    assert exits(story.told()) == [], "a pod that there is not is not waited for"
    story.open()
    assert binds(story.work()) == [("g0", "n0"), ("g1", "n1")]


def test_a_new_leader_binds_what_there_is_though_another_can_never_be() -> None:
    story = Story()
    groups = TaskGroup(name="whole", gpus=1), TaskGroup(name="part", gpu_milli=500)
    slots = slot(0), Slot(group=1, replica=0, node="n1", gpu_milli=500)
    wanted = order(WorkloadKind.JOB, slots)
    story.do(replace(wanted, spec=wanted.spec.model_copy(update={"task_groups": groups})))
    (created,) = story.rig.calls()
    story.there = {created.name: check_pod(0, node="")}
    story.relead()
    assert binds(story.work()) == [(CHECKS[0], "n0")]
    story.appear(check_pod(0, phase="Succeeded", end=PASSED))
    assert outcomes(story.told()) == [("n0", PASS), ("n0", PASS), ("n1", CANNOT_RUN), ("n1", CANNOT_RUN)]


def test_an_image_that_does_not_come_sends_the_gang_to_the_queue() -> None:
    story = Story()
    story.begin()
    story.work()
    story.appear(check_pod(0, waiting=min(HELD_UP)), check_pod(1, waiting=min(HELD_UP)))
    story.rig.pass_time(HELD_UP_S + 1)
    story.work()
    (exited,) = exits(story.told())
    assert exited.outcome is PodsOutcome.NODE_LOST
    assert min(HELD_UP) in exited.reason


@led
def test_a_lost_node_ends_the_checks_and_leaves_the_object_alone(change: Change) -> None:
    story = Story(WorkloadKind.POD)
    story.checking()
    story.stop(lost_node="n1")
    change(story)
    story.work()
    (exited,) = exits(story.told())
    assert (exited.outcome, exited.node) == (PodsOutcome.NODE_LOST, "n1")
    assert set(story.there) >= {"g0", "g1"}


# --- what goes wrong after them ----------------------------------------------------------------------------------


@led
def test_pods_that_never_come_are_waited_for_only_so_long(change: Change) -> None:
    story = Story(WorkloadKind.JOB_SET)
    story.checked()
    story.open()
    story.work()
    assert exits(story.told()) == []
    change(story)
    story.work()
    story.rig.pass_time(BIND_S - 1)
    assert exits(story.told()) == []
    story.rig.pass_time(2)
    story.work()
    (exited,) = exits(story.told())
    assert exited.outcome is PodsOutcome.NODE_LOST
    assert "not bound" in exited.reason


def test_pods_that_were_there_once_are_missed_at_once() -> None:
    story = Story()
    story.checked()
    story.open()
    story.work()
    story.appear(adopted(0, node="n0", phase="Running"), adopted(1, node="n1", phase="Running"))
    story.vanish("g1")
    story.work()
    assert [one.outcome for one in exits(story.told())] == [PodsOutcome.NODE_LOST]


@led
def test_checks_that_do_not_end_send_the_gang_elsewhere(change: Change) -> None:
    story = Story()
    story.checking()
    story.open()
    story.work(keeps=CHECKS)
    story.vanish(CHECKS[0])
    change(story)
    story.work(keeps=CHECKS)
    story.rig.pass_time(STUCK_S - 1)
    assert (exits(story.told()), story.rig.cluster.notes.rolled_back) == ([], 0)
    story.rig.pass_time(2)
    assert story.rig.cluster.notes.rolled_back == 1
    story.vanish(CHECKS[1])
    (exited,) = exits(story.told())
    assert (exited.outcome, exited.node) == (PodsOutcome.NODE_LOST, "n1")
    assert story.let_go == 0


def test_an_outage_gives_the_end_of_the_checks_its_time_anew() -> None:
    story = Story()
    story.checking()
    story.open()
    story.work(keeps=CHECKS)
    story.rig.pass_time(STUCK_S - 1)
    story.rig.cluster.outage(story.rig.now)
    story.rig.pass_time(STUCK_S - 1)
    assert story.rig.cluster.notes.rolled_back == 0


@kinds
@led
def test_a_stop_between_the_checks_and_the_pods_of_others(kind: WorkloadKind, change: Change) -> None:
    story = Story(kind)
    story.checked()
    story.open()
    story.rig.calls()
    story.stop()
    change(story)
    story.work()
    assert [one.outcome for one in exits(story.told())] == [PodsOutcome.STOPPED]
    assert story.let_go == 0


def test_what_a_former_leader_left_of_checks_goes_at_once() -> None:
    story = Story()
    story.appear(check_pod(0, attempt=7, phase="Succeeded", end=PASSED))
    assert pods_of(story.work(), Delete) == [f"mj-{JOB.lower()}-7-0-0-check"]


@pytest.mark.parametrize("change", LEADERS[1:], ids=["another leader", "the same leader again"])
def test_an_opening_that_passes_a_roll_back_is_heard_by_who_leads_then(change: Change) -> None:
    story = Story(WorkloadKind.POD)
    story.checking()
    story.vanish(CHECKS[0])
    story.open()
    assert binds(story.work()) == [], "it ends here, and the log does not have that"
    change(story)
    assert binds(story.work()) == [("g0", "n0"), ("g1", "n1")]


def test_an_opening_that_passes_a_roll_back_does_not_call_it_off() -> None:
    story = Story(WorkloadKind.POD)
    story.checking()
    story.vanish(CHECKS[0])
    story.open()
    story.work(keeps=CHECKS)
    story.rig.now_s = 30
    story.vanish(CHECKS[1])
    assert [(one.outcome, one.ran_s) for one in exits(story.told())] == [(PodsOutcome.NODE_LOST, 0.0)]
    assert set(story.there) == {"g0", "g1"}
