"""What every cluster keeps whose nodes can be checked and worked on. Give one that can restart nodes."""

from contract.cluster.suite import ClusterContract, moment
from muster.agent.core.cluster import Cluster, WorkOnNode, WorkSeen
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOrder,
    CheckOutcome,
    ChecksReported,
    ChecksRequested,
    NodeAction,
    NodeActionEnded,
    NodeActionRequested,
)


def reboot(request_id: str = "repair-1", *, limit_s: float = 600.0) -> WorkOnNode:
    asked = NodeActionRequested(request_id=request_id, action=NodeAction.REBOOT, limit_s=limit_s)
    return WorkOnNode("gpu-0001", request_id, moment(1), asked)


def look(request_id: str = "look-1", *, limit_s: float = 600.0) -> WorkOnNode:
    asked = ChecksRequested(request_id=request_id, checks=(CheckOrder(check="gpu-health"),), limit_s=limit_s)
    return WorkOnNode("gpu-0001", request_id, moment(1), asked)


class WorkedOnContract(ClusterContract):
    """Work takes at least 1 s and at most 300 s."""

    def ended(self, cluster: Cluster, *effects: WorkOnNode, at_s: float = 302) -> list[WorkSeen]:
        for effect in effects:
            cluster.carry_out(effect)
        return [seen for seen in self.settle(cluster, at_s) if isinstance(seen, WorkSeen)]

    def test_an_action_is_seen_to_end_until_that_is_acknowledged(self) -> None:
        cluster = self.joined()
        (seen,) = self.ended(cluster, reboot())
        assert isinstance(seen.ended, NodeActionEnded)
        assert (seen.node, seen.ended.request_id, seen.ended.outcome) == ("gpu-0001", "repair-1", ActionOutcome.DONE)
        assert self.ended(cluster, at_s=303) == [seen]
        cluster.acknowledge(seen, moment(303))
        assert self.ended(cluster, at_s=900) == []

    def test_nothing_is_done_before_its_time(self) -> None:
        assert self.ended(self.joined(), reboot(), at_s=1) == []

    def test_asking_again_is_no_second_time(self) -> None:
        cluster = self.joined()
        assert len(self.ended(cluster, reboot(), reboot())) == 1

    def test_checks_of_a_node_tell_each_of_them(self) -> None:
        (seen,) = self.ended(self.joined(), look())
        assert isinstance(seen.ended, ChecksReported)
        assert [(one.node, one.check, one.outcome) for one in seen.ended.results] == [
            ("gpu-0001", "gpu-health", CheckOutcome.PASS)
        ]

    def test_requests_of_one_node_are_apart(self) -> None:
        seen = self.ended(self.joined(), reboot(), look(), reboot("repair-2"))
        assert {one.request_id for one in seen} == {"repair-1", "look-1", "repair-2"}

    def test_what_takes_longer_than_its_limit_failed_or_could_not_run(self) -> None:
        cluster = self.joined()
        ends = {one.request_id: one.ended for one in self.ended(cluster, reboot(limit_s=0.5), look(limit_s=0.5))}
        assert isinstance(ends["repair-1"], NodeActionEnded)
        assert isinstance(ends["look-1"], ChecksReported)
        assert ends["repair-1"].outcome is ActionOutcome.FAILED
        assert [one.outcome for one in ends["look-1"].results] == [CheckOutcome.CANNOT_RUN]
