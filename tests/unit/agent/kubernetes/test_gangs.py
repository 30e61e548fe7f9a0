"""Gangs on a real cluster: made whole, bound whole, rolled back whole."""

from dataclasses import replace

import pytest

from muster.agent.core.cluster import (
    CreatePods,
    NodeClosedSeen,
    PodsExitedSeen,
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
)
from muster.agent.core.kubernetes.calls import Bind, Create, Delete, Done, Read, Refused, Unanswered
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.pod_creator import REFUSALS_MAX
from muster.agent.core.kubernetes.ports import AuxiliaryObjects
from muster.agent.core.kubernetes.verdicts import FOR_NODES_MAX, FOR_PODS_MAX
from muster.core import Instant
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.job import Slot
from unit.agent.kubernetes.rig import JOB, REFUSED, SPACE, Manifests, Rig, at, failed, key, order, pod, slot

TWO = order(slot(0), slot(1))
RESIZE = ResizePods(JOB, 1, at(0), (), grace_s=120.0)
LABELS = {
    "muster.dev/cluster": "atlas",
    "muster.dev/job": JOB.lower(),
    "muster.dev/attempt": "1",
    "muster.dev/group-index": "0",
    "muster.dev/replica": "0",
}


class Unprepared(AuxiliaryObjects):
    """Pods get what they need later, when the test says so."""

    def prepare(self, order: CreatePods, slot: Slot, *, name: str, uid: str, now: Instant) -> bool:
        return False


def names(calls: list[object]) -> list[str]:
    return [type(call).__name__ for call in calls]


def test_nothing_is_made_before_all_pods_were_seen() -> None:
    rig = Rig()
    rig.cluster.carry_out(order())
    assert rig.calls() == []
    rig.ready()
    assert names(rig.calls()) == ["Create"]


def test_nothing_is_bound_before_every_pod_of_the_gang_exists() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(TWO)
    first, second = rig.calls()
    rig.answer(call=first)
    assert rig.calls() == []
    rig.answer(call=second)
    assert [(call.name, call.node) for call in rig.calls() if isinstance(call, Bind)] == [
        (first.name, "n0"),
        (second.name, "n1"),
    ]


def test_a_binding_names_the_uid_that_was_created() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    (create,) = rig.calls()
    rig.answer(Done({"metadata": {"uid": "u-7"}}))
    assert rig.calls() == [Bind("jobs", create.name, "u-7", "n0")]


def test_pods_that_exist_are_adopted_and_not_made_again() -> None:
    rig = Rig()
    rig.cluster.carry_out(TWO)
    rig.see(pod(key(0), node="n0", phase="Running"), pod(key(1)))
    rig.ready()
    assert [(type(call), call.name) for call in rig.calls()] == [(Bind, pod(key(1)).name)]


def test_a_pod_that_exists_unseen_is_looked_at_and_adopted() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer(Refused(409, "AlreadyExists", "exists"))
    (read,) = rig.calls()
    assert isinstance(read, Read)
    rig.answer(Done({"metadata": {"name": read.name, "namespace": "jobs", "uid": "u-1", "labels": LABELS}}))
    assert rig.calls() == [Bind("jobs", read.name, "u-1", "n0")]


def test_a_creation_that_nobody_answered_is_asked_again_after_a_while() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    (create,) = rig.calls()
    rig.answer(Unanswered("no answer"))
    assert rig.calls() == []
    rig.pass_time(1.0)
    assert rig.calls() == [create]


def test_a_start_is_seen_when_all_run() -> None:
    rig = Rig().ready()
    first, second = rig.create(TWO)
    rig.see(replace(first, phase="Running"), second)
    assert rig.observe() == ()
    rig.see(replace(second, phase="Running", devices=("GPU-5",)))
    assert rig.observe() == (PodsStartedSeen(JOB, 1, ((), ("GPU-5",))),)


def test_a_refused_binding_that_was_ours_all_along_is_none() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer()
    rig.calls()
    rig.see(pod(node="n0"))
    rig.answer(REFUSED)
    assert rig.calls() == []
    assert rig.observe() == ()


