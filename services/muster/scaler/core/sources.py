"""Where GPUs for a gang could come from, and which nodes could get them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.placement import GangRequest
from muster.placement.state import allows
from muster.scaler.core.able import Source, able_coming
from muster.scaler.core.consolidate import donors
from muster.scaler.core.spare import Spare, spare
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
        able = self.state.able(source)
        return {**able, **able_coming(self.state, source)} if self.with_coming else able


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
                found.pool[source] = state.pool_left(*source)
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
