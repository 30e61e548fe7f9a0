"""Case 1: the autoscaler wants to add nodes. Is attaching GPUs enough?"""

from muster.scaler.core.autoscaler import nodes_needed
from muster.scaler.core.choice import Choice
from muster.scaler.core.demand import Waiting
from muster.scaler.core.enlarge import gpus_enough
from muster.scaler.core.groups import spec_word
from muster.scaler.core.new_nodes import nodes_enough
from muster.scaler.core.options import Lack, Option
from muster.scaler.core.serving import add, add_alternative, attach, attach_alternative, nothing
from muster.scaler.core.signals import NodeWanted
from muster.scaler.core.state import State

CASE = 1


def attach_or_add(state: State, signal: NodeWanted, waiting: Waiting) -> list[Choice]:
    """GPUs if they are enough, else the nodes, one choice each; nothing if the nodes could not get their GPUs.

    The nodes are simulated in either case, so that the choice shows what they would have cost.
    """
    group = state.config.groups.get(signal.group)
    count = _nodes(state, signal, waiting) if group is not None else 0
    more = nodes_enough(state, waiting, group, count) if group else Lack("no-group", f"no group {signal.group}")
    enough = gpus_enough(state, waiting)
    spec = f", {spec_word(group, state.actual_node(group.name))}" if group is not None else ""
    nodes = "1 node" if count <= 1 else f"{count} nodes"
    why = f"{waiting.name} waits ({waiting.reason}); the autoscaler would add {nodes} of group {signal.group}{spec}"
    causes = tuple(dict.fromkeys(fact for fact in (waiting.fact, signal.fact) if fact))
    if isinstance(enough, Option):
        return [attach(CASE, enough, waiting, why=why, others=(add_alternative(more),), causes=causes)]
    others = (attach_alternative(enough),)
    if isinstance(more, Lack):
        more = _of_another_group(state, signal, waiting) or more
    if isinstance(more, Option):
        words = f"{why}; GPUs alone do not help ({enough.reason})"
        return add(CASE, more, waiting, why=words, others=others, causes=causes)
    why = f"{why}, which does not help: {more.reason}"
    return [nothing(CASE, enough, waiting, why=why, others=(*others, add_alternative(more)), causes=causes)]


def _nodes(state: State, signal: NodeWanted, waiting: Waiting) -> int:
    """How many; an autoscaler outside speaks of one job and a node, and not of how many its gang needs together."""
    if state.config.settings.mode == "embedded":
        return signal.nodes
    return max(signal.nodes, nodes_needed(state, state.config.groups[signal.group], waiting.ask)[0])


def _of_another_group(state: State, signal: NodeWanted, waiting: Waiting) -> Option | None:
    """Nodes of the cheapest group that could have them, if Muster's own autoscaler asked and its group cannot."""
    if state.config.settings.mode != "embedded":
        return None
    found = list[Option]()
    for group in state.config.groups.values():
        needed, _ = nodes_needed(state, group, waiting.ask) if group.name != signal.group else (0, None)
        if needed and state.rests_until(group.name) <= state.now:
            option = nodes_enough(state, waiting, group, needed)
            found += [option] if isinstance(option, Option) else []
    return min(found, key=lambda option: (option.watts, option.ready_s), default=None)
