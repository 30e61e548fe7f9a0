"""Definition of events and of their messages; `catalogue.py` lists them. Pure.

A new event is a new row: its facts, a function for its body, and one for its chat text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from muster.core.fact import Fact
from muster.core.instant import NS_PER_S
from muster.notifier.story import JobStory
from muster.schemas.base import Payload
from muster.schemas.registry import TABLE, FactType, StreamRole
from muster.schemas.webhooks import (
    CampaignTold,
    ClusterChanged,
    HardwareChanged,
    JobEnded,
    JobFaulted,
    ScaleDecided,
    Trial,
)

EventBody = JobEnded | ScaleDecided | HardwareChanged | JobFaulted | CampaignTold | ClusterChanged
Body = EventBody | Trial
Sent = TypeVar("Sent", bound=EventBody)
Told = TypeVar("Told", bound=Payload)


def span(seconds: float) -> str:
    """Return a duration as text: `850 ms`, `42 s`, `3 min 20 s`, `5 h 7 min`, `2 d 3 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    whole = round(seconds)
    for size, name, smaller, smaller_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name} {rest} {smaller_name}" if rest else f"{whole // size} {name}"
    return f"{whole} s"


@dataclass(frozen=True, slots=True)
class EventSource:
    """The fact of an event, and further data for its message."""

    fact: Fact
    jobs: Mapping[str, JobStory] = field(default_factory=dict)
    """Known jobs of the fact, by id."""
    teams: frozenset[str] = frozenset()
    """Recipients of the message; empty for all."""
    dashboard_url: str = ""
    """"" if there is no dashboard."""
    foreign: frozenset[str] = frozenset()
    """Jobs that were not given to the fact's cluster; the message does not mention them."""

    @property
    def trace(self) -> str:
        """Return the traceparent of the event: of a job's fact within the job's own trace, whatever the fact says."""
        story = self.jobs.get(self.fact.subject_id)
        if story is None or not story.trace or trace_id(story.trace) == trace_id(self.fact.trace):
            return self.fact.trace
        return story.trace

    def url(self, path: str) -> str:
        """Return the URL of a page of the dashboard, "" without an address."""
        return f"{self.dashboard_url.rstrip('/')}{path}" if self.dashboard_url else ""


def payload_of(fact: Fact, payload: type[Told]) -> Told:
    """Return the body of a fact that an event's rows have chosen."""
    assert isinstance(fact.payload, payload), f"{fact.name} has no {payload.__name__}"
    return fact.payload


@dataclass(frozen=True, slots=True)
class ChatText:
    """A chat message. mood: good, bad or plain. lines: name and value; a line without a value is not shown."""

    title: str
    mood: str = "plain"
    lines: tuple[tuple[str, str], ...] = ()
    text: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class EventType(Generic[Sent]):
    """One event. what: description for the documents. facts: rows of the table of facts, any of which makes it.

    body: the message to a receiver. words: title, mood and lines of the chat message. jobs: ids of the jobs of a
    fact: their teams are the recipients. whole: whether the message describes how the jobs ran.
    """

    name: str
    what: str
    facts: tuple[FactType, ...]
    body: Callable[[EventSource], Sent]
    words: Callable[[Sent], ChatText]
    jobs: Callable[[Fact], tuple[str, ...]] = lambda _: ()
    whole: bool = False

    def chat(self, source: EventSource) -> ChatText:
        """Return the message for people, with the reason and the address of the body."""
        body = self.body(source)
        return replace(self.words(body), text=body.reason, url=body.url)

    def is_made_by(self, fact: Fact) -> bool:
        """Return whether this fact makes the event."""
        return any((row.kind, row.name, row.writer) == (fact.kind, fact.name, fact.writer) for row in self.facts)


AnyEvent = EventType[Any]


def rows(stream: StreamRole, writer: str, kind: str, *names: str) -> tuple[FactType, ...]:
    """Return rows of the table of facts. Raises KeyError for an unknown row."""
    known = {(row.stream, row.writer, row.kind, row.name): row for row in TABLE}
    return tuple(known[stream, writer, kind, name] for name in names)


def rfc3339(time_ns: int) -> str:
    """Return a time as text, in UTC, to the millisecond; "" for 0."""
    if not time_ns:
        return ""
    seconds, rest = divmod(time_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"


def trace_id(traceparent: str) -> str:
    """Return the trace id of a W3C traceparent, 32 hex digits; "" if there is none."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 else ""
