"""The facts of one staged job, with what the scheduler, its GPUs and its output say of it. Deterministic."""

import json
import math
from collections.abc import Sequence

from muster.schemas.facts.scale import Alternative
from muster.schemas.live import JobReadings, OutputLine, OutputPage, Reading
from muster.schemas.queries import ScaleChoiceView
from muster.schemas.views import FactView, JobView

S = 1_000_000_000
MS = 1_000_000
TRACE = "00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-01"
Told = tuple[str, str, str, int, dict[str, object]]


def facts_of(job: JobView) -> tuple[FactView, ...]:
    """From submission to where the job stands; one preemption before, if it made way."""
    slots = [slot.model_dump(mode="json") for slot in job.slots]
    spec = {
        "name": job.name,
        "team": job.team,
        "queue": job.queue,
        "priority": job.priority,
        "task_groups": [
            {"name": "main", "replicas": job.replicas, "gpus": 8, "cpu_milli": 64_000, "memory_mib": 524_288}
        ],
        "checkpointing": {"interval_s": 900, "restart_s": 60},
        "command": ["python", "train.py", "--config", "70b.yaml"],
    }
    start = job.submitted_at
    told: list[Told] = [
        ("gateway", "submitted", "", start, {"job": {"id": job.id, "spec": spec, "principal": job.principal}}),
        (
            "federation",
            "routed",
            "submitted",
            start + 4 * MS,
            {"cluster": "atlas", "job": {"id": job.id, "spec": spec}},
        ),
        ("scheduler", "queued", "routed", start + 9 * MS, {"queue": job.queue, "attempt": 1, "reason": "submitted"}),
    ]
    if job.reason:
        told.append(
            ("scheduler", "unschedulable", "queued", start + 31 * MS, {"reason": job.reason, "detail": job.detail})
        )
    if job.placed_at:
        cause = "unschedulable" if job.reason else "queued"
        told.append(("scheduler", "placed", cause, job.placed_at, {"attempt": 1, "slots": slots, "slice_s": 3600}))
    if job.running_at:
        told += [
            ("agent", "pods-started", "placed", job.running_at - 40 * MS, {"attempt": 1}),
            ("scheduler", "running", "pods-started", job.running_at, {"attempt": 1, "preflight": "null"}),
        ]
    if job.running_at and job.checkpointed_at:
        told.append(("agent", "checkpointed", "running", job.checkpointed_at, {"attempt": 1}))
    if job.ended_at:
        code = job.exit_code
        ran_s = (job.ended_at - job.running_at) / S
        outcome = "failed" if code else "succeeded"
        told += [
            (
                "agent",
                "pods-exited",
                "running",
                job.ended_at - 12 * MS,
                {"attempt": 1, "outcome": outcome, "exit_code": code, "ran_s": ran_s},
            ),
            (
                "scheduler",
                job.phase.value,
                "pods-exited",
                job.ended_at,
                {"exit_code": code, "ran_s": ran_s, "reason": job.reason},
            ),
        ]
    return tuple(_fact(job, seq, one) for seq, one in enumerate(told, start=1))


def _fact(job: JobView, seq: int, told: Told) -> FactView:
    writer, name, cause, time, body = told
    return FactView(
        id=f"{job.id}-{name}",
        seq=seq,
        time=time,
        stream="FED" if writer in {"gateway", "federation"} else "LOG_atlas",
        cluster="atlas",
        writer=writer,
        kind="job",
        subject_id=job.id,
        name=name,
        trace=TRACE,
        causes=(f"{job.id}-{cause}",) if cause else (),
        body=json.dumps(body),
    )


def readings_of(job: JobView, now_ns: int, *, moments: int = 180, idle: Sequence[int] = ()) -> JobReadings:
    """Every five seconds until now. idle: which of its GPUs do nothing."""
    devices = [f"{slot.node}/{index}" for slot in job.slots for index in slot.devices]
    at = tuple(now_ns - (moments - step) * 5 * S for step in range(moments))
    rows = {
        name: tuple(_reading(place, step, is_idle=place in idle) for step in range(moments))
        for place, name in enumerate(devices)
    }
    return JobReadings(job_id=job.id, at=at, devices=rows)


def _reading(place: int, step: int, *, is_idle: bool) -> Reading:
    if is_idle:
        return (0.0, 34.0, 512, 71.0)
    stall = 0.25 if step % 60 > 54 else 1.0  # a checkpoint is written: all wait
    pct = max(0.0, min(100.0, stall * (86 + 9 * math.sin(step / 7 + place) + 3 * math.sin(step * 2.3 + place * 5))))
    return (round(pct, 1), round(48 + pct / 4, 1), 71_000 + 300 * place, round(90 + 5.8 * pct, 1))


