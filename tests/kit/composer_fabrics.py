"""A fabric of which the test says what happens."""

from collections import Counter
from collections.abc import Sequence

from muster.composer.core.fabrics import (
    AttachCall,
    AttachDone,
    Call,
    CallWentWrong,
    DetachCall,
    DetachDone,
    Look,
    Observation,
    Outcome,
    Surveyed,
    SurveyWentWrong,
)
from muster.core import Instant
from muster.fabric.driver import Inventory, MachineDevice
from muster.schemas.devices import CXL_MEMORY, GPU
from muster.schemas.facts.device import CallFailure

A100, H100, CXL = "NVIDIA-A100-PCIE-40GB", "H100", "CXL-128"


def device(number: int, *, model: str = A100, type_: str = GPU, memory_mib: int = 0) -> MachineDevice:
    return MachineDevice(f"res-{number}", f"{'CXL' if memory_mib else 'GPU'}-{number}", model, type_, memory_mib)


def machine(node: str) -> str:
    return f"machine-of-{node}"


class FakeFabrics:
    """Implements `Fabrics`. Nothing happens to a call before the test says so; looks show `free` and `on`.

    blind: looks fail so; dark: looks at these fabrics fail. slow: set to {}, looks are taken and not told before
    `show_slow_looks`.
    """

    def __init__(self) -> None:
        self.free: dict[str, Counter[tuple[str, str]]] = {}
        self.on: dict[str, dict[str, list[MachineDevice]]] = {}
        self.begun: list[Call] = []
        self.open: dict[tuple[str, int], Call] = {}
        self.acknowledged: list[tuple[str, int]] = []
        self.blind: CallFailure | None = None
        self.looked_at: list[Instant] = []
        self.dark: set[str] = set()
        self.slow: dict[str, Look] | None = None
        self._told: dict[tuple[str, int], Outcome] = {}
        self._wanted: dict[str, Instant] = {}
        self._looks: dict[str, Look] = {}
        self._numbers = 0

    def stock(self, fabric: str, kind: tuple[str, str], count: int) -> None:
        self.free.setdefault(fabric, Counter())[kind] += count
        self.on.setdefault(fabric, {})

    def place(self, fabric: str, machine_id: str, there: MachineDevice) -> MachineDevice:
        self.on.setdefault(fabric, {}).setdefault(machine_id, []).append(there)
        return there

    def carry_out(self, call: Call) -> None:
        if (call.order, call.attempt) not in self.open:
            self.begun.append(call)
            self.open[call.order, call.attempt] = call

    def is_under_way(self, order: str, attempt: int) -> bool:
        return (order, attempt) in self.open

    def ask_survey(self, fabric: str, not_before: Instant) -> None:
        look = self._looks.get(fabric)
        if self.slow is not None and fabric in self.slow:
            return  # somebody is looking
        if isinstance(look, Surveyed) and look.began_at >= not_before:
            self._wanted.pop(fabric, None)
        else:
            self._wanted[fabric] = not_before

    def observe(self, now: Instant) -> Sequence[Observation]:
        for fabric, not_before in tuple(self._wanted.items()):
            if not_before <= now:
                del self._wanted[fabric]
                (self._looks if self.slow is None else self.slow)[fabric] = self._look(fabric, now)
        return [*self._told.values(), *self._looks.values()]

    def acknowledge(self, order: str, attempt: int) -> None:
        self.acknowledged.append((order, attempt))
        self.open.pop((order, attempt), None)
        self._told.pop((order, attempt), None)

    def next_change(self) -> Instant | None:
        return Instant(0) if self._told else min(self._wanted.values(), default=None)

    # --- what the test says --------------------------------------------------------------------------------------

    @property
    def attaching(self) -> list[AttachCall]:
        return [call for call in self.open.values() if isinstance(call, AttachCall) and self._is_silent(call)]

    @property
    def detaching(self) -> list[DetachCall]:
        return [call for call in self.open.values() if isinstance(call, DetachCall) and self._is_silent(call)]

    def do(self, call: Call) -> MachineDevice | None:
        """The fabric carries it out; whoever called does not hear of it. None: there was nothing to take away."""
        if isinstance(call, AttachCall):
            self._numbers += 1
            memory_mib = 131_072 if call.type == CXL_MEMORY else 0
            new = device(self._numbers, model=call.model, type_=call.type, memory_mib=memory_mib)
            self.free[call.fabric][call.type, call.model] -= 1
            return self.place(call.fabric, call.machine, new)
        standing = self.on[call.fabric].get(call.machine, [])
        for there in standing:
            if there.device_id == call.device_id:
                standing.remove(there)
                self.free[call.fabric][there.type, there.model] += 1
                return there
        return None

    def finish(self, call: Call) -> MachineDevice | None:
        """The fabric carries it out, and says so."""
        there = self.do(call)
        key = call.order, call.attempt
        if isinstance(call, AttachCall):
            standing = self.on[call.fabric][call.machine]
            fitting = [one for one in standing if (one.type, one.model) == (call.type, call.model)]
            self._told[key] = AttachDone(*key, candidates=tuple(fitting), took_s=1.0)
        else:
            self._told[key] = DetachDone(*key, was_gone=there is None, took_s=1.0)
        return there

    def tell(self, call: Call, failure: CallFailure, error: str = "so it is") -> None:
        """The caller hears of a failure; what the fabric did is another matter."""
        self._told[call.order, call.attempt] = CallWentWrong(call.order, call.attempt, failure, error)

    def show_slow_looks(self) -> None:
        """What was seen since `slow` was set comes only now."""
        assert self.slow is not None
        self._looks.update(self.slow)
        self.slow = None

    def lose(self) -> None:
        """Another leader: whoever made the calls is gone."""
        for known in (self.open, self._told, self._wanted, self._looks):
            known.clear()

    def _is_silent(self, call: Call) -> bool:
        return (call.order, call.attempt) not in self._told

    def _look(self, fabric: str, now: Instant) -> Look:
        self.looked_at.append(now)
        if self.blind is not None or fabric in self.dark:
            return SurveyWentWrong(fabric, now, self.blind or CallFailure.UNAVAILABLE, "nobody there")
        machines = {name: tuple(there) for name, there in self.on.get(fabric, {}).items()}
        return Surveyed(fabric, now, Inventory(dict(self.free.get(fabric, {})), machines))
