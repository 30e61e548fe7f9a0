"""What the engine remembers is bounded, and forgetting changes no decision."""

import pytest

from muster.placement import Hold, Shortage, TaskShape, demand, fleet, ledger, ranking
from muster_tools.bench.placement_run import build_input, run_benchmark
from unit.placement.builders import fleet_of, node, one, placed


def decisions() -> list[Hold]:
    """A mix of 60 requests, each made twice in a row, that come and go on ten nodes."""
    made = fleet_of([node(f"n{i}", gpus=4, cpu=32 + i) for i in range(10)])
    shapes = [TaskShape(500 + 10 * i, 100, gpu_milli=100 + 7 * i) for i in range(60)]
    made.set_demand(dict.fromkeys(shapes[::6], 1.0))
    chosen: list[Hold] = []
    running: list[Hold] = []
    for step in range(400):
        answer = made.place(one(shapes[step // 2 * 7 % 60]))
        if isinstance(answer, Shortage) or step % 3 == 2:
            made.release(running.pop(step % len(running)))
        else:
            made.hold(answer[0])
            running.append(answer[0])
            chosen.append(answer[0])
    return chosen


@pytest.mark.parametrize("bound", [0, 5])
def test_forgetting_everything_all_the_time_changes_no_decision(monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    generous = decisions()
    for module, name in [
        (ranking, "SHAPES_MAX"),
        (ranking, "GRADES_MAX"),
        (demand, "VALUES_MAX"),
        (fleet, "ANSWERS_MAX"),
        (ledger, "IDLE_STATES_MAX"),
        (ledger, "NEWS_MIN"),
    ]:
        monkeypatch.setattr(module, name, bound)
    assert decisions() == generous
    assert len(generous) > 200


def test_states_grades_and_news_stay_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "IDLE_STATES_MAX", 20)
    monkeypatch.setattr(ledger, "NEWS_MIN", 20)
    monkeypatch.setattr(ranking, "GRADES_MAX", 50)
    made = fleet_of([node("a"), node("b")])
    for i in range(500):
        shape = TaskShape(100 + i, 100, gpus=1)
        for hold in placed(made, one(shape)):
            made.release(hold)
        assert len(made._ledger.states) <= 20 + 3
        assert len(made._ledger.news) <= 41
        assert sum(len(state.grades) for state in made._ledger.states.values()) <= 50
    assert len(made._ranking._heaps) <= ranking.SHAPES_MAX


def test_the_benchmark_places_what_fits_and_times_it_with_the_clock_it_is_given() -> None:
    ticks = iter([1.0, 2.0, 4.0])
    figures = run_benchmark(build_input(nodes=10, slots_per_node=4, jobs=80), lambda: next(ticks))
    assert (figures.placed, figures.unplaced) == (40, 40)
    assert (figures.build_s, figures.decide_s, figures.decisions_per_s) == (1.0, 2.0, 40.0)
