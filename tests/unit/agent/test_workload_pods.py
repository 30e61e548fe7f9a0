"""Gangs of ordinary pods, and which pod of an object is which slot of its job."""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.agent_workloads import POLICY as SEEN_POLICY
from kit.agent_workloads import WatchingAgent, has_asked, seen
from kit.kube.objects import asking_pod
from muster.agent.core.cluster import CreatePods, DeletePods, PodsExitedSeen
from muster.agent.core.kubernetes.calls import Delete, Merge, Refused
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.projections import PodProjection
from muster.agent.core.kubernetes.views import End, Owner, PodView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.agent.core.workload_values import Unfit, WorkloadKind, WorkloadPolicy, WorkloadView
from muster.agent.core.workloads.adopted_pods import WorkloadPods
from muster.agent.core.workloads.pod_gangs import AdoptedProjection, PodGangs
from muster.agent.core.workloads.workloads import Workloads
from muster.core import Instant
from muster.kube.objects import at, mapping
from muster.schemas.facts.job import JobStopRequested, StopReason
from muster.schemas.job import JobSpec, Slot, TaskGroup, WorkloadRef
from unit.agent.kubernetes.rig import SPACE, Manifests, Rig, slot

POLICY = WorkloadPolicy(cluster="local", teams={"physics": "physics"})
PROJECTION = PodProjection(adopted_of=AdoptedProjection(POLICY))
NOW = Instant(1)


def pod(name: str, *, gang: str = "", size: int = 0, gpus: int = 1, group: str = "") -> PodView:
    raw = asking_pod(name, gang=gang, size=size, gpus=gpus)
    mapping(raw, "metadata")["uid"] = f"uid-{name}"
    if group:
        mapping(raw, "metadata", "labels")["muster.dev/group"] = group
    return PROJECTION({**raw, "status": {"phase": "Pending"}})


def spoilt(name: str) -> PodView:
    """A pod of a gang of three that can be no job."""
    raw = asking_pod(name, gang="ring", size=3, gpus=1)
    mapping(raw, "metadata")["uid"] = f"uid-{name}"
    mapping(raw, "metadata", "labels")["muster.dev/priority"] = "nonsense"
    return PROJECTION({**raw, "status": {"phase": "Pending"}})


def made(name: str, labels: dict[str, str], *, owner: str = "u-1", node: str = "", **rest: object) -> PodView:
    """A pod that an object's controller made."""
    values: dict[str, object] = {
        "namespace": "physics", "name": name, "uid": f"uid-{name}", "node": node, "scheduler": "muster",
        "labels": tuple(labels.items()), "owner": Owner("Job", "j", owner), **rest,
    }  # fmt: skip
    return PodView(**values)  # type: ignore[arg-type]


def gangs(members: dict[str, tuple[str, ...]] | None = None) -> PodGangs:
    known = members or {}
    return PodGangs(POLICY, lambda uid: known.get(uid, ()))


def last(seen_so_far: Iterable[list[WorkloadView]]) -> WorkloadView:
    """What the last of these pods made."""
    [*_, [*_, found]] = seen_so_far
    return found


def order(kind: WorkloadKind, *groups: TaskGroup, attempt: int = 1, members: tuple[str, ...] = ()) -> CreatePods:
    origin = WorkloadRef(
        cluster="local", api_version="v1", kind=kind.value, namespace="physics", name="j", uid="u-1", members=members
    )
    spec = JobSpec(name="j", team="physics", task_groups=groups)
    slots = tuple(
        Slot(group=index, replica=replica, node=f"n{index}{replica}")
        for index, group in enumerate(groups)
        for replica in range(group.replicas)
    )
    return CreatePods("J" * 26, attempt, NOW, slots, spec, origin=origin)


@pytest.fixture
def adopted() -> WorkloadPods:
    return WorkloadPods(Worklist(), Workloads(SEEN_POLICY))


def asked(adopted: WorkloadPods, wanted: CreatePods) -> CreatePods:
    return has_asked(adopted._workloads, wanted)


