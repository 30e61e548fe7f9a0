"""A running cluster, as the read model shows it, as a scenario.

The read model does not hold what a job asks beyond its GPUs (CPU, memory, models, topology) nor how long it will run,
so the scenario has none of that: GPUs alone decide, and jobs run on. A job whose groups differ is taken apart by its
slots while it runs, and counted in single GPUs while it waits.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import JsonValue

from muster.schemas import quantities
from muster.schemas.facts.queue import GPU, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import Phase
from muster.schemas.views import JobView, NodeView, QueueView

Part = dict[str, JsonValue]

_RUNS = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})
_S = 1_000_000_000


def scenario_of(
    *,
    nodes: Iterable[NodeView],
    queues: Iterable[QueueView],
    jobs: Sequence[JobView],
    reservations: Iterable[ReservationSpec] = (),
    now_ns: int,
) -> Part:
    """Return the content of a scenario file. now_ns: the time at which the scenario begins."""
    live = sorted((job for job in jobs if not job.phase.is_terminal), key=lambda job: (job.submitted_at, job.id))
    names = _names(live)
    nodes = tuple(nodes)
    lost = {node.name for node in nodes if node.lost}
    return {
        "nodes": [_node(node) for node in nodes],
        "queues": [_queue(queue) for queue in queues],
        "jobs": [_job(job, names[job.id], now_ns, lost) for job in live],
        "reservations": [_reservation(spec, names, now_ns) for spec in reservations],
    }


def queue_part(spec: QueueSpec) -> Part:
    """Return a queue as a scenario writes it, without inherited values."""
    plain = spec.model_dump(mode="json", exclude_defaults=True)
    quota, limit = plain.pop("gpu_milli_quota", None), plain.pop("gpu_milli_limit", None)
    for field in ("quota", "borrowing_limit", "lending_limit"):
        if field in plain:
            plain[field] = _human(plain[field])
    template = plain.get("user_template")
    if template is not None:
        plain["user_template"] = {
            field: value if field == "weight" else _human(value) for field, value in template.items()
        }
    if quota is not None:
        plain.setdefault("quota", {}).setdefault("gpu", quota / 1000)
    if limit is not None:
        plain.setdefault("borrowing_limit", {}).setdefault("gpu", (limit - (quota or 0)) / 1000)
    return plain


def _human(amounts: dict[str, int]) -> dict[str, float]:
    return quantities.human(amounts)


def _node(node: NodeView) -> Part:
    part: Part = {
        "name": node.name,
        "gpus": node.gpus,
        "cpu": node.cpu_milli / 1000,
        "memory_gib": node.memory_mib / 1024,
    }
    if node.gpu_model:
        part["model"] = node.gpu_model
    if node.domains:
        part["labels"] = dict(node.domains)
    if node.device_domains:
        part["device_domains"] = {level: list(of_gpus) for level, of_gpus in node.device_domains}
    if node.lost or not node.usable:
        part["state"] = "lost" if node.lost else "cordoned"
    return part


def _queue(queue: QueueView) -> Part:
    if queue.spec is not None:
        return queue_part(queue.spec)
    spec = QueueSpec(
        name=queue.name,
        parent=queue.parent,
        gpu_milli_quota=None if GPU in queue.quota else queue.gpu_milli_quota,
        gpu_milli_limit=None if GPU in queue.borrowing_limit else queue.gpu_milli_limit,
        quota=queue.quota,
        borrowing_limit=queue.borrowing_limit,
        lending_limit=queue.lending_limit,
        weight=queue.weight,
        order=queue.order,
        closed=queue.closed,
    )
    return queue_part(spec)


def _names(jobs: Sequence[JobView]) -> dict[str, str]:
    """Return the jobs' own names, with a part of the id if several jobs have the same name."""
    counts = Counter(job.name for job in jobs)
    return {job.id: job.name if counts[job.name] == 1 else f"{job.name[:50]}-{job.id[:12].lower()}" for job in jobs}


def _job(job: JobView, name: str, now_ns: int, lost: set[str]) -> Part:
    part: Part = {
        "name": name,
        "queue": job.queue,
        "priority": job.priority,
        "preemptible": job.preemptible,
        "team": job.team,
        "user": job.principal,
        "kind": job.kind.value,
        "submitted_s_ago": _ago_s(job.submitted_at, now_ns),
    }
    if job.held:
        part["state"] = "held"
    if job.phase in _RUNS and job.slots and lost.isdisjoint(slot.node for slot in job.slots):
        return part | _running(job, now_ns)
    each, rest = divmod(job.gpu_milli, max(1, job.replicas))
    if rest or (each > 1000 and each % 1000):
        return part | {"gpus": 1, "replicas": max(1, -(-job.gpu_milli // 1000))}
    elastic = {"min_replicas": job.min_replicas} if 0 < job.min_replicas < job.replicas else {}
    return part | {"gpus": each / 1000, "replicas": max(1, job.replicas), **elastic}


def _running(job: JobView, now_ns: int) -> Part:
    began = job.running_at or job.placed_at
    part: Part = {
        "state": "running",
        "nodes": [slot.node for slot in job.slots],
        "devices": [list(slot.kept_at) for slot in job.slots],
        "started_s_ago": _ago_s(began, now_ns),
    }
    if job.checkpointed_at >= began:
        part["checkpoint_s_ago"] = _ago_s(job.checkpointed_at, now_ns)
    if job.slice_ends_at and job.running_at:
        part["min_slice_s"] = max(0.0, (job.slice_ends_at - job.running_at) / _S)
    groups: dict[int, list[float]] = {}
    for slot in job.slots:
        groups.setdefault(slot.group, []).append(slot.gpu_milli_held / 1000)
    if len(groups) == 1:
        held = next(iter(groups.values()))
        elastic: Part = {"replicas": len(held)}
        if 0 < job.min_replicas < job.replicas:
            elastic = {"replicas": max(job.replicas, len(held)), "min_replicas": min(job.min_replicas, len(held))}
        return part | {"gpus": held[0], **elastic}
    written: list[JsonValue] = [
        {"name": f"group-{group}", "gpus": held[0], "replicas": len(held)} for group, held in sorted(groups.items())
    ]
    return part | {"task_groups": written}


def _reservation(spec: ReservationSpec, names: dict[str, str], now_ns: int) -> Part:
    part: Part = {
        "name": spec.name,
        "starts_in_s": (spec.starts_at - now_ns) / _S,
        "duration_s": spec.duration_s,
        "repeat": spec.repeat.value,
    }
    for field, value in (("reason", spec.reason), ("queue", spec.queue), ("model", spec.gpu_model)):
        if value:
            part[field] = value
    part |= {"nodes": list(spec.nodes)} if spec.nodes else {"gpus": spec.gpus}
    if spec.job_id is not None:
        part["job"] = names.get(spec.job_id, spec.job_id)
    return part


def _ago_s(moment: int, now_ns: int) -> float:
    return max(0.0, round((now_ns - moment) / _S, 3))
