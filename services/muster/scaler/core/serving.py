"""What the first two cases have in common: choices for a job that waits, with what else was simulated."""

from dataclasses import replace

from muster.quota.formulas import Ceiling
from muster.scaler.core import limits
from muster.scaler.core.choice import Choice
from muster.scaler.core.choices import ADD, ATTACH, NOTHING
from muster.scaler.core.demand import Waiting
from muster.scaler.core.options import Lack, Option
from muster.schemas.facts.scale import Alternative, NothingChosen, ScaleChosen, ScalePart

TEXT_MAX = 1_024

QUOTA = "quota"
"""Why nothing is chosen: of a model that would do, the queue may hold no more."""


def attach(
    case: int, option: Option, waiting: Waiting, *, why: str, others: tuple[Alternative, ...], causes: tuple[str, ...]
) -> Choice:
    """GPUs for the job. why: what the autoscaler wants. others: what else was simulated."""
    models = option.models
    payload = ScaleChosen(
        case=case,
        group=option.group,
        node=option.parts[0].node if len({part.node for part in option.parts}) == 1 else "",
        device_model=models[0] if len(models) == 1 else "",
        count=option.gpus,
        jobs=(waiting.job_id,),
        reason=text(f"{why}; {attach_words(option)} is enough: {figures(option)}"),
        parts=option.parts,
        devices=option.devices,
        moves=bool(option.devices),
        alternatives=(attach_alternative(option, chosen=True), *others)[: limits.ALTERNATIVES_NAMED_MAX],
        watts=option.watts,
        ready_s=option.ready_s,
        places=option.places,
    )
    return Choice(ATTACH, payload, causes, waiting.trace)


def add(
    case: int, option: Option, waiting: Waiting, *, why: str, others: tuple[Alternative, ...], causes: tuple[str, ...]
) -> list[Choice]:
    """Nodes for the job, one choice each; the first carries what is kept on nodes that are there already."""
    new, chosen = frozenset(option.nodes), list[Choice]()
    first = option.nodes[0]
    for name in option.nodes:
        parts = tuple(part for part in option.parts if part.node == name)
        payload = ScaleChosen(
            case=case,
            group=option.group,
            node=name,
            device_model=parts[0].device_model if parts else "",
            count=sum(part.count for part in parts),
            jobs=(waiting.job_id,),
            reason=text(f"{why}; {add_words(option)}: {figures(option)}"),
            parts=parts,
            alternatives=(add_alternative(option, chosen=True), *others)[: limits.ALTERNATIVES_NAMED_MAX],
            watts=option.watts / len(option.nodes),
            ready_s=option.ready_s,
            places=tuple(
                place for place in option.places if place.node == name or (name == first and place.node not in new)
            ),
        )
        chosen.append(Choice(ADD, payload, causes, waiting.trace))
    return chosen


def nothing(
    case: int, lack: Lack, waiting: Waiting, *, why: str, others: tuple[Alternative, ...], causes: tuple[str, ...]
) -> Choice:
    """Neither helps, or neither may be had."""
    payload = NothingChosen(
        case=case,
        code=lack.code,
        jobs=(waiting.job_id,),
        reason=text(f"{why}; GPUs alone do not help: {lack.reason}"),
        alternatives=(*others, *lack.alternatives)[: limits.ALTERNATIVES_NAMED_MAX],
    )
    return Choice(NOTHING, payload, causes, waiting.trace)


def barred(choice: Choice, ceiling: Ceiling) -> Choice:
    """Nothing on the models that quota allows, when others are barred by it."""
    words = (
        f"queue {ceiling.queue} holds {ceiling.held} {ceiling.resource} of {ceiling.limit} ({ceiling.reason}),"
        f" and otherwise: {choice.payload.reason}"
    )
    return replace(choice, payload=choice.payload.model_copy(update={"code": QUOTA, "reason": text(words)}))


def attach_alternative(option: Option | Lack, *, chosen: bool = False) -> Alternative:
    """GPUs, as one of the things that were simulated."""
    if isinstance(option, Lack):
        return Alternative(what="attach GPUs to nodes that are there", fits=False, detail=text(option.reason))
    return Alternative(
        what=text(attach_words(option)),
        fits=True,
        chosen=chosen,
        gpus=option.gpus,
        watts=option.watts,
        ready_s=option.ready_s,
        detail=text(option.detail),
    )


def add_alternative(option: Option | Lack, *, chosen: bool = False) -> Alternative:
    """Nodes, as one of the things that were simulated."""
    if isinstance(option, Lack):
        return Alternative(what="add nodes", fits=False, detail=text(option.reason))
    return Alternative(
        what=text(add_words(option)),
        fits=True,
        chosen=chosen,
        gpus=option.gpus,
        nodes=len(option.nodes),
        watts=option.watts,
        ready_s=option.ready_s,
        detail=text(option.detail),
    )


def attach_words(option: Option) -> str:
    """Which GPUs, and where."""
    nodes = list(dict.fromkeys([part.node for part in option.parts]))
    where = f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    moved = f" ({len(option.devices)} of them idle on other nodes)" if option.devices else ""
    return f"attaching {gpus(option.parts)} to {where}{moved}"


def add_words(option: Option) -> str:
    """Which nodes, and what they get."""
    names = option.nodes
    what = f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes {names[0]} to {names[-1]}"
    later = f", to get {gpus(option.parts)} afterwards" if option.parts else ""
    return f"adding {what} of group {option.group}{later}"


def gpus(parts: tuple[ScalePart, ...]) -> str:
    """How many of which model."""
    counts = dict[str, int]()
    for part in parts:
        counts[part.device_model] = counts.get(part.device_model, 0) + part.count
    return " and ".join(f"{n} {model}" for model, n in counts.items())


def figures(option: Option) -> str:
    """Power and time."""
    return f"{option.watts:+.0f} W, ready in about {option.ready_s:.0f} s"


def text(words: str) -> str:
    """As long as a fact may say."""
    return words if len(words) <= TEXT_MAX else f"{words[: TEXT_MAX - 1]}…"
