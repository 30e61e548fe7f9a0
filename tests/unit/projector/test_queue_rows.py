"""What people see of queues and of advance reservations."""

from hypothesis import given
from hypothesis import strategies as st

from kit.log import a_fact
from kit.projector import Story, a_job
from muster.core.fact import Fact
from muster.projector.core import ProjectorCore
from muster.schemas.base import Payload
from muster.schemas.facts import job as jobs
from muster.schemas.facts.node import NodeJoined, NodeState
from muster.schemas.facts.queue import QueueChanged, QueueSpec, QueueState
from muster.schemas.facts.reservation import Booked, BookingEnded, ReservationSpec, ReservationState
from muster.schemas.job import Phase, Slot
from muster.schemas.views import NodeView, QueueView, ReservationView

SPEC = ReservationSpec(name="firmware", nodes=("n1",), starts_at=10, duration_s=60)


def state(kind: str, ident: str, payload: Payload) -> Fact:
    return a_fact("scheduler", kind, ident, "state-recorded", payload)


def queues(core: ProjectorCore) -> dict[str, QueueView]:
    bodies = core.take_all(rows_after=0).queues
    return {name: QueueView.model_validate_json(body) for name, body in bodies.items() if body is not None}


def declare(story: Story, name: str, parent: str | None = None) -> None:
    story.add("queue", name, "changed", QueueChanged(spec=QueueSpec(name=name, parent=parent)))


def told(story: Story) -> ProjectorCore:
    core = ProjectorCore("atlas")
    for fact in story.facts:
        core.apply(fact)
    return core


def test_a_queue_shows_how_it_is_set_with_all_its_knobs() -> None:
    story = Story()
    knobs = {"quota": {"gpu_milli": 8000}, "borrowing_limit": {"gpu_milli": 4000}, "lending_limit": {"cpu_milli": 1}}
    spec = QueueSpec.model_validate({"name": "blue", "weight": 2, "order": "fifo", "starving_after_s": 60, **knobs})
    story.add("queue", "blue", "changed", QueueChanged(spec=spec))
    row = queues(told(story))["blue"]
    assert {"quota": row.quota, "borrowing_limit": row.borrowing_limit, "lending_limit": row.lending_limit} == knobs
    assert (row.weight, row.order) == (2.0, "fifo")
    assert row.spec is not None
    assert row.spec.starving_after_s == 60


def test_what_a_queue_holds_is_held_by_the_queues_above_it_by_resource_and_model() -> None:
    story, job = Story(), a_job(1)
    declare(story, "org")
    declare(story, "blue", "org")
    story.node("n1")
    story.routed(job)
    story.queued(job)
    story.placed(job)
    shown = queues(told(story))
    held = {"cpu_milli": 1000, "gpu_milli": 2000, "gpu_milli:H100": 2000, "memory_mib": 1024}
    assert shown["blue"].held == shown["org"].held == held
    assert shown["org"].gpu_milli_held == 2000
    assert (shown["blue"].jobs_running, shown["org"].jobs_running) == (1, 0)


def test_a_queue_that_moves_takes_what_it_holds_with_it() -> None:
    story, job = Story(), a_job(1)
    declare(story, "one")
    declare(story, "two")
    declare(story, "blue", "one")
    story.node("n1")
    story.routed(job)
    story.queued(job)
    story.placed(job)
    declare(story, "blue", "two")
    shown = queues(told(story))
    assert (shown["one"].gpu_milli_held, shown["two"].gpu_milli_held) == (0, 2000)


@given(st.permutations(range(4)))
def test_a_checkpoint_shows_the_same_tree_in_whatever_order_it_is_read(order: list[int]) -> None:
    job = a_job(1)
    slot = Slot(group=0, replica=0, node="n1", devices=(0, 1), gpu_milli=1000)
    parts = (
        state("queue", "org", QueueState(spec=QueueSpec(name="org"))),
        state("queue", "blue", QueueState(spec=QueueSpec(name="blue", parent="org"))),
        state("node", "n1", NodeState(description=NodeJoined(cpu_milli=1, memory_mib=1, gpu_model="H100"))),
        state("job", job.id, jobs.JobState(job=job, phase=Phase.PLACED, queue="blue", slots=(slot,), placed_at=1)),
    )
    core = ProjectorCore("atlas")
    for index in order:
        core.apply(parts[index])
    held = {"cpu_milli": 1000, "gpu_milli": 2000, "gpu_milli:H100": 2000, "memory_mib": 1024}
    assert queues(core)["org"].held == held


