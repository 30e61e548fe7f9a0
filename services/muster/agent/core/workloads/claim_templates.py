"""ResourceClaimTemplates that objects name: how many GPUs each of their pods gets by the claim that is made of one.

The claim itself is made for each pod by the cluster's claim controller (KEP-3063); what Muster needs before there are
pods is the number. A template does not change (`resource.k8s.io/v1`, its spec is immutable), it only comes and goes.
What Muster would not honour - expressions over devices, devices that have something in common - is refused in words:
devices are chosen by its scheduler, by model and topology.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from muster.agent.core.workload_values import NoJobError, Unfit, WorkloadPolicy, WorkloadView
from muster.kube.objects import JsonObject, integer, mapping, name_of, namespace_of, objects, sequence, text
from muster.schemas.job import JobSpec

FIELD = "resourceClaims"
DEVICES_MAX = 32
"""Of one claim (AllocationResultsMaxSize of resource.k8s.io/v1)."""
_CURE = "Ask in the template for whole GPUs by number alone: `exactly: {{deviceClassName: {}, count: N}}`."

MAY_NOT = Unfit(
    "Muster may not read ResourceClaimTemplates on this cluster",
    field=FIELD,
    cure="Grant it (`muster kubernetes rbac`), or make it a MusterJob.",
)
NO_CLAIM = Unfit(
    "on this cluster GPUs are given by claims, and not by count to pods that somebody else makes",
    cure=f"Name a ResourceClaimTemplate in the pod's {FIELD} instead of the count, or make it a MusterJob.",
)
CLAIM_ONLY = Unfit(
    "on this cluster GPUs are given by count, and not by claims",
    field=FIELD,
    cure="Ask for the GPUs in the container's limits, and take the claim away.",
)

Key = tuple[str, str]
"""Namespace and name of a template."""


@dataclass(frozen=True, slots=True)
class TemplateView:
    """A template. gpus: that a claim made of it asks for, 0 if it asks for what Muster cannot give: why says so."""

    namespace: str
    name: str
    gpus: int = 0
    why: Unfit | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class TemplateProjection:
    """Makes views of templates in namespaces whose objects are taken up; None: another's."""

    policy: WorkloadPolicy

    def __call__(self, raw: JsonObject) -> TemplateView | None:
        """Raises nothing: what cannot be given says why."""
        namespace, name = namespace_of(raw), name_of(raw)
        if not self.policy.takes_up(namespace):
            return None
        try:
            return TemplateView(namespace, name, gpus_of(mapping(raw, "spec", "spec"), self.policy.device_class))
        except NoJobError as error:
            return TemplateView(namespace, name, why=Unfit(f"template {name}: {error.reason}", error.field, error.cure))


class Templates:
    """What is known of templates, and which objects wait for one. may_read: whether the API server shows them.

    models: see `with_claims`.
    """

    def __init__(self) -> None:
        self.may_read = True
        self.models: Callable[[], tuple[str, ...]] = lambda: ()
        self._views: dict[Key, TemplateView] = {}
        self._waiting: dict[Key, dict[str, None]] = {}

    def see(self, view: TemplateView) -> tuple[str, ...]:
        """A template is there. Returns uids of objects that waited for it."""
        self._views[view.key] = view
        return tuple(self._waiting.pop(view.key, ()))

    def lose(self, key: Key) -> None:
        """A template is gone: what was asked by it stands."""
        self._views.pop(key, None)

    def waiting(self) -> tuple[str, ...]:
        """Uids of all objects that wait."""
        return tuple(uid for uids in self._waiting.values() for uid in uids)

    def asked(self, view: WorkloadView, spec: JobSpec) -> JobSpec | Unfit | None:
        """The job with the GPUs of its pods' claims; why it can be none; None while a template is not there."""
        if not self.may_read:
            return MAY_NOT
        known = partial(self._in, view.namespace)
        found = with_claims(spec, view.templates, known, models=self.models())
        if isinstance(found, str):
            self._waiting.setdefault((view.namespace, found), {})[view.uid] = None
            return None
        return found

    def _in(self, namespace: str, name: str) -> TemplateView | None:
        return self._views.get((namespace, name))

    def lacks(self, view: WorkloadView) -> str:
        """The template that the object waits for, "" if for none."""
        names = dict.fromkeys(filter(None, view.templates))
        return next((name for name in names if (view.namespace, name) not in self._views), "")

    def forget_waiting(self, uid: str, view: WorkloadView) -> None:
        """The object is gone."""
        for name in view.templates:
            uids = self._waiting.get((view.namespace, name))
            if uids is not None:
                uids.pop(uid, None)
                if not uids:
                    del self._waiting[view.namespace, name]

    def clear(self) -> None:
        """Nothing is watched any more."""
        self._views.clear()
        self._waiting.clear()


def gpus_of(claim: JsonObject, device_class: str) -> int:
    """How many devices the claim asks for. claim: its spec. Raises NoJobError for what is more than a number."""
    devices, path, total = mapping(claim, "devices"), "spec.spec.devices", 0
    cure = _CURE.format(device_class)
    if sequence(devices, "constraints"):
        raise NoJobError("its devices are to have something in common", field=f"{path}.constraints", cure=cure)
    for request in objects(devices, "requests"):
        where, exactly = f"{path}.requests[{text(request, 'name')}]", mapping(request, "exactly")
        if not exactly:
            raise NoJobError("it leaves a choice of devices", field=where, cure=cure)
        if text(exactly, "deviceClassName") != device_class:
            said = text(exactly, "deviceClassName")
            raise NoJobError(f"devices of class {said} are not given by Muster", field=where, cure=cure)
        if text(exactly, "allocationMode") not in ("", "ExactCount"):
            raise NoJobError("it asks for all devices of a node", field=where, cure=cure)
        for key in ("selectors", "capacity", "adminAccess"):
            if exactly.get(key):
                raise NoJobError("Muster chooses devices by number and model alone", field=f"{where}.{key}", cure=cure)
        total += integer(exactly, "count", default=1)
    if not 0 < total <= DEVICES_MAX:
        why = f"it asks for {total} devices, and a claim has 1 to {DEVICES_MAX}"
        raise NoJobError(why, field=f"{path}.requests", cure=cure)
    return total


def template_of(pod_spec: JsonObject, *, path: str) -> str:
    """The template of the pod's claim, "" if it has none. path: of the pod's spec. Raises NoJobError for more."""
    claims = objects(pod_spec, FIELD)
    if not claims:
        return ""
    name = text(claims[0], "resourceClaimTemplateName")
    if len(claims) > 1 or not name:
        raise NoJobError(
            "a pod has one claim, made of a template for this pod alone",
            field=f"{path}.{FIELD}",
            cure="Name one ResourceClaimTemplate with all its GPUs; claims that pods share are not given by Muster.",
        )
    return name


def with_claims(
    spec: JobSpec,
    templates: Sequence[str],
    known: Callable[[str], TemplateView | None],
    *,
    models: tuple[str, ...] = (),
) -> JobSpec | Unfit | str:
    """The job with the GPUs of its pods' claims; why it can be none; or the name of a template that is not there.

    templates: of each task group, "" for one whose pods have no claim. models: that a group gets which names none: on
    nodes of others a claim finds no device.
    """
    groups = list(spec.task_groups)
    for index, name in enumerate(templates):
        if not name:
            continue
        view = known(name)
        if view is None:
            return name
        if view.why is not None:
            return view.why
        group = groups[index]
        groups[index] = group.model_copy(update={"gpus": view.gpus, "gpu_models": group.gpu_models or models})
    return spec.model_copy(update={"task_groups": tuple(groups)})
