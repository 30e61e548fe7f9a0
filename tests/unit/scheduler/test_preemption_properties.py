"""Preemption over random trees, fleets and jobs: it keeps its promises, and it comes to rest."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.scheduler import VirtualScheduler, belief, job, ledger_balances
from kit.scheduler_yard import elastic
from muster.core import NS_PER_S, Draft, Fact
from muster.schemas.facts.job import JobReserved, JobResizeRequested, JobStopRequested, PodsResized, StopReason
from muster.schemas.facts.queue import PreemptionPolicy
from muster.schemas.job import Phase

ROUNDS_MAX = 60
"""Rounds at one moment after which nothing more may change: jobs stop, start and are resized in each."""

PATIENCE_NS = NS_PER_S // 10
"""A decision goes on with what it left unseen before that."""

KNOBS = st.fixed_dictionaries(
    {
        "within_queue": st.sampled_from(["never", "lower-priority", "lower-or-newer-equal-priority"]),
        "reclaim": st.sampled_from(["never", "lower-priority", "any"]),
        "fair_share": st.sampled_from([(), ("final-share",), ("initial-share",), ("final-share", "initial-share")]),
        "over_slice": st.sampled_from(["never", "starving"]),
    }
)
QUEUES = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2, 4]),  # quota; None: no queue names any, if all of a tree are so
        st.sampled_from([None, 0, 1, 3]),  # borrowing limit
        st.sampled_from([None, 0, 1]),  # lending limit
        st.sampled_from([0.5, 1.0, 2.0]),  # weight
        st.sampled_from(["org", "team", "", "q0"]),  # parent
    ),
    min_size=2,
    max_size=4,
)
JOBS = st.lists(
    st.tuples(
        st.integers(0, 3),  # queue
        st.integers(1, 4),  # GPUs
        st.integers(1, 3),  # replicas
        st.integers(0, 3),  # of which it needs so many less
        st.sampled_from([10, 50, 90]),  # priority
        st.sampled_from([True, True, True, False]),  # preemptible
        st.sampled_from([0, 1, 1800, 4000]),  # seconds until the next one comes
    ),
    min_size=3,
    max_size=12,
)


class Ring(VirtualScheduler):
    """A world whose agent does at once what it is told."""

    def __init__(self, *, nodes: int, gpus: int, queues: list[tuple], knobs: dict, slice_s: float) -> None:
        super().__init__(queues=())
        self.slice_s = slice_s
        for name, parent in (("org", None), ("team", "org")):
            self.queue(name, parent=parent, preemption=PreemptionPolicy(**knobs))
        self.known = []
        for index, (quota, borrowing, lending, weight, above) in enumerate(queues):
            name, parent = f"q{index}", (above if above != f"q{index}" else "") or None
            limits = {"borrowing_limit": borrowing, "lending_limit": lending if quota is not None else None}
            bounds = {key: {"gpu_milli": 1000 * value} for key, value in limits.items() if value is not None}
            if quota is not None:
                bounds["quota"] = {"gpu_milli": 1000 * max(quota, lending or 0)}
            policy = PreemptionPolicy(**knobs) if parent is None else PreemptionPolicy()
            self.queue(name, parent=parent, weight=weight, preemption=policy, **bounds)
            self.known.append(name)
        for index in range(nodes):
            self.join(f"n{index}", gpus=gpus)

    def come(self, name: str, what: tuple) -> None:
        queue, gpus, replicas, fewer, priority, preemptible = what
        spec = {"priority": priority, "preemptible": preemptible, "min_slice_s": self.slice_s}
        queue_name = self.known[queue % len(self.known)]
        if fewer and fewer < replicas:
            self.route(elastic(name, least=replicas - fewer, replicas=replicas, queue=queue_name, **spec))
        else:
            self.route(job(name, queue=queue_name, gpus=gpus, replicas=replicas, **spec))

    def append(self, writer: str, draft: Draft, **rest: str) -> Fact:
        if writer == "scheduler":
            self.check(draft)
        return super().append(writer, draft, **rest)

    def check(self, draft: Draft) -> None:
        """Nobody is preempted who may not be, or before its slice is over, or takes from who borrows nothing."""
        payload = draft.payload
        if not isinstance(payload, JobStopRequested | JobResizeRequested) or not payload.made_way_for:
            return
        if isinstance(payload, JobStopRequested) and "reserved" in payload.detail:
            return  # it stands where somebody has booked
        records, tree = self.core.state.jobs.records, self.core.state.queues
        victim, other = records[draft.subject_id], records[payload.made_way_for]
        assert victim.phase is Phase.RUNNING
        assert victim.job.spec.preemptible
        assert self.now >= victim.slice_end()
        if victim.queue == other.queue:
            assert victim.job.spec.priority <= other.job.spec.priority
        elif tree.declares(victim.queue, "gpu_milli") and victim.queue not in tree.path(other.queue):
            assert self.is_borrowing(victim.queue), f"{victim.queue} borrows nothing: {payload}"

    def is_borrowing(self, queue: str) -> bool:
        """Whether it holds more than its quota when those run for whom others make way."""
        runs, tree = self.core.state.runs, self.core.state.queues
        waiting = [self.core.state.jobs.records[job_id] for job_id in runs.reserved]
        coming = [record for record in waiting if record.reserved.victims]
        for record in coming:
            tree.hold(record.queue, record.job_class.amounts_least)
        answer = tree.is_borrowing(queue, ["gpu_milli"])
        for record in coming:
            tree.hold(record.queue, record.job_class.amounts_least, sign=-1)
        return answer

    def obey(self) -> bool:
        """Pods start, stop and are resized as was said. Returns whether any did."""
        done = False
        for record in tuple(self.core.state.jobs.records.values()):
            if record.phase is Phase.PLACED:
                self.started(record.job, attempt=record.attempt)
                done = True
            elif record.phase is Phase.STOPPING:
                self.exited(record.job, "stopped", attempt=record.attempt)
                done = True
            elif record.resize is not None:
                payload = PodsResized(attempt=record.attempt, slots=len(record.resize.slots))
                self.write("agent", "job", record.id, "pods-resized", payload)
                self.settle()
                done = True
        return done

    def rest(self) -> None:
        """Everything that follows at this moment happens."""
        for _ in range(ROUNDS_MAX):
            self.settle()
            while (wake := self.core.next_wakeup()) is not None and wake <= self.now + PATIENCE_NS:
                self.now = max(self.now, wake)
                self.settle()
            ledger_balances(self.core)
            if not self.obey():
                return
        raise AssertionError(f"it goes on and on: {[(f.name, f.subject_id[:4]) for f in self.log[-40:]]}")


def told(facts: list[Fact]) -> list[Fact]:
    return [
        fact
        for fact in facts
        if (isinstance(fact.payload, JobStopRequested) and fact.payload.reason is StopReason.PREEMPTED)
        or isinstance(fact.payload, JobResizeRequested)
        or (isinstance(fact.payload, JobReserved) and fact.payload.victims)
    ]


WORLDS = st.fixed_dictionaries(
    {
        "nodes": st.integers(1, 3),
        "gpus": st.integers(1, 6),
        "queues": QUEUES,
        "knobs": KNOBS,
        "slice_s": st.sampled_from([0.0, 60.0, 3600.0]),
    }
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(WORLDS, JOBS)
def test_a_stable_state_stays_stable(world: dict, jobs: list[tuple]) -> None:
    """Also where slices end at once: then nothing but the rules keeps two jobs from preempting each other in turn."""
    ring = Ring(**world)
    for index, (*what, pause_s) in enumerate(jobs):
        ring.come(f"j{index}", what)
        ring.rest()
        ring.now += pause_s * NS_PER_S
        ring.rest()
    before = len(ring.log)
    for _ in range(5):
        ring.rest()
    assert told(ring.log[before:]) == []
    assert belief(ring.recover()) == belief(ring.core)
    assert not any(anomaly.endswith("out of turn") for anomaly in ring.core.state.anomalies)
