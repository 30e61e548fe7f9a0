"""The port over simulated fabrics in virtual time, without I/O: time advances when it is asked.

Calls fail as the model draws: dropped answers time out at their deadline, half-done work and garbage are nonsense: the
device's state is then unknown. A new term forgets the calls; the fabrics continue them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.composer.core.fabrics import (
    AttachCall,
    AttachDone,
    Call,
    CallWentWrong,
    DetachDone,
    Look,
    Observation,
    Outcome,
    Surveyed,
)
from muster.core import Instant, seconds_between
from muster.fabric.driver import FabricError
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import Fault, Operation
from muster.schemas.facts.device import CallFailure

AT_ONCE = Instant(0)
_Key = tuple[str, int]


@dataclass(slots=True)
class _Running:
    """A call in progress; at `told_at` its outcome, or the lack of one, is known."""

    call: Call
    operation: Operation
    begun_at: Instant
    told_at: Instant


class VirtualFabrics:
    """Simulated fabrics; several instances over the same `models` are several leaders.

    `counts` has outcomes by direction and failure or "done", as "attach timeout". "attach dropped": the fabric did it,
    and the answer was lost. "attach twice": carried out twice.
    """

    def __init__(self, models: Mapping[str, FabricModel]) -> None:
        self._models = models
        self._queue: list[Call] = []
        self._running: dict[_Key, _Running] = {}
        self._told: dict[_Key, Outcome] = {}
        self._taken: set[_Key] = set()
        self._wanted: dict[str, Instant] = {}
        self._looks: dict[str, Look] = {}
        self._news = False
        self.counts: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """Return the number of calls in progress."""
        return len(self._running)

    def start_term(self) -> None:
        """Forget all calls, because another process leads; the fabrics continue them."""
        self._queue.clear()
        for known in (self._running, self._told, self._wanted, self._looks):
            known.clear()
        self._taken.clear()
        self._news = False

    def carry_out(self, call: Call) -> None:
        """Queue a call."""
        key = call.order, call.attempt
        if key not in self._taken:
            self._taken.add(key)
            self._queue.append(call)

    def is_under_way(self, order: str, attempt: int) -> bool:
        """Return whether this process makes the call."""
        return (order, attempt) in self._taken

    def ask_survey(self, fabric: str, not_before: Instant) -> None:
        """Request a survey; the newest request counts."""
        look = self._looks.get(fabric)
        if look is not None and look.began_at >= not_before:
            self._wanted.pop(fabric, None)
        elif fabric in self._models:
            self._wanted[fabric] = not_before

    def observe(self, now: Instant) -> Sequence[Observation]:
        """Begin queued calls, survey on request, and return the observations."""
        for model in self._models.values():
            model.advance(now)
        for call in self._queue:
            self._begin(call, now)
        self._queue.clear()
        for key, running in tuple(self._running.items()):
            if running.told_at <= now:
                del self._running[key]
                self._tell(running.call, self._outcome(running, now))
        for fabric, not_before in tuple(self._wanted.items()):
            if not_before <= now:
                del self._wanted[fabric]
                self._looks[fabric] = Surveyed(fabric, now, self._models[fabric].inventory())
        return [*self._told.values(), *self._looks.values()]

    def acknowledge(self, order: str, attempt: int) -> None:
        """Drop the outcome of a call."""
        key = order, attempt
        self._taken.discard(key)
        self._told.pop(key, None)
        self._running.pop(key, None)
        self._queue = [call for call in self._queue if (call.order, call.attempt) != key]

    def next_change(self) -> Instant | None:
        """Return when to observe again."""
        if self._told or self._queue:
            return AT_ONCE
        moments = [running.told_at for running in self._running.values()]
        return min([*moments, *self._wanted.values()], default=None)

    def _begin(self, call: Call, now: Instant) -> None:
        key, model = (call.order, call.attempt), self._models.get(call.fabric)
        if model is None or now > call.start_by:
            self._tell(call, CallWentWrong(*key, CallFailure.UNAVAILABLE, "not begun"))
            return
        try:
            operation = self._operate(model, call, now)
        except FabricError as error:
            self._tell(call, CallWentWrong(*key, error.failure, str(error)))
            return
        is_lost = operation.fault is Fault.DROP or operation.due > call.deadline_at
        self._running[key] = _Running(call, operation, now, call.deadline_at if is_lost else operation.due)

    def _operate(self, model: FabricModel, call: Call, now: Instant) -> Operation:
        """Carry out a call. Raises FabricError."""
        key = f"{call.order}/{call.attempt}"
        if isinstance(call, AttachCall):
            return model.begin_attach(call.machine, type=call.type, model=call.model, now=now, key=key)
        return model.begin_detach(call.machine, device_id=call.device_id, now=now, key=key)

    def _outcome(self, running: _Running, now: Instant) -> Outcome:
        call, operation = running.call, running.operation
        key, took_s = (call.order, call.attempt), seconds_between(running.begun_at, now)
        if operation.fault is Fault.DROP or operation.due > call.deadline_at:
            if operation.due <= call.deadline_at:
                self._count(call, "dropped")
            return CallWentWrong(*key, CallFailure.TIMEOUT, "no answer in time")
        if operation.fault is Fault.NONSENSE:
            return CallWentWrong(*key, CallFailure.NONSENSE, "an answer that cannot be understood")
        if operation.fault is Fault.HALF:
            return CallWentWrong(*key, CallFailure.NONSENSE, "an error after it was begun: the device may have moved")
        if operation.fault is Fault.TWICE:
            self._count(call, "twice")
        if not isinstance(call, AttachCall):
            return DetachDone(*key, was_gone=operation.was_gone, took_s=took_s)
        there = self._models[call.fabric].on_machine(call.machine)
        fitting = tuple(device for device in there if (device.type, device.model) == (call.type, call.model))
        return AttachDone(*key, candidates=fitting, took_s=took_s)

    def _tell(self, call: Call, outcome: Outcome) -> None:
        self._count(call, outcome.failure.value if isinstance(outcome, CallWentWrong) else "done")
        self._told[call.order, call.attempt] = outcome

    def _count(self, call: Call, what: str) -> None:
        self.counts[f"{'attach' if isinstance(call, AttachCall) else 'detach'} {what}"] += 1
