"""Nodes and devices that come and go: decisions of the scaler and the composer become effects on the cluster.

A node is removed only once the scheduler has drained it for that decision.
"""

from muster.agent.core.attempts import Attempts
from muster.agent.core.cluster import (
    AddNode,
    CancelScale,
    Cluster,
    PlugDevice,
    ProvisionFailedSeen,
    RecallNode,
    RemoveNode,
    UnplugDevice,
)
from muster.agent.core.devices import index_of, is_shown
from muster.agent.core.state import NOT_YET, NodeRecord, ScaleRecord
from muster.core import Fact, Instant
from muster.core.folding import Folds
from muster.schemas.facts.device import AttachmentState, DeviceAttached, DeviceDetached
from muster.schemas.facts.node import GroupState, Withheld
from muster.schemas.facts.scale import ProvisionFailed, ScaleChosen, ScaleEnded, ScaleState
from muster.schemas.registry import STATE_NAME

ADD, REMOVE = "node-add-chosen", "node-remove-chosen"


class Moves:
    """Folds scaling decisions (`scales`, by id) and attached devices.

    `removed` has the group of each initial node that was removed.
    """

    FOLDS = Folds["Moves", bool]()

    def __init__(self, pods: Attempts, cluster: Cluster) -> None:
        self.scales: dict[str, ScaleRecord] = {}
        self.removed: dict[str, str] = {}
        self._failed: set[str] = set()  # from a checkpoint, for decisions that are restored later
        self._pods = pods
        self._nodes = pods.nodes
        self._cluster = cluster

    def joined(self, name: str) -> None:
        """Record that the node joined."""
        self.removed.pop(name, None)

    def left(self, name: str, node: NodeRecord) -> None:
        """Record that the node left; a new cluster must not begin with a removed initial node."""
        if node.leaving and node.description.group and not node.description.scale:
            self.removed[name] = node.description.group

    def restored(self, name: str, node: NodeRecord) -> None:
        """Continue the removal of a node restored from a checkpoint."""
        if node.leaving:
            self._cluster.carry_out(RemoveNode(node.leaving, name, Instant(node.leaving_at)))

    @FOLDS.on("scale", (ADD, REMOVE), ScaleChosen)
    def _chosen(self, fact: Fact, chosen: ScaleChosen) -> bool:
        if fact.subject_id in self.scales:
            return False
        self._begin(fact.subject_id, fact.name, chosen, at=fact.time, by=fact.id, trace=fact.trace)
        return True

    def _begin(self, scale: str, name: str, chosen: ScaleChosen, *, at: Instant, by: str, trace: str) -> None:
        record = ScaleRecord(chosen.node, chosen.group, by, trace)
        self.scales[scale] = record
        if name == REMOVE:
            record.request_id = chosen.request_id or scale
        elif scale in self._failed:
            record.failed = True
        else:
            self._cluster.carry_out(AddNode(scale, chosen.group, chosen.node, at))

    @FOLDS.on("scale", "ended", ScaleEnded)
    def _ended(self, fact: Fact, _: ScaleEnded) -> bool:
        """End a decision; those that move devices are the composer's."""
        scale = self.scales.pop(fact.subject_id, None)
        if scale is not None:
            self._cluster.carry_out(CancelScale(fact.subject_id))
            node = self._nodes.get(scale.node)
            if node is not None and node.leaving == fact.subject_id:
                node.leaving, node.leaving_at = "", NOT_YET
        return True

    def withheld(self, fact: Fact, answer: Withheld) -> None:
        """Remove the node if it is drained for a decision of the scaler."""
        node = self._nodes.get(fact.subject_id)
        for scale_id, scale in self.scales.items():
            if scale.request_id == answer.request_id and scale.node == fact.subject_id and node is not None:
                node.leaving, node.leaving_at = scale_id, fact.time
                node.last_fact, node.trace = fact.id, scale.trace
                self._cluster.carry_out(RemoveNode(scale_id, fact.subject_id, fact.time))

    @FOLDS.on("node", "provision-failed", ProvisionFailed)
    def _provision_failed(self, fact: Fact, failure: ProvisionFailed) -> bool:
        scale = self.scales.get(failure.scale)
        if scale is not None:
            scale.failed = True
        seen = ProvisionFailedSeen(failure.scale, failure.group, fact.subject_id, failure.reason)
        self._cluster.acknowledge(seen, at=fact.time)
        return scale is not None

    @FOLDS.on("attachment", "attached", DeviceAttached)
    def _attached(self, fact: Fact, device: DeviceAttached) -> bool:
        node = self._nodes.get(device.node)
        if node is not None:
            node.attach(device.device_uuid)
            if not is_shown(node.description, device.device_uuid):
                node.last_fact, node.trace = fact.id, fact.trace
        self._cluster.carry_out(
            PlugDevice(
                fact.subject_id, device.node, device.device_uuid, fact.time, device.type, device.model,
                device.memory_mib,
            )
        )  # fmt: skip
        return True

    @FOLDS.on("attachment", "detached", DeviceDetached)
    def _detached(self, fact: Fact, device: DeviceDetached) -> bool:
        """Detach a device; pods that still use it, since detaching was forced, end as if the node had failed."""
        node, uuid = self._nodes.get(device.node), device.device_uuid
        if node is not None and is_shown(node.description, uuid):
            index = index_of(node.description, uuid)
            node.detach(uuid, memory_mib=device.memory_mib)
            node.last_fact, node.trace = fact.id, fact.trace
            if index is not None:
                self._pods.end_all_at(device.node, index, at=fact.time, cause=fact.id)
        self._cluster.carry_out(UnplugDevice(device.node, uuid, fact.time, device.memory_mib))
        return True

    @FOLDS.on("scale", STATE_NAME, ScaleState)
    def _scale_state(self, fact: Fact, state: ScaleState) -> bool:
        if state.name in (ADD, REMOVE):
            at = Instant(state.chosen_at)
            self._begin(fact.subject_id, state.name, state.chosen, at=at, by=state.fact, trace=state.trace)
        return True

    @FOLDS.on("attachment", STATE_NAME, AttachmentState)
    def _attachment_state(self, fact: Fact, state: AttachmentState) -> bool:
        if state.device_uuid and not state.phase.is_over:
            wanted = state.requested
            self._cluster.carry_out(
                PlugDevice(
                    fact.subject_id, wanted.node, state.device_uuid, Instant(state.since), wanted.type, wanted.model,
                    state.memory_mib,
                )
            )  # fmt: skip
        return True

    @FOLDS.on("group", STATE_NAME, GroupState)
    def _group_state(self, fact: Fact, state: GroupState) -> bool:
        for name in state.removed:
            self.removed[name] = fact.subject_id
            self._cluster.carry_out(RecallNode(name, None))
        for scale in state.failed:
            self._failed.add(scale)
            if scale in self.scales:
                self.scales[scale].failed = True
                self._cluster.carry_out(CancelScale(scale))
        return True
