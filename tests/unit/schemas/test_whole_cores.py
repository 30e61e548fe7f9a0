"""A job that wants whole cores asks for a whole number of them."""

import pytest
from pydantic import ValidationError

from muster.schemas.job import JobSpec, PodOptions, TaskGroup


def spec(*, whole_cores: bool = True, **group: int) -> JobSpec:
    groups = (TaskGroup(name="worker", **group),)  # type: ignore[arg-type] - sizes of a group
    return JobSpec(name="train", team="vision", task_groups=groups, pod=PodOptions(whole_cores=whole_cores))


def test_a_part_of_a_core_is_refused_with_what_to_ask_for() -> None:
    with pytest.raises(ValidationError, match=r"pod\.whole_cores: group worker .* for 2000 milli-cores"):
        spec(cpu_milli=1500)


@pytest.mark.parametrize("asked", [{"cpu_milli": 0}, {"cpu_milli": 1000, "memory_mib": 0}])
def test_nothing_is_no_whole_core(asked: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=r"pod\.whole_cores"):
        spec(**asked)


def test_whole_cores_are_taken_and_parts_where_nobody_wants_them_whole() -> None:
    assert spec(cpu_milli=8000).pod.whole_cores
    assert spec(cpu_milli=1500, whole_cores=False).task_groups[0].cpu_milli == 1500
