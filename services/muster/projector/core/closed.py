"""Who asked that a node or device is not used: folded beside the rows, since it may come before its node does."""

from dataclasses import dataclass, field
from typing import cast

from muster.cluster.node_reasons import node_reasons
from muster.cluster.withholds import Wishes, known_in, with_request
from muster.core.fact import Fact
from muster.schemas.facts import node as nodes
from muster.schemas.facts.node import Cordon, CordonRequested
from muster.schemas.views import NodeReason


@dataclass(slots=True)
class _Closed:
    """Of one node or device. A device that nothing is asked of has none."""

    wishes: Wishes = ()
    cordon: Cordon | None = None


@dataclass(slots=True)
class ClosedNodes:
    """devices: by uuid. Nothing is kept of nodes and devices that nobody closed."""

    nodes: dict[str, _Closed] = field(default_factory=dict)
    devices: dict[str, _Closed] = field(default_factory=dict)

    def fold(self, fact: Fact) -> None:
        """One fact about a node or device."""
        every = self.nodes if fact.kind == "node" else self.devices
        known = every.get(fact.subject_id) or _Closed()
        payload = fact.payload
        match payload:
            case nodes.WithholdRequested():
                asked = with_request(known.wishes, payload, fact=fact.id, by=fact.writer, at=fact.time)
                known.wishes = known.wishes if asked is None else asked
            case nodes.Withheld(request_id=request_id):
                wish = known_in(known.wishes, request_id) or nodes.WithholdWish(request_id=request_id)
                others = tuple(one for one in known.wishes if one.request_id != request_id)
                known.wishes = (*others, wish.model_copy(update={"answered": True}))
            case nodes.WithholdWithdrawn():
                wish_now = known_in(known.wishes, payload.request_id)
                if wish_now is not None and (payload.after_withheld or not wish_now.answered):
                    known.wishes = tuple(one for one in known.wishes if one is not wish_now)
            case nodes.Released() | nodes.NodeLeft():
                known.wishes = tuple(one for one in known.wishes if not one.answered)
            case nodes.GrantState():
                known.wishes, known.cordon = payload.wishes, payload.cordon
            case CordonRequested():
                known.cordon = _cordon(fact)
        if known.wishes or known.cordon is not None:
            every[fact.subject_id] = known
        else:
            every.pop(fact.subject_id, None)

    def gone(self, uuid: str) -> None:
        """No node shows the device any more: what was given is over, what waits for an answer still gets one."""
        known = self.devices.get(uuid)
        if known is not None:
            known.wishes = tuple(wish for wish in known.wishes if not wish.answered)
            if not known.wishes:
                del self.devices[uuid]

    def cordon_of(self, node: str) -> Cordon | None:
        """By a person."""
        known = self.nodes.get(node)
        return known.cordon if known is not None else None

    def reasons(
        self, node: str, uuids: tuple[str, ...], *, lost: bool, released: bool, is_held: bool
    ) -> tuple[NodeReason, ...]:
        """What speaks against the node and its devices (uuids), now or later."""
        of_node = self.nodes.get(node) or _Closed()
        of_devices = {uuid: self.devices[uuid].wishes for uuid in uuids if uuid in self.devices} if self.devices else {}
        return node_reasons(
            cordon=of_node.cordon,
            wishes=of_node.wishes,
            devices=of_devices,
            lost=lost,
            released=released,
            is_held=is_held,
        )


def _cordon(fact: Fact) -> Cordon | None:
    asked = cast("CordonRequested", fact.payload)
    if fact.name == "resume-forwarded":
        return None
    is_draining = fact.name == "drain-forwarded"
    return Cordon(principal=asked.principal, reason=asked.reason, draining=is_draining, since=fact.time, fact=fact.id)
