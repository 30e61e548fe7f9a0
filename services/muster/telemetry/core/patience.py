"""Which nodes are asked in a round: one where nobody has ever answered is asked ever less often.

A fleet may have no exporters at all, or none on some nodes; asking there costs a look-up of a name and a connection
each time. Where somebody answered once, silence is a signal, and the node keeps its turn in every round. Pure.
"""

from collections.abc import Container
from dataclasses import dataclass
from zlib import crc32

from muster.schemas.facts.node import NodeJoined

ROUNDS_MAX = 16
"""A node where nobody ever answered is asked at least once in so many rounds."""


@dataclass(slots=True)
class _Node:
    """misses: how often nobody was there, until somebody answers. next_round: not asked before it."""

    description: NodeJoined | None
    answers: bool = False
    misses: int = 0
    next_round: int = 0


class Patience:
    """Of one term. A node that joins anew, perhaps with another address, starts anew."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    def is_due(self, name: str, description: NodeJoined | None, number: int) -> bool:
        """Whether the node is asked in the round of this number. description: the one that the log has just now."""
        node = self._nodes.get(name)
        return node is None or node.description is not description or node.answers or number >= node.next_round

    def heard(self, name: str, description: NodeJoined | None, number: int, *, somebody: bool) -> None:
        """It was asked in that round. somebody: whether anybody took the connection, whatever they said."""
        node = self._nodes.get(name)
        if node is None or node.description is not description:
            node = self._nodes[name] = _Node(description)
        node.answers |= somebody
        if not node.answers:
            rounds = min(2**node.misses, ROUNDS_MAX)
            node.next_round = number + rounds - crc32(name.encode()) % (rounds // 2 + 1)  # not all in the same round
            node.misses = min(node.misses + 1, ROUNDS_MAX)

    def keep(self, names: Container[str]) -> None:
        """Forget all nodes but these."""
        for name in [name for name in self._nodes if name not in names]:
            del self._nodes[name]
