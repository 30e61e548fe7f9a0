"""Work on nodes of a real cluster."""

from collections.abc import Iterator

from muster.agent.core.cluster import WorkOnNode, WorkSeen
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOutcome,
    CheckResult,
    ChecksReported,
    NodeActionEnded,
    NodeActionRequested,
)


class NodeWorks:
    """What nobody told how to do cannot be done, and is told so."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], WorkSeen] = {}

    def carry_out(self, effect: WorkOnNode) -> None:
        """See `Cluster`."""
        asked, words = effect.asked, "this cluster's settings (`preflight.nodes`) say no way to do it"
        ended: NodeActionEnded | ChecksReported
        if isinstance(asked, NodeActionRequested):
            ended = NodeActionEnded(request_id=asked.request_id, outcome=ActionOutcome.CANNOT_RUN, detail=words)
        else:
            outcome = CheckOutcome.CANNOT_RUN
            results = tuple(
                CheckResult(node=effect.node, check=one.check, outcome=outcome, detail=words) for one in asked.checks
            )
            ended = ChecksReported(request_id=asked.request_id, results=results)
        self._seen[effect.node, effect.request_id] = WorkSeen(effect.node, effect.request_id, ended)

    def acknowledge(self, seen: WorkSeen) -> None:
        """The log has it."""
        self._seen.pop((seen.node, seen.request_id), None)

    @property
    def has_news(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._seen)

    def observations(self) -> Iterator[WorkSeen]:
        """What has ended."""
        return iter(self._seen.values())
