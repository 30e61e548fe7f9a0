"""Build the job of a request, or refuse a job that can never run, now or after scaling. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from muster.checks.suites import NONE, PreflightPolicy
from muster.core.settings import ScalingSettings
from muster.gateway.authorise import Principal
from muster.gateway.problems import ProblemError, conflict, forbidden, from_validation, invalid, too_large
from muster.quota.admission import Admission
from muster.schemas import ids
from muster.schemas.access import Role
from muster.schemas.base import FACT_BYTES_MAX, parse_request
from muster.schemas.facts.job import JobSubmitted
from muster.schemas.job import PRIORITY_MAX, Job, JobSpec, TaskGroup, Topology
from muster.schemas.queries import DryRunAnswer

KEY_PATTERN = re.compile(r"^[\x21-\x7e]{1,200}$")
TRACEPARENT = re.compile(r"^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$")
SLOT_BYTES = 125  # one slot of `placed` with the longest node name, without its devices
DEVICE_BYTES = 43  # one device's uuid in `pods-started`
FACT_OVERHEAD_BYTES = 4_096
LEFT_TO_THE_QUEUE = ("total_run_time_s", "min_slice_s")  # unless the body sets them
NODE_LEVEL = "node"  # every fleet has this level without declaring it
NAMES_TOLD_MAX = 10  # known names listed in a refusal

SCALING_CURES = frozenset({"no-node", "model", "gpu", "cpu", "memory", "fragmented", "topology"})
"""Shortages, as the scheduler names them, that another GPU or node may resolve."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of nodes of one kind."""

    gpu_model: str
    gpus: int
    cpu_milli: int
    memory_mib: int
    levels: tuple[str, ...] = ()
    """Topology levels, widest first, without "node"; the levels within a node come last."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The queues and node shapes that a job is checked against."""

    queues: Mapping[str, tuple[Admission, ...]] = field(default_factory=dict)
    """The rules of each queue in each cluster that has it. A job must satisfy all of them: it may run in any cluster,
    and a single cluster cannot grant the queue of another team."""
    shapes: tuple[Shape, ...] = ()
    """Shapes of all nodes; empty while they are unknown."""


def parse_spec(body: bytes) -> JobSpec:
    """Parse a job's specification; list in `left_out` the run times that the body leaves to the queue.

    The same body always gives the same specification, so a retry has the same hash. Raises ProblemError (400, 422).
    """
    try:
        spec = parse_request(JobSpec, body)
    except ValidationError as error:
        raise from_validation(error) from error
    given = spec.model_fields_set
    if spec.left_out:
        raise invalid(
            "`left_out` is derived from the body and may not be set",
            field="left_out",
            cure="Remove `left_out`, and the run times that the queue decides.",
        )
    left_out = tuple(name for name in LEFT_TO_THE_QUEUE if name not in given)
    return spec.model_copy(update={"left_out": left_out}) if left_out else spec


def make_job(spec: JobSpec, *, principal: str, key: str, traceparent: str) -> Job:
    """Build the job of a request; the same request always gives the same job. traceparent: the client's trace
    context; "" to give the job a trace of its own."""
    if not KEY_PATTERN.match(key):
        raise invalid(
            "an idempotency key is 1 to 200 printable characters without spaces",
            field="Idempotency-Key",
            cure="Send a shorter key, a UUID for example.",
        )
    job_id = ids.job_id(team=spec.team, principal=principal, idempotency_key=key)
    if not TRACEPARENT.match(traceparent):
        traceparent = ids.traceparent(ids.trace_id(job_id), ids.span_id(job_id))
    return Job(
        id=job_id,
        spec=spec,
        principal=principal,
        idempotency_key=key,
        body_hash=ids.body_hash(spec),
        trace=traceparent,
    )


def refuse_too_large(job: Job) -> None:
    """Raise ProblemError (413) if a fact about this job could exceed the size limit of a fact."""
    slots = sum(group.replicas for group in job.spec.task_groups)
    devices = sum(group.replicas * (group.gpus or bool(group.gpu_milli)) for group in job.spec.task_groups)
    placed = slots * SLOT_BYTES + devices * 4
    started = slots * 3 + devices * DEVICE_BYTES
    largest = max(placed, started) + FACT_OVERHEAD_BYTES
    if largest > FACT_BYTES_MAX:
        raise too_large(
            f"{slots} replicas with {devices} GPUs make a fact of about {largest} bytes; the limit is {FACT_BYTES_MAX}",
            field="task_groups",
            cure="Split the job: one gang has at most about 4,000 replicas or 12,000 GPUs.",
        )


