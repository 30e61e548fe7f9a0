"""Where GPUs for a gang could come from, which nodes could get them, and why that is not enough, with numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from muster.core import seconds_between
from muster.placement import DEVICE_MILLI, GangRequest, ShortageReason, TaskShape
from muster.placement.state import allows
from muster.scaler.core.capacity import Source
from muster.scaler.core.jobs import Waiting
from muster.scaler.core.options import Lack
from muster.scaler.core.spare import Spare, donors, spare
from muster.scaler.core.state import State


@dataclass(slots=True)
class Sources:
    """models: that the gang takes and composable groups may have, best first. pool: devices kept for nobody, by source.

    resting: sources that are left alone after a failure, or because the fabric does not answer. with_coming: nodes that
    have not joined yet count, too.
    """

    state: State
    models: tuple[str, ...]
    pool: dict[Source, int] = field(default_factory=dict)
    resting: tuple[Source, ...] = ()
    with_coming: bool = False
    _donors: dict[Source, list[Spare]] | None = None

    @property
    def donors(self) -> Mapping[Source, Sequence[Spare]]:
        """Idle devices that may move, found when they are first asked for."""
        if self._donors is None:
            self._donors = _donors(self.state, self.pool)
        return self._donors

    def left(self, *, with_donors: bool) -> dict[Source, int]:
        """How many devices of each source may be used."""
        if not with_donors:
            return {source: n for source, n in self.pool.items() if n}
        total = {source: n + len(self.donors.get(source, ())) for source, n in self.pool.items()}
        return {source: n for source, n in total.items() if n}

    def nodes(self, source: Source) -> Mapping[str, int]:
        """Usable nodes that can get devices of this source, and how many each."""
        able = self.state.capacity.able(source)
        return {**able, **self.state.capacity.able_coming(source)} if self.with_coming else able


def sources_of(state: State, ask: GangRequest) -> Sources:
    """All sources that could serve this gang."""
    shapes = [group.shape for group in ask.groups if group.shape.holds_devices]
    groups = tuple(group for group in state.config.groups.values() if group.composable)
    known = dict.fromkeys([model for group in groups for model in group.gpu_models])
    wished = [model for shape in shapes for model in shape.gpu_models if model in known]
    models = [model for model in dict.fromkeys([*wished, *known]) if any(allows(shape, model) for shape in shapes)]
    found = Sources(state, tuple(models))
    resting = list[Source]()
    for group in groups:
        for model in group.gpu_models:
            source = Source(group.fabric, model)
            if model not in models or source in found.pool or source in resting:
                continue
            if rests_until(state, group.fabric) > state.now:
                resting.append(source)
            else:
                found.pool[source] = state.capacity.pool_left(*source)
    found.resting = tuple(resting)
    return found


def rests_until(state: State, fabric: str) -> int:
    """Until when nothing is asked of this fabric."""
    return max(state.rests_until(f"fabric/{fabric}"), state.pool.closed_until.get(fabric, 0))


def _donors(state: State, pool: Mapping[Source, int]) -> dict[Source, list[Spare]]:
    found = dict[Source, list[Spare]]()
    for uuid in donors(state):
        one = spare(state, uuid)
        if one is not None and (source := Source(one.fabric, one.model)) in pool:
            found.setdefault(source, []).append(one)
    return found


_OF_TASK = {ShortageReason.CPU: "CPU", ShortageReason.MEMORY: "memory"}


class LackCode(StrEnum):
    """What stands in the way."""

    NO_GPU_ASKED = "no-gpu-asked"
    NO_GROUP = "no-group"
    RESTING = "resting"
    POOL = "pool"
    NODES = "nodes"
    CPU = "cpu"
    MEMORY = "memory"
    TOPOLOGY = "topology"
    TOGETHER = "together"


def lack_of(state: State, waiting: Waiting, sources: Sources) -> Lack:
    """The first of the things that a way would have needed. There must be no way."""
    shapes = [group.shape for group in waiting.ask.groups if group.shape.holds_devices]
    if not shapes:
        return _lack(LackCode.NO_GPU_ASKED, f"it asks for no GPU; what it lacks: {waiting.detail or waiting.reason}")
    if not sources.models:
        asked = " or ".join(dict.fromkeys(model for shape in shapes for model in shape.gpu_models)) or "any model"
        return _lack(LackCode.NO_GROUP, f"no composable group has GPUs of {asked}")
    if sources.resting and not any(sources.pool.values()):
        return _resting(state, sources)
    if not any(sources.pool.values()) and not sources.donors:
        return _pool(state, sources, waiting)
    nodes = {name: most for source in sources.pool for name, most in sources.nodes(source).items()}
    if not nodes:
        return _lack(LackCode.NODES, f"no usable node of a composable group can get a GPU of {_models(sources)}")
    return _on_nodes(state, waiting, shapes[0], nodes) or _rest(state, waiting, sources, nodes)


def _on_nodes(state: State, waiting: Waiting, shape: TaskShape, nodes: dict[str, int]) -> Lack | None:
    """Whether CPU or memory is what the nodes lack that could get GPUs."""
    ledger = state.fleet.ledger
    by_name = {name: one.key for name in nodes if (one := ledger.nodes[name].state) is not None}
    keys = list(by_name.values())
    if shape.full_node:
        keys = [key for key in keys if key.whole]
        if not keys:
            return _lack(LackCode.NODES, f"it asks for whole nodes; all {len(nodes)} that can get GPUs hold something")
    cpu_milli = max((key.cpu_milli for key in keys), default=0)
    if cpu_milli < shape.cpu_milli:
        words = f"{shape.cpu_milli / 1000:g} CPU asked per replica, at most {cpu_milli / 1000:g} free on a node"
        return _lack(LackCode.CPU, f"{words} that can get a GPU ({len(nodes)} can)")
    memory_mib = max((key.memory_mib for key in keys), default=0)
    if memory_mib < shape.memory_mib:
        words = f"{shape.memory_mib} MiB asked per replica, at most {memory_mib} MiB free on a node"
        return _lack(LackCode.MEMORY, f"{words} that can get a GPU ({len(nodes)} can)")
    most = max((key.shares.count(DEVICE_MILLI) + nodes[name] for name, key in by_name.items()), default=0)
    if not shape.full_node and shape.gpus > most:
        return _lack(LackCode.NODES, f"{shape.gpus} GPUs asked on one node, at most {most} idle there or still to come")
    if waiting.reason in _OF_TASK:
        code = LackCode(waiting.reason)
        return _lack(code, f"more GPUs bring no {_OF_TASK[ShortageReason(waiting.reason)]}: {waiting.detail}")
    return None


def _rest(state: State, waiting: Waiting, sources: Sources, nodes: dict[str, int]) -> Lack:
    left = sum(sources.pool.values()) + sum(len(found) for found in sources.donors.values())
    room, free = sum(nodes.values()), sum(t.free_milli for t in state.fleet.totals.values()) / DEVICE_MILLI
    numbers = (
        f"{waiting.gpus:g} GPUs asked, {free:g} idle, {left} of {_models(sources)} to be had,"
        f" {len(nodes)} nodes can get {room} more"
    )
    if left + free < waiting.gpus:
        return _pool(state, sources, waiting)
    wishes = [waiting.ask.topology, *(group.topology for group in waiting.ask.groups)]
    required = next((wish.level for wish in wishes if wish is not None and wish.required), "")
    if required:
        return _lack(LackCode.TOPOLOGY, f"not within one {required}: {numbers}")
    return _lack(LackCode.TOGETHER, f"not on nodes that also have CPU and memory for it: {numbers}")


def _pool(state: State, sources: Sources, waiting: Waiting) -> Lack:
    found = []
    for source in sources.pool:
        lies = state.pool.free(source.fabric, source.model)
        kept = lies - sources.pool[source]
        words = (
            ", all kept for others" if kept == lies and lies else f", {kept} of them kept for others" if kept else ""
        )
        found.append(f"{lies} {source.model} in the pool of {source.fabric}{words}")
    return _lack(LackCode.POOL, f"{waiting.gpus:g} GPUs asked, {', '.join(found) or 'no pool'}")


def _resting(state: State, sources: Sources) -> Lack:
    found = []
    for fabric in dict.fromkeys([source.fabric for source in sources.resting]):
        left_s = max(0.0, seconds_between(state.now, rests_until(state, fabric)))
        closed = state.pool.closed_until.get(fabric, 0) > state.now
        found.append(f"{fabric} {'does not answer' if closed else 'failed'}, tried again in {left_s:.0f} s")
    return _lack(LackCode.RESTING, "; ".join(found))


def _models(sources: Sources) -> str:
    return " or ".join(sources.models)


def _lack(code: LackCode, reason: str) -> Lack:
    return Lack(code.value, reason)
