"""Leaving the hopeless alone changes nothing: who is placed where is the same as if everybody were tried every time."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.core import Draft
from muster.schemas.facts.job import JobCancelRequested, JobPlaced, PodsExited, PodsOutcome
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job, Phase
from unit.scheduler.world import World, job

RACK = {"level": "rack", "required": True}
NODE = {"level": "node", "required": True}
KINDS: list[dict[str, object]] = [
    {"gpus": 1},
    {"gpus": 2, "cpu_milli": 60_000},
    {"gpus": 4},
    {"gpu_milli": 400},
    {"gpu_milli": 700, "replicas": 2},
    {"gpus": 1, "replicas": 5},
    {"gpus": 2, "replicas": 3, "topology": RACK},
    {"gpus": 1, "replicas": 3, "topology": NODE},
    {"gpus": 2, "replicas": 2, "topology": {"level": "rack", "required": False}},
    {"gpus": 1, "full_node": True},
    {"gpus": 0, "cpu_milli": 90_000},
]
OPS = ("route", "route", "route", "exit", "exit", "lose", "back", "join", "limit", "cancel", "refused", "cut", "decide")
HISTORY = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, len(KINDS) - 1), st.integers(0, 5)), min_size=20, max_size=120
)


def fleet() -> World:
    world = World(queues=("a", "b", "c"))
    world.queue("c", parent="a")
    for index in range(5):
        world.join_quietly(f"n{index}", gpus=2 + index % 3, rack=f"r{index // 2}")
    world.run()
    return world


class Twins:
    """Two worlds with one history: one prunes, in the other every lane is tried in every decision."""

    def __init__(self) -> None:
        self.pruned, self.plain = fleet(), fleet()
        self.jobs: list[Job] = []

    def decided(self) -> list[list[Draft]]:
        self.plain.core.state.line.reopen()
        both = [world.core.decide(world.now) for world in (self.pruned, self.plain)]
        placed = [[(d.subject_id, d.payload) for d in drafts if isinstance(d.payload, JobPlaced)] for drafts in both]
        assert placed[0] == placed[1]
        # words are told at their own pace; they move no job
        return [[draft for draft in drafts if draft.name != "unschedulable"] for drafts in both]

    def settle(self) -> None:
        for _ in range(200):
            both = self.decided()
            if not any(both):
                return
            self.store(both)
        raise AssertionError("decisions never end")

    def store(self, both: list[list[Draft]], share: float = 1.0) -> None:
        for world, drafts in zip((self.pruned, self.plain), both, strict=True):
            for draft in drafts[: round(len(drafts) * share)]:
                world.append(draft)

    def do(self, op: str, which: int, extra: int) -> None:
        match op:
            case "route":
                self.jobs.append(job(f"j{len(self.jobs)}", queue="abc"[extra % 3], **dict(KINDS[which])))
            case "refused":
                self.decided()
            case "cut":
                self.store(self.decided(), extra / 5)
            case "decide":
                self.settle()
        for world in (self.pruned, self.plain):
            self.tell(world, op, which, extra)

    def tell(self, world: World, op: str, which: int, extra: int) -> None:
        match op:
            case "route":
                world.route(self.jobs[-1])
            case "exit":
                held = [one for one in self.jobs if world.core.state.jobs.records[one.id].phase is Phase.PLACED]
                if held:
                    one = held[(which * 6 + extra) % len(held)]
                    attempt = world.core.state.jobs.records[one.id].attempt
                    exited(world, one, "node-lost" if extra == 5 else "succeeded", attempt)
            case "cancel" if self.jobs:
                cancel(world, self.jobs[which * 7 % len(self.jobs)])
            case "lose" | "back" if f"n{extra}" in world.nodes:
                world.set_lost_quietly(f"n{extra}", lost=op == "lose")
            case "join" if f"n{which}" not in world.nodes:
                world.join_quietly(f"n{which}", gpus=1 + extra, rack=f"r{extra % 3}")
            case "limit":
                milli = 1_000 + 1_000 * extra if which else None
                limit(world, "abc"[which % 3], milli, parent="a" if which % 3 == 2 else None)


def exited(world: World, one: Job, outcome: str, attempt: int) -> None:
    payload = PodsExited(attempt=attempt, outcome=PodsOutcome(outcome), ran_s=1.0)
    world.say("agent", "job", one.id, "pods-exited", payload)


def cancel(world: World, one: Job) -> None:
    world.say("federation", "job", one.id, "cancel-forwarded", JobCancelRequested(principal="ada"))


def limit(world: World, name: str, milli: int | None, *, parent: str | None) -> None:
    spec = QueueSpec(name=name, gpu_milli_limit=milli, parent=parent)
    world.say("federation", "queue", name, "change-forwarded", QueueChangeRequested(spec=spec, principal="root"))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORY)
def test_pruned_decisions_equal_unpruned_ones(history: list[tuple[str, int, int]]) -> None:
    twins = Twins()
    for op, which, extra in history:
        twins.do(op, which, extra)
    twins.settle()
    ends = [
        {one.id: (world.phase(one), world.slots(one)) for one in twins.jobs} for world in (twins.pruned, twins.plain)
    ]
    assert ends[0] == ends[1]


def test_only_those_for_whom_there_is_room_are_tried_when_a_job_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(nodes=2, gpus=8)
    holder = world.submit("holder", gpus=2)
    for index in range(14):
        world.submit(f"other-{index}")
    for index in range(50):
        world.submit(f"large-{index}", gpus=8, cpu_milli=1_000 + index)
    small = world.submit("small", gpus=2)
    books, tried = world.core.state.books, list[str]()
    propose = books.propose
    monkeypatch.setattr(books, "propose", lambda job_id, gang: (tried.append(job_id), propose(job_id, gang))[1])
    world.exited(holder)
    assert world.phase(small) is Phase.PLACED
    assert set(tried) == {small.id}
