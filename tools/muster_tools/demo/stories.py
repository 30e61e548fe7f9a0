"""The four demonstrations of devices, run in order on one stage; each returns or raises DemoFailedError.

Before the first one, both workers' GPUs are in use, and on each worker runs a job that may not be stopped or moved.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from muster.schemas.views import FactView
from muster_tools.demo.settings import BIG, POOL, WORKER_COUNT, WORKER_MEMORY_MIB, WORKERS
from muster_tools.demo.stage import Stage, require, trace_id

GUARD_CPU_MILLI, TENANT_CPU_MILLI = 10_000, 5_000
"""Resources of a worker's 16 cores; one core is left."""
ATTACH, ADD = "gpu-attach-chosen", "node-add-chosen"
RETURN, REMOVE = "gpu-remove-chosen", "node-remove-chosen"


@dataclass(slots=True)
class Cast:
    """Ids of jobs that continue from one demonstration to the next. tenants hold a GPU each; guards hold none."""

    tenants: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    one_more: str = ""
    large: str = ""


Story = Callable[[Stage, Cast], Awaitable[None]]


async def prepare(stage: Stage, cast: Cast) -> None:
    """Submit two jobs with one GPU each, and a job without GPU for each worker that fills most of its cores.

    Earlier actions of the scaler do not matter: two jobs of a kind do not fit on one worker.
    """
    numbers = range(WORKER_COUNT)
    cast.guards = tuple(
        [await stage.submit(f"guard-{number}", cpu_milli=GUARD_CPU_MILLI, steady=True) for number in numbers]
    )
    cast.tenants = tuple(
        [await stage.submit(f"tenant-{number}", gpus=1, cpu_milli=TENANT_CPU_MILLI) for number in numbers]
    )
    for job_id in (*cast.guards, *cast.tenants):
        await stage.running(job_id)

    async def stands() -> bool:
        is_known = any(fabric.pool for fabric in await stage.muster.fabrics())
        return is_known and [node.gpus for node in await stage.nodes_of(WORKERS)] == [1] * WORKER_COUNT

    await stage.until("there are two workers with one GPU each", stands)


async def attach(stage: Stage, cast: Cast) -> None:
    """Submit a job for one GPU while all are in use: a GPU is attached to a running worker, and the job runs there."""
    before = await stage.free_in_pool()
    cast.one_more = await stage.submit("one-more-gpu", gpus=1)
    job = await stage.running(cast.one_more)
    require(job.nodes[0].startswith(WORKERS), f"it runs on {job.nodes[0]}, which is not a worker")
    choice = await stage.chosen(ATTACH, lambda one: cast.one_more in one.jobs)
    require(choice.count == 1, f"{choice.count} GPUs were attached for a job of one")
    require(await stage.free_in_pool() == before - 1, "the pool did not get smaller by one")

    async def workers_stayed_and_one_trace_tells_it() -> None:
        require(len(await stage.nodes_of(WORKERS)) == WORKER_COUNT, "a worker came or went")
        await require_crossing(stage, cast.one_more)

    await stage.comes_to(workers_stayed_and_one_trace_tells_it)


async def add_node(stage: Stage, cast: Cast) -> None:
    """Submit a job that needs more memory than any worker has: a node is added, and the job runs there."""
    cast.large = await stage.submit("much-memory", memory_mib=4 * WORKER_MEMORY_MIB)
    job = await stage.running(cast.large)
    require(job.nodes[0].startswith(BIG), f"it runs on {job.nodes[0]}, not on a node of {BIG}")
    choice = await stage.chosen(ADD, lambda one: cast.large in one.jobs)
    require(choice.group == BIG, f"a node of {choice.group} was added")

    async def facts_tell_it() -> None:
        names = [fact.name for fact in await stage.facts_of(cast.large)]
        require_order(names, ("unschedulable", ADD, "placed", "running"))

    await stage.comes_to(facts_tell_it)


async def give_back(stage: Stage, cast: Cast) -> None:
    """Reduce the load: the idle GPU returns to the pool, then the unneeded node is removed."""
    await stage.end(cast.one_more)
    returned = await stage.chosen(RETURN, lambda one: one.group == WORKERS)
    require(returned.count == 1, f"{returned.count} GPUs were returned, but one was idle")

    async def is_back() -> bool:
        return await stage.free_in_pool() == POOL

    async def is_gone() -> bool:
        return not await stage.nodes_of(BIG)

    await stage.until("the GPU is back in the pool", is_back)
    await stage.end(cast.large)
    await stage.chosen(REMOVE, lambda one: one.group == BIG)
    await stage.until(f"there is no node of {BIG}", is_gone)


async def keep_node(stage: Stage, cast: Cast) -> None:
    """Leave a worker's GPU idle while a job prevents removal of the worker: the GPU is returned, the worker stays."""
    await stage.end(*cast.tenants)
    both = {f"{WORKERS}-{number:04d}" for number in range(1, WORKER_COUNT + 1)}

    async def both_gave() -> bool:
        over = [one for one in await stage.choices() if one.name == RETURN and one.outcome == "done"]
        return {one.node for one in over} >= both

    await stage.until("both workers gave their GPU back", both_gave)
    chosen = await stage.choices()
    require(
        any(one.case == 4 for one in chosen if one.name == RETURN),
        "no GPU was returned because its node cannot be removed",
    )
    require(not any(one.name == REMOVE for one in chosen), "the scaler tried to remove a worker with a running job")

    async def gpus_went_and_workers_stayed() -> None:
        require(len(await stage.nodes_of(WORKERS)) == WORKER_COUNT, "a worker went")
        require(await stage.free_in_pool() == POOL + WORKER_COUNT, "the GPUs are not in the pool")

    await stage.comes_to(gpus_went_and_workers_stayed)
    for guard in cast.guards:
        await stage.running(guard)


async def require_crossing(stage: Stage, job_id: str) -> None:
    """Check for one trace from pending to running, through scaler, composer and fabric. Raises DemoFailedError."""
    facts = await stage.facts_of(job_id)
    require_order(
        [fact.name for fact in facts],
        ("unschedulable", ATTACH, "attaching", "attached", "visible", "placed", "running"),
    )
    require(any(fact.name == "online" for fact in facts), "the device was never reported online")
    root = trace_id(next((fact.trace for fact in facts if fact.trace), ""))
    require(root, "the job has no trace")
    strangers = sorted({f"{fact.writer} {fact.name}" for fact in facts if _is_astray(fact, root)})
    require(not strangers, f"facts of another trace: {', '.join(strangers)}")
    stage.crossed = tuple(dict.fromkeys(fact.writer for fact in facts))
    require({"scheduler", "scaler", "composer"} <= set(stage.crossed), "the trace lacks a service")
    require(root in await stage.fabric_traces(), "the fabric's manager was not called with the job's trace")
    stage.crossed += ("fabric",)


def _is_astray(fact: FactView, root: str) -> bool:
    return bool(fact.trace) and trace_id(fact.trace) != root


def require_order(names: list[str], wanted: tuple[str, ...]) -> None:
    """Raise DemoFailedError unless the wanted names occur in this order."""
    rest = iter(names)
    missing = next((name for name in wanted if name not in rest), None)
    require(missing is None, f"no `{missing}` in its place among {', '.join(names)}")


STORIES: tuple[tuple[str, str, Story], ...] = (
    ("attach", "one GPU short: a GPU is attached", attach),
    ("add-node", "memory short: a node is added", add_node),
    ("give-back", "load falls: the GPU goes, then the node", give_back),
    ("keep-node", "the node cannot go: only its GPU does", keep_node),
)
