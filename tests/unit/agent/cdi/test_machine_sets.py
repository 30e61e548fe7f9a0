"""Nodes of groups by the replicas of MachineSets: each choice exactly once, whoever leads and whatever is lost."""

import pytest

from muster.agent.core.cluster import AddNode, CancelScale, NodeLeftSeen, NodeSeen, ProvisionFailedSeen, RemoveNode
from muster.agent.core.kubernetes.cdi.machine_sets import NO_MACHINE, Drift
from muster.bus.kubernetes_settings import KubernetesSettings, ScaleTargets
from muster.kube.permissions import Feature
from muster.schemas.facts.node import NodeJoined
from unit.agent.cdi.leader import Leader
from unit.agent.cdi.machine_yard import FIXED, GROUP, SET, START, Stored, Yard


def add(scale: str = "s1", *, group: str = GROUP) -> AddNode:
    return AddNode(scale, group, f"{group}-009", START)


def joined(node: str, scale: str) -> NodeSeen:
    return NodeSeen(node, NodeJoined(cpu_milli=1, memory_mib=1, scale=scale))


def test_a_node_is_asked_for_by_one_replica_more() -> None:
    yard = Yard(replicas=2)
    yard.core.carry_out(add())
    yard.run()
    assert yard.replicas_now() == 3
    yard.core.carry_out(add())
    yard.run()
    assert yard.replicas_now() == 3


def test_several_choices_go_in_one_patch() -> None:
    yard = Yard(replicas=2)
    before = len(yard.patches)
    for scale in ("s1", "s2", "s3"):
        yard.core.carry_out(add(scale))
    yard.run()
    assert yard.replicas_now() == 5
    assert len(yard.patches) == before + 1


def test_the_machine_that_comes_is_known_again_when_its_node_joins() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.follow()
    yard.run()
    assert yard.scales() == {"m1": "", "m2": "s1"}
    node = yard.become_node("m2")
    assert yard.core.scale_of(node) == "s1"
    assert yard.told == [node]
    yard.core.acknowledge(joined(node, "s1"), START)
    yard.run()
    assert yard.view().choices("muster.dev/adds") == ()
    assert yard.replicas_now() == 2


def test_a_machine_that_was_a_node_before_it_was_marked_is_found() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.follow()
    node = yard.become_node("m2")
    yard.run()
    assert yard.core.scale_of(node) == "s1"
    assert yard.scales()["m1"] == ""


def test_an_answer_that_was_lost_does_not_raise_twice() -> None:
    yard = Yard(replicas=1, loses=0)
    yard.loses = 1
    yard.core.carry_out(add())
    yard.run()
    yard.later(60)
    assert yard.replicas_now() == 2


def test_another_leader_goes_on_where_the_first_was() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.lead()
    yard.core.carry_out(add())
    yard.run()
    assert yard.replicas_now() == 2
    yard.follow()
    yard.run()
    yard.lead()
    yard.core.carry_out(add())
    assert yard.core.scale_of(yard.become_node("m2")) == "s1"


def test_what_nobody_waits_for_any_more_is_undone() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.follow()
    yard.run()
    yard.core.carry_out(CancelScale("s1"))
    yard.run()
    assert yard.replicas_now() == 1
    assert yard.follow() == ["m1"]


def test_a_choice_that_ended_while_nobody_led_is_undone_too() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.lead()
    yard.run()
    assert yard.replicas_now() == 1


def test_an_undone_choice_takes_no_machine_that_runs_though_its_own_is_not_known_yet() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.machines["m2"] = Stored({**yard.machines["m1"].body, "metadata": {**yard.machines["m1"].body["metadata"]}})
    yard.machines["m2"].body["metadata"].update({"name": "m2", "uid": "um2", "annotations": {}})
    yard.machines["m2"].body["status"] = {}
    yard.core.machine_seen(yard.machine(yard.machines["m2"]))  # and at once nobody waits for it any more
    yard.core.carry_out(CancelScale("s1"))
    yard.run()
    assert yard.replicas_now() == 1
    assert yard.follow() == ["m1"]


def test_an_undone_choice_of_which_no_machine_was_made_yet_lowers_at_once() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.core.carry_out(CancelScale("s1"))
    yard.run()
    assert yard.replicas_now() == 1
    assert yard.scales() == {"m1": ""}


