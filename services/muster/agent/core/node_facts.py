"""What facts about nodes mean: the agent's fold of them."""

from collections.abc import Callable, Mapping

from muster.agent.core.attempts import Attempts
from muster.agent.core.cluster import (
    Cluster,
    NodeClosedSeen,
    NodeLeftSeen,
    NodeLostSeen,
    NodeOpenSeen,
    NodeReturnedSeen,
    NodeSeen,
    RecallNode,
)
from muster.agent.core.drafts import CLOSED
from muster.agent.core.moves import Moves
from muster.agent.core.state import NodeRecord
from muster.core import Fact, Instant
from muster.schemas.facts.node import (
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeState,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)


class NodeFacts:
    """pods: those on nodes that go; moves: of nodes that come and go by choice. Handlers say whether a fact fits."""

    def __init__(self, cluster: Cluster, pods: Attempts, moves: Moves) -> None:
        self._cluster = cluster
        self._pods = pods
        self._moves = moves

    def table(self) -> Mapping[tuple[str, str], Callable[[Fact], bool]]:
        """Which fact goes where; `withheld` is of the moves, too, and is passed on to them."""
        return {
            ("node", "joined"): self._joined,
            ("node", "lost"): self._lost,
            ("node", "returned"): self._returned,
            ("node", "left"): self._left,
            ("node", "state-recorded"): self._node_state,
            ("node", "withhold-requested"): self._closed,
            ("node", "withhold-withdrawn"): self._opened,
            ("node", "withheld"): self._withheld,
        }

    def _joined(self, fact: Fact) -> bool:
        if not isinstance(fact.payload, NodeJoined):
            return False
        node = self._pods.nodes.setdefault(fact.subject_id, NodeRecord(fact.payload))
        node.describe(fact.payload)
        node.moved(at=fact.time, by=fact.id)
        self._moves.joined(fact.subject_id)
        self._cluster.acknowledge(NodeSeen(fact.subject_id, fact.payload), at=fact.time)
        return True

    def _lost(self, fact: Fact) -> bool:
        node = self._pods.nodes.get(fact.subject_id)
        if not isinstance(fact.payload, NodeLost) or node is None or node.lost:
            return False
        node.lost, node.lost_reason = True, fact.payload.reason
        node.losses += 1
        node.moved(at=fact.time, by=fact.id)
        self._pods.end_all_on(fact.subject_id, at=fact.time, cause=fact.id)
        self._cluster.acknowledge(NodeLostSeen(fact.subject_id), at=fact.time)
        return True

    def _returned(self, fact: Fact) -> bool:
        node = self._pods.nodes.get(fact.subject_id)
        if node is None or not node.lost:
            return False
        node.lost, node.lost_reason = False, ""
        node.moved(at=fact.time, by=fact.id)
        self._cluster.acknowledge(NodeReturnedSeen(fact.subject_id), at=fact.time)
        return True

    def _left(self, fact: Fact) -> bool:
        node = self._pods.nodes.get(fact.subject_id)
        if not isinstance(fact.payload, NodeLeft) or node is None:
            return False
        self._pods.end_all_on(fact.subject_id, at=fact.time, cause=fact.id)
        self._moves.left(fact.subject_id, node)
        del self._pods.nodes[fact.subject_id]
        self._cluster.acknowledge(NodeLeftSeen(fact.subject_id), at=fact.time)
        return True

    def _node_state(self, fact: Fact) -> bool:
        state = fact.payload
        if not isinstance(state, NodeState):
            return fact.writer != "agent"  # the scheduler's part of a node says who may use it: not ours
        node = self._pods.nodes[fact.subject_id] = NodeRecord.restored(state)
        changed_at = Instant(state.changed_at)
        self._cluster.carry_out(RecallNode(fact.subject_id, node.actual))
        self._cluster.acknowledge(NodeSeen(fact.subject_id, state.description), at=changed_at)
        if state.lost:
            self._cluster.acknowledge(NodeLostSeen(fact.subject_id), at=changed_at)
        if state.closed:
            self._cluster.acknowledge(NodeClosedSeen(fact.subject_id, state.closed), at=changed_at)
        self._moves.restored(fact.subject_id, node)
        return True

    def _closed(self, fact: Fact) -> bool:
        """Our own wish that nothing new is placed there; other services have theirs."""
        wish, node = fact.payload, self._pods.nodes.get(fact.subject_id)
        if fact.writer != "agent" or not isinstance(wish, WithholdRequested):
            return isinstance(wish, WithholdRequested)
        if node is None:
            return False
        node.closed, node.is_withheld = wish.reason or CLOSED, False
        self._cluster.acknowledge(NodeClosedSeen(fact.subject_id, wish.reason), at=fact.time)
        return True

    def _withheld(self, fact: Fact) -> bool:
        answer, node = fact.payload, self._pods.nodes.get(fact.subject_id)
        if isinstance(answer, Withheld) and node is not None and node.closed and answer.request_id == CLOSED:
            node.is_withheld = True
        return self._moves.withheld(fact)

    def _opened(self, fact: Fact) -> bool:
        """A withdrawal that passed the answer is no withdrawal: it is said again, with `after_withheld`."""
        wish, node = fact.payload, self._pods.nodes.get(fact.subject_id)
        if fact.writer != "agent" or not isinstance(wish, WithholdWithdrawn):
            return isinstance(wish, WithholdWithdrawn)
        if node is None or (node.is_withheld and not wish.after_withheld):
            return False
        node.closed, node.is_withheld = "", False
        self._cluster.acknowledge(NodeOpenSeen(fact.subject_id), at=fact.time)
        return True
