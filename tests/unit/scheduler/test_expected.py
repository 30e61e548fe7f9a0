"""When people are told that a job starts: no later than it does if everybody stays as long as they may."""

import hypothesis.strategies as st
from hypothesis import given, settings

from kit.scheduler import VirtualScheduler, belief, job
from muster.core import NS_PER_S, Instant
from muster.scheduler.core import answers
from muster.schemas.job import Job, Phase
from muster.schemas.queries import AskDryRun, AskJob, DryRunAnswer, WhyAnswer

STARVES_S = 1_800.0
GRACE_S = 30.0


class Yard(VirtualScheduler):
    """A world in which jobs run as soon as they have their places, and ends when they are told to, after the grace."""

    def runs(self, name: str, **spec: object) -> Job:
        one = self.submit(name, **spec)
        assert self.phase(one) is Phase.PLACED, f"there was no room for {name}"
        self.started(one)
        return one

    def why(self, one: Job) -> WhyAnswer:
        return answers.answer_why(self.core, AskJob(job_id=one.id), self.now)

    def dry_run(self, **spec: object) -> DryRunAnswer:
        return answers.answer_dry_run(self.core, AskDryRun(spec=job("trial", **spec).spec), self.now)

    def in_s(self, answer: WhyAnswer | DryRunAnswer) -> float:
        """Seconds from now until it is expected to start."""
        assert answer.expected_start_at, answer
        return (answer.expected_start_at - self.now) / NS_PER_S

    def play(self, seconds: float) -> None:
        """Time passes, in steps of ten seconds, with pods that do as they are told at the last moment."""
        told: dict[str, Instant] = {}
        for _ in range(round(seconds / 10)):
            self.advance(10)
            for record in tuple(self.core.state.jobs.records.values()):
                if record.phase is Phase.PLACED:
                    self.started(record.job, attempt=record.attempt)
                elif record.phase is Phase.STOPPING:
                    since = told.setdefault(f"{record.id} {record.attempt}", self.now)
                    if self.now >= since + (record.job.spec.grace_s - 10) * NS_PER_S:
                        ran_s = (self.now - record.running_at) / NS_PER_S
                        self.exited(record.job, "stopped", attempt=record.attempt, ran_s=ran_s)


def test_it_waits_for_the_total_run_time_of_who_may_not_be_preempted() -> None:
    yard = Yard(nodes=1)
    yard.runs("holder", gpus=8, preemptible=False, total_run_time_s=1_000.0)
    yard.advance(100)
    answer = yard.why(yard.submit("mine", gpus=1))
    assert yard.in_s(answer) == 900 + GRACE_S
    assert answer.expected_basis == "holder is at the end of what others must grant by then"


def test_it_waits_for_the_end_of_a_slice_if_it_is_entitled_to_the_place_then() -> None:
    yard = Yard(nodes=1)
    yard.runs("low", gpus=8, priority=10, min_slice_s=600.0)
    assert yard.in_s(yard.why(yard.submit("mine", gpus=1))) == 600 + GRACE_S


def test_who_is_entitled_only_when_it_starves_waits_until_then() -> None:
    yard = Yard(nodes=1)
    yard.runs("equal", gpus=8, min_slice_s=600.0)
    yard.advance(1_000)
    assert yard.in_s(yard.why(yard.submit("mine", gpus=1))) == STARVES_S + GRACE_S


def test_those_in_front_get_what_comes_free_first() -> None:
    yard = Yard(nodes=2)
    for name, total_s in (("soon", 100.0), ("late", 500.0)):
        yard.runs(name, gpus=8, preemptible=False, total_run_time_s=total_s)
    first, second, third = (
        yard.submit(name, gpus=8, preemptible=False, total_run_time_s=1_000.0) for name in ("first", "second", "third")
    )
    assert [yard.in_s(yard.why(one)) for one in (first, second)] == [130, 530]
    assert yard.in_s(yard.why(third)) >= 130 + 1_000
    assert yard.why(third).expected_basis.endswith("after 2 jobs in front of it")


