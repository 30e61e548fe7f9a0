"""The openb experiment, on fleets small enough to count by hand."""

import pytest

from muster.openb.trace import OpenbNode, OpenbTask
from muster.simulator.errors import InputError
from muster.simulator.filling import fill, summary


def node(name: str, gpus: int, cpu: int = 64_000) -> OpenbNode:
    return OpenbNode(name, cpu, 262_144, gpus, "V100")


def task(name: str, *, gpus: int = 0, share: int = 0, cpu: int = 1000, models: tuple[str, ...] = ()) -> OpenbTask:
    return OpenbTask(name, cpu, 1024, gpus, share, models, False, 0.0, 1.0, None)


def test_whole_tasks_fill_the_fleet_and_the_rest_finds_no_place() -> None:
    found = fill([node("a", 4), node("b", 4)], [task(f"t{at}", gpus=1) for at in range(4)], seed=1)
    assert found.allocated_pct == {100: 100.0, 130: 100.0}
    assert found.placed == 8
    assert found.arrived == 11  # the first number of tasks that is not below 1.3 x 8


def test_shares_that_do_not_add_up_leave_the_rest_of_each_gpu() -> None:
    found = fill([node("a", 2)], [task("t", share=600)], seed=1)
    assert found.allocated_pct == {100: 60.0, 130: 60.0}


def test_tasks_without_gpus_take_cpu_and_count_for_nothing() -> None:
    tasks = [task("gpu", gpus=1, cpu=1000), task("cpu", cpu=64_000)]
    found = fill([node("a", 1)], tasks, seed=1)
    assert set(found.allocated_pct.values()) <= {0.0, 100.0}


def test_models_bind() -> None:
    assert fill([node("a", 1)], [task("t", gpus=1, models=("A100",))], seed=1).allocated_pct == {100: 0.0, 130: 0.0}


def test_a_seed_is_an_order() -> None:
    nodes = [node(f"n{at}", 2) for at in range(6)]
    tasks = [task(f"s{at}", share=300 + 10 * at) for at in range(20)] + [task(f"w{at}", gpus=2) for at in range(5)]
    runs = [fill(nodes, tasks, seed=seed) for seed in range(6)]
    assert runs == [fill(nodes, tasks, seed=seed) for seed in range(6)]
    assert len({run.allocated_pct[100] for run in runs}) > 1
    mean = summary(runs)["allocated_pct"]
    assert isinstance(mean, dict)
    assert mean["100"] == pytest.approx(sum(run.allocated_pct[100] for run in runs) / 6, abs=1e-3)


def test_there_must_be_something_to_fill() -> None:
    with pytest.raises(InputError, match="no node has a GPU"):
        fill([node("a", 0)], [task("t", gpus=1)], seed=1)
    with pytest.raises(InputError, match="no task asks for a GPU"):
        fill([node("a", 1)], [task("t")], seed=1)
