"""Attempts of a job whose object makes the pods: what one attempt leaves, the next one finds."""

from dataclasses import replace

import pytest

from kit.agent_workloads import POLICY, has_asked
from muster.agent.core.cluster import CreatePods, PodsExitedSeen, PodsStartedSeen
from muster.agent.core.kubernetes.calls import Bind, Call, Merge
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.names import COMPLETION_INDEX
from muster.agent.core.kubernetes.views import End, Owner, PodView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.agent.core.workloads.adopted_pods import WorkloadPods
from muster.agent.core.workloads.workloads import Workloads
from muster.core import Instant
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.job import JobSpec, TaskGroup, WorkloadRef
from unit.agent.kubernetes.rig import JOB, SPACE, Manifests, Rig, at, failed, slot

DONE = End(succeeded=True, finished_at=at(10))
ORIGIN = WorkloadRef(cluster="local", api_version="batch/v1", kind="Job", namespace=SPACE, name="j", uid="u-1")


def new_rig() -> Rig:
    worklist = Worklist()
    workloads = Workloads(POLICY)
    adopted = WorkloadPods(worklist, workloads)
    rig = Rig(
        KubernetesCluster(ClusterOptions("atlas", SPACE), Manifests(), worklist=worklist, adopted=adopted)
    ).ready()
    has_asked(workloads, order(rig, 1))
    return rig


def order(rig: Rig, attempt: int) -> CreatePods:
    spec = JobSpec(name="j", team="blue", task_groups=(TaskGroup(gpus=1, replicas=2),))
    return CreatePods(JOB, attempt, rig.now, (slot(0), slot(1)), spec, origin=ORIGIN)


def made(name: str, index: int, **rest: object) -> PodView:
    view = PodView(
        SPACE,
        name,
        f"uid-{name}",
        scheduler="muster",
        labels=((COMPLETION_INDEX, str(index)),),
        owner=Owner("Job", "j", "u-1"),
    )
    return replace(view, **rest)  # type: ignore[arg-type] - fields of a view


def binds(calls: list[Call]) -> list[tuple[str, str]]:
    return [(call.name, call.node) for call in calls if isinstance(call, Bind)]


def begin(rig: Rig, attempt: int) -> list[tuple[str, str]]:
    """What is bound at once where an attempt begins."""
    rig.cluster.carry_out(order(rig, attempt))
    calls = rig.calls()
    assert any(isinstance(call, Merge) for call in calls), "its object is let go"
    rig.answer()
    return binds([*calls, *rig.calls()])


def first_attempt() -> Rig:
    """Index 0 is done, index 1 failed and was made anew before the exit was told."""
    rig = new_rig()
    assert begin(rig, 1) == []
    rig.see(made("a", 0), made("b", 1))
    assert binds(rig.calls()) == [("a", "n0"), ("b", "n1")]
    rig.answer()
    rig.now_s = 20.0
    rig.see(
        made("a", 0, node="n0", phase="Succeeded", end=DONE),
        made("b", 1, node="n1", phase="Failed", end=failed(code=3, finished_at=at(19))),
        made("c", 1),
    )
    exited = rig.exit()
    assert exited.outcome is PodsOutcome.FAILED
    rig.cluster.acknowledge(PodsExitedSeen(JOB, exited), rig.now)
    rig.now_s = 30.0
    return rig


def test_what_an_earlier_attempt_finished_is_done_and_what_was_made_anew_is_bound() -> None:
    rig = first_attempt()
    assert begin(rig, 2) == [("c", "n1")]
    rig.answer()
    rig.see(made("c", 1, node="n1", phase="Running"))
    (started,) = rig.observe()
    assert started == PodsStartedSeen(JOB, 2, ((), ()))
    rig.cluster.acknowledge(started, rig.now)
    rig.see(made("c", 1, node="n1", phase="Succeeded", end=replace(DONE, finished_at=at(40))))
    assert rig.exit().outcome is PodsOutcome.SUCCEEDED


