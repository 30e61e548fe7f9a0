"""What people ask of nodes, campaigns and brakes reaches its cluster as it was said, once, also over a checkpoint."""

from dataclasses import replace

from kit.federation import VirtualFederation
from muster.federation.core import MemberPlan
from muster.federation.core.requests import REQUESTS_KEPT
from muster.schemas.base import Payload
from muster.schemas.facts.health import BrakeResetRequested
from muster.schemas.facts.node import CordonRequested

TWO = (MemberPlan("atlas"), MemberPlan("boreas"))


def forwarded(world: VirtualFederation) -> list[tuple[str, str, str, Payload, tuple[str, ...]]]:
    return [
        (fact.cluster, fact.subject_id, fact.name, fact.payload, fact.causes)
        for fact in world.log
        if fact.writer == "federation"
    ]


def test_each_is_forwarded_once_to_the_cluster_that_it_names_or_to_every_one() -> None:
    world = VirtualFederation(members=TWO)
    drain = CordonRequested(principal="olga", reason="fan", cluster="boreas")
    reset = BrakeResetRequested(principal="olga")
    asked = world.write("gateway", "node", "n1", "drain-requested", drain)
    both = world.write("gateway", "health", "brake", "brake-reset-requested", reset)
    world.settle()
    assert forwarded(world) == [
        ("boreas", "n1", "drain-forwarded", drain, (asked.id,)),
        ("atlas", "brake", "brake-reset-forwarded", reset, (both.id,)),
        ("boreas", "brake", "brake-reset-forwarded", reset, (both.id,)),
    ]


def test_what_was_not_forwarded_yet_stands_in_a_checkpoint() -> None:
    world = VirtualFederation()
    payload = CordonRequested(principal="olga", cluster="atlas")
    asked = world.write("gateway", "node", "n1", "cordon-requested", payload)
    again = world.recover()
    drafts = [draft for draft in again.decide(world.now) if draft.kind == "node"]
    assert [(draft.name, draft.payload, draft.causes) for draft in drafts] == [
        ("cordon-forwarded", payload, (asked.id,))
    ]


def test_a_request_is_folded_once_also_over_a_checkpoint() -> None:
    """An old request that comes into the log again, however it got there, changes nothing."""
    world = VirtualFederation()
    old = world.write("gateway", "node", "n1", "cordon-requested", CordonRequested(principal="olga", cluster="atlas"))
    world.settle()
    world.write("gateway", "node", "n1", "resume-requested", CordonRequested(principal="olga", cluster="atlas"))
    world.settle()
    told = len(forwarded(world))
    world.core.apply(replace(old, seq=old.seq + 1_000))
    world.settle()
    assert len(forwarded(world)) == told
    assert world.core.state.anomalies["request folded before"] == 1
    again = world.recover()
    again.apply(replace(old, seq=old.seq + 1_001))
    assert not [draft for draft in again.decide(world.now) if draft.kind == "node"]


def test_so_many_requests_are_remembered_and_no_more() -> None:
    world = VirtualFederation()
    payload = CordonRequested(principal="olga", cluster="atlas")
    for number in range(3):
        world.write("gateway", "node", f"n{number}", "cordon-requested", payload)
    state = world.core.state
    state.requests = dict.fromkeys(map(str, range(REQUESTS_KEPT)))
    newest = world.write("gateway", "node", "n9", "cordon-requested", payload)
    assert len(state.requests) == REQUESTS_KEPT
    assert "0" not in state.requests
    assert newest.id in state.requests