def test_a_reservation_is_shown_from_its_booking_to_its_end() -> None:
    story = Story()
    story.add("reservation", "firmware", "booked", Booked(spec=SPEC))
    core = told(story)
    (body,) = core.take(facts_after=0).reservations.values()
    assert body is not None
    assert ReservationView.model_validate_json(body).spec == SPEC
    core.apply(story.add("reservation", "firmware", "ended", BookingEnded()))
    assert core.take(facts_after=1).reservations == {"firmware": None}
    core.apply(story.add("reservation", "firmware", "ended", BookingEnded()))
    assert core.anomalies == 1


def test_a_reservation_that_repeats_shows_its_newest_time() -> None:
    story = Story()
    story.add("reservation", "firmware", "booked", Booked(spec=SPEC))
    assert next_start(told(story)) == SPEC.starts_at
    story.add("reservation", "firmware", "booked", Booked(spec=SPEC, starts_at=900))
    assert next_start(told(story)) == 900


def test_a_checkpoint_restores_what_is_booked_and_not_what_is_only_asked_for() -> None:
    core = ProjectorCore("atlas")
    core.apply(state("reservation", "firmware", ReservationState(spec=SPEC, starts_at=900)))
    core.apply(state("reservation", "wish", ReservationState()))
    assert next_start(core) == 900


def next_start(core: ProjectorCore) -> int:
    """Of the only reservation there is."""
    (body,) = core.take_all(rows_after=0).reservations.values()
    assert body is not None
    return ReservationView.model_validate_json(body).next_starts_at


SLOTS = tuple(Slot(group=0, replica=at, node=f"n{at % 2}", devices=(at,), gpu_milli=1000) for at in range(4))
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["queued", "placed", "resize-requested", "resized", "succeeded", "move", "node"]),
        st.integers(0, 2),
        st.integers(1, 4),
    ),
    max_size=40,
)


@given(EVENTS)
def test_nodes_and_the_top_of_the_tree_always_hold_the_same(events: list[tuple[str, int, int]]) -> None:
    """Whatever comes in which order: what is held by nodes, by queues and by models adds up to the same."""
    story = Story()
    for name, parent in (("org", None), ("left", "org"), ("right", "org"), ("blue", "left")):
        declare(story, name, parent)
    all_jobs = [a_job(number) for number in range(3)]
    for job in all_jobs:
        story.routed(job)
    for event, index, count in events:
        job, slots = all_jobs[index], SLOTS[:count]
        if event == "move":
            declare(story, "blue", ("left", "right", "org")[index])
        elif event == "node":
            story.node(f"n{index % 2}")
        else:
            bodies: dict[str, Payload] = {
                "queued": jobs.JobQueued(queue="blue", attempt=1),
                "placed": jobs.JobPlaced(attempt=1, slots=slots),
                "resize-requested": jobs.JobResizeRequested(attempt=1, slots=slots),
                "resized": jobs.JobResized(attempt=1, slots=slots),
                "succeeded": jobs.JobFinished(attempt=1),
            }
            story.add("job", job.id, event, bodies[event])
    for name in ("n0", "n1"):
        story.node(name)
    core = told(story)
    changes = core.take_all(rows_after=0)
    shown = queues(core)
    nodes = [NodeView.model_validate_json(body) for body in changes.nodes.values() if body is not None]
    held = sum(node.gpu_milli_held for node in nodes)
    for resource in ("gpu_milli", "gpu_milli:H100"):
        assert shown["org"].held.get(resource, 0) == held
    assert sum(shown[name].gpu_milli_held for name in ("left", "right")) in (0, held)
    for job in all_jobs:
        core.apply(story.ended(job))
    assert all(queue.held == {} and queue.jobs_running == 0 for queue in queues(core).values())
