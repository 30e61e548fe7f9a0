"""Every bound of the composer. Configurable bounds are in `Bounds`, which `app.py` fills."""

from muster.core.settings import ComposerSettings

DRAFTS_MAX = 600
"""Drafts of one decision, approximately; the rest follows at once. Fits one atomic batch."""
START_S = 5.0
"""Time after its intent in which a call may begin."""
SKEW_S = 2.0
"""Maximum clock difference: a survey that began less than this after a change does not show it reliably."""
SETTLE_S = 120.0
"""Wait for a last survey before an attachment with an unknown outcome fails."""
REST_S, REST_S_MAX = 60.0, 4 * 3600.0
"""Wait before a detachment that was given up is tried again; doubled each time."""
CROSSING_S = 5.0
"""Time after the withdrawal of a request to drain in which its answer may still come: no other is made then."""
SURVEY_BACKOFF_S_MAX = 60.0
"""Between two surveys of a fabric that cannot be surveyed."""
BREAKER_S_MAX = 300.0
"""Maximum time that a breaker stays open; it doubles each time it opens again."""
ENDED_MAX = 256
"""Ended and refused requests that are still listed."""
YOUNG_S = 60.0
"""Besides two surveys: time after a node first joined in which devices on its machine count as found there."""
AWAY_MAX = 2_048
"""Devices of one fabric in the pool that are remembered: nodes and older surveys may still show them."""
MACHINES_LEFT_MAX = 2_048
"""Machines of nodes that left, whose late devices still belong to the cluster."""
ANOMALIES_MAX = 64
"""Kinds of anomalies counted separately; the rest is counted together."""
ERROR_CHARS_MAX = 500
"""Length of a fabric manager's message in a fact."""


class Bounds(ComposerSettings):
    """Bounds that can be configured."""

    scaler_withhold_s: float = 30.0
    """How long devices that the scaler gives back may take to become free; its `withhold_s`."""

    @property
    def young_s(self) -> float:
        """Return how long after its node first joined, devices on a machine count as found there: some surveys."""
        return 2 * self.survey_s + YOUNG_S


def rest_s(rounds: int) -> float:
    """Return the wait before another detachment after so many failures. A new request does not wait."""
    return min(REST_S_MAX, REST_S * 2.0 ** min(max(0, rounds - 1), 16))
