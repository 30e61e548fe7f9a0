"""What the removing cases say in their reasons, with numbers."""

from collections.abc import Iterable, Sequence

from muster.core import Instant, seconds_between
from muster.core.settings import GroupSettings, ModelSettings
from muster.scaler.core.limits import HOLDERS_NAMED_MAX
from muster.scaler.core.spare import Spare
from muster.scaler.core.state import State
from muster.schemas.facts.scale import Alternative, ScaleChosen


def gpus(count: int) -> str:
    """ "1 GPU", "3 GPUs"."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def model_of(state: State, found: Sequence[Spare]) -> ModelSettings:
    """The model of the devices of one node, which are all of one."""
    return state.config.model(found[0].model)


def gpu_watts(state: State, found: Iterable[Spare]) -> float:
    """What idle devices draw."""
    return sum(state.config.model(one.model).idle_w for one in found)


def idle_words(found: Sequence[Spare], now: Instant) -> str:
    """How long the device that became idle last has been idle."""
    return f"{gpus(len(found))} idle for {min(one.idle_s(now) for one in found):.0f} s"


def since_words(since: Instant, now: Instant) -> str:
    """How long ago."""
    return f"{seconds_between(since, now):.0f} s"


def gpus_alternative(state: State, found: Sequence[Spare], *, chosen: bool, detail: str = "") -> Alternative:
    """Only these devices go."""
    model = model_of(state, found)
    return Alternative(
        what=f"return {gpus(len(found))} to the pool, keep the node",
        fits=True,
        chosen=chosen,
        gpus=len(found),
        watts=gpu_watts(state, found),
        ready_s=model.detach_s,
        detail=detail,
    )


def node_alternative(
    group: GroupSettings, *, watts: float, gpu_count: int, chosen: bool, fits: bool = True, detail: str = ""
) -> Alternative:
    """The whole node goes."""
    return Alternative(
        what="remove the node" + (f", {gpus(gpu_count)} of it first" if gpu_count else ""),
        fits=fits,
        chosen=chosen,
        gpus=gpu_count,
        nodes=1,
        watts=watts,
        ready_s=group.deprovision_s,
        detail=detail,
    )


def removal(
    state: State,
    found: Sequence[Spare],
    *,
    case: int,
    reason: str,
    alternatives: tuple[Alternative, ...] = (),
    jobs: tuple[str, ...] = (),
) -> ScaleChosen:
    """These devices of one node go back to the pool."""
    first, model = found[0], model_of(state, found)
    return ScaleChosen(
        case=case,
        group=first.group,
        node=first.node,
        device_model=first.model,
        count=len(found),
        jobs=jobs,
        reason=reason,
        devices=tuple(one.uuid for one in found),
        alternatives=alternatives,
        watts=gpu_watts(state, found),
        ready_s=model.detach_s,
    )


def holders_words(state: State, node: str) -> str:
    """Who holds a node, and why that is not moved."""
    record = state.nodes.get(node)
    names = sorted(record.jobs) if record is not None else []
    told = []
    for job_id in names[:HOLDERS_NAMED_MAX]:
        job = state.jobs.records.get(job_id)
        holds_gpus = record is not None and any(hold.slot.gpu_milli for hold in record.jobs[job_id])
        words = [] if holds_gpus else ["no GPU"]
        if job is not None and not job.shape.preemptible:
            words.append("not preemptible")
        name = job.name if job is not None else job_id
        told.append(f"{name} ({', '.join(words)})" if words else name)
    more = f" and {len(names) - HOLDERS_NAMED_MAX} more" if len(names) > HOLDERS_NAMED_MAX else ""
    return f"held by {', '.join(told)}{more}; no running job is ended for a scale-down"
