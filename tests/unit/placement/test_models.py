"""Gangs that need GPUs of one model, and gangs for which some models are out of the question."""

import pytest

from muster.placement import Fleet, GangRequest, GroupRequest, Shortage, ShortageReason, TaskShape
from unit.placement.builders import fleet_of, gang, node, nodes_of, one, placed, server, task, within


def alike(*groups: tuple[TaskShape, int], least: int | None = None) -> GangRequest:
    """All replicas with GPUs on one model."""
    return GangRequest(tuple(GroupRequest(shape, n, least) for shape, n in groups), same_model=True)


def mixed() -> Fleet:
    """One node of model A, two of model B, and one without GPUs."""
    return fleet_of([node("a", model="A"), node("b0", model="B"), node("b1", model="B"), node("c", gpus=0, model="")])


def test_all_replicas_with_gpus_stand_on_one_model() -> None:
    fleet = mixed()
    placed(fleet, one(task(4, models=("A",))))
    assert set(nodes_of(placed(fleet, gang((task(4), 2))))) == {"a", "b0"}, "without the wish the models mix"
    assert nodes_of(placed(mixed(), alike((task(8), 2)))) == ["b0", "b1"]


def test_replicas_without_gpus_go_where_they_like() -> None:
    assert nodes_of(placed(mixed(), alike((task(cpu=64), 1), (task(8), 2)))) == ["c", "b0", "b1"]
    assert nodes_of(placed(mixed(), alike((task(cpu=4), 2)))) == ["c", "c"]


def test_the_model_that_the_first_replica_prefers_is_tried_first() -> None:
    fleet = mixed()
    placed(fleet, one(task(2, models=("B",))))
    assert nodes_of(placed(fleet, alike((task(2), 3)))) == ["b0", "b0", "b0"]


def test_a_model_that_a_group_does_not_allow_is_not_taken() -> None:
    holds = placed(mixed(), alike((task(1), 2), (task(2, models=("B", "C")), 1)))
    assert set(nodes_of(holds)) <= {"b0", "b1"}


def test_of_an_elastic_gang_the_model_that_takes_most_is_chosen() -> None:
    assert nodes_of(placed(mixed(), alike((task(8), 9), least=1))) == ["b0", "b1"]


def test_no_single_model_with_room_is_told_with_the_room_of_each() -> None:
    fleet = mixed()
    request = alike((task(8), 3))
    watch = fleet.rooms.watch(request)
    assert not fleet.rooms.has_room(watch)
    answer = fleet.place(request)
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.MODEL
    assert answer.detail.endswith("1 of 3 on A, 2 of 3 on B")
    fleet.add_node(node("b2", model="B"))
    assert fleet.rooms.has_room(watch)
    assert fleet.could_ever_fit(request) is None


def test_a_model_that_joins_later_is_watched_too() -> None:
    fleet = mixed()
    watch = fleet.rooms.watch(alike((task(8), 3)))
    for i in range(3):
        assert not fleet.rooms.has_room(watch)
        fleet.add_node(node(f"z{i}", model="Z"))
    assert fleet.rooms.has_room(watch)
    fleet.remove_node("z0")
    assert not fleet.rooms.has_room(watch)


def test_excluded_models_are_not_taken_whether_models_are_named_or_not() -> None:
    fleet = mixed()
    free = one(task(8)).without_models({"B"})
    named = one(task(8, models=("A", "B"))).without_models(["A"])
    assert free is not None
    assert named is not None
    assert nodes_of(placed(fleet, free)) == ["a"]
    assert nodes_of(placed(fleet, named)) == ["b0"]
    assert isinstance(fleet.place(free), Shortage)
    twice = free.without_models({"A"})
    assert twice is not None
    answer = fleet.place(twice)
    assert isinstance(answer, Shortage)


def test_groups_without_gpus_are_free_of_the_exclusion() -> None:
    request = gang((task(), 1), (task(1), 1)).without_models({"A", ""})
    assert request is not None
    assert nodes_of(placed(mixed(), request)) == ["c", "b0"]


def test_nothing_is_left_if_every_model_that_a_group_names_is_excluded() -> None:
    request = gang((task(1), 1), (task(1, models=("A",)), 1))
    assert request.without_models({"A"}) is None
    assert request.without_models(()) is request


@pytest.mark.parametrize("level", ["socket", "rack"])
def test_one_model_and_one_domain_can_be_wished_at_once(level: str) -> None:
    nodes = [server(f"{model}{i}", model=model, rack=f"r{i}") for model in "AB" for i in range(2)]
    request = GangRequest((GroupRequest(task(4), 2),), gang((task(1), 1), level=level).topology, same_model=True)
    holds = placed(fleet_of(nodes), request)
    assert len({hold.slot.node[0] for hold in holds}) == 1
    assert {hold.slot.devices for hold in holds} == {(0, 1, 2, 3), (4, 5, 6, 7)}
    assert isinstance(fleet_of(nodes).place(alike((within("socket", 5), 1))), Shortage)
