"""Limits and turns of teams over all clusters together."""

from hypothesis import given
from hypothesis import strategies as st

from kit.federation import job
from kit.federation_clusters import LEASED, FederatedClusters
from muster.schemas.job import TaskGroup

TEAMS = ("lab", "physics", "vision")


def limited(**gpus: float) -> dict[str, object]:
    return {"teams": [{"team": team, "gpus": number} for team, number in gpus.items()]}


def test_a_team_at_its_limit_waits_with_the_federation_until_jobs_of_it_end() -> None:
    world = FederatedClusters(policy=limited(lab=2))
    jobs = [job(f"j{n}") for n in range(3)]
    world.submit_all(*jobs, job("free", team="physics"))
    assert [world.where(one) for one in jobs] == ["east", "east", ""]
    assert world.where(job("free", team="physics")) == "east"
    world.end_job(jobs[0])
    assert world.where(jobs[2]) == "east"


def test_a_job_above_the_limit_of_its_team_keeps_none_of_another_size_from_going() -> None:
    world = FederatedClusters(policy=limited(lab=2))
    wide = job("wide", task_groups=({"name": "main", "gpus": 4},))
    world.submit_all(wide, job("small"))
    assert (world.where(wide), world.where(job("small"))) == ("", "east")


def test_a_raised_limit_lets_those_go_that_waited() -> None:
    world, one = FederatedClusters(policy=limited(lab=0)), job("one")
    world.submit_all(one)
    assert world.where(one) == ""
    world.change_policy(limited(lab=1))
    assert world.where(one) == "east"


def test_who_has_least_for_its_weight_over_all_clusters_goes_next() -> None:
    window = {"name": "all", "clusters": [{"cluster": "east", "queue_max": 4}], "waits": True}
    heavy = {"team": "physics", "weight": 3.0}
    world = FederatedClusters(policy={"rules": [window], "teams": [heavy]})
    world.summary("east", jobs_queued=4)
    lab, physics = ([job(f"{team}-{n}", team=team) for n in range(6)] for team in ("lab", "physics"))
    world.submit_all(*lab, *physics)
    world.summary("east", jobs_queued=0)
    went = [sum(bool(world.where(one)) for one in some) for some in (lab, physics)]
    assert went == [1, 3]


def test_a_job_that_is_cancelled_while_it_waits_ends_here() -> None:
    world, one = FederatedClusters(policy=limited(lab=0)), job("one")
    world.submit_all(one)
    world.cancel(one)
    world.settle()
    assert world.names(one) == ["cancelled"]
    assert len(world.core.state.pending) == 0


@given(
    st.lists(st.tuples(st.sampled_from(TEAMS), st.integers(1, 4)), max_size=30),
    st.fixed_dictionaries(dict.fromkeys(TEAMS, st.integers(0, 6))),
    st.data(),
)
def test_no_team_ever_has_more_than_its_limit_and_nobody_waits_without_need(
    asked: list[tuple[str, int]], limits: dict[str, int], data: st.DataObject
) -> None:
    world = FederatedClusters(policy=limited(**limits))
    jobs = [job(f"j{n}", team=team, task_groups=({"gpus": gpus},)) for n, (team, gpus) in enumerate(asked)]
    world.submit_all(*jobs)
    for one in data.draw(st.permutations(jobs)):
        held = {team: sum(_gpus(j) for j in jobs if j.spec.team == team and _has_cluster(world, j)) for team in TEAMS}
        assert all(held[team] <= limits[team] for team in TEAMS)
        for waiting in (
            j for j in jobs if not _has_cluster(world, j) and not world.core.state.jobs[j.id].phase.is_terminal
        ):
            assert held[waiting.spec.team] + _gpus(waiting) > limits[waiting.spec.team]
        if _has_cluster(world, one):
            world.end_job(one)


def _gpus(one: object) -> int:
    return sum(group.gpus for group in one.spec.task_groups)  # type: ignore[attr-defined]


def _has_cluster(world: FederatedClusters, one: object) -> bool:
    record = world.core.state.jobs[one.id]  # type: ignore[attr-defined]
    return bool(record.cluster) and not record.phase.is_terminal


def test_jobs_without_gpus_count_nothing_and_end_one_after_the_other() -> None:
    world = FederatedClusters(LEASED)
    plain = tuple(job(name, task_groups=(TaskGroup(gpus=0),)) for name in ("one", "two"))
    world.submit_all(*plain)
    for one in plain:
        world.end_job(one)
    assert world.core.state.used == {}