def test_a_small_job_is_not_promised_what_a_large_one_in_front_of_it_waits_for() -> None:
    yard = Yard(nodes=1)
    yard.runs("holder", gpus=5, preemptible=False, total_run_time_s=500.0)
    large = yard.submit("large", gpus=8, preemptible=False, total_run_time_s=1_000.0)
    small = yard.dry_run(gpus=4)
    assert yard.in_s(yard.why(large)) == 530
    assert yard.in_s(small) >= 1_530


def test_it_waits_for_quota_though_nodes_are_idle() -> None:
    yard = Yard(nodes=2, queues=())
    yard.queue("org")
    yard.queue("mine", parent="org", gpu_milli_limit=4_000)
    yard.runs("holder", queue="mine", gpus=4, min_slice_s=700.0, total_run_time_s=700.0)
    answer = yard.why(yard.submit("next", queue="mine", gpus=2))
    assert answer.reason == "borrowing-limit"
    assert yard.in_s(answer) == 700 + GRACE_S
    assert answer.expected_basis == "enough of what queue mine and those below it hold is at its bound by then"


def test_who_is_stopped_by_a_quota_of_its_own_is_not_in_front() -> None:
    """Ten jobs of another queue wait for its limit; a place that comes free is for the one that may use it."""
    yard = Yard(nodes=1, queues=())
    yard.queue("limited", gpu_milli_limit=4_000)
    yard.queue("open")
    yard.runs("theirs", queue="limited", gpus=4, preemptible=False, total_run_time_s=5_000.0)
    yard.runs("mine", queue="open", gpus=4, preemptible=False, total_run_time_s=900.0)
    for index in range(10):
        yard.submit(f"more{index}", queue="limited", gpus=2)
    answer = yard.why(yard.submit("next", queue="open", gpus=2))
    assert yard.in_s(answer) == 900 + GRACE_S
    assert "in front" not in answer.expected_basis


def test_those_of_its_own_queue_are_in_front_once_they_have_used_its_limit() -> None:
    yard = Yard(nodes=2, queues=())
    yard.queue("mine", gpu_milli_limit=8_000)
    yard.runs("now", queue="mine", gpus=8, preemptible=False, total_run_time_s=500.0)
    for name in ("first", "second"):
        yard.submit(name, queue="mine", gpus=8, preemptible=False, total_run_time_s=1_000.0)
    answer = yard.dry_run(queue="mine", gpus=8)
    assert answer.expected_basis.endswith("after 2 jobs in front of it")
    assert yard.in_s(answer) >= 500 + 2 * 1_000


def test_a_job_that_only_needs_its_turn_starts_now() -> None:
    yard = Yard(nodes=1)
    one = job("one")
    yard.route(one)
    answer = yard.why(one)
    assert (answer.reason, yard.in_s(answer)) == ("turn", 0)


def test_nothing_is_promised_to_a_job_that_can_never_run() -> None:
    yard = Yard(nodes=1)
    yard.queue("small", gpu_milli_limit=1_000)
    for index, spec in enumerate(({"gpus": 9}, {"queue": "small", "gpus": 2}, {"gpu_models": ("T4",)})):
        answer = yard.why(yard.submit(f"never{index}", **spec))
        assert (answer.expected_start_at, answer.expected_basis) == (0, "")
        assert answer.reason
        assert answer.cure


def test_who_has_a_reservation_is_told_its_moment() -> None:
    yard = Yard(nodes=1)
    yard.runs("low", gpus=8, priority=10)
    yard.advance(3_600)
    mine = yard.submit("mine", gpus=1)
    answer = yard.why(mine)
    assert yard.in_s(answer) == GRACE_S
    assert answer.expected_basis == "reserved: low make way, within 30 s"
    assert "reserved" in answer.detail


