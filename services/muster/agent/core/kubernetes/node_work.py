"""Work on nodes of a Kubernetes cluster: each request is one Job pinned to its node, or labels that others act on.

Names follow from the request, and the API server has what was begun: a new leader finds it and begins nothing twice,
unless the Job was deleted (`kept_s` after its end) while no agent watched.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from muster.agent.core.cluster import WorkOnNode, WorkSeen
from muster.agent.core.kubernetes.calls import Create, Done, Kind, Merge, Outcome, Read, Refused
from muster.agent.core.kubernetes.node_jobs import (
    BOOT_ANNOTATION,
    WORK_ANNOTATION,
    WorkPolicy,
    action_job,
    checks_job,
    filled,
    job_name,
    words_off_node,
    words_on_node,
)
from muster.agent.core.kubernetes.views import End, NodeView, PodView
from muster.agent.core.kubernetes.worklist import AT_ONCE, Purpose, Worklist
from muster.checks.report import cannot_run, load
from muster.core import Instant, after, seconds_between
from muster.core.settings import NodeActionSettings
from muster.kube.objects import text
from muster.schemas.facts.operations import (
    ActionOutcome,
    ChecksReported,
    NodeAction,
    NodeActionEnded,
    NodeActionRequested,
)

NO_WAY = "this action is not configured for the cluster; set it in preflight.nodes"
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class WorkPurpose(Purpose):
    """A call for work on a node."""

    node: str


@dataclass(frozen=True, slots=True)
class BeginWork(WorkPurpose):
    """Create its Job, or set its labels or annotations on the node."""

    request_id: str
    boot: str = field(default="", compare=False)
    """Boot id of the node at the call."""


@dataclass(frozen=True, slots=True)
class FindWork(WorkPurpose):
    """Read a Job of another leader, which has the boot id of its begin."""

    request_id: str


@dataclass(frozen=True, slots=True)
class TakeWordsOff(WorkPurpose):
    """Remove labels or annotations of ended work from a node."""


@dataclass(slots=True)
class _Work:
    """One request, its Job's name, and whether the API server has it; `boot` is the node's boot id at the begin."""

    effect: WorkOnNode
    name: str
    way: NodeActionSettings | None
    is_begun: bool = False
    boot: str = ""

    @property
    def key(self) -> _Key:
        """Return node and request."""
        return self.effect.node, self.effect.request_id

    @property
    def deadline(self) -> Instant:
        """Return when it ends at the latest."""
        return after(self.effect.at, self.effect.asked.limit_s)

    @property
    def by_words(self) -> bool:
        """Return whether others act on labels or annotations of the node."""
        return self.way is not None and self.way.by != "job"


class NodeWorks:
    """Work on nodes, a part of `KubernetesCluster`. `gpus_of` returns a node's GPUs in the log; 0 if unknown."""

    def __init__(self, policy: WorkPolicy, worklist: Worklist, gpus_of: Callable[[str], int] = lambda _: 0) -> None:
        self._gpus_of = gpus_of
        self.may_work = True
        """Whether the API server permits it."""
        self.policy = policy
        self._worklist = worklist
        worklist.serve(self, WorkPurpose)
        self._open: dict[_Key, _Work] = {}
        self._by_name: dict[str, _Work] = {}
        self._nodes: dict[str, NodeView] = {}
        self._ends: dict[str, End] = {}  # of pods that work, by the name of their Job
        self._dirty: dict[_Key, None] = {}
        self._deadlines: list[tuple[Instant, _Key]] = []
        self._seen: dict[_Key, WorkSeen] = {}
        self._is_synced = False

    # --- what is asked, and what is seen -------------------------------------------------------------------------

    def carry_out(self, effect: WorkOnNode) -> None:
        """Accept a request."""
        key = (effect.node, effect.request_id)
        if key in self._open:
            return
        asked = effect.asked
        way = self.policy.actions.get(asked.action) if isinstance(asked, NodeActionRequested) else None
        work = _Work(effect, job_name(self.policy.cluster, *key), way)
        self._open[key] = self._by_name[work.name] = work
        self._dirty[key] = None
        heapq.heappush(self._deadlines, (work.deadline, key))

    def acknowledge(self, seen: WorkSeen) -> None:
        """Record that the log has the end of a request."""
        key = (seen.node, seen.request_id)
        self._seen.pop(key, None)
        self._dirty.pop(key, None)
        work = self._open.pop(key, None)
        if work is None:
            return
        self._by_name.pop(work.name, None)
        for purpose in (BeginWork(*key), FindWork(*key)):
            self._worklist.cancel(purpose)
        if work.way is not None and work.by_words and work.is_begun and seen.node in self._nodes:
            call = Merge(Kind.NODES, "", seen.node, words_off_node(work.way))
            self._worklist.ask(TakeWordsOff(seen.node), call)
        self._look_at_node(seen.node)

    def pod_seen(self, view: PodView) -> None:
        """Handle a new state of a pod that works on a node."""
        if view.work and view.end is not None and view.namespace == self.policy.namespace:
            self._ends[view.work] = view.end
            self._look_at(view.work)

    def pod_gone(self, view: PodView) -> None:
        """Handle a deleted pod that worked on a node."""
        if view.work and view.namespace == self.policy.namespace:
            self._ends.pop(view.work, None)

    def node_seen(self, view: NodeView) -> None:
        """Handle a new state of a node."""
        self._nodes[view.name] = view
        self._look_at_node(view.name)

    def node_gone(self, name: str) -> None:
        """Handle a deleted node."""
        self._nodes.pop(name, None)
        self._look_at_node(name)

    def synced(self) -> None:
        """Record that everything was seen."""
        self._is_synced = True
        self._dirty.update(dict.fromkeys(self._open))

    def reset(self) -> None:
        """Forget what was seen, because another process leads."""
        self._is_synced = False
        self._nodes.clear()
        self._ends.clear()
        self._seen.clear()
        for work in self._open.values():
            work.is_begun, work.boot = False, ""
        self._dirty = dict.fromkeys(self._open)
        self._deadlines = [(work.deadline, key) for key, work in self._open.items()]  # one may have passed unreported
        heapq.heapify(self._deadlines)

    # --- what follows --------------------------------------------------------------------------------------------

    def settle(self, now: Instant) -> None:
        """Begin requests, and evaluate what changed."""
        if not self._is_synced:
            return
        while self._deadlines and self._deadlines[0][0] <= now:
            key = heapq.heappop(self._deadlines)[1]
            if key in self._open and key not in self._seen:
                self._end(self._open[key], now, self._late(self._open[key]))
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            work = self._open.get(key)
            if work is not None and key not in self._seen:
                self._advance(work, now)

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to report."""
        return bool(self._seen)

    def observations(self) -> Iterator[WorkSeen]:
        """Yield unacknowledged ends."""
        return iter(self._seen.values())

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone."""
        if not self._is_synced:
            return None
        if self._dirty:
            return AT_ONCE
        while self._deadlines and self._deadlines[0][1] not in self._open:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _look_at(self, name: str) -> None:
        work = self._by_name.get(name)
        if work is not None:
            self._dirty[work.key] = None

    def _look_at_node(self, name: str) -> None:
        if self._open:
            self._dirty.update((key, None) for key in self._open if key[0] == name)

    def _advance(self, work: _Work, now: Instant) -> None:
        ended = self._ended_by_node(work) or self._obstacle(work)
        if ended is not None:
            self._end(work, now, ended)
        elif work.is_begun:
            self._judge(work, now)
        elif not any(map(self._worklist.asks, (BeginWork(*work.key), FindWork(*work.key)))):
            self._begin(work)

    def _ended_by_node(self, work: _Work) -> NodeActionEnded | ChecksReported | None:
        """Return the end of a request whose node is gone; a replacement is then done."""
        if work.effect.node in self._nodes:
            return None
        asked = work.effect.asked
        if isinstance(asked, NodeActionRequested) and asked.action is NodeAction.REPLACE and work.is_begun:
            return _action(work, ActionOutcome.DONE, detail="the node is no more")
        return _unable(work, "the node is no more") if work.is_begun else _unable(work, "there is no such node")

    def _obstacle(self, work: _Work) -> NodeActionEnded | ChecksReported | None:
        """Return why it cannot be done at all, if so."""
        if work.is_begun:
            return None
        if not self.may_work:
            return _unable(work, "permission to work on nodes is missing; grant it with `muster kubernetes rbac`")
        if isinstance(work.effect.asked, NodeActionRequested):
            if work.way is None:
                return _unable(work, NO_WAY)
            image = work.way.image or self.policy.image
            return None if work.by_words or image else _unable(work, "no image is named (preflight.nodes.image)")
        return None if self.policy.image else _unable(work, "no image is named (preflight.nodes.image)")

    def _begin(self, work: _Work) -> None:
        """Begin a request; labels and annotations of a node serve one request at a time."""
        asked, node = work.effect.asked, self._nodes[work.effect.node]
        if work.by_words and work.way is not None and isinstance(asked, NodeActionRequested):
            if node.annotation(WORK_ANNOTATION) == asked.request_id:
                work.is_begun, work.boot = True, node.annotation(BOOT_ANNOTATION)
                self._dirty[work.key] = None
            elif not self._has_words(node.name):
                body = words_on_node(work.way, asked, boot=node.boot)
                self._worklist.ask(BeginWork(*work.key, node.boot), Merge(Kind.NODES, "", node.name, body))
            return
        if isinstance(asked, NodeActionRequested) and work.way is not None:
            body = action_job(self.policy, work.way, work.effect, asked, boot=node.boot)
        else:
            assert not isinstance(asked, NodeActionRequested), "an action without a way is an obstacle"
            body = checks_job(self.policy, work.effect, asked, gpus=self._gpus_of(node.name))
        call = Create(Kind.JOBS, self.policy.namespace, work.name, body, brief=True)
        self._worklist.ask(BeginWork(*work.key, node.boot), call)

    def _has_words(self, node: str) -> bool:
        """Return whether labels or annotations of Muster are on the node, being set or being removed.

        Calls of two purposes run concurrently: a removal could remove what was just set.
        """
        return self._worklist.asks(TakeWordsOff(node)) or any(
            one.by_words and (one.is_begun or self._worklist.asks(BeginWork(*one.key)))
            for one in self._open.values()
            if one.effect.node == node
        )

    def answered(self, purpose: WorkPurpose, outcome: Outcome, now: Instant) -> None:
        """Continue after a call; for an acknowledged request nothing is left to do."""
        match purpose:
            case BeginWork() if work := self._open.get((purpose.node, purpose.request_id)):
                self._was_begun(work, purpose.boot, outcome, now)
            case FindWork() if work := self._open.get((purpose.node, purpose.request_id)):
                self._was_found(work, outcome, now)
            case TakeWordsOff():
                self._look_at_node(purpose.node)

    def _was_begun(self, work: _Work, boot: str, outcome: Outcome, now: Instant) -> None:
        match outcome:
            case Done():
                work.is_begun, work.boot = True, boot
            case Refused(code=409, reason="AlreadyExists"):
                self._worklist.ask(FindWork(*work.key), Read(Kind.JOBS, self.policy.namespace, work.name))
            case Refused():
                self._end(work, now, _unable(work, outcome.message))
        self._dirty[work.key] = None

    def _was_found(self, work: _Work, outcome: Outcome, now: Instant) -> None:
        match outcome:
            case Done():
                work.is_begun = True
                work.boot = text(outcome.reply, "metadata", "annotations", BOOT_ANNOTATION)
            case Refused() if outcome.code != 404:
                self._end(work, now, _unable(work, outcome.message))
        self._dirty[work.key] = None

    # --- how it ends ---------------------------------------------------------------------------------------------

    def _judge(self, work: _Work, now: Instant) -> None:
        asked, way, node = work.effect.asked, work.way, self._nodes[work.effect.node]
        end = self._ends.get(work.name)
        if not isinstance(asked, NodeActionRequested):
            if end is not None:
                results = tuple(load(end.said or end.told, asked.checks, node=node.name))
                self._end(work, now, ChecksReported(request_id=asked.request_id, results=results))
            return
        assert way is not None, "an action without a way is not begun"
        ended = _by_words(work, way, asked, node) if work.by_words else _by_job(work, way, asked, node, end)
        if ended is not None:
            self._end(work, now, ended)

    def _late(self, work: _Work) -> NodeActionEnded | ChecksReported:
        words = f"not done within {work.effect.asked.limit_s:g} s"
        if isinstance(work.effect.asked, NodeActionRequested):
            return _action(work, ActionOutcome.FAILED, detail=words)
        return _unable(work, words)

    def _end(self, work: _Work, now: Instant, ended: NodeActionEnded | ChecksReported) -> None:
        if isinstance(ended, NodeActionEnded):
            took_s = max(0.0, seconds_between(work.effect.at, now))
            ended = ended.model_copy(update={"took_s": took_s})
        self._seen[work.key] = WorkSeen(*work.key, ended)


