"""A trace's tasks as jobs that are submitted at the trace's times."""

import csv
from collections.abc import Iterator, Mapping, Sequence

from muster.core import Instant, after
from muster.core.seeded import uniform
from muster.fabric.layout import device_uuids
from muster.openb.trace import OpenbNode, OpenbTask
from muster.schemas import ids
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Job, JobSpec
from muster.simulator.load.policy import Assigner

COPY_SPREAD_S = 86_400.0
"""Copies of a task are submitted within this time after it: a scaled trace is denser, not a row of bursts."""

Arrival = tuple[Instant, Job]


def openb_nodes(nodes: Sequence[OpenbNode]) -> dict[str, NodeJoined]:
    """Return descriptions by name; the trace has no racks."""
    return {
        node.name: NodeJoined(
            cpu_milli=node.cpu_milli,
            memory_mib=node.memory_mib,
            gpu_model=node.gpu_model,
            gpu_uuids=device_uuids(node.name, node.gpus),
        )
        for node in nodes
    }


def qos_by_task(text: str) -> dict[str, str]:
    """Return the column `qos` of a task table that `parse_tasks` has read, by task name; empty without the column."""
    rows = csv.DictReader(text.splitlines())
    rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
    return {(row.get("name") or "").strip(): (row.get("qos") or "").strip() for row in rows}


def arrivals(
    tasks: Sequence[OpenbTask],
    *,
    qos: Mapping[str, str],
    assigner: Assigner,
    start: Instant,
    scale: float = 1.0,
    compress: float = 1.0,
    seed: int = 1,
) -> list[Arrival]:
    """Earliest first. scale: so many jobs per task, on average. compress: tasks come so many times as fast."""
    found = []
    for task in tasks:
        for name, later_s in _copies(task, scale, seed):
            at = after(start, (task.creation_s + later_s) / compress)
            found.append((at, job_of(assigner.spec(task, qos.get(task.name, ""), name=name), at, key=name)))
    return sorted(found, key=lambda arrival: arrival[0])


def job_of(spec: JobSpec, at: Instant, *, key: str, principal: str = "somebody") -> Job:
    """Return the job as it is accepted."""
    return Job(
        id=ids.job_id(team=spec.team, principal=principal, idempotency_key=key),
        spec=spec,
        principal=principal,
        idempotency_key=key,
        body_hash="",
        submitted_at=at,
    )


def _copies(task: OpenbTask, scale: float, seed: int) -> Iterator[tuple[str, float]]:
    whole, part = divmod(scale, 1.0)
    count = int(whole) + (uniform(seed, "copies", task.name) < part)
    name = task.name.lower().replace("_", "-").replace(".", "-")
    for copy in range(count):
        if copy == 0:
            yield name, 0.0
        else:
            yield f"{name}-{copy}", COPY_SPREAD_S * uniform(seed, "later", task.name, copy)