def output_of(job: JobView, now_ns: int, *, lines: int = 80) -> OutputPage:
    """What training prints."""
    told = [
        OutputLine(
            at=now_ns - (lines - step) * S,
            replica=step % max(1, job.replicas),
            attempt=1,
            text=f"step {step * 20:>6}  loss {3.2 * math.exp(-step / 60) + 1.71:.4f}  tok/s {41_000 + 9 * step}",
        )
        for step in range(lines)
    ]
    return OutputPage(job_id=job.id, lines=tuple(told))


def choices(now_ns: int, jobs: Sequence[JobView]) -> tuple[ScaleChoiceView, ...]:
    """Newest first: under way, done, failed, nothing helps, and something returned."""
    waiting = [job.id for job in jobs][:4]
    looked = (
        Alternative(
            what="attach 4 x H100 to gpu-0003",
            fits=True,
            chosen=True,
            gpus=4,
            watts=2_800,
            ready_s=9.5,
            detail="the pool has 11 free; the node has 4 free places in one switch domain",
        ),
        Alternative(
            what="attach 4 x H100 over gpu-0001 and gpu-0007",
            fits=False,
            gpus=4,
            watts=2_800,
            ready_s=9.5,
            detail="the job asks for one node",
        ),
        Alternative(
            what="move 2 idle H100 from gpu-0008",
            fits=False,
            gpus=2,
            watts=0,
            ready_s=14,
            detail="only 2 of 4 are idle",
        ),
        Alternative(
            what="add a node of group a100-large",
            fits=True,
            gpus=8,
            nodes=1,
            watts=6_400,
            ready_s=240,
            detail="takes longer, and 4 of its 8 GPUs would stand idle",
        ),
    )

    def one(number: int, name: str, ago_s: int, **more: object) -> ScaleChoiceView:
        fields = {
            "id": f"scale-{number:04}",
            "cluster": "atlas",
            "name": name,
            "case": 1,
            "at": now_ns - ago_s * S,
        } | more
        return ScaleChoiceView.model_validate(fields)

    return (
        one(
            9,
            "gpu-attach-chosen",
            7,
            node="gpu-0003",
            device_model="H100",
            count=4,
            jobs=waiting[:1],
            alternatives=looked,
            watts=2_800,
            ready_s=9.5,
            reason="4 more H100 on gpu-0003 let the job run; the fleet has 5 free on 4 nodes, and it asks for one node",
        ),
        one(
            8,
            "nothing-chosen",
            95,
            jobs=waiting[1:2],
            reason="64 H100 asked; the pools have 7 and no group may grow",
            case=2,
            alternatives=(Alternative(what="attach 64 x H100", fits=False, gpus=64, detail="the pools have 7"),),
        ),
        one(
            7,
            "gpu-remove-chosen",
            400,
            case=3,
            node="gpu-0005",
            device_model="H100",
            devices=("GPU-a1", "GPU-a2"),
            watts=1_400,
            ready_s=6,
            outcome="done",
            ended_at=now_ns - 394 * S,
            reason="2 H100 stood idle for 10 min and nobody waits for them",
            alternatives=(Alternative(what="return 2 x H100", fits=True, chosen=True, gpus=2, watts=1_400, ready_s=6),),
        ),
        one(
            6,
            "node-add-chosen",
            900,
            group="a100-large",
            jobs=waiting[2:4],
            outcome="done",
            ended_at=now_ns - 671 * S,
            watts=6_400,
            ready_s=240,
            reason="2 jobs of 8 A100 wait, and no pool has any",
            alternatives=looked[3:],
        ),
        one(
            5,
            "gpu-attach-chosen",
            1_100,
            node="gpu-0007",
            device_model="A100",
            count=2,
            jobs=waiting[2:3],
            outcome="failed",
            ended_at=now_ns - 1_070 * S,
            detail="the fabric refused: port 7 is down",
            reason="2 more A100 on gpu-0007 let the job run",
            alternatives=looked[:1],
        ),
        one(
            4,
            "gpu-attach-chosen",
            1_130,
            node="gpu-0002",
            device_model="H100",
            count=8,
            jobs=waiting[:3],
            outcome="done",
            ended_at=now_ns - 1_090 * S,
            watts=5_600,
            ready_s=9.5,
            reason="8 more H100 on gpu-0002 let 3 jobs run",
            alternatives=looked,
        ),
        one(
            3,
            "node-remove-chosen",
            1_500,
            case=4,
            node="gpu-0011",
            outcome="done",
            ended_at=now_ns - 1_380 * S,
            watts=6_400,
            reason="gpu-0011 stood idle for 15 min; its group keeps 2 others",
            ready_s=120,
        ),
    )
