"""Build the tree of one job's facts: causes, services and durations. Pure.

Facts of other kinds with the trace of the job are included: actions of scaler, composer and fabric for the job.

The submission is the root. The parent of a fact is its newest cause; other causes are links. A fact without a cause
among the job's facts (a lost node, a request of an operator) is under the newest earlier fact of the job, marked as not
caused by it. A fact that JetStream sourced into a second stream keeps its id and is one fact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster.core.instant import seconds_between
from muster.schemas.ids import span_id
from muster.schemas.views import FactView

JOB = "job"
TERMINAL = frozenset({"succeeded", "failed", "cancelled", "timed-out"})

ATTACHMENT = "attachment"
ALIKE_MAX = 2  # devices that were attached for the same reason are shown one by one up to so many


@dataclass(frozen=True, slots=True)
class Span:
    """One fact in the tree. parent: id of the parent fact, "" for the root.

    caused: the parent is among the fact's causes. links: its other causes. after_parent_s, since_start_s: seconds.
    streams: where it is stored, in the order of storing. depth: 0 for the root.
    """

    id: str
    span: str
    parent: str
    caused: bool
    links: tuple[str, ...]
    service: str
    kind: str
    name: str
    subject_id: str
    streams: tuple[str, ...]
    time: int
    after_parent_s: float
    since_start_s: float
    depth: int
    body: str


@dataclass(frozen=True, slots=True)
class JobTrace:
    """The trace of a job. spans: depth first, as drawn. services: in order of their first fact.

    total_s: from submission to the newest terminal fact, or to the newest fact of a live job (`finished` is false).
    """

    job_id: str
    trace_id: str
    services: tuple[str, ...]
    finished: bool
    total_s: float
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class _Stored:
    fact: FactView
    streams: tuple[str, ...]


def build(job_id: str, facts: Iterable[FactView]) -> JobTrace:
    """Return the trace of one job from its facts, in any order; without facts an empty trace."""
    stored = _in_order(facts)
    if not stored:
        return JobTrace(job_id, "", (), finished=False, total_s=0.0, spans=())
    parents = _parents(stored)
    start = stored[0].fact.time
    ends = [item.fact.time for item in stored if item.fact.kind == JOB and item.fact.name in TERMINAL]
    end = max(ends) if ends else stored[-1].fact.time
    return JobTrace(
        job_id=job_id,
        trace_id=_trace_id(stored),
        services=tuple(dict.fromkeys(item.fact.writer for item in stored)),
        finished=bool(ends),
        total_s=seconds_between(start, end),
        spans=tuple(_drawn(stored, parents)),
    )


def _in_order(facts: Iterable[FactView]) -> list[_Stored]:
    """Return each fact once, by time, and by sequence within a stream."""
    by_id: dict[str, _Stored] = {}
    for fact in sorted(facts, key=lambda fact: (fact.time, fact.seq)):
        known = by_id.get(fact.id)
        if known is None:
            by_id[fact.id] = _Stored(fact, (fact.stream,))
        elif fact.stream not in known.streams:
            by_id[fact.id] = _Stored(known.fact, (*known.streams, fact.stream))
    return list(by_id.values())


def _parents(stored: Sequence[_Stored]) -> dict[str, tuple[str, bool]]:
    """Return the parent of each fact except the root, and whether the parent caused it. Parents are earlier."""
    at = {item.fact.id: index for index, item in enumerate(stored)}
    parents: dict[str, tuple[str, bool]] = {}
    for index, item in enumerate(stored[1:], start=1):
        earlier = [at[cause] for cause in item.fact.causes if at.get(cause, index) < index]
        parent = stored[max(earlier)] if earlier else stored[index - 1]
        parents[item.fact.id] = (parent.fact.id, bool(earlier))
    return parents


def _drawn(stored: Sequence[_Stored], parents: dict[str, tuple[str, bool]]) -> Iterable[Span]:
    """Walk depth first with an explicit stack: the tree of a job with 1,000 attempts is 1,000 deep."""
    by_id = {item.fact.id: item for item in stored}
    children: dict[str, list[_Stored]] = {}
    for item in stored[1:]:
        children.setdefault(parents[item.fact.id][0], []).append(item)
    start = stored[0].fact.time
    waiting = [(stored[0], 0)]
    while waiting:
        item, depth = waiting.pop()
        parent, caused = parents.get(item.fact.id, ("", False))
        before = by_id[parent].fact.time if parent else item.fact.time
        fact = item.fact
        yield Span(
            id=fact.id,
            span=span_id(fact.id),
            parent=parent,
            caused=caused,
            links=tuple(cause for cause in fact.causes if cause != parent),
            service=fact.writer,
            kind=fact.kind,
            name=fact.name,
            subject_id=fact.subject_id,
            streams=item.streams,
            time=fact.time,
            after_parent_s=seconds_between(before, fact.time),
            since_start_s=seconds_between(start, fact.time),
            depth=depth,
            body=fact.body,
        )
        waiting.extend((child, depth + 1) for child in reversed(children.get(fact.id, [])))


def _trace_id(stored: Sequence[_Stored]) -> str:
    """Return the trace id of the first fact that has a W3C traceparent."""
    for item in stored:
        parts = item.fact.trace.split("-")
        if len(parts) == 4:
            return parts[1]
    return ""


@dataclass(frozen=True, slots=True)
class Shown:
    """Spans to draw, depth first. alike: number of similar devices, by the first span of the device that is drawn."""

    spans: tuple[Span, ...]
    alike: Mapping[str, int]


def without_repeats(spans: Sequence[Span]) -> Shown:
    """Omit devices under the same fact as another one, if below them are only their own facts.

    The device with the latest fact is kept, since the job waited for it.
    """
    first, last_at, alone = dict[str, Span](), dict[str, int](), dict[str, bool]()
    above = {span.id: span for span in spans}
    for span in spans:
        owner = _device(span)
        parent = _device(above[span.parent]) if span.parent in above else ""
        if parent and parent != owner:
            alone[parent] = False  # something else follows from it
        if owner and parent != owner:
            alone[owner] = owner not in first
            first.setdefault(owner, span)
        if owner:
            last_at[owner] = max(span.time, last_at.get(owner, 0))
    groups: dict[tuple[str, str], list[str]] = {}
    for owner, span in first.items():
        groups.setdefault((span.parent, span.name), []).append(owner)
    left_out, alike = set[str](), dict[str, int]()
    for owners in groups.values():
        slowest = max(owners, key=lambda owner: (last_at[owner], owner))
        others = [owner for owner in owners if owner != slowest and alone[owner]]
        if len(owners) > ALIKE_MAX and others:
            left_out.update(others)
            alike[first[slowest].id] = len(others)
    return Shown(tuple(span for span in spans if _device(span) not in left_out), alike)


def _device(span: Span) -> str:
    return span.subject_id if span.kind == ATTACHMENT else ""
