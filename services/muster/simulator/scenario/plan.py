"""A scenario written out: every node, queue and job of its own, in the wire's units. What cannot be is refused here.

Where running jobs of a scenario stand: their nodes as the file says, their GPUs chosen, all of it checked.

Whole GPUs come first and take the lowest idle ones, then shares, the largest first, each on the fullest GPU that has
room; so whatever can stand together finds a place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from muster.cluster.gangs import gang_of
from muster.core import after
from muster.placement import DEVICE_MILLI, Fleet, Hold, HoldError, NodeShape
from muster.placement import Slot as Place
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import Slot, TaskGroup
from muster.simulator.document import path
from muster.simulator.engine import START
from muster.simulator.errors import InputError
from muster.simulator.scaling import Scaling
from muster.simulator.scenario import model
from muster.simulator.scenario.jobs import PlannedJob, planned_jobs
from muster.simulator.scenario.model import NodeState
from muster.simulator.scenario.resources import PlannedNode, planned_nodes, queue_specs
from muster.simulator.scenario.scaling import planned_scaling

Assignments = dict[str, tuple[Slot, ...]]
"""Slots of running jobs by job name."""


@dataclass(slots=True)
class _Wanted:
    """One replica that is to be placed. devices: as the file says, None: to be chosen."""

    job: PlannedJob
    group: int
    replica: int
    shape: TaskGroup
    node: str
    devices: tuple[int, ...] | None
    field: str

    @property
    def takes_all(self) -> bool:
        return self.job.job.spec.full_node

    @property
    def milli(self) -> int:
        return DEVICE_MILLI if self.shape.gpus or self.takes_all else self.shape.gpu_milli


def assign_slots(jobs: Iterable[PlannedJob], nodes: Mapping[str, PlannedNode]) -> Assignments:
    """Slots of every running job. Raises InputError where a node has not so much."""
    running = [job for job in jobs if job.run is not None]
    fleet = _fleet(nodes)
    idle = {name: [DEVICE_MILLI] * len(node.description.gpu_uuids) for name, node in nodes.items()}
    wanted = [replica for job in running for replica in _replicas(job, nodes)]
    slots: dict[str, dict[tuple[int, int], Slot]] = {job.name: {} for job in running}
    for replica in sorted(wanted, key=_turn):
        devices = _devices(replica, idle[replica.node])
        for device in devices:
            idle[replica.node][device] -= replica.milli
        slot = Slot(
            group=replica.group,
            replica=replica.replica,
            node=replica.node,
            devices=devices,
            gpu_milli=replica.milli if devices else 0,
        )
        _hold(fleet, replica, slot, nodes[replica.node])
        slots[replica.job.name][replica.group, replica.replica] = slot
    found = {name: tuple(slot for _, slot in sorted(of_job.items())) for name, of_job in slots.items()}
    for job in running:
        if job.run is not None and job.run.nodes is None:
            found[job.name] = _anywhere(fleet, job)
    return found


def _fleet(nodes: Mapping[str, PlannedNode]) -> Fleet:
    fleet = Fleet()
    for name, node in nodes.items():
        described = node.description
        fleet.add_node(
            NodeShape(
                name,
                described.cpu_milli,
                described.memory_mib,
                len(described.gpu_uuids),
                described.gpu_model,
                described.domains,
                described.device_domains,
            )
        )
        if node.state is not NodeState.READY:
            fleet.set_usable(name, usable=False)
        for device in node.bad_gpus:
            fleet.set_device_usable(name, device, usable=False)
    return fleet


def _replicas(job: PlannedJob, nodes: Mapping[str, PlannedNode]) -> list[_Wanted]:
    run = job.run
    if run is None or run.nodes is None:
        return []
    found: list[_Wanted] = []
    for group, shape in enumerate(job.job.spec.task_groups):
        for replica in range(run.replicas[group]):
            index = len(found)
            field = f"{job.at}.nodes[{index}]"
            name = run.nodes[index]
            node = nodes.get(name)
            if node is None:
                raise InputError(field, f"there is no node {name}; there are: {', '.join(list(nodes)[:8])}")
            if node.state is NodeState.LOST:
                raise InputError(field, f"node {name} is lost: nothing runs there")
            if shape.gpu_models and node.description.gpu_model not in shape.gpu_models:
                raise InputError(
                    field, f"node {name} has {node.description.gpu_model or 'no'} GPUs, not the model asked"
                )
            devices = None if run.devices is None else run.devices[index]
            found.append(_Wanted(job, group, replica, shape, name, devices, field))
    return found


def _turn(replica: _Wanted) -> tuple[bool, bool, bool, int]:
    return not replica.takes_all, replica.devices is None, not replica.shape.gpus, -replica.shape.gpu_milli


def _devices(replica: _Wanted, idle: Sequence[int]) -> tuple[int, ...]:
    count = len(idle) if replica.takes_all else replica.shape.gpus or (1 if replica.shape.gpu_milli else 0)
    if replica.devices is not None:
        _check_devices(replica, idle, count)
        return replica.devices
    if replica.milli < DEVICE_MILLI and count:
        fitting = [(milli, device) for device, milli in enumerate(idle) if milli >= replica.milli]
        chosen = tuple(device for _, device in sorted(fitting)[:count])
    else:
        chosen = tuple(device for device, milli in enumerate(idle) if milli == DEVICE_MILLI)[:count]
    if len(chosen) < count:
        free = sum(milli == DEVICE_MILLI for milli in idle)
        wants = f"{count} GPUs" if replica.milli == DEVICE_MILLI else f"{replica.milli / DEVICE_MILLI:g} of a GPU"
        raise InputError(
            replica.field,
            f"node {replica.node} is over-full: {replica.job.name} takes {wants}, {free} of {len(idle)} GPUs are idle;"
            " name another node",
        )
    return chosen


def _check_devices(replica: _Wanted, idle: Sequence[int], count: int) -> None:
    field = replica.field.replace(".nodes[", ".devices[")
    devices = replica.devices or ()
    if len(set(devices)) != count:
        raise InputError(field, f"names {len(set(devices))} GPUs, the replica takes {count}")
    for device in devices:
        if not 0 <= device < len(idle):
            raise InputError(field, f"node {replica.node} has no GPU {device}: they are 0 to {len(idle) - 1}")
        if idle[device] < replica.milli:
            raise InputError(field, f"GPU {device} of node {replica.node} is held already; name another")


def _hold(fleet: Fleet, replica: _Wanted, slot: Slot, node: PlannedNode) -> None:
    place = Place(slot.group, slot.replica, slot.node, slot.devices, slot.gpu_milli)
    takes = node.description if replica.takes_all else replica.shape
    try:
        fleet.hold(Hold(takes.cpu_milli, takes.memory_mib, place))
    except HoldError as error:
        raise InputError(replica.field, f"node {replica.node} is over-full: {error}; name another node") from error


def _anywhere(fleet: Fleet, job: PlannedJob) -> tuple[Slot, ...]:
    holds = fleet.find(gang_of(job.job))
    if holds is None:
        raise InputError(f"{job.at}.nodes", "there is no room left for it to run; name its nodes, or let it wait")
    for hold in holds:
        fleet.hold(hold)
    return tuple(
        Slot(
            group=hold.slot.group,
            replica=hold.slot.replica,
            node=hold.slot.node,
            devices=hold.slot.devices,
            gpu_milli=hold.slot.gpu_milli,
        )
        for hold in holds
    )


NOW = START
"""The time at which a scenario begins."""


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
