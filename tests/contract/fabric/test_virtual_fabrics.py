"""Virtual fabrics keep what the port `Fabrics` promises."""

from collections.abc import Sequence

from contract.fabric.fabrics_suite import FABRIC, FREE, MACHINE, MODEL, SWITCH_S, FabricsBench, FabricsContract, moment
from muster.composer.core.fabrics import Observation
from muster.composer.virtual import VirtualFabrics
from muster.core.instant import seconds_between
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import Behaviour, PoolDevice


class VirtualBench:
    """Time passes by being observed, at every moment that the backend names."""

    def __init__(self) -> None:
        self.model = FabricModel(
            name=FABRIC,
            settings=Behaviour(switch_median_s=SWITCH_S, switch_sigma=0.0),
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

    def new_term(self) -> None:
        self.fabrics.start_term()

    def end(self) -> None:
        return None


class TestVirtualFabrics(FabricsContract):
    def new_bench(self) -> FabricsBench:
        return VirtualBench()
