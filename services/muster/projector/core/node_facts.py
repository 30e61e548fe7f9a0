"""Facts of nodes and their devices folded into the rows of nodes."""

from collections.abc import Callable
from typing import cast

from muster.core.fact import Fact
from muster.projector.core.fleet import FleetRows
from muster.projector.core.projection import Anomalies
from muster.schemas.facts import node as nodes
from muster.schemas.facts.device import DeviceDetached
from muster.schemas.facts.health import HealthPhase, UnitState
from muster.schemas.registry import STATE_NAME

_CLOSING = ("withhold-requested", "cordon-forwarded", "drain-forwarded", "resume-forwarded")
_CLOSING_DEVICES = ("withhold-requested", "withhold-withdrawn", "withheld", "released")

LOST = "lost"
"""ViewChanges as the reason where a loss gives none."""


class NodeFacts:
    """The folds of a cluster's facts of nodes. recount: what is done where a node turns out to be of another model."""

    def __init__(self, cluster: str, *, fleet: FleetRows, recount: Callable[[str], None], anomalies: Anomalies) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._recount = recount
        self._anomalies = anomalies
        self.folds: dict[tuple[str, str], Callable[[Fact], None]] = {
            ("node", "joined"): self._joined,
            ("node", "left"): self._left,
            ("node", "lost"): self._lost,
            ("node", "returned"): self._returned,
            ("node", "released"): self._released,
            **{("node", phase.value): self._judged for phase in HealthPhase},
            ("node", "withheld"): self._withheld,
            ("node", "withhold-withdrawn"): self._withdrawn,
            ("attachment", "detached"): self._detached,
            ("node", STATE_NAME): self._node_state,
            **{("node", name): self._drain for name in _CLOSING},
            **{("device", name): self._drain_device for name in (*_CLOSING_DEVICES, STATE_NAME)},
        }

    def _joined(self, fact: Fact) -> None:
        self._join(fact.subject_id, cast("nodes.NodeJoined", fact.payload))

    def _join(self, node: str, described: nodes.NodeJoined) -> None:
        model = self._fleet.model(node)
        self._fleet.join(node, described, cluster=self._cluster)
        if model != described.gpu_model:
            self._recount(node)

    def _left(self, fact: Fact) -> None:
        self._fleet.close(fact)
        self._fleet.leave(fact.subject_id)

    def _lost(self, fact: Fact) -> None:
        reason = cast("nodes.NodeLost", fact.payload).reason or LOST
        self._answers(fact.subject_id, lost=True, reason=reason)

    def _returned(self, fact: Fact) -> None:
        self._answers(fact.subject_id, lost=False, reason="")

    def _answers(self, node: str, *, lost: bool, reason: str) -> None:
        if node in self._fleet:
            self._fleet.answers(node, lost=lost, reason=reason)
        else:
            self._anomalies.count += 1

    def _drain(self, fact: Fact) -> None:
        """Somebody closes the node, or will, or opens it again."""
        self._fleet.close(fact)

    def _drain_device(self, fact: Fact) -> None:
        self._fleet.close_device(fact)

    def _detached(self, fact: Fact) -> None:
        self._fleet.take_away(cast("DeviceDetached", fact.payload).device_uuid)

    def _released(self, fact: Fact) -> None:
        self._fleet.close(fact)
        self._fleet.release(fact.subject_id)

    def _judged(self, fact: Fact) -> None:
        """Health's own word; what it means for jobs, the scheduler says."""
        self._fleet.judge(fact.subject_id, "" if fact.name == HealthPhase.HEALTHY else fact.name)

    def _withheld(self, fact: Fact) -> None:
        self._fleet.close(fact)
        self._fleet.withhold(fact.subject_id, (cast("nodes.Withheld", fact.payload).request_id,))

    def _withdrawn(self, fact: Fact) -> None:
        withdrawn = cast("nodes.WithholdWithdrawn", fact.payload)
        self._fleet.close(fact)
        if withdrawn.after_withheld:  # else what was withheld in the meantime stands
            self._fleet.withdraw(fact.subject_id, withdrawn.request_id)

    def _node_state(self, fact: Fact) -> None:
        match fact.payload:
            case nodes.NodeState() as state:
                self._join(fact.subject_id, state.description)
                self._fleet.answers(fact.subject_id, lost=state.lost, reason=_lost_reason(state))
            case nodes.GrantState() as grant:
                self._fleet.close(fact)
                if answered := _withheld_for(grant):
                    self._fleet.withhold(fact.subject_id, answered)
                elif grant.released:
                    self._fleet.release(fact.subject_id)
                else:
                    self._fleet.refuse(fact.subject_id)
            case UnitState(phase=phase):
                self._fleet.judge(fact.subject_id, "" if phase is HealthPhase.HEALTHY else phase.value)
            case _:
                self._anomalies.count += 1


def _lost_reason(state: nodes.NodeState) -> str:
    return (state.lost_reason or LOST) if state.lost else ""


def _withheld_for(grant: nodes.GrantState) -> tuple[str, ...]:
    """The requests that were answered; of an older scheduler, which says only that all of them were, all."""
    answered = tuple(wish.request_id for wish in grant.wishes if wish.answered)
    return answered or (grant.withhold_requests if grant.withheld else ())
