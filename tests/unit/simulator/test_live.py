"""A running cluster as a scenario: what the read model shows can be played on."""

from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase, Slot
from muster.schemas.views import JobView, NodeView, QueueView
from muster.simulator.document import checked
from muster.simulator.live import scenario_of
from muster.simulator.scenario import Scenario, simulate

NOW_NS = 1_700_000_000_000_000_000
S = 1_000_000_000


def node(name: str, **more: object) -> NodeView:
    return NodeView(
        name=name, cluster="c", gpu_model="H100", gpus=8, cpu_milli=128_000, memory_mib=1_048_576,
        domains=(("rack", "r0"),), **{"usable": True, **more},
    )  # fmt: skip


def job(job_id: str, name: str, **more: object) -> JobView:
    return JobView(
        id=job_id, name=name, team="team", principal="ada", queue="q", submitted_at=NOW_NS - 9000 * S,
        **{"phase": Phase.QUEUED, "gpu_milli": 8000, "replicas": 1, **more},
    )  # fmt: skip


def slots(*places: tuple[int, str, tuple[int, ...]]) -> tuple[Slot, ...]:
    return tuple(
        Slot(group=group, replica=at, node=name, devices=devices, gpu_milli=1000 if devices else 0)
        for at, (group, name, devices) in enumerate(places)
    )


def queue(**more: object) -> QueueView:
    return QueueView(name="q", cluster="c", spec=QueueSpec(name="q", **more))


def test_what_is_held_stays_held_with_the_priority_that_was_asked_for_last() -> None:
    held = job("A" * 26, "mine", held=True, priority=90)
    document = scenario_of(nodes=[node("n1")], queues=[queue()], jobs=[held], now_ns=NOW_NS)
    (part,) = document["jobs"]
    assert (part["state"], part["priority"]) == ("held", 90)
    outcome = simulate(checked(Scenario, document))
    assert (outcome.jobs["mine"].state, outcome.jobs["mine"].reason) == ("held", "held")


def test_what_runs_runs_on_where_it_is_and_what_waits_waits() -> None:
    running = job(
        "A" * 26, "a", phase=Phase.RUNNING, running_at=NOW_NS - 600 * S, placed_at=NOW_NS - 601 * S,
        slots=slots((0, "n1", tuple(range(8)))), slice_ends_at=NOW_NS + 3000 * S,
    )  # fmt: skip
    content = scenario_of(
        nodes=[node("n0", usable=False), node("n1")], queues=[queue()], jobs=[running, job("B" * 26, "b")],
        now_ns=NOW_NS,
    )  # fmt: skip
    outcome = simulate(checked(Scenario, content))
    assert outcome.jobs["a"].nodes == ("n1",)
    assert (outcome.jobs["b"].state, outcome.stable) == ("pending", True)
    assert outcome.queues["q"].held["gpu"] == 8


def test_groups_of_several_shapes_are_taken_apart_by_their_slots() -> None:
    mpi = job(
        "A" * 26, "mpi", phase=Phase.RUNNING, running_at=NOW_NS - 60 * S, gpu_milli=16_000, replicas=3,
        slots=slots((0, "n0", ()), (1, "n0", tuple(range(8))), (1, "n1", tuple(range(8)))),
    )  # fmt: skip
    content = scenario_of(nodes=[node("n0"), node("n1")], queues=[queue()], jobs=[mpi], now_ns=NOW_NS)
    assert simulate(checked(Scenario, content)).jobs["mpi"].nodes == ("n0", "n0", "n1")


def test_jobs_of_one_name_are_told_apart() -> None:
    content = scenario_of(
        nodes=[node("n0")], queues=[queue()], jobs=[job("A" * 26, "x"), job("B" * 26, "x"), job("C" * 26, "y")],
        now_ns=NOW_NS,
    )  # fmt: skip
    assert set(simulate(checked(Scenario, content)).jobs) == {"x-aaaaaaaaaaaa", "x-bbbbbbbbbbbb", "y"}


def test_what_ended_and_what_ran_on_lost_nodes_is_not_running() -> None:
    ended = job("A" * 26, "ended", phase=Phase.SUCCEEDED)
    stranded = job(
        "B" * 26, "stranded", phase=Phase.RUNNING, running_at=NOW_NS - 60 * S, slots=slots((0, "n0", tuple(range(8))))
    )
    content = scenario_of(nodes=[node("n0", lost=True)], queues=[queue()], jobs=[ended, stranded], now_ns=NOW_NS)
    outcome = simulate(checked(Scenario, content))
    assert {name: found.state for name, found in outcome.jobs.items()} == {"stranded": "pending"}


def test_a_queues_knobs_come_along_in_peoples_units() -> None:
    spec = QueueSpec(
        name="q", gpu_milli_quota=4000, gpu_milli_limit=6000, weight=2.0, lending_limit={"memory_mib": 512},
        preemption={"reclaim": "never"}, user_template={"quota": {"gpu_milli": 1500}},
    )  # fmt: skip
    view = QueueView(name="q", cluster="c", spec=spec)
    (part,) = checked(Scenario, scenario_of(nodes=[], queues=[view], jobs=[], now_ns=NOW_NS)).queues
    assert part.quota == {"gpu": 4}
    assert part.borrowing_limit == {"gpu": 2}
    assert part.lending_limit == {"memory_gib": 0.5}
    assert part.user_template is not None
    assert part.user_template.quota == {"gpu": 1.5}
    assert (part.weight, part.preemption.reclaim) == (2.0, "never")