def test_a_pod_alone_is_a_job_of_one_replica() -> None:
    workload = last([gangs().see(pod("one", gpus=3))])
    assert isinstance(workload.asks, JobSpec)
    assert (workload.uid, workload.name, workload.members) == ("uid-one", "one", ("uid-one",))
    assert workload.asks.task_groups[0].gpus == 3


def test_a_gang_asks_when_all_its_pods_are_there_whatever_their_order() -> None:
    known = gangs()
    for early in (pod("w-2", gang="ring", size=3), pod("w-10", gang="ring", size=3), pod("o-0", gang="pair", size=2)):
        [waits] = known.see(early)
        assert waits.asks is None
        assert f"until all {3 if early.name[0] == 'w' else 2} pods" in waits.note
    workload = last([known.see(pod("w-1", gang="ring", size=3))])
    assert workload.members == ("uid-w-1", "uid-w-2", "uid-w-10"), "numbers in names count as numbers"
    assert isinstance(workload.asks, JobSpec)
    assert workload.asks.task_groups[0].replicas == 3


def test_pods_of_other_shapes_are_groups_of_their_own() -> None:
    known = gangs()
    shapes = [("a", 1, ""), ("b", 8, ""), ("c", 1, ""), ("d", 0, "launcher")]
    workload = last([known.see(pod(name, gang="mix", size=4, gpus=gpus, group=group)) for name, gpus, group in shapes])
    assert isinstance(workload.asks, JobSpec)
    assert [(group.name, group.replicas, group.gpus) for group in workload.asks.task_groups] == [
        ("main", 2, 1), ("main-2", 1, 8), ("launcher", 1, 0),
    ]  # fmt: skip
    assert workload.members == ("uid-a", "uid-c", "uid-b", "uid-d"), "in the order of the slots"


def test_one_pod_that_can_be_no_job_makes_none_of_its_gang() -> None:
    known = gangs()
    bad = asking_pod("b", gang="ring", size=2, nodeSelector={"zone": "a"})
    mapping(bad, "metadata")["uid"] = "uid-b"
    known.see(pod("a", gang="ring", size=2))
    workload = last([known.see(PROJECTION({**bad, "status": {"phase": "Pending"}}))])
    assert isinstance(workload.asks, Unfit)
    assert "pod b" in workload.asks.reason


def test_a_gang_that_can_be_no_job_asks_when_the_pod_that_spoils_it_is_mended() -> None:
    known = gangs()
    names = ("a", "b", "c")
    spoiled = last([known.see(spoilt(name) if name == "a" else pod(name, gang="ring", size=3)) for name in names])
    assert isinstance(spoiled.asks, Unfit)
    still = last([known.see(pod("b", gang="ring", size=3))])
    assert (still.asks, still.members) == (spoiled.asks, spoiled.members), "an event of another pod mends nothing"
    mended = last([known.see(pod("a", gang="ring", size=3))])
    assert isinstance(mended.asks, JobSpec)
    assert mended.members == ("uid-a", "uid-b", "uid-c")


def test_of_a_gang_that_can_be_no_job_pods_that_leave_are_gathered_no_more() -> None:
    known = gangs()
    for name in ("a", "b", "c"):
        known.see(spoilt(name) if name == "a" else pod(name, gang="ring", size=3))
    known.lose("uid-c")
    known.see(replace(pod("b", gang="ring", size=3), ends_at=Instant(5)))
    assert last([known.see(pod("a", gang="ring", size=3))]).asks is None
    assert last([known.see(pod("d", gang="ring", size=3))]).asks is None
    assert last([known.see(pod("e", gang="ring", size=3))]).members == ("uid-a", "uid-d", "uid-e")


def test_more_pods_than_the_gang_has_wait_for_a_gang_of_their_own() -> None:
    known = gangs()
    first = last([known.see(pod(f"w-{n}", gang="ring", size=2)) for n in range(2)])
    assert last([known.see(pod("w-2", gang="ring", size=2))]).asks is None
    second = last([known.see(pod("w-3", gang="ring", size=2))])
    assert not set(first.members) & set(second.members)