def test_a_machine_that_somebody_deletes_is_not_made_anew() -> None:
    yard = Yard(replicas=2)
    yard.machines["m2"].body["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    yard.show()
    yard.core.carry_out(RemoveNode("s7", "node-of-m2", START))
    yard.run()
    assert yard.replicas_now() == 1


def test_a_number_that_nobody_can_read_is_none() -> None:
    yard = Yard(replicas=1)
    yard.set.body["metadata"]["annotations"]["muster.dev/replicas"] = "9" * 5_000
    yard.set.version += 1
    yard.show()
    yard.run()
    assert yard.view().own_replicas == 1


def test_a_node_that_came_stays_when_its_choice_ends() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.follow()
    yard.run()
    node = yard.become_node("m2")
    yard.core.acknowledge(joined(node, "s1"), START)
    yard.core.carry_out(CancelScale("s1"))
    yard.run()
    assert yard.replicas_now() == 2


def test_exactly_the_machine_of_the_node_goes() -> None:
    yard = Yard(replicas=3)
    yard.core.carry_out(RemoveNode("s7", "node-of-m2", START))
    yard.run()
    assert yard.replicas_now() == 2
    assert yard.follow() == ["m1", "m3"]
    yard.run()
    yard.core.acknowledge(NodeLeftSeen("node-of-m2"), START)
    yard.run()
    assert yard.replicas_now() == 2
    assert list(yard.core.observations()) == []


def test_another_leader_does_not_lower_twice() -> None:
    yard = Yard(replicas=3)
    yard.core.carry_out(RemoveNode("s7", "node-of-m2", START))
    yard.run()
    yard.lead()
    yard.core.carry_out(RemoveNode("s7", "node-of-m2", START))
    yard.run()
    yard.follow()
    yard.run()
    assert yard.replicas_now() == 2
    assert list(yard.core.observations()) == []


def test_a_node_of_no_machine_cannot_be_taken_away() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(RemoveNode("s7", "bare-metal-1", START))
    yard.run()
    assert [(one.scale, one.reason) for one in yard.core.observations()] == [("s7", NO_MACHINE)]
    assert yard.core.next_change() == 0


def test_a_group_without_a_machine_set_is_told() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add("s1", group="other"))
    (failed,) = yard.core.observations()
    assert "kubernetes.scaling.names" in failed.reason
    yard.core.acknowledge(failed, START)
    assert list(yard.core.observations()) == []


def test_a_machine_that_fails_is_told_and_given_up() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add())
    yard.run()
    yard.follow()
    yard.run()
    yard.machines["m2"].body["status"] = {"failureMessage": "no capacity in rack 7"}
    yard.show()
    yard.run()
    (failed,) = yard.core.observations()
    assert "no capacity in rack 7" in failed.reason
    yard.core.acknowledge(failed, START)
    yard.run()
    assert yard.replicas_now() == 1
    assert yard.follow() == ["m1"]


def test_a_refusal_is_not_asked_again_at_once() -> None:
    yard = Yard(replicas=1, refuses=0)
    yard.refuses = 1
    yard.core.carry_out(add())
    yard.run()
    assert yard.replicas_now() == 1
    yard.later(6)
    assert yard.replicas_now() == 2


class TestSomebodyElse:
    def test_who_raises_replicas_is_seen_until_the_machines_are_there(self) -> None:
        yard = Yard(replicas=2)
        assert list(yard.core.drifts()) == []
        yard.somebody_sets(4)
        yard.run()
        assert list(yard.core.drifts()) == [Drift(GROUP, SET, 2, 4)]
        yard.ready(4)
        yard.run()
        assert list(yard.core.drifts()) == []
        assert yard.replicas_now() == 4

    def test_a_choice_adds_to_what_somebody_else_asked_for(self) -> None:
        yard = Yard(replicas=2)
        yard.somebody_sets(4)
        yard.core.carry_out(add())
        yard.run()
        assert yard.replicas_now() == 5


class TestTheSpecThatIsShown:
    def test_a_composable_group_shows_a_fixed_spec(self) -> None:
        yard = Yard(replicas=1, fixed=FIXED)
        assert yard.view().annotations["muster.dev/spec"] == "spec-fixed"

    def test_it_is_put_back(self) -> None:
        yard = Yard(replicas=1, fixed=FIXED)
        yard.set.body["metadata"]["annotations"]["muster.dev/spec"] = "spec-set"
        yard.set.version += 1
        yard.show()
        yard.run()
        assert yard.view().annotations["muster.dev/spec"] == "spec-fixed"
        assert yard.replicas_now() == 1


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_is_written_that_is_so_already(count: int) -> None:
    yard = Yard(replicas=count)
    before = len(yard.patches)
    yard.later(100)
    yard.show()
    yard.run()
    assert len(yard.patches) == before


def test_a_failed_node_is_the_observation_of_its_scale() -> None:
    yard = Yard(replicas=1)
    yard.core.carry_out(add("s1", group="other"))
    assert next(iter(yard.core.observations())) == ProvisionFailedSeen(
        "s1", "other", "other-009", next(iter(yard.core.observations())).reason
    )


@pytest.mark.parametrize(
    ("api", "feature"),
    [
        ("cluster.x-k8s.io/v1beta1", Feature.MACHINES),
        ("machine.openshift.io/v1beta1", Feature.OPENSHIFT_MACHINES),
    ],
)
def test_machine_sets_and_machines_that_may_not_be_seen_are_not_missed(api: str, feature: Feature) -> None:
    targets = ScaleTargets.model_validate({"api": api, "names": {GROUP: SET}})
    leader = Leader(KubernetesSettings(image="busybox", scaling=targets))
    leader.machines.carry_out(add())
    leader.machines.carry_out(RemoveNode("s7", "node-of-m2", START))
    leader.begin(feature)
    assert leader.said() == []
    leader.begin()
    assert leader.said() == ["ProvisionFailedSeen", "ProvisionFailedSeen"]
