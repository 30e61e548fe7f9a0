"""Manifests for orders of pods: the port through which the gangs make them. Pure, the same for the same order.

The pod that checks a slot's place, where others make the pod that is to run there, is the pod that Muster would make
for that place of a job of its own, with the container of the checks alone: the same devices, names and variables by
which a gang's pods find each other, nothing of the job.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes import claims, names
from muster.agent.core.kubernetes.names import CHECKS, GATE_VOLUME
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.pods import PodOrder, gang_service, is_share, plan_apart, pod_labels, pod_manifest
from muster.agent.core.kubernetes.ports import ImpossiblePodError
from muster.agent.core.kubernetes.rendezvous import Gang
from muster.kube.objects import JsonObject, mapping, objects, text
from muster.schemas.job import Slot

_CHECK_CONTAINER = "checks"
"""Of a pod that only checks: its only one."""
_UNLIMITED = ("cpu", "memory")
"""What that container may exceed: what others' pods ask is what they need, and no limit of the tools of the checks."""


@dataclass(slots=True)
class PodOrders:
    """Implements `ports.Manifests`, and says what pods need beside themselves. is_checking: whether pods are
    checked before their first step where that is planned: without the right to open their gates they are not. team_of:
    namespaces that are marked as a team's.
    """

    policy: PodPolicy
    is_checking: bool = True
    team_of: dict[str, str] = field(default_factory=dict)
    _last: tuple[Sequence[Slot], Gang] | None = field(default=None)

    def namespace(self, order: CreatePods) -> str:
        """Where the pods of this attempt are, with their claims and Service."""
        return names.namespace_for(self._policy(order).namespace, order.spec.team)

    def pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        """The pod of one slot, unbound. peers: all slots of the attempt. Raises ImpossiblePodError."""
        self._check_namespace(order)
        return pod_manifest(self._order(order, slot, peers))

    @property
    def makes_check_pods(self) -> bool:
        """See `Manifests`."""
        return bool(self.policy.preflight_image)

    def check_pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        """The pod that checks the slot's place, unbound. Raises ImpossiblePodError."""
        self._check_namespace(order)
        return check_manifest(replace(self._order(order, slot, peers), checks=order.preflight, is_check=True))

    def is_first(self, order: CreatePods, slot: Slot) -> bool:
        """Whether the slot is the first of its attempt."""
        first = self._gang(order, order.slots).everybody[0]
        return (slot.group, slot.replica) == (first.group, first.replica)

    def service(self, order: CreatePods, *, owner: tuple[str, str] = ("", "")) -> JsonObject | None:
        """The headless Service by which the pods of the attempt meet; None if there is nobody to meet.

        owner: name and uid of a pod with which it goes, unless the gang may grow and shrink around that one.
        """
        is_elastic = any(group.min_replicas is not None for group in order.spec.task_groups)
        gang = self._gang(order, order.slots)
        return gang_service(gang, self._policy(order), owner=("", "") if is_elastic else owner)

    def is_claimed(self, order: CreatePods, slot: Slot) -> bool:
        """Whether the slot's GPUs were chosen one by one, so that a claim names them; else the kubelet picks."""
        return bool(slot.devices) and not is_share(slot, order.spec.task_groups[slot.group])

    def claim(self, order: CreatePods, slot: Slot, *, name: str, uid: str) -> JsonObject:
        """The claim of the slot's pod, which is there under this name and uid."""
        wanted = self._order(order, slot, order.slots)
        return claims.claim_manifest(
            names.claim_name(name),
            namespace=wanted.namespace,
            labels=pod_labels(wanted),
            pod=(name, uid),
            device_class=self.policy.device_class,
            count=len(slot.devices),
        )

    def claim_labels(self, order: CreatePods) -> dict[str, str]:
        """By which a claim that another made for a pod of this attempt is known as Muster's."""
        return {names.CLUSTER_LABEL: self.policy.cluster, names.JOB_LABEL: names.job_label(order.job_id)}

    def _check_namespace(self, order: CreatePods) -> None:
        """Raises ImpossiblePodError where a team's name leads into a namespace that is not the team's."""
        namespace, team = self.namespace(order), order.spec.team
        is_by_name = order.origin is None and names.TEAM in self.policy.namespace
        if is_by_name and self.team_of.get(namespace) != team:
            raise ImpossiblePodError(
                f"namespace {namespace} is not marked as the one of team {team}",
                field="team",
                cure=f"an administrator can: kubectl label namespace {namespace} {names.TEAM_LABEL}={team}",
            )

    def _policy(self, order: CreatePods) -> PodPolicy:
        """Pods of a job that stands for an object are beside it, where its Secrets and volumes are."""
        return (
            self.policy
            if order.origin is None
            else replace(self.policy, namespace=order.origin.namespace, names_objects=True)
        )

    def _order(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> PodOrder:
        return PodOrder(
            self._gang(order, peers),
            slot,
            self._policy(order),
            claimed=self.is_claimed(order, slot),
            trace=order.trace,
            resumed_s=order.resumed_s,
            checks=order.preflight if self.is_checking and self.policy.preflight_image else None,
        )

    def _gang(self, order: CreatePods, peers: Sequence[Slot]) -> Gang:
        """Kept for the next pod of the same gang, which comes next: a gang of 4,096 sorts its slots once."""
        if self._last is not None and self._last[0] is peers:
            known = self._last[1]
            if (known.job_id, known.attempt) == (order.job_id, order.attempt):
                return known
        gang = Gang(order.job_id, order.attempt, order.spec, tuple(peers))
        self._last = peers, gang
        return gang


def check_manifest(order: PodOrder) -> JsonObject:
    """The pod, without a node. order: with checks, of a job without an object. Raises ImpossiblePodError."""
    image = order.policy.preflight_image
    if not image:
        raise ImpossiblePodError("no image is named", field="preflight.image", cure="name one that has `muster`")
    assert order.checks is not None, "it is made to check"
    checked = replace(order, checks=plan_apart(order.checks))
    made = pod_manifest(replace(checked, policy=replace(order.policy, image=image)))
    spec = mapping(made, "spec")
    checks = next(one for one in objects(spec, "initContainers") if text(one, "name") == CHECKS)
    resources = mapping(checks, "resources")
    limits = {name: value for name, value in mapping(resources, "limits").items() if name not in _UNLIMITED}
    spec["containers"] = [{**checks, "name": _CHECK_CONTAINER, "resources": {**resources, "limits": limits}}]
    spec["volumes"] = [one for one in objects(spec, "volumes") if text(one, "name") != GATE_VOLUME]
    del spec["initContainers"]
    return made
