"""Verdicts on pre-flight checks, a part of the health core (see `part.py`): from what the agent reports come
`preflight-passed` and `preflight-failed`.
"""

from collections.abc import Iterator, Mapping

from muster.core import Draft, Instant
from muster.health.core.part import Handler


class PreflightVerdicts:
    """Implements `Part`. Says nothing yet."""

    @property
    def handlers(self) -> Mapping[tuple[str, str], Handler]:
        """See `Part.handlers`."""
        return {}

    def decide(self, now: Instant, room: int) -> list[Draft]:  # noqa: ARG002 - the port
        """See `Part.decide`."""
        return []

    def next_wakeup(self) -> Instant | None:
        """See `Part.next_wakeup`."""
        return None

    def snapshot(self) -> Iterator[Draft]:
        """See `Part.snapshot`."""
        return iter(())
