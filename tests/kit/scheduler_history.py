"""Logs that the real scheduler decides, over a cluster of which a test says what happens."""

from collections import Counter

from kit.log import START
from kit.scheduler import VirtualScheduler
from kit.scheduler_counts import CountingScheduler
from muster.schemas import ids
from muster.schemas.facts.job import PodsExited, PodsOutcome, PodsResized, PodsStarted
from muster.schemas.facts.node import Withheld, WithholdRequested
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job, JobSpec, Phase, Slot, TaskGroup

CHOSEN, COUNTED = ("c0", "c1"), ("k0", "k1")
SHAPES = (
    (TaskGroup(gpus=1),),
    (TaskGroup(gpus=1, replicas=5, min_replicas=1),),
    (TaskGroup(gpus=2, replicas=2),),
    (TaskGroup(gpu_milli=400, replicas=2),),
    (TaskGroup(gpus=1, replicas=3), TaskGroup(name="cpu", gpus=0)),
)
OPERATIONS = (
    "submit", "submit", "start", "start", "start", "exit", "resized", "lose", "back", "withhold", "force", "wait",
)  # fmt: skip
JOBS_MAX, WHOLE = 12, 1000


class SchedulerHistory(CountingScheduler):
    """Two nodes whose devices the scheduler picks, and two whose kubelets do. uses: milli-GPUs of devices, by job."""

    def __init__(self) -> None:
        self.uses: dict[str, Counter[str]] = {}
        super().__init__(queues=())
        spec = QueueSpec(name="lab")
        self.write("federation", "queue", "lab", "change-forwarded", QueueChangeRequested(spec=spec, principal="root"))
        for name in (*CHOSEN, *COUNTED):
            self.join(name, gpus=4)

    def join_quietly(self, name: str, *, gpus: int, **described: object) -> None:
        if name in COUNTED:
            super().join_quietly(name, gpus=gpus, **described)
        else:
            VirtualScheduler.join_quietly(self, name, gpus=gpus)

    def do(self, operation: str, which: int, extra: int) -> None:
        """Something happens, and the scheduler answers."""
        match operation:
            case "submit":
                self._submit(which, extra)
            case "start" | "exit" | "resized":
                self._observe(operation, which, extra)
            case "lose" | "back":
                self._lose(tuple(self.nodes)[which % len(self.nodes)], lost=operation == "lose")
            case "withhold" | "force":
                self._withhold(which, extra, force=operation == "force")
            case _:
                self.advance(30.0 * (1 + extra))
        self.settle()

    def _submit(self, which: int, extra: int) -> None:
        number = len(self.core.state.jobs.records)
        if number >= JOBS_MAX:
            return
        priority, groups = (10, 50, 90)[extra % 3], SHAPES[which % len(SHAPES)]
        spec = JobSpec(
            name=f"job-{number}", team="lab", task_groups=groups, priority=priority, min_slice_s=0.0, retries=9
        )
        job_id = ids.job_id(team="lab", principal="ada", idempotency_key=f"{number}")
        self.route(
            Job(id=job_id, spec=spec, principal="ada", idempotency_key=f"{number}", body_hash="", submitted_at=START)
        )

    def _observe(self, operation: str, which: int, extra: int) -> None:
        wanted = Phase.PLACED if operation == "start" else Phase.RUNNING
        records = [
            one
            for one in self.core.state.jobs.records.values()
            if one.phase in (wanted, Phase.STOPPING) and (operation != "resized" or one.resize is not None)
        ]
        if not records:
            return
        record = records[which % len(records)]
        if operation == "start" and not record.started_fact:
            self.uses[record.id] = Counter()
            picked = tuple(self._picked(slot, self.uses[record.id]) for slot in record.slots)
            started = PodsStarted(attempt=record.attempt, device_uuids=picked)
            self.write("agent", "job", record.id, "pods-started", started)
        elif operation == "exit":
            self.uses.pop(record.id, None)
            outcome = tuple(PodsOutcome)[extra % len(PodsOutcome)]
            self.write("agent", "job", record.id, "pods-exited", PodsExited(attempt=record.attempt, outcome=outcome))
        elif operation == "resized" and record.resize is not None:
            self.uses.pop(record.id, None)
            resized = PodsResized(attempt=record.attempt, slots=len(record.resize.slots))
            self.write("agent", "job", record.id, "pods-resized", resized)

    def _picked(self, slot: Slot, uses: Counter[str]) -> tuple[str, ...]:
        """The devices of a slot: as chosen, or the last ones of the node that have room. uses: of its job."""
        uuids = self.nodes[slot.node].description.gpu_uuids
        used = sum(self.uses.values(), Counter())
        free = [uuid for uuid in reversed(uuids) if used[uuid] + slot.gpu_milli <= WHOLE]
        picked = tuple(uuids[index] for index in slot.devices) or tuple(free[: slot.gpus])
        uses.update(dict.fromkeys(picked, slot.gpu_milli))
        return picked

    def _lose(self, name: str, *, lost: bool) -> None:
        if self.nodes[name].lost != lost:
            self.set_lost_quietly(name, lost=lost)

    def _withhold(self, which: int, extra: int, *, force: bool) -> None:
        """A device is asked for; once it is given, it is gone, and comes again later."""
        name, index = tuple(self.nodes)[which % len(self.nodes)], extra % 4
        uuid = self.nodes[name].description.gpu_uuids[index]
        request = WithholdRequested(request_id=f"r{len(self.log)}", force=force)
        self.write("composer", "device", uuid, "withhold-requested", request)
        self.settle()
        is_given = any(
            isinstance(fact.payload, Withheld) and fact.payload.request_id == request.request_id for fact in self.log
        )
        if is_given and name in CHOSEN:
            self.plug(name, index, there=False)
            self.settle()
            self.plug(name, index, there=True)
