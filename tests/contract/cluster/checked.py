"""What every cluster keeps that checks attempts before their first step. Inherit it, and give a cluster that does."""

from abc import abstractmethod
from dataclasses import replace

from contract.cluster.suite import JOB, ClusterContract, create, moment
from muster.agent.core.cluster import (
    ChecksSeen,
    Cluster,
    CreatePods,
    DeletePods,
    OpenGate,
    PodsExitedSeen,
    PodsStartedSeen,
)
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, PreflightPlan

PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"), CheckOrder(check="gpu-health")))


def to_check(*, run_s: float = 1000.0, at_s: float = 0) -> CreatePods:
    return replace(create(run_s=run_s, at_s=at_s), preflight=PLAN)


class CheckedContract(ClusterContract):
    """Checks take at most 10 s."""

    @abstractmethod
    def failing_cluster(self) -> Cluster:
        """Where check `gpu-health` fails on node gpu-0001."""

    def checked(self, cluster: Cluster, *, run_s: float = 1000.0) -> ChecksSeen:
        """Started at 10 s, and what the checks found at 20 s."""
        for seen in self.settle(cluster, 0):
            cluster.acknowledge(seen, moment(0))
        cluster.carry_out(to_check(run_s=run_s))
        (started,) = self.settle(cluster, 10)
        assert isinstance(started, PodsStartedSeen)
        cluster.acknowledge(started, moment(10))
        (found,) = self.settle(cluster, 20)
        assert isinstance(found, ChecksSeen)
        return found

    def test_every_check_of_the_plan_is_told_of_its_node(self) -> None:
        found = self.checked(self.new_cluster())
        assert [(one.node, one.check, one.outcome) for one in found.results] == [
            ("gpu-0001", "device-count", CheckOutcome.PASS),
            ("gpu-0001", "gpu-health", CheckOutcome.PASS),
        ]
        assert found.is_last

    def test_what_was_found_is_seen_until_it_is_acknowledged_and_then_no_more(self) -> None:
        cluster = self.new_cluster()
        found = self.checked(cluster)
        assert self.settle(cluster, 21) == (found,)
        cluster.acknowledge(found, moment(21))
        assert self.settle(cluster, 22) == ()

    def test_a_check_that_fails_is_told_and_ends_nothing_by_itself(self) -> None:
        cluster = self.failing_cluster()
        found = self.checked(cluster)
        assert [one.outcome for one in found.results] == [CheckOutcome.PASS, CheckOutcome.FAIL]
        cluster.acknowledge(found, moment(20))
        assert self.settle(cluster, 5000) == ()

    def test_the_first_step_waits_for_the_gate_and_runs_its_whole_time_from_there(self) -> None:
        cluster = self.new_cluster()
        cluster.acknowledge(self.checked(cluster, run_s=50.0), moment(20))
        assert self.settle(cluster, 200) == ()
        cluster.carry_out(OpenGate(JOB, 1, moment(200)))
        cluster.carry_out(OpenGate(JOB, 1, moment(201)))
        assert self.settle(cluster, 245) == ()
        (ended,) = self.settle(cluster, 260)
        assert isinstance(ended, PodsExitedSeen)
        assert ended.exited.outcome is PodsOutcome.SUCCEEDED
        assert 50 <= ended.exited.ran_s <= 52

    def test_an_attempt_that_is_ended_before_its_first_step_ran_for_no_time(self) -> None:
        cluster = self.new_cluster()
        cluster.acknowledge(self.checked(cluster), moment(20))
        cluster.carry_out(DeletePods(JOB, 1, moment(30)))
        (ended,) = self.settle(cluster, 60)
        assert isinstance(ended, PodsExitedSeen)
        assert (ended.exited.outcome, ended.exited.ran_s) == (PodsOutcome.STOPPED, 0.0)

    def test_a_gate_of_what_does_not_exist_or_needs_none_does_nothing(self) -> None:
        cluster = self.running(run_s=50.0)
        cluster.carry_out(OpenGate(JOB, 1, moment(11)))
        cluster.carry_out(OpenGate(JOB, 7, moment(11)))
        assert self.settle(cluster, 12) == ()
