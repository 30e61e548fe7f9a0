"""A node that the scheduler gives at the moment at which it is asked for no longer: whichever is first in the log."""

import pytest

from kit.scaler import VirtualScaler, config, ordinary
from muster.core import Draft
from muster.schemas.facts.node import WithholdWithdrawn
from muster.schemas.facts.scale import ScaleChosen


def asked() -> tuple[VirtualScaler, ScaleChosen]:
    """The only node of a group is to go, and the scheduler has not given it in time."""
    world = VirtualScaler(config(ordinary(), node_unneeded_s=60, delay_after_add_s=0, withhold_s=30))
    world.join("ord", 1)
    world.skip(60)
    chosen = world.settle()[0].payload
    assert isinstance(chosen, ScaleChosen)
    world.skip(30)
    return world, chosen


def crossed(*, is_given_first: bool) -> tuple[VirtualScaler, ScaleChosen]:
    """What the scaler decided and what the scheduler said were decided without knowledge of each other."""
    world, chosen = asked()
    drafts = world.core.decide(world.now)
    assert [draft.name for draft in drafts] == ["ended", "withhold-withdrawn"]
    if is_given_first:
        world.withheld("node", chosen.node, chosen.request_id)
    for draft in drafts:
        world.append("scaler", draft)
    if not is_given_first:
        world.withheld("node", chosen.node, chosen.request_id)
    return world, chosen


def given_back(drafts: list[Draft]) -> list[tuple[str, str, bool]]:
    return [
        (draft.subject_id, draft.payload.request_id, draft.payload.after_withheld)
        for draft in drafts
        if isinstance(draft.payload, WithholdWithdrawn)
    ]


@pytest.mark.parametrize("is_given_first", [True, False])
def test_a_node_given_too_late_is_given_back_once(is_given_first: bool) -> None:
    world, chosen = crossed(is_given_first=is_given_first)
    back = [(chosen.node, chosen.request_id, True)]
    assert given_back(world.core.decide(world.now)) == back
    assert given_back(world.core.decide(world.now)) == back, "the same until it is in the log"
    world.settle()
    world.release("node", chosen.node)
    assert world.core.state.cluster.nodes[chosen.node].usable
    assert given_back(world.core.decide(world.now)) == []


@pytest.mark.parametrize("is_given_first", [True, False])
def test_who_takes_over_gives_it_back_too(is_given_first: bool) -> None:
    world, chosen = crossed(is_given_first=is_given_first)
    if not is_given_first:  # the scheduler's answer to what is not asked any more is a wish that it keeps
        grant = world.grants["node", chosen.node]
        request = world.core.state.cluster.nodes[chosen.node].wishes
        world.grants["node", chosen.node] = grant.model_copy(update={"wishes": request})
    assert given_back(world.recover().decide(world.now)) == [(chosen.node, chosen.request_id, True)]


def test_a_node_that_is_on_its_way_out_is_not_given_back() -> None:
    world, chosen = asked()
    world.withheld("node", chosen.node, chosen.request_id)
    assert world.settle() == []
    world.leave(chosen.node)
    assert [fact.name for fact in world.settle()] == ["ended"]
    assert not world.core.state.choices.withheld


def test_what_others_asked_for_is_not_given_back() -> None:
    world = VirtualScaler(config(ordinary(nodes_min=1)))
    node = world.join("ord", 1)
    world.withheld("node", node, "maintenance")
    assert world.settle() == []
