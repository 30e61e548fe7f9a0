"""Whatever happens to nodes and jobs, and whatever people ask: nobody is hurt, limits hold, and the end comes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.upgrader import DAY, HOUR, VirtualUpgrader, a_campaign, node_named
from muster.core import Draft, Fact, after
from muster.core.virtual import recover
from muster.schemas.facts.operations import NodeActionRequested
from muster.schemas.facts.upgrade import CampaignEnded, Step
from muster.upgrader.core import UpgraderCore

NODES, MOST = 6, 2

_NODE = st.integers(0, NODES - 1)
_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("job"), _NODE, st.sampled_from([0.5, 3.0, 20.0])),
        st.tuples(st.just("gang"), _NODE, st.sampled_from([2.0, 9.0])),
        st.tuples(st.sampled_from(["lose", "cordon", "resume node", "bad"]), _NODE, st.just(0.0)),
        st.tuples(st.sampled_from(["pause", "resume", "restart"]), st.just(0), st.just(0.0)),
    ),
    max_size=25,
)


class Watched(VirtualUpgrader):
    """A world that looks at every action that is asked for."""

    def append(self, writer: str, draft: Draft, **rest: str) -> Fact:
        fact = super().append(writer, draft, **rest)
        if isinstance(fact.payload, NodeActionRequested):
            node = fact.subject_id
            assert self.given.get(node), "the scheduler gave it"
            assert not any(slot.node == node for slots in self.slots.values() for slot in slots), "nobody is there"
            assert not self.core.state.is_lost(node)
        return fact


def happen(world: Watched, what: str, number: int, hours: float) -> None:
    """One event, if it can be."""
    node = node_named(number)
    match what:
        case "job" | "gang":
            nodes = [node] if what == "job" else [node, node_named((number + 1) % NODES)]
            limit_s = hours * HOUR
            if all(_has_room(world, one, limit_s) for one in nodes):
                world.run_job(*nodes, limit_s=limit_s, ends_s=limit_s / 2, moves=hours > 5)
        case "lose":
            world.lose(node)
            world.at(after(world.now, HOUR), lambda: world.find(node))
        case "cordon":
            world.person("cordon", node)
        case "resume node":
            world.person("resume", node)
        case "bad":
            world.bad[node] = "action"
            world.at(after(world.now, 2 * HOUR), world.bad.clear)
        case "restart":
            world.core = recover(UpgraderCore(world.config), (), world.log)
        case _:
            world.ask(what)


def _has_room(world: Watched, node: str, limit_s: float) -> bool:
    state = world.core.state
    is_out = state.is_lost(node) or state.cordon(node) is not None or bool(world.given.get(node))
    return not is_out and not state.holds.jobs_on(node) and world.may_start(node, limit_s)


@settings(max_examples=60, deadline=None)
@given(_EVENTS, st.sampled_from(["finish", "move"]))
def test_nobody_is_hurt_and_the_end_comes(events: list[tuple[str, int, float]], running: str) -> None:
    world = Watched(NODES)
    spec = a_campaign(max_unavailable=str(MOST), running=running, failures_max=2, roll_back=True)
    for number in range(NODES):
        happen(world, "job", number, 3.0 if number % 2 else 20.0)
    world.start(spec)
    for what, number, hours in events:
        happen(world, what, number, hours)
        world.advance(20 * 60)
        campaign = world.core.state.campaigns["driver"]
        # One that a person had cordoned was out of use anyhow: its turn takes nothing.
        taken = [turn for turn in campaign.turns.values() if turn.step.is_taken and not turn.cordoned_by]
        assert len(taken) <= MOST
    world.bad.clear()
    for number in range(NODES):
        world.person("resume", node_named(number))
    world.advance(HOUR)
    for _ in range(4):
        if not world.payloads("ended"):
            world.ask("resume")
            world.advance(2 * DAY)
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert ended.done + ended.rolled_back + ended.failed == NODES
    assert all(
        world.step_of(node_named(number)) in (Step.DONE, Step.ROLLED_BACK, Step.FAILED) for number in range(NODES)
    )
