"""The replay accounts for every task, whatever happens to it. In virtual time, against a Muster in memory."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.openb.account import Account, Counts, Fate
from muster.openb.replay import ReplayError, ReplayOptions, replay
from muster.openb.trace import OpenbTask, default_speedup
from muster.schemas.job import Phase
from unit.openb.virtual import MemoryMuster, run_virtually, task


def run(muster: MemoryMuster, tasks: list[OpenbTask], **options: float) -> Account:
    chosen = ReplayOptions(run="test", **{"speedup": 10.0, **options})  # type: ignore[arg-type] - numbers only
    return run_virtually(replay(tasks, muster, options=chosen))


def fates(account: Account) -> dict[str, Fate]:
    return {record.task.name: record.fate for record in account.records}


def test_tasks_are_submitted_at_their_time_sped_up() -> None:
    muster = MemoryMuster()
    run(muster, [task("a", at_s=0), task("b", at_s=50), task("c", at_s=100)])
    assert muster.submitted_at_s == pytest.approx({"a": 0.0, "b": 5.0, "c": 10.0})


def test_every_task_that_fits_runs_to_its_end() -> None:
    account = run(MemoryMuster(gpus=1), [task("a"), task("b"), task("c", fails=True)])
    assert set(fates(account).values()) == {Fate.FINISHED}
    assert [record.phase for record in account.records] == [Phase.SUCCEEDED, Phase.SUCCEEDED, Phase.FAILED]
    assert [record.wait_s for record in account.records] == pytest.approx([0.0, 10.0, 20.0]), "one after the other"


def test_what_never_fits_is_told_with_its_reason_and_cancelled() -> None:
    muster = MemoryMuster(gpus=4)
    account = run(muster, [task("small"), task("big", gpus=8)])
    assert fates(account) == {"small": Fate.FINISHED, "big": Fate.NEVER_PLACED}
    assert (account.records[1].reason, account.records[1].detail) == ("gpus", "8000 milli-GPUs wanted")
    assert muster.cancelled == ["id-big"]


def test_a_refused_task_is_told_and_the_others_go_on() -> None:
    account = run(MemoryMuster(refuse=frozenset({"b"})), [task("a"), task("b"), task("c")])
    assert fates(account) == {"a": Fate.FINISHED, "b": Fate.REFUSED, "c": Fate.FINISHED}
    assert "no node is as big" in account.records[1].reason


def test_it_waits_long_runs_out() -> None:
    account = run(MemoryMuster(), [task("a", lasts_s=1_000_000)], give_up_s=5.0, quiet_s=1.0)
    assert fates(account) == {"a": Fate.FINISHED}


@pytest.mark.parametrize("phase", [Phase.SUBMITTED, Phase.PLACED, Phase.SUCCEEDED])
def test_what_the_watch_missed_is_asked_for(phase: Phase) -> None:
    account = run(MemoryMuster(deaf=frozenset({("a", phase)})), [task("a"), task("b", at_s=10)])
    assert set(fates(account).values()) == {Fate.FINISHED}
    assert all(record.ended_at > record.placed_at >= record.submitted_at > 0 for record in account.records)


def test_a_placement_that_the_watch_missed_is_waited_out() -> None:
    account = run(MemoryMuster(deaf=frozenset({("a", Phase.PLACED)})), [task("a", lasts_s=2000)], quiet_s=10.0)
    assert fates(account) == {"a": Fate.FINISHED}


def test_facts_that_come_before_the_answer_to_the_submission_count() -> None:
    account = run(MemoryMuster(answer_s=500.0), [task("a"), task("b")])
    assert set(fates(account).values()) == {Fate.FINISHED}
    assert all(record.ended_at - record.placed_at == 10_000_000_000 for record in account.records)


def test_submissions_under_way_are_bounded() -> None:
    muster = MemoryMuster(answer_s=1.0, gpus=1000)
    run(muster, [task(f"t{number}") for number in range(200)], concurrency=16)
    assert muster.under_way_max == 16


def test_the_end_of_the_stream_of_facts_ends_the_replay() -> None:
    with pytest.raises(ReplayError, match="stream of facts ended"):
        run(MemoryMuster(ends_watch_at_s=3.0), [task("a"), task("b", at_s=1000)])


def test_an_error_that_is_no_refusal_ends_the_replay() -> None:
    with pytest.raises(ConnectionError):
        run(MemoryMuster(fails_with=ConnectionError("gone")), [task(f"t{number}") for number in range(50)])


def test_a_job_that_does_not_end_is_given_up_and_told() -> None:
    muster = MemoryMuster()
    muster._end = lambda job_id: None  # type: ignore[method-assign] - this Muster forgets its jobs
    account = run(muster, [task("a")], give_up_s=5.0)
    assert fates(account) == {"a": Fate.UNFINISHED}


def test_progress_counts_every_task_once() -> None:
    told: list[Counts] = []
    options = ReplayOptions(run="test", speedup=1.0)
    tasks = [task("a"), task("b", gpus=99), task("c", at_s=30)]
    run_virtually(replay(tasks, MemoryMuster(refuse=frozenset({"c"})), options=options, progress=told.append))
    assert all(counts.waiting + counts.live + counts.over == counts.submitted <= counts.total == 3 for counts in told)
    assert told[0].submitted == 0
    assert (told[-1].submitted, told[-1].live) == (3, 0)


def test_nothing_is_left_running() -> None:
    async def main() -> int:
        await replay([task("a")], MemoryMuster(), options=ReplayOptions(run="test", speedup=10.0))
        return len(asyncio.all_tasks())

    assert run_virtually(main()) == 1


TASKS = st.lists(
    st.builds(lambda at, lasts, gpus: (at, lasts, gpus), st.integers(0, 500), st.integers(0, 300), st.integers(0, 10)),
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(TASKS, st.integers(1, 8), st.floats(0, 5))
def test_every_task_has_one_fate_and_only_too_big_ones_are_never_placed(
    shapes: list[tuple[int, int, int]], gpus: int, answer_s: float
) -> None:
    tasks = [task(f"t{n}", at_s=at, lasts_s=lasts, gpus=size) for n, (at, lasts, size) in enumerate(shapes)]
    account = run(MemoryMuster(gpus=gpus, answer_s=answer_s), tasks)
    too_big = {t.name for t in tasks if t.gpus > gpus}
    assert {name for name, fate in fates(account).items() if fate is Fate.NEVER_PLACED} == too_big
    assert {name for name, fate in fates(account).items() if fate is Fate.FINISHED} == {t.name for t in tasks} - too_big


def test_the_default_speedup_makes_two_minutes_of_any_trace() -> None:
    assert default_speedup([task("a", at_s=12_000_000, lasts_s=0)]) == 100_000.0
    assert default_speedup([task("a", lasts_s=10)]) == 1.0
    assert default_speedup([]) == 1.0
