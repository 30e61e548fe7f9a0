"""Report of a simulated load: JSON, jobs.csv, and the data of the charts."""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from muster.core import Instant
from muster.core.instant import seconds_between
from muster.simulator.engine import START
from muster.simulator.load.play import Played
from muster.simulator.load.recorder import JobTrack, Sample

GROUPS_MAX = 8
"""Maximum number of groups in a chart; further queues are drawn together, by their parent or as one."""
OTHERS = "others"
SIZES = (
    (0, "no GPU"), (999, "a share"), (1000, "1 GPU"), (4000, "2 to 4"), (8000, "5 to 8"), (64_000, "9 to 64"),
    (1 << 62, "65 and more"),
)  # fmt: skip
"""Sizes of jobs by GPUs: (at most so many milli-GPUs, name)."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Time until the first placement of jobs, in seconds. waiting: never placed; not in the other numbers."""

    of: str
    jobs: int
    waiting: int
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Point:
    """State `hours` after the start. held, waiting: GPUs by group of queues. index: Jain's index of the holds of the
    groups with demand, 1 when all are equal. preemptions, lost_gpu_h: so far."""

    hours: float
    allocated_pct: float
    held: dict[str, float]
    waiting: float
    index: float
    fragmentation_pct: float
    preemptions: int
    lost_gpu_h: float


