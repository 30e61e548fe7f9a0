"""Devices of composable fabrics, as the composer reports them: in pools, being attached, on nodes, being detached."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.core import Instant
from muster.schemas.devices import GPU, AttachmentPhase, PoolModel
from muster.schemas.facts.device import AttachmentRequested

Key = tuple[str, str, str]
"""Fabric, type and model."""


@dataclass(slots=True)
class Stock:
    """Devices of one model in one fabric."""

    free: int = 0
    attached: int = 0


class Pool:
    """The pools of all fabrics."""

    def __init__(self) -> None:
        self.stocks: dict[Key, Stock] = {}
        self.closed_until: dict[str, Instant] = {}
        """For each fabric with an open breaker, when it is tried again."""
        self.version = 0
        """Grows whenever more may be available."""

    def survey(self, fabric: str, found: Iterable[PoolModel]) -> None:
        """Set what the fabric holds."""
        for key in [key for key in self.stocks if key[0] == fabric]:
            del self.stocks[key]
        for entry in found:
            self.stocks[fabric, entry.type, entry.model] = Stock(entry.free, entry.attached)
        self.version += 1

    def take(self, key: Key) -> None:
        """Count one device that moved from the pool to a machine."""
        stock = self.stocks.setdefault(key, Stock())
        stock.free, stock.attached = max(0, stock.free - 1), stock.attached + 1

    def give(self, key: Key) -> None:
        """Count one device that came back to the pool."""
        stock = self.stocks.setdefault(key, Stock())
        stock.free, stock.attached = stock.free + 1, max(0, stock.attached - 1)
        self.version += 1

    def open_breaker(self, fabric: str, until: Instant) -> None:
        """Send no calls to this fabric until the given time."""
        self.closed_until[fabric] = until

    def close_breaker(self, fabric: str) -> None:
        """Note that the fabric answers again."""
        if self.closed_until.pop(fabric, None) is not None:
            self.version += 1

    def free(self, fabric: str, model: str) -> int:
        """Return the GPUs in the pool, including reserved ones."""
        stock = self.stocks.get((fabric, GPU, model))
        return 0 if stock is None else stock.free


NOT_YET_ATTACHED = frozenset({AttachmentPhase.REQUESTED, AttachmentPhase.ATTACHING})
"""Phases in which the device is still in the pool, reserved."""

COMING = frozenset(
    {AttachmentPhase.REQUESTED, AttachmentPhase.ATTACHING, AttachmentPhase.ATTACHED, AttachmentPhase.VISIBLE}
)
"""Phases in which the device is not usable yet, and will be."""

LEAVING = frozenset({AttachmentPhase.WITHHOLDING, AttachmentPhase.DETACHING})
"""Phases in which the device is still on the node, and will leave."""


@dataclass(slots=True)
class Attachment:
    """One device."""

    id: str
    requested: AttachmentRequested
    node: str
    """The requested node; for a device that was found on a machine, the node that shows it."""
    phase: AttachmentPhase = AttachmentPhase.REQUESTED
    device_uuid: str = ""
    since: int = 0
    """When it entered its phase."""


class Attachments:
    """All attachments that are not over, by id, by node, by request and by device."""

    def __init__(self) -> None:
        self.all: dict[str, Attachment] = {}
        self.on: dict[str, dict[str, Attachment]] = {}
        self.of_request: dict[str, dict[str, Attachment]] = {}
        self.of_device: dict[str, Attachment] = {}
        self.kept: dict[tuple[str, str, str], int] = {}

    def put(self, attachment: Attachment) -> None:
        """Add a new attachment, or one of a checkpoint."""
        self.remove(attachment.id)
        self.all[attachment.id] = attachment
        self.on.setdefault(attachment.node, {})[attachment.id] = attachment
        self.of_request.setdefault(attachment.requested.request, {})[attachment.id] = attachment
        if attachment.device_uuid:
            self.of_device[attachment.device_uuid] = attachment
        self._keep(attachment, 1)

    def move(self, attachment: Attachment, phase: AttachmentPhase, *, at: int, device_uuid: str = "") -> None:
        """Set the phase, and the device once it is known."""
        self._keep(attachment, -1)
        attachment.phase, attachment.since = phase, at
        self._keep(attachment, 1)
        if device_uuid:
            attachment.device_uuid = device_uuid
            self.of_device[device_uuid] = attachment

    def remove(self, attachment_id: str) -> Attachment | None:
        """Remove an attachment that is over."""
        attachment = self.all.pop(attachment_id, None)
        if attachment is None:
            return None
        self._keep(attachment, -1)
        for index, name in ((self.on, attachment.node), (self.of_request, attachment.requested.request)):
            del index[name][attachment_id]
            if not index[name]:
                del index[name]
        if self.of_device.get(attachment.device_uuid) is attachment:
            del self.of_device[attachment.device_uuid]
        return attachment

    def part_left(self, request: str, node: str, count: int) -> int:
        """Return how many of `count` devices of a request the composer has not begun to attach to this node."""
        begun = self.of_request.get(request, {})
        return max(0, count - sum(attachment.node == node for attachment in begun.values()))

    def _keep(self, attachment: Attachment, more: int) -> None:
        """Update `kept`: devices in a pool reserved for attachments, by (fabric, type, model)."""
        if attachment.phase in NOT_YET_ATTACHED:
            key = attachment.requested.fabric, attachment.requested.type, attachment.requested.model
            self.kept[key] = self.kept.get(key, 0) + more
            if not self.kept[key]:
                del self.kept[key]
