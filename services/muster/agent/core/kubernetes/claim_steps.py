"""The steps of one claim, each a call that is safe to repeat.

It is made with its finalizer (or, where another made it, given one), read, allocated and reserved at the version that
was read, and seen to stand alone (`holders`): only then its pod may be bound. A step that is refused for good takes the
gang back to the queue, and gives back what was allocated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from muster.agent.core.kubernetes import claims, names
from muster.agent.core.kubernetes.calls import (
    CONFLICT,
    NOT_FOUND,
    Call,
    Create,
    Delete,
    Done,
    Kind,
    Merge,
    Outcome,
    Read,
    Refused,
    Replace,
)
from muster.agent.core.kubernetes.claims import ClaimView, Holders, Key
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.ports import Watcher
from muster.agent.core.kubernetes.slices import Place
from muster.agent.core.kubernetes.worklist import AT_ONCE, Purpose, Worklist
from muster.core import Instant, after
from muster.kube.objects import JsonObject, text, uid_of
from muster.schemas.job import Slot

TRIES_MAX = 8
"""Of making or writing one claim against what others do to it at the same time."""
AGAIN_S = 0.5
"""Before a name is asked for again that a claim still has which is being deleted."""


class Step(Enum):
    """Where a claim stands."""

    WORKING = auto()  # a call is asked for
    ABSENT = auto()  # somebody else is to make the claim
    WRITTEN = auto()  # until the watch shows it
    READY = auto()
    OVER = auto()


class Action(Enum):
    """What a call about a claim does."""

    CREATE = auto()
    READ = auto()
    READ_ANEW = auto()  # it could not be made, for one of its name is there: that may be on its way out
    CHANGE = auto()  # give it the finalizer, or take back what it was given
    ALLOCATE = auto()
    READ_TO_GIVE_BACK = auto()
    GIVE_BACK = auto()
    DELETE = auto()
    LET_GO = auto()  # take the finalizer away


@dataclass(frozen=True, slots=True)
class ClaimPurpose(Purpose):
    """Something is to be done about a claim that a pod needs."""

    pod: PodKey
    uid: str


@dataclass(frozen=True, slots=True)
class ChangeClaim(ClaimPurpose):
    """One call at a time per claim. uid: of the pod; one that comes anew under the same name has calls of its own."""

    action: Action = field(default=Action.READ, compare=False)


@dataclass(frozen=True, slots=True)
class ExamineHolder(ClaimPurpose):
    """See whether the pod runs whose claim holds the same devices. uid: of that claim."""

    other: ClaimView = field(compare=False, repr=False)


@dataclass(slots=True, eq=False)
class Need:
    """A claim that a pod needs. claim: "" while it is not known how another calls it. labels: by which a claim that
    another made is known as Muster's.
    """

    key: PodKey
    node: str
    namespace: str
    claim: str
    pod: tuple[str, str]
    places: tuple[Place, ...]
    is_adopted: bool
    step: Step = Step.WORKING
    tries: int = 0
    uid: str = ""  # of the claim, once it is known
    version: int = 0  # of our own write
    is_released: bool = False
    slot: Slot | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    manifest: JsonObject = field(default_factory=dict)  # by which it is made

    @property
    def at(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.claim

    @property
    def work(self) -> ChangeClaim:
        """What its calls are for."""
        return ChangeClaim(self.key, self.pod[1])


@dataclass(slots=True)
class Counts:
    """Since the start. conflicts: another claim held a device that was placed. unserved: services that were refused.

    last: the newest reason of either.
    """

    conflicts: int = 0
    unserved: int = 0
    last: str = ""


@dataclass(slots=True, eq=False)
class ClaimSteps:
    """known: claims of needs that are known here, with the pod of each; leaving: that are on their way out.

    asked: needs about which something is asked.
    """

    worklist: Worklist
    holders: Holders
    counts: Counts = field(default_factory=Counts)
    known: dict[Key, PodKey] = field(default_factory=dict)
    leaving: dict[Key, None] = field(default_factory=dict)
    watcher: Watcher | None = None
    asked: dict[ClaimPurpose, Need] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.worklist.serve(self, ClaimPurpose)

    def name(self, need: Need, claim: str) -> None:
        """The claim is called so."""
        need.claim = claim
        self.known[need.at] = need.key

    def wait(self, need: Need, now: Instant) -> None:
        """The claim is made for the pod by another: from the template that its object names."""
        made = [view for view in self.holders.of_pod(need.pod[1]) if not view.deleting]
        if made:
            self.name(need, made[0].name)
            self._ask(need, Read(Kind.CLAIMS, *need.at), Action.READ, now)
        else:
            need.step = Step.ABSENT

    def make(self, need: Need, manifest: JsonObject, now: Instant) -> None:
        """Make it, unless an earlier leader did, and all that follows."""
        known = self.holders.claims.get(need.at)
        if known is not None and is_right(known, need):
            need.step, need.version = Step.WRITTEN, known.version
            self._look(need, now)
        else:
            need.manifest = manifest
            self._create(need, now)

    def seen(self, need: Need, view: ClaimView, now: Instant) -> None:
        """Its claim is so, in the order of the watch. What we wrote may have been taken back by somebody else."""
        if need.step is Step.ABSENT and view.owner == need.pod[1]:
            self.wait(need, now)
        elif need.step in (Step.WRITTEN, Step.READY) and not is_right(view, need):
            if view.deleting or view.version > need.version:
                self._lose(need, now, f"claim {need.claim} was taken back by somebody else")
        elif need.step is Step.WRITTEN:
            self._look(need, now)

    def gone(self, need: Need, now: Instant) -> None:
        """Its claim is no more."""
        if need.step in (Step.WRITTEN, Step.READY):
            self._lose(need, now, f"claim {need.claim} was deleted by somebody else")

    def release(self, need: Need) -> None:
        """Its pod ended, or was never made."""
        need.step = Step.OVER
        self.known.pop(need.at, None)
        if need.is_adopted or not need.claim:
            return
        need.is_released = True
        self.leaving[need.at] = None
        if self.worklist.cancel(need.work):
            self.asked.pop(need.work, None)
            self._delete(need)  # else its outcome does

    def drop(self, view: ClaimView, key: PodKey) -> None:
        """Take back a claim of ours of which no need is known."""
        need = Need(key, view.node, view.namespace, view.name, ("", view.owner), view.places, is_adopted=False)
        need.step, need.uid, need.is_released = Step.OVER, view.uid, True
        self.leaving[need.at] = None
        self._delete(need)

    def refused(self, key: PodKey, now: Instant, reason: str, *, uid: str) -> None:
        """The pod cannot have what was placed."""
        self.counts.last = reason
        if self.watcher is not None:
            self.watcher.is_refused(key, now, reason=reason, uid=uid)

    def clear(self) -> None:
        """Another leads."""
        self.known.clear()
        self.leaving.clear()
        self.asked.clear()

    def answered(self, purpose: ClaimPurpose, outcome: Outcome, now: Instant) -> None:
        """See `Asker`. What a pod was released from in the meantime is deleted instead of what was to come next."""
        need = self.asked.pop(purpose, None)
        if need is None:
            return
        match purpose:
            case ExamineHolder():
                self._examined(need, purpose, outcome, now)
            case ChangeClaim(action=Action.DELETE):
                self._deleted(need, outcome)
            case ChangeClaim(action=Action.LET_GO):
                self.leaving.pop(need.at, None)
            case ChangeClaim():
                if isinstance(outcome, Done) and claims.project_claim(dict(outcome.reply)).owner == need.pod[1]:
                    need.uid = uid_of(outcome.reply)
                if need.is_released:
                    self._delete(need)
                else:
                    self._go_on(need, purpose.action, outcome, now)

    def _go_on(self, need: Need, action: Action, outcome: Outcome, now: Instant) -> None:
        is_conflict = isinstance(outcome, Refused) and outcome.code == CONFLICT
        match action:
            case Action.READ | Action.READ_ANEW:
                self._was_read(need, outcome, now, may_create=action is Action.READ_ANEW)
            case Action.CREATE if is_conflict:
                self._ask(need, Read(Kind.CLAIMS, *need.at), Action.READ_ANEW, now)
            case Action.CHANGE | Action.ALLOCATE if is_conflict:
                self._ask(need, Read(Kind.CLAIMS, *need.at), Action.READ, now)
            case Action.ALLOCATE if isinstance(outcome, Done):
                self._written(need, outcome, now)
            case Action.READ_TO_GIVE_BACK if isinstance(outcome, Done):
                body = claims.deallocated(dict(outcome.reply))
                call = Replace(Kind.CLAIMS, *need.at, body, subresource="status")
                self._ask(need, call, Action.GIVE_BACK, now)
            case Action.GIVE_BACK if is_conflict and need.tries < TRIES_MAX:
                self._give_back(need, now)
            case Action.CREATE | Action.CHANGE | Action.ALLOCATE:
                self._claim_is(need, outcome, now)

    def _create(self, need: Need, now: Instant, *, after_s: float = 0.0) -> None:
        self._ask(need, Create(Kind.CLAIMS, *need.at, need.manifest), Action.CREATE, now, after_s=after_s)

    def _was_read(self, need: Need, outcome: Outcome, now: Instant, *, may_create: bool) -> None:
        """The claim as it is. One of a former pod of this name is on its way out: the name is asked for again."""
        is_gone = isinstance(outcome, Refused) and outcome.code == NOT_FOUND
        if not is_gone and isinstance(outcome, Done):
            view = claims.project_claim(dict(outcome.reply))
            is_gone = view.deleting or view.owner != need.pod[1]
        if is_gone and may_create and need.tries < TRIES_MAX:
            self._create(need, now, after_s=AGAIN_S)
        elif is_gone:
            self._refuse(need, now, f"claim {need.claim} belongs to another pod, or is gone")
        else:
            self._claim_is(need, outcome, now)

    def _claim_is(self, need: Need, outcome: Outcome, now: Instant) -> None:
        """The claim at a version: protected first, then allocated, each at exactly this version."""
        if not isinstance(outcome, Done):
            self._refuse(need, now, _words(need, outcome))
            return
        claim = dict(outcome.reply)
        view = claims.project_claim(claim)
        if is_right(view, need):
            self._written(need, outcome, now)
            return
        protection = claims.protection(claim, wanted=True, labels=need.labels)
        if protection is not None:
            self._ask(need, Merge(Kind.CLAIMS, *need.at, protection), Action.CHANGE, now)
            return
        if view.places:  # of an attempt before: what a claim was given does not change, it is given back first
            self._free(need, view, claim, now)
            return
        try:
            body = claims.allocated(claim, node=need.node, pod=need.pod, places=need.places)
        except ValueError as error:
            self._refuse(need, now, str(error))
            return
        self._ask(need, Replace(Kind.CLAIMS, *need.at, body, subresource="status"), Action.ALLOCATE, now)

    def _free(self, need: Need, view: ClaimView, claim: JsonObject, now: Instant) -> None:
        """Take back what the claim was given, unless a pod has it that is not this one."""
        if set(view.reserved) - {need.pod[1]}:
            self._refuse(need, now, f"claim {need.claim} is in use by another pod")
            return
        call = Replace(Kind.CLAIMS, *need.at, claims.deallocated(claim), subresource="status")
        self._ask(need, call, Action.CHANGE, now)

    def _written(self, need: Need, outcome: Done, now: Instant) -> None:
        need.step, need.version = Step.WRITTEN, claims.project_claim(dict(outcome.reply)).version
        self._look(need, now)

    def _look(self, need: Need, now: Instant) -> None:
        """Ready as soon as the watch shows our own write, and with it all that was written before."""
        view = self.holders.claims.get(need.at)
        if view is None or not is_right(view, need):
            return
        others = [other for other in self.holders.others(need.places, than=need.at) if other.key not in self.leaving]
        if not others:
            need.step = Step.READY
            if self.watcher is not None:
                self.watcher.is_ready(need.key, uid=need.pod[1])
        elif others[0].job and others[0].key not in self.known:
            self._examine(need, others[0])
        else:
            self._conflict(need, others[0], now)

    def _examine(self, need: Need, other: ClaimView) -> None:
        """A claim of ours that nobody here knows: of a pod that an earlier leader made. Is that pod over?"""
        pod = other.pod or names.pod_of_claim(other.name)
        self._put(need, ExamineHolder(need.key, other.uid, other), Read(Kind.PODS, other.namespace, pod))

    def _examined(self, need: Need, purpose: ExamineHolder, outcome: Outcome, now: Instant) -> None:
        other = purpose.other
        if need.step is not Step.WRITTEN:
            return
        if _is_over(outcome, other.owner):
            self.drop(other, PodKey(other.job, 0, 0, 0))
            self._look(need, now)
        else:
            self._conflict(need, other, now)

    def _conflict(self, need: Need, other: ClaimView, now: Instant) -> None:
        self.counts.conflicts += 1
        self._refuse(need, now, f"claim {other.namespace}/{other.name} holds a device that was placed")

    def _refuse(self, need: Need, now: Instant, reason: str) -> None:
        """The gang cannot have it: what was allocated is given back at once, for whoever else looks."""
        need.step = Step.OVER
        view = self.holders.claims.get(need.at)
        if view is not None and view.places and need.pod[1] in view.reserved:
            self._give_back(need, now)
        self.refused(need.key, now, reason, uid=need.pod[1])

    def _lose(self, need: Need, now: Instant, reason: str) -> None:
        """Somebody else took it. A pod that is bound runs on: whoever watches knows which are."""
        if need.step is Step.WRITTEN:
            need.step = Step.OVER
        self.refused(need.key, now, reason, uid=need.pod[1])

    def _give_back(self, need: Need, now: Instant) -> None:
        self._ask(need, Read(Kind.CLAIMS, *need.at), Action.READ_TO_GIVE_BACK, now)

    def _delete(self, need: Need) -> None:
        """A claim of unknown uid was never made, or not by this life: the garbage collector takes it with its pod."""
        known = self.holders.claims.get(need.at)
        uid = need.uid or (known.uid if known is not None and known.owner == need.pod[1] else "")
        if not uid:
            self.leaving.pop(need.at, None)
            return
        call = Delete(Kind.CLAIMS, *need.at, uid=uid)
        self._put(need, ChangeClaim(need.key, need.pod[1], Action.DELETE), call)

    def _deleted(self, need: Need, outcome: Outcome) -> None:
        """It goes once the finalizer is taken away: nobody else has to notice first."""
        reply = dict(outcome.reply) if isinstance(outcome, Done) else {}
        patch = claims.protection(reply, wanted=False) if uid_of(reply) else None
        if patch is None:
            self.leaving.pop(need.at, None)
            return
        call = Merge(Kind.CLAIMS, *need.at, patch)
        self._put(need, ChangeClaim(need.key, need.pod[1], Action.LET_GO), call)

    def _ask(self, need: Need, call: Call, action: Action, now: Instant, *, after_s: float = 0.0) -> None:
        """Have this done about the claim, but not for ever again."""
        need.tries += 1
        if need.tries > TRIES_MAX:
            self._refuse_tired(need, now)
            return
        at = after(now, after_s) if after_s else AT_ONCE
        self._put(need, ChangeClaim(need.key, need.pod[1], action), call, at=at)

    def _put(self, need: Need, purpose: ClaimPurpose, call: Call, *, at: Instant = AT_ONCE) -> None:
        if self.worklist.ask(purpose, call, at=at, is_urgent=True):  # before more is begun
            self.asked[purpose] = need

    def _refuse_tired(self, need: Need, now: Instant) -> None:
        if need.step is not Step.OVER:
            need.step = Step.OVER
            reason = f"claim {need.claim} changed {TRIES_MAX} times under our hands"
            self.refused(need.key, now, reason, uid=need.pod[1])


def is_right(view: ClaimView, need: Need) -> bool:
    """Whether the claim gives this pod exactly its devices."""
    uid = need.pod[1]
    return uid in view.reserved and set(view.places) == set(need.places) and not view.deleting and view.owner == uid


def _is_over(outcome: Outcome, uid: str) -> bool:
    """Whether the pod of this uid, as it was read, runs no more."""
    if isinstance(outcome, Refused):
        return outcome.code == NOT_FOUND
    pod = dict(outcome.reply) if isinstance(outcome, Done) else {}
    return bool(pod) and (uid_of(pod) != uid or text(pod, "status", "phase") in ("Succeeded", "Failed"))


def _words(need: Need, outcome: Outcome) -> str:
    said = outcome.message if isinstance(outcome, Refused) else ""
    return f"claim {need.claim}: {said or 'no answer'}"
