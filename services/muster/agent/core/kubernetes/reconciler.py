"""Reconcile an attempt: compute the calls from its pods as requested and as seen."""

import itertools

from muster.agent.core.kubernetes.context import Context
from muster.agent.core.kubernetes.live import NEVER, AttemptState, LiveAttempt, PodState, judged
from muster.agent.core.kubernetes.pod_creator import PodCreator
from muster.agent.core.kubernetes.preflight import STUCK_S, PreflightGates
from muster.agent.core.kubernetes.slot_assigner import SlotAssigner
from muster.agent.core.kubernetes.terminator import Terminator
from muster.agent.core.kubernetes.verdicts import Verdicts
from muster.core import Instant, after
from muster.schemas.facts.job import PodsOutcome

LEFTOVER_GRACE_S = 5.0
"""Grace of pods that outlive their gang: servers, workers of a finished launcher, peers of a failed pod."""


class Reconciler:
    """Reconciles attempts; a gang may be bound in part for `bind_s`."""

    def __init__(
        self,
        context: Context,
        verdicts: Verdicts,
        creator: PodCreator,
        terminator: Terminator,
        *,
        gates: PreflightGates,
        slots: SlotAssigner,
        bind_s: float,
    ) -> None:
        self._context = context
        self._verdicts = verdicts
        self._creator = creator
        self._terminator = terminator
        self._gates = gates
        self._slots = slots
        self._bind_s = bind_s

    def reconcile(self, one: LiveAttempt, now: Instant) -> None:
        """Make the calls that bring the attempt's pods to their requested state, or end it. Only once all pods were
        seen."""
        if not one.is_ending:
            self._judge(one, now)
        if one.is_ending:
            self._end(one, now)
        else:
            self._run(one, now)

    def put_off(self, one: LiveAttempt, now: Instant) -> None:
        """Restart the deadlines of a partly bound gang, because the API server does not answer."""
        if one.bound_at:
            one.bound_at = now
            self._context.due.mark_at(one.key, after(now, self._bind_s))
        if one.held_at:
            one.held_at = now
            self._context.due.mark_at(one.key, after(now, STUCK_S))

    def _judge(self, one: LiveAttempt, now: Instant) -> None:
        if self._verdicts.failed_to_begin(one):
            return
        verdict = judged(one)
        if verdict is None or verdict.outcome is not PodsOutcome.NODE_LOST:
            one.verdict = verdict
        elif not self._verdicts.turned_away(one, now):
            self._verdicts.lost(one, verdict)

    def _run(self, one: LiveAttempt, now: Instant) -> None:
        grace_s = one.resize.grace_s if one.resize is not None else LEFTOVER_GRACE_S
        for pod in one.leaving:
            self._terminator.end(one, pod, grace_s=grace_s, now=now, clears=True)
        # a name is free when its object is gone
        one.leaving = [pod for pod in one.leaving if pod.state is not PodState.GONE]
        if self._is_held(one, now):
            return
        self._creator.make(one, now)
        if not one.running_at and one.is_whole:
            one.running_at = now
        if one.opened_at and one.order.preflight is not None:
            self._gates.open(one)
            if (stuck := self._gates.stuck(one, now)) is not None:
                self._verdicts.never_begins(one, stuck, now)
        one.resized = one.resize is not None and one.is_whole and all(pod.is_over for pod in one.leaving)
        self._roll_back_in_part(one, now)
        self._creator.wait_for(one, now)

    def _is_held(self, one: LiveAttempt, now: Instant) -> bool:
        """Return whether the job's pods wait for check pods, which end within their grace or hang."""
        if not one.is_held:
            one.held_at = NEVER
        elif not one.held_at:
            one.held_at = now
            self._context.due.mark_at(one.key, after(now, STUCK_S))
        elif now >= after(one.held_at, STUCK_S):
            stuck = next(pod for pod in one.leaving if pod.is_check)
            self._verdicts.never_begins(one, stuck, now)
            self._context.due.mark(one.key)
        return one.is_held

    def _roll_back_in_part(self, one: LiveAttempt, now: Instant) -> None:
        """Roll back a gang that is bound only in part for too long.

        So is a gang that exists but is not bound, or whose controller does not create its pods. A pod that is gated, or
        waits for another to leave, may take its time.
        """
        unbound = [pod for pod in one.pods.values() if pod.state < PodState.BOUND and (pod.exists or not pod.is_late)]
        is_awaited = any(pod.is_adopted and not pod.exists for pod in unbound)  # its controller may never make it
        is_bound = any(pod.state >= PodState.BOUND and not pod.unmade for pod in one.pods.values())
        is_there = all(pod.exists for pod in unbound)
        if not unbound or not (is_bound or is_there or is_awaited) or any(pod.is_gated for pod in unbound):
            one.bound_at = NEVER
        elif not one.bound_at:
            one.bound_at = now
            self._context.due.mark_at(one.key, after(now, self._bind_s))
        elif now >= after(one.bound_at, self._bind_s):
            self._verdicts.roll_back(one, unbound[0], reason=f"not bound for {self._bind_s:g} s")
            self._context.due.mark(one.key)

    def _end(self, one: LiveAttempt, now: Instant) -> None:
        grace_s = one.deletion.grace_s if one.deletion is not None else min(LEFTOVER_GRACE_S, one.order.spec.grace_s)
        adopted = self._context.adopted
        is_adopting = adopted.makes_own_pods(one.order) and not one.is_checking
        if one.state < AttemptState.ENDING:
            one.state = AttemptState.ENDING
            if is_adopting:
                self._slots.host(one)
        by_object = is_adopting and adopted.stop(one.order, grace_s=grace_s, now=now)
        left = 0
        for pod in itertools.chain(one.pods.values(), one.leaving):
            by_it = by_object and not pod.is_check
            left += not self._terminator.end(one, pod, grace_s=grace_s, now=now, by_object=by_it)
        if not left and one.state is not AttemptState.ENDED:
            one.state, one.ended_at = AttemptState.ENDED, now
