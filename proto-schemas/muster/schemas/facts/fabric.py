"""Facts of fabrics (kind `fabric`): pools, breakers, orphans, machines. Of the composer, but for `operator-seen`."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from muster.schemas.base import NEVER, InstantNs, Label, Payload, RecordedInstant, Text, Wire
from muster.schemas.devices import GPU, SIZE_MAX, PoolModel
from muster.schemas.facts.device import CallFailure
from muster.schemas.record import Listed, StateRecord

POOL_MODELS_MAX = 256


class FabricSurveyed(Payload):
    """`surveyed`: what the fabric's pool holds, when that changed."""

    pool: Annotated[tuple[PoolModel, ...], Field(max_length=POOL_MODELS_MAX)] = ()


class BreakerOpened(Payload):
    """`breaker-opened`: no calls to this fabric until `retry_at`, then one to see."""

    failures: int
    failure: CallFailure
    error: Text = ""
    retry_at: InstantNs


class BreakerClosed(Payload):
    """`breaker-closed`: the fabric answers again."""


class OrphanFound(Payload):
    """`orphan-found`: a device stands on one of our machines and nobody asked for it."""

    device_id: Label
    device_uuid: str = ""
    machine: Label
    model: str = ""
    type: Label = GPU
    memory_mib: int = 0


class OrphanReturned(Payload):
    """`orphan-returned`: it is back in the pool, or was asked for after all (`adopted`)."""

    device_id: Label
    adopted: bool = False


class OrphanState(OrphanFound):
    """An orphan that is not returned yet. fact: that told of it, at `at`."""

    at: InstantNs = 0
    fact: str = ""


class DeviceAway(Wire):
    """A device that went back to the pool, and when: nodes and older looks may still show it."""

    device_id: Label
    device_uuid: str = ""
    at: InstantNs = 0


class MachineKnown(Wire):
    """A machine of which no node tells that it is ours, or since when.

    One whose node left (`joined_at` 0), where a late call may still bring a device, or one whose node joined first at
    `joined_at`, where devices may have stood before.
    """

    machine: Label
    node: str
    joined_at: InstantNs = 0


class OperatorDevice(Wire):
    """A device that the field's operator has on a node for Muster (one ComposableResource).

    state: as its status says ("Attaching", "Online", "Detaching", "Deleting"). device_id: as the fabric calls it.
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
    """`operator-seen` of a fabric that is moved by the field's operator: what it has on nodes for Muster now.

    errors: of its requests.
    """

    devices: Annotated[tuple[OperatorDevice, ...], Field(max_length=SIZE_MAX)] = ()
    errors: tuple[Text, ...] = ()


@dataclass(slots=True)
class FabricState(StateRecord):
    """`state-recorded` of a fabric."""

    pool: Annotated[dict[tuple[str, str], PoolModel], Listed("type", "model")] = field(default_factory=dict)
    """By type and model: what its pool holds, as it was told and as devices came and went since."""
    surveyed: bool = False
    """Its pool was told of."""
    failures: int = 0
    """Calls in a row that speak against it."""
    opened_at: RecordedInstant = NEVER
    """When its breaker opened last."""
    retry_at: RecordedInstant = NEVER
    """Its breaker is open until then, and half open afterwards; 0: closed."""
    error: Text = ""
    orphans: Annotated[dict[str, OrphanState], Listed("device_id")] = field(default_factory=dict)
    """By id of the device."""
    since: RecordedInstant = NEVER
    """When its pool was told of last."""
    last_fact: str = ""
    """Id of the newest fact of its pool or breaker."""
    failure: CallFailure | None = None
    """The newest one."""
    succeeded_at: RecordedInstant = NEVER
    """When a call last did what it was asked."""
    moved_at: RecordedInstant = NEVER
    """When a device last came or went."""
    machines: tuple[MachineKnown, ...] = ()
    """Set only in checkpoints: the composer keeps machines of all fabrics together."""
    away: Annotated[dict[str, DeviceAway], Listed("device_id")] = field(default_factory=dict)
    """Devices that went back to the pool, by id; newest last."""
    operator: OperatorSeen | None = None
    """What the field's operator has for Muster, where that moves the devices."""
