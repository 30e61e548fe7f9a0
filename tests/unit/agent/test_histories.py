"""What must hold for every history: with crashes and checkpoints anywhere the agent's future is the same."""

import itertools
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.agent import VirtualAgent, fleet_of, job, slot
from muster.agent.core.behaviour import Behaviour
from muster.core import Draft
from muster.schemas.facts.job import JobCheckpointed, JobPlaced, JobState, PodsExited, PodsResized, PodsStarted
from muster.schemas.job import Checkpointing, Job, Phase, Slot

NODES = 3
RESTLESS = Behaviour(seed=5, run_s=20.0, job_failure_share=0.3, node_failures_per_day=400.0, node_repair_s=15.0)


@dataclass
class Cell:
    """An agent and a scheduler that places, stops, retries and finishes as it is told."""

    agent: VirtualAgent = field(default_factory=lambda: VirtualAgent(fleet=fleet_of(NODES), behaviour=RESTLESS))
    jobs: dict[str, Job] = field(default_factory=dict)
    placed: dict[str, JobPlaced] = field(default_factory=dict)
    launched: int = 0

    def launch(self, number: int) -> None:
        saves = Checkpointing(interval_s=6.0, restart_s=2.0) if number % 3 else None
        wanted = job(self.launched, checkpointing=saves)
        self.launched += 1
        self.jobs[wanted.id] = wanted
        self.agent.route(wanted)
        if number % 4:
            self.place(wanted, number)

    def place(self, wanted: Job, number: int) -> None:
        attempt = self.placed[wanted.id].attempt + 1 if wanted.id in self.placed else 1
        slots = (slot(1 + number % NODES), Slot(group=0, replica=1, node="gpu-0001", devices=(1,), gpu_milli=500))
        placed = self.agent.place(wanted, *slots[: 1 + number % 2], attempt=attempt)
        assert isinstance(placed.payload, JobPlaced)
        self.placed[wanted.id] = placed.payload

    def stop(self, number: int) -> None:
        if self.jobs:
            wanted = list(self.jobs.values())[number % len(self.jobs)]
            if wanted.id in self.placed:
                self.agent.stop(wanted, attempt=self.placed[wanted.id].attempt, grace_s=number % 5)

    def resize(self, number: int) -> None:
        for wanted in list(self.jobs.values())[number % 7 :: 7]:
            placed = self.placed.get(wanted.id)
            if placed is not None:
                slots = (slot(1 + number % NODES, 3), slot(1, 4), *placed.slots[:1])
                self.agent.resize(wanted, *slots[number % 3 :], attempt=placed.attempt, grace_s=number % 4)

    def lose(self, number: int) -> None:
        name = f"gpu-{1 + number % NODES:04d}"
        if name in self.agent.core.nodes and not self.agent.core.nodes[name].lost:
            self.agent.write_loss(name)

    def answer_exits(self, number: int) -> None:
        ended = {(f.subject_id, f.payload.attempt) for f in self.agent.log if isinstance(f.payload, PodsExited)}
        for wanted in list(self.jobs.values()):
            placed = self.placed.get(wanted.id)
            if placed is None or (wanted.id, placed.attempt) not in ended:
                continue
            if number % 2:
                self.place(wanted, number)
            else:
                self.agent.finish(wanted)
                del self.jobs[wanted.id]

    def states(self) -> list[Draft]:
        """What a checkpoint holds: the agent's states and the scheduler's."""
        states = list(self.agent.core.snapshot())
        for wanted in self.jobs.values():
            placed = self.placed.get(wanted.id)
            phase = Phase.PLACED if placed else Phase.QUEUED
            body = JobState(job=wanted, phase=phase, slots=placed.slots if placed else ())
            states.append(Draft("job", wanted.id, "state-recorded", body))
        return states

    def do(self, step: tuple[str, int]) -> None:
        name, number = step
        if name == "pass":
            self.agent.advance(number / 4)
        else:
            {
                "launch": self.launch,
                "stop": self.stop,
                "resize": self.resize,
                "lose": self.lose,
                "answer": self.answer_exits,
            }[name](number)


WORDS = ["launch", "launch", "stop", "resize", "lose", "answer", "pass", "pass", "pass"]
STEPS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 60)), min_size=6, max_size=20)
DEATHS = st.lists(st.sampled_from(["", "log", "checkpoint", "checkpoint reversed"]), min_size=20, max_size=20)
"""After each step: how the agent dies and comes back, "" if it lives on."""


def outcome(steps: list[tuple[str, int]], deaths: list[str]) -> Cell:
    """Run the steps; after the n-th one the agent dies as `deaths[n]` says: with its log, or with a checkpoint."""
    cell = Cell()
    for step, death in zip(steps, itertools.chain(deaths, itertools.repeat("")), strict=False):
        cell.do(step)
        match death:
            case "log":
                cell.agent.crash()
            case "checkpoint":
                cell.agent.recover_from_checkpoint(cell.states())
            case "checkpoint reversed":
                cell.agent.recover_from_checkpoint(cell.states()[::-1])
    cell.agent.advance(200)
    return cell


@settings(max_examples=150, deadline=None)
@given(STEPS, DEATHS)
def test_a_crash_anywhere_changes_nothing_of_the_future(steps: list[tuple[str, int]], deaths: list[str]) -> None:
    straight, crashed = outcome(steps, []), outcome(steps, deaths)
    assert crashed.agent.log == straight.agent.log


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_every_placed_attempt_ends_in_exactly_one_exit_and_starts_at_most_once(steps: list[tuple[str, int]]) -> None:
    cell = outcome(steps, [])
    log = cell.agent.log
    placed = Counter((f.subject_id, f.payload.attempt) for f in log if isinstance(f.payload, JobPlaced))
    exited = Counter((f.subject_id, f.payload.attempt) for f in log if isinstance(f.payload, PodsExited))
    started = Counter((f.subject_id, f.payload.attempt) for f in log if isinstance(f.payload, PodsStarted))
    assert exited == placed
    assert all(count == 1 for count in (*exited.values(), *started.values()))
    assert cell.agent.core.anomalies == 0


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_checkpoints_and_resizes_are_told_between_start_and_exit(steps: list[tuple[str, int]]) -> None:
    alive = set[tuple[str, int]]()
    for fact in outcome(steps, []).agent.log:
        match fact.payload:
            case PodsStarted(attempt=attempt):
                alive.add((fact.subject_id, attempt))
            case PodsExited(attempt=attempt):
                alive.discard((fact.subject_id, attempt))
            case JobCheckpointed(attempt=attempt) | PodsResized(attempt=attempt):
                assert (fact.subject_id, attempt) in alive


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_state_folds_to_itself(steps: list[tuple[str, int]]) -> None:
    cell = outcome(steps, [])
    before = {(draft.kind, draft.subject_id): draft for draft in cell.agent.core.snapshot()}
    nodes, running, wakeup = cell.agent.core.nodes, cell.agent.core.running, cell.agent.core.next_wakeup()
    cell.agent.recover_from_checkpoint(cell.states())
    assert {(draft.kind, draft.subject_id): draft for draft in cell.agent.core.snapshot()} == before
    assert (cell.agent.core.nodes, cell.agent.core.running) == (nodes, running)
    assert cell.agent.core.next_wakeup() == wakeup
