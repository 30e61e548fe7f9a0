"""Settings of what scales: node groups, GPU models, and what the scaler may do with them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from muster.schemas.base import Name


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GroupSettings(_Section):
    """One node group. An ordinary group's nodes are all alike; a composable one shows the fixed spec with the most GPUs
    that a node can have, while its nodes really differ.

    name: its nodes begin with it. composable: its nodes take GPUs from a pool. nodes: there at the very start.
    nodes_min, nodes_max: what scaling may make of it. gpus: of an ordinary node, or attached at the start to each
    composable one. gpus_min, gpus_max: per composable node. warm_gpus: idle attached GPUs that are kept in the group.
    gpu_models: that its nodes take, best first. cpu_milli, memory_mib: of each node. rack_size: nodes of a rack.
    fabric: which attaches them. idle_w, busy_w: of a node without its GPUs. provision_s: from the wish to the node.
    deprovision_s: until it is gone. kubelet_picks: as of the fleet.
    """

    name: Name
    composable: bool = False
    nodes: Annotated[int, Field(ge=0, le=100_000)] = 0
    nodes_min: Annotated[int, Field(ge=0, le=100_000)] = 0
    nodes_max: Annotated[int, Field(ge=0, le=100_000)] = 0
    gpus: Annotated[int, Field(ge=0, le=64)] = 0
    gpus_min: Annotated[int, Field(ge=0, le=64)] = 0
    gpus_max: Annotated[int, Field(ge=0, le=64)] = 0
    gpu_models: tuple[str, ...] = ()
    warm_gpus: Annotated[int, Field(ge=0)] = 0
    cpu_milli: Annotated[int, Field(ge=1)] = 64_000
    memory_mib: Annotated[int, Field(ge=1)] = 524_288
    rack_size: Annotated[int, Field(ge=1)] = 8
    fabric: str = ""
    idle_w: Annotated[float, Field(ge=0)] = 250.0
    busy_w: Annotated[float, Field(ge=0)] = 600.0
    provision_s: Annotated[float, Field(ge=0)] = 600.0
    deprovision_s: Annotated[float, Field(ge=0)] = 60.0
    kubelet_picks: bool = False

    @property
    def gpus_most(self) -> int:
        """GPUs that one of its nodes can have."""
        return self.gpus_max if self.composable else self.gpus

    @property
    def round_trip_s(self) -> float:
        """Seconds that a node is away at least if it is removed and then needed again."""
        return self.provision_s + self.deprovision_s


class ModelSettings(_Section):
    """One GPU model.

    idle_w, busy_w: what one takes. attach_s: from the wish until it may be used. detach_s: and back.
    """

    idle_w: Annotated[float, Field(ge=0)] = 60.0
    busy_w: Annotated[float, Field(ge=0)] = 350.0
    attach_s: Annotated[float, Field(ge=0)] = 50.0
    detach_s: Annotated[float, Field(ge=0)] = 45.0


class ScalingSettings(_Section):
    """What the scaler may do.

    mode: whose wishes for nodes it follows: its own, the Cluster Autoscaler's, or none. groups: of nodes that may grow
    and shrink. models: watts and seconds of GPU models that are not the default's.
    gpu_idle_s: a GPU idle for so long goes back to the pool. node_unneeded_s, delay_after_add_s, delay_after_failure_s,
    node_provision_s_max: as the Cluster Autoscaler's flags. withhold_s: how long a node or device may take to become
    free before its removal is given up. may_not_coexist: models of which a node has at most one. visible_s: simulated
    nodes show a device so long after it was attached.
    """

    mode: Literal["embedded", "cluster-autoscaler", "off"] = "embedded"
    groups: tuple[GroupSettings, ...] = ()
    models: dict[str, ModelSettings] = {}
    may_not_coexist: tuple[tuple[str, ...], ...] = ()
    gpu_idle_s: Annotated[float, Field(ge=0)] = 600.0
    node_unneeded_s: Annotated[float, Field(ge=0)] = 600.0
    delay_after_add_s: Annotated[float, Field(ge=0)] = 600.0
    delay_after_failure_s: Annotated[float, Field(ge=0)] = 180.0
    node_provision_s_max: Annotated[float, Field(gt=0)] = 900.0
    withhold_s: Annotated[float, Field(gt=0)] = 30.0
    visible_s: Annotated[float, Field(ge=0)] = 10.0