def _by_job(
    work: _Work, way: NodeActionSettings, asked: NodeActionRequested, node: NodeView, end: End | None
) -> NodeActionEnded | None:
    """Return the end of the action by its Job; an action that restarts the node ends with a new boot."""
    if way.restarts:
        return _restarted(work, node)
    if end is None:
        return None
    if not end.succeeded:
        detail = end.said or end.told or f"exit code {end.exit_code}"
        return _action(work, ActionOutcome.FAILED, detail=detail)
    lines = [line.removeprefix("version=") for line in end.said.splitlines() if line.startswith("version=")]
    return _action(work, ActionOutcome.DONE, version=lines[-1].strip() if lines else asked.version)


def _by_words(
    work: _Work, way: NodeActionSettings, asked: NodeActionRequested, node: NodeView
) -> NodeActionEnded | None:
    """Return the end by others' labels or annotations, which count once Muster's annotation is on the node."""
    if node.annotation(WORK_ANNOTATION) != asked.request_id:
        return None
    is_label = way.by == "label"
    if way.failed and _shows(way.failed, asked, node, labels=is_label):
        return _action(
            work, ActionOutcome.FAILED, detail=", ".join(f"{key}={value}" for key, value in way.failed.items())
        )
    if way.done and not _shows(way.done, asked, node, labels=is_label):
        return None
    if way.restarts:
        return _restarted(work, node)
    return _action(work, ActionOutcome.DONE, version=asked.version)


def _restarted(work: _Work, node: NodeView) -> NodeActionEnded | None:
    if node.ready and node.boot and node.boot != work.boot:
        asked = work.effect.asked
        version = asked.version if isinstance(asked, NodeActionRequested) else ""
        return _action(work, ActionOutcome.DONE, version=version)
    return None


def _shows(wanted: Mapping[str, str], asked: NodeActionRequested, node: NodeView, *, labels: bool) -> bool:
    found: Callable[[str], str] = node.label if labels else node.annotation
    return all(found(key) == filled(value, asked) for key, value in wanted.items())


def _action(work: _Work, outcome: ActionOutcome, *, detail: str = "", version: str = "") -> NodeActionEnded:
    return NodeActionEnded(
        request_id=work.effect.request_id, outcome=outcome, detail=detail[:1000], version=version[:200]
    )


def _unable(work: _Work, why: str) -> NodeActionEnded | ChecksReported:
    asked = work.effect.asked
    if isinstance(asked, NodeActionRequested):
        return _action(work, ActionOutcome.CANNOT_RUN, detail=why)
    results = tuple(cannot_run(asked.checks, node=work.effect.node, why=why))
    return ChecksReported(request_id=asked.request_id, results=results)
