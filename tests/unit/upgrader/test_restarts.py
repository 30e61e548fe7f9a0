"""An upgrader that starts anew goes on where the one before stood: from the log, and from a checkpoint."""

from collections.abc import Callable

import pytest

from kit.upgrader import CONFIG, DAY, HOUR, VirtualUpgrader, a_campaign, node_named
from muster.core import Draft, Fact, after
from muster.core.virtual import recover
from muster.schemas.facts.node import CordonRequested
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.upgrade import CampaignEnded, CampaignSpec, CampaignStartRequested, Step
from muster.simulator.engine import START, Engine, join_nodes, set_queue
from muster.upgrader.core import UpgraderCore
from muster_tools.demo.upgrade.scene import QUEUE, Scene

SCENE = Scene(nodes=6, long_s=6 * HOUR, action_s=600.0, check_s=60.0, seed=3)
CAMPAIGN = a_campaign(max_unavailable="2", running="move")


class Stage:
    """A small busy cluster with real cores; `at_each` is called after every fact of nodes and campaigns.

    started: other instances, which fold what comes.
    """

    def __init__(self, spec: CampaignSpec, at_each: Callable[["Stage"], None] | None = None) -> None:
        self._at_each = at_each
        self.started = list[UpgraderCore]()
        self.engine = Engine(
            SCENE.fleet(), behaviour=SCENE.behaviour(), start=START, beside={"upgrader": UpgraderCore(CONFIG)},
            watch=self._watch, keeps_log=True,
        )  # fmt: skip
        join_nodes(self.engine)
        set_queue(self.engine, QueueSpec(name=QUEUE), at="queues[0]")
        for job, _ in SCENE.running():
            self.engine.route(job)
        self.engine.at(after(START, 60), lambda: self._start(spec))
        self.engine.at(after(START, 2 * HOUR), lambda: self._cordon("gpu-0006"))

    def _start(self, spec: CampaignSpec) -> None:
        asked = CampaignStartRequested(spec=spec, principal="ann")
        self.engine.write("federation", "campaign", spec.name, "start-forwarded", asked)

    def _cordon(self, node: str) -> None:
        self.engine.write("federation", "node", node, "cordon-forwarded", CordonRequested(principal="bob"))

    def _watch(self, fact: Fact) -> None:
        for core in self.started:
            core.apply(fact)
        if self._at_each is not None and fact.kind in ("node", "campaign"):
            self._at_each(self)


def recovered(engine: Engine) -> UpgraderCore:
    """A new core from a checkpoint, its parts the other way round than they were written."""
    return recover(UpgraderCore(CONFIG), reversed(engine.snapshot()))


def from_log(log: list[Fact]) -> UpgraderCore:
    """A new core that folded all of it."""
    return recover(UpgraderCore(CONFIG), (), log)


def as_said(drafts: list[Draft]) -> list[tuple[str, str, str, str]]:
    """What is said, in any order."""
    return sorted((one.kind, one.subject_id, one.name, one.payload.model_dump_json()) for one in drafts)


def steps_of(drafts: list[Draft]) -> list[tuple[str, str, str, str]]:
    """What is said of turns that have come."""
    return as_said([one for one in drafts if one.name not in ("withhold-requested", "withhold-withdrawn")])


def test_a_checkpoint_at_any_fact_leads_to_the_same_decisions_as_the_log() -> None:
    def compare(stage: Stage) -> None:
        fact = stage.engine.log[-1]
        one, other = recovered(stage.engine), from_log(stage.engine.log)
        assert as_said(one.decide(fact.time)) == as_said(other.decide(fact.time)), f"after {fact.seq} {fact.name}"
        assert as_said(list(one.snapshot())) == as_said(list(other.snapshot())), f"after {fact.seq} {fact.name}"
        if fact.name in ("action-ended", "checks-reported"):
            for earlier in stage.started:
                assert steps_of(earlier.decide(fact.time)) == steps_of(other.decide(fact.time))
        stage.started.append(one)

    stage = Stage(CAMPAIGN, compare)
    stage.engine.advance_to(after(START, DAY))
    assert any(isinstance(fact.payload, CampaignEnded) for fact in stage.engine.log)
    assert len(stage.started) > 100
    believed = as_said(list(from_log(stage.engine.log).snapshot()))
    for number, core in enumerate(stage.started):
        assert as_said(list(core.snapshot())) == believed, f"recovered at the {number}th of these facts"


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_one_that_dies_again_and_again_still_ends_the_campaign(every: int) -> None:
    """After every few facts another instance takes over that folded the log alone."""
    world = VirtualUpgrader(5)
    world.run_job("n000", "n001", limit_s=3 * HOUR)
    world.run_job("n002", limit_s=5 * HOUR, moves=True)
    world.bad["n004"] = "action"
    world.start(a_campaign(max_unavailable="2", running="move", roll_back=True, failures_max=3))
    restarts = 0
    for _ in range(2_000):
        before = len(world.log)
        world.advance(60)
        if len(world.log) >= before + every:
            world.core = from_log(world.log)
            restarts += 1
        if world.payloads("ended"):
            break
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert (ended.done, ended.rolled_back) == (4, 1)
    assert restarts > 5
    for number in range(5):
        steps = world.steps(node_named(number))
        assert steps.count("cordoned") == 1, "nobody has a second turn"
        assert steps[-1] == ("rolled-back" if number == 4 else "done")
        assert Step(steps[0]) is Step.CORDONED
