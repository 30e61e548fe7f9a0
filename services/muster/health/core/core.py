"""The health core: fold the log by its parts, and combine their decisions.

To add a part (see `part.py`), add a line in `HealthCore.__init__`.
"""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant
from muster.health.core.config import NO_RULES, HealthConfig
from muster.health.core.part import Part
from muster.health.core.preflight import PreflightVerdicts
from muster.health.core.verdicts import NodeVerdicts
from muster.schemas.telemetry import NodeSample

DRAFTS_MAX = 500
"""Drafts of one decision, approximately; the rest follows at once."""


class HealthCore:
    """The health core: the only writer of health's verdicts in one cluster.

    `verdicts` are those on nodes and devices, `preflight` those on jobs' checks.
    """

    def __init__(self, config: HealthConfig = NO_RULES) -> None:
        self.verdicts = NodeVerdicts(config)
        self.preflight = PreflightVerdicts()
        self._parts: tuple[Part, ...] = (self.preflight, self.verdicts)
        self._now = Instant(0)
        self._is_full = False

    def apply(self, fact: Fact) -> None:
        """Fold one fact."""
        for part in self._parts:
            part.apply(fact)

    def decide(self, now: Instant) -> list[Draft]:
        """Return about DRAFTS_MAX drafts at most; the rest follows at once."""
        self._now = now
        drafts: list[Draft] = []
        for part in self._parts:
            if len(drafts) >= DRAFTS_MAX:
                break
            drafts += part.decide(now, DRAFTS_MAX - len(drafts))
        self._is_full = len(drafts) >= DRAFTS_MAX
        return drafts

    def next_wakeup(self) -> Instant | None:
        """Return when to decide again."""
        if self._is_full:
            return self._now
        moments = (part.next_wakeup() for part in self._parts)
        return min((moment for moment in moments if moment is not None), default=None)

    def observe(self, observation: NodeSample, now: Instant) -> bool:
        """Evaluate a reading of a node's exporter. Readings of nodes that are not there are left out.

        One from the future counts as one of `now`: else a clock that ran ahead would keep later readings out.
        """
        verdicts = self.verdicts
        if observation.node not in verdicts.state.nodes:
            return False
        if observation.at > now:
            observation = observation.model_copy(update={"at": now})
        return verdicts.detector.look(observation)

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts of a checkpoint."""
        for part in self._parts:
            yield from part.snapshot()
