"""Manual draining: the next few nodes in order of their names, regardless of their jobs, until all are upgraded."""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant
from muster.schemas.base import Payload
from muster.schemas.facts.node import RunningJobs, Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.operations import (
    ChecksReported,
    ChecksRequested,
    NodeActionEnded,
    NodeActionRequested,
)
from muster.schemas.facts.upgrade import CampaignSpec
from muster.upgrader.core.config import Validation

_AFTER = {
    None: "withhold-requested",
    "withhold-requested": "",
    "withheld": "action-requested",
    "action-requested": "",
    "action-ended": "checks-requested",
    "checks-requested": "",
    "checks-reported": "withhold-withdrawn",
    "withhold-withdrawn": "",
}
"""Fact that follows the newest fact of a node's turn; "" if another service answers."""


class NaiveDrain:
    """Implements `Core` beside the scheduler and the agent. most: concurrent nodes. done_at: 0 until it has finished.

    running: whether running jobs are stopped and queued again, as by an eviction, or waited for.
    """

    def __init__(
        self, spec: CampaignSpec, validation: Validation, nodes: list[str], *, most: int, running: RunningJobs
    ) -> None:
        self._spec, self._validation, self._most, self._running = spec, validation, most, running
        self._waiting = sorted(nodes)
        self._newest: dict[str, str | None] = {}
        self.done_at = Instant(0)
        self.begins = False

    def apply(self, fact: Fact) -> None:
        """Fold a fact: the answers to its requests determine the next node."""
        if fact.kind != "node" or fact.subject_id not in self._newest:
            return
        match fact.payload:
            case (
                WithholdRequested() | Withheld() | NodeActionRequested() | NodeActionEnded() | ChecksRequested()
                | ChecksReported()
            ):  # fmt: skip
                self._newest[fact.subject_id] = fact.name
            case WithholdWithdrawn():
                del self._newest[fact.subject_id]
                if not self._newest and not self._waiting:
                    self.done_at = fact.time

    def decide(self, now: Instant) -> list[Draft]:  # noqa: ARG002 - the port
        """Return the next fact of each node whose turn it is."""
        while self.begins and self._waiting and len(self._newest) < self._most:
            self._newest[self._waiting.pop(0)] = None
        return [
            Draft("node", node, name, self._payload(node, name))
            for node, newest in self._newest.items()
            if (name := _AFTER[newest])
        ]

    def next_wakeup(self) -> Instant | None:
        """Return None: decisions do not depend on time."""
        return None

    def snapshot(self) -> Iterator[Draft]:
        """Return an empty snapshot: this core is never recovered."""
        return iter(())

    def _payload(self, node: str, name: str) -> Payload:
        request_id, spec = f"drain-{node}", self._spec
        match name:
            case "withhold-requested":
                return WithholdRequested(request_id=request_id, reason="drained by hand", running=self._running)
            case "action-requested":
                return NodeActionRequested(request_id=request_id, action=spec.component, version=spec.version)
            case "checks-requested":
                return ChecksRequested(request_id=f"{request_id}-checks", checks=self._validation.checks)
            case _:
                return WithholdWithdrawn(request_id=request_id, after_withheld=True)
