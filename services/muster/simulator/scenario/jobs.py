"""Jobs of a scenario, written out: their specifications, and when what happened to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from muster.core import Instant, after
from muster.quota.policy import DEFAULT
from muster.schemas import ids
from muster.schemas.job import RUN_TIME_S_MAX, Checkpointing, Job, JobSpec, TaskGroup, Topology
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster.simulator.document import path
from muster.simulator.errors import InputError
from muster.simulator.scenario import model
from muster.simulator.scenario.resources import cpu_milli, gpus_of, inherited, memory_mib, names_of

PAST_SLICE_S = 1.0
"""A running job that does not say since when it runs is so far past its slice."""

CHECKPOINT_EARLIEST = 0.9
"""Simulated checkpoints come a little before or after their interval, never before this part of it."""
LATE_S = 60.0
"""Delay of a run whose next checkpoint is overdue when the scenario begins."""

_SPEC = JobSpec(name="defaults", team="defaults", task_groups=(TaskGroup(),))


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is under way. replicas: how many of each task group. nodes, devices: of each, None: anywhere."""

    started_at: Instant
    checkpointed_at: Instant | None
    replicas: tuple[int, ...]
    nodes: tuple[str, ...] | None
    devices: model.Devices | None


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job. at: where it stands in the file. name: as the file calls it. run: None if it waits.

    starves_at: when it has waited so long that it starves. held: it waits, and is not to be started.
    """

    at: str
    name: str
    job: Job
    submitted_at: Instant
    starves_at: Instant
    run: Run | None
    held: bool


def planned_jobs(
    jobs: Sequence[model.Job], *, queues: Mapping[str, model.Queue], now: Instant
) -> tuple[PlannedJob, ...]:
    """Return the jobs in the file's order. Raises InputError."""
    found: dict[str, PlannedJob] = {}
    for index, wanted in enumerate(jobs):
        at = f"jobs[{index}]"
        if wanted.queue not in queues:
            known = ", ".join(list(queues)[:8]) or "none"
            raise InputError(f"{at}.queue", f"there is no queue {wanted.queue}; there are: {known}")
        spec = job_spec(wanted, at)
        run = _run(wanted, spec, slice_s=_slice_s(wanted, queues), at=at, now=now)
        starving_s = _starving_s(wanted, queues)
        submitted_s = wanted.submitted_s_ago
        submitted_at = after(now, -(submitted_s or 0.0))
        if run is not None:
            submitted_at = run.started_at if submitted_s is None else submitted_at
            if submitted_at > run.started_at:
                raise InputError(f"{at}.submitted_s_ago", f"{submitted_s:g} is after the start; submit it earlier")
        for name in names_of(wanted.name, wanted.count):
            if name in found:
                raise InputError(f"{at}.name", f"there is a job {name} already; names are distinct")
            job = _job(name, spec, wanted, submitted_at)
            held = wanted.state is model.JobStateWanted.HELD
            found[name] = PlannedJob(at, name, job, submitted_at, after(submitted_at, starving_s), run, held)
    return tuple(found.values())


