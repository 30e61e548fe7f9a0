"""How attempts end on a real cluster: with grace, as budgets allow, at once on lost nodes, and once only."""

from dataclasses import replace

from muster.agent.core.cluster import PodsExitedSeen
from muster.agent.core.kubernetes.calls import Create, Delete, Done, Evict, Refused, Unanswered
from muster.agent.core.kubernetes.terminator import KEPT_MAX
from muster.agent.core.kubernetes.views import Member
from muster.schemas.facts.job import PodsExited, PodsOutcome
from unit.agent.kubernetes.rig import JOB, Rig, at, failed, key, node, order, pod, slot

BUDGET = Refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")


def test_pods_are_deleted_with_the_grace_and_their_uid() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.delete(grace_s=12.5)
    (call,) = rig.calls()
    assert isinstance(call, Delete)
    assert (call.name, call.uid, call.grace_s) == (view.name, view.uid, 13)


def test_without_grace_the_kubelet_still_confirms_the_end() -> None:
    rig = Rig().ready()
    rig.run(order())
    rig.delete()
    (call,) = rig.calls()
    assert isinstance(call, Delete)
    assert call.grace_s == 1


def test_the_exit_is_told_when_the_last_pod_is_gone() -> None:
    rig = Rig().ready()
    first, second = rig.run(order(slot(0), slot(1)))
    rig.delete(grace_s=5)
    rig.calls()
    rig.answer()
    rig.lose(first)
    assert rig.observe() == ()
    rig.pass_time(4.0)
    rig.lose(second)
    assert (rig.exit().outcome, rig.exit().ran_s) == (PodsOutcome.STOPPED, 4.0)


def test_a_creation_that_waits_is_called_off() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.delete()
    assert rig.calls() == []
    assert rig.exit().outcome is PodsOutcome.STOPPED


def test_recovery_makes_only_what_lives() -> None:
    """Recovery folds every attempt that ever was."""
    rig = Rig()
    for attempt in range(1, 4):
        rig.cluster.carry_out(order(attempt=attempt))
        if attempt < 3:
            rig.cluster.acknowledge(exit_of(attempt), at(attempt))
    rig.ready()
    (create,) = rig.calls()
    assert create.name == pod(key(attempt=3)).name


def test_a_creation_under_way_is_waited_for_and_then_undone() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.delete()
    assert rig.calls() == []
    rig.answer(Done({"metadata": {"uid": "u-1"}}))
    (call,) = rig.calls()
    assert isinstance(call, Delete)
    assert call.uid == "u-1"
    rig.answer(Refused(404, "NotFound"))
    assert rig.exit().outcome is PodsOutcome.STOPPED


def test_what_may_have_been_made_is_cleared_away_before_the_exit() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer(Unanswered("the connection broke off"))
    rig.delete()
    (call,) = rig.calls()
    assert isinstance(call, Delete)
    assert rig.observe() == ()
    rig.answer(Refused(404, "NotFound"))
    assert rig.exit().outcome is PodsOutcome.STOPPED


def test_pods_that_make_way_are_evicted() -> None:
    rig = Rig().ready()
    rig.run(order())
    rig.delete(grace_s=20, evict=True)
    (call,) = rig.calls()
    assert isinstance(call, Evict)
    assert call.grace_s == 20


def test_a_disruption_budget_holds_for_half_of_the_grace_and_then_no_more() -> None:
    rig = Rig().ready()
    rig.run(order())
    rig.delete(grace_s=20, evict=True)
    evictions = 0
    while True:
        calls = rig.calls()
        if any(isinstance(call, Delete) for call in calls):
            break
        evictions += len(calls)
        rig.answer(BUDGET)
        rig.pass_time(1.0)
    assert evictions == 10
    (call,) = calls
    assert isinstance(call, Delete)
    assert call.grace_s == 10


def test_who_may_not_evict_deletes() -> None:
    rig = Rig().ready()
    rig.run(order())
    rig.delete(grace_s=20, evict=True)
    rig.calls()
    rig.answer(Refused(403, "Forbidden", "pods/eviction is forbidden"))
    (call,) = rig.calls()
    assert isinstance(call, Delete)


def test_a_pod_on_a_lost_node_waits_for_no_kubelet() -> None:
    rig = Rig().ready()
    rig.run(order(slot(0), slot(1)))
    rig.delete(lost_node="n0")
    graces = {call.name: call.grace_s for call in rig.calls() if isinstance(call, Delete)}
    assert graces == {pod(key(0)).name: 0, pod(key(1)).name: 1}


def test_a_loss_within_the_grace_ends_the_pod_there_at_once() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.delete(grace_s=30)
    rig.calls()
    rig.answer()
    rig.see(replace(view, ends_at=at(30), grace_s=30))
    assert rig.calls() == []
    rig.delete(lost_node="n0")
    (call,) = rig.calls()
    assert isinstance(call, Delete)
    assert call.grace_s == 0


def test_pods_that_end_wait_for_no_kubelet_of_a_node_that_is_no_more() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.delete(grace_s=30)
    rig.calls()
    rig.answer()
    rig.see(replace(view, ends_at=at(30), grace_s=30))
    rig.cluster.node_gone("n0")
    (call,) = rig.calls()
    assert isinstance(call, Delete)
    assert call.grace_s == 0


def test_an_end_by_itself_before_the_notice_stands() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.delete(grace_s=30)
    rig.see(replace(view, phase="Succeeded", end=failed(succeeded=True)))
    assert rig.exit().outcome is PodsOutcome.SUCCEEDED


