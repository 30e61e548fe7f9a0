"""Values as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.text import duration, gpus, held_gpus, node_list, time_in_phase_s
from muster.schemas.job import Phase, Slot
from muster.schemas.views import JobView

S = 1_000_000_000


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0.0s"),
        (59.94, "59.9s"),
        (60, "1:00"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (90_061, "1-01:01:01"),
        (-1, "0.0s"),
    ],
)
def test_durations_read_as_in_squeue(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(("milli", "told"), [(None, "-"), (0, "0"), (250, "0.25"), (8000, "8")])
def test_gpus_are_whole_or_decimal(milli: int | None, told: str) -> None:
    assert gpus(milli) == told


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["gpu-01"], "gpu-01"),
        (["gpu-01", "gpu-02", "gpu-03"], "gpu-[01-03]"),
        (["gpu-03", "gpu-01", "gpu-05"], "gpu-[01,03,05]"),
        (["a-1", "a-02", "b"], "a-1,a-02,b"),
        (["gpu-01", "gpu-01"], "gpu-01"),
    ],
)
def test_runs_of_numbered_nodes_are_folded(names: list[str], told: str) -> None:
    assert node_list(names) == told


@given(st.lists(st.from_regex(r"[a-z]{1,3}-?[0-9]{0,6}", fullmatch=True), max_size=40))
def test_a_node_list_never_outgrows_its_width(names: list[str]) -> None:
    assert len(node_list(names, width=20)) <= 20


def test_time_is_run_time_once_a_job_ran_and_stops_with_it() -> None:
    job = JobView(id="1", name="n", team="t", principal="p", queue="q", phase=Phase.RUNNING, submitted_at=S)
    assert time_in_phase_s(job, 5 * S) == 4
    running = job.model_copy(update={"running_at": 3 * S})
    assert time_in_phase_s(running, 5 * S) == 2
    assert time_in_phase_s(running.model_copy(update={"ended_at": 4 * S}), 9 * S) == 1


def test_an_elastic_job_shows_how_much_of_what_it_asks_it_has() -> None:
    job = JobView(id="1", name="n", team="t", principal="p", queue="q", phase=Phase.RUNNING, gpu_milli=32_000)
    slot = Slot(group=0, replica=0, node="n1", devices=(0, 1, 2, 3), gpu_milli=1000)
    grown = job.model_copy(update={"slots": (slot,) * 8})
    assert [held_gpus(one) for one in (job, job.model_copy(update={"slots": (slot, slot)}), grown)] == [
        "32",
        "8/32",
        "32",
    ]
