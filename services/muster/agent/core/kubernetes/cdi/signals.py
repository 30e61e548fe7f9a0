"""Requests of the Cluster Autoscaler, read from its traces: taints, events, and its status ConfigMap.

| trace | signal |
|---|---|
| pod event TriggeredScaleUp; a MachineSet that another client raised | `node-wanted` of the group |
| pod event NotTriggerScaleUp, FailedToScaleUpGroup; a group in backoff by the ConfigMap | `node-refused` |
| taint DeletionCandidateOfClusterAutoscaler or ToBeDeletedByClusterAutoscaler | `node-unneeded` |
| node event ScaleDownFailed, while that taint stands | `removal-blocked` |

A signal stays in the log until it is replaced, or `settled` because no trace is left. Events lapse.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from muster.agent.core.cluster import WordSeen
from muster.agent.core.kubernetes.cdi.machine_sets import Drift
from muster.agent.core.kubernetes.resources import instant
from muster.agent.core.kubernetes.views import NodeView
from muster.core import Instant, after
from muster.core.yaml_text import YamlLimits, YamlTextError, yaml_value
from muster.kube.objects import JsonObject, mapping, objects, text
from muster.schemas.facts.scale import AutoscalerSignal

EVENT_S = 600.0
"""How long an event counts: the Cluster Autoscaler repeats it in every scan."""
EVENTS_MAX = 2_048
"""Events that are kept; beyond it the oldest are dropped."""
JOBS_MAX = 256
STATUS_LIMITS = YamlLimits(characters=1024 * 1024)
"""Jobs of one signal."""
WORDS_MAX = 512
"""Length of a reason."""
KIND = "autoscaler"
ANY_GROUP = "any-group"
"""Subject of signals without a group."""

TRIGGERED, NOT_TRIGGERED, FAILED_UP = "TriggeredScaleUp", "NotTriggerScaleUp", "FailedToScaleUpGroup"
FAILED_DOWN = "ScaleDownFailed"
REASONS = (TRIGGERED, NOT_TRIGGERED, FAILED_UP, FAILED_DOWN)
WANTED, REFUSED, UNNEEDED, BLOCKED, SETTLED = (
    "node-wanted", "node-refused", "node-unneeded", "removal-blocked", "settled",
)  # fmt: skip

JobOf = Callable[[str, str], str]
"""Return the job of the pod (namespace, name); "" for a foreign pod."""


@dataclass(frozen=True, slots=True)
class EventView:
    """One event of the autoscaler; `at` is its last occurrence."""

    uid: str
    reason: str
    kind: str
    namespace: str
    name: str
    message: str
    at: Instant


def project_event(raw: JsonObject) -> EventView | None:
    """Project an event; None for events of others."""
    if text(raw, "reason") not in REASONS:
        return None
    about = "involvedObject"
    said = text(raw, "lastTimestamp") or text(raw, "eventTime") or text(raw, "metadata", "creationTimestamp")
    return EventView(
        uid=text(raw, "metadata", "uid"),
        reason=text(raw, "reason"),
        kind=text(raw, about, "kind"),
        namespace=text(raw, about, "namespace"),
        name=text(raw, about, "name"),
        message=text(raw, "message")[:WORDS_MAX],
        at=instant(said),
    )


@dataclass(slots=True)
class _Wanted:
    """The jobs and the newest reason of one subject and signal."""

    jobs: dict[str, None] = field(default_factory=dict)
    reason: str = ""

    def add(self, jobs: Iterable[str], reason: str) -> None:
        self.jobs.update(dict.fromkeys(job for job in jobs if job))
        self.reason = reason or self.reason


class Signals:
    """Signals of the Cluster Autoscaler. `sets` maps node groups to MachineSets; `job_of` finds the job of a pod."""

    def __init__(self, sets: Mapping[str, str], job_of: JobOf = lambda *_: "") -> None:
        self.job_of = job_of
        self._sets = sets
        self._told: dict[str, dict[str, AutoscalerSignal]] = {}  # as the log has it
        self._nodes: dict[str, tuple[str, str]] = {}  # taint, node group
        self._events: dict[str, EventView] = {}
        self._backoffs: Mapping[str, str] = {}
        self._drifts: tuple[Drift, ...] = ()
        self._news: list[WordSeen] = []
        self._is_synced = False
        self._is_dirty = True
        self._lapses_at: Instant | None = None

    # --- traces ------------------------------------------------------------------------------------------------

    def node_seen(self, view: NodeView, group: str) -> None:
        """Handle a new state of a node."""
        if view.unneeded and self._nodes.get(view.name) != (view.unneeded, group):
            self._nodes[view.name], self._is_dirty = (view.unneeded, group), True
        elif not view.unneeded:
            self.node_gone(view.name)

    def node_gone(self, name: str) -> None:
        """Handle a deleted node."""
        if self._nodes.pop(name, None) is not None:
            self._is_dirty = True

    def event_seen(self, view: EventView) -> None:
        """Handle an event of the autoscaler."""
        self._events[view.uid] = view
        if len(self._events) > EVENTS_MAX:
            del self._events[min(self._events, key=lambda uid: self._events[uid].at)]
        self._is_dirty = True

    def backoffs_seen(self, backoffs: Mapping[str, str]) -> None:
        """Handle groups in backoff, by the autoscaler's name, with reasons."""
        if dict(self._backoffs) != dict(backoffs):
            self._backoffs, self._is_dirty = dict(backoffs), True

    def drifts_seen(self, drifts: tuple[Drift, ...]) -> None:
        """Handle MachineSets that others changed."""
        if self._drifts != drifts:
            self._drifts, self._is_dirty = drifts, True

    def synced(self) -> None:
        """Record that all nodes and events were seen."""
        self._is_synced = self._is_dirty = True

    def reset(self) -> None:
        """Forget what was seen, because another process leads; what the log has stays."""
        self._nodes.clear()
        self._events.clear()
        self._news.clear()
        self._backoffs, self._drifts, self._is_synced, self._lapses_at = {}, (), False, None

    # --- what follows ------------------------------------------------------------------------------------------

    def acknowledge(self, seen: WordSeen) -> None:
        """Record that the log has a signal."""
        assert isinstance(seen.payload, AutoscalerSignal)
        told = self._told.setdefault(seen.subject, {})
        for word in _REPLACED[seen.name]:
            told.pop(word, None)
        if seen.name != SETTLED:
            told[seen.name] = seen.payload
        if not told:
            del self._told[seen.subject]
        self._is_dirty = True

    def observations(self) -> Iterator[WordSeen]:
        """Yield signals that the log lacks, as of the last `settle`."""
        yield from self._news

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to report."""
        return bool(self._news)

    def next_change(self) -> Instant | None:
        """Return when the next event expires."""
        return self._lapses_at

    def settle(self, now: Instant) -> None:
        """Evaluate all sources if one changed or expired."""
        if self._lapses_at is not None and now >= self._lapses_at:
            self._is_dirty = True
        if not self._is_dirty or not self._is_synced:
            return
        self._is_dirty = False
        self._lapse(now)
        wanted = self._wanted()
        self._news = list(self._differences(wanted))

    def _lapse(self, now: Instant) -> None:
        self._events = {uid: view for uid, view in self._events.items() if now < after(view.at, EVENT_S)}
        self._lapses_at = min((after(view.at, EVENT_S) for view in self._events.values()), default=None)

    def _wanted(self) -> dict[str, dict[str, AutoscalerSignal]]:
        """Return the current signals by subject and name."""
        groups: dict[tuple[str, str], _Wanted] = {}
        blocked: dict[str, str] = {}
        for view in sorted(self._events.values(), key=lambda view: (view.at, view.uid)):
            self._read(view, groups, blocked)
        for drift in self._drifts:
            if drift.now > drift.was:
                words = f"MachineSet {drift.set_name} was scaled from {drift.was} to {drift.now}"
                groups.setdefault((drift.group, WANTED), _Wanted()).add((), words)
        for name, reason in self._backoffs.items():
            group = self._group_in(name)
            known = groups.pop((group, WANTED), None)
            groups.setdefault((group, REFUSED), _Wanted()).add(known.jobs if known else (), reason)
        found: dict[str, dict[str, AutoscalerSignal]] = {}
        for (group, word), one in groups.items():
            jobs = tuple(one.jobs)[:JOBS_MAX]
            signal = AutoscalerSignal(group="" if group == ANY_GROUP else group, jobs=jobs, reason=one.reason)
            found.setdefault(group, {})[word] = signal
        for node, (taint, group) in self._nodes.items():
            if node in blocked:
                found[node] = {BLOCKED: AutoscalerSignal(group=group, node=node, reason=blocked[node])}
            else:
                found[node] = {UNNEEDED: AutoscalerSignal(group=group, node=node, reason=f"taint {taint}")}
        return found

    def _read(self, view: EventView, groups: dict[tuple[str, str], _Wanted], blocked: dict[str, str]) -> None:
        """Add one event, in order. Wanted and refused nodes of one group replace each other."""
        if view.reason == FAILED_DOWN:
            if view.kind == "Node":
                blocked[view.name] = view.message
            return
        job = self.job_of(view.namespace, view.name) if view.kind == "Pod" else ""
        group = self._group_in(view.message)
        word = WANTED if view.reason == TRIGGERED else REFUSED
        if view.reason != FAILED_UP:
            for (other, opposite), one in tuple(groups.items()):
                if opposite != word and (group in (other, ANY_GROUP) or other == ANY_GROUP) and job in one.jobs:
                    del one.jobs[job]
                    if not one.jobs:
                        del groups[other, opposite]
        if job or view.reason == FAILED_UP:
            groups.setdefault((group, word), _Wanted()).add((job,), view.message)

    def _group_in(self, words: str) -> str:
        """Return the node group whose MachineSet the text names."""
        found = [group for group, name in self._sets.items() if name in words]
        return max(found, key=lambda group: len(self._sets[group]), default=ANY_GROUP)

    def _differences(self, wanted: Mapping[str, Mapping[str, AutoscalerSignal]]) -> Iterator[WordSeen]:
        for subject, told in self._told.items():
            words = wanted.get(subject, {})
            if _left_over(told, words):  # other signals that remain are reported again after it
                first = next(iter(told.values()))
                yield _word(subject, SETTLED, AutoscalerSignal(group=first.group, node=first.node))
        for subject, words in wanted.items():
            told = self._told.get(subject, {})
            for word, signal in words.items() if not _left_over(told, words) else ():
                if word not in told or _meaning(told[word]) != _meaning(signal):
                    yield _word(subject, word, signal)


_REPLACED = {
    WANTED: (),
    REFUSED: (),
    UNNEEDED: (BLOCKED,),
    BLOCKED: (UNNEEDED,),
    SETTLED: (WANTED, REFUSED, UNNEEDED, BLOCKED),
}


def _left_over(told: Mapping[str, AutoscalerSignal], words: Mapping[str, AutoscalerSignal]) -> bool:
    """Return whether a signal must be settled: it is gone, and no other replaces it."""
    replaced = {old for word in words for old in _REPLACED[word]}
    return not told.keys() <= words.keys() | replaced


def _word(subject: str, word: str, signal: AutoscalerSignal) -> WordSeen:
    return WordSeen(KIND, subject, word, signal)


def _meaning(signal: AutoscalerSignal) -> tuple[str, str, frozenset[str]]:
    """Return the signal without its reason, which changes with every scan."""
    return signal.group, signal.node, frozenset(signal.jobs)


def backoffs_in(status: str) -> dict[str, str]:
    """Return the groups in backoff by the autoscaler's name, with reasons, from its status (YAML); {} if invalid."""
    try:
        told = yaml_value(status, STATUS_LIMITS)
    except YamlTextError:
        return {}
    found: dict[str, str] = {}
    for group in objects(told, "nodeGroups"):
        if text(group, "scaleUp", "status") == "Backoff":
            why = mapping(group, "scaleUp", "backoffInfo")
            found[text(group, "name")] = (text(why, "errorMessage") or text(why, "errorCode") or "backoff")[:WORDS_MAX]
    return found