def test_a_new_leader_tells_the_attempts_apart() -> None:
    rig = first_attempt()
    begin(rig, 2)
    rig.cluster.reset()
    rig.tasks.clear()
    rig.see(
        made("a", 0, node="n0", phase="Succeeded", end=DONE),
        made("b", 1, node="n1", phase="Failed", end=failed(code=3, finished_at=at(19))),
        made("c", 1),
    )
    rig.ready()
    calls = rig.calls()
    rig.answer()
    assert binds([*calls, *rig.calls()]) == [("c", "n1")]
    assert rig.observe() == ()


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    rig = first_attempt()
    for name, index in (("a", 0), ("b", 1), ("c", 1)):
        rig.lose(made(name, index))
    index = rig.cluster.gangs._slots._index
    assert not any((index.views, index._unclaimed, index._claimed, index._adopted_of))
    assert begin(rig, 2) == []


def test_a_pod_that_failed_before_the_attempt_is_none_of_it() -> None:
    rig = new_rig()
    rig.now_s = 30.0
    assert begin(rig, 2) == []
    failure = failed(code=1, finished_at=Instant(at(30) - 10**9))
    rig.see(made("old", 0, node="n0", phase="Failed", end=failure), made("a", 0), made("b", 1))
    assert binds(rig.calls()) == [("a", "n0"), ("b", "n1")]


def both_run() -> Rig:
    """Both pods of an attempt run, and the log knows that."""
    rig = new_rig()
    begin(rig, 1)
    rig.see(made("a", 0), made("b", 1))
    rig.calls()
    rig.answer()
    rig.see(made("a", 0, node="n0", phase="Running"), made("b", 1, node="n1", phase="Running"))
    (started,) = rig.observe()
    rig.cluster.acknowledge(started, rig.now)
    return rig


@pytest.mark.parametrize("is_first", [True, False], ids=["and then what is made anew", "after what was made anew"])
def test_a_new_leader_waits_for_pods_that_the_old_one_told_to_end(is_first: bool) -> None:
    rig = both_run()
    rig.delete(grace_s=30)
    rig.cluster.reset()
    rig.tasks.clear()
    leaving = made("a", 0, node="n0", phase="Running", ends_at=at(30), grace_s=30)
    rig.see(*((leaving, made("c", 0)) if is_first else (made("c", 0), leaving)))
    rig.ready()
    rig.calls()
    rig.answer()
    rig.lose(made("c", 0))
    assert rig.observe() == (), "one of them still runs"
    rig.lose(leaving)
    assert rig.exit().outcome is PodsOutcome.STOPPED


def test_an_object_that_was_not_let_go_yet_is_not_let_go_by_an_attempt_that_ended() -> None:
    rig = new_rig()
    rig.cluster.carry_out(order(rig, 1))
    rig.cluster.settle(rig.now)
    rig.delete()
    assert not any(isinstance(call, Merge) for call in rig.calls())
    assert rig.exit().outcome is PodsOutcome.STOPPED


@pytest.mark.parametrize("kind", ["Job", "MusterJob", "Pod", "Whatever"])
@pytest.mark.parametrize(
    "changes", [{"uid": "u-2"}, {"namespace": "payroll"}, {"cluster": "other"}], ids=lambda one: next(iter(one))
)
def test_a_job_that_its_object_never_asked_for_gets_nothing(kind: str, changes: dict[str, str]) -> None:
    """Whoever sent it: its pods could name what is in the object's namespace, and the object would be let go."""
    rig = new_rig()
    rig.see(made("a", 0), made("b", 1))
    planted = ORIGIN.model_copy(update={"kind": kind, "members": ("uid-a", "uid-b"), **changes})
    rig.cluster.carry_out(replace(order(rig, 1), origin=planted))
    assert rig.calls() == []
    exited = rig.exit()
    assert exited.outcome is PodsOutcome.FAILED
    assert "never asked for this job here" in exited.reason
