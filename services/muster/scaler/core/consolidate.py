"""Idle GPUs of other composable nodes, for a gang that needs them elsewhere and a pool that has none left.

A device that moves is detached where it is idle and attached where it is wanted, by one decision. Those of nodes that
hold nothing go first, and of these the ones with the fewest GPUs: so idleness gathers on whole nodes, which then go.
"""

from collections.abc import Iterable

from muster.core import Instant
from muster.scaler.core import hysteresis
from muster.scaler.core.limits import DONORS_MAX
from muster.scaler.core.spare import Budget, Spare, spare
from muster.scaler.core.state import State


def donors(state: State) -> list[str]:
    """Devices, by uuid, that may be moved, the first to be taken first.

    Any of them together leave each node its least; of the warm reserve they take, because a job that waits is what it
    is kept for. Never one that is held, kept for somebody, on its way, or that was attached a moment ago. The state
    must be settled.
    """
    budget, found = Budget(state), list[Spare]()
    for name, group in state.config.groups.items():
        if not group.composable or state.now < hysteresis.gpus_quiet_until(state, group, group.fabric):
            continue
        able = [
            one
            for uuid in state.idle.idle_in[name]
            if budget.gpus_left(group, state.idle.node_of[uuid]) > 0
            and (one := spare(state, uuid)) is not None
            and hysteresis.has_settled(state, uuid, state.now)
        ]
        found.extend(budget.allowed(group, emptiest_first(state, able), below_reserve=True))
    return [one.uuid for one in emptiest_first(state, found)[:DONORS_MAX]]


def emptiest_first(state: State, devices: Iterable[Spare]) -> list[Spare]:
    """Those of nodes that hold nothing, then of those with the fewest GPUs, the longest idle first."""

    def rank(one: Spare) -> tuple[bool, int, str, Instant, str]:
        record, node = state.nodes[one.node], state.nodes.description(one.node)
        return bool(record.jobs), len(node.present) if node is not None else 0, one.node, one.since, one.uuid

    return sorted(devices, key=rank)