def refuse_large_body(submitted: JobSubmitted) -> None:
    """Raise ProblemError (413) if the specification itself is too large for a fact."""
    size = len(submitted.model_dump_json().encode())
    if size > FACT_BYTES_MAX:
        raise too_large(
            f"the job makes a fact of {size} bytes; the limit is {FACT_BYTES_MAX}",
            field="body",
            cure="Shorten command and labels; put large input into a file that the job reads.",
        )


def refuse_unknown_suite(spec: JobSpec, policy: PreflightPolicy) -> None:
    """Raise ProblemError (422) if the job names a suite of checks that does not exist."""
    if spec.preflight in (None, NONE) or spec.preflight in policy.suites:
        return
    known = ", ".join((*sorted(policy.suites)[:NAMES_TOLD_MAX], NONE))
    raise invalid(
        f"unknown suite of checks {spec.preflight!r}", field="preflight", cure=f"Use a suite that exists: {known}."
    )


def refuse_unknown_queue(spec: JobSpec, catalogue: Catalogue) -> None:
    """Raise ProblemError (422) if the queue does not exist or is closed."""
    queue = spec.queue_name
    where = "queue" if spec.queue else "team"
    rules = catalogue.queues.get(queue)
    if rules is None:
        known = ", ".join(sorted(catalogue.queues)[:NAMES_TOLD_MAX]) or "none yet"
        raise invalid(f"unknown queue {queue!r}", field=where, cure=f"Use a queue that exists: {known}.")
    if any(rule.closed for rule in rules):
        raise invalid(f"queue {queue!r} is closed", field=where, cure="Use another queue, or ask an operator.")


def refuse_foreign_queue(spec: JobSpec, principal: Principal, catalogue: Catalogue) -> None:
    """Raise ProblemError (403) if the queue does not take the team's jobs from this principal.

    An operator may change the queue's teams, and so may submit to every queue.
    """
    queue, rules = spec.queue_name, catalogue.queues.get(spec.queue_name, ())
    if principal.is_at_least(Role.OPERATOR) or all(rule.takes_from(spec.team, principal.name) for rule in rules):
        return
    teams = frozenset[str].intersection(*(rule.teams for rule in rules))
    told = f"jobs of {', '.join(sorted(teams)[:NAMES_TOLD_MAX])}" if teams else "jobs of no team"
    users = next((rule.template for rule in rules if rule.template), "")
    whose = f"; it belongs to one user below {users!r}, and not to {principal.name}" if users else ""
    raise forbidden(
        f"queue {queue!r} takes {told}, not of team {spec.team!r}{whose}",
        field="queue",
        cure=f"Leave out `queue` to use the team's own, or ask an operator to add {spec.team} to `teams` of {queue}.",
    )


def refuse_priority(priority: int, queue: str, catalogue: Catalogue) -> None:
    """Raise ProblemError (422) if the priority is above the queue's maximum."""
    most = min((rule.priority_max for rule in catalogue.queues.get(queue, ())), default=PRIORITY_MAX)
    if priority > most:
        raise invalid(
            f"priority {priority} is above {most}, the maximum of queue {queue!r}",
            field="priority",
            cure=f"Ask for 0 to {most}, or ask an operator to raise `priority_max` of {queue}.",
        )


def refuse_impossible(spec: JobSpec, catalogue: Catalogue) -> None:
    """Raise ProblemError (422) if a replica fits no node, even an empty one, or no node has the required level."""
    if not catalogue.shapes:
        return
    _refuse_level(spec.topology, catalogue.shapes, path="topology")
    for index, group in enumerate(spec.task_groups):
        _refuse_level(group.topology, catalogue.shapes, path=f"task_groups.{index}.topology")
        refusal = _impossible(group, catalogue.shapes, path=f"task_groups.{index}")
        if refusal is not None:
            raise refusal


