"""Histories of a scheduler, drawn for properties, and what is checked after each step."""

from collections.abc import Callable

from hypothesis import strategies as st

from kit.scheduler import VirtualScheduler, belief, job
from kit.scheduler_yard import elastic
from muster.core import Draft, Fact
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.job import (
    JobCancelRequested,
    JobPlaced,
    PodsExited,
    PodsOutcome,
    PodsResized,
    PodsStarted,
)
from muster.schemas.facts.job_requests import Ask
from muster.schemas.facts.node import NodeLeft, Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job, Phase

JOBS = [
    job("whole", gpus=2, queue="a", retries=1),
    job("share", gpu_milli=400, queue="a"),
    job("share-2", gpu_milli=700, queue="b"),
    job("gang", gpus=1, replicas=3, queue="b", retries=2),
    job("node", gpus=1, full_node=True, queue="a"),
    job("cpu", gpus=0, queue="b"),
    job("short", gpus=1, queue="a", total_run_time_s=20.0),
    job("lost", gpus=1, queue="nowhere"),
    job("low", gpus=1, queue="a", priority=10, min_slice_s=0.0),
    job("high", gpus=2, queue="b", priority=90, min_slice_s=0.0),
    elastic("wide", least=1, replicas=3, queue="b", priority=10, min_slice_s=0.0),
]


OPS = (
    "route", "cancel", "hold", "hold", "release", "release", "priority",
    "start", "exit", "lose-node", "return-node", "join", "leave", "withhold", "force", "limit",
    "withdraw", "give-back", "unplug", "plug",
    "start", "start", "exit", "exit", "resize", "resize", "deliver", "deliver", "deliver", "double", "drop",
    "decide", "decide", "decide", "refused", "cut", "race", "wait", "crash", "recover",
)  # fmt: skip


HISTORY = st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 10), st.integers(0, 3)), min_size=20, max_size=90)