def test_a_pod_that_is_bound_elsewhere_rolls_the_gang_back() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(TWO)
    rig.calls()
    rig.answer()
    rig.see(pod(key(0), node="n9"), pod(key(1)))
    deletes = [call for call in rig.calls() if isinstance(call, Delete)]
    assert [call.name for call in deletes] == [pod(key(0)).name, pod(key(1)).name]
    rig.lose(pod(key(0)))
    rig.lose(pod(key(1)))
    assert rig.exit().outcome is PodsOutcome.NODE_LOST


def test_a_binding_that_is_refused_for_good_rolls_the_gang_back() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(TWO)
    rig.calls()
    rig.answer()
    first, second = rig.calls()
    rig.answer(Done(), call=first)
    rig.answer(Refused(404, "NotFound", "pod is not there"), call=second)
    deleted = [call.name for call in rig.calls()]
    assert deleted == [first.name, second.name]
    rig.lose(pod(key(0)))
    rig.lose(pod(key(1)))
    assert rig.exit() == PodsExited(attempt=1, outcome=PodsOutcome.NODE_LOST, node="n1", reason="pod is not there")


def test_a_gang_that_is_bound_only_in_part_is_rolled_back_after_a_while() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(TWO)
    rig.calls()
    rig.answer()
    first, _ = rig.calls()
    rig.answer(call=first)
    rig.pass_time(59.0)
    assert rig.calls() == []
    rig.pass_time(2.0)
    assert any(isinstance(call, Delete) for call in rig.calls())


def test_an_outage_gives_a_gang_that_is_bound_in_part_its_time_anew() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(TWO)
    rig.calls()
    rig.answer()
    first, second = rig.calls()
    rig.answer(call=first)
    rig.pass_time(50.0)
    rig.cluster.outage(rig.now)
    rig.answer(Unanswered("no answer"), call=second)
    rig.pass_time(30.0)
    assert names(rig.calls()) == ["Bind"]


def test_a_kubelet_that_will_not_admit_a_pod_takes_the_gang_back_to_the_queue() -> None:
    for reason in ("OutOfnvidia.com/gpu", "OutOfcpu", "UnexpectedAdmissionError", "TopologyAffinityError"):
        rig = Rig().ready()
        first, second = rig.create(TWO)
        end = failed(reason, message="Pod was rejected")
        rig.see(replace(first, phase="Failed", end=end), replace(second, phase="Running"))
        (delete,) = rig.calls()
        assert delete.name == second.name
        rig.answer()
        rig.lose(second)
        told = f"the kubelet of n0 turned it away: {reason}: Pod was rejected"
        assert rig.exit() == PodsExited(attempt=1, outcome=PodsOutcome.NODE_LOST, node="n0", reason=told)


def test_the_first_pod_that_fails_fails_the_job_and_ends_its_peers() -> None:
    rig = Rig().ready()
    first, second = rig.run(TWO)
    rig.now_s = 20.0
    late, early = failed(code=9, finished_at=at(19)), failed(code=3, finished_at=at(18))
    rig.see(replace(first, phase="Failed", end=late), replace(second, phase="Failed", end=early))
    assert rig.calls() == []
    assert rig.exit() == PodsExited(attempt=1, outcome=PodsOutcome.FAILED, exit_code=3, ran_s=20.0, node="n1")


def test_peers_of_a_failed_pod_are_ended_before_the_exit_is_told() -> None:
    rig = Rig().ready()
    first, second = rig.run(TWO)
    rig.see(replace(first, phase="Failed", end=failed(code=1)))
    (delete,) = rig.calls()
    assert delete.name == second.name
    rig.answer()
    assert rig.observe() == ()
    rig.lose(second)
    assert rig.exit().outcome is PodsOutcome.FAILED


def test_a_job_whose_deciding_group_succeeds_is_done_and_its_servers_are_ended() -> None:
    rig = Rig().ready()
    launched = order(slot(0), slot(0, group=1, node="n1"), groups=("launcher", "worker"))
    launcher, worker = rig.run(launched)
    rig.see(replace(launcher, phase="Succeeded", end=failed(succeeded=True)))
    (delete,) = rig.calls()
    assert delete.name == worker.name
    rig.answer()
    rig.lose(worker)
    assert rig.exit().outcome is PodsOutcome.SUCCEEDED


