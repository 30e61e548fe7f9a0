"""Plan requests: on which nodes devices go, and which go back; or why it is impossible."""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.composer.core.capacity import Capacity, Refusal, Site
from muster.composer.core.config import GroupConfig
from muster.composer.core.decision import Tally
from muster.composer.core.records import LEAVING, Attachment, FabricRecords, Kind, Request, Requests
from muster.composer.core.state import Attachments
from muster.schemas.devices import CXL_MEMORY, GPU, AllocationPolicy, AttachmentPhase, ComposabilitySpec, Origin
from muster.schemas.facts.scale import ScaleChosen

ORDERS_MAX = 2_000
"""New devices of one acceptance: its fact stays far below the size limit."""


@dataclass(frozen=True, slots=True)
class Order:
    """One new device."""

    site: Site
    model: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Devices to attach, and attachments to detach (`victims`)."""

    orders: tuple[Order, ...] = ()
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """A decision must wait for `reason`; `field` is the refused one if that never comes."""

    reason: str
    field: str = "model"


@dataclass(slots=True)
class _Choice:
    """Nodes with room, while they are filled."""

    kind: Kind
    left: dict[str, int] = field(default_factory=dict)
    own: Counter[str] = field(default_factory=Counter)
    sites: dict[str, Site] = field(default_factory=dict)
    reason: Refusal | None = None


_CLASSES = {
    AttachmentPhase.REQUESTED: 0,
    AttachmentPhase.ATTACHING: 2,
    AttachmentPhase.ONLINE: 3,
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Planner:
    """Judges requests by the current state."""

    capacity: Capacity
    attachments: Attachments
    requests: Requests
    fabrics: FabricRecords

    def compose(self, name: str, spec: ComposabilitySpec, tally: Tally, *, may_force: bool) -> Plan | Refusal | Wait:
        """Judge a new or changed request, after what this decision accepted before."""
        request = self.requests.get(name)
        if request is not None and request.is_live and request.deleting:
            return Refusal("name", f"request {name} is being deleted: wait for its end, or choose another name")
        if request is not None and request.is_live and request.origin is not Origin.REQUEST:
            return Refusal("name", f"{name} is a choice of the scaler: choose another name")
        own = self._own(request)
        wrong = _changed(request, own, spec) or self._unknown(spec)
        if wrong is not None:
            return wrong
        if (holder := self._rival(name, spec, tally)) is not None:
            return holder
        if spec.size <= len(own):
            wrong = self._unmet(request, own, spec)
            if wrong is not None or spec.size == len(own):
                return wrong or Plan()
            return self._shrink(own, spec, may_force=may_force)
        return self._grow(name, spec, own, tally)

    def parts(self, chosen: ScaleChosen, tally: Tally) -> Plan | Refusal | Wait:
        """Judge the attachments of a scaling decision: exactly these nodes, all or nothing."""
        orders, left = list[Order](), tally.copy()
        for part in chosen.parts:
            model = part.device_model or chosen.device_model
            site = self.capacity.site_of(part.node)
            if isinstance(site, Refusal):
                return site
            found = self.capacity.room(site, (GPU, model), left)
            if isinstance(found, Refusal):
                return found
            if found < part.count:
                return Refusal("size", f"node {part.node} has room for {found} more GPUs, {part.count} are chosen")
            if (waits := self._unsurveyed(site.fabric)) is not None:
                return waits
            free = self.capacity.free(site.fabric, (GPU, model)) - left.pools[site.fabric, (GPU, model)]
            if free < part.count:
                return Refusal(
                    "size",
                    f"{max(0, free)} {model} are free in the pool of fabric {site.fabric}, {part.count} are chosen",
                )
            new = [Order(site, model)] * part.count
            count(left, new, GPU)
            orders += new
        if len(orders) > ORDERS_MAX:
            return Refusal("size", f"at most {ORDERS_MAX} devices are attached by one choice")
        return Plan(tuple(orders))

    def _own(self, request: Request | None) -> list[Attachment]:
        """Return the attachments that the request has and keeps."""
        if request is None or not request.is_live:
            return []
        attachments = (self.attachments[name] for name in request.attachments)
        return [one for one in attachments if one.wish is None and one.phase not in LEAVING]

    def _unmet(self, request: Request | None, own: list[Attachment], spec: ComposabilitySpec) -> Refusal | None:
        """Return what is wrong with a request that gets no more devices: its target, or a new `other_spec`."""
        if spec.target_node and not own and isinstance(site := self.capacity.site_of(spec.target_node), Refusal):
            return site
        known = request.spec if request is not None and request.is_live else None
        if spec.other_spec is None or (known is not None and known.other_spec == spec.other_spec):
            return None
        if own:
            nodes = {self.attachments.hosts.node_of(attachment) for attachment in own}
        else:
            nodes = {spec.target_node} if spec.target_node else {site.node for site in self.capacity.sites()}
        refusals = [self.capacity.too_little(node, spec.other_spec) for node in sorted(nodes)]
        if own:  # all of them are to have it; else one that does is enough
            return next((refusal for refusal in refusals if refusal is not None), None)
        return None if None in refusals else next(iter(refusals), None)

    def _unknown(self, spec: ComposabilitySpec) -> Refusal | Wait | None:
        kinds = {kind for fabric in self.fabrics.values() for kind in fabric.pool}
        types = {GPU, CXL_MEMORY} | {type_ for type_, _ in kinds}
        if spec.type not in types:
            return Refusal("type", f"no fabric has devices of type {spec.type}; known: {', '.join(sorted(types))}")
        models = {model for type_, model in kinds if type_ == spec.type}
        if spec.model in models:
            return None
        for config in self.capacity.config.fabrics:
            waits = self._unsurveyed(config.name)
            groups = (group for group in self.capacity.config.groups if group.fabric == config.name)
            if waits is not None and any(_may_take(group, spec) for group in groups):
                return waits
        known = ", ".join(sorted(models)) or "none"
        return Refusal("model", f"no fabric has {spec.type} of model {spec.model}; known: {known}")

    def _unsurveyed(self, fabric: str) -> Wait | None:
        return None if self.fabrics[fabric].surveyed else Wait(f"fabric {fabric} has not been surveyed yet")

    def _rival(self, name: str, spec: ComposabilitySpec, tally: Tally) -> Refusal | None:
        """Return a refusal if another request has the same `rival_keys` (the rule of the CoHDI operator)."""
        key = rival_keys(spec)
        if not key:
            return None
        rival = tally.held_by.get(key, "")
        for other in self.requests.values():
            if other.is_live and other.spec is not None and other.origin is Origin.REQUEST and not other.deleting:
                rival = other.name if other.name != name and rival_keys(other.spec) == key else rival
        if not rival or rival == name:
            return None
        where = f"on {spec.target_node}" if spec.target_node else "over nodes"
        field_name = "target_node" if spec.target_node else "allocation_policy"
        return Refusal(
            field_name, f"request {rival} asks {spec.type} {spec.model} {where} already: change that request", rival
        )

    def _shrink(self, own: list[Attachment], spec: ComposabilitySpec, *, may_force: bool) -> Plan | Refusal:
        """Return the victims in the operator's order: not begun, in transition, online, others; idle, then oldest."""

        def turn(one: Attachment) -> tuple[int, bool, int, str]:
            return _CLASSES.get(one.phase, 4), bool(self.attachments.hosts.holders(one)), one.requested_at, one.id

        victims = sorted(own, key=turn)[: len(own) - spec.size]
        if spec.force_detach and not may_force:
            for victim in victims:
                holders = self.attachments.hosts.holders(victim) if victim.has_device else ()
                if holders:
                    reason = (
                        f"{victim.device_uuid} is held by {holders[0]}, and taking it by force needs an operator's role"
                    )
                    return Refusal("force_detach", reason, holders[0])
        return Plan(victims=tuple(victim.id for victim in victims))

    def _grow(self, name: str, spec: ComposabilitySpec, own: list[Attachment], tally: Tally) -> Plan | Refusal | Wait:
        need = spec.size - len(own)
        if need > ORDERS_MAX:
            return Refusal("size", f"at most {ORDERS_MAX} devices are added at a time")
        places = [self.capacity.site_of(spec.target_node)] if spec.target_node else self.capacity.sites()
        choice, waits = _Choice((spec.type, spec.model)), None
        for site in places:
            if isinstance(site, Refusal):
                return site
            unseen = self._unsurveyed(site.fabric)
            if unseen is not None and _may_take(site.group, spec):
                waits = unseen  # other fabrics may do without it
                continue
            found = self.capacity.room(site, choice.kind, tally, spec.other_spec)
            if isinstance(found, Refusal):
                choice.reason = choice.reason or found
            elif found:
                choice.left[site.node], choice.sites[site.node] = found, site
        choice.own = Counter(self.attachments.hosts.node_of(attachment) for attachment in own)
        pools = {
            fabric.name: self.capacity.free(fabric.name, choice.kind) - tally.pools[fabric.name, choice.kind]
            for fabric in self.fabrics.values()
        }
        most = sum(choice.left.values())
        if spec.allocation_policy is AllocationPolicy.DIFFERENTNODE:
            nodes = _spread(choice, pools, need)
        else:
            nodes = self._together(choice, pools, need, used=self._nodes_of_others(name, spec))
        if len(nodes) < need:
            return waits or self._short(spec, choice, tally, need=need, most=most)
        return Plan(tuple(Order(choice.sites[node], spec.model) for node in nodes))

    def _together(self, choice: _Choice, pools: dict[str, int], need: int, *, used: set[str]) -> list[str]:
        """Return one node for all, if one takes them: with devices of the request first, then without other requests.

        Above all, a working fabric is preferred to one whose breaker is open.
        """

        def turn(node: str) -> tuple[bool, bool, bool, bool, int, str]:
            fabric = choice.sites[node].fabric
            takes, fails = min(choice.left[node], pools.get(fabric, 0)), bool(self.fabrics[fabric].retry_at)
            return node not in choice.own, fails, takes < need, node in used, -min(takes, need), node

        nodes: list[str] = []
        for node in sorted(choice.left, key=turn):
            fabric = choice.sites[node].fabric
            takes = max(0, min(choice.left[node], pools.get(fabric, 0), need - len(nodes)))
            pools[fabric] = pools.get(fabric, 0) - takes
            nodes += [node] * takes
            if len(nodes) == need:
                break
        return nodes

    def _nodes_of_others(self, name: str, spec: ComposabilitySpec) -> set[str]:
        """Return the nodes of other samenode requests for the same."""
        found = set()
        for other in self.requests.values():
            if other.name == name or not other.is_live or other.spec is None or other.origin is not Origin.REQUEST:
                continue
            if (other.spec.type, other.spec.model) == (spec.type, spec.model):
                found |= {self.attachments.hosts.node_of(self.attachments[one]) for one in other.attachments}
        return found

    def _short(self, spec: ComposabilitySpec, choice: _Choice, tally: Tally, *, need: int, most: int) -> Refusal:
        """Return whether the pool or the nodes, which take `most`, are too small."""
        free = sum(
            max(0, self.capacity.free(name, choice.kind) - tally.pools[name, choice.kind]) for name in self.fabrics
        )
        if most < need:
            if not most and choice.reason is not None:
                return choice.reason
            where = f"node {spec.target_node} has" if spec.target_node else "composable nodes have"
            return Refusal("size", f"{where} room for {most} more, {need} are requested")
        return Refusal("size", f"{free} {spec.model} are free in the pools of these nodes, {need} are requested")


