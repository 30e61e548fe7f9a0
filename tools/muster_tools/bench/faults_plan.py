"""What `muster bench faults` is asked, and what it finds."""

from dataclasses import dataclass

LEADER_EVERY, CHECKPOINTS = 48, 3
"""A leader stays for so many cycles, and takes part in so many checkpoints."""


@dataclass(frozen=True, slots=True)
class Plan:
    """cycles: attachments that are detached again. faults: share of calls that go wrong. nodes: of 8 GPUs at most."""

    cycles: int = 10_000
    faults: float = 0.05
    seed: int = 1
    nodes: int = 16
    pool: int = 160
    limit: int = 32
    busy: int = 14

    @property
    def turns(self) -> range:
        """Cycles after which a checkpoint is written, or the leader changes."""
        step = LEADER_EVERY // (CHECKPOINTS + 1)
        return range(step, self.cycles + step, step)


@dataclass(frozen=True, slots=True)
class Found:
    """What happened. told: outcomes of calls, by what was called and how it ended.

    timeouts_after_success: calls whose answer was lost though the device moved; timeouts_after_attach: to a machine.
    calls_lost: with their leader. quiet_moments: at which nothing was under way or unsure, so that log and fabric could
    be compared. leaked: devices on machines that belong to no attachment, at the end. misplaced: attached by the log,
    and not there. withheld: devices that jobs may not use at the end, for nothing.
    """

    cycles: int
    virtual_s: float
    facts: int
    calls: int
    told: dict[str, int]
    timeouts_after_success: int
    timeouts_after_attach: int
    leader_changes: int
    leader_changes_in_attach: int
    calls_lost: int
    retries: int
    adoptions: int
    orphans_found: int
    orphans_returned: int
    requests_failed: int
    detachments_given_up: int
    quiet_moments: int
    in_flight_max: int
    limit: int
    leaked: int
    doubly_attached: int
    misplaced: int
    withheld: int
    anomalies: dict[str, int]