def refuse_other_id(job: Job, expected: str) -> None:
    """Raise ProblemError (422) if a workload object's job id differs from the id that the gateway derives."""
    if job.id != expected:
        raise invalid(
            f"the job id of the object must be {expected}, not {job.id}",
            field="job_id",
            cure="Run gateway and agent of the same version.",
        )


def refuse_other_body(stored: Job, asked: Job) -> None:
    """Raise ProblemError (409) if the idempotency key was used for another job."""
    if stored.body_hash != asked.body_hash:
        raise conflict(
            f"job {stored.id} was submitted under this key with another specification",
            field="Idempotency-Key",
            cure="Use a new key for a new job.",
        )


def _refuse_level(request: Topology | None, shapes: tuple[Shape, ...], *, path: str) -> None:
    if request is None or not request.required:
        return
    levels = {NODE_LEVEL: None} | {level: None for shape in shapes for level in shape.levels}
    if request.level not in levels:
        known = ", ".join(list(levels)[:NAMES_TOLD_MAX])
        raise invalid(
            f"no node has the topology level {request.level!r}", field=f"{path}.level", cure=f"The fleet has: {known}."
        )


def _impossible(group: TaskGroup, shapes: tuple[Shape, ...], *, path: str) -> ProblemError | None:
    wants_gpu = bool(group.gpus or group.gpu_milli)
    models = {shape.gpu_model for shape in shapes if shape.gpus}
    usable = shapes
    if wants_gpu and group.gpu_models:
        usable = tuple(shape for shape in shapes if shape.gpus and shape.gpu_model in group.gpu_models)
        if not usable:
            known = ", ".join(sorted(models)[:NAMES_TOLD_MAX]) or "no GPUs at all"
            asked = ", ".join(group.gpu_models[:NAMES_TOLD_MAX])
            return invalid(
                f"no node has a GPU of model {asked}", field=f"{path}.gpu_models", cure=f"The fleet has: {known}."
            )
    asked_of = (
        ("gpus", group.gpus or int(wants_gpu), max(shape.gpus for shape in usable), "GPUs"),
        ("cpu_milli", group.cpu_milli, max(shape.cpu_milli for shape in usable), "thousandths of a core"),
        ("memory_mib", group.memory_mib, max(shape.memory_mib for shape in usable), "MiB of memory"),
    )
    for name, wanted, largest, unit in asked_of:
        if wanted > largest:
            where = "gpu_milli" if name == "gpus" and group.gpu_milli else name
            return invalid(
                f"a replica asks for {wanted} {unit}; the largest matching node has {largest}",
                field=f"{path}.{where}",
                cure="Ask for less per replica, and for more replicas.",
            )
    needs = (asked_of[0][1], group.cpu_milli, group.memory_mib)
    if not any(
        shape.gpus >= needs[0] and shape.cpu_milli >= needs[1] and shape.memory_mib >= needs[2] for shape in usable
    ):
        return invalid(
            f"no node has {needs[0]} GPUs, {needs[1]} thousandths of a core and {needs[2]} MiB of memory together",
            field=path,
            cure="Ask for less of one of them per replica.",
        )
    return None


def shapes_to_come(scaling: ScalingSettings) -> tuple[Shape, ...]:
    """Return one shape per group and GPU model; a composable group counts with the most GPUs a node can get.

    Empty if nothing scales. Topology levels are left out: new nodes have the levels of the fleet that they join.
    """
    if scaling.mode == "off":
        return ()
    found: dict[Shape, None] = {}
    for group in scaling.groups:
        gpus = group.gpus_max if group.composable else group.gpus
        models = group.gpu_models if gpus else ("",)
        if max(group.nodes, group.nodes_max):
            found.update({Shape(model, gpus, group.cpu_milli, group.memory_mib): None for model in models})
    return tuple(found)


def while_it_may_grow(answer: DryRunAnswer) -> DryRunAnswer:
    """Return the scheduler's answer for a fleet that may grow: a job too large for the present nodes may wait.

    The scheduler does not know future nodes. The caller has already checked that each replica fits one of them.
    """
    if not answer.refused or answer.reason not in SCALING_CURES:
        return answer
    cure = "The job waits; scaling attaches GPUs or adds nodes if they are available."
    return answer.model_copy(update={"refused": False, "field": "", "cure": cure})
