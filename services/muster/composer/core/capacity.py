"""Compute how many devices of a kind a node can take, and why not more."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from muster.composer.core.config import ComposerConfig, GroupConfig
from muster.composer.core.decision import Tally
from muster.composer.core.records import FabricRecords, Kind
from muster.composer.core.state import Attachments
from muster.schemas.devices import GPU, OtherSpec
from muster.schemas.facts.node import MEMORY_DEVICES_MAX

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Site:
    """A node to which its fabric can attach devices."""

    node: str
    machine: str
    fabric: str
    group: GroupConfig


@dataclass(frozen=True, slots=True)
class Refusal:
    """The field that makes a request impossible, the reason, and who is in the way."""

    field: str
    reason: str
    holder: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Capacity:
    """Room of nodes by their groups, devices and jobs."""

    config: ComposerConfig
    attachments: Attachments
    fabrics: FabricRecords

    def free(self, fabric: str, kind: Kind) -> int:
        """Return the number of devices in the pool that are not reserved."""
        return self.fabrics[fabric].free(kind) - self.attachments.reserved[fabric, kind]

    def site_of(self, node: str) -> Site | Refusal:
        """Return the node as a place for devices."""
        known = self.attachments.hosts.nodes.get(node)
        if known is None:
            gone = node in self.attachments.hosts.grants.nodes
            return Refusal("target_node", f"node {node} {'left the cluster' if gone else 'is not part of the cluster'}")
        if known.is_lost:
            return Refusal("target_node", f"node {node} is lost: it does not answer")
        group = self.config.group_of.get(known.description.group)
        if group is None or not known.description.machine:
            return Refusal("target_node", f"node {node} is not composable: it belongs to no group with a fabric")
        return Site(node, known.description.machine, group.fabric, group)

    def sites(self) -> list[Site]:
        """Return all nodes that may be chosen, by name: those that take jobs."""
        usable = sorted(
            name for name in self.attachments.hosts.nodes if self.attachments.hosts.grants.is_node_usable(name)
        )
        return [site for name in usable if isinstance(site := self.site_of(name), Site)]

    def room(self, site: Site, kind: Kind, tally: Tally, other: OtherSpec | None = None) -> int | Refusal:
        """Return how many devices the node takes beside those that it has or will get, whatever the pool has."""
        kinds = self._kinds_on(site)
        if site.node in tally.nodes:
            kinds = kinds + Counter(tally.nodes[site.node])
        wrong = self._misfit(site, kind, kinds) or self.too_little(site.node, other)
        if wrong is not None:
            return wrong
        most = site.group.gpus_max if kind[0] == GPU else MEMORY_DEVICES_MAX
        return max(0, most - sum(count for (type_, _), count in kinds.items() if type_ == kind[0]))

    def _kinds_on(self, site: Site) -> Counter[Kind]:
        """Return the devices on the site, of attachments and others that it shows. Do not change the result.

        It is recomputed only after a change of the machine: a request may go to any of thousands of nodes.
        """
        known = self.attachments.kinds_on.get(site.machine)
        if known is None:
            here = list(self.attachments.here(site.node))
            theirs = {attachment.device_uuid for attachment in here}
            known = Counter(attachment.kind for attachment in here)
            node, away = self.attachments.hosts.nodes[site.node], self.fabrics[site.fabric].uuids_away
            more = sum(1 for uuid in node.shown if uuid not in theirs and uuid not in away)
            if more:
                known[GPU, node.description.gpu_model] += more
            self.attachments.kinds_on[site.machine] = known
        return known

    def _misfit(self, site: Site, kind: Kind, kinds: Collection[Kind]) -> Refusal | None:
        type_, model = kind
        if type_ == GPU:
            if model not in site.group.gpu_models:
                takes = ", ".join(site.group.gpu_models) or "no GPUs"
                return Refusal("model", f"node {site.node} of group {site.group.name} takes {takes}, not {model}")
            other = next((known for known_type, known in kinds if known_type == GPU and known != model), "")
            if other:
                return Refusal("model", f"node {site.node} carries {other}, and GPUs of one model at a time")
        elif kind not in self.fabrics[site.fabric].pool:
            return Refusal("model", f"fabric {site.fabric} of node {site.node} has no {type_} of model {model}")
        other = self.config.conflict(model, (known for _, known in kinds))
        if other:
            return Refusal("model", f"node {site.node} carries {other}, beside which {model} may not stand")
        return None

    def too_little(self, node: str, other: OtherSpec | None) -> Refusal | None:
        """Compare `other_spec` with what jobs leave free; values that nodes do not report cannot be promised."""
        description = self.attachments.hosts.nodes.description(node)
        if other is None or description is None:
            return None
        cpu_milli, memory_mib = self.attachments.hosts.host_resources.held_by(
            self.attachments.hosts.holds.slots_on(node)
        )
        free_cpu, free_mib = description.cpu_milli - cpu_milli, description.memory_mib - memory_mib
        if (other.milli_cpu or 0) > free_cpu:
            return Refusal("other_spec.milli_cpu", f"node {node} has {free_cpu} free, {other.milli_cpu} are requested")
        if (other.memory or 0) > free_mib * MIB:
            return Refusal(
                "other_spec.memory", f"node {node} has {free_mib * MIB} bytes free, {other.memory} are requested"
            )
        for field in ("ephemeral_storage", "allowed_pod_number"):
            if getattr(other, field):
                return Refusal(f"other_spec.{field}", "nodes do not report how much of it is free: remove it")
        return None
