"""Facts of fabrics (kind `fabric`): pools, breakers, orphans, machines. Of the composer, but for `operator-seen`."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Label, Payload, Text, Wire
from muster.schemas.devices import GPU, SIZE_MAX, PoolModel
from muster.schemas.facts.device import CallFailure

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


class FabricState(Payload):
    """`state-recorded` of a fabric. failure: the newest one. succeeded_at: when a call last did what it was asked.

    moved_at: when a device last came or went. machines: see `MachineKnown`. away: newest last. operator: what the
    field's operator has for Muster, where that moves the devices.
    """

    pool: tuple[PoolModel, ...] = ()
    surveyed: bool = False
    failures: int = 0
    opened_at: InstantNs = 0
    retry_at: InstantNs = 0
    error: Text = ""
    orphans: tuple[OrphanState, ...] = ()
    since: InstantNs = 0
    last_fact: str = ""
    failure: CallFailure | None = None
    succeeded_at: InstantNs = 0
    moved_at: InstantNs = 0
    machines: tuple[MachineKnown, ...] = ()
    away: tuple[DeviceAway, ...] = ()
    operator: OperatorSeen | None = None
