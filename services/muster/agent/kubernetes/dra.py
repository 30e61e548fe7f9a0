"""Devices that Muster chooses, at the API server: their watches, and the nodes that Muster takes over."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial

from typing_extensions import override

from muster.agent.core.kubernetes.chosen import ChosenDevices
from muster.agent.core.kubernetes.claims import ClaimView, project_claim
from muster.agent.core.kubernetes.slices import SliceView, project_slice
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.parts import GrowingPart, KindWatch, Watch
from muster.core import Instant
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change
from muster.kube.permissions import Feature
from muster.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES

_logger = logging.getLogger(__name__)

OWN_NODES_S = 1.0
"""Between two checks of Muster's own nodes; a node counts once its driver has published its devices."""


class DevicesPart(GrowingPart):
    """A part that grows: an API server may serve devices after an upgrade. `now` is the sink's clock.

    Without `is_wanted`, kubelets choose the devices.
    """

    def __init__(self, chosen: ChosenDevices, *, is_wanted: bool, now: Callable[[], Instant]) -> None:
        self._chosen = chosen
        self._is_wanted = is_wanted
        self._now = now
        self._may_own = False
        self._is_seeing = False
        self._early: dict[str, SliceView] | None = None
        """Slices that arrived before all claims were seen; None afterwards."""
        self._told: frozenset[str] = frozenset()

    @override
    @property
    def features(self) -> tuple[Feature, ...]:
        if not self._is_wanted:
            return (Feature.NETWORKS,)
        owning = (Feature.OWN_NODES,) if self._chosen.own_nodes is not None else ()
        return (Feature.NETWORKS, Feature.DRA, *owning)

    @override
    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """Watch slices and claims; with only one of them every device would seem free."""
        self._may_own = abilities.has(Feature.OWN_NODES)
        if not self._is_wanted or not abilities.has(Feature.DRA):
            return ()
        self._is_seeing = True
        return dra_watches(self._chosen)

    @override
    @property
    def late_features(self) -> tuple[Feature, ...]:
        return (Feature.DRA,) if self._is_wanted else ()

    @override
    def later(self, features: Collection[Feature]) -> Sequence[Watch]:
        """Watch slices and claims; slices are held back until all claims were seen, as at the start."""
        if Feature.DRA not in features or self._is_seeing:
            return ()
        self._is_seeing, self._early = True, {}
        return dra_watches(self._chosen, on_slice=self._slice)

    @override
    def later_synced(self, features: Collection[Feature]) -> None:
        if Feature.DRA not in features or self._early is None:
            return
        early, self._early = self._early, None
        for view in early.values():
            self._chosen.slice_seen(view)

    @override
    def picks_devices(self) -> bool:
        return bool(self._chosen.nodes)

    @override
    async def run(self, connection: KubeConnection) -> None:
        while self._is_wanted and self._may_own:
            await asyncio.sleep(OWN_NODES_S)
            if self._is_seeing:
                self._chosen.settle(self._now())
                self._tell()

    def _slice(self, change: Change[SliceView]) -> None:
        if self._early is None:
            slice_changed(self._chosen, change)
        elif change.now is not None:
            self._early[change.key.name] = change.now
        else:
            self._early.pop(change.key.name, None)

    def _tell(self) -> None:
        own = self._chosen.own_nodes
        refused = frozenset() if own is None else frozenset(own.refused.values())
        for words in sorted(refused - self._told):
            _logger.warning("cannot reserve nodes with devices for Muster: %s", words)
        self._told = refused


def slice_changed(chosen: ChosenDevices, change: Change[SliceView]) -> None:
    """Apply a change of a slice."""
    if change.now is not None:
        chosen.slice_seen(change.now)
    else:
        chosen.slice_gone(change.key.name)


def dra_watches(
    chosen: ChosenDevices, *, on_slice: Callable[[Change[SliceView]], None] | None = None
) -> tuple[Watch, ...]:
    """Return the watches of all slices and claims. `on_slice` replaces the default handling of slices."""
    seen = partial(slice_changed, chosen) if on_slice is None else on_slice

    def slices(change: Change[SliceView], _: Instant) -> None:
        seen(change)

    def claims(change: Change[ClaimView], now: Instant) -> None:
        if change.now is not None:
            chosen.claim_seen(change.now, now)
        else:
            chosen.claim_gone((change.key.namespace, change.key.name), now)

    return (
        KindWatch(RESOURCE_SLICES, project_slice, slices),
        KindWatch(RESOURCE_CLAIMS, project_claim, claims),
    )