def test_beyond_a_bounded_number_in_front_the_moment_is_estimated_and_said_to_be() -> None:
    yard = Yard(nodes=1)
    yard.runs("holder", gpus=8, preemptible=False, total_run_time_s=1_000.0)
    for index in range(40):
        yard.submit(f"j{index}", gpus=8, preemptible=False, total_run_time_s=1_000.0)
    last = yard.submit("last", gpus=8, preemptible=False, total_run_time_s=1_000.0)
    answer = yard.why(last)
    assert answer.expected_basis.startswith("estimated: 40 jobs that ask for 320 GPUs are in front of it")
    assert 40_000 <= yard.in_s(answer) <= 44_000


def test_a_question_changes_nothing() -> None:
    yard = Yard(nodes=2)
    yard.queue("other", weight=2.0, gpu_milli_limit=9_000)
    yard.runs("a", gpus=8, min_slice_s=600.0)
    yard.runs("b", gpus=8, queue="other", preemptible=False, total_run_time_s=900.0)
    waiting = [yard.submit(f"w{i}", gpus=1 + i % 8, queue=("lab", "other")[i % 2]) for i in range(12)]
    before, version = belief(yard.core), yard.core.state.fleet.version
    for one in waiting:
        yard.why(one)
    yard.dry_run(gpus=8)
    assert belief(yard.core) == before
    assert yard.core.state.fleet.version == version
    assert yard.core.decide(yard.now) == []


lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=8)


@given(lengths, lengths, st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_a_job_starts_no_later_than_was_said(
    running: list[tuple[int, int]], waiting: list[tuple[int, int]], nodes: int
) -> None:
    """Jobs of one shape, so that none overtakes another, all running as long as they may."""
    yard = Yard(nodes=nodes, gpus=1)
    for index, (length, _) in enumerate(running[:nodes]):
        yard.runs(f"r{index}", preemptible=False, total_run_time_s=10.0 * length, grace_s=10.0)
    asked = [
        yard.submit(f"w{index}", preemptible=False, total_run_time_s=10.0 * length, grace_s=10.0)
        for index, (_, length) in enumerate(waiting)
    ]
    said = {one.id: yard.why(one).expected_start_at for one in asked if yard.phase(one) is Phase.QUEUED}
    assert all(said.values())
    yard.play(10.0 * 62 * 9)
    for job_id, at in said.items():
        placed = yard.last("placed", job_id)
        assert placed.time <= at + 10 * NS_PER_S


def test_a_dry_run_says_who_would_have_to_make_way() -> None:
    yard = Yard(nodes=1)
    low, high = yard.runs("low", gpus=4, priority=10), yard.runs("high", gpus=4, priority=90)
    within_slice = yard.dry_run(gpus=2)
    assert within_slice.preempts == ()
    assert yard.in_s(within_slice) == 3_600 + GRACE_S
    yard.advance(3_600)
    answer = yard.dry_run(gpus=2)
    assert answer.preempts == (low.id,)
    assert (answer.placed, answer.reason, yard.in_s(answer)) == (False, "gpu", GRACE_S)
    assert high.id not in answer.preempts
    assert yard.core.decide(yard.now) == []
    mine = yard.submit("mine", gpus=2)
    assert yard.in_s(yard.why(mine)) == GRACE_S, "what was foretold comes about"


def test_smaller_jobs_behind_are_counted_with_until_it_starves() -> None:
    """Two GPUs are idle, six come free soon; who needs two takes them now and holds on to them for longer."""
    yard = Yard(nodes=1)
    yard.runs("holder", gpus=6, preemptible=False, total_run_time_s=500.0)
    large = job("large", gpus=8, preemptible=False)
    yard.route(large)
    alone = yard.in_s(yard.why(large))
    small = job("small", gpus=2, preemptible=False, total_run_time_s=1_000.0)
    yard.route(small)
    answer = yard.why(large)
    assert (alone, yard.in_s(answer)) == (530, 1_000 + GRACE_S + 30)
    assert answer.expected_basis.endswith("1 job behind it may fit sooner")
