"""What a transition from one cluster to another came to, by the logs of the federation and of both clusters. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from pydantic import JsonValue

from muster.core.fact import Fact
from muster.core.instant import Instant, seconds_between
from muster.schemas.facts.job import JobEnded, JobRouted
from muster.schemas.job import Phase

DRAIN, DRAINED = "drain-requested", "drained"


@dataclass(frozen=True, slots=True)
class Moment:
    """at_s: since somebody asked for the drain; earlier is negative."""

    at_s: float
    who: str
    said: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of the team's jobs.

    jobs: that it handed in. stayed, moved, straight: ended in the old cluster, went over, were given to the new one at
    once. lost: have not succeeded, by the federation. twice: started more than once, over both clusters. aged: went
    over with another age than they had. submissions: of all jobs together. stopped: jobs that the old cluster ended.
    away_s_max: the longest time from when a job was asked back until it had its new cluster. drained_s: from the
    request until nothing was left there, None: something is.
    """

    jobs: int
    stayed: int
    moved: int
    straight: int
    lost: int
    twice: int
    aged: int
    submissions: int
    stopped: int
    away_s_max: float
    drained_s: float | None
    moments: tuple[Moment, ...] = ()

    @property
    def problem(self) -> str:
        """What was not as it should be; "" if nobody noticed the transition."""
        wrong = (
            (self.lost, f"{self.lost} of {self.jobs} jobs did not succeed"),
            (self.twice, f"{self.twice} jobs ran twice"),
            (self.aged, f"{self.aged} jobs lost their age"),
            (self.stopped, f"{self.stopped} jobs were ended by the old cluster"),
            (self.submissions != self.jobs, f"{self.submissions} submissions of {self.jobs} jobs"),
            (not self.moved, "no job waited when the old cluster was drained"),
            (self.drained_s is None, "the old cluster is not drained"),
        )
        return "; ".join(said for is_so, said in wrong if is_so)

    def to_json(self) -> dict[str, JsonValue]:
        """Every field, `passed` and `problem`."""
        plain: dict[str, JsonValue] = asdict(self)
        return plain | {
            "moments": [asdict(moment) for moment in self.moments],
            "passed": not self.problem,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class Logs:
    """The facts of all three logs, each in its own order. old, new: the clusters' names."""

    old: str
    new: str
    fed: Sequence[Fact]
    at_old: Sequence[Fact]
    at_new: Sequence[Fact]


def figures(logs: Logs, handed_in: Iterable[str]) -> Figures:
    """handed_in: ids of the team's jobs, each submitted once. Raises ValueError if nobody asked for the drain."""
    asked = next((fact.time for fact in logs.fed if fact.kind == "cluster" and fact.name == DRAIN), None)
    if asked is None:
        raise ValueError(f"nobody asked to drain {logs.old}")
    jobs = tuple(dict.fromkeys(handed_in))
    ways = _ways(logs, jobs)
    started = Counter(fact.subject_id for fact in (*logs.at_old, *logs.at_new) if fact.name == "pods-started")
    succeeded = {
        fact.subject_id
        for fact in logs.fed
        if isinstance(fact.payload, JobEnded) and fact.payload.phase is Phase.SUCCEEDED
    }
    first_to = Counter(way[0].cluster for way in ways.values())
    moved = [job for job, way in ways.items() if len(way) > 1]
    drained = next((fact.time for fact in logs.fed if fact.kind == "cluster" and fact.name == DRAINED), None)
    return Figures(
        jobs=len(jobs),
        stayed=first_to[logs.old] - len(moved),
        moved=len(moved),
        straight=first_to[logs.new],
        lost=len(set(jobs) - succeeded),
        twice=sum(started[job] > 1 for job in jobs),
        aged=sum(not _kept_its_age(ways[job], asked) for job in moved),
        submissions=sum(fact.kind == "job" and fact.name == "submitted" for fact in logs.fed),
        stopped=len({fact.subject_id for fact in logs.at_old if fact.name == "stop-requested"}),
        away_s_max=max(_away_s(logs.fed), default=0.0),
        drained_s=seconds_between(asked, drained) if drained is not None else None,
        moments=_moments(logs, set(moved), asked),
    )


def _ways(logs: Logs, jobs: Iterable[str]) -> dict[str, list[JobRouted]]:
    """Every assignment of each job that had one, the first first."""
    ways: dict[str, list[JobRouted]] = defaultdict(list)
    wanted = set(jobs)
    for fact in logs.fed:
        if isinstance(fact.payload, JobRouted) and fact.subject_id in wanted:
            ways[fact.subject_id].append(fact.payload)
    return ways


def _kept_its_age(way: Sequence[JobRouted], asked: Instant) -> bool:
    """The moment of its submission is as it was, and what it waited until the drain counts where it goes now."""
    first, last = way[0].job.submitted_at, way[-1].job.submitted_at
    return first == last and way[-1].age_s >= seconds_between(Instant(first), asked)


def _away_s(fed: Iterable[Fact]) -> list[float]:
    """Of every job that was asked back and went elsewhere: how long that took."""
    left: dict[str, Instant] = {}
    took: list[float] = []
    for fact in fed:
        if fact.name == "recall-forwarded":
            left[fact.subject_id] = fact.time
        elif isinstance(fact.payload, JobRouted) and fact.subject_id in left:
            took.append(round(seconds_between(left.pop(fact.subject_id), fact.time), 3))
    return took


def _moments(logs: Logs, moved: set[str], asked: Instant) -> tuple[Moment, ...]:
    """The story: what happened first and last of each sort."""
    old, new = logs.old, logs.new
    over = [
        f for f in logs.fed if isinstance(f.payload, JobRouted) and f.subject_id in moved and f.payload.cluster == new
    ]
    back = [f for f in logs.fed if f.name == "recall-forwarded"]
    begun = [f for f in logs.at_new if f.name == "pods-started"]
    ended = [f for f in logs.at_old if f.name == "succeeded"]
    done = [f for f in logs.at_new if f.name == "succeeded"]
    left = {f.name: f for f in logs.fed if f.kind == "cluster" and f.name in (DRAIN, "draining", DRAINED)}
    told = (
        *((f, words) for name, words in _OF_CLUSTERS for f in (left.get(name),) if f is not None),
        *_first_and_last(back, "waiting jobs are asked back", "the last one is asked back"),
        *_first_and_last(over, f"the first goes over to {new}", f"the last one goes over, of {len(moved)}"),
        *((f, f"a job starts in {new}") for f in begun[:1]),
        *((f, f"the last job of {old} ends, where it began") for f in ended[-1:]),
        *((f, f"the last job of {new} ends") for f in done[-1:]),
    )
    return tuple(
        Moment(round(seconds_between(asked, fact.time), 2), fact.writer, said)
        for fact, said in sorted(told, key=lambda one: one[0].time)
    )


_OF_CLUSTERS = (
    (DRAIN, "somebody asks to drain the old cluster"),
    ("draining", "it gets no new jobs"),
    (DRAINED, "nothing is left there"),
)


def _first_and_last(facts: Sequence[Fact], first: str, last: str) -> list[tuple[Fact, str]]:
    return [*((fact, first) for fact in facts[:1]), *((fact, last) for fact in facts[1:][-1:])]
