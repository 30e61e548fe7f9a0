"""The cycle benchmark: its input is the same each time, and what it times is what it says."""

import itertools

from muster.schemas.facts.queue import GPU
from muster_tools.bench.cycle import Cell, Meter, Spent, measure, spread
from muster_tools.bench.cycle_input import Scale, comers, fleet, holders, queues, team_names, waiters

SMALL = Scale(gpus=512, pending=200, queues=20)


def test_the_input_is_the_same_each_time() -> None:
    for jobs in (holders, waiters, lambda scale: itertools.islice(comers(scale), 50)):
        assert list(jobs(SMALL)) == list(jobs(SMALL))


def test_the_teams_quotas_are_the_fleet_and_the_tree_has_three_levels() -> None:
    tree = {spec.name: spec for spec in queues(SMALL)}
    assert len(tree) == SMALL.queues
    quotas = [spec.quota.get(GPU, 0) for spec in tree.values()]
    assert 0.9 * SMALL.gpus * 1000 <= sum(quotas) <= SMALL.gpus * 1000
    teams = [tree[name] for name in team_names(SMALL)]
    assert all(tree[tree[team.parent or ""].parent or ""].parent is None for team in teams)


def test_the_waiting_jobs_are_single_gpus_nodes_and_gangs_of_all_teams() -> None:
    jobs = list(waiters(SMALL))
    gangs = {(job.spec.task_groups[0].replicas, job.spec.task_groups[0].gpus) for job in jobs}
    assert len(jobs) == SMALL.pending
    assert {job.spec.team for job in jobs} == set(team_names(SMALL))
    assert (1, 1) in gangs
    assert any(replicas > 1 for replicas, _ in gangs)


def test_it_fills_the_fleet_and_measures_every_part() -> None:
    changes = 0

    def done() -> None:
        nonlocal changes
        changes += 1

    found = measure(SMALL, changes=5, say=lambda _: None, done=done)
    assert changes == found.changed.runs == found.idle.runs == 5
    assert found.running > 10
    assert found.first_decisions > 1
    assert 0 < found.changed.wall_min_ms <= found.changed.wall_median_ms <= found.changed.wall_max_ms
    assert found.first.wall_ms >= found.first_decide_max.wall_ms


def test_only_folding_and_deciding_are_timed() -> None:
    cell, meter = Cell(), Meter()
    facts = [cell.write("agent", "node", name, "joined", node) for name, node in fleet(SMALL)]
    assert meter.spent() == Spent(0.0, 0.0)
    meter.fold(cell.core, facts)
    assert meter.spent().wall_ms > 0
    assert meter.decisions == 0


def test_a_spread_is_least_middle_and_most() -> None:
    found = spread([Spent(3.0, 2.0), Spent(1.0, 1.0), Spent(8.0, 7.0)])
    assert (found.wall_min_ms, found.wall_median_ms, found.wall_max_ms) == (1.0, 3.0, 8.0)
    assert (found.cpu_min_ms, found.cpu_median_ms) == (1.0, 2.0)
