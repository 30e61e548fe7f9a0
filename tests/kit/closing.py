"""Requests to close nodes and devices, as the scheduler's tests say them."""

from kit.scheduler import VirtualScheduler
from muster.core import NS_PER_S, Instant
from muster.schemas.facts.job import JobCheckpointed
from muster.schemas.facts.node import CordonRequested, RunningJobs, WithholdRequested, WithholdWithdrawn
from muster.schemas.job import Job

FINISH, MOVE, REQUEUE = RunningJobs.FINISH, RunningJobs.MOVE, RunningJobs.REQUEUE


def ask(
    world: VirtualScheduler,
    name: str,
    *,
    running: RunningJobs = FINISH,
    in_s: float = 0.0,
    request: str = "r1",
    by: str = "upgrader",
    kind: str = "node",
    force: bool = False,
) -> None:
    """A service wants a node or device free, in so many seconds; nobody has decided yet."""
    from_at = Instant(world.now + round(in_s * NS_PER_S)) if in_s else 0
    payload = WithholdRequested(request_id=request, reason="driver", force=force, running=running, from_at=from_at)
    world.write(by, kind, name, "withhold-requested", payload)


def withdraw(
    world: VirtualScheduler, name: str, *, request: str = "r1", by: str = "upgrader", after_withheld: bool = False
) -> None:
    payload = WithholdWithdrawn(request_id=request, after_withheld=after_withheld)
    world.write(by, "node", name, "withhold-withdrawn", payload)
    world.settle()


def person(world: VirtualScheduler, name: str, what: str) -> None:
    """Somebody cordons, drains or resumes a node."""
    payload = CordonRequested(principal="ada", reason="smells of smoke")
    world.write("federation", "node", name, f"{what}-forwarded", payload)
    world.settle()


def checkpointed(world: VirtualScheduler, one: Job, *, attempt: int = 1) -> None:
    world.write("agent", "job", one.id, "checkpointed", JobCheckpointed(attempt=attempt))
    world.settle()