def job_spec(wanted: model.Job, at: str) -> JobSpec:
    """Return the job as a submitter would write it; missing fields are the product's defaults. Raises InputError."""
    said: dict[str, object] = {
        name: value for name in ("total_run_time_s", "min_slice_s") if (value := getattr(wanted, name)) is not None
    }
    left_out = tuple(name for name in ("total_run_time_s", "min_slice_s") if name not in said)
    try:
        return JobSpec(
            name=_as_name(wanted.name),
            team=wanted.team or wanted.queue,
            queue=wanted.queue,
            priority=wanted.priority,
            kind=wanted.kind,
            task_groups=_groups(wanted, at),
            topology=_topology(wanted.topology),
            full_node=wanted.full_node,
            same_model=wanted.same_model,
            checkpointing=_checkpointing(wanted),
            retries=wanted.retries,
            labels=_labels(wanted),
            preemptible=wanted.preemptible,
            grace_s=wanted.grace_s,
            left_out=left_out,
            **said,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{at}.{path(first['loc'])}".rstrip("."), first["msg"]) from error


def _groups(wanted: model.Job, at: str) -> tuple[TaskGroup, ...]:
    if not wanted.task_groups:
        if wanted.gpus is None:
            raise InputError(f"{at}.gpus", "is missing; say how many GPUs each replica takes, 0 for none")
        main = model.Group(
            name="main",
            gpus=wanted.gpus,
            replicas=wanted.replicas,
            min_replicas=wanted.min_replicas,
            cpu=wanted.cpu,
            memory_gib=wanted.memory_gib,
        )
        return (_group(main, (*wanted.model, *wanted.models), at),)
    if wanted.gpus is not None:
        raise InputError(f"{at}.gpus", "say it in each of task_groups, or leave task_groups out")
    anywhere = (*wanted.model, *wanted.models)
    return tuple(
        _group(group, group.model or anywhere, f"{at}.task_groups[{index}]")
        for index, group in enumerate(wanted.task_groups)
    )


def _group(group: model.Group, models: tuple[str, ...], at: str) -> TaskGroup:
    whole, share = gpus_of(group.gpus, at)
    if group.min_replicas is not None and group.min_replicas > group.replicas:
        raise InputError(f"{at}.min_replicas", f"{group.min_replicas} is above replicas {group.replicas}: lower it")
    return TaskGroup(
        name=group.name,
        replicas=group.replicas,
        gpus=whole,
        gpu_milli=share,
        gpu_models=models,
        cpu_milli=cpu_milli(group.cpu, at),
        memory_mib=memory_mib(group.memory_gib, at),
        min_replicas=group.min_replicas,
        topology=_topology(group.topology),
    )


def _run(wanted: model.Job, spec: JobSpec, *, slice_s: float, at: str, now: Instant) -> Run | None:
    if wanted.state is not model.JobStateWanted.RUNNING:
        for field in ("node", "nodes", "devices", "started_s_ago", "checkpoint_s_ago"):
            if getattr(wanted, field) is not None:
                raise InputError(f"{at}.{field}", "only a running job has that; add `state: running`")
        return None
    total_s = wanted.total_run_time_s or _SPEC.total_run_time_s
    started_s = wanted.started_s_ago
    if started_s is None:
        started_s = min(slice_s + PAST_SLICE_S, total_s / 2)
    checkpoint_s = wanted.checkpoint_s_ago
    if checkpoint_s is not None and checkpoint_s > started_s:
        raise InputError(f"{at}.checkpoint_s_ago", f"{checkpoint_s:g} is before the start {started_s:g} s ago")
    nodes, replicas = _nodes(wanted, spec, at)
    if wanted.devices is not None and (nodes is None or len(wanted.devices) != len(nodes)):
        raise InputError(f"{at}.devices", "goes with `nodes`: one list of GPU indexes for each replica's node")
    return Run(
        started_at=after(now, -started_s),
        checkpointed_at=None if checkpoint_s is None else after(now, -checkpoint_s),
        replicas=replicas,
        nodes=nodes,
        devices=wanted.devices,
    )


def _nodes(wanted: model.Job, spec: JobSpec, at: str) -> tuple[tuple[str, ...] | None, tuple[int, ...]]:
    """Return the nodes of the running replicas, and the number of them in each group."""
    everything = tuple(group.replicas for group in spec.task_groups)
    if wanted.node is not None and wanted.nodes is not None:
        raise InputError(f"{at}.node", "say `node` for all replicas or `nodes` for each, not both")
    if wanted.node is not None:
        return (wanted.node,) * sum(everything), everything
    if wanted.nodes is None:
        return None, everything
    count = len(wanted.nodes)
    if len(everything) == 1 and spec.task_groups[0].replicas_least <= count <= everything[0]:
        return wanted.nodes, (count,)
    if count != sum(everything):
        least = sum(group.replicas_least for group in spec.task_groups)
        wants = (
            f"{sum(everything)}" if least == sum(everything) or len(everything) > 1 else f"{least} to {everything[0]}"
        )
        raise InputError(f"{at}.nodes", f"names {count} nodes; name one for each replica, {wants} of them")
    return wanted.nodes, everything


def _slice_s(wanted: model.Job, queues: Mapping[str, model.Queue]) -> float:
    """Return the slice that the scheduler will use: the job's, or its queue's default, within the queue's maximum."""
    above = tuple(inherited(queues, wanted.queue))
    default = next((queue.min_slice_default_s for queue in above if queue.min_slice_default_s is not None), None)
    most = next(
        (queue.min_slice_max_s for queue in above if queue.min_slice_max_s is not None), DEFAULT.min_slice_max_s
    )
    chosen = wanted.min_slice_s
    if chosen is None:
        chosen = _SPEC.min_slice_s if default is None else default
    return chosen if most is None else min(chosen, most)


def _starving_s(wanted: model.Job, queues: Mapping[str, model.Queue]) -> float:
    """Return how long the job waits until it starves."""
    said = (queue.starving_after_s for queue in inherited(queues, wanted.queue) if queue.starving_after_s is not None)
    return next(said, DEFAULT.starving_after_s)


def _checkpointing(wanted: model.Job) -> Checkpointing | None:
    """Return the checkpointing of the job: no checkpoint before the end of the first interval after the start.

    The clock of a scenario does not move, so the newest checkpoint has the age of the file: a run must not be so late
    with the next one that it comes at once, and without an interval there is none.
    """
    said = (wanted.restart_s, wanted.checkpoint_interval_s, wanted.checkpoint_s_ago)
    if all(value is None for value in said):
        return None
    interval_s = float(RUN_TIME_S_MAX)
    if wanted.checkpoint_interval_s is not None:
        since_s = wanted.checkpoint_s_ago if wanted.checkpoint_s_ago is not None else wanted.started_s_ago or 0.0
        late = since_s >= wanted.checkpoint_interval_s * CHECKPOINT_EARLIEST
        interval_s = since_s / CHECKPOINT_EARLIEST + LATE_S if late else wanted.checkpoint_interval_s
    restart_s = Checkpointing().restart_s if wanted.restart_s is None else wanted.restart_s
    return Checkpointing(interval_s=min(RUN_TIME_S_MAX, interval_s), restart_s=restart_s)


def _labels(wanted: model.Job) -> dict[str, str]:
    ours = {EXIT_CODE: str(wanted.exit_code)}
    if wanted.run_s is not None:
        ours[RUN_S] = f"{wanted.run_s:f}"
    return ours | wanted.labels


def _topology(request: model.Topology | None) -> Topology | None:
    return None if request is None else Topology(level=request.level, required=request.required)


def _job(name: str, spec: JobSpec, wanted: model.Job, submitted_at: Instant) -> Job:
    identity = ids.job_id(team=spec.team, principal=wanted.user, idempotency_key=name)
    return Job(
        id=identity,
        spec=spec if wanted.count == 1 else spec.model_copy(update={"name": _as_name(name)}),
        principal=wanted.user,
        idempotency_key=name,
        body_hash="",
        submitted_at=submitted_at,
        trace=ids.traceparent(ids.trace_id(identity), ids.span_id(identity)),
    )


def _as_name(text: str) -> str:
    """Return a valid name for a specification: files may call a job `b_low` or `Job 7`."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower()).strip("-")
    return kept[:63].strip("-") or "job"