class Harness:
    """A world whose agent's and federation's words are late: they wait in `mail` until they are delivered."""

    def __init__(self) -> None:
        self.world = VirtualScheduler(nodes=2, gpus=2, queues=("a", "b"), limits=Limits(checkpoint_every_facts=25))
        self.mail: list[Callable[[], Fact]] = []
        self.routed: set[str] = set()

    def do(self, op: str, which: int, extra: int) -> None:
        """One thing happens."""
        world, one = self.world, JOBS[which]
        match op:
            case "route" if one.id not in self.routed:
                self.routed.add(one.id)
                world.route(one)
            case "cancel" | "hold" | "release" | "priority":
                self.ask(op, one, extra)
            case "start" | "exit" | "resize":
                self.observe(one, op, extra)
            case "lose-node" | "return-node" | "join" | "leave":
                self.node(op, f"n{extra}", gpus=1 + which % 4)
            case "withhold" | "force":
                kind, name = ("node", f"n{extra}") if which % 2 else ("device", f"n{extra}-gpu-0")
                request = WithholdRequested(request_id=f"r{which}", force=op == "force")
                self.post("composer", kind, name, "withhold-requested", request)
            case "withdraw" | "give-back":
                kind, name = ("node", f"n{extra}") if which % 2 else ("device", f"n{extra}-gpu-0")
                taken_back = WithholdWithdrawn(request_id=f"r{which}", after_withheld=op == "give-back")
                self.post("composer", kind, name, "withhold-withdrawn", taken_back)
            case "plug" | "unplug" if f"n{extra}" in world.nodes:
                world.plug(f"n{extra}", which % 4, there=op == "plug")
            case "limit":
                spec = QueueSpec(name="ab"[extra % 2], gpu_milli_limit=1_000 * which)
                change = QueueChangeRequested(spec=spec, principal="root")
                self.post("federation", "queue", spec.name, "change-forwarded", change)
            case "wait":
                world.now += (1 + which) * 1_000_000_000
            case "crash":
                self.swap(world.refold())
            case "recover":
                kinds = ("queue", "node", "device", "agent", "job", "cluster")
                self.swap(world.recover(kinds if which % 2 else reversed(kinds)))
            case _:
                self.deliver(op, which, extra)

    def deliver(self, op: str, which: int, extra: int) -> None:
        """Mail arrives, twice, or never; decisions are stored, cut short, refused, or overtaken."""
        _world, mail = self.world, self.mail
        at = which % len(mail) if mail else None
        match op:
            case "deliver" if at is not None:
                mail.pop(at)()
            case "double" if at is not None:
                mail[at]()
            case "drop" if at is not None:
                mail.pop(at)
            case "decide":
                self.store(self.decided())
            case "refused":
                self.decided()
            case "cut":
                drafts = self.decided()
                self.store(drafts[: len(drafts) * extra // 3])
            case "race":
                drafts = self.decided()
                if at is not None:
                    mail.pop(at)()
                self.store(drafts)

    def ask(self, op: str, one: Job, extra: int) -> None:
        """Somebody wants something of a job, which is told some time."""
        if op == "cancel":
            self.post("federation", "job", one.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
        else:
            self.mail.append(lambda: self.world.ask(one, Ask(op), priority=(10, 50, 90, 50)[extra]))

    def post(self, writer: str, kind: str, subject_id: str, name: str, payload: object) -> None:
        self.mail.append(lambda: self.world.write(writer, kind, subject_id, name, payload))

    def observe(self, one: Job, op: str, extra: int) -> None:
        """The agent sees pods of the present run start or end; when that is told is another matter."""
        record = self.world.core.state.jobs.records.get(one.id)
        if record is None or record.phase not in (Phase.PLACED, Phase.RUNNING, Phase.STOPPING):
            return
        if op == "start":
            self.post("agent", "job", one.id, "pods-started", PodsStarted(attempt=record.attempt))
            return
        if op == "resize":
            if record.resize is not None:
                resized = PodsResized(attempt=record.attempt, slots=len(record.resize.slots))
                self.post("agent", "job", one.id, "pods-resized", resized)
            return
        outcome = list(PodsOutcome)[extra]
        payload = PodsExited(attempt=record.attempt, outcome=outcome, exit_code=extra, ran_s=5.0)
        self.post("agent", "job", one.id, "pods-exited", payload)

    def node(self, op: str, name: str, *, gpus: int) -> None:
        world = self.world
        if op == "join":
            joined = world.core.state.nodes.get(name)
            if joined is None or joined.description is None:
                # who holds a device that is gone has no pods there any more, which this mail may never tell
                held = [
                    device
                    for holds in (joined.jobs.values() if joined else ())
                    for hold in holds
                    for device in hold.slot.devices
                ]
                world.join_quietly(name, gpus=max(gpus, 1 + max(held, default=0)))
        elif name in world.nodes:
            if op == "leave":
                del world.nodes[name]
                world.write("agent", "node", name, "left", NodeLeft())
            else:
                world.set_lost_quietly(name, lost=op == "lose-node")

    def decided(self) -> list[Draft]:
        """A decision; made twice, because asking must change nothing."""
        core, now = self.world.core, self.world.now
        drafts = core.decide(now)
        before = belief(core)
        assert core.decide(now) == drafts
        core.decide(now)
        assert belief(core) == before
        return core.decide(now)

    def store(self, drafts: list[Draft]) -> None:
        for draft in drafts:
            self.check(draft)
            self.world.append("scheduler", draft)

    def check(self, draft: Draft) -> None:
        """Invariants 4 and 5, and that nobody is placed who is held, as the draft reaches the log."""
        state = self.world.core.state
        if isinstance(draft.payload, Withheld):
            place = state.nodes.place_of(draft.subject_id) if draft.kind == "device" else (draft.subject_id, -1)
            holders = {
                record.id
                for record in state.jobs.records.values()
                for slot in record.held_slots
                if record.phase in (Phase.PLACED, Phase.RUNNING, Phase.STOPPING)
                and place is not None
                and slot.node == place[0]
                and (place[1] < 0 or place[1] in slot.devices)
            }
            grants = state.nodes if draft.kind == "node" else state.grants.devices
            known = grants[draft.subject_id].wishes if draft.subject_id in grants else ()
            for request in (
                w for w in known if w.request_id == draft.payload.request_id
            ):  # none if it was just withdrawn
                assert request.force or not holders
            assert draft.payload.forced == bool(holders)
            assert set(draft.payload.holders) == holders
        if isinstance(draft.payload, JobPlaced):
            record = state.jobs.records[draft.subject_id]
            assert record.held is None
            queue = state.queues.queues[record.queue]
            milli = sum(slot.gpu_milli * len(slot.devices) for slot in draft.payload.slots)
            limit = queue.spec.gpu_milli_limit
            assert limit is None or not milli or queue.held_milli + milli <= limit

    def swap(self, other: object) -> None:
        """The process dies; another one takes over from the log or from a checkpoint."""
        assert belief(other) == belief(self.world.core)
        self.world.core = other

    def finish(self) -> None:
        """Everything is told at last, nobody is held, all nodes are well, and all pods end."""
        world = self.world
        while self.mail:
            self.mail.pop(0)()
        world.settle()
        for one in JOBS:
            record = world.core.state.jobs.records.get(one.id)
            if record is not None and record.held is not None:
                world.release(one)
        for name in ("a", "b"):
            world.queue(name)
        for index in range(10, 14):
            world.join(f"n{index}", gpus=2)
        for _ in range(40):
            for one in JOBS:
                record = world.core.state.jobs.records.get(one.id)
                if record is not None and record.slots and not record.phase.is_terminal:
                    world.exited(one, "succeeded", attempt=record.attempt)
