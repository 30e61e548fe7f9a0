"""Case 4: a node would be removed and cannot, because of what runs there. At least its idle GPUs go back to the pool.

What is held stays: no running job is ended, and no device is taken from it, for a scale-down (invariants 5 and 6).
"""

from muster.core import Instant
from muster.scaler.core import hysteresis
from muster.scaler.core.case_unneeded import causes, returnable
from muster.scaler.core.choice import Choice
from muster.scaler.core.choices import REMOVE_GPU
from muster.scaler.core.signals import RemovalBlocked
from muster.scaler.core.spare import Budget
from muster.scaler.core.state import State
from muster.scaler.core.surplus_words import (
    gpu_watts,
    gpus,
    gpus_alternative,
    idle_words,
    node_alternative,
    removal,
    since_words,
)

CASE = 4


def return_gpus(
    state: State,
    signal: RemovalBlocked,
    now: Instant,
    *,
    budget: Budget | None = None,
    claims: hysteresis.Claims | None = None,
) -> Choice | None:
    """Idle GPUs of the node that may go; None if there is none."""
    budget, claims = budget or Budget(state), claims or hysteresis.Claims(state)
    group, record = state.group_of(signal.node), state.nodes.get(signal.node)
    if group is None or record is None or not record.usable:
        return None
    found = returnable(state, group, signal.node, now, budget=budget, claims=claims)
    if not found:
        return None
    saved = gpu_watts(state, found)
    reason = (
        f"node {signal.node}, hardly used for {since_words(signal.since, now)}, cannot go: {signal.reason}."
        f" {idle_words(found, now)}: {gpus(len(found))} back to the pool save {saved:.0f} W"
    )
    alternatives = (
        gpus_alternative(state, found, chosen=True),
        node_alternative(
            group,
            watts=saved + group.idle_w,
            gpu_count=len(found),
            chosen=False,
            fits=False,
            detail=signal.reason,
        ),
    )
    budget.take_gpus(group, signal.node, len(found))
    payload = removal(state, found, case=CASE, reason=reason, alternatives=alternatives)
    return Choice(REMOVE_GPU, payload, causes(state, signal.node, signal.fact))
