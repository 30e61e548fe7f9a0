"""What must hold for every history of nodes and devices that come and go, with crashes and checkpoints anywhere."""

import itertools
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.agent import job
from kit.agent_scaling import Scaled, scaled
from muster.agent.core.behaviour import Behaviour
from muster.core import Draft
from muster.schemas.facts.job import JobPlaced, JobState
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Job, Phase, Slot

RESTLESS = Behaviour(
    seed=5, run_s=60.0, node_failures_per_day=300.0, node_repair_s=15.0, provision_failure_share=0.3
)  # fmt: skip
NODES = ("workers-0001", "workers-0002", "workers-0003", "workers-0004", "plain-0001", "plain-0002", "nobody-0001")


@dataclass
class Cell:
    """A scaler, a composer and a scheduler that do as they are told; choices end when they are carried out."""

    world: Scaled = field(default_factory=lambda: scaled(RESTLESS))
    jobs: dict[str, tuple[Job, JobPlaced]] = field(default_factory=dict)

    @property
    def wished(self) -> set[str]:
        """Nodes that an open choice is about: the scaler makes no second one."""
        payloads = [fact.payload for fact, _ in self.world.chosen.values()]
        return {payload.node for payload in payloads if isinstance(payload, ScaleChosen)}

    def add(self, number: int) -> None:
        node = NODES[number % len(NODES)]
        if node not in self.wished and node not in self.world.agent.core.nodes:
            self.world.add(node, group=node.split("-")[0])

    def remove(self, number: int) -> None:
        node = NODES[number % len(NODES)]
        if node not in self.wished and node in self.world.agent.core.nodes:
            self.world.remove(node)

    def withhold(self, number: int) -> None:
        for scale, (fact, withheld) in list(self.world.chosen.items()):
            if fact.name == "node-remove-chosen" and not withheld:
                self.world.withhold(scale, request_id="" if number % 3 else "another")

    def end(self, number: int) -> None:
        for scale in list(self.world.chosen)[number % 2 : 1 + number % 2]:
            self.world.end(scale, failed=bool(number % 5))

    def attach(self, number: int) -> None:
        node = NODES[number % len(NODES)]
        model, memory_mib = ("A100", 512 * (number % 3 == 0)) if number % 7 else ("T4", 0)
        self.world.attach(node, f"DEV-{len(self.world.agent.log)}", model=model, memory_mib=memory_mib)

    def detach(self, number: int) -> None:
        for order in list(self.world.attached)[number % 3 : 1 + number % 3]:
            self.world.detach(order)

    def launch(self, number: int) -> None:
        node = NODES[number % 2]
        present = self.world.node(node).present if node in self.world.agent.core.nodes else {}
        if present:
            wanted = job(len(self.jobs))
            self.world.agent.route(wanted)
            slots = Slot(group=0, replica=0, node=node, devices=(max(present),), gpu_milli=1000)
            placed = self.world.agent.place(wanted, slots)
            assert isinstance(placed.payload, JobPlaced)
            self.jobs[wanted.id] = wanted, placed.payload

    def lose(self, number: int) -> None:
        node = self.world.agent.core.nodes.get(NODES[number % len(NODES)])
        if node is not None and not node.lost:
            self.world.agent.write_loss(NODES[number % len(NODES)])

    def pass_time(self, number: int) -> None:
        self.world.agent.advance(number / 2)

    def states(self) -> list[Draft]:
        states = [*self.world.agent.core.snapshot(), *self.world.states()]
        for wanted, placed in self.jobs.values():
            body = JobState(job=wanted, phase=Phase.PLACED, slots=placed.slots)
            states.append(Draft("job", wanted.id, "state-recorded", body))
        return states

    def do(self, step: tuple[str, int]) -> None:
        name, number = step
        getattr(self, name)(number)


WORDS = ["add", "remove", "withhold", "end", "attach", "attach", "detach", "launch", "lose", *["pass_time"] * 4]
STEPS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 60)), min_size=6, max_size=25)
DEATHS = st.lists(st.sampled_from(["", "log", "checkpoint", "checkpoint reversed"]), min_size=25, max_size=25)


def outcome(steps: list[tuple[str, int]], deaths: list[str]) -> Cell:
    """Run the steps; after the n-th one the agent dies as `deaths[n]` says: with its log, or with a checkpoint."""
    cell = Cell()
    for step, death in zip(steps, itertools.chain(deaths, itertools.repeat("")), strict=False):
        cell.do(step)
        match death:
            case "log":
                cell.world.agent.crash()
            case "checkpoint":
                cell.world.agent.recover_from_checkpoint(cell.states())
            case "checkpoint reversed":
                cell.world.agent.recover_from_checkpoint(cell.states()[::-1])
    cell.world.agent.advance(200)
    return cell


@settings(max_examples=200, deadline=None)
@given(STEPS, DEATHS)
def test_a_crash_anywhere_changes_nothing_of_the_future(steps: list[tuple[str, int]], deaths: list[str]) -> None:
    straight, crashed = outcome(steps, []), outcome(steps, deaths)
    assert crashed.world.agent.log == straight.world.agent.log


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_device_keeps_its_place_for_as_long_as_its_node_shows_it(steps: list[tuple[str, int]]) -> None:
    shown: dict[str, NodeJoined] = {}
    for fact in outcome(steps, []).world.agent.log:
        if fact.name == "left":
            shown.pop(fact.subject_id)
        if isinstance(fact.payload, NodeJoined):
            before, after = shown.get(fact.subject_id), fact.payload
            shown[fact.subject_id] = after
            kept = {} if before is None else before.present.items() & after.present.items()
            uuids = set() if before is None else {*before.present.values()} & {*after.present.values()}
            assert len(kept) == len(uuids)
            assert bool(after.gpu_model) == bool(after.present)
            assert not after.absent or max(after.absent) < max(after.present)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_node_shows_in_the_end_what_is_attached_and_nothing_else(steps: list[tuple[str, int]]) -> None:
    cell = outcome(steps, [])
    for name, record in cell.world.agent.core.nodes.items():
        node = record.description
        if node is None or not node.machine or record.lost:
            continue
        on_it = [device for _, device in cell.world.attached.values() if device.node == name]
        first = {} if node.scale else {node.gpu_uuids[0]} if node.present else {}
        gpus = {device.device_uuid for device in on_it if device.type == "gpu" and device.model == "A100"}
        assert set(node.present.values()) <= {*gpus, *first}
        assert gpus <= set(node.present.values())
        assert set(node.memory_uuids) == {device.device_uuid for device in on_it if device.type != "gpu"}
        assert node.memory_mib == 524_288 + 512 * len(node.memory_uuids)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_state_folds_to_itself(steps: list[tuple[str, int]]) -> None:
    cell = outcome(steps, [])
    agent = cell.world.agent
    before = {(draft.kind, draft.subject_id): draft for draft in agent.core.snapshot()}
    nodes = agent.core.nodes
    agent.recover_from_checkpoint(cell.states())
    assert {(draft.kind, draft.subject_id): draft for draft in agent.core.snapshot()} == before
    assert agent.core.nodes == nodes