def test_a_gang_that_lost_a_pod_is_going_and_one_that_lost_all_is_gone() -> None:
    known = gangs()
    for number in range(2):
        known.see(pod(f"w-{number}", gang="ring", size=2))
    left = known.lose("uid-w-0")
    assert isinstance(left, WorkloadView)
    assert (left.uid, left.deleting) == ("uid-w-0", True)
    assert known.lose("uid-w-1") == "uid-w-0"


def test_an_agent_that_comes_back_has_the_gang_as_the_log_has_it() -> None:
    members = ("uid-w-1", "uid-w-0")
    known = gangs(dict.fromkeys(members, members))
    first = last([known.see(pod("w-0", gang="ring", size=2))])
    assert (first.uid, first.deleting) == ("uid-w-1", True), "until the other one is seen"
    both = last([known.see(pod("w-1", gang="ring", size=2))])
    assert (both.uid, both.members, both.deleting) == ("uid-w-1", members, False)


def test_pods_of_one_gang_that_say_different_sizes_are_all_told() -> None:
    known = gangs()
    for name in ("a", "b"):
        known.see(pod(name, gang="ring", size=3))
    told = known.see(pod("c", gang="ring", size=2))
    assert {one.uid for one in told} == {"uid-a", "uid-b", "uid-c"}
    assert all(isinstance(one.asks, Unfit) for one in told)
    assert isinstance(last([known.see(pod("c", gang="ring", size=3))]).asks, JobSpec), "it was mended"


def test_events_of_members_that_change_nothing_say_nothing() -> None:
    known = gangs()
    members = [pod(f"w-{number}", gang="ring", size=3) for number in range(3)]
    last([known.see(one) for one in members])
    assert [known.see(replace(one, node="n1")) for one in members] == [[], [], []]
    assert last([known.see(replace(members[1], ends_at=Instant(5)))]).deleting
    ended = [known.see(replace(one, end=End(succeeded=True))) for one in members]
    assert ended[-1][-1].finished


@given(st.permutations([f"w-{number}" for number in range(6)]))
def test_a_gang_is_the_same_in_whatever_order_its_pods_are_seen(names: list[str]) -> None:
    known = gangs()
    workload = last([known.see(pod(name, gang="ring", size=6, gpus=int(name[-1]) % 2)) for name in names])
    assert workload.members == tuple(f"uid-w-{number}" for number in (0, 2, 4, 1, 3, 5))


def test_pods_of_an_indexed_job_are_told_by_their_index(adopted: WorkloadPods) -> None:
    wanted = asked(adopted, order(WorkloadKind.JOB, TaskGroup(replicas=3)))
    assert adopted.makes_own_pods(wanted)
    index = "batch.kubernetes.io/job-completion-index"
    assert adopted.place_of(wanted, made("a", {index: "2"})) == (0, 2)
    assert adopted.place_of(wanted, made("b", {index: "3"})) is None
    assert set(adopted.keys_of_order(wanted)) & set(adopted.keys_of_pod(made("a", {})))


def test_an_index_that_is_none_is_of_no_pod_however_long_it_is(adopted: WorkloadPods) -> None:
    """It may be an annotation, which everybody can write."""
    index, endless = "batch.kubernetes.io/job-completion-index", "9" * 5000
    wanted = asked(adopted, order(WorkloadKind.JOB, TaskGroup(replicas=3)))
    assert [adopted.place_of(wanted, made("a", {index: said})) for said in (endless, "-1", "x")] == [None] * 3
    group = {f"jobset.sigs.k8s.io/{name}": said for name, said in (
        ("jobset-name", "j"), ("replicatedjob-name", "main"), ("replicatedjob-replicas", "1"), ("job-index", "0"),
    )}  # fmt: skip
    assert (
        adopted.place_of(asked(adopted, order(WorkloadKind.JOB_SET, TaskGroup())), made("b", {**group, index: endless}))
        is None
    )


def test_pods_of_a_job_without_indexes_take_places_as_they_come(adopted: WorkloadPods) -> None:
    wanted = asked(adopted, order(WorkloadKind.JOB, TaskGroup(replicas=2)))
    assert [adopted.place_of(wanted, made(name, {})) for name in ("a", "b", "a", "c")] == [(0, 0), (0, 1), (0, 0), None]


