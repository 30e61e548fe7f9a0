"""Invariants 1, 2, 5 and 8 of the design, as far as holds tell them, in valid logs and in what the scheduler writes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.logs import LOG, facts_of
from kit.cluster_folds import indexes
from kit.cluster_log import CLUSTER, HISTORIES, START, ClusterLog, Step
from kit.scheduler_history import OPERATIONS, SchedulerHistory
from muster.cluster import Holds
from muster.core.fact import Fact
from muster.core.virtual import VirtualCluster, recover
from muster.scheduler.core import SchedulerCore
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.node import NodeJoined, Withheld
from muster.schemas.job import TaskGroup

WHOLE = 1000
DECIDED = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 11), st.integers(0, 11)), min_size=10, max_size=50
)


@dataclass
class Checked:
    """Folds a log and checks it after each fact."""

    holds: Holds = field(default_factory=Holds)
    shown: dict[str, NodeJoined] = field(default_factory=dict)
    groups: dict[str, tuple[TaskGroup, ...]] = field(default_factory=dict)

    def apply(self, facts: Iterable[Fact]) -> "Checked":
        for fact in facts:
            match fact.payload:
                case NodeJoined():
                    self.shown[fact.subject_id] = fact.payload
                case JobRouted(job=job):
                    self.groups[job.id] = job.spec.task_groups
                case Withheld():
                    self._no_withheld_device_is_held(fact, fact.payload)
            self.holds.apply(fact)
            self._devices_have_one_holder()
            self._gangs_are_whole()
            self._nodes_and_jobs_say_the_same()
        return self

    def _devices_have_one_holder(self) -> None:
        """Invariant 1. Where the kubelet picks, no more is held than there is, and no device was seen with two."""
        for node, shown in self.shown.items():
            slots = [slot for of_job in self.holds.slots_on(node).values() for slot in of_job]
            held = Counter[int]()
            for slot in slots:
                held.update(dict.fromkeys(slot.devices, slot.gpu_milli))
            assert all(milli <= WHOLE for milli in held.values()), f"{node}: {held}"
            counted = sum(slot.gpu_milli_held for slot in slots if slot.gpus)
            assert counted <= WHOLE * len(shown.present), f"{node}: {counted} milli-GPUs are held by count"
            for uuid, used in self.holds.devices_in_use(node, shown.present).items():
                assert sum(used.values()) <= WHOLE, f"{uuid}: {used}"

    def _gangs_are_whole(self) -> None:
        """Invariant 2."""
        for job_id, hold in self.holds.jobs.items():
            replicas = Counter((slot.group, slot.replica) for slot in hold.slots)
            assert set(replicas.values()) == {1}, f"{job_id}: a replica stands twice"
            by_group = Counter(group for group, _ in replicas)
            for at, group in enumerate(self.groups[job_id]):
                assert group.replicas_least <= by_group[at] <= group.replicas, f"{job_id}: {by_group}"

    def _no_withheld_device_is_held(self, fact: Fact, withheld: Withheld) -> None:
        """Invariant 5: what is held is withheld by force only, and the answer names the holders."""
        if fact.kind == "node":
            assert self.holds.jobs_on(fact.subject_id) == withheld.holders
            return
        for node, shown in self.shown.items():
            places = indexes(shown)
            if fact.subject_id in places:
                holders = self.holds.device_holders(node, fact.subject_id, places).all
                assert set(holders) <= set(withheld.holders), f"{fact.subject_id} is held by {holders}"
        assert withheld.forced == bool(withheld.holders)

    def _nodes_and_jobs_say_the_same(self) -> None:
        by_job = {(job_id, slot) for job_id, hold in self.holds.jobs.items() for slot in hold.held}
        by_node = {
            (job_id, slot)
            for node in {slot.node for _, slot in by_job} | self.shown.keys()
            for job_id, slots in self.holds.slots_on(node).items()
            for slot in slots
        }
        assert by_job == by_node


@settings(max_examples=60)
@given(HISTORIES)
def test_invariants_hold_over_every_valid_log(steps: list[Step]) -> None:
    Checked().apply(ClusterLog().play(*steps).log)


@settings(max_examples=40)
@given(DECIDED)
def test_invariants_hold_over_what_the_scheduler_decides(steps: list[Step]) -> None:
    world = SchedulerHistory()
    for step in steps:
        world.do(*step)
    checked = Checked().apply(world.log)
    assert checked.holds.jobs == restored(world.core).jobs


def test_invariants_hold_over_the_golden_log() -> None:
    checked = Checked().apply(facts_of(LOG))
    assert checked.groups, "jobs were routed"
    assert set(checked.holds.anomalies) <= {"pods-exited", "pods-started"}


@settings(max_examples=60)
@given(HISTORIES)
def test_holds_say_of_every_job_and_device_what_the_log_was_written_with(steps: list[Step]) -> None:
    log, holds, shown = ClusterLog(), Holds(), dict[str, NodeJoined]()
    facts = log.log
    for step in (None, *steps):
        facts = log.log if step is None else log.do(step)
        for fact in facts:
            holds.apply(fact)
            if isinstance(fact.payload, NodeJoined):
                shown[fact.subject_id] = fact.payload
        assert {job_id: frozenset(hold.held) for job_id, hold in holds.jobs.items()} == log.held()
        for node in log.nodes:
            assert _device_holders(holds, node, shown) == {
                uuid: log.holders(node, index) for index, uuid in shown[node].present.items()
            }


@settings(max_examples=40)
@given(HISTORIES, st.integers(1, 400))
def test_a_checkpoint_anywhere_in_the_log_folds_on_to_the_same_holds(steps: list[Step], cut: int) -> None:
    """Invariant 8. The same log folds alike, too."""
    facts = ClusterLog().play(*steps).log
    first, second, scheduler = Holds(), Holds(), SchedulerCore(cluster=CLUSTER)
    for fact in facts[:cut]:
        first.apply(fact)
        second.apply(fact)
        scheduler.apply(fact)
    other = restored(scheduler)
    assert other.jobs == first.jobs == second.jobs
    for fact in facts[cut:]:
        for holds in (first, second, other):
            holds.apply(fact)
    assert other.jobs == first.jobs == second.jobs
    assert _sorted(other) == _sorted(first) == _sorted(second)


@pytest.mark.parametrize("cut", range(0, len(facts_of(LOG)), 97))
def test_a_checkpoint_of_the_golden_log_says_the_same_holds(cut: int) -> None:
    holds, scheduler = Holds(), SchedulerCore(cluster=CLUSTER)
    for fact in facts_of(LOG)[:cut]:
        holds.apply(fact)
        scheduler.apply(fact)
    assert restored(scheduler).jobs == holds.jobs


def restored(scheduler: SchedulerCore) -> Holds:
    """Holds that folded the scheduler's part of a checkpoint."""
    return recover(Holds(), VirtualCluster(CLUSTER, start=START, cores={"scheduler": scheduler}).snapshot())


def _sorted(holds: Holds) -> object:
    """What is held on each node, in no order of jobs or slots."""
    return {
        node: {job_id: sorted(slots, key=repr) for job_id, slots in jobs.items()} for node, jobs in holds._on.items()
    }


def _device_holders(holds: Holds, node: str, shown: Mapping[str, NodeJoined]) -> dict[str, set[str]]:
    places = indexes(shown[node])
    return {uuid: set(holds.device_holders(node, uuid, places).all) for uuid in places}
