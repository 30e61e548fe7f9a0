"""The steps of one claim, each a call that is safe to repeat.

A claim is created with its finalizer (or given one, if another controller created it), read, allocated and reserved at
the version that was read, and checked for conflicts (`Holders`): only then is its pod bound. If a step is refused for
good, the gang is queued again, and the allocation is removed.
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
"""Attempts to create or write one claim while others change it."""
AGAIN_S = 0.5
"""Before a name is tried again whose claim is being deleted."""


class Step(Enum):
    """State of a claim."""

    WORKING = auto()  # a call is in progress
    ABSENT = auto()  # another controller will create the claim
    WRITTEN = auto()  # the watch does not show it yet
    READY = auto()
    OVER = auto()


class Action(Enum):
    """Effect of a call on a claim."""

    CREATE = auto()
    READ = auto()
    READ_ANEW = auto()  # after a name conflict: that claim may be terminating
    CHANGE = auto()  # add the finalizer, or remove an allocation
    ALLOCATE = auto()
    READ_TO_GIVE_BACK = auto()
    GIVE_BACK = auto()
    DELETE = auto()
    LET_GO = auto()  # remove the finalizer


@dataclass(frozen=True, slots=True)
class ClaimPurpose(Purpose):
    """A call on a claim that a pod needs."""

    pod: PodKey
    uid: str


@dataclass(frozen=True, slots=True)
class ChangeClaim(ClaimPurpose):
    """One call at a time per claim and pod uid; a new pod of the same name has its own calls."""

    action: Action = field(default=Action.READ, compare=False)


@dataclass(frozen=True, slots=True)
class ExamineHolder(ClaimPurpose):
    """Check whether the pod runs whose claim (`uid`) holds the same devices."""

    other: ClaimView = field(compare=False, repr=False)


@dataclass(slots=True, eq=False)
class Need:
    """A claim that a pod needs; `claim` is "" while its name is unknown.

    `labels` mark a claim of another controller as used by Muster.
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
    version: int = 0  # of the agent's last write
    is_released: bool = False
    slot: Slot | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    manifest: JsonObject = field(default_factory=dict)  # for its creation

    @property
    def at(self) -> Key:
        """Return namespace and name."""
        return self.namespace, self.claim

    @property
    def work(self) -> ChangeClaim:
        """Return the purpose of its calls."""
        return ChangeClaim(self.key, self.pod[1])


@dataclass(slots=True)
class Counts:
    """Counts since the start: devices held by another claim, refused Services, and the last reason."""

    conflicts: int = 0
    unserved: int = 0
    last: str = ""


