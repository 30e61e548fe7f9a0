"""Devices of composable fabrics: requests, in the terms of the Composable Resource Operator, and their state.

The shape of a request and its states are those of the Composable Resource Operator (CoHDI/composable-resource-operator
v0.2.1, group cro.hpsys.ibm.ie.com, version v1alpha1). Its resource definition calls the policy that spreads devices
`differentnode`; earlier texts say `roundrobin`. Both are read, `differentnode` is kept and written.
"""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from muster.schemas.base import InstantNs, JobId, Label, Name, Text, Wire

SIZE_MAX = 4_096
"""Maximum number of devices of one request."""
API_VERSIONS = ("v1alpha1", "cro.hpsys.ibm.ie.com/v1alpha1", "muster.dev/v1alpha1")
KIND = "ComposabilityRequest"
GPU, CXL_MEMORY = "gpu", "cxlmemory"


class AllocationPolicy(StrEnum):
    """Placement of devices without a target node: as far as possible on one node, or evenly over nodes."""

    SAMENODE = "samenode"
    DIFFERENTNODE = "differentnode"


def _policy_word(value: object) -> object:
    return AllocationPolicy.DIFFERENTNODE if value == "roundrobin" else value


class OtherSpec(Wire):
    """Free resources that the node must have besides the devices; None: not required. memory, ephemeral_storage:
    bytes."""

    milli_cpu: Annotated[int, Field(ge=0)] | None = None
    memory: Annotated[int, Field(ge=0)] | None = None
    ephemeral_storage: Annotated[int, Field(ge=0)] | None = None
    allowed_pod_number: Annotated[int, Field(ge=0)] | None = None


class ComposabilitySpec(Wire):
    """`spec.resource` of a ComposabilityRequest: `size` devices of one model.

    type: "gpu", "cxlmemory", or another type of a fabric. size 0 returns all devices and keeps the request.
    force_detach: devices are detached also while jobs use them.
    """

    type: Label = GPU
    model: Label
    size: Annotated[int, Field(ge=0, le=SIZE_MAX)]
    target_node: Annotated[str, Field(max_length=253)] = ""
    force_detach: bool = False
    allocation_policy: Annotated[AllocationPolicy, BeforeValidator(_policy_word)] = AllocationPolicy.SAMENODE
    other_spec: OtherSpec | None = None

    @model_validator(mode="after")
    def _spreading_names_no_node(self) -> Self:
        if self.target_node and self.allocation_policy is AllocationPolicy.DIFFERENTNODE:
            raise ValueError("allocation_policy: differentnode (roundrobin) spreads devices; leave target_node empty")
        return self


class ManifestMetadata(Wire):
    """`metadata` of a manifest. name: "" has the gateway generate one."""

    name: Name | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class ManifestSpec(Wire):
    """`spec` of a manifest."""

    resource: ComposabilitySpec


class ComposabilityManifest(Wire):
    """A complete ComposabilityRequest, as written for the Composable Resource Operator."""

    apiVersion: str  # noqa: N815 - Kubernetes' word
    kind: str
    metadata: ManifestMetadata = ManifestMetadata()
    spec: ManifestSpec

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.kind != KIND:
            raise ValueError(f"kind: {self.kind!r} is not {KIND}")
        if self.apiVersion not in API_VERSIONS:
            raise ValueError(f"apiVersion: {self.apiVersion!r} is not one of {', '.join(API_VERSIONS)}")
        return self


class ComposabilityBody(Wire):
    """The short form of a request, as programs send it. name: None has the gateway generate one from the idempotency
    key."""

    name: Name | None = None
    spec: ComposabilitySpec


class RequestPhase(StrEnum):
    """State of a request; the values of the operator's status. `Refused` and `Ended` are Muster's."""

    NODE_ALLOCATING = "NodeAllocating"
    UPDATING = "Updating"
    RUNNING = "Running"
    CLEANING = "Cleaning"
    DELETING = "Deleting"
    REFUSED = "Refused"
    ENDED = "Ended"


class AttachmentPhase(StrEnum):
    """State of one device. `operator_word` is the state that the operator's ComposableResource would have."""

    REQUESTED = "requested"
    ATTACHING = "attaching"
    ATTACHED = "attached"
    VISIBLE = "visible"
    ONLINE = "online"
    WITHHOLDING = "withholding"
    DETACHING = "detaching"
    DETACHED = "detached"
    FAILED = "failed"

    @property
    def operator_word(self) -> str:
        """Return Attaching, Online, Detaching, Deleting, or "" before the first call."""
        return _OPERATOR_WORDS[self]

    @property
    def is_over(self) -> bool:
        """Return whether the attachment is over."""
        return self in (AttachmentPhase.DETACHED, AttachmentPhase.FAILED)


_OPERATOR_WORDS = {
    AttachmentPhase.REQUESTED: "",
    AttachmentPhase.ATTACHING: "Attaching",
    AttachmentPhase.ATTACHED: "Attaching",
    AttachmentPhase.VISIBLE: "Attaching",
    AttachmentPhase.ONLINE: "Online",
    AttachmentPhase.WITHHOLDING: "Detaching",
    AttachmentPhase.DETACHING: "Detaching",
    AttachmentPhase.DETACHED: "Deleting",
    AttachmentPhase.FAILED: "Deleting",
}


class Origin(StrEnum):
    """Origin of an attachment: a request, the scaler, found at the first survey, or an orphan."""

    REQUEST = "request"
    SCALER = "scaler"
    FOUND = "found"
    ORPHAN = "orphan"


class PoolModel(Wire):
    """Devices of one model in one fabric. free: in the pool; attached: on machines."""

    type: Label = GPU
    model: Label
    free: int = 0
    attached: int = 0


class DeviceView(Wire):
    """One device that is attached, or being attached or detached, as `muster device list` shows it.

    id: of the attachment. device_uuid: as nodes show it; device_id: as the fabric calls it; "" while unknown.
    holders: jobs that use it. since: when it entered this phase.
    """

    id: str
    cluster: str = ""
    type: str = GPU
    model: str
    node: str
    fabric: str
    device_uuid: str = ""
    device_id: str = ""
    phase: AttachmentPhase
    origin: Origin = Origin.REQUEST
    request: str = ""
    attempt: int = 0
    error: str = ""
    holders: tuple[str, ...] = ()
    since: InstantNs = 0


class RequestView(Wire):
    """One ComposabilityRequest, as `muster device requests` shows it. resources: its attachments."""

    name: str
    cluster: str = ""
    spec: ComposabilitySpec
    phase: RequestPhase
    error: str = ""
    field: str = ""
    principal: str = ""
    origin: Origin = Origin.REQUEST
    jobs: tuple[JobId, ...] = ()
    resources: tuple[DeviceView, ...] = ()
    since: InstantNs = 0


class BreakerState(StrEnum):
    """Circuit breaker of a fabric: closed passes calls, open passes none, half-open passes one probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class FabricView(Wire):
    """One fabric: its pool, its breaker, calls under way and their limit, orphans."""

    name: str
    cluster: str = ""
    driver: str = ""
    pool: tuple[PoolModel, ...] = ()
    breaker: BreakerState = BreakerState.CLOSED
    error: Text = ""
    retry_at: InstantNs = 0
    in_flight: int = 0
    limit: int = 0
    orphans: int = 0
    surveyed_at: InstantNs = 0
