"""What people ask of nodes, campaigns and brakes reaches its cluster as it was said, once, also over a checkpoint."""

from muster.federation.core import MemberPlan
from muster.schemas.base import Payload
from muster.schemas.facts.cordons import CordonRequested
from muster.schemas.facts.health import BrakeResetRequested
from unit.federation.world import World

TWO = (MemberPlan("atlas"), MemberPlan("boreas"))


def forwarded(world: World) -> list[tuple[str, str, str, Payload, tuple[str, ...]]]:
    return [
        (fact.cluster, fact.subject_id, fact.name, fact.payload, fact.causes)
        for fact in world.log
        if fact.writer == "federation"
    ]


def test_each_is_forwarded_once_to_the_cluster_that_it_names_or_to_every_one() -> None:
    world = World(members=TWO)
    drain = CordonRequested(principal="olga", reason="fan", cluster="boreas")
    reset = BrakeResetRequested(principal="olga")
    asked = world.say("gateway", "node", "n1", "drain-requested", drain)
    both = world.say("gateway", "health", "brake", "brake-reset-requested", reset)
    world.run()
    assert forwarded(world) == [
        ("boreas", "n1", "drain-forwarded", drain, (asked.id,)),
        ("atlas", "brake", "brake-reset-forwarded", reset, (both.id,)),
        ("boreas", "brake", "brake-reset-forwarded", reset, (both.id,)),
    ]


def test_what_was_not_forwarded_yet_stands_in_a_checkpoint() -> None:
    world = World()
    payload = CordonRequested(principal="olga", cluster="atlas")
    asked = world.say("gateway", "node", "n1", "cordon-requested", payload)
    again = world.recover()
    drafts = [draft for draft in again.decide(world.now) if draft.kind == "node"]
    assert [(draft.name, draft.payload, draft.causes) for draft in drafts] == [
        ("cordon-forwarded", payload, (asked.id,))
    ]
