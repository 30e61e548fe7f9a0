"""A scenario written out: every node, queue and job of its own, in the wire's units. What cannot be is refused here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from muster.core import after
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.simulator.document import path
from muster.simulator.engine import START
from muster.simulator.errors import InputError
from muster.simulator.scaling import Scaling
from muster.simulator.scenario import model
from muster.simulator.scenario.assignments import Assignments, assign_slots
from muster.simulator.scenario.jobs import PlannedJob, planned_jobs
from muster.simulator.scenario.resources import PlannedNode, planned_nodes, queue_specs
from muster.simulator.scenario.scaling import planned_scaling

NOW = START
"""The moment at which a scenario begins."""


@dataclass(frozen=True, slots=True)
class Plan:
    """queues, reservations: each with its place in the file; queues parents first. assigned: of the running jobs.

    nodes: those of the scaled groups, too.
    """

    nodes: dict[str, PlannedNode]
    queues: tuple[tuple[str, QueueSpec], ...]
    jobs: tuple[PlannedJob, ...]
    assigned: Assignments
    reservations: tuple[tuple[str, ReservationSpec], ...]
    scaling: Scaling | None = None


def plan_of(scenario: model.Scenario) -> Plan:
    """Raises InputError with the field that cannot be."""
    nodes = planned_nodes(scenario.nodes)
    scaling = None if scenario.scaling is None else planned_scaling(scenario.scaling)
    if scaling is not None:
        nodes |= _of_groups(scaling, nodes)
    specs = queue_specs(scenario.queues)
    jobs = planned_jobs(scenario.jobs, queues={queue.name: queue for queue in scenario.queues}, now=NOW)
    reservations = _reservations(scenario.reservations, nodes, jobs)
    return Plan(nodes, specs, jobs, assign_slots(jobs, nodes), reservations, scaling)


def _of_groups(scaling: Scaling, nodes: Mapping[str, PlannedNode]) -> dict[str, PlannedNode]:
    found = {
        name: PlannedNode(name, description, model.NodeState.READY, ())
        for name, description in scaling.groups().first_nodes().items()
    }
    twice = next((name for name in found if name in nodes), None)
    if twice is not None:
        raise InputError("nodes", f"node {twice} belongs to a group of `scaling` already; call it otherwise")
    return found


def _reservations(
    wanted: Sequence[model.Reservation], nodes: Mapping[str, PlannedNode], jobs: Sequence[PlannedJob]
) -> tuple[tuple[str, ReservationSpec], ...]:
    job_ids = {job.name: job.job.id for job in jobs}
    found = []
    for index, one in enumerate(wanted):
        at = f"reservations[{index}]"
        if one.job is not None and one.job not in job_ids:
            raise InputError(f"{at}.job", f"there is no job {one.job}")
        for place, name in enumerate(one.nodes):
            if name not in nodes:
                raise InputError(f"{at}.nodes[{place}]", f"there is no node {name}")
        try:
            spec = ReservationSpec(
                name=one.name,
                nodes=one.nodes,
                gpus=one.gpus,
                gpu_model=one.model,
                queue=one.queue,
                job_id=None if one.job is None else job_ids[one.job],
                starts_at=after(NOW, one.starts_in_s),
                duration_s=one.duration_s,
                repeat=one.repeat,
                reason=one.reason,
            )
        except ValidationError as error:
            first = error.errors()[0]
            said = first["msg"].removeprefix("Value error, ")
            raise InputError(f"{at}.{path(first['loc'])}".rstrip("."), said) from error
        found.append((at, spec))
    return tuple(found)
