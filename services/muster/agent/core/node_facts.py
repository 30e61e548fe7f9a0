"""Fold facts about nodes."""

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
from muster.core.folding import Folds
from muster.schemas.facts.node import (
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReturned,
    NodeState,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.registry import STATE_NAME


class NodeFacts:
    """Folds facts about nodes. Handlers return whether a fact fits."""

    FOLDS = Folds["NodeFacts", bool]()

    def __init__(self, cluster: Cluster, pods: Attempts, moves: Moves) -> None:
        self._cluster = cluster
        self._pods = pods
        self._moves = moves

    @FOLDS.on("node", "joined", NodeJoined)
    def _joined(self, fact: Fact, joined: NodeJoined) -> bool:
        node = self._pods.nodes.setdefault(fact.subject_id, NodeRecord(joined))
        node.describe(joined)
        node.moved(at=fact.time, by=fact.id)
        self._moves.joined(fact.subject_id)
        self._cluster.acknowledge(NodeSeen(fact.subject_id, joined), at=fact.time)
        return True

    @FOLDS.on("node", "lost", NodeLost)
    def _lost(self, fact: Fact, lost: NodeLost) -> bool:
        node = self._pods.nodes.get(fact.subject_id)
        if node is None or node.lost:
            return False
        node.lost, node.lost_reason = True, lost.reason
        node.losses += 1
        node.moved(at=fact.time, by=fact.id)
        self._pods.end_all_on(fact.subject_id, at=fact.time, cause=fact.id)
        self._cluster.acknowledge(NodeLostSeen(fact.subject_id), at=fact.time)
        return True

    @FOLDS.on("node", "returned", NodeReturned)
    def _returned(self, fact: Fact, _: NodeReturned) -> bool:
        node = self._pods.nodes.get(fact.subject_id)
        if node is None or not node.lost:
            return False
        node.lost, node.lost_reason = False, ""
        node.moved(at=fact.time, by=fact.id)
        self._cluster.acknowledge(NodeReturnedSeen(fact.subject_id), at=fact.time)
        return True

    @FOLDS.on("node", "left", NodeLeft)
    def _left(self, fact: Fact, _: NodeLeft) -> bool:
        node = self._pods.nodes.get(fact.subject_id)
        if node is None:
            return False
        self._pods.end_all_on(fact.subject_id, at=fact.time, cause=fact.id)
        self._moves.left(fact.subject_id, node)
        del self._pods.nodes[fact.subject_id]
        self._cluster.acknowledge(NodeLeftSeen(fact.subject_id), at=fact.time)
        return True

    @FOLDS.on("node", STATE_NAME, NodeState)
    def _node_state(self, fact: Fact, state: NodeState) -> bool:
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

    @FOLDS.on("node", "withhold-requested", WithholdRequested)
    def _closed(self, fact: Fact, request: WithholdRequested) -> bool:
        """Fold the agent's own request to drain the node; other services make their own requests."""
        node = self._pods.nodes.get(fact.subject_id)
        if fact.writer != "agent":
            return True
        if node is None:
            return False
        node.closed, node.is_withheld = request.reason or CLOSED, False
        self._cluster.acknowledge(NodeClosedSeen(fact.subject_id, request.reason), at=fact.time)
        return True

    @FOLDS.on("node", "withheld", Withheld)
    def _withheld(self, fact: Fact, answer: Withheld) -> bool:
        node = self._pods.nodes.get(fact.subject_id)
        if node is not None and node.closed and answer.request_id == CLOSED:
            node.is_withheld = True
        self._moves.withheld(fact, answer)
        return True

    @FOLDS.on("node", "withhold-withdrawn", WithholdWithdrawn)
    def _opened(self, fact: Fact, request: WithholdWithdrawn) -> bool:
        """Fold a withdrawal; one that crossed the answer is repeated with `after_withheld`."""
        node = self._pods.nodes.get(fact.subject_id)
        if fact.writer != "agent":
            return True
        if node is None or (node.is_withheld and not request.after_withheld):
            return False
        node.closed, node.is_withheld = "", False
        self._cluster.acknowledge(NodeOpenSeen(fact.subject_id), at=fact.time)
        return True