@dataclass(slots=True, eq=False)
class ClaimSteps:
    """Runs the steps of claims."""

    worklist: Worklist
    holders: Holders
    counts: Counts = field(default_factory=Counts)
    known: dict[Key, PodKey] = field(default_factory=dict)
    """Claims of known needs, with their pods."""
    leaving: dict[Key, None] = field(default_factory=dict)
    """Claims that are being deleted."""
    watcher: Watcher | None = None
    asked: dict[ClaimPurpose, Need] = field(default_factory=dict)
    """Needs with a call in progress."""

    def __post_init__(self) -> None:
        self.worklist.serve(self, ClaimPurpose)

    def name(self, need: Need, claim: str) -> None:
        """Set the name of the claim."""
        need.claim = claim
        self.known[need.at] = need.key

    def wait(self, need: Need, now: Instant) -> None:
        """Wait for the claim that another controller creates from the template of the pod's object."""
        made = [view for view in self.holders.of_pod(need.pod[1]) if not view.deleting]
        if made:
            self.name(need, made[0].name)
            self._ask(need, Read(Kind.CLAIMS, *need.at), Action.READ, now)
        else:
            need.step = Step.ABSENT

    def make(self, need: Need, manifest: JsonObject, now: Instant) -> None:
        """Create the claim, unless an earlier leader did, and continue."""
        known = self.holders.claims.get(need.at)
        if known is not None and is_right(known, need):
            need.step, need.version = Step.WRITTEN, known.version
            self._look(need, now)
        else:
            need.manifest = manifest
            self._create(need, now)

    def seen(self, need: Need, view: ClaimView, now: Instant) -> None:
        """Handle a new state of its claim, in watch order; others may have removed the allocation."""
        if need.step is Step.ABSENT and view.owner == need.pod[1]:
            self.wait(need, now)
        elif need.step in (Step.WRITTEN, Step.READY) and not is_right(view, need):
            if view.deleting or view.version > need.version:
                self._lose(need, now, f"claim {need.claim} was deallocated by another client")
        elif need.step is Step.WRITTEN:
            self._look(need, now)

    def gone(self, need: Need, now: Instant) -> None:
        """Handle the deletion of its claim."""
        if need.step in (Step.WRITTEN, Step.READY):
            self._lose(need, now, f"claim {need.claim} was deleted by another client")

    def release(self, need: Need) -> None:
        """Release the claim of a pod that ended or was never created."""
        need.step = Step.OVER
        self.known.pop(need.at, None)
        if need.is_adopted or not need.claim:
            return
        need.is_released = True
        self.leaving[need.at] = None
        if self.worklist.cancel(need.work):
            self.asked.pop(need.work, None)
            self._delete(need)  # otherwise its outcome does

    def drop(self, view: ClaimView, key: PodKey) -> None:
        """Delete a claim of Muster without a known need."""
        need = Need(key, view.node, view.namespace, view.name, ("", view.owner), view.places, is_adopted=False)
        need.step, need.uid, need.is_released = Step.OVER, view.uid, True
        self.leaving[need.at] = None
        self._delete(need)

    def refused(self, key: PodKey, now: Instant, reason: str, *, uid: str) -> None:
        """Report that the pod cannot get its devices."""
        self.counts.last = reason
        if self.watcher is not None:
            self.watcher.is_refused(key, now, reason=reason, uid=uid)

    def clear(self) -> None:
        """Forget everything: another process leads."""
        self.known.clear()
        self.leaving.clear()
        self.asked.clear()

    def answered(self, purpose: ClaimPurpose, outcome: Outcome, now: Instant) -> None:
        """Continue after a call; the claim of a released pod is deleted instead."""
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
        """Continue with the claim as read; if it is a terminating one of a former pod, create it again later."""
        is_gone = isinstance(outcome, Refused) and outcome.code == NOT_FOUND
        if not is_gone and isinstance(outcome, Done):
            view = claims.project_claim(dict(outcome.reply))
            is_gone = view.deleting or view.owner != need.pod[1]
        if is_gone and may_create and need.tries < TRIES_MAX:
            self._create(need, now, after_s=AGAIN_S)
        elif is_gone:
            self._refuse(need, now, f"claim {need.claim} belongs to another pod or was deleted")
        else:
            self._claim_is(need, outcome, now)

    def _claim_is(self, need: Need, outcome: Outcome, now: Instant) -> None:
        """Protect the claim, then allocate it, each at exactly this version."""
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
        if view.places:  # of an earlier attempt: an allocation must be removed before another
            self._free(need, view, claim, now)
            return
        try:
            body = claims.allocated(claim, node=need.node, pod=need.pod, places=need.places)
        except ValueError as error:
            self._refuse(need, now, str(error))
            return
        self._ask(need, Replace(Kind.CLAIMS, *need.at, body, subresource="status"), Action.ALLOCATE, now)

    def _free(self, need: Need, view: ClaimView, claim: JsonObject, now: Instant) -> None:
        """Remove the claim's allocation, unless another pod uses it."""
        if set(view.reserved) - {need.pod[1]}:
            self._refuse(need, now, f"claim {need.claim} is in use by another pod")
            return
        call = Replace(Kind.CLAIMS, *need.at, claims.deallocated(claim), subresource="status")
        self._ask(need, call, Action.CHANGE, now)

    def _written(self, need: Need, outcome: Done, now: Instant) -> None:
        need.step, need.version = Step.WRITTEN, claims.project_claim(dict(outcome.reply)).version
        self._look(need, now)

    def _look(self, need: Need, now: Instant) -> None:
        """Become ready once the watch shows the agent's write, and with it all earlier writes."""
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
        """Check whether the pod of an unknown claim of Muster, from an earlier leader, is over."""
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
        self._refuse(need, now, f"claim {other.namespace}/{other.name} holds a device of this placement")

    def _refuse(self, need: Need, now: Instant, reason: str) -> None:
        """Refuse the placement, and remove the allocation at once."""
        need.step = Step.OVER
        view = self.holders.claims.get(need.at)
        if view is not None and view.places and need.pod[1] in view.reserved:
            self._give_back(need, now)
        self.refused(need.key, now, reason, uid=need.pod[1])

    def _lose(self, need: Need, now: Instant, reason: str) -> None:
        """Report a lost claim. A bound pod keeps running; the watcher knows it."""
        if need.step is Step.WRITTEN:
            need.step = Step.OVER
        self.refused(need.key, now, reason, uid=need.pod[1])

    def _give_back(self, need: Need, now: Instant) -> None:
        self._ask(need, Read(Kind.CLAIMS, *need.at), Action.READ_TO_GIVE_BACK, now)

    def _delete(self, need: Need) -> None:
        """Delete the claim; one of unknown uid was not created by this process, and goes with its pod."""
        known = self.holders.claims.get(need.at)
        uid = need.uid or (known.uid if known is not None and known.owner == need.pod[1] else "")
        if not uid:
            self.leaving.pop(need.at, None)
            return
        call = Delete(Kind.CLAIMS, *need.at, uid=uid)
        self._put(need, ChangeClaim(need.key, need.pod[1], Action.DELETE), call)

    def _deleted(self, need: Need, outcome: Outcome) -> None:
        """Remove the finalizer of a deleted claim, so that it goes at once."""
        reply = dict(outcome.reply) if isinstance(outcome, Done) else {}
        patch = claims.protection(reply, wanted=False) if uid_of(reply) else None
        if patch is None:
            self.leaving.pop(need.at, None)
            return
        call = Merge(Kind.CLAIMS, *need.at, patch)
        self._put(need, ChangeClaim(need.key, need.pod[1], Action.LET_GO), call)

    def _ask(self, need: Need, call: Call, action: Action, now: Instant, *, after_s: float = 0.0) -> None:
        """Make a call on the claim, at most TRIES_MAX times."""
        need.tries += 1
        if need.tries > TRIES_MAX:
            self._refuse_tired(need, now)
            return
        at = after(now, after_s) if after_s else AT_ONCE
        self._put(need, ChangeClaim(need.key, need.pod[1], action), call, at=at)

    def _put(self, need: Need, purpose: ClaimPurpose, call: Call, *, at: Instant = AT_ONCE) -> None:
        if self.worklist.ask(purpose, call, at=at, is_urgent=True):  # before new gangs
            self.asked[purpose] = need

    def _refuse_tired(self, need: Need, now: Instant) -> None:
        if need.step is not Step.OVER:
            need.step = Step.OVER
            reason = f"claim {need.claim} was changed by other clients {TRIES_MAX} times"
            self.refused(need.key, now, reason, uid=need.pod[1])


def is_right(view: ClaimView, need: Need) -> bool:
    """Return whether the claim gives this pod exactly its devices."""
    uid = need.pod[1]
    return uid in view.reserved and set(view.places) == set(need.places) and not view.deleting and view.owner == uid


def _is_over(outcome: Outcome, uid: str) -> bool:
    """Return whether the pod of this uid, as read, is over."""
    if isinstance(outcome, Refused):
        return outcome.code == NOT_FOUND
    pod = dict(outcome.reply) if isinstance(outcome, Done) else {}
    return bool(pod) and (uid_of(pod) != uid or text(pod, "status", "phase") in ("Succeeded", "Failed"))


def _words(need: Need, outcome: Outcome) -> str:
    said = outcome.message if isinstance(outcome, Refused) else ""
    return f"claim {need.claim}: {said or 'no answer'}"
