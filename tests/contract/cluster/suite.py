"""What every cluster backend keeps. A backend inherits `ClusterContract` and says how it is made and how time passes.

Moments are whole seconds from START. `settle(cluster, s)` brings the world to that moment and returns what is then so
and not acknowledged.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from muster.agent.core.cluster import (
    CheckpointSeen,
    Cluster,
    CreatePods,
    DeletePods,
    NodeLeftSeen,
    NodeLostSeen,
    NodeReturnedSeen,
    NodeSeen,
    Observation,
    PodsExitedSeen,
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
)
from muster.core import NS_PER_S, Instant
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Checkpointing, JobSpec, Slot, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S

START_S = 1_700_000_000
JOB = "J" * 26
LONG_S = 1000.0


def moment(seconds: float) -> Instant:
    return Instant(round((START_S + seconds) * NS_PER_S))


def create(
    *,
    at_s: float = 0,
    attempt: int = 1,
    run_s: float = LONG_S,
    exit_code: int = 0,
    job_id: str = JOB,
    checkpoint_s: float = 0,
    resumed_s: float = 0,
) -> CreatePods:
    """checkpoint_s: interval of its checkpoints, 0 for none; it comes back within 20 s."""
    labels = {RUN_S: str(run_s), EXIT_CODE: str(exit_code)}
    saves = Checkpointing(interval_s=checkpoint_s, restart_s=20.0) if checkpoint_s else None
    spec = JobSpec(name="job", team="blue", task_groups=(TaskGroup(gpus=1),), labels=labels, checkpointing=saves)
    return CreatePods(job_id, attempt, moment(at_s), (at_device(1),), spec, resumed_s=resumed_s)


def at_device(device: int, *, replica: int = 0, node: str = "gpu-0001") -> Slot:
    return Slot(group=0, replica=replica, node=node, devices=(device,), gpu_milli=1000)


def resize(*slots: Slot, at_s: float) -> ResizePods:
    return ResizePods(JOB, 1, moment(at_s), slots)


class ClusterContract(ABC):
    """Inherit it, and give a cluster of the nodes gpu-0001 and gpu-0002 whose pods start within 10 s."""

    @abstractmethod
    def new_cluster(self) -> Cluster: ...

    @abstractmethod
    def lose_node(self, cluster: Cluster, node: str, *, at_s: float) -> None:
        """From then on the node does not answer, and comes back within 500 s."""

    def settle(self, cluster: Cluster, at_s: float) -> Sequence[Observation]:
        return cluster.observe(moment(at_s))

    def joined(self) -> Cluster:
        cluster = self.new_cluster()
        for seen in self.settle(cluster, 0):
            cluster.acknowledge(seen, moment(0))
        return cluster

    def running(self, **wanted: float | int) -> Cluster:
        """One attempt whose start was seen and acknowledged at 10 s."""
        cluster = self.joined()
        cluster.carry_out(create(**wanted))  # type: ignore[arg-type] - only numbers are passed on
        (started,) = self.settle(cluster, 10)
        assert isinstance(started, PodsStartedSeen)
        cluster.acknowledge(started, moment(10))
        return cluster

    def test_every_node_is_seen_until_it_is_acknowledged(self) -> None:
        cluster = self.new_cluster()
        first = self.settle(cluster, 0)
        assert [seen.node for seen in first if isinstance(seen, NodeSeen)] == ["gpu-0001", "gpu-0002"]
        assert self.settle(cluster, 1) == first
        cluster.acknowledge(first[0], moment(1))
        assert self.settle(cluster, 2) == first[1:]

    def test_a_node_that_the_log_describes_otherwise_is_seen_as_it_is(self) -> None:
        cluster = self.joined()
        cluster.acknowledge(NodeSeen("gpu-0002", NodeJoined(cpu_milli=1, memory_mib=1)), moment(1))
        (seen,) = self.settle(cluster, 2)
        assert isinstance(seen, NodeSeen)
        assert (seen.node, len(seen.description.gpu_uuids)) == ("gpu-0002", 8)

    def test_a_node_that_only_the_log_knows_is_seen_to_have_left(self) -> None:
        cluster = self.joined()
        cluster.acknowledge(NodeSeen("gpu-0099", NodeJoined(cpu_milli=1, memory_mib=1)), moment(1))
        (seen,) = self.settle(cluster, 2)
        assert isinstance(seen, NodeLeftSeen)
        cluster.acknowledge(seen, moment(2))
        assert self.settle(cluster, 3) == ()

    def test_a_lost_node_is_seen_lost_and_then_returned(self) -> None:
        cluster = self.joined()
        self.lose_node(cluster, "gpu-0002", at_s=1)
        lost = [seen for seen in self.settle(cluster, 2) if isinstance(seen, NodeLostSeen)]
        for seen in lost:
            cluster.acknowledge(seen, moment(2))
        (returned,) = self.settle(cluster, 600)
        assert returned == NodeReturnedSeen("gpu-0002")
        cluster.acknowledge(returned, moment(600))
        assert self.settle(cluster, 601) == ()

    def test_pods_start_and_show_their_devices(self) -> None:
        cluster = self.joined()
        cluster.carry_out(create())
        (started,) = self.settle(cluster, 10)
        assert isinstance(started, PodsStartedSeen)
        assert len(started.device_uuids) == 1
        assert len(started.device_uuids[0]) == 1
        assert started.device_uuids[0][0].startswith("GPU-")

    def test_a_start_is_seen_until_it_is_acknowledged_and_then_no_more(self) -> None:
        cluster = self.joined()
        cluster.carry_out(create())
        first = self.settle(cluster, 10)
        assert self.settle(cluster, 11) == first
        cluster.acknowledge(first[0], moment(11))
        assert self.settle(cluster, 12) == ()

    def test_pods_end_by_themselves_with_their_exit_code(self) -> None:
        cluster = self.running(run_s=5.0, exit_code=3)
        (ended,) = self.settle(cluster, 20)
        assert isinstance(ended, PodsExitedSeen)
        assert (ended.exited.outcome, ended.exited.exit_code) == (PodsOutcome.FAILED, 3)
        assert self.settle(cluster, 21) == (ended,)
        cluster.acknowledge(ended, moment(21))
        assert self.settle(cluster, 9999) == ()

    def test_creating_again_makes_nothing_twice(self) -> None:
        cluster = self.joined()
        cluster.carry_out(create())
        cluster.carry_out(create())
        assert len(self.settle(cluster, 10)) == 1
        cluster.acknowledge(self.settle(cluster, 10)[0], moment(10))
        cluster.carry_out(create())
        assert self.settle(cluster, 30) == ()

    def test_deleting_ends_running_pods_once(self) -> None:
        cluster = self.running()
        cluster.carry_out(DeletePods(JOB, 1, moment(30)))
        cluster.carry_out(DeletePods(JOB, 1, moment(31)))
        (ended,) = self.settle(cluster, 60)
        assert isinstance(ended, PodsExitedSeen)
        assert (ended.exited.outcome, ended.exited.ran_s) == (PodsOutcome.STOPPED, 20.0)
        cluster.acknowledge(ended, moment(60))
        assert self.settle(cluster, 9999) == ()

    def test_deleting_before_the_start_is_an_exit_without_a_start(self) -> None:
        cluster = self.joined()
        cluster.carry_out(create())
        cluster.carry_out(DeletePods(JOB, 1, moment(0)))
        (ended,) = self.settle(cluster, 60)
        assert isinstance(ended, PodsExitedSeen)
        assert (ended.exited.outcome, ended.exited.ran_s) == (PodsOutcome.STOPPED, 0.0)

    def test_deleting_after_a_start_that_was_not_acknowledged_overtakes_it(self) -> None:
        cluster = self.joined()
        cluster.carry_out(create())
        assert isinstance(self.settle(cluster, 10)[0], PodsStartedSeen)
        cluster.carry_out(DeletePods(JOB, 1, moment(11)))
        assert [type(seen) for seen in self.settle(cluster, 60)] == [PodsExitedSeen]

    def test_a_start_that_was_told_while_the_pods_are_ending_is_not_a_second_life(self) -> None:
        """The log may have `stop-requested` and then the `pods-started` that was decided before it."""
        cluster = self.joined()
        cluster.carry_out(create(run_s=5.0))
        started = self.settle(cluster, 10)[0]
        cluster.carry_out(DeletePods(JOB, 1, moment(10)))
        cluster.acknowledge(started, moment(11))
        (ended,) = self.settle(cluster, 60)
        assert isinstance(ended, PodsExitedSeen)
        assert ended.exited.outcome is PodsOutcome.STOPPED

    def test_acknowledging_a_start_again_does_not_prolong_the_run(self) -> None:
        cluster = self.running(run_s=20.0)
        cluster.acknowledge(PodsStartedSeen(JOB, 1), moment(25))
        assert [type(seen) for seen in self.settle(cluster, 31)] == [PodsExitedSeen]

    def test_deleting_for_a_lost_node_says_which(self) -> None:
        cluster = self.running()
        cluster.carry_out(DeletePods(JOB, 1, moment(30), lost_node="gpu-0001"))
        (ended,) = self.settle(cluster, 60)
        assert isinstance(ended, PodsExitedSeen)
        assert (ended.exited.outcome, ended.exited.node) == (PodsOutcome.NODE_LOST, "gpu-0001")

    def test_an_end_before_the_deletion_stands(self) -> None:
        cluster = self.running(run_s=5.0)
        cluster.carry_out(DeletePods(JOB, 1, moment(30)))
        (ended,) = self.settle(cluster, 60)
        assert isinstance(ended, PodsExitedSeen)
        assert ended.exited.outcome is PodsOutcome.SUCCEEDED

    def test_deleting_what_does_not_exist_does_nothing(self) -> None:
        cluster = self.joined()
        cluster.carry_out(DeletePods(JOB, 1, moment(0)))
        assert self.settle(cluster, 60) == ()

    def test_attempts_of_one_job_are_apart(self) -> None:
        cluster = self.running()
        cluster.carry_out(DeletePods(JOB, 1, moment(11)))
        cluster.acknowledge(self.settle(cluster, 12)[0], moment(12))
        cluster.carry_out(create(attempt=2, at_s=12))
        (started,) = self.settle(cluster, 30)
        assert isinstance(started, PodsStartedSeen)
        assert started.attempt == 2

    def test_pods_end_within_the_grace_after_the_notice(self) -> None:
        cluster = self.running()
        cluster.carry_out(DeletePods(JOB, 1, moment(30), grace_s=10.0))
        (ended,) = self.settle(cluster, 41)
        assert isinstance(ended, PodsExitedSeen)
        assert ended.exited.outcome is PodsOutcome.STOPPED
        assert 20.0 <= ended.exited.ran_s <= 30.0

    def test_a_job_that_saves_its_work_writes_a_checkpoint_within_the_grace_and_ends(self) -> None:
        cluster = self.running(checkpoint_s=600.0)
        cluster.carry_out(DeletePods(JOB, 1, moment(30), grace_s=10.0))
        assert self.settle(cluster, 30) == ()
        (saved,) = self.settle(cluster, 41)
        assert saved == CheckpointSeen(JOB, 1)
        cluster.acknowledge(saved, moment(41))
        (ended,) = self.settle(cluster, 42)
        assert isinstance(ended, PodsExitedSeen)
        assert 20.0 < ended.exited.ran_s <= 30.0

    def test_an_end_of_its_own_within_the_grace_stands(self) -> None:
        cluster = self.running(run_s=20.1, checkpoint_s=600.0)
        cluster.carry_out(DeletePods(JOB, 1, moment(30), grace_s=10.0))
        (ended,) = self.settle(cluster, 41)
        assert isinstance(ended, PodsExitedSeen)
        assert ended.exited.outcome is PodsOutcome.SUCCEEDED

    def test_a_node_that_is_lost_within_the_grace_ends_it_at_once(self) -> None:
        cluster = self.running(checkpoint_s=600.0)
        cluster.carry_out(DeletePods(JOB, 1, moment(30), grace_s=10.0))
        cluster.carry_out(DeletePods(JOB, 1, moment(30), lost_node="gpu-0001"))
        (ended,) = self.settle(cluster, 30)
        assert isinstance(ended, PodsExitedSeen)
        assert (ended.exited.outcome, ended.exited.ran_s) == (PodsOutcome.NODE_LOST, 20.0)

    def test_checkpoints_are_seen_about_every_interval_each_until_it_is_acknowledged(self) -> None:
        cluster = self.running(checkpoint_s=100.0)
        assert self.settle(cluster, 100) == ()
        (saved,) = self.settle(cluster, 120)
        assert saved == CheckpointSeen(JOB, 1)
        assert self.settle(cluster, 121) == (saved,)
        cluster.acknowledge(saved, moment(121))
        assert self.settle(cluster, 210) == ()
        assert self.settle(cluster, 232) == (saved,)

    def test_a_resumed_run_does_only_what_was_not_saved(self) -> None:
        cluster = self.running(run_s=100.0, checkpoint_s=600.0, resumed_s=70.0)
        assert self.settle(cluster, 39) == ()
        (ended,) = self.settle(cluster, 61)
        assert isinstance(ended, PodsExitedSeen)
        assert 30.0 <= ended.exited.ran_s <= 50.0, "30 s of work and up to 20 s to come back"

    def test_a_resize_is_seen_once_its_pods_run(self) -> None:
        cluster = self.running()
        cluster.carry_out(resize(at_device(1), at_device(2, replica=1), at_s=11))
        (resized,) = self.settle(cluster, 30)
        assert resized == PodsResizedSeen(JOB, 1, 2)
        cluster.acknowledge(resized, moment(30))
        assert self.settle(cluster, 31) == ()

    def test_of_two_resizes_the_later_counts(self) -> None:
        cluster = self.running()
        cluster.carry_out(resize(at_device(1), at_device(2, replica=1), at_s=11))
        cluster.carry_out(resize(*(at_device(n, replica=n) for n in range(4)), at_s=12))
        assert self.settle(cluster, 30) == (PodsResizedSeen(JOB, 1, 4),)

    def test_an_end_overtakes_a_resize(self) -> None:
        cluster = self.running()
        cluster.carry_out(resize(at_device(2), at_s=11))
        cluster.carry_out(DeletePods(JOB, 1, moment(11)))
        cluster.carry_out(resize(at_device(3), at_s=12))
        assert [type(seen) for seen in self.settle(cluster, 60)] == [PodsExitedSeen]

    def test_resizing_what_does_not_exist_does_nothing(self) -> None:
        cluster = self.joined()
        cluster.carry_out(resize(at_device(1), at_s=1))
        assert self.settle(cluster, 60) == ()

    def test_it_says_when_to_look_again(self) -> None:
        cluster = self.joined()
        cluster.carry_out(create())
        wakeup = cluster.next_change()
        assert wakeup is not None
        assert cluster.observe(Instant(wakeup - 1)) == ()
        assert len(cluster.observe(wakeup)) == 1

    def test_another_one_that_is_told_the_same_shows_the_same(self) -> None:
        cluster, other = (self.running(run_s=50.0, checkpoint_s=30.0) for _ in range(2))
        assert other.next_change() == cluster.next_change()
        assert self.settle(other, 100) == self.settle(cluster, 100)
