"""The fragmentation score, worked out by hand."""

import pytest

from muster.placement import TaskShape
from muster.placement.demand import Demand
from muster.placement.state import StateKey
from unit.placement.builders import task


def state(*shares: int, cpu: int = 64, model: str = "H100", whole: bool = False) -> StateKey:
    return StateKey(sum(shares), cpu * 1000, cpu * 1024, tuple(sorted(shares)), model, whole)


@pytest.mark.parametrize(
    ("asked", "before", "expected_milli"),
    [
        (task(1), state(500, 1000), 500),  # the broken device is of no use
        (task(2), state(500, 1000), 1500),  # cannot run at all
        (task(share=400), state(300, 500, 1000), 300),
        (task(1, cpu=8), state(1000, 1000, cpu=7), 2000),
        (task(1, models=("A100",)), state(1000), 1000),
        (task(), state(1000), 1000),  # asks for no GPU
        (task(1, full=True), state(1000, 1000), 2000),
        (task(1, full=True), state(1000, 1000, whole=True), 0),
    ],
)
def test_fragmented_is_what_a_task_cannot_use(asked: TaskShape, before: StateKey, expected_milli: int) -> None:
    assert Demand({asked: 7.0}).fragmented_milli(before) == expected_milli


def test_classes_count_by_their_frequency_whatever_its_scale() -> None:
    demand = Demand({task(1): 30, task(2): 10})
    assert demand.fragmented_milli(state(500, 1000)) == 0.75 * 500 + 0.25 * 1500


def test_points_are_whole_and_50_stands_for_no_change() -> None:
    demand = Demand({task(1): 1.0})
    before = state(500, 1000)
    assert demand.points(before, state(500, 0)) == 50
    assert demand.points(before, state(300, 1000)) == 55, "200 milli of useless GPU put to use: 54.98"
    assert demand.points(before, state(500, 700)) == 33, "700 milli made useless: 33.18"


def test_only_the_most_frequent_classes_count() -> None:
    frequent = {TaskShape(i, 0): 2.0 for i in range(64)}
    assert Demand({task(1): 1.0, **frequent}).classes == Demand(frequent).classes
    assert not Demand({task(1): 0.0})


def test_idle_gpus_that_cpu_or_memory_would_not_serve_are_stranded() -> None:
    """Two classes of 4 and 8 CPUs per GPU, the second twice as frequent by GPUs: 20 / 3 CPUs per GPU on average."""
    demand = Demand({task(1, cpu=4): 2.0, task(4, cpu=32): 1.0, task(cpu=60): 9.0, task(8, cpu=1, full=True): 5.0})
    assert demand.stranded_milli(state(1000, 1000, 1000, cpu=20)) == pytest.approx(0)
    assert demand.stranded_milli(state(1000, 1000, 1000, cpu=10)) == pytest.approx(1500)
    assert demand.stranded_milli(state(500, cpu=0)) == 500
    lean = state(1000, 1000, cpu=64)._replace(memory_mib=20 * 1024 // 3)
    assert demand.stranded_milli(lean) == pytest.approx(1000, abs=1), "memory is short"
    assert Demand({task(cpu=8): 1.0}).stranded_milli(state(1000, cpu=0)) == 0, "no class asks for GPUs"


def test_cpu_is_kept_beside_gpus_long_before_it_is_gone() -> None:
    demand = Demand({task(1, cpu=8): 1.0})
    plenty, scarce = state(1000, 1000, cpu=32), state(1000, 1000, cpu=20)
    taken = [demand.points(key, key._replace(cpu_milli=key.cpu_milli - 8000)) for key in (plenty, scarce)]
    assert taken == [50, 38], "both run the class before and after, but one of two GPUs would lack half its CPU"
