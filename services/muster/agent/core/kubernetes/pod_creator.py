"""Create all pods of an attempt, then bind all, so that no node waits for half a gang."""

from muster.agent.core.kubernetes.calls import (
    CONFLICT,
    NOT_FOUND,
    Bind,
    Create,
    Done,
    Kind,
    Outcome,
    Read,
    Refused,
    Unanswered,
)
from muster.agent.core.kubernetes.context import BindPod, Context, CreatePod, PodPurpose, ReadPod
from muster.agent.core.kubernetes.live import NEVER, AttemptState, LiveAttempt, LivePod, PodState
from muster.agent.core.kubernetes.ports import ImpossiblePodError
from muster.agent.core.kubernetes.projections import PodProjection
from muster.agent.core.kubernetes.verdicts import Verdicts
from muster.agent.core.kubernetes.worklist import AT_ONCE
from muster.core import Instant, after
from muster.kube.objects import uid_of

HELD_UP_S = 600.0
"""Time after which a gang fails whose container cannot start, for example for a missing image."""
REFUSALS_MAX = 6
"""Refusals of one pod by quota, or of its binding, after which its gang is queued again."""
AGAIN_S = 5.0
"""Before another attempt to create a pod after a missing namespace or object."""


class PodCreator:
    """Creates and binds pods; used only once all pods were seen, so that missing pods are known."""

    def __init__(self, context: Context, verdicts: Verdicts) -> None:
        self._context = context
        self._verdicts = verdicts
        self._project = PodProjection()

    def make(self, one: LiveAttempt, now: Instant) -> None:
        """Create the missing pods, and bind all once all exist and are ready."""
        if one.state is AttemptState.WANTED:
            if why := self._context.adopted.refusal(one.order):
                self._verdicts.fail(one, next(iter(one.pods.values())), reason=why)
                self._context.due.mark(one.key)
                return
            one.state = AttemptState.BEGUN
            self._begin(one, now)
        is_complete = True
        for pod in one.pods.values():
            if pod.state >= PodState.BOUND:
                continue
            if not pod.exists:
                self._create(one, pod)
                is_complete = is_complete and bool(pod.unmade)
            if pod.state is PodState.MADE:
                self._prepare(one, pod, now)
            is_complete = is_complete and pod.state is not PodState.PREPARING
            is_complete = is_complete and not pod.is_gated
        if is_complete:
            self._bind_all(one)

    def _begin(self, one: LiveAttempt, now: Instant) -> None:
        """Begin the shared auxiliary objects of the pods, and end those of the check pods."""
        if one.checks_apart and not one.is_checking:
            self._context.auxiliary.end(one.order_of(is_check=True), now)
        self._context.auxiliary.begin(one.working_order, now)
        if not one.is_checking:
            self._context.adopted.begin(one.order, now)

    def wait_for(self, one: LiveAttempt, now: Instant) -> None:
        """Wait for containers that cannot start, since an image or Secret may still appear; fail after HELD_UP_S."""
        pod = next((pod for pod in one.pods.values() if pod.held_up), None)
        if pod is None:
            one.held_up_at = NEVER
        elif not one.held_up_at:
            one.held_up_at = now
            self._context.notes.say(
                f"job {one.key[0]} attempt {one.key[1]} is waiting for pod {pod.name}: {pod.held_up}"
            )
            self._context.due.mark_at(one.key, after(now, HELD_UP_S))
        elif now >= after(one.held_up_at, HELD_UP_S):
            reason = f"{pod.held_up} for {HELD_UP_S:g} s"
            if pod.is_check:  # the gang cannot start while it holds its place
                self._verdicts.refuse(one, pod, reason=f"its check pod does not start: {reason}")
            else:
                self._verdicts.fail(one, pod, reason=reason)
            self._context.due.mark(one.key)

    def forget(self, pod: LivePod) -> None:
        """Cancel the calls of a pod."""
        for purpose in (CreatePod(pod.key), BindPod(pod.key), ReadPod(pod.key)):
            self._context.worklist.cancel(purpose)

    def answered(self, one: LiveAttempt, pod: LivePod, purpose: PodPurpose, outcome: Outcome, now: Instant) -> None:
        """Continue after a call of this class."""
        match purpose:
            case CreatePod():
                self._created(one, pod, outcome, now)
            case ReadPod():
                self._found(one, pod, outcome)
            case BindPod():
                self._bound(one, pod, outcome, now)

    def _create(self, one: LiveAttempt, pod: LivePod) -> None:
        if pod.is_check and one.checks_told:
            self._verdicts.impossible(one, pod, reason="it is gone and no longer needed")
        elif pod.is_check and one.started_at:
            self._ask_create(one, pod)  # it may never have existed: another attempt shows
        elif one.started_at and not pod.is_late and not (pod.is_adopted and one.checks_apart):
            pod.lose()  # it ran and is absent: it was deleted unseen
            self._context.due.mark(one.key)
        elif not pod.is_adopted and not self._context.worklist.asks(ReadPod(pod.key)):
            self._ask_create(one, pod)

    def _ask_create(self, one: LiveAttempt, pod: LivePod, *, at: Instant = AT_ONCE) -> None:
        if any(other.name == pod.name and other.exists for other in one.leaving):
            return  # its name is free when that one is gone
        if self._context.worklist.asks(CreatePod(pod.key)):
            return
        manifests, order = self._context.manifests, one.order_of(is_check=pod.is_check)
        make = manifests.check_pod if pod.is_check else manifests.pod
        try:
            body = make(order, pod.slot, order.slots)
        except ImpossiblePodError as error:
            self._verdicts.impossible(one, pod, reason=str(error))
            self._context.due.mark(one.key)  # nothing else may happen to it
            return
        call = Create(Kind.PODS, pod.namespace, pod.name, body, brief=True)
        self._context.worklist.ask(CreatePod(pod.key, pod.number), call, at=at)

    def _created(self, one: LiveAttempt, pod: LivePod, outcome: Outcome, now: Instant) -> None:
        match outcome:
            case Done() if not pod.uid:
                pod.made(uid_of(outcome.reply))
                if pod.is_check and one.started_at:  # the others started without it
                    self._verdicts.roll_back(one, pod, reason="its pod is gone")
            case Refused(code=409, reason="AlreadyExists") if not pod.uid:
                self._read(pod)
            case Refused() if not pod.uid and not one.is_ending:
                self._refused(one, pod, outcome, now)
            case Unanswered():
                pod.doubt()
            case _:
                pass  # it was seen before the answer, or is no longer wanted

    def _refused(self, one: LiveAttempt, pod: LivePod, refusal: Refused, now: Instant) -> None:
        self._context.notes.refused += 1
        if refusal.code == NOT_FOUND and not pod.is_check:  # its namespace is missing
            self._context.notes.say(f"pod {pod.name}: {refusal.message}")
            self._ask_create(one, pod, at=after(now, AGAIN_S))
        elif "exceeded quota" in refusal.message and pod.refusals < REFUSALS_MAX:
            pod.refusals += 1
            self._ask_create(one, pod, at=after(now, AGAIN_S))
        elif (refusal.code == CONFLICT or "exceeded quota" in refusal.message) and not pod.is_check:
            self._verdicts.roll_back(one, pod, reason=refusal.message)
        else:
            self._verdicts.impossible(one, pod, reason=refusal.message)

    def _read(self, pod: LivePod) -> None:
        call = Read(Kind.PODS, pod.namespace, pod.name)
        self._context.worklist.ask(ReadPod(pod.key, pod.number), call, is_urgent=True)

    def _found(self, one: LiveAttempt, pod: LivePod, outcome: Outcome) -> None:
        """Handle a read of the pod that may already exist or be bound: Muster's if its labels say so."""
        match outcome:
            case Done():
                view = self._project(dict(outcome.reply))
                if view.member is None or view.member.key != pod.key:
                    reason = f"another pod of this name exists in namespace {pod.namespace}; delete it"
                    self._verdicts.impossible(one, pod, reason=reason)
                elif pod.view is None or pod.uid == view.uid:
                    pod.see(view)
            case Refused(code=404) if pod.uid:
                pod.lose()
            case Refused(code=404) if not one.is_ending:
                self._ask_create(one, pod)

    def _prepare(self, one: LiveAttempt, pod: LivePod, now: Instant) -> None:
        """Request its auxiliary objects before its binding; they may be ready already."""
        pod.state = PodState.PREPARING
        order = one.order_of(is_check=pod.is_check)
        if self._context.auxiliary.prepare(order, pod.slot, name=pod.name, uid=pod.uid, now=now):
            pod.state = PodState.READY

    def _bind_all(self, one: LiveAttempt) -> None:
        for pod in one.pods.values():
            if pod.state is PodState.READY:
                call = Bind(pod.namespace, pod.name, pod.uid, pod.slot.node)
                self._context.worklist.ask(BindPod(pod.key, pod.number), call, at=pod.bind_at, is_urgent=True)

    def _bound(self, one: LiveAttempt, pod: LivePod, outcome: Outcome, now: Instant) -> None:
        match outcome:
            case _ if pod.state >= PodState.BOUND:
                pass  # the watch was faster
            case Done():
                pod.state = PodState.BOUND
            case Refused(code=409):
                pod.bind_at = after(now, AGAIN_S)
                self._read(pod)  # maybe bound by a call whose answer was lost
            case Refused(code=404):
                self._context.notes.refused += 1
                self._verdicts.roll_back(one, pod, reason=outcome.message)
            case Refused():  # by an admission policy, maybe temporarily
                self._context.notes.refused += 1
                pod.refusals += 1
                pod.bind_at = after(now, AGAIN_S)
                if pod.refusals > REFUSALS_MAX:
                    self._verdicts.refuse(one, pod, reason=f"its binding was refused: {outcome.message}")
