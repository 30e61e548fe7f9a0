"""A cluster in virtual time whose kubelets pick the GPUs: placements say how many."""

from collections import Counter

from kit.scheduler import VirtualScheduler
from muster.scheduler.core.stores.jobs import HOLDING
from muster.schemas.facts.job import PodsStarted
from muster.schemas.facts.node import NodeJoined, NodeState
from muster.schemas.job import Job, Slot


class CountingScheduler(VirtualScheduler):
    """As `VirtualScheduler`; its nodes show places, or devices of their own if they are named."""

    def join_quietly(
        self,
        name: str,
        *,
        gpus: int,
        rack: str = "r0",
        model: str = "H100",
        share_milli: tuple[int, ...] | None = None,
        uuids: tuple[str, ...] | None = None,
    ) -> None:
        """The node joins, or is described anew; nobody has decided yet."""
        description = NodeJoined(
            cpu_milli=128_000,
            memory_mib=1_048_576,
            gpu_model=model,
            gpu_uuids=uuids or tuple(f"{name}/gpu-{index}" for index in range(gpus)),
            domains=(("rack", rack),),
            kubelet_picks=True,
            share_milli=share_milli,
        )
        fact = self.write("agent", "node", name, "joined", description)
        self.nodes[name] = NodeState(description=description, last_fact=fact.id)

    def describe(
        self, name: str, *, gpus: int = 0, share_milli: tuple[int, ...] | None = None, uuids: tuple[str, ...] = ()
    ) -> None:
        self.join_quietly(name, gpus=gpus, share_milli=share_milli, uuids=uuids or None)
        self.settle()

    def picked(self, one: Job, *uuids: str) -> None:
        """The pods run on these devices."""
        self.write("agent", "job", one.id, "pods-started", PodsStarted(attempt=1, device_uuids=(uuids,)))
        self.settle()

    def placed(self, one: Job) -> tuple[Slot, ...]:
        return self.last("placed", one.id).payload.slots

    def idle(self, name: str) -> int:
        """Milli-GPUs that are idle on a node, whoever may use them."""
        self.core.state.proposals.settle()
        return sum(self.core.state.fleet.ledger.nodes[name].idle)

    def held(self) -> Counter[str]:
        """Milli-GPUs by node, as the slots of the jobs' records say."""
        held: Counter[str] = Counter()
        for record in self.core.state.jobs.records.values():
            for slot in record.held_slots if record.phase in HOLDING else ():
                held[slot.node] += slot.gpu_milli_held
        return held