def test_a_pod_that_vanishes_takes_its_gang_back_to_the_queue() -> None:
    rig = Rig().ready()
    first, second = rig.run(TWO)
    rig.lose(first)
    (delete,) = rig.calls()
    rig.answer()
    rig.lose(second)
    assert delete.name == second.name
    assert rig.exit().outcome is PodsOutcome.NODE_LOST


def test_a_pod_of_a_started_gang_that_is_not_there_after_a_change_of_leader_vanished() -> None:
    rig = Rig().ready()
    first, second = rig.run(TWO)
    rig.cluster.reset()
    rig.see(first)
    rig.ready()
    (delete,) = rig.calls()
    assert delete.name == first.name
    rig.answer()
    rig.lose(first)
    assert rig.exit().outcome is PodsOutcome.NODE_LOST
    assert second.name != delete.name


def test_a_pod_that_others_evict_did_not_fail() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.see(replace(view, phase="Failed", end=failed(code=143), ends_at=at(30), grace_s=30))
    assert rig.exit().outcome is PodsOutcome.NODE_LOST


def test_a_pod_that_cannot_be_fails_the_job() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer(Refused(422, "Invalid", "spec.containers: Required value" + 2000 * "!"))
    exited = rig.exit()
    assert exited.outcome is PodsOutcome.FAILED
    assert exited.reason.startswith("spec.containers: Required value!")
    assert len(exited.reason) <= TEXT_CHARS_MAX // 2


def test_a_resize_adds_what_is_missing_and_ends_what_is_too_much() -> None:
    rig = Rig().ready()
    first, second = rig.run(TWO)
    rig.resize(slot(0), slot(2))
    calls = rig.calls()
    assert sorted(names(calls)) == ["Create", "Delete"]
    rig.answer()
    rig.lose(second)
    (bind,) = rig.calls()
    assert isinstance(bind, Bind)
    rig.answer()
    third = pod(key(2), node="n2")
    rig.see(third)
    assert rig.observe() == ()
    rig.see(replace(third, phase="Running"))
    assert rig.observe() == (PodsResizedSeen(JOB, 1, 2),)
    assert first.is_running


def test_a_replica_that_moves_comes_anew_when_the_old_one_is_gone() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.resize(slot(0, node="n2"))
    assert names(rig.calls()) == ["Delete"]
    rig.answer()
    rig.lose(view)
    (create,) = rig.calls()
    assert isinstance(create, Create)
    rig.answer(Done({"metadata": {"uid": "new"}}))
    assert rig.calls() == [Bind("jobs", create.name, "new", "n2")]


def test_another_object_under_the_name_of_a_running_pod_takes_the_gang_back_to_the_queue() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.see(replace(view, uid="another", node="", phase="Pending"))
    (delete,) = rig.calls()
    assert isinstance(delete, Delete)
    assert delete.uid == "another"
    rig.answer()
    rig.lose(replace(view, uid="another"))
    assert rig.exit().outcome is PodsOutcome.NODE_LOST


def test_another_object_under_the_name_of_a_pod_that_did_not_start_is_bound_in_its_place() -> None:
    rig = Rig().ready()
    (view,) = rig.create(order())
    rig.see(view)
    rig.see(replace(view, uid="another", node=""))
    assert rig.calls() == [Bind("jobs", view.name, "another", "n0")]


def test_what_is_said_of_an_object_that_is_gone_does_not_concern_the_next_one_of_its_name() -> None:
    """Its claim may become ready, or be refused, after another object has its name."""
    cluster = KubernetesCluster(ClusterOptions("atlas", SPACE), Manifests(), auxiliary=Unprepared())
    rig = Rig(cluster).ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer()
    view = pod(key())
    rig.see(view)
    assert rig.calls() == [], "it is not ready to be bound"
    rig.see(replace(view, uid="another"))
    cluster.gangs.is_ready(key(), uid=view.uid)
    cluster.gangs.is_refused(key(), rig.now, uid=view.uid, reason="its claim is gone")
    assert (rig.calls(), list(rig.observe())) == ([], [])
    cluster.gangs.is_ready(key(), uid="another")
    assert rig.calls() == [Bind("jobs", view.name, "another", "n0")]


