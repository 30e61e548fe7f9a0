"""How the pods of an attempt come to be: created all, then bound all, so that no node waits for half a gang."""

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
"""A gang of which a container cannot be started (its image is not there) for so long fails."""
REFUSALS_MAX = 6
"""Of one pod for the namespace's quota, or of its binding: then its gang makes room for others, and is queued again."""
AGAIN_S = 5.0
"""Until a pod is asked for again whose namespace was not there, or whose object was not found after all."""


class PodCreator:
    """Asked only when all pods were seen, so that what is absent may be made. touch: have it looked at again."""

    def __init__(self, context: Context, verdicts: Verdicts) -> None:
        self._context = context
        self._verdicts = verdicts
        self._project = PodProjection()

    def make(self, one: LiveAttempt, now: Instant) -> None:
        """Ask for what is missing of the gang: objects first, and bindings once all objects are there and ready."""
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
        """What the pods have in common is due; what those that checked had is not any more."""
        if one.checks_apart and not one.is_checking:
            self._context.auxiliary.end(one.order_of(is_check=True), now)
        self._context.auxiliary.begin(one.working_order, now)
        if not one.is_checking:
            self._context.adopted.begin(one.order, now)

    def wait_for(self, one: LiveAttempt, now: Instant) -> None:
        """Containers that cannot be started hold nodes for nothing; but an image or a Secret may still come."""
        pod = next((pod for pod in one.pods.values() if pod.held_up), None)
        if pod is None:
            one.held_up_at = NEVER
        elif not one.held_up_at:
            one.held_up_at = now
            self._context.notes.say(f"job {one.key[0]} attempt {one.key[1]} waits: pod {pod.name}: {pod.held_up}")
            self._context.due.mark_at(one.key, after(now, HELD_UP_S))
        elif now >= after(one.held_up_at, HELD_UP_S):
            reason = f"{pod.held_up} for {HELD_UP_S:g} s"
            if pod.is_check:  # it holds its place, so that the gang cannot go on without it here
                self._verdicts.refuse(one, pod, reason=f"what checks it does not start: {reason}")
            else:
                self._verdicts.fail(one, pod, reason=reason)
            self._context.due.mark(one.key)

    def forget(self, pod: LivePod) -> None:
        """Nothing more is to be made of it."""
        for purpose in (CreatePod(pod.key), BindPod(pod.key), ReadPod(pod.key)):
            self._context.worklist.cancel(purpose)

    def answered(self, one: LiveAttempt, pod: LivePod, purpose: PodPurpose, outcome: Outcome, now: Instant) -> None:
        """What came of a call that was asked here."""
        match purpose:
            case CreatePod():
                self._created(one, pod, outcome, now)
            case ReadPod():
                self._found(one, pod, outcome)
            case BindPod():
                self._bound(one, pod, outcome, now)

    def _create(self, one: LiveAttempt, pod: LivePod) -> None:
        if pod.is_check and one.checks_told:
            self._verdicts.impossible(one, pod, reason="it is gone, and nobody needs it any more")
        elif pod.is_check and one.started_at:
            self._ask_create(one, pod)  # there was none if the API server still refuses it: only trying tells
        elif one.started_at and not pod.is_late and not (pod.is_adopted and one.checks_apart):
            pod.lose()  # it ran, and is not there: it was taken away while nobody looked
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
                if pod.is_check and one.started_at:  # the others did not wait for this one
                    self._verdicts.roll_back(one, pod, reason="its pod is gone")
            case Refused(code=409, reason="AlreadyExists") if not pod.uid:
                self._read(pod)
            case Refused() if not pod.uid and not one.is_ending:
                self._refused(one, pod, outcome, now)
            case Unanswered():
                pod.doubt()
            case _:
                pass  # it was seen before the answer came, or is not wanted any more

    def _refused(self, one: LiveAttempt, pod: LivePod, refusal: Refused, now: Instant) -> None:
        self._context.notes.refused += 1
        if refusal.code == NOT_FOUND and not pod.is_check:  # its namespace: somebody has to make it
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
        """What stands where we wanted to create, or to bind: ours if it says so."""
        match outcome:
            case Done():
                view = self._project(dict(outcome.reply))
                if view.member is None or view.member.key != pod.key:
                    reason = f"another pod of this name is in namespace {pod.namespace}; delete it"
                    self._verdicts.impossible(one, pod, reason=reason)
                elif pod.view is None or pod.uid == view.uid:
                    pod.see(view)
            case Refused(code=404) if pod.uid:
                pod.lose()
            case Refused(code=404) if not one.is_ending:
                self._ask_create(one, pod)

    def _prepare(self, one: LiveAttempt, pod: LivePod, now: Instant) -> None:
        """Ask for what it needs before it may be bound; it may have that already."""
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
                self._read(pod)  # perhaps by a call whose answer was lost
            case Refused(code=404):
                self._context.notes.refused += 1
                self._verdicts.roll_back(one, pod, reason=outcome.message)
            case Refused():  # by a policy: that is about the pod, and may be about a moment
                self._context.notes.refused += 1
                pod.refusals += 1
                pod.bind_at = after(now, AGAIN_S)
                if pod.refusals > REFUSALS_MAX:
                    self._verdicts.refuse(one, pod, reason=f"its binding was refused: {outcome.message}")
