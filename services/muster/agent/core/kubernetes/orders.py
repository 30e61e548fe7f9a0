"""Build manifests for orders of pods, the port of the gangs. Pure: the same for the same order.

A check pod, for a pod that another controller creates, is the pod that Muster would create there, with only the
container of the checks: the same devices, names and variables of the gang, and nothing of the job.
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
from muster.schemas.pods import TEAM, namespace_for

_CHECK_CONTAINER = "checks"
"""The only container of a check pod."""
_UNLIMITED = ("cpu", "memory")
"""Limits that the check container may exceed: those of the job's pods do not fit the tools of the checks."""


@dataclass(slots=True)
class PodOrders:
    """Manifests of pods and their auxiliary objects."""

    policy: PodPolicy
    is_checking: bool = True
    """Whether planned checks run before the first step; needs permission to open gates."""
    team_of: dict[str, str] = field(default_factory=dict)
    """Team label by namespace."""
    _last: tuple[Sequence[Slot], Gang] | None = field(default=None)

    def namespace(self, order: CreatePods) -> str:
        """Return the namespace of the attempt's pods, claims and Service."""
        return namespace_for(self._policy(order).namespace, order.spec.team)

    def pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        """Return the unbound pod of one slot; `peers` are all slots of the attempt. Raises ImpossiblePodError."""
        self._check_namespace(order)
        return pod_manifest(self._order(order, slot, peers))

    @property
    def makes_check_pods(self) -> bool:
        """Return whether check pods have an image."""
        return bool(self.policy.preflight_image)

    def check_pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        """Return the unbound check pod for the slot. Raises ImpossiblePodError."""
        self._check_namespace(order)
        return check_manifest(replace(self._order(order, slot, peers), checks=order.preflight, is_check=True))

    def is_first(self, order: CreatePods, slot: Slot) -> bool:
        """Return whether the slot is the first of its attempt."""
        first = self._gang(order, order.slots).everybody[0]
        return (slot.group, slot.replica) == (first.group, first.replica)

    def service(self, order: CreatePods, *, owner: tuple[str, str] = ("", "")) -> JsonObject | None:
        """Return the headless Service of the attempt; None for a single pod.

        `owner` is name and uid of a pod with which it is deleted; elastic gangs ignore it.
        """
        is_elastic = any(group.min_replicas is not None for group in order.spec.task_groups)
        gang = self._gang(order, order.slots)
        return gang_service(gang, self._policy(order), owner=("", "") if is_elastic else owner)

    def is_claimed(self, order: CreatePods, slot: Slot) -> bool:
        """Return whether the slot names its GPUs, which a claim then allocates; otherwise the kubelet picks."""
        return bool(slot.devices) and not is_share(slot, order.spec.task_groups[slot.group])

    def claim(self, order: CreatePods, slot: Slot, *, name: str, uid: str) -> JsonObject:
        """Return the claim of the slot's pod with this name and uid."""
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
        """Return the labels that mark a claim of another controller as used by Muster."""
        return {names.CLUSTER_LABEL: self.policy.cluster, names.JOB_LABEL: names.job_label(order.job_id)}

    def _check_namespace(self, order: CreatePods) -> None:
        """Raise ImpossiblePodError if the team's namespace is not labeled as the team's."""
        namespace, team = self.namespace(order), order.spec.team
        is_by_name = order.origin is None and TEAM in self.policy.namespace
        if is_by_name and self.team_of.get(namespace) != team:
            raise ImpossiblePodError(
                f"namespace {namespace} has no label for team {team}",
                field="team",
                cure=f"ask an administrator to run: kubectl label namespace {namespace} {names.TEAM_LABEL}={team}",
            )

    def _policy(self, order: CreatePods) -> PodPolicy:
        """Return the policy; pods of a job from an object are in its namespace, where its Secrets and volumes are."""
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
        """Return the gang, cached for its next pod: a gang of 4,096 sorts its slots once."""
        if self._last is not None and self._last[0] is peers:
            known = self._last[1]
            if (known.job_id, known.attempt) == (order.job_id, order.attempt):
                return known
        gang = Gang(order.job_id, order.attempt, order.spec, tuple(peers))
        self._last = peers, gang
        return gang


def check_manifest(order: PodOrder) -> JsonObject:
    """Return the unbound check pod. Raises ImpossiblePodError."""
    image = order.policy.preflight_image
    if not image:
        raise ImpossiblePodError(
            "no image is named", field="preflight.image", cure="set an image that contains `muster`"
        )
    assert order.checks is not None, "a check pod has checks"
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
