"""Scenarios played with their logs kept, and what must be so of every log."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from muster.core import Fact, after
from muster.core.virtual import recover
from muster.scheduler.core import SchedulerCore
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.stores.jobs import HOLDING
from muster.schemas.facts.job import JobStopRequested, StopReason
from muster.schemas.job import Phase
from muster.simulator.engine import CHECKPOINT_NEVER, CLUSTER, Engine
from muster.simulator.scenario import parse
from muster.simulator.scenario.history import engine_at_start
from muster.simulator.scenario.plan import NOW, Plan, plan_of
from muster.simulator.scenario.run import settle

MOVES = frozenset({"placed", "stop-requested", "resize-requested", "reserved"})


@dataclass(frozen=True)
class Story:
    """A scenario that was played. log: all facts; those before NOW are its past."""

    plan: Plan
    engine: Engine
    log: Sequence[Fact]
    stable: bool

    def said(self, name: str) -> list[Fact]:
        return [fact for fact in self.log if fact.name == name and fact.time >= NOW]

    def preempted(self) -> list[Fact]:
        return [
            fact
            for fact in self.said("stop-requested")
            if isinstance(fact.payload, JobStopRequested) and fact.payload.reason is StopReason.PREEMPTED
        ]


def story(parts: dict[str, object], *, after_s: float = 0.0) -> Story:
    plan, log = plan_of(parse(json.dumps(parts))), list[Fact]()
    engine = engine_at_start(plan, watch=log.append)
    stable, _ = settle(engine)
    if after_s:
        engine.advance_to(after(engine.now, after_s))
    return Story(plan, engine, log, stable)


def refolded(told: Story) -> SchedulerCore:
    """A scheduler that starts now and folds the whole log."""
    core = SchedulerCore(cluster=CLUSTER, limits=Limits(checkpoint_every_facts=CHECKPOINT_NEVER))
    return recover(core, (), told.log)


def books_are_right(told: Story) -> None:
    """No device, no node is held beyond what it has; gangs have all that they need, or nothing."""
    state = told.engine.scheduler.state
    devices: Counter[tuple[str, int]] = Counter()
    cpu: Counter[str] = Counter()
    for record in state.jobs.records.values():
        groups = record.job.spec.task_groups
        if record.phase not in HOLDING:
            assert not record.slots
            continue
        running = Counter(slot.group for slot in record.slots)
        for index, group in enumerate(groups):
            assert group.replicas_least <= running[index] <= group.replicas
        for slot in record.slots:
            cpu[slot.node] += groups[slot.group].cpu_milli
            for device in slot.devices:
                devices[slot.node, device] += slot.gpu_milli
    assert all(milli <= 1000 for milli in devices.values())
    assert all(milli <= told.plan.nodes[name].description.cpu_milli for name, milli in cpu.items())


def nobody_who_must_not_was_preempted(told: Story) -> None:
    """Under its slice nobody is preempted, and who is not preemptible never."""
    for fact in told.preempted():
        record = told.engine.scheduler.state.jobs.records[fact.subject_id]
        assert record.job.spec.preemptible
        runs = [one for one in told.log if one.subject_id == fact.subject_id and one.name == "running"]
        started = max((one for one in runs if one.seq < fact.seq), key=lambda one: one.seq)
        assert fact.time >= after(started.time, record.job.spec.min_slice_s)


def a_fresh_scheduler_agrees(told: Story) -> None:
    """What was remembered, throttled or put off on the way makes no difference: starting now decides nothing more."""
    core = refolded(told)
    for record in told.engine.scheduler.state.jobs.records.values():
        assert core.state.jobs.records[record.id].phase is record.phase
    drafts = core.decide(told.engine.now)
    assert [(draft.name, draft.subject_id) for draft in drafts if draft.name in MOVES] == []


def pending(told: Story) -> int:
    return told.engine.scheduler.state.jobs.counts[Phase.QUEUED]