def test_the_name_of_a_pod_that_moves_is_free_when_its_object_is_gone_and_not_when_it_ended() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.resize(slot(0, node="n2"))
    rig.calls()
    rig.answer()
    ended = replace(view, phase="Failed", end=failed(code=143), ends_at=at(1), grace_s=1)
    rig.see(ended)
    assert rig.calls() == []
    rig.see(replace(ended, waiting="still seen"))
    rig.lose(ended)
    assert names(rig.calls()) == ["Create"]
    assert rig.observe() == ()


def test_a_pod_that_waits_for_another_to_save_its_work_does_not_count_as_unbound() -> None:
    rig = Rig().ready()
    rig.run(TWO)
    rig.cluster.carry_out(replace(RESIZE, slots=(slot(0), slot(1, node="n2"))))
    rig.calls()
    rig.answer()
    rig.pass_time(119.0)
    assert rig.calls() == []
    assert rig.observe() == ()


def test_a_new_leader_knows_the_pods_that_a_resize_ends() -> None:
    rig = Rig().ready()
    first, second = rig.run(TWO)
    rig.cluster.carry_out(replace(RESIZE, slots=(slot(0),)))
    rig.calls()
    rig.answer()
    rig.cluster.reset()
    rig.see(first, replace(second, ends_at=at(120), grace_s=120))
    rig.ready()
    assert rig.calls() == [], "it has its grace"
    assert rig.observe() == ()
    rig.lose(second)
    assert rig.observe() == (PodsResizedSeen(JOB, 1, 1),)


def test_a_copy_of_a_pod_with_its_labels_is_no_pod_of_the_gang_and_is_left_alone() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    for copy in (replace(view, name="copy", uid="c1"), replace(view, namespace="default", uid="c2")):
        rig.see(copy)
        rig.lose(copy)
    assert rig.calls() == []
    assert not any(isinstance(seen, PodsExitedSeen) for seen in rig.observe())


def test_a_gate_holds_the_whole_gang_and_its_time_does_not_run() -> None:
    rig = Rig()
    rig.cluster.carry_out(TWO)
    rig.see(pod(key(0)), pod(key(1), gated=True))
    rig.ready()
    assert rig.calls() == []
    rig.pass_time(1000.0)
    assert rig.calls() == []
    rig.see(pod(key(1)))
    assert names(rig.calls()) == ["Bind", "Bind"]


def test_a_binding_that_is_refused_while_the_watch_lags_is_asked_again_after_a_while() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer()
    rig.calls()
    rig.answer(REFUSED)
    (read,) = rig.calls()
    assert isinstance(read, Read)
    rig.answer(
        Done({"metadata": {"name": read.name, "namespace": "jobs", "uid": f"uid-{read.name}", "labels": LABELS}})
    )
    assert rig.calls() == []
    rig.pass_time(5.0)
    assert names(rig.calls()) == ["Bind"]


def test_a_gang_that_is_there_and_never_ready_to_be_bound_is_rolled_back() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer()
    rig.calls()
    rig.pass_time(61.0)
    rig.answer(Unanswered("still no answer"))
    assert names(rig.calls()) == ["Delete"]


def test_who_only_follows_keeps_nothing_of_attempts_that_ended() -> None:
    rig = Rig()
    for number in range(1, 20):
        rig.cluster.carry_out(order(attempt=number))
        rig.cluster.acknowledge(PodsExitedSeen(JOB, PodsExited(attempt=number, outcome=PodsOutcome.SUCCEEDED)), rig.now)
    assert not rig.cluster.gangs.attempts
    assert rig.cluster.gangs.next_change() is None
    assert not len(rig.cluster.worklist)


def test_a_quota_is_waited_for_before_the_gang_is_queued_again() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    for _ in range(7):
        assert names(rig.calls()) == ["Create"]
        rig.answer(Refused(403, "Forbidden", "exceeded quota: gpus, requested: 1, used: 8, limited: 8"))
        rig.pass_time(5.0)
    assert rig.exit().outcome is PodsOutcome.NODE_LOST


