"""Whatever happens in a cluster: the read model tells the same as the scheduler, also if it began at a checkpoint."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.core import AgentCore
from muster.agent.core.simulated import SimulatedCluster
from muster.core import Core, Fact, Instant
from muster.core.virtual import VirtualCluster, recover
from muster.projector.core import ProjectorCore
from muster.scheduler.core import SchedulerCore
from muster.scheduler.core.answers import view_of
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.job_requests import JobHoldRequested, JobPriorityRequested
from muster.schemas.views import JobView, NodeView, QueueView, ReservationView
from muster.simulator.engine import CHECKPOINT_NEVER, CLUSTER
from muster.simulator.scenario.run import settle
from simulation.histories import Story, story
from simulation.scenarios import scenarios

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
HALF_A_DAY_S = 43_200
SLOW = [HealthCheck.too_slow]
ONLY_FACTS_TELL = frozenset({"seq", "submitted_at", "reason", "detail"})


def projected(facts: Iterable[Fact]) -> ProjectorCore:
    return recover(ProjectorCore(CLUSTER), (), facts)


def shown(core: ProjectorCore) -> dict[tuple[str, str], object]:
    """All rows but for the sequence at which each last changed."""
    changes = core.take_all(rows_after=0)
    jobs = [JobView.model_validate_json(change.body) for change in changes.jobs]
    nodes = [NodeView.model_validate_json(body) for body in changes.nodes.values() if body is not None]
    queues = [QueueView.model_validate_json(body) for body in changes.queues.values() if body is not None]
    kept = [ReservationView.model_validate_json(body) for body in changes.reservations.values() if body is not None]
    return {
        **{("reservation", one.name): one for one in kept},
        **{("job", job.id): job.model_copy(update={"seq": 0}) for job in jobs},
        **{("node", node.name): node.model_copy(update={"jobs": tuple(sorted(node.jobs))}) for node in nodes},
        **{("queue", queue.name): queue for queue in queues},
    }


def checkpoint(facts: Sequence[Fact]) -> list[Fact]:
    """What the services record after folding these facts."""
    cores: dict[str, Core] = {
        "agent": AgentCore(SimulatedCluster({}, Behaviour())),
        "scheduler": SchedulerCore(cluster=CLUSTER, limits=Limits(checkpoint_every_facts=CHECKPOINT_NEVER)),
    }
    cluster = VirtualCluster(CLUSTER, start=Instant(0), cores=cores)
    for core in cores.values():
        recover(core, (), facts)
    cluster.seq = max((fact.seq for fact in facts), default=0)
    return cluster.snapshot()


@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
@given(scenarios)
def test_the_read_model_tells_of_jobs_what_the_scheduler_tells(parts: dict[str, object]) -> None:
    rows_are_as_the_scheduler_says(story(parts, after_s=HALF_A_DAY_S))


def rows_are_as_the_scheduler_says(told: Story) -> None:
    rows = shown(projected(told.log))
    for record in told.engine.scheduler.state.jobs.records.values():
        row, view = rows["job", record.id], view_of(record, CLUSTER)
        assert isinstance(row, JobView)
        assert row.model_dump(exclude=ONLY_FACTS_TELL) == view.model_dump(exclude=ONLY_FACTS_TELL)


@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
@given(scenarios)
def test_the_read_model_tells_of_queues_what_they_hold_as_the_scheduler_does(parts: dict[str, object]) -> None:
    told = story(parts)
    rows = shown(projected(told.log))
    for name, record in told.engine.scheduler.state.queues.queues.items():
        row = rows["queue", name]
        assert isinstance(row, QueueView)
        assert row.held == {resource: amount for resource, amount in sorted(record.held().items()) if amount}
        assert row.spec == record.spec


@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
@given(scenarios, st.data())
def test_a_read_model_that_began_at_a_checkpoint_shows_the_same(parts: dict[str, object], data: st.DataObject) -> None:
    log = story(parts, after_s=HALF_A_DAY_S).log
    same_from(log, [data.draw(st.integers(0, len(log)), label="cut")])


@pytest.mark.parametrize("name", ["over-slice", "elastic-surplus", "elastic-growth", "backfill", "reserved-for-team"])
def test_it_does_so_from_every_sequence_of_a_story_in_which_much_happens(name: str) -> None:
    """Jobs are preempted, shrink, grow and have reservations there."""
    log = played(name).log
    same_from(log, range(len(log) + 1))


def test_it_does_so_where_jobs_are_held_released_and_moved_in_line() -> None:
    told = played("held")
    engine = told.engine
    ids = {record.job.spec.name: record.id for record in engine.scheduler.state.jobs.records.values()}
    hold, moved = JobHoldRequested(principal="ann"), JobPriorityRequested(principal="ann", priority=95)
    asked = (
        ("low", "hold"), ("first", "priority"), ("first", "release"), ("low", "priority"), ("second", "release"),
    )  # fmt: skip
    for name, request in asked:
        engine.write("federation", "job", ids[name], f"{request}-forwarded", moved if request == "priority" else hold)
        settle(engine)
    names = {fact.name for fact in told.log}
    assert names >= {"held", "unheld", "reprioritised", "hold-refused", "release-refused"}
    same_from(told.log, range(len(told.log) + 1))
    rows_are_as_the_scheduler_says(told)


def test_the_example_stories_hold_what_the_rows_are_about() -> None:
    """A test of the tests: were nothing preempted in them, nothing would be shown to be right."""
    stories = ("over-slice", "elastic-surplus", "elastic-growth", "backfill", "reserved-for-team")
    said = {(fact.kind, fact.name) for name in stories for fact in played(name).log}
    about = {"stop-requested", "checkpointed", "resize-requested", "resized", "reserved", "running"}
    assert said >= {*(("job", name) for name in about), ("reservation", "booked")}


def played(name: str) -> Story:
    parts = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    assert isinstance(parts, dict)
    return story(parts, after_s=HALF_A_DAY_S)


def same_from(log: Sequence[Fact], cuts: Iterable[int]) -> None:
    whole = projected(log)
    assert whole.anomalies == 0
    expected = shown(whole)
    for cut in cuts:
        assert shown(projected([*checkpoint(log[:cut]), *log[cut:]])) == expected, f"from {cut}"
