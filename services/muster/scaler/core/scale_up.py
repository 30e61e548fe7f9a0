"""Scale-up: case 1 (the autoscaler wants to add nodes) and case 2 (it wants to and cannot). Are GPUs enough?

Both alternatives are simulated in either case, so that a choice shows the cost of the other one.
"""

from dataclasses import dataclass, replace

from muster.core import Instant
from muster.quota.formulas import Ceiling
from muster.scaler.core import limits
from muster.scaler.core.autoscaler import NodeDemand, NodeRefused, NodeWanted
from muster.scaler.core.changes import Cooldowns
from muster.scaler.core.choices import ADD, ATTACH, NOTHING, Choice
from muster.scaler.core.enlarge import Enlarging
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.jobs import Waiting
from muster.scaler.core.new_nodes import NewNodes
from muster.scaler.core.options import Lack, Option
from muster.schemas.facts.scale import Alternative, NothingChosen, ScaleChosen, ScalePart

TEXT_MAX = 1_024

QUOTA = "quota"
"""Code for nothing chosen: the quota of every suitable model is used up."""


def attach(
    case: int, option: Option, waiting: Waiting, *, why: str, others: tuple[Alternative, ...], causes: tuple[str, ...]
) -> Choice:
    """Return the choice of GPUs for the job. `why`: what the autoscaler wants; `others`: simulated alternatives."""
    models = option.models
    payload = ScaleChosen(
        case=case,
        group=option.group,
        node=option.parts[0].node if len({part.node for part in option.parts}) == 1 else "",
        device_model=models[0] if len(models) == 1 else "",
        count=option.gpus,
        jobs=(waiting.job_id,),
        reason=text(f"{why}; {attach_text(option)} is enough: {figures(option)}"),
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
    """Return the choices of nodes for the job, one per node; the first one has the places kept on existing nodes."""
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
            reason=text(f"{why}; {add_text(option)}: {figures(option)}"),
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
    """Return the choice of nothing: neither GPUs nor nodes help, or none are available."""
    payload = NothingChosen(
        case=case,
        code=lack.code,
        jobs=(waiting.job_id,),
        reason=text(f"{why}; GPUs alone do not help: {lack.reason}"),
        alternatives=others[: limits.ALTERNATIVES_NAMED_MAX],
    )
    return Choice(NOTHING, payload, causes, waiting.trace)


def barred(choice: Choice, ceiling: Ceiling) -> Choice:
    """Return the choice of nothing if quota excludes the models that would help."""
    words = (
        f"queue {ceiling.queue} holds {ceiling.held} {ceiling.resource} of {ceiling.limit} ({ceiling.reason}),"
        f" and otherwise: {choice.payload.reason}"
    )
    return replace(choice, payload=choice.payload.model_copy(update={"code": QUOTA, "reason": text(words)}))


def attach_alternative(option: Option | Lack, *, chosen: bool = False) -> Alternative:
    """Return the option of GPUs as a simulated alternative."""
    what = "attach GPUs to nodes that are there" if isinstance(option, Lack) else attach_text(option)
    return _alternative(what, option, chosen=chosen)


def add_alternative(option: Option | Lack, *, chosen: bool = False) -> Alternative:
    """Return the option of nodes as a simulated alternative."""
    return _alternative("add nodes" if isinstance(option, Lack) else add_text(option), option, chosen=chosen)


def _alternative(what: str, option: Option | Lack, *, chosen: bool) -> Alternative:
    if isinstance(option, Lack):
        return Alternative(what=what, fits=False, detail=text(option.reason))
    return Alternative(
        what=text(what),
        fits=True,
        chosen=chosen,
        gpus=option.gpus,
        nodes=len(option.nodes),
        watts=option.watts,
        ready_s=option.ready_s,
    )


def attach_text(option: Option) -> str:
    """Return which GPUs are attached where, as text."""
    nodes = list(dict.fromkeys([part.node for part in option.parts]))
    where = f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    moved = f" ({len(option.devices)} of them idle on other nodes)" if option.devices else ""
    return f"attaching {gpus(option.parts)} to {where}{moved}"


def add_text(option: Option) -> str:
    """Return which nodes are added with which GPUs, as text."""
    names = option.nodes
    what = f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes {names[0]} to {names[-1]}"
    later = f", to get {gpus(option.parts)} afterwards" if option.parts else ""
    return f"adding {what} of group {option.group}{later}"


def gpus(parts: tuple[ScalePart, ...]) -> str:
    """Return the number of devices by model, as text."""
    counts = dict[str, int]()
    for part in parts:
        counts[part.device_model] = counts.get(part.device_model, 0) + part.count
    return " and ".join(f"{n} {model}" for model, n in counts.items())


def figures(option: Option) -> str:
    """Return power and time, as text."""
    return f"{option.watts:+.0f} W, ready in about {option.ready_s:.0f} s"


def text(words: str) -> str:
    """Cut a text to the maximum length in a fact."""
    return words if len(words) <= TEXT_MAX else f"{words[: TEXT_MAX - 1]}…"


CASE_ADD, CASE_CANNOT_ADD = 1, 2


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScaleUp:
    """Chooses GPUs, nodes or nothing for one waiting job, by the signal of the autoscaler in charge."""

    config: ScalingConfig
    demand: NodeDemand
    enlarging: Enlarging
    new_nodes: NewNodes
    cooldowns: Cooldowns

    def choices(self, waiting: Waiting, now: Instant) -> list[Choice]:
        """Return the choices, one per node; empty if the autoscaler has no signal for the job."""
        demanded = self.demand.of_job(waiting, now)
        if isinstance(demanded, NodeWanted):
            return self._attach_or_add(demanded, waiting, now)
        return [] if demanded is None else [self._attach_or_nothing(demanded, waiting, now)]

    def awaited(self, waiting: Waiting, now: Instant) -> Choice | None:
        """Return the GPUs to choose once the nodes on their way have joined; None if these nodes will not do."""
        if isinstance(self.enlarging.enough(waiting, now), Option):
            return None
        later = self.enlarging.enough(waiting, now, with_coming=True)
        if not isinstance(later, Option) or later.devices:
            return None
        return attach(CASE_ADD, later, waiting, why="", others=(), causes=())

    def awaits_nodes(self) -> bool:
        """Return whether composable nodes were chosen and have not joined."""
        return self.new_nodes.are_coming()

    def _attach_or_add(self, signal: NodeWanted, waiting: Waiting, now: Instant) -> list[Choice]:
        """Return GPUs if they are enough, else the nodes, one choice each; nothing if these could not get GPUs."""
        group = self.config.groups.get(signal.group)
        count = self._nodes(signal, waiting) if group is not None else 0
        more = self.new_nodes.enough(waiting, group, count) if group else Lack("no-group", f"no group {signal.group}")
        enough = self.enlarging.enough(waiting, now)
        spec = f", {self.new_nodes.spec_text(group)}" if group is not None else ""
        nodes = "1 node" if count <= 1 else f"{count} nodes"
        why = f"{waiting.name} waits ({waiting.reason}); the autoscaler would add {nodes} of group {signal.group}{spec}"
        causes = tuple(dict.fromkeys(fact for fact in (waiting.fact, signal.fact) if fact))
        if isinstance(enough, Option):
            return [attach(CASE_ADD, enough, waiting, why=why, others=(add_alternative(more),), causes=causes)]
        others = (attach_alternative(enough),)
        if isinstance(more, Lack):
            more = self._of_another_group(signal, waiting, now) or more
        if isinstance(more, Option):
            words = f"{why}; GPUs alone do not help ({enough.reason})"
            return add(CASE_ADD, more, waiting, why=words, others=others, causes=causes)
        why = f"{why}, which does not help: {more.reason}"
        return [nothing(CASE_ADD, enough, waiting, why=why, others=(*others, add_alternative(more)), causes=causes)]

    def _nodes(self, signal: NodeWanted, waiting: Waiting) -> int:
        """Return the number of nodes; an external autoscaler reports one for a job, not what its gang needs."""
        if self.config.settings.mode == "embedded":
            return signal.nodes
        return max(signal.nodes, self.new_nodes.needed(self.config.groups[signal.group], waiting.ask)[0])

    def _of_another_group(self, signal: NodeWanted, waiting: Waiting, now: Instant) -> Option | None:
        """Return nodes of the cheapest available group, if the embedded autoscaler's own choice of a group fails."""
        if self.config.settings.mode != "embedded":
            return None
        found = list[Option]()
        for group in self.config.groups.values():
            needed = self.new_nodes.needed(group, waiting.ask)[0] if group.name != signal.group else 0
            if needed and self.cooldowns.failed_until(group.name) <= now:
                option = self.new_nodes.enough(waiting, group, needed)
                found += [option] if isinstance(option, Option) else []
        return min(found, key=lambda option: (option.watts, option.ready_s), default=None)

    def _attach_or_nothing(self, signal: NodeRefused, waiting: Waiting, now: Instant) -> Choice:
        enough = self.enlarging.enough(waiting, now)
        causes = tuple(dict.fromkeys(fact for fact in (waiting.fact, signal.fact) if fact))
        why = f"{waiting.name} waits ({waiting.reason}); no node can be added: {signal.reason}"
        node = add_alternative(Lack("refused", signal.reason))
        if isinstance(enough, Option):
            return attach(CASE_CANNOT_ADD, enough, waiting, why=why, others=(node,), causes=causes)
        others = (attach_alternative(enough), node)
        return nothing(CASE_CANNOT_ADD, enough, waiting, why=why, others=others, causes=causes)