def test_a_gang_whose_image_does_not_come_fails_after_a_while() -> None:
    rig = Rig().ready()
    first, second = rig.create(TWO)
    rig.see(first, replace(second, waiting="ImagePullBackOff"))
    assert "ImagePullBackOff" in rig.cluster.notes.lines[-1]
    rig.pass_time(599.0)
    assert rig.calls() == []
    rig.pass_time(1.0)
    assert names(rig.calls()) == ["Delete", "Delete"]
    rig.lose(first)
    rig.lose(second)
    exited = rig.exit()
    assert (exited.outcome, exited.node) == (PodsOutcome.FAILED, "n1")
    assert exited.reason == "ImagePullBackOff for 600 s"


def test_an_image_that_comes_late_is_in_time() -> None:
    rig = Rig().ready()
    (view,) = rig.create(order())
    rig.see(replace(view, waiting="ErrImagePull"))
    rig.pass_time(500.0)
    rig.see(replace(view, phase="Running"))
    rig.pass_time(500.0)
    assert rig.calls() == []
    assert isinstance(rig.observe()[0], PodsStartedSeen)


def turned_away(rig: Rig, attempt: int, reason: str) -> PodsOutcome:
    """How an attempt ends whose pod the kubelet of n0 will not have."""
    rig.cluster.carry_out(order(attempt=attempt))
    rig.see(pod(key(attempt=attempt), node="n0", phase="Failed", end=failed(reason)))
    rig.calls()
    exited = rig.exit()
    for seen in rig.observe():
        rig.cluster.acknowledge(seen, rig.now)
    return exited.outcome


@pytest.mark.parametrize("reason", ["NodePorts", "PodOSNotSupported", "NodeAffinity"])
def test_a_pod_that_no_kubelet_would_have_closes_no_node_and_fails_after_a_few_attempts(reason: str) -> None:
    rig = Rig().ready()
    for attempt in range(1, FOR_PODS_MAX + 1):
        assert turned_away(rig, attempt, reason) is PodsOutcome.NODE_LOST
        assert not any(isinstance(seen, NodeClosedSeen) for seen in rig.observe())
    assert turned_away(rig, FOR_PODS_MAX + 1, reason) is PodsOutcome.FAILED
    assert reason in rig.cluster.notes.lines[-1]


def test_a_job_that_many_nodes_turn_away_fails_in_the_end() -> None:
    rig = Rig().ready()
    outcomes = [turned_away(rig, attempt, "OutOfcpu") for attempt in range(1, FOR_NODES_MAX + 2)]
    assert outcomes == [PodsOutcome.NODE_LOST] * FOR_NODES_MAX + [PodsOutcome.FAILED]


def test_attempts_that_were_turned_away_count_only_in_a_row() -> None:
    rig = Rig().ready()
    for attempt in range(1, 2 * FOR_PODS_MAX, 2):
        assert turned_away(rig, attempt, "NodePorts") is PodsOutcome.NODE_LOST
        (view,) = rig.run(order(attempt=attempt + 1))
        rig.lose(view)
        rig.cluster.acknowledge(PodsExitedSeen(JOB, rig.exit()), rig.now)
    assert turned_away(rig, 2 * FOR_PODS_MAX + 1, "NodePorts") is PodsOutcome.NODE_LOST


def test_a_binding_that_a_policy_refuses_is_tried_for_a_while_and_closes_no_node() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer()
    for _ in range(REFUSALS_MAX + 1):
        assert names(rig.calls()) == ["Bind"]
        rig.answer(Refused(403, "Forbidden", "a policy says no"))
        rig.pass_time(5.0)
    assert names(rig.calls()) == ["Delete"]
    assert not any(isinstance(seen, NodeClosedSeen) for seen in rig.observe())


@pytest.mark.parametrize(("is_disrupted", "outcome"), [(False, PodsOutcome.FAILED), (True, PodsOutcome.NODE_LOST)])
def test_a_pod_that_is_evicted_for_what_it_wrote_itself_failed(is_disrupted: bool, outcome: PodsOutcome) -> None:
    """For want of something on the node the kubelet says so by a condition; else a job would have runs for nothing."""
    rig = Rig().ready()
    rig.create(order(slot(0)))
    evicted = failed("Evicted", disrupted=is_disrupted)
    rig.see(pod(node="n0", phase="Failed", end=evicted))
    assert [one.exited.outcome for one in rig.observe() if isinstance(one, PodsExitedSeen)] == [outcome]
