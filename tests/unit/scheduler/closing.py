"""Requests to close nodes and devices, as the scheduler's tests say them."""

from muster.core import NS_PER_S, Instant
from muster.schemas.facts.cordons import CordonRequested
from muster.schemas.facts.job import JobCheckpointed
from muster.schemas.facts.node import RunningJobs, WithholdRequested, WithholdWithdrawn
from muster.schemas.job import Job
from unit.scheduler.world import World

FINISH, MOVE, REQUEUE = RunningJobs.FINISH, RunningJobs.MOVE, RunningJobs.REQUEUE


def ask(
    world: World,
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
    world.say(by, kind, name, "withhold-requested", payload)


def withdraw(
    world: World, name: str, *, request: str = "r1", by: str = "upgrader", after_withheld: bool = False
) -> None:
    payload = WithholdWithdrawn(request_id=request, after_withheld=after_withheld)
    world.say(by, "node", name, "withhold-withdrawn", payload)
    world.run()


def person(world: World, name: str, what: str) -> None:
    """Somebody cordons, drains or resumes a node."""
    payload = CordonRequested(principal="ada", reason="smells of smoke")
    world.say("federation", "node", name, f"{what}-forwarded", payload)
    world.run()


def checkpointed(world: World, one: Job, *, attempt: int = 1) -> None:
    world.say("agent", "job", one.id, "checkpointed", JobCheckpointed(attempt=attempt))
    world.run()
