"""Facts of fabrics (kind `fabric`): pools, breakers, orphans, machines. By the composer, except `operator-seen`."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from muster.schemas.base import NEVER, InstantNs, Label, Payload, RecordedInstant, Text, Wire
from muster.schemas.devices import GPU, SIZE_MAX, PoolModel
from muster.schemas.facts.device import CallFailure
from muster.schemas.record import Listed, StateRecord

POOL_MODELS_MAX = 256


class FabricSurveyed(Payload):
    """`surveyed`: the devices in the fabric's pool, when they changed."""

    pool: Annotated[tuple[PoolModel, ...], Field(max_length=POOL_MODELS_MAX)] = ()


class BreakerOpened(Payload):
    """`breaker-opened`: no calls to this fabric until `retry_at`, then one probe."""

    failures: int
    failure: CallFailure
    error: Text = ""
    retry_at: InstantNs


class BreakerClosed(Payload):
    """`breaker-closed`: the fabric answers again."""


class OrphanFound(Payload):
    """`orphan-found`: a device is attached to one of the cluster's machines and belongs to no request."""

    device_id: Label
    device_uuid: str = ""
    machine: Label
    model: str = ""
    type: Label = GPU
    memory_mib: int = 0


class OrphanReturned(Payload):
    """`orphan-returned`: the orphan is back in the pool, or a request has claimed it (`adopted`)."""

    device_id: Label
    adopted: bool = False


class OrphanState(OrphanFound):
    """An orphan that is not returned yet. fact: id of the fact that reported it, at `at`."""

    at: InstantNs = 0
    fact: str = ""


class DeviceAway(Wire):
    """A device that returned to the pool, and when; nodes and older surveys may still show it."""

    device_id: Label
    device_uuid: str = ""
    at: InstantNs = 0


class MachineKnown(Wire):
    """A machine whose node does not (yet) prove since when it belongs to the cluster.

    Its node left (`joined_at` 0), and a late call may still attach a device; or its node joined first at
    `joined_at`, and devices may have been attached before.
    """

    machine: Label
    node: str
    joined_at: InstantNs = 0


class OperatorDevice(Wire):
    """A device that the Composable Resource Operator has on a node for Muster (one ComposableResource).

    state: of its status ("Attaching", "Online", "Detaching", "Deleting"). device_id: the id that the fabric uses.
    """

    name: Label
    node: Label
    type: Label = GPU
    model: Label
    state: str = ""
    device_uuid: str = ""
    device_id: str = ""
    error: Text = ""


class OperatorSeen(Payload):
    """`operator-seen` of a fabric that the Composable Resource Operator manages: its devices on nodes for Muster.

    errors: of its requests.
    """

    devices: Annotated[tuple[OperatorDevice, ...], Field(max_length=SIZE_MAX)] = ()
    errors: tuple[Text, ...] = ()


@dataclass(slots=True)
class FabricState(StateRecord):
    """`state-recorded` of a fabric."""

    pool: Annotated[dict[tuple[str, str], PoolModel], Listed("type", "model")] = field(default_factory=dict)
    """The devices in its pool by type and model, as reported and as attached and detached since."""
    surveyed: bool = False
    """Its pool was reported."""
    failures: int = 0
    """Consecutive failed calls."""
    opened_at: RecordedInstant = NEVER
    """When its breaker last opened."""
    retry_at: RecordedInstant = NEVER
    """Its breaker is open until then, and half open afterwards; 0: closed."""
    error: Text = ""
    orphans: Annotated[dict[str, OrphanState], Listed("device_id")] = field(default_factory=dict)
    """Orphans by the id of the device."""
    since: RecordedInstant = NEVER
    """When its pool was last reported."""
    last_fact: str = ""
    """Id of the newest fact of its pool or breaker."""
    failure: CallFailure | None = None
    """The newest failure."""
    succeeded_at: RecordedInstant = NEVER
    """When a call last succeeded."""
    moved_at: RecordedInstant = NEVER
    """When a device was last attached or detached."""
    machines: tuple[MachineKnown, ...] = ()
    """Set only in checkpoints: the composer keeps machines of all fabrics together."""
    away: Annotated[dict[str, DeviceAway], Listed("device_id")] = field(default_factory=dict)
    """Devices that returned to the pool, by id; newest last."""
    operator: OperatorSeen | None = None
    """The devices of the Composable Resource Operator for Muster, if it manages this fabric."""
