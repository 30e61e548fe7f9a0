"""Parameters and results of `muster bench faults`."""

from dataclasses import dataclass

LEADER_EVERY, CHECKPOINTS = 48, 3
"""Number of cycles per leader, and number of checkpoints."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of the benchmark."""

    cycles: int = 10_000
    """Number of attachments that are detached again."""
    faults: float = 0.05
    """Fraction of calls that fail."""
    seed: int = 1
    nodes: int = 16
    """Number of nodes with up to 8 GPUs each."""
    pool: int = 160
    limit: int = 32
    busy: int = 14

    @property
    def turns(self) -> range:
        """Return the cycles after which a checkpoint is written or the leader changes."""
        step = LEADER_EVERY // (CHECKPOINTS + 1)
        return range(step, self.cycles + step, step)


@dataclass(frozen=True, slots=True)
class Found:
    """Results of the benchmark."""

    cycles: int
    virtual_s: float
    facts: int
    calls: int
    told: dict[str, int]
    """Number of outcomes of calls, by operation and outcome."""
    timeouts_after_success: int
    """Number of calls whose response was lost although the device moved."""
    timeouts_after_attach: int
    """The same, attachments only."""
    leader_changes: int
    leader_changes_in_attach: int
    calls_lost: int
    """Number of calls lost with their leader."""
    retries: int
    adoptions: int
    orphans_found: int
    orphans_returned: int
    requests_failed: int
    detachments_given_up: int
    quiet_moments: int
    """Moments without running or uncertain operations, at which log and fabric can be compared."""
    in_flight_max: int
    limit: int
    leaked: int
    """Devices on machines that belong to no attachment, at the end."""
    doubly_attached: int
    misplaced: int
    """Devices attached according to the log, but not on the machine."""
    withheld: int
    """Devices that are drained at the end without a reason."""
    anomalies: dict[str, int]
