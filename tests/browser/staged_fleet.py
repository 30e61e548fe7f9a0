"""A fleet for the stage: three teams that lend to each other, jobs in every state, made from a seed. Deterministic."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from muster.schemas.facts.queue import QueueOrder
from muster.schemas.facts.reservation import Repeat, ReservationSpec
from muster.schemas.job import JobKind, Phase, Slot
from muster.schemas.views import JobView, NodeView, QueueView, ReservationView

S = 1_000_000_000
GPUS = 8
MODELS = ("H100", "A100")
TEAMS = {"research": ("llm", "vision"), "platform": ("platform",), "serving": ("serving",)}
PEOPLE = ("ada", "grace", "katherine", "alan", "edsger", "barbara")
NAMES = (
    "llama-70b",
    "pretrain",
    "finetune",
    "eval-suite",
    "diffusion",
    "embeddings",
    "rlhf",
    "tokenise",
    "distil",
    "sweep",
)
REASONS = {
    "quota": "research holds 32 of 32 GPUs, and nothing more can be borrowed",
    "gpu": "16 GPUs asked, 5 free",
    "fragmented": "8 GPUs on one node asked; 11 are free on 6 nodes",
    "behind": "4 jobs of the same shape in front of it",
    "borrowing-limit": "serving borrows 6 of at most 6 GPUs",
}


@dataclass(frozen=True)
class Fleet:
    """Rows as the read model would have them."""

    jobs: tuple[JobView, ...]
    nodes: tuple[NodeView, ...]
    queues: tuple[QueueView, ...]
    reservations: tuple[ReservationView, ...]


def job_id(number: int) -> str:
    """An id of the right shape: 26 of the alphabet's letters and 2 to 7."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    mixed, digits = (number * 0x9E3779B97F4A7C15 + 0x1234567) % 2**128, []
    for _ in range(26):
        mixed, digit = divmod(mixed * 31 + 7, 32)
        mixed %= 2**128
        digits.append(letters[digit])
    return "".join(digits)


def small_fleet(now_ns: int, *, nodes: int = 12, waiting: int = 40, ended: int = 60) -> Fleet:
    """Some dozens of jobs: enough to look at. Nodes are full but for a few GPUs."""
    random = Random(7)
    rows = [_node(number) for number in range(nodes)]
    running = list(_running(rows, now_ns, random))
    waits = [_waiting(number, now_ns, random) for number in range(waiting)]
    over = [_ended(number, now_ns, random) for number in range(ended)]
    return Fleet(
        jobs=(*running, *waits, *over),
        nodes=tuple(rows),
        queues=queues(running, waits),
        reservations=_reservations(now_ns),
    )


def many_jobs(count: int, now_ns: int, *, first: int = 0, seed: int = 3) -> tuple[JobView, ...]:
    """So many live jobs: one of eight runs, the others wait."""
    random = Random(seed)
    found = []
    for number in range(first, first + count):
        job = _waiting(100_000 + number, now_ns, random)
        if number % 8 == 0:
            node = f"gpu-{random.randrange(1750):04}"
            job = job.model_copy(
                update={
                    "phase": Phase.RUNNING,
                    "running_at": now_ns - random.randrange(9_000) * S,
                    "nodes": (node,),
                    "reason": "",
                    "detail": "",
                }
            )
        found.append(job)
    return tuple(found)


COME, RUN = 6, 30
"""Jobs of one slice of a busy moment: so many are new, so many begin to run."""


def busy_slice(jobs: Sequence[JobView], number: int, *, now_ns: int, seq: int) -> list[JobView]:
    """What changes in one slice, the first being number 0, of a moment in which these jobs live."""
    fresh = many_jobs(COME, now_ns, first=len(jobs) + COME * number)
    come = [one.model_copy(update={"submitted_at": now_ns + number * S, "seq": seq}) for one in fresh]
    run = [
        one.model_copy(update={"phase": Phase.RUNNING, "running_at": now_ns, "seq": seq})
        for one in jobs[number * RUN : (number + 1) * RUN]
    ]
    return [*come, *run]


def queues(running: list[JobView], waiting: list[JobView]) -> tuple[QueueView, ...]:
    """The tree of three teams, with what these jobs hold."""

    def queue(name: str, parent: str | None, quota: int | None, **more: object) -> QueueView:
        mine = [job for job in running if job.queue == name or name in _above(job.queue)]
        held = sum(job.gpu_milli for job in mine)
        return QueueView.model_validate(
            {
                "name": name,
                "cluster": "atlas",
                "parent": parent,
                "gpu_milli_held": held,
                "quota": {} if quota is None else {"gpu_milli": quota * 1000},
                "held": {
                    "gpu_milli": held,
                    "gpu_milli:H100": held * 2 // 3,
                    "cpu_milli": held * 8,
                    "memory_mib": held * 64,
                },
                "jobs_queued": sum(job.queue == name for job in waiting),
                "jobs_running": sum(job.queue == name for job in running),
                **more,
            }
        )

    return (
        queue("org", None, 8, order=QueueOrder.FAIR),
        queue("research", "org", 16, weight=2.0, share=0.21, used_share=0.24),
        queue("llm", "research", 24, weight=2.0, share=0.18, used_share=0.31),
        queue("vision", "research", 8, share=0.0, used_share=0.07),
        queue("platform", "org", 24, lending_limit={"gpu_milli": 12_000}, order=QueueOrder.FIFO),
        queue("serving", "org", 8, borrowing_limit={"gpu_milli": 16_000}, share=0.09, used_share=0.05),
        queue("archive", None, None, closed=True),
    )


