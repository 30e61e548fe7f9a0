"""Check whether GPUs are enough: devices are added in simulation, and the placement engine places the whole gang.

For one group of replicas each added device goes where it brings most replicas per device. On every node the first
additional replica costs no more devices than the next, so taking the cheapest step of all nodes until there is room is
the minimum; the engine decides. If a topology is required, this is done per domain, the cheapest domains first. For
several groups room is made for one after the other, largest first, as the engine places them; if that fails, more than
enough devices are added. Then devices are removed as long as the engine still finds a place. For one group the answer
is exact; for several, as for the engine itself, a better search may find more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from muster.core import Instant
from muster.placement import GangRequest, GroupRequest, Hold, TaskShape
from muster.scaler.core import limits
from muster.scaler.core.capacity import Source
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.jobs import Waiting
from muster.scaler.core.options import Lack, Option, attach_s, attached_watts, moved_watts, places_of
from muster.scaler.core.sources import Able, GpuSources, Sources
from muster.scaler.core.spare import Spare
from muster.scaler.core.steps import Growth, Steps
from muster.schemas.facts.scale import ScalePart


@dataclass(frozen=True, slots=True, eq=False)
class Enlarging:
    """Finds the cheapest way to make room for a gang by GPUs alone. The fleet is unchanged afterwards.

    Changes on their way must be entered in the fleet (`FutureFleet.settle`), and jobs that come first must hold their
    places.
    """

    cluster: Cluster
    sources: GpuSources

    def enough(self, waiting: Waiting, now: Instant, *, with_coming: bool = False) -> Option | Lack:
        """Return the cheapest option, or why there is none. `with_coming` includes nodes that have not joined yet."""
        able = self.sources.able_later if with_coming else self.sources.able
        sources = self.sources.of_gang(waiting.ask, now)
        for with_donors in (False, True):
            if with_donors and not sources.donors:
                break
            option = self._cheapest(waiting.ask, _Supply(sources, able, with_donors=with_donors))
            if option is not None:
                return option
        return self.sources.lack(waiting, sources, able)

    def _cheapest(self, ask: GangRequest, supply: "_Supply") -> Option | None:
        """Return the cheapest option with one model; if there is none and models may be mixed, with all models."""
        models = supply.sources.models
        best: Option | None = None
        for model in models:
            asked = _on_model(ask, model) if ask.same_model else ask
            found = _Attempt(self.cluster, supply, asked=asked, ask=ask, models=(model,)).run()
            if found is not None and (best is None or found.key < best.key):
                best = found
        if best is None and len(models) > 1 and not ask.same_model:
            best = _Attempt(self.cluster, supply, asked=ask, ask=ask, models=models).run()
        return best


@dataclass(frozen=True, slots=True)
class _Supply:
    """The devices and nodes that one search may use."""

    sources: Sources
    able: Able
    with_donors: bool = field(kw_only=True)


def _on_model(ask: GangRequest, model: str) -> GangRequest:
    groups = [
        replace(group, shape=replace(group.shape, gpu_models=(model,), models_excluded=()))
        if group.shape.holds_devices
        else group
        for group in ask.groups
    ]
    return replace(ask, groups=tuple(groups))


class _Attempt:
    """One attempt, with devices of these models. `ask` is the gang as it is, `asked` has its models limited."""

    def __init__(
        self,
        cluster: Cluster,
        supply: _Supply,
        *,
        asked: GangRequest,
        ask: GangRequest,
        models: Sequence[str],
    ) -> None:
        self._cluster = cluster
        self._config = cluster.config
        self._fleet = cluster.fleet
        self._asked = asked
        self._ask = ask
        self._sources = supply.sources
        self._with_donors = supply.with_donors
        left = supply.sources.left(with_donors=supply.with_donors)
        self._left = {source: n for source, n in left.items() if source.model in models}
        self._able = {source: supply.able(source) for source in self._left}
        self._steps = Steps(cluster.config, cluster.fleet, self._able)
        self._asks = 0

    def run(self) -> Option | None:
        """Return the option; None if there is none."""
        if not any(self._able.values()):
            return None
        groups = sorted(self._asked.groups, key=lambda group: _size(group.shape), reverse=True)
        own = groups[0].topology if len(groups) == 1 else None
        request = next(
            (request for request in (own, self._asked.topology) if request is not None and request.required), None
        )
        if request is not None:
            for names in self._steps.domains(request.level, groups[0], self._left):
                option = self._try(groups, names)
                if option is not None:
                    return option
            return None
        return self._try(groups, None) or (self._from_plenty(groups) if len(groups) > 1 else None)

    # --- one trial -------------------------------------------------------------------------------------------

    def _try(self, groups: Sequence[GroupRequest], within: Sequence[str] | None) -> Option | None:
        """Make room, only on the nodes `within` if they are given."""
        left = dict(self._left)
        with Growth(self._fleet) as growth:
            for group in groups:
                names = within
                if names is None and len(groups) > 1 and group.topology is not None and group.topology.required:
                    names = next(iter(self._steps.domains(group.topology.level, group, left)), None)
                    if names is None:
                        return None
                steps = self._steps.cheapest(group.shape, group.replicas_least, names, left, growth)
                if steps is None:
                    return None
                for step in steps:
                    growth.add(step.node, step.source, step.devices)
                    left[step.source] -= step.devices
                if len(groups) > 1 and not self._hold(growth, group, names):
                    return None
            growth.release()
            if not growth.added:
                return None
            moved = self._move(growth)
            holds = self._fitting() if moved is not None else None
            if moved is None or holds is None:
                return None
            if len(groups) > 1 or moved:  # else the cheapest steps, in the cheapest domain, are the minimum
                moved, holds = self._shrink(growth, moved, holds)
            return self._option(growth, moved, holds)

    def _from_plenty(self, groups: Sequence[GroupRequest]) -> Option | None:
        """Add more than enough devices where the groups gain most, and remove those that the engine does not need.

        Used for several groups, one of which may occupy in simulation the place that another one needs.
        """
        left = dict(self._left)
        budget = limits.PLENTY * sum(group.replicas_least * max(1, group.shape.gpus) for group in groups)
        with Growth(self._fleet) as growth:
            for step in self._steps.best_of(groups, growth):
                if step.devices > left[step.source]:
                    continue
                if budget <= 0:
                    break
                growth.add(step.node, step.source, step.devices)
                left[step.source] -= step.devices
                budget -= step.devices
            moved = self._move(growth)
            holds = self._fitting() if moved is not None and growth.added else None
            if moved is None or holds is None:
                return None
            return self._option(growth, *self._shrink(growth, moved, holds))

    def _hold(self, growth: Growth, group: GroupRequest, names: Sequence[str] | None) -> bool:
        if names is not None:
            return growth.hold_among(names, group.shape, group.replicas_least)
        holds = self._fleet.find(GangRequest((GroupRequest(group.shape, group.replicas_least),)))
        if holds is None:
            return False
        growth.hold(holds)
        return True

    def _fitting(self) -> Sequence[Hold] | None:
        self._asks += 1
        return self._fleet.find(self._ask)

    # --- moves -----------------------------------------------------------------------------------------------

    def _move(self, growth: Growth) -> list[Spare] | None:
        """Return idle devices of other nodes for what the pool lacks; None if they are not enough."""
        moved = list[Spare]()
        if not self._with_donors:
            return moved
        wanted = dict[Source, int]()
        targets = {node for node, _ in growth.added}
        for (_, source), devices in growth.added.items():
            wanted[source] = wanted.get(source, 0) + devices
        for source, devices in wanted.items():
            lacking = devices - self._sources.pool.get(source, 0)
            for donor in self._sources.donors.get(source, ()):
                if lacking <= 0:
                    break
                if donor.node not in targets:
                    growth.take_away(donor.node, donor.index)
                    moved.append(donor)
                    lacking -= 1
            if lacking > 0:
                return None
        return moved

    # --- the least -------------------------------------------------------------------------------------------

    def _shrink(self, growth: Growth, moved: list[Spare], holds: Sequence[Hold]) -> tuple[list[Spare], Sequence[Hold]]:
        """Remove added devices as long as the gang fits, those with most power first; then drop unneeded moves."""
        config = self._config
        keys = sorted(growth.added, key=lambda key: (-config.model(key[1].model).busy_w, key))
        for key in keys:
            fewer = growth.added[key]
            while (
                fewer and self._asks < limits.ASKS_MAX
            ):  # all added devices of a node at once, then halves, then one by one
                growth.remove(*key, fewer)
                fitting = self._fitting()
                if fitting is None:
                    growth.add(*key, fewer)
                    fewer //= 2
                else:
                    holds = fitting
                    fewer = min(fewer, growth.added.get(key, 0))
        moved = list(moved)
        used = dict[Source, int]()
        for (_, source), devices in growth.added.items():
            used[source] = used.get(source, 0) + devices
        for donor in reversed(list(moved)):
            mine = sum(other.source == donor.source for other in moved)
            if used.get(donor.source, 0) < self._sources.pool.get(donor.source, 0) + mine:
                moved.remove(donor)
        return moved, holds

    def _option(self, growth: Growth, moved: Sequence[Spare], holds: Sequence[Hold]) -> Option | None:
        if not growth.added:
            return None
        config = self._config
        parts = tuple(
            ScalePart(node=node, count=devices, fabric=source.fabric, device_model=source.model)
            for (node, source), devices in sorted(growth.added.items())
        )
        watts = attached_watts(config, parts) + moved_watts(config, [donor.model for donor in moved])
        models = {part.device_model for part in parts}
        return Option(
            parts=parts,
            group=self._cluster.node_groups.group_of(parts[0].node),
            devices=tuple(donor.uuid for donor in moved),
            places=places_of(holds),
            watts=watts,
            ready_s=attach_s(config, models, are_moved=bool(moved)),
        )


def _size(shape: TaskShape) -> tuple[bool, int, int, int]:
    return shape.full_node, shape.gpus * 1000 + shape.gpu_milli, shape.cpu_milli, shape.memory_mib
