"""Parse the metrics of an API server that the guard uses (Prometheus text format 0.0.4)."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

MIB = 2.0**20
NO_LIMIT = 2.0**62
"""GOMEMLIMIT is math.MaxInt64 where no limit is set."""
_FLOW = b"apiserver_flowcontrol_"
PREFIXES = (
    b"process_resident_memory_bytes",
    b"process_start_time_seconds",
    b"process_cpu_seconds_total",
    b"go_gc_gogc_percent",
    b"go_gc_gomemlimit_bytes",
    b"go_memstats_heap_alloc_bytes",
    b"go_memstats_next_gc_bytes",
    b"kubernetes_build_info",
    b"apiserver_current_inflight_requests",
    b"apiserver_longrunning_requests",
    b"apiserver_request_total",
    b"apiserver_resource_objects",
    b"apiserver_resource_size_estimate_bytes",
    *(
        _FLOW + name
        for name in (
            b"nominal_limit_seats", b"upper_limit_seats", b"current_executing_requests", b"current_inqueue_requests",
            b"rejected_requests_total", b"dispatched_requests_total", b"request_wait_duration_seconds_bucket",
        )
    ),
)  # fmt: skip
"""Prefixes of the lines that are read; a page has 1.6 MB, most of it histograms."""
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_WAITS = "apiserver_flowcontrol_request_wait_duration_seconds_bucket"


@dataclass(frozen=True, slots=True)
class Page:
    """The metrics of one page. Resources are titles ("secrets", "jobs.batch"); counters begin with the process."""

    rss_bytes: float = 0.0
    started_at_s: float = 0.0
    cpu_s: float = 0.0
    gogc: int | None = None
    """None where the page does not show it."""
    memory_limit_bytes: float | None = None
    heap_bytes: float = 0.0
    heap_goal_bytes: float = 0.0
    version: str = ""
    reading: int = 0
    writing: int = 0
    watches: Mapping[str, int] = field(default_factory=dict)
    requests: float = 0.0
    lists: Mapping[str, float] = field(default_factory=dict)
    """Answered LISTs, including a kubelet's LISTs of one object by a field selector."""
    objects: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    """Estimated size of the stored objects."""
    seats: Mapping[str, int] = field(default_factory=dict)
    upper_seats: Mapping[str, int] = field(default_factory=dict)
    executing: Mapping[str, float] = field(default_factory=dict)
    queued: Mapping[str, float] = field(default_factory=dict)
    rejected: Mapping[str, float] = field(default_factory=dict)
    dispatched: Mapping[str, float] = field(default_factory=dict)
    waits: Mapping[tuple[str, float], float] = field(default_factory=dict)
    """By (level, bucket in seconds), cumulative over buckets as in Prometheus."""


def sample_of(line: bytes) -> tuple[str, dict[str, str], float] | None:
    """Return name, labels and value of one line; None for a comment or an invalid line."""
    text = line.decode(errors="replace").strip()
    if not text or text.startswith("#"):
        return None
    name, brace, rest = text.partition("{")
    labels: dict[str, str] = {}
    if brace:
        inside, _, number = rest.rpartition("}")
        labels = dict(_LABEL.findall(inside))
    else:
        name, _, number = text.partition(" ")
    try:
        return name, labels, float(number.split()[0])
    except (ValueError, IndexError):
        return None


