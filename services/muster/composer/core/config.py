"""What the composer is told of fabrics and node groups when it starts. Made from the settings by `app.config_of`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from muster.composer.core.limits import Bounds


@dataclass(frozen=True, slots=True)
class FabricConfig:
    """One fabric. limit: calls at a time, what its manager can take included. call_s: time-out of one call."""

    name: str
    driver: str = "fm"
    limit: int = 16
    call_s: float = 180.0


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One composable group: nodes of up to `gpus_max` GPUs of these models, attached by `fabric`.

    machines: that are known to be its own before their nodes join, with the nodes' names.
    """

    name: str
    fabric: str
    gpu_models: tuple[str, ...] = ()
    gpus_max: int = 8
    machines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ComposerConfig:
    """fabrics, groups: by their order. may_not_coexist: of each of these sets of models a node has one at most."""

    fabrics: tuple[FabricConfig, ...] = ()
    groups: tuple[GroupConfig, ...] = ()
    may_not_coexist: tuple[tuple[str, ...], ...] = ()
    bounds: Bounds = field(default_factory=Bounds)

    @cached_property
    def fabric_of(self) -> dict[str, FabricConfig]:
        """Fabrics by name."""
        return {fabric.name: fabric for fabric in self.fabrics}

    @cached_property
    def group_of(self) -> dict[str, GroupConfig]:
        """Groups whose fabric is there, by name."""
        return {group.name: group for group in self.groups if group.fabric in self.fabric_of}

    def conflict(self, model: str, others: Iterable[str]) -> str:
        """A model among `others` beside which this one may not stand; "" if there is none."""
        for excluded in self.may_not_coexist:
            if model in excluded:
                for other in others:
                    if other != model and other in excluded:
                        return other
        return ""
