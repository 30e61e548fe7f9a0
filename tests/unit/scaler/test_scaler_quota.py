"""What quota allows is asked of the places that are found, as the scheduler asks it: models and whole nodes count."""

from kit.scaler import MODEL, VirtualScaler, composable, config
from kit.scaler_jobs import busy
from muster.core import Fact
from muster.schemas.facts.scale import NothingChosen, ScaleChosen

OTHER = "A100"


def world_of(*, quota: dict[str, int], other_pool: int = 0) -> VirtualScaler:
    """Nodes that take GPUs of two models, of which the pool has plenty of one; nothing may be borrowed."""
    world = VirtualScaler(config(composable(gpu_models=(MODEL, OTHER), nodes_max=3)), pool=5)
    world.survey(free=other_pool, model=OTHER)
    world.queue("lab", quota=quota, borrowing_limit=dict.fromkeys(quota, 0))
    world.join("comp", 1)
    return world


def models(facts: list[Fact]) -> list[str]:
    """Models of what was attached."""
    return [fact.payload.device_model for fact in facts if isinstance(fact.payload, ScaleChosen)]


NO_H100 = {f"gpu_milli:{MODEL}": 0, f"gpu_milli:{OTHER}": 8_000}


def test_a_job_that_names_no_model_gets_none_of_which_its_queue_may_hold_nothing() -> None:
    world = world_of(quota=NO_H100)
    world.submit("any")
    (said,) = world.settle()
    assert isinstance(said.payload, NothingChosen)
    assert said.payload.code == "quota"
    assert f"queue lab holds 0 gpu_milli:{MODEL} of 0" in said.payload.reason


def test_of_several_models_the_one_that_quota_allows_is_attached() -> None:
    world = world_of(quota=NO_H100, other_pool=2)
    world.submit("either", gpu_models=(MODEL, OTHER))
    world.submit("any", cpu_milli=2_000)
    assert models(world.settle()) == [OTHER, OTHER]


def test_an_idle_device_of_a_barred_model_does_not_keep_another_from_coming() -> None:
    world = world_of(quota=NO_H100, other_pool=2)
    world.join("comp", 2, gpus=2, model=MODEL)
    world.submit("any")
    assert models(world.settle()) == [OTHER]


def test_what_is_on_its_way_counts_with_its_model() -> None:
    world = world_of(quota={f"gpu_milli:{MODEL}": 1_000})
    world.submit("first")
    assert models(world.settle()) == [MODEL]
    world.submit("second", cpu_milli=2_000)
    assert models(world.settle()) == []


def test_what_fits_already_counts_with_its_model() -> None:
    world = world_of(quota={f"gpu_milli:{MODEL}": 1_000})
    world.join("comp", 2, gpus=1, model=MODEL)
    world.submit("first", cpu_milli=2_000)
    world.submit("second", cpu_milli=1_000)
    assert models(world.settle()) == []


def test_a_whole_node_counts_with_all_its_gpus() -> None:
    world = VirtualScaler(config(composable(nodes_max=2)), pool=4)
    world.queue("lab", quota={"gpu_milli": 4_000}, borrowing_limit={"gpu_milli": 0})
    world.join("comp", 1, gpus=3)
    world.join("comp", 2)
    world.submit("whole", gpus=2, full_node=True)
    world.submit("small", gpus=2)
    assert models(world.settle()) == []


def test_once_quota_is_raised_the_model_is_attached() -> None:
    world = world_of(quota=NO_H100)
    world.submit("any")
    world.settle()
    world.queue("lab", quota={f"gpu_milli:{MODEL}": 1_000}, borrowing_limit={f"gpu_milli:{MODEL}": 0})
    assert models(world.settle()) == [MODEL]


def test_a_job_with_a_choice_counts_once() -> None:
    world = VirtualScaler(config(composable()), pool=5)
    world.queue("lab", quota={f"gpu_milli:{MODEL}": 3_000}, borrowing_limit={f"gpu_milli:{MODEL}": 0})
    busy(world)  # holds one of the three
    world.submit("one", cpu_milli=1_000)
    world.submit("two", cpu_milli=2_000)
    assert models(world.settle()) == [MODEL, MODEL]


def served(*, pool: int = 5, quota: int = 2_000, **spec: object) -> VirtualScaler:
    """A job whose GPU was attached a moment ago, and that the scheduler has not placed yet."""
    world = VirtualScaler(config(composable(nodes_max=1, **spec)), pool=pool)
    world.queue("lab", quota={"gpu_milli": quota}, borrowing_limit={"gpu_milli": 0})
    world.join("comp", 1)
    world.submit("first", cpu_milli=1_000)
    (chosen,) = world.settle()
    world.online(*world.accept(chosen))
    assert [fact.name for fact in world.settle()] == ["ended"]
    return world


def attached(facts: list[Fact]) -> list[int]:
    """How many devices each choice attaches."""
    return [fact.payload.count for fact in facts if isinstance(fact.payload, ScaleChosen)]


def test_a_job_that_was_served_and_is_not_placed_yet_counts_in_its_queue() -> None:
    world = served()
    world.submit("second", gpus=2, cpu_milli=1_000)
    assert attached(world.settle()) == []


def test_who_takes_over_counts_it_too() -> None:
    world = served()
    world.submit("second", gpus=2, cpu_milli=1_000)
    assert [draft for draft in world.recover().decide(world.now) if isinstance(draft.payload, ScaleChosen)] == []


def test_its_device_is_not_counted_for_the_next_one() -> None:
    world = served(quota=8_000)
    world.submit("second", gpus=2, cpu_milli=1_000)
    assert attached(world.settle()) == [2]


def test_a_job_that_is_not_placed_in_time_counts_as_any_other() -> None:
    world = served()
    world.submit("second", gpus=2, cpu_milli=1_000)
    world.settle()
    wake = world.core.next_wakeup()
    assert wake == world.now + 10_000_000_000
    world.end(next(state.job for state in world.jobs.values() if state.job.spec.name == "first"))
    world.now = wake
    assert attached(world.settle()) == [1]


def test_a_job_that_waits_for_sick_nodes_counts_in_its_queue() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)), pool=5)
    world.queue("lab", quota={"gpu_milli": 2_000}, borrowing_limit={"gpu_milli": 0})
    world.join("comp", 1)
    world.submit("first", gpus=1, reason="health")
    world.submit("second", gpus=2)
    assert attached(world.settle()) == []
    world.submit("third", gpus=1)
    assert attached(world.settle()) == [1]