@dataclass(frozen=True, slots=True)
class Report:
    """One load under one policy."""

    load: str
    policy: str
    gpus: float
    jobs: int
    virtual_s: float
    facts: int
    ended: dict[str, int]
    utilisation_pct: float
    used_gpu_h: float
    lost_gpu_h: float
    preemptions: int
    node_losses: int
    by_queue: tuple[Wait, ...]
    by_size: tuple[Wait, ...]
    points: tuple[Point, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Numbers rounded to what they mean."""
        return {
            "load": self.load,
            "policy": self.policy,
            "gpus": self.gpus,
            "jobs": self.jobs,
            "virtual_s": round(self.virtual_s, 3),
            "facts": self.facts,
            "ended": dict(self.ended),
            "utilisation_pct": round(self.utilisation_pct, 3),
            "used_gpu_h": round(self.used_gpu_h, 3),
            "lost_gpu_h": round(self.lost_gpu_h, 3),
            "preemptions": self.preemptions,
            "node_losses": self.node_losses,
            "wait_by_queue": [_wait_json(wait, "queue") for wait in self.by_queue],
            "wait_by_size": [_wait_json(wait, "size") for wait in self.by_size],
            "over_time": [_point_json(point) for point in self.points],
        }


def report_of(played: Played, *, policy: str) -> Report:
    """Return the report of one run."""
    recorder = played.recorder
    tracks = tuple(recorder.tracks.values())
    groups = grouping(recorder.parents, tracks)
    capacity_gpu_h = _integral(recorder.samples, played.ended_at)
    used = sum(track.gpu_h for track in tracks)
    ended = Counter(track.ended or ("running" if track.held_milli else "waiting") for track in tracks)
    last = recorder.samples[-1].capacity / 1000 if recorder.samples else 0.0
    return Report(
        load=played.load.name,
        policy=policy,
        gpus=last,
        jobs=len(tracks),
        virtual_s=played.virtual_s,
        facts=played.facts,
        ended=dict(sorted(ended.items())),
        utilisation_pct=100 * used / capacity_gpu_h if capacity_gpu_h else 0.0,
        used_gpu_h=used,
        lost_gpu_h=recorder.lost_gpu_h,
        preemptions=recorder.preemptions,
        node_losses=recorder.node_losses,
        by_queue=_waits(tracks, lambda track: track.queue, sorted({track.queue for track in tracks}), played.ended_at),
        by_size=_waits(tracks, size_of, [name for _, name in SIZES], played.ended_at),
        points=tuple(_point(sample, groups) for sample in recorder.samples if sample.at <= played.ended_at),
    )


def size_of(track: JobTrack) -> str:
    """Return the size class of a job."""
    return next(name for most, name in SIZES if track.gpu_milli <= most)


def grouping(parents: Mapping[str, str | None], tracks: Iterable[JobTrack]) -> dict[str, str]:
    """Return the group of each queue: at the deepest level of the tree with at most GROUPS_MAX queues."""
    used = Counter[str]()
    for track in tracks:
        used[track.queue] += max(1, round(track.gpu_h))
    paths = {queue: _path(queue, parents) for queue in used}
    for level in range(max(map(len, paths.values()), default=1) - 1, -1, -1):
        groups = {queue: path[min(level, len(path) - 1)] for queue, path in paths.items()}
        if len(set(groups.values())) <= GROUPS_MAX:
            return groups
    kept = {queue for queue, _ in used.most_common(GROUPS_MAX - 1)}
    return {queue: queue if queue in kept else OTHERS for queue in used}


def _path(queue: str, parents: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the path from the root down to the queue."""
    path = [queue]
    while (above := parents.get(path[-1])) is not None and above not in path:
        path.append(above)
    return tuple(reversed(path))


def _waits(
    tracks: Sequence[JobTrack], key: Callable[[JobTrack], str], names: Iterable[str], now: Instant
) -> tuple[Wait, ...]:
    by_key: dict[str, list[JobTrack]] = defaultdict(list)
    for track in tracks:
        by_key[key(track)].append(track)
    rows = []
    for name in names:
        members = by_key.get(name, [])
        waits = sorted(track.wait_s(now) for track in members if track.placed_at)
        if not members:
            continue
        mean = sum(waits) / len(waits) if waits else 0.0
        quantiles = [_quantile(waits, share) for share in (0.5, 0.9, 0.99, 1.0)]
        rows.append(Wait(name, len(members), len(members) - len(waits), mean, *quantiles))
    return tuple(rows)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the least value that at least this share of the values does not exceed; 0 without values."""
    if not ordered:
        return 0.0
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def _point(sample: Sample, groups: Mapping[str, str]) -> Point:
    held: dict[str, float] = dict.fromkeys(sorted(set(groups.values())), 0.0)
    wanting: set[str] = set()
    for queue, milli in sample.held.items():
        group = groups.get(queue, OTHERS)
        held[group] = held.get(group, 0.0) + milli / 1000
    for amounts in (sample.held, sample.waiting):
        wanting |= {groups.get(queue, OTHERS) for queue, milli in amounts.items() if milli}
    total = sum(sample.held.values())
    return Point(
        hours=seconds_between(START, sample.at) / 3600,
        allocated_pct=100 * total / sample.capacity if sample.capacity else 0.0,
        held=held,
        waiting=sum(sample.waiting.values()) / 1000,
        index=jain([held.get(group, 0.0) for group in wanting]),
        fragmentation_pct=100 * sample.fragmentation,
        preemptions=sample.preemptions,
        lost_gpu_h=sample.lost_gpu_h,
    )


def jain(amounts: Sequence[float]) -> float:
    """Return Jain's fairness index: 1 if all are equal, 1/n if one has everything; 1 if all are 0."""
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


def _integral(samples: Sequence[Sample], end: Instant) -> float:
    """Return the GPU hours of the fleet."""
    ends = [*(sample.at for sample in samples[1:]), end]
    return (
        sum(
            sample.capacity / 1000 * max(0.0, seconds_between(sample.at, until)) / 3600
            for sample, until in zip(samples, ends, strict=True)
        )
        if samples
        else 0.0
    )


def _wait_json(wait: Wait, of: str) -> dict[str, JsonValue]:
    return {
        of: wait.of,
        "jobs": wait.jobs,
        "never_placed": wait.waiting,
        "mean_s": round(wait.mean_s, 1),
        "p50_s": round(wait.p50_s, 1),
        "p90_s": round(wait.p90_s, 1),
        "p99_s": round(wait.p99_s, 1),
        "max_s": round(wait.max_s, 1),
    }


def _point_json(point: Point) -> dict[str, JsonValue]:
    return {
        "hours": round(point.hours, 3),
        "allocated_pct": round(point.allocated_pct, 3),
        "held_gpus": {group: round(gpus, 3) for group, gpus in point.held.items()},
        "waiting_gpus": round(point.waiting, 3),
        "fairness_index": round(point.index, 4),
        "fragmentation_pct": round(point.fragmentation_pct, 3),
        "preemptions": point.preemptions,
        "lost_gpu_h": round(point.lost_gpu_h, 3),
    }


COLUMNS = (
    "policy", "name", "queue", "gpus", "replicas", "submitted_s", "placed_s", "ended_s", "wait_s", "state", "runs",
    "preemptions", "gpu_h", "lost_gpu_h",
)  # fmt: skip


def jobs_csv(runs: Sequence[tuple[str, Played]]) -> str:
    """runs: (policy, what was played). Times are seconds since the start, empty while they have not come."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for policy, played in runs:
        for track in played.recorder.tracks.values():
            writer.writerow(_row(policy, track, played))
    return text.getvalue()


def _row(policy: str, track: JobTrack, played: Played) -> tuple[str | int, ...]:
    moments = (track.submitted_at, track.placed_at, track.ended_at)
    state = track.ended or ("running" if track.held_milli else "waiting")
    return (
        policy, track.name, track.queue, f"{track.gpu_milli / 1000:g}", track.replicas,
        *(f"{seconds_between(START, moment):.3f}" if moment else "" for moment in moments),
        f"{track.wait_s(played.ended_at):.3f}", state, track.attempts, track.preemptions,
        f"{track.gpu_h:.3f}", f"{track.lost_gpu_h:.3f}",
    )  # fmt: skip
