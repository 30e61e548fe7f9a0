"""Virtual fabrics keep what the port `Fabrics` promises."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from contract.fabric.fabrics_suite import (
    FABRIC,
    FREE,
    MACHINE,
    MODEL,
    SWITCH_S,
    FabricsBench,
    FabricsContract,
    attach,
    detach,
    moment,
    only,
)
from muster.composer.core.fabrics import AttachCall, CallWentWrong, DetachCall, Observation
from muster.composer.virtual import VirtualFabrics
from muster.core.instant import seconds_between
from muster.core.settings import FabricBehaviour
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import PoolDevice
from muster.schemas.facts.device import CallFailure


class VirtualBench:
    """Time passes by being observed, at every moment that the backend names."""

    def __init__(self) -> None:
        self.model = FabricModel(
            name=FABRIC,
            behaviour=FabricBehaviour(switch_median_s=SWITCH_S, switch_sigma=0.0),
            devices=[PoolDevice(f"GPU-{index}", MODEL) for index in range(FREE)],
            machines=[MACHINE],
        )
        self.fabrics = VirtualFabrics({FABRIC: self.model})
        self.at_s = 0.0

    def settle(self, at_s: float) -> Sequence[Observation]:
        self.fabrics.observe(moment(self.at_s))
        while (change := self.fabrics.next_change()) is not None and self.at_s < (due_s := self._s(change)) <= at_s:
            self.at_s = due_s
            self.fabrics.observe(change)
        self.at_s = at_s
        return self.fabrics.observe(moment(at_s))

    def _s(self, change: int) -> float:
        return seconds_between(moment(0), change)

    def standing(self) -> Sequence[str]:
        self.model.advance(moment(self.at_s))
        return [device.device_id for device in self.model.on_machine(MACHINE)]

    def put_on_machine(self) -> str:
        """A device stands there; its id."""
        device = PoolDevice("GPU-standing", MODEL)
        self.model.enter(device, MACHINE)
        return device.on_machine().device_id

    def new_term(self) -> None:
        self.fabrics.start_term()

    def end(self) -> None:
        return None


class TestVirtualFabrics(FabricsContract):
    def new_bench(self) -> FabricsBench:
        return VirtualBench()

    @pytest.mark.parametrize(
        ("share", "failure"),
        [
            ("refuse_share", CallFailure.UNAVAILABLE),
            ("drop_share", CallFailure.TIMEOUT),
            ("half_share", CallFailure.NONSENSE),
            ("nonsense_share", CallFailure.NONSENSE),
        ],
    )
    @pytest.mark.parametrize("call", [attach(), detach("nowhere")], ids=["attach", "detach"])
    def test_a_fault_is_told_as_the_drivers_of_real_managers_tell_it(
        self, call: AttachCall | DetachCall, share: str, failure: CallFailure
    ) -> None:
        bench = VirtualBench()
        if isinstance(call, DetachCall):
            call = replace(call, device_id=bench.put_on_machine())
        bench.model.behaviour = FabricBehaviour(switch_median_s=SWITCH_S, switch_sigma=0.0, **{share: 1.0})
        bench.fabrics.carry_out(call)
        wrong = only(bench.settle(1_000))
        assert isinstance(wrong, CallWentWrong)
        assert wrong.failure is failure