def _above(queue: str) -> tuple[str, ...]:
    return {"llm": ("research", "org"), "vision": ("research", "org")}.get(queue, ("org",))


def _node(number: int) -> NodeView:
    return NodeView(
        name=f"gpu-{number:04}",
        cluster="atlas",
        gpu_model=MODELS[number % 4 == 3],
        gpus=GPUS,
        cpu_milli=128_000,
        memory_mib=1_048_576,
        domains=(("rack", f"r{number // 4 + 1}"), ("block", "b1")),
        usable=number != 9,
        reason="drained for a new driver" if number == 9 else "",
    )


def _base(number: int, random: Random) -> dict[str, object]:
    team = random.choice((*TEAMS, "research", "research"))
    queue = random.choice(TEAMS[team])
    name = random.choice(NAMES)
    return {
        "id": job_id(number),
        "name": f"{name}-{number % 97}",
        "team": team,
        "queue": queue,
        "cluster": "atlas",
        "principal": random.choice(PEOPLE),
        "priority": random.choice((50, 50, 50, 60, 80)),
        "kind": JobKind.INFERENCE if team == "serving" else JobKind.BATCH,
        "seq": number + 1,
        "replicas": 1,
        "min_replicas": 1,
    }


def _running(nodes: list[NodeView], now_ns: int, random: Random) -> list[JobView]:
    found: list[JobView] = []
    for place, node in enumerate(nodes):
        if not node.usable:
            continue
        mine: list[JobView] = []
        first = 0
        while first < GPUS - (place % 3):
            count = min(random.choice((1, 2, 4, 4, 8)), GPUS - first)
            devices = tuple(range(first, first + count))
            mine.append(_run(1_000 + len(found) + len(mine), node.name, devices, now_ns, random))
            first += count
        found += mine
        held = {"jobs": tuple(job.id for job in mine), "gpu_milli_held": first * 1_000}
        nodes[place] = node.model_copy(update=held)
    return found


def _run(number: int, node: str, devices: tuple[int, ...], now_ns: int, random: Random) -> JobView:
    since = now_ns - random.randrange(60, 20_000) * S
    fields = _base(number, random) | {
        "phase": Phase.RUNNING,
        "gpu_milli": len(devices) * 1000,
        "slots": (Slot(group=0, replica=0, node=node, devices=devices, gpu_milli=1000),),
        "nodes": (node,),
        "attempt": 1,
        "submitted_at": since - 90 * S,
        "queued_at": since - 89 * S,
        "placed_at": since - 2 * S,
        "running_at": since,
        "slice_ends_at": since + 3_600 * S,
        "checkpointed_at": now_ns - random.randrange(30, 900) * S,
    }
    return JobView.model_validate(fields)


def _waiting(number: int, now_ns: int, random: Random) -> JobView:
    reason = random.choice(tuple(REASONS))
    came = now_ns - random.randrange(2, 40_000) * S
    fields = _base(number, random) | {
        "phase": Phase.QUEUED,
        "gpu_milli": random.choice((1, 2, 4, 8, 16, 32, 64)) * 1000,
        "attempt": 1,
        "held": number % 29 == 5,
        "submitted_at": came,
        "queued_at": came,
        "reason": reason,
        "detail": REASONS[reason],
    }
    return JobView.model_validate(fields)


def _ended(number: int, now_ns: int, random: Random) -> JobView:
    phase = random.choice(
        (Phase.SUCCEEDED, Phase.SUCCEEDED, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.TIMED_OUT)
    )
    end = now_ns - random.randrange(60, 90_000) * S
    start = end - random.randrange(20, 9_000) * S
    fields = _base(5_000 + number, random) | {
        "phase": phase,
        "gpu_milli": random.choice((1, 4, 8, 16)) * 1000,
        "submitted_at": start - 120 * S,
        "queued_at": start - 119 * S,
        "placed_at": start - S,
        "running_at": start,
        "ended_at": end,
        "nodes": (f"gpu-{number % 12:04}",),
        "exit_code": 137 if phase is Phase.FAILED else 0,
    }
    return JobView.model_validate(fields)


def _reservations(now_ns: int) -> tuple[ReservationView, ...]:
    night = ReservationSpec(
        name="night-train",
        gpus=64,
        gpu_model="H100",
        queue="llm",
        starts_at=now_ns + 5 * 3_600 * S,
        duration_s=36_000,
        repeat=Repeat.WEEKLY,
        reason="the weekly run of the large model",
    )
    firmware = ReservationSpec(
        name="firmware",
        nodes=("gpu-0001", "gpu-0002"),
        starts_at=now_ns - 600 * S,
        duration_s=3_600,
        reason="new firmware for the switches",
    )
    return (
        ReservationView(
            name="night-train", cluster="atlas", spec=night, next_starts_at=night.starts_at, held_gpu_milli=0
        ),
        ReservationView(name="firmware", cluster="atlas", spec=firmware, active=True, held_gpu_milli=11_000),
    )
