"""Sources of GPUs for a gang, the nodes that could get them, and why they are not enough, with numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from muster.core import Instant, seconds_between
from muster.placement import DEVICE_MILLI, GangRequest, ShortageReason, TaskShape
from muster.placement.state import allows
from muster.scaler.core.capacity import Capacity, Source
from muster.scaler.core.changes import Cooldowns
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.fabrics import Pool
from muster.scaler.core.jobs import Waiting
from muster.scaler.core.options import Lack
from muster.scaler.core.spare import Spare, SpareDevices


@dataclass(slots=True)
class Sources:
    """The sources of GPUs for one gang."""

    now: Instant
    models: tuple[str, ...]
    """Models that the gang accepts and composable groups may have, best first."""
    find_donors: Callable[["Sources"], dict[Source, list[Spare]]]
    pool: dict[Source, int] = field(default_factory=dict)
    """Unreserved GPUs in pools, by source."""
    resting: tuple[Source, ...] = ()
    """Sources in cooldown after a failure, or because the fabric does not answer."""
    _donors: dict[Source, list[Spare]] | None = None

    @property
    def donors(self) -> Mapping[Source, Sequence[Spare]]:
        """Idle devices that may move, found at the first access."""
        if self._donors is None:
            self._donors = self.find_donors(self)
        return self._donors

    @property
    def text(self) -> str:
        """The models, for reasons."""
        return " or ".join(self.models)

    def left(self, *, with_donors: bool) -> dict[Source, int]:
        """Return how many devices of each source may be used."""
        if not with_donors:
            return {source: n for source, n in self.pool.items() if n}
        total = {source: n + len(self.donors.get(source, ())) for source, n in self.pool.items()}
        return {source: n for source, n in total.items() if n}


_OF_TASK = {ShortageReason.CPU: "CPU", ShortageReason.MEMORY: "memory"}


class LackCode(StrEnum):
    """Why there is no option."""

    NO_GPU_ASKED = "no-gpu-asked"
    NO_GROUP = "no-group"
    RESTING = "resting"
    POOL = "pool"
    NODES = "nodes"
    CPU = "cpu"
    MEMORY = "memory"
    TOPOLOGY = "topology"
    TOGETHER = "together"


Able = Callable[[Source], Mapping[str, int]]
"""Nodes that can get devices of a source, and how many each."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GpuSources:
    """All sources of GPUs of the composable groups."""

    cluster: Cluster
    capacity: Capacity
    pool: Pool
    cooldowns: Cooldowns
    spares: SpareDevices

    def able(self, source: Source) -> Mapping[str, int]:
        """Return usable nodes that can get devices of this source, and how many each."""
        return self.capacity.able(source)

    def able_later(self, source: Source) -> Mapping[str, int]:
        """Return usable nodes, and nodes that were chosen and have not joined, that can get devices of this source."""
        return {**self.capacity.able(source), **self.capacity.able_coming(source)}

    def of_gang(self, ask: GangRequest, now: Instant) -> Sources:
        """Return all sources that could serve this gang."""
        shapes = [group.shape for group in ask.groups if group.shape.holds_devices]
        groups = tuple(group for group in self.cluster.config.groups.values() if group.composable)
        known = dict.fromkeys([model for group in groups for model in group.gpu_models])
        wished = [model for shape in shapes for model in shape.gpu_models if model in known]
        models = [model for model in dict.fromkeys([*wished, *known]) if any(allows(shape, model) for shape in shapes)]
        found = Sources(now, tuple(models), self._donors)
        resting = dict[Source, None]()
        for source in [Source(group.fabric, model) for group in groups for model in group.gpu_models]:
            if source.model not in models:
                continue
            if self.cooldowns.fabric_until(source.fabric) > now:
                resting[source] = None
            else:
                found.pool[source] = self.capacity.pool_left(*source)
        found.resting = tuple(resting)
        return found

    def _donors(self, sources: Sources) -> dict[Source, list[Spare]]:
        found = dict[Source, list[Spare]]()
        for one in self.spares.donors(sources.now):
            if one.source in sources.pool:
                found.setdefault(one.source, []).append(one)
        return found

    def lack(self, waiting: Waiting, sources: Sources, able: Able) -> Lack:
        """Return the first missing thing for an option, when there is none. `able` is the one used in the search."""
        shapes = [group.shape for group in waiting.ask.groups if group.shape.holds_devices]
        if not shapes:
            return _lack(
                LackCode.NO_GPU_ASKED, f"it asks for no GPU; what it lacks: {waiting.detail or waiting.reason}"
            )
        if not sources.models:
            asked = " or ".join(dict.fromkeys(model for shape in shapes for model in shape.gpu_models)) or "any model"
            return _lack(LackCode.NO_GROUP, f"no composable group has GPUs of {asked}")
        if sources.resting and not any(sources.pool.values()):
            return self._resting(sources)
        if not any(sources.pool.values()) and not sources.donors:
            return self._pool(sources, waiting)
        nodes = {name: most for source in sources.pool for name, most in able(source).items()}
        if not nodes:
            return _lack(LackCode.NODES, f"no usable node of a composable group can get a GPU of {sources.text}")
        return self._on_nodes(waiting, shapes[0], nodes) or self._rest(waiting, sources, nodes)

    def _on_nodes(self, waiting: Waiting, shape: TaskShape, nodes: dict[str, int]) -> Lack | None:
        """Return the lack of CPU or memory on nodes that could get GPUs; None if they lack neither."""
        known = self.cluster.fleet.ledger.nodes
        by_name = {name: one.key for name in nodes if (one := known[name].state) is not None}
        keys = list(by_name.values())
        if shape.full_node:
            keys = [key for key in keys if key.whole]
            if not keys:
                return _lack(
                    LackCode.NODES, f"it asks for whole nodes; all {len(nodes)} that can get GPUs hold something"
                )
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
            return _lack(
                LackCode.NODES, f"{shape.gpus} GPUs asked on one node, at most {most} idle there or still to come"
            )
        if waiting.reason in _OF_TASK:
            code = LackCode(waiting.reason)
            return _lack(code, f"more GPUs bring no {_OF_TASK[ShortageReason(waiting.reason)]}: {waiting.detail}")
        return None

    def _rest(self, waiting: Waiting, sources: Sources, nodes: dict[str, int]) -> Lack:
        left = sum(sources.pool.values()) + sum(len(found) for found in sources.donors.values())
        room, free = sum(nodes.values()), sum(t.free_milli for t in self.cluster.fleet.totals.values()) / DEVICE_MILLI
        numbers = (
            f"{waiting.gpus:g} GPUs asked, {free:g} idle, {left} of {sources.text} to be had,"
            f" {len(nodes)} nodes can get {room} more"
        )
        if left + free < waiting.gpus:
            return self._pool(sources, waiting)
        requests = [waiting.ask.topology, *(group.topology for group in waiting.ask.groups)]
        required = next((request.level for request in requests if request is not None and request.required), "")
        if required:
            return _lack(LackCode.TOPOLOGY, f"not within one {required}: {numbers}")
        return _lack(LackCode.TOGETHER, f"not on nodes that also have CPU and memory for it: {numbers}")

    def _pool(self, sources: Sources, waiting: Waiting) -> Lack:
        found = []
        for source in sources.pool:
            lies = self.pool.free(source.fabric, source.model)
            kept = lies - sources.pool[source]
            words = (
                ", all kept for others"
                if kept == lies and lies
                else f", {kept} of them kept for others"
                if kept
                else ""
            )
            found.append(f"{lies} {source.model} in the pool of {source.fabric}{words}")
        return _lack(LackCode.POOL, f"{waiting.gpus:g} GPUs asked, {', '.join(found) or 'no pool'}")

    def _resting(self, sources: Sources) -> Lack:
        found = []
        for fabric in dict.fromkeys([source.fabric for source in sources.resting]):
            left_s = max(0.0, seconds_between(sources.now, self.cooldowns.fabric_until(fabric)))
            closed = self.cooldowns.breaker_until(fabric) > sources.now
            found.append(f"{fabric} {'does not answer' if closed else 'failed'}, tried again in {left_s:.0f} s")
        return _lack(LackCode.RESTING, "; ".join(found))


def _lack(code: LackCode, reason: str) -> Lack:
    return Lack(code.value, reason)
