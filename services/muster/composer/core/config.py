"""Configuration of fabrics and node groups, made from the settings by `app.config_of`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from muster.composer.core.limits import Bounds


@dataclass(frozen=True, slots=True)
class FabricConfig:
    """One fabric: `limit` bounds concurrent calls, also those its manager can take; `call_s` is a call's timeout."""

    name: str
    driver: str = "fm"
    limit: int = 16
    call_s: float = 180.0


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One composable group: nodes of up to `gpus_max` GPUs of these models, attached by `fabric`.

    `machines` are known to belong to it before their nodes join, with the nodes' names.
    """

    name: str
    fabric: str
    gpu_models: tuple[str, ...] = ()
    gpus_max: int = 8
    machines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ComposerConfig:
    """Fabrics and groups in order; a node has at most one model of each set in `may_not_coexist`."""

    fabrics: tuple[FabricConfig, ...] = ()
    groups: tuple[GroupConfig, ...] = ()
    may_not_coexist: tuple[tuple[str, ...], ...] = ()
    bounds: Bounds = field(default_factory=Bounds)

    @cached_property
    def fabric_of(self) -> dict[str, FabricConfig]:
        """Return fabrics by name."""
        return {fabric.name: fabric for fabric in self.fabrics}

    @cached_property
    def group_of(self) -> dict[str, GroupConfig]:
        """Return the groups whose fabric is configured, by name."""
        return {group.name: group for group in self.groups if group.fabric in self.fabric_of}

    def conflict(self, model: str, others: Iterable[str]) -> str:
        """Return a model among `others` with which this one must not coexist; "" for none."""
        for excluded in self.may_not_coexist:
            if model in excluded:
                for other in others:
                    if other != model and other in excluded:
                        return other
        return ""
