"""Devices on machines without an attachment: adopted, found, or returned to the pool; and the pool's counts.

Adoption goes before attaching: an attachment that waits for this model on this machine, with an unknown call outcome,
takes a device that is there. A device that no attachment waits for is an orphan.
"""

import hashlib
from dataclasses import dataclass

from muster.composer.core.config import ComposerConfig
from muster.composer.core.decision import Decision, causes_of
from muster.composer.core.fabric_calls import FabricCalls, attach
from muster.composer.core.records import Attachment, Fabric, FabricRecords, pool_of
from muster.composer.core.state import Attachments
from muster.composer.core.surveys import Survey, Surveys
from muster.core import Draft, Instant, after
from muster.fabric.driver import MachineDevice
from muster.schemas.devices import AttachmentPhase, Origin, PoolModel
from muster.schemas.facts.device import AttachmentRequested, DeviceAttached
from muster.schemas.facts.fabric import (
    POOL_MODELS_MAX,
    FabricSurveyed,
    OrphanFound,
    OrphanReturned,
    OrphanState,
)


def attachment_id(type_: str, *parts: str | int) -> str:
    """`<type>-<16 hex digits>`: a hash of what it names, so that the same decision makes the same id again."""
    return f"{type_}-{hashlib.sha256(chr(31).join(map(str, parts)).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Orphans:
    """Settles devices without an attachment, and reports the counts of pools."""

    config: ComposerConfig
    attachments: Attachments
    fabrics: FabricRecords
    surveys: Surveys
    fabric_calls: FabricCalls

    def settle(self, decision: Decision) -> None:
        """Settle what the newest survey of each fabric shows."""
        for config in self.config.fabrics:
            fabric, look = self.fabrics[config.name], self.surveys.at(config.name)
            if not look.began_at:
                continue
            for machine, device in self.surveys.left_over(fabric.name, decision.claimed):
                if decision.is_full:
                    return
                self._settle(fabric, machine, device, decision, found_on=look.found_on)
            for orphan in tuple(fabric.orphans.values()):
                self._follow(fabric, orphan, look, decision)
            self._tell_pool(fabric, decision)

    def next_due(self) -> Instant | None:
        """Return when an orphan has been watched long enough."""
        moments = [
            after(Instant(orphan.at), self.config.bounds.orphan_s)
            for fabric in self.fabrics.values()
            for orphan in fabric.orphans.values()
            if (fabric.name, orphan.device_id) not in self.attachments.by_device
        ]
        return min(moments, default=None)

    def _settle(
        self, fabric: Fabric, machine: str, device: MachineDevice, decision: Decision, *, found_on: set[str]
    ) -> None:
        waiting, is_coming = self._who_waits(machine, device, decision)
        if waiting is not None:
            attach(waiting, device, decision, adopted=True)
        elif not fabric.surveyed or machine in found_on:
            self._take_over(fabric, machine, device, decision, origin=Origin.FOUND)
        elif not is_coming and device.device_id not in fabric.orphans:
            payload = OrphanFound(
                device_id=device.device_id,
                device_uuid=device.device_uuid,
                machine=machine,
                model=device.model,
                type=device.type,
                memory_mib=device.memory_mib,
            )
            decision.drafts.append(Draft("fabric", fabric.name, "orphan-found", payload, causes_of(fabric.last_fact)))

    def _who_waits(self, machine: str, device: MachineDevice, decision: Decision) -> tuple[Attachment | None, bool]:
        """Return the attachment that takes the device: unknown outcomes first, oldest first, then those without a call.

        Also return whether a call in progress may have brought it, whose outcome will come.
        """
        unknown, fresh, is_coming = [], [], False
        for name in self.attachments.on_machine.get(machine, ()):
            attachment = self.attachments[name]
            if attachment.kind != (device.type, device.model) or name in decision.moved or not attachment.is_coming:
                continue
            if attachment.phase is AttachmentPhase.REQUESTED:
                if attachment.said and attachment.wish is None:
                    fresh.append(attachment)
            elif attachment.is_calling and self.fabric_calls.is_under_way(attachment):
                is_coming = True
            else:
                unknown.append(attachment)
        waiting = min(unknown or fresh, key=lambda one: (one.requested_at, one.id), default=None)
        if waiting is not None and not unknown and is_coming:
            waiting = None  # the device is probably the other's: a later survey reports it
        return waiting, is_coming

    def _take_over(
        self,
        fabric: Fabric,
        machine: str,
        device: MachineDevice,
        decision: Decision,
        *,
        origin: Origin,
        fact: str = "",
    ) -> None:
        """Add an attachment for a device that is on its machine already."""
        name = attachment_id(device.type, fabric.name, device.device_id, origin.value, fact)
        node = self.attachments.hosts.machines.node_on.get(machine, "")
        requested = AttachmentRequested(
            type=device.type, model=device.model, node=node, fabric=fabric.name, machine=machine, origin=origin
        )
        attached = DeviceAttached(
            device_uuid=device.device_uuid or device.device_id,
            device_id=device.device_id,
            node=node,
            machine=machine,
            type=device.type,
            model=device.model,
            memory_mib=device.memory_mib,
            adopted=True,
        )
        decision.claimed.add((fabric.name, device.device_id))
        causes = causes_of(fact)
        decision.drafts += [
            Draft("attachment", name, "requested", requested, causes, together=name),
            Draft("attachment", name, "attached", attached, causes, together=name),
        ]

    def _follow(self, fabric: Fabric, orphan: OrphanState, look: Survey, decision: Decision) -> None:
        """Adopt an orphan, drop it if it is gone, or detach it after its time."""
        key, causes = (fabric.name, orphan.device_id), causes_of(orphan.fact)
        owner = self.attachments.by_device.get(key)
        if owner is not None:
            if self.attachments[owner].requested.origin is not Origin.ORPHAN:
                returned = OrphanReturned(device_id=orphan.device_id, adopted=True)
                decision.drafts.append(Draft("fabric", fabric.name, "orphan-returned", returned, causes))
            return
        is_there = look.shows(orphan.machine, orphan.device_id)
        is_back = fabric.away_at(orphan.device_id) >= orphan.at
        if is_back or (look.is_after(Instant(orphan.at)) and not is_there):
            returned = OrphanReturned(device_id=orphan.device_id)
            decision.drafts.append(Draft("fabric", fabric.name, "orphan-returned", returned, causes))
        elif (
            is_there
            and key not in decision.claimed
            and decision.now >= after(Instant(orphan.at), self.config.bounds.orphan_s)
        ):
            device = MachineDevice(orphan.device_id, orphan.device_uuid, orphan.model, orphan.type, orphan.memory_mib)
            self._take_over(fabric, orphan.machine, device, decision, origin=Origin.ORPHAN, fact=orphan.fact)

    def _tell_pool(self, fabric: Fabric, decision: Decision) -> None:
        """Report the pool's counts if the log has others, from a survey without concurrent calls."""
        look = self.surveys.at(fabric.name)
        if self.attachments.calling(fabric.name) or not look.is_after(fabric.moved_at):
            return
        if not fabric.surveyed and any(True for _ in self.surveys.left_over(fabric.name, set())):
            return  # orphans are adopted first: the report of the pool ends the first survey
        counts = dict(look.counts)
        known = {kind: (model.free, model.attached) for kind, model in fabric.pool.items()}
        gone = [kind for kind in sorted(known) if kind not in counts]
        counts.update(dict.fromkeys(gone[: POOL_MODELS_MAX - len(counts)], (0, 0)))
        if fabric.surveyed and counts == known:
            return
        pool = {
            kind: PoolModel(type=kind[0], model=kind[1], free=free, attached=attached)
            for kind, (free, attached) in counts.items()
        }
        decision.drafts.append(
            Draft("fabric", fabric.name, "surveyed", FabricSurveyed(pool=pool_of(pool)), causes_of(fabric.last_fact))
        )
