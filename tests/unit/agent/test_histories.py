"""What must hold for every history: with crashes and checkpoints anywhere the agent's future is the same."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.agent.core.behaviour import Behaviour
from muster.core import Draft
from muster.schemas.facts.job import JobPlaced, JobState, PodsExited, PodsStarted
from muster.schemas.facts.node import NodeLost
from muster.schemas.job import Job, Phase, Slot
from unit.agent.harness import VirtualAgent, fleet_of, job, slot

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
        wanted = job(self.launched)
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
                self.agent.stop(wanted, attempt=self.placed[wanted.id].attempt)

    def lose(self, number: int) -> None:
        name = f"gpu-{1 + number % NODES:04d}"
        if name in self.agent.core.nodes and not self.agent.core.nodes[name].is_gone:
            self.agent.write("agent", "node", name, "lost", NodeLost())

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
            self.agent.run(number / 4)
        else:
            {"launch": self.launch, "stop": self.stop, "lose": self.lose, "answer": self.answer_exits}[name](number)


STEPS = st.lists(
    st.tuples(st.sampled_from(["launch", "launch", "stop", "lose", "answer", "pass", "pass"]), st.integers(0, 60)),
    max_size=20,
)


def outcome(steps: list[tuple[str, int]], recover: dict[int, str]) -> Cell:
    """Run the steps; after the n-th one the agent dies as `recover[n]` says: with its log, or with a checkpoint."""
    cell = Cell()
    for index, step in enumerate(steps):
        cell.do(step)
        match recover.get(index):
            case "log":
                cell.agent.crash()
            case "checkpoint":
                cell.agent.recover_from_checkpoint(cell.states())
            case "checkpoint reversed":
                cell.agent.recover_from_checkpoint(cell.states()[::-1])
    cell.agent.run(200)
    return cell


HOW = st.sampled_from(["log", "checkpoint", "checkpoint reversed"])


@settings(max_examples=150, deadline=None)
@given(STEPS, st.dictionaries(st.integers(0, 19), HOW, max_size=4))
def test_a_crash_anywhere_changes_nothing_of_the_future(steps: list[tuple[str, int]], recover: dict[int, str]) -> None:
    straight, crashed = outcome(steps, {}), outcome(steps, recover)
    assert crashed.agent.log == straight.agent.log


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_every_placed_attempt_ends_in_exactly_one_exit_and_starts_at_most_once(steps: list[tuple[str, int]]) -> None:
    cell = outcome(steps, {})
    log = cell.agent.log
    placed = Counter((f.subject_id, f.payload.attempt) for f in log if isinstance(f.payload, JobPlaced))
    exited = Counter((f.subject_id, f.payload.attempt) for f in log if isinstance(f.payload, PodsExited))
    started = Counter((f.subject_id, f.payload.attempt) for f in log if isinstance(f.payload, PodsStarted))
    assert exited == placed
    assert all(count == 1 for count in (*exited.values(), *started.values()))
    assert cell.agent.core.anomalies == 0


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_state_folds_to_itself(steps: list[tuple[str, int]]) -> None:
    cell = outcome(steps, {})
    before = {(draft.kind, draft.subject_id): draft for draft in cell.agent.core.snapshot()}
    nodes, running, wakeup = cell.agent.core.nodes, cell.agent.core.running, cell.agent.core.next_wakeup()
    cell.agent.recover_from_checkpoint(cell.states())
    assert {(draft.kind, draft.subject_id): draft for draft in cell.agent.core.snapshot()} == before
    assert (cell.agent.core.nodes, cell.agent.core.running) == (nodes, running)
    assert cell.agent.core.next_wakeup() == wakeup
