"""A scaler and a composer that do as they are told, around an agent in virtual time."""

from dataclasses import dataclass, field

from kit.agent import QUICK, VirtualAgent, fleet_of
from muster.agent.core.behaviour import Behaviour
from muster.agent.core.fleet import Groups
from muster.core import Draft, Fact
from muster.core.settings import GroupSettings
from muster.schemas.devices import GPU, AttachmentPhase
from muster.schemas.facts.device import (
    AttachmentRequested,
    AttachmentState,
    DeviceAttached,
    DeviceDetached,
)
from muster.schemas.facts.node import NodeJoined, Withheld
from muster.schemas.facts.scale import ScaleChosen, ScaleEnded, ScaleState

WORKERS = GroupSettings(
    name="workers", composable=True, nodes=2, gpus=1, gpu_models=("A100",), provision_s=30.0, deprovision_s=5.0
)
PLAIN = GroupSettings(name="plain", nodes=1, gpus=4, gpu_models=("H100",), provision_s=20.0, deprovision_s=5.0)
GROUPS = Groups({"workers": WORKERS, "plain": PLAIN}, visible_s=10.0)
TRACE = "00-scale-s-01"


@dataclass
class Scaled:
    """chosen: choices that are not ended, by id; attached: devices that are, by attachment."""

    agent: VirtualAgent
    chosen: dict[str, tuple[Fact, bool]] = field(default_factory=dict)
    attached: dict[str, tuple[Fact, DeviceAttached]] = field(default_factory=dict)
    made: int = 0

    def add(self, node: str, *, group: str = "workers") -> str:
        return self._choose("node-add-chosen", ScaleChosen(case=1, group=group, node=node))

    def remove(self, node: str, *, group: str = "workers") -> str:
        """Chosen, but not withheld yet."""
        return self._choose("node-remove-chosen", ScaleChosen(case=3, group=group, node=node, request_id="r"))

    def withhold(self, scale: str, *, request_id: str = "") -> None:
        fact, _ = self.chosen[scale]
        assert isinstance(fact.payload, ScaleChosen)
        body = Withheld(request_id=request_id or fact.payload.request_id)
        self.agent.write("scheduler", "node", fact.payload.node, "withheld", body)
        self.chosen[scale] = (fact, not request_id)

    def end(self, scale: str, *, failed: bool = False) -> None:
        del self.chosen[scale]
        self.agent.write("scaler", "scale", scale, "ended", ScaleEnded(failed=failed))

    def attach(self, node: str, uuid: str, *, model: str = "A100", memory_mib: int = 0) -> str:
        order = f"order-{len(self.agent.log)}"
        kind = "cxlmemory" if memory_mib else GPU
        body = DeviceAttached(
            device_uuid=uuid, device_id=f"id-{uuid}", node=node, type=kind, model=model, memory_mib=memory_mib
        )
        self.attached[order] = (self.agent.write("composer", "attachment", order, "attached", body, trace=TRACE), body)
        return order

    def detach(self, order: str) -> Fact:
        _, device = self.attached.pop(order)
        body = DeviceDetached(
            device_uuid=device.device_uuid, device_id=device.device_id, node=device.node, type=device.type,
            memory_mib=device.memory_mib,
        )  # fmt: skip
        return self.agent.write("composer", "attachment", order, "detached", body, trace=TRACE)

    def states(self) -> list[Draft]:
        """What a checkpoint holds beside the agent's."""
        scales = [
            Draft("scale", scale, "state-recorded", ScaleState(
                name=fact.name, chosen=fact.payload, chosen_at=fact.time, fact=fact.id, withheld=withheld,
                trace=fact.trace,
            ))
            for scale, (fact, withheld) in self.chosen.items()
            if isinstance(fact.payload, ScaleChosen)
        ]  # fmt: skip
        return [*scales, *(self._attachment(order) for order in self.attached)]

    def node(self, name: str) -> NodeJoined:
        """As the log describes it."""
        description = self.agent.core.nodes[name].description
        assert description is not None
        return description

    def _choose(self, name: str, body: ScaleChosen) -> str:
        self.made += 1
        scale = f"s{self.made:06d}"
        body = body.model_copy(update={"request_id": scale})
        self.chosen[scale] = (self.agent.write("scaler", "scale", scale, name, body, trace=TRACE), False)
        return scale

    def _attachment(self, order: str) -> Draft:
        fact, device = self.attached[order]
        wanted = AttachmentRequested(type=device.type, model=device.model, node=device.node, fabric="f", machine="m")
        state = AttachmentState(
            requested=wanted, phase=AttachmentPhase.ATTACHED, device_uuid=device.device_uuid,
            memory_mib=device.memory_mib, since=fact.time, last_fact=fact.id, trace=fact.trace,
        )  # fmt: skip
        return Draft("attachment", order, "state-recorded", state)


def scaled(behaviour: Behaviour = QUICK, *, groups: Groups = GROUPS) -> Scaled:
    """One ordinary node, and the groups' first nodes, all joined."""
    world = Scaled(VirtualAgent(fleet=fleet_of(nodes=1), behaviour=behaviour, groups=groups))
    world.agent.settle()
    return world
