"""Leaving the hopeless alone misses nobody: once all is settled, trying everybody afresh places nobody."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.scheduler import VirtualScheduler, job
from muster.scheduler.core.stores.pending_queues import PendingQueues
from muster.schemas.facts.job import JobCancelRequested, JobPlaced, PodsExited, PodsOutcome
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job, Phase

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
    {"gpus": 1, "replicas": 2, "preemptible": False},
    {"gpus": 2, "gpu_models": ("L4",)},
]
OPS = ("route", "route", "route", "exit", "exit", "lose", "back", "join", "limit", "limit", "cancel", "cut", "decide")
HISTORY = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, len(KINDS) - 1), st.integers(0, 5)), min_size=20, max_size=120
)


def fleet() -> VirtualScheduler:
    world = VirtualScheduler(queues=("a", "b"))
    world.queue("c", parent="a")
    world.queue("d", parent="b")
    for index in range(5):
        world.join_quietly(f"n{index}", gpus=2 + index % 3, rack=f"r{index // 2}")
    world.settle()
    return world


class Harness:
    """A world, and what happens in it."""

    def __init__(self) -> None:
        self.world = fleet()
        self.jobs: list[Job] = []

    def settle(self) -> None:
        """Decide until nothing more is decided; then nobody who could be placed may be left."""
        self.world.settle()
        is_filed_in_order(self.world.core.state.pending)
        self.world.core.state.pending.reopen()
        missed = [draft for draft in self.world.core.decide(self.world.now) if isinstance(draft.payload, JobPlaced)]
        assert missed == []

    def store(self, share: float) -> None:
        drafts = self.world.core.decide(self.world.now)
        for draft in drafts[: round(len(drafts) * share)]:
            self.world.append("scheduler", draft)

    def do(self, op: str, which: int, extra: int) -> None:
        world = self.world
        match op:
            case "route":
                self.jobs.append(job(f"j{len(self.jobs)}", queue="abcd"[extra % 4], **dict(KINDS[which])))
                world.route(self.jobs[-1])
            case "cut":
                self.store(extra / 5)
            case "decide":
                self.settle()
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
                world.join_quietly(f"n{which}", gpus=1 + extra, rack=f"r{extra % 3}", model=("H100", "L4")[extra % 2])
            case "limit":
                world.write(*limit("abcd"[which % 4], extra, which))


def is_filed_in_order(all_pending: PendingQueues) -> None:
    """Every blocked pending queue is kept once, under its first job, and none that is not blocked."""
    waits = all_pending._quota_blocked._waits.values()
    files = [
        *all_pending._capacity_blocked._of_queue.values(),
        *(file for wait in waits for file in wait.queues.values()),
    ]
    filed = [pending for one in files for _, _, pending in one.all()]
    blocked = [
        pending
        for pending in all_pending.queues.values()
        if pending.capacity_block or (pending.quota_block and pending.quota_block.resource)
    ]
    assert all(files), "what is empty is forgotten"
    assert sorted(pending.number for pending in filed) == sorted(pending.number for pending in blocked)
    for one in files:
        assert one.all() == sorted(one.all())
        assert [place for place, _, _ in one.all()] == [pending.jobs[0][0] for _, _, pending in one.all()]


def limit(name: str, extra: int, which: int) -> tuple[object, ...]:
    """Another quota or limit, sometimes another parent."""
    spec: dict[str, object] = {"name": name, "parent": {"c": "a", "d": "ba"[extra % 2]}.get(name)}
    match which % 5:
        case 0:
            spec["borrowing_limit"] = {"gpu_milli": 1_000 * extra}
        case 1:
            spec["quota"] = {"gpu_milli": 2_000 * extra}
        case 2:
            spec["quota"] = {"gpu_milli": 1_000 * extra, "cpu_milli": 30_000 * extra}
            spec["lending_limit"] = {"gpu_milli": 1_000 * (extra // 2)}
        case 3:
            spec["quota"] = {"gpu_milli": 4_000, "gpu_milli:H100": 1_000 * extra}
    request = QueueChangeRequested(spec=QueueSpec.model_validate(spec), principal="root")
    return "federation", "queue", name, "change-forwarded", request


def exited(world: VirtualScheduler, one: Job, outcome: str, attempt: int) -> None:
    payload = PodsExited(attempt=attempt, outcome=PodsOutcome(outcome), ran_s=1.0)
    world.write("agent", "job", one.id, "pods-exited", payload)


def cancel(world: VirtualScheduler, one: Job) -> None:
    world.write("federation", "job", one.id, "cancel-forwarded", JobCancelRequested(principal="ada"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORY)
def test_whoever_could_be_placed_is_tried(history: list[tuple[str, int, int]]) -> None:
    harness = Harness()
    for op, which, extra in history:
        harness.do(op, which, extra)
    harness.settle()


def test_only_those_for_whom_there_is_room_are_tried_when_a_job_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world = VirtualScheduler(nodes=2, gpus=8)
    holder = world.submit("holder", gpus=2)
    for index in range(14):
        world.submit(f"other-{index}")
    for index in range(50):
        world.submit(f"large-{index}", gpus=8, cpu_milli=1_000 + index)
    small = world.submit("small", gpus=2)
    proposals, tried = world.core.state.proposals, list[str]()
    propose = proposals.propose
    monkeypatch.setattr(proposals, "propose", lambda job_id, gang: (tried.append(job_id), propose(job_id, gang))[1])
    world.exited(holder)
    assert world.phase(small) is Phase.PLACED
    assert set(tried) == {small.id}


def test_quota_that_was_used_up_again_costs_nothing_more() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("lab", quota={"gpu_milli": 2_000})
    holder = world.submit("holder", queue="lab", gpus=2)
    waiting = [world.submit(f"w{index}", queue="lab", gpus=1 + index % 2, cpu_milli=100 + index) for index in range(9)]
    world.exited(holder)
    assert sum(world.phase(one) is Phase.PLACED for one in waiting) == 1
    assert list(world.core.state.pending.worth_trying()) == []


def test_who_is_stopped_by_the_quota_of_one_model_is_tried_when_others_take_that_model() -> None:
    """Then fewer of its replicas find a place on that model, and more on another."""
    world = VirtualScheduler(queues=("b",))
    world.queue("a", quota={"gpu_milli": 8_000, "gpu_milli:H100": 1_000})
    world.join_quietly("h", gpus=4, model="H100")
    world.join_quietly("l", gpus=4, model="L4")
    world.settle()
    wide = world.submit("wide", queue="a", gpus=1, replicas=5)
    assert world.phase(wide) is Phase.QUEUED
    world.submit("other", queue="b", gpus=3, gpu_models=("H100",))
    assert world.phase(wide) is Phase.PLACED


def test_a_gang_that_is_placed_elsewhere_since_others_took_places_is_not_missed() -> None:
    """An example that was missed once: a quota of one model stops one of two gangs until the other has its place."""
    harness = Harness()
    history = [
        *(("route", 0, 0), ("route", 0, 0), ("route", 2, 1), *[("exit", 0, 0)] * 5, ("join", 5, 3), ("decide", 0, 0)),
        *(("route", 0, 0), ("exit", 0, 0), ("cancel", 1, 0), ("route", 0, 1), ("route", 0, 1), ("route", 5, 0)),
        *(("route", 5, 1), ("exit", 0, 1), ("limit", 2, 2), ("limit", 3, 3)),
    ]
    for op, which, extra in history:
        harness.do(op, which, extra)
    harness.settle()