def test_a_program_that_exits_well_because_it_was_told_has_not_done_its_work() -> None:
    """Else a job that is preempted, saves and exits with 0 would count as finished."""
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.delete(grace_s=30)
    rig.calls()
    rig.answer()
    rig.see(replace(view, phase="Succeeded", end=failed(succeeded=True), ends_at=at(30)))
    assert rig.exit().outcome is PodsOutcome.STOPPED


def test_a_program_that_says_it_is_done_is_done_also_within_the_grace() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.delete(grace_s=30)
    rig.calls()
    rig.answer()
    rig.see(replace(view, phase="Succeeded", end=failed(succeeded=True, says_done=True), ends_at=at(30)))
    assert rig.exit().outcome is PodsOutcome.SUCCEEDED


def test_pods_that_ended_stay_for_a_while_and_are_then_deleted() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    ended = replace(view, phase="Succeeded", end=failed(succeeded=True, finished_at=at(0)))
    rig.see(ended)
    rig.cluster.acknowledge(PodsExitedSeen(JOB, rig.exit()), rig.now)
    rig.pass_time(299.0)
    assert rig.calls() == []
    rig.pass_time(2.0)
    (call,) = rig.calls()
    assert isinstance(call, Delete)
    assert call.uid == view.uid


def test_a_pod_that_a_deposed_leader_made_too_late_is_deleted() -> None:
    rig = Rig().ready()
    orphan = pod(key(attempt=7))
    rig.see(orphan)
    (call,) = rig.calls()
    assert isinstance(call, Delete)
    assert (call.name, call.uid) == (orphan.name, orphan.uid)


def test_an_orphan_made_anew_under_its_name_while_the_first_is_deleted_is_deleted_too() -> None:
    for outcome in (Refused(409, "Conflict", "the UID in the precondition does not match"), Unanswered()):
        rig = Rig().ready()
        first, second = pod(key(attempt=7)), pod(key(attempt=7), uid="uid-second")
        rig.see(first)
        rig.calls()
        rig.cluster.pod_gone(first)
        rig.see(second)
        assert rig.calls() == [], "the first call is under way"
        rig.answer(outcome)
        assert [call.uid for call in rig.calls() if isinstance(call, Delete)] == ["uid-second"]


def test_a_pod_that_ended_under_the_name_of_an_orphan_is_kept_as_long_as_any() -> None:
    rig = Rig().ready()
    first = pod(key(attempt=7))
    second = replace(first, uid="uid-second", phase="Succeeded", end=failed(succeeded=True, finished_at=at(0)))
    rig.see(first)
    rig.calls()
    rig.see(second)
    rig.answer(Refused(409, "Conflict", "the UID in the precondition does not match"))
    rig.pass_time(299.0)
    assert rig.calls() == []
    rig.pass_time(2.0)
    assert [call.uid for call in rig.calls() if isinstance(call, Delete)] == ["uid-second"]


def test_orphans_are_left_alone_until_all_was_seen_and_pods_of_another_muster_always() -> None:
    rig = Rig()
    rig.see(pod(key(attempt=7)))
    assert rig.calls() == []
    rig.ready()
    rig.calls()
    rig.see(pod(key(attempt=8), member=Member("borealis", key(attempt=8))))
    assert rig.calls() == []


def test_nothing_is_under_way_after_a_change_of_leader() -> None:
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    (task,) = (rig.calls(), rig.tasks)[1]
    rig.cluster.reset()
    rig.cluster.finished(task, Done({"metadata": {"uid": "late"}}), rig.now)
    rig.ready(node("n0"))
    (create,) = rig.calls()[-1:]
    assert isinstance(create, Create)


def exit_of(attempt: int) -> PodsExitedSeen:
    return PodsExitedSeen("J" * 26, PodsExited(attempt=attempt, outcome=PodsOutcome.STOPPED))


def test_a_failure_of_its_own_before_it_could_obey_stands() -> None:
    rig = Rig().ready()
    (view,) = rig.run(order())
    rig.delete(grace_s=30)
    rig.see(replace(view, phase="Failed", end=failed(code=5)))
    assert (rig.exit().outcome, rig.exit().exit_code) == (PodsOutcome.FAILED, 5)


def test_a_conflict_of_an_eviction_does_not_mean_that_the_pod_is_gone() -> None:
    rig = Rig().ready()
    rig.run(order())
    rig.delete(grace_s=20, evict=True)
    rig.calls()
    rig.answer(Refused(409, "Conflict", "the disruption budget has been modified; please apply your changes again"))
    assert rig.observe() == ()
    rig.pass_time(1.0)
    (call,) = rig.calls()
    assert isinstance(call, Evict)


def test_no_exit_is_told_while_a_creation_may_still_make_the_pod_anew() -> None:
    """It was made by the first try, whose answer was lost; the second is under way while the first object goes."""
    rig = Rig().ready()
    rig.cluster.carry_out(order())
    rig.calls()
    rig.answer(Unanswered("500 after the work"))
    rig.pass_time(1.0)
    (create,) = rig.calls()
    rig.see(pod())
    rig.delete()
    (delete,) = rig.calls()
    rig.answer(call=delete)
    rig.lose(pod())
    assert rig.observe() == ()
    rig.answer(Done({"metadata": {"uid": "second"}}), call=create)
    rig.see(replace(pod(), uid="second"))
    (delete,) = [call for call in rig.calls() if isinstance(call, Delete)]
    assert delete.uid == "second"


def test_of_too_many_ended_pods_only_the_oldest_go() -> None:
    rig = Rig().ready()
    for number in range(KEPT_MAX + 3):
        one = key(attempt=number + 1)
        rig.cluster.pod_seen(
            pod(one, phase="Succeeded", end=failed(succeeded=True, finished_at=at(number / 1000))), rig.now
        )
    assert [call.name for call in rig.calls()] == [pod(key(attempt=n)).name for n in (1, 2, 3)]