class PageReader:
    """Reads the lines of one page as they arrive, and keeps only sums."""

    def __init__(self) -> None:
        self._single: dict[str, float] = {}
        self._version = ""
        self._inflight: Counter[str] = Counter()
        self._watches: Counter[str] = Counter()
        self._lists: dict[str, float] = defaultdict(float)
        self._requests = 0.0
        self._waits: dict[tuple[str, float], float] = defaultdict(float)
        self._by_resource: dict[str, dict[str, float]] = {}
        self._by_level: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def feed(self, lines: Iterable[bytes]) -> None:
        """Read more lines."""
        for line in lines:
            if line.startswith(PREFIXES) and (found := sample_of(line)) is not None:
                self._take(*found)

    def _take(self, name: str, labels: dict[str, str], value: float) -> None:
        if not math.isfinite(value):
            return
        if name == _WAITS:
            if (bound := _bound(labels.get("le", ""))) is not None:
                self._waits[labels.get("priority_level", ""), bound] += value
        elif name.startswith("apiserver_flowcontrol_"):
            self._by_level[name][labels.get("priority_level", "")] += value
        elif name == "apiserver_request_total":
            self._requests += value
            if labels.get("verb") == "LIST":
                self._lists[_title(labels)] += value
        elif name == "apiserver_longrunning_requests":
            if labels.get("verb") == "WATCH":
                self._watches[_title(labels)] += int(value)
        elif name == "apiserver_current_inflight_requests":
            self._inflight[labels.get("request_kind", "")] += int(value)
        elif name == "kubernetes_build_info":
            self._version = labels.get("git_version", "")
        elif name in ("apiserver_resource_objects", "apiserver_resource_size_estimate_bytes"):
            self._by_resource.setdefault(name, {})[_title(labels)] = value
        else:
            self._single[name] = value

    def page(self) -> Page:
        """Return the page read so far."""
        single, flow = self._single, self._flow
        gogc, limit = single.get("go_gc_gogc_percent"), single.get("go_gc_gomemlimit_bytes", NO_LIMIT)
        return Page(
            rss_bytes=single.get("process_resident_memory_bytes", 0.0),
            started_at_s=single.get("process_start_time_seconds", 0.0),
            cpu_s=single.get("process_cpu_seconds_total", 0.0),
            gogc=None if gogc is None else int(gogc),
            memory_limit_bytes=None if limit >= NO_LIMIT else limit,
            heap_bytes=single.get("go_memstats_heap_alloc_bytes", 0.0),
            heap_goal_bytes=single.get("go_memstats_next_gc_bytes", 0.0),
            version=self._version,
            reading=self._inflight["readOnly"],
            writing=self._inflight["mutating"],
            watches={name: number for name, number in self._watches.items() if number},
            requests=self._requests,
            lists=dict(self._lists),
            objects=self._by_resource.get("apiserver_resource_objects", {}),
            sizes=self._by_resource.get("apiserver_resource_size_estimate_bytes", {}),
            seats={name: int(value) for name, value in flow("nominal_limit_seats").items()},
            upper_seats={name: int(value) for name, value in flow("upper_limit_seats").items()},
            executing=flow("current_executing_requests"),
            queued=flow("current_inqueue_requests"),
            rejected=flow("rejected_requests_total"),
            dispatched=flow("dispatched_requests_total"),
            waits=dict(self._waits),
        )

    def _flow(self, name: str) -> dict[str, float]:
        return dict(self._by_level.get(f"apiserver_flowcontrol_{name}", {}))


def page_of(lines: Iterable[bytes]) -> Page:
    """Parse a whole page at once."""
    reader = PageReader()
    reader.feed(lines)
    return reader.page()


def _bound(words: str) -> float | None:
    try:
        return float(words)
    except ValueError:
        return None


def _title(labels: Mapping[str, str]) -> str:
    group, resource = labels.get("group", ""), labels.get("resource", "")
    return f"{resource}.{group}" if group else resource


K = TypeVar("K")
MINUTE_S = 60.0


def per_minute(
    before: Mapping[K, float], after: Mapping[K, float], *, seconds: float, restarted: bool
) -> dict[K, float]:
    """Return the growth of counters per minute; those of a restarted process began at 0. Only growing ones."""
    if seconds <= 0:
        return {}
    grown = ((key, value - (0.0 if restarted else before.get(key, 0.0))) for key, value in after.items())
    return {key: more * MINUTE_S / seconds for key, more in grown if more > 0}


def quantile_s(buckets: Mapping[tuple[str, float], float], part: float = 0.99) -> dict[str, float]:
    """Return by level the bucket in seconds below which `part` of its requests waited; the last finite bucket for
    "more".

    `buckets` holds the growth of each (level, bound), cumulative over bounds.
    """
    by_level: dict[str, list[tuple[float, float]]] = {}
    for (level, bound), number in buckets.items():
        by_level.setdefault(level, []).append((bound, number))
    found = {}
    for level, rows in by_level.items():
        rows.sort()
        wanted = rows[-1][1] * part
        finite = [bound for bound, _ in rows if bound != inf]
        bound = next(bound for bound, number in rows if number >= wanted)
        found[level] = bound if bound != inf else max(finite, default=0.0)
    return found


def has_restarted(before: Page, after: Page) -> bool:
    """Return whether another process answers at the address; start times have a resolution of 0.01 s."""
    return abs(before.started_at_s - after.started_at_s) > 1.0
