"""Every bound of the composer, in one place. Bounds that can be set stand in `Bounds`, which `app.py` fills."""

from muster.core.settings import ComposerSettings

DRAFTS_MAX = 600
"""Drafts of one decision, about: what is left over follows at once. Fits one atomic batch."""
START_S = 5.0
"""A call is begun within so long after its intent, or not at all."""
SKEW_S = 2.0
"""How far clocks may differ: what a survey shows that began less than so long after a change is not believed."""
SETTLE_S = 120.0
"""How long a last look is waited for before an attachment whose outcome nobody knows is called failed."""
REST_S, REST_S_MAX = 60.0, 4 * 3600.0
"""How long a device whose detachment was given up rests before it is tried again: twice as long each time."""
CROSSING_S = 5.0
"""For so long after a request to withhold was withdrawn its answer may still come: no other is made meanwhile."""
SURVEY_BACKOFF_S_MAX = 60.0
"""Between two looks at a fabric that cannot be looked at."""
BREAKER_S_MAX = 300.0
"""A breaker that opens again and again stays open twice as long each time, at most this."""
ENDED_MAX = 256
"""Requests that ended or were refused and are still listed."""
YOUNG_S = 60.0
"""Beside two looks: for so long after a node joined first, devices on its machine count as having stood there."""
AWAY_MAX = 2_048
"""Devices of one fabric that went back to the pool and are remembered: nodes and older looks may still show them."""
MACHINES_LEFT_MAX = 2_048
"""Machines whose nodes left and where devices that come late are still ours."""
ANOMALIES_MAX = 64
"""Kinds of anomaly that are told apart; the rest is counted together."""
ERROR_CHARS_MAX = 500
"""Of a fabric manager's message in a fact."""


class Bounds(ComposerSettings):
    """Bounds that can be set."""

    scaler_withhold_s: float = 30.0
    """How long devices that the scaler gives back may take to become free; its `withhold_s`."""

    @property
    def young_s(self) -> float:
        """How long after its node joined first, devices on a machine may have stood there before: some looks."""
        return 2 * self.survey_s + YOUNG_S


def rest_s(rounds: int) -> float:
    """How long a device rests whose detachment was tried in vain so often. Who asks for it anew does not wait."""
    return min(REST_S_MAX, REST_S * 2.0 ** min(max(0, rounds - 1), 16))
