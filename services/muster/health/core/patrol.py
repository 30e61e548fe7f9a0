"""Periodic checks: light ones of every node beside its jobs; deep ones of idle nodes.

A node that is due for deep checks has the fault `deep-due`: it is drained, checked and returned as a faulty one is, but
neither the brake nor its history counts it.
"""

import heapq
from zlib import crc32

from muster.core import NEVER, NS_PER_S, Draft, Instant, after
from muster.health.core.faults import fault_draft
from muster.health.core.signals import FaultSignal
from muster.health.core.state import NODE, State, Unit
from muster.schemas.facts.operations import ChecksRequested

DEEP = "deep-due"
PERIODIC = "periodic"
AGAIN_S = 300.0
"""Before a node is tried again that could not be checked."""


class Rounds:
    """The schedule of periodic checks. It only saves work: units have the times of their last checks.

    Entries of `_due` that differ from `_turns` are stale: their node left.
    """

    def __init__(self) -> None:
        self._due: list[tuple[Instant, str, str]] = []
        self._turns: dict[tuple[str, str], Instant] = {}

    def join(self, state: State, node: str, at: Instant) -> None:
        """Schedule the first checks of a node, spread by its name, so that a fleet is not checked at once.

        The times do not depend on the process: otherwise each restart would postpone the first check.
        """
        config = state.config.patrol
        share = crc32(node.encode()) / 2**32
        for what, every_s in ((PERIODIC, config.periodic_every_s), (DEEP, config.deep_every_s)):
            if every_s:
                period = round(every_s * NS_PER_S)
                self._put(Instant(at + (round(share * period) - at) % period), what, node)

    def _put(self, moment: Instant, what: str, node: str) -> None:
        self._turns[what, node] = moment
        heapq.heappush(self._due, (moment, what, node))

    def _drop_stale(self) -> None:
        while self._due and self._turns.get(self._due[0][1:]) != self._due[0][0]:
            heapq.heappop(self._due)

    def next_at(self) -> Instant | None:
        """Return when the next check is due."""
        self._drop_stale()
        return self._due[0][0] if self._due else None

    def go(self, state: State, now: Instant, room: int) -> list[Draft]:
        """Return the checks that are due. A lost request is repeated after AGAIN_S."""
        drafts: list[Draft] = []
        while (moment := self.next_at()) is not None and moment <= now and len(drafts) < room:
            _, what, node = heapq.heappop(self._due)
            if node not in state.nodes:
                del self._turns[what, node]
                continue
            due_at = _due_at(state, what, node)
            if due_at > now:
                self._put(due_at, what, node)
                continue
            self._put(after(now, AGAIN_S), what, node)
            if _may_be_checked(state, node):
                drafts += _checks(state, node, now) if what == PERIODIC else _deep(state, node, now, drafts)
        return drafts


def is_deep_alone(unit: Unit) -> bool:
    """Return whether it is only due for deep checks."""
    return bool(unit.grave) and all(one.told.code == DEEP for one in unit.grave)


def _due_at(state: State, what: str, node: str) -> Instant:
    unit, config = state.node_unit(node), state.config.patrol
    if unit is None:
        return NEVER
    last, every_s = (
        (unit.checked_at, config.periodic_every_s) if what == PERIODIC else (unit.deep_at, config.deep_every_s)
    )
    return after(last, every_s) if last else NEVER


def _may_be_checked(state: State, node: str) -> bool:
    unit = state.node_unit(node)
    is_healthy = unit is None or unit.is_healthy
    is_free = not state.is_in_maintenance(node) and not state.observes_only(node) and state.brake.tripped is None
    return is_healthy and is_free and not state.nodes[node].is_lost


def light_checks(state: State, node: str, now: Instant, *, reason: str) -> list[Draft]:
    """Return light checks for a node, because failing programs raised doubts about it."""
    return _checks(state, node, now, reason=reason) if _may_be_checked(state, node) else []


def _checks(state: State, node: str, now: Instant, *, reason: str = PERIODIC) -> list[Draft]:
    config = state.config.patrol
    if not config.periodic:
        return []
    asked = ChecksRequested(
        request_id=f"health.{node}.{reason}.{now}",
        checks=config.periodic,
        limit_s=config.periodic_s,
        reason=reason,
    )
    return [Draft(NODE, node, "checks-requested", asked)]


def _deep(state: State, node: str, now: Instant, drafts: list[Draft]) -> list[Draft]:
    """Return deep checks of an unused node, a few nodes at a time."""
    rule = state.rules_of(node).rule(DEEP)
    under_way = sum(is_deep_alone(state.units[key]) for key in state.ill)
    under_way += sum(draft.name == "fault-observed" for draft in drafts)
    is_idle = not state.holds.slots_on(node) and not any(not one.is_healthy for one in state.devices_of(node))
    if rule is None or not state.config.patrol.deep or not is_idle or under_way >= state.config.patrol.deep_at_once:
        return []
    return [fault_draft(state, FaultSignal(node, DEEP, now), rule)]