def test_a_pod_that_is_bound_already_keeps_the_place_of_its_node(adopted: WorkloadPods) -> None:
    wanted = asked(adopted, order(WorkloadKind.JOB, TaskGroup(replicas=2)))
    assert adopted.place_of(wanted, made("b", {}, node="n01")) == (0, 1)


def test_pods_of_a_job_set_are_told_by_group_job_and_index(adopted: WorkloadPods) -> None:
    wanted = asked(adopted, order(WorkloadKind.JOB_SET, TaskGroup(name="driver"), TaskGroup(name="worker", replicas=6)))
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "j",
        "jobset.sigs.k8s.io/replicatedjob-name": "worker",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "2",
        "jobset.sigs.k8s.io/job-index": "1",
        "batch.kubernetes.io/job-completion-index": "2",
    }
    one = made("a", labels, owner="of-a-child-job")
    assert adopted.place_of(wanted, one) == (1, 5)
    assert set(adopted.keys_of_order(wanted)) & set(adopted.keys_of_pod(one))


def test_pods_of_an_mpi_job_are_told_by_role_and_index(adopted: WorkloadPods) -> None:
    wanted = asked(
        adopted, order(WorkloadKind.MPI_JOB, TaskGroup(name="launcher"), TaskGroup(name="worker", replicas=2))
    )
    labels = {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/job-role": "worker"}
    worker = made("a", {**labels, "training.kubeflow.org/replica-index": "1"})
    launcher = made("b", {**labels, "training.kubeflow.org/job-role": "launcher"}, owner="of-the-launchers-job")
    assert [adopted.place_of(wanted, one) for one in (worker, launcher)] == [(1, 1), (0, 0)]
    assert set(adopted.keys_of_order(wanted)) & set(adopted.keys_of_pod(launcher))


def test_pods_of_an_attempt_before_are_none_of_this_one(adopted: WorkloadPods) -> None:
    wanted = asked(adopted, order(WorkloadKind.JOB, TaskGroup(replicas=2)))
    index = {"batch.kubernetes.io/job-completion-index": "1"}
    assert adopted.place_of(wanted, made("leaves", index, ends_at=Instant(5))) is None
    assert adopted.place_of(wanted, made("failed", index, node="elsewhere", end=End(succeeded=False))) is None
    assert adopted.place_of(wanted, made("failed-here", index, node="n01", end=End(succeeded=False))) == (0, 1)


def calls(worklist: Worklist) -> list[Merge]:
    found: list[Merge] = []
    while (task := worklist.take(NOW)) is not None:
        assert isinstance(task.call, Merge)
        found.append(task.call)
    return found


def test_an_object_is_let_go_for_an_attempt_and_held_when_it_is_asked_to_stop() -> None:
    agent, worklist = WatchingAgent(), Worklist()
    adopted = WorkloadPods(worklist, agent.workloads)
    agent.see(seen(kind=WorkloadKind.JOB, suspended=True))
    job = agent.accept()
    wanted = order(WorkloadKind.JOB, TaskGroup())
    wanted = CreatePods(job.id, 1, NOW, wanted.slots, wanted.spec, origin=agent.asked().origin)
    adopted.begin(wanted, NOW)
    [call] = calls(worklist)
    assert at(call.body, "spec", "suspend") is False
    assert at(call.body, "metadata", "uid") == "u-1", "of no later object of its name"
    worklist.clear()
    agent.start(job, "gpu-0001")
    assert not adopted.stop(wanted, grace_s=1, now=NOW), "it ends by itself: its controller must see that unsuspended"
    agent.write("scheduler", "job", job.id, "stop-requested", JobStopRequested(attempt=1, reason=StopReason.PREEMPTED))
    assert adopted.stop(wanted, grace_s=1, now=NOW)
    assert adopted.stop(wanted, grace_s=1, now=NOW), "again is no second time"
    [call] = calls(worklist)
    assert at(call.body, "spec", "suspend") is True
    agent.workloads.see(seen(kind=WorkloadKind.JOB, suspended=True, deleting=True))
    assert not adopted.stop(wanted, grace_s=1, now=NOW), "what is being deleted may leave its pods behind"
    agent.workloads.lose("u-1")
    worklist.clear()
    adopted.clear()
    agent.workloads.forget_views()
    assert not adopted.stop(wanted, grace_s=1, now=NOW), "nobody can hold what is gone"


def test_pods_of_an_object_that_cannot_be_held_are_deleted_one_by_one() -> None:
    agent, worklist = WatchingAgent(), Worklist()
    adopted = WorkloadPods(worklist, agent.workloads)
    rig = Rig(
        KubernetesCluster(ClusterOptions("atlas", SPACE), Manifests(), worklist=worklist, adopted=adopted)
    ).ready()
    agent.see(seen(kind=WorkloadKind.JOB))
    job = agent.accept()
    agent.start(job, "n0")
    order = CreatePods(job.id, 1, NOW, (slot(0),), job.spec, origin=agent.asked().origin)
    rig.cluster.carry_out(order)
    rig.see(made("a", {}, node="n0", phase="Running", scheduler="muster"))
    rig.calls()
    rig.answer()
    agent.write("scheduler", "job", job.id, "stop-requested", JobStopRequested(attempt=1, reason=StopReason.CANCELLED))
    rig.cluster.carry_out(DeletePods(job.id, 1, rig.now))
    (holds,) = rig.calls()
    assert isinstance(holds, Merge)
    assert at(holds.body, "spec", "suspend") is True
    rig.answer(Refused(403, "Forbidden", "a webhook says no"))
    assert [call.name for call in rig.calls() if isinstance(call, Delete)] == ["a"]
    assert any("cannot be held: a webhook says no" in line for line in rig.cluster.notes.drain())
    rig.answer()
    rig.lose(made("a", {}, node="n0"))
    rig.cluster.acknowledge(PodsExitedSeen(job.id, rig.exit()), rig.now)
    assert not adopted._held


def test_an_object_that_cannot_be_let_go_gives_its_place_back(adopted: WorkloadPods) -> None:
    class Watching:
        reasons: ClassVar[list[str]] = []

        def is_ready(self, key: PodKey, now: Instant) -> None: ...

        def is_refused(self, key: PodKey, now: Instant, *, reason: str) -> None:
            assert now == NOW
            self.reasons.append(f"{key.job_id} {reason}")

        def goes_on(self, attempt: tuple[str, int], *, reason: str) -> None: ...

    worklist = Worklist()
    adopted = WorkloadPods(worklist, Workloads(SEEN_POLICY))
    adopted.watched_by(Watching())
    adopted.begin(order(WorkloadKind.JOB, TaskGroup()), NOW)
    task = worklist.take(NOW)
    assert task is not None
    worklist.finished(task, Refused(422, "Invalid", "a webhook says no"), NOW)
    assert Watching.reasons == [f"{'J' * 26} Job physics/j cannot be let go: a webhook says no"]


def test_jobs_of_people_and_muster_jobs_are_not_adopted(adopted: WorkloadPods) -> None:
    mine = order(WorkloadKind.MUSTER_JOB, TaskGroup())
    theirs = CreatePods("J" * 26, 1, NOW, mine.slots, mine.spec)
    for one in (mine, theirs):
        assert not adopted.makes_own_pods(one)
        assert adopted.keys_of_order(one) == ()
        adopted.begin(one, NOW)


def test_of_pods_that_may_not_be_taken_up_nobody_knows_that_they_are_gone() -> None:
    agent = WatchingAgent()
    agent.workloads.all_read()
    agent.workloads.see_pod(pod("solo"))
    agent.settle()
    agent.start(agent.accept("uid-solo"), "n0")
    agent.workloads.forget_views()
    agent.workloads.takes_pods = False
    agent.workloads.see_pod(pod("solo"))
    agent.workloads.all_read()
    agent.settle()
    assert agent.names("uid-solo") == ["submit-requested"]
    agent.workloads.forget_views()
    agent.workloads.takes_pods = True
    agent.workloads.all_read()
    agent.settle()
    assert agent.names("uid-solo") == ["submit-requested", "cancel-requested"], "who may take them up knows it"