def count(tally: Tally, orders: Iterable[Order], type_: str) -> None:
    """Count what these orders take, for the rest of the decision."""
    for order in orders:
        tally.pools[order.site.fabric, (type_, order.model)] += 1
        tally.nodes.setdefault(order.site.node, []).append((type_, order.model))


def rival_keys(spec: ComposabilitySpec) -> tuple[str, ...]:
    """Return the keys that only one request may have: its target node, or the spreading, with type and model."""
    if spec.allocation_policy is AllocationPolicy.DIFFERENTNODE:
        return "differentnode", spec.type, spec.model
    return ("samenode", spec.target_node, spec.type, spec.model) if spec.target_node else ()


def _changed(request: Request | None, own: list[Attachment], spec: ComposabilitySpec) -> Refusal | None:
    """Refuse changes of a request with devices other than size, force and other_spec."""
    if request is None or request.spec is None or not own:
        return None
    for name in ("type", "model", "target_node", "allocation_policy"):
        before, now = getattr(request.spec, name), getattr(spec, name)
        if before != now:
            reason = (
                f"request {request.name} has {len(own)} devices with {name} {before or 'unset'!s}: set size 0 first"
            )
            return Refusal(name, reason)
    return None


def _may_take(group: GroupConfig, spec: ComposabilitySpec) -> bool:
    """Return whether such a device could be on the group's nodes: otherwise its fabric is not needed."""
    return spec.type != GPU or spec.model in group.gpu_models


def _spread(choice: _Choice, pools: dict[str, int], need: int) -> list[str]:
    """Return nodes one after another, always the one with the fewest devices of the request."""
    heap = [(choice.own[node], node) for node in choice.left]
    heapq.heapify(heap)
    nodes: list[str] = []
    while heap and len(nodes) < need:
        has, node = heapq.heappop(heap)
        fabric = choice.sites[node].fabric
        if pools.get(fabric, 0) <= 0:
            continue
        pools[fabric] -= 1
        choice.left[node] -= 1
        nodes.append(node)
        if choice.left[node]:
            heapq.heappush(heap, (has + 1, node))
    return nodes
