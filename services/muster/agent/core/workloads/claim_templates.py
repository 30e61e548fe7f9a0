"""ResourceClaimTemplates that objects name: the number of GPUs per pod of the claims made from them.

The cluster's claim controller creates a claim for each pod (KEP-3063); Muster needs the number before there are pods.
Specs of templates are immutable (`resource.k8s.io/v1`). Expressions and constraints over devices are refused with a
reason: Muster's scheduler chooses devices by model and topology.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from muster.agent.core.workload_values import NoJobError, Unfit, WorkloadPolicy, WorkloadView
from muster.kube.objects import JsonObject, integer, mapping, name_of, namespace_of, objects, sequence, text
from muster.schemas.job import JobSpec

FIELD = "resourceClaims"
DEVICES_MAX = 32
"""Devices of one claim (AllocationResultsMaxSize of resource.k8s.io/v1)."""
_CURE = "Ask in the template for whole GPUs by number alone: `exactly: {{deviceClassName: {}, count: N}}`."

MAY_NOT = Unfit(
    "Muster may not read ResourceClaimTemplates on this cluster",
    field=FIELD,
    cure="Grant it (`muster kubernetes rbac`), or make it a MusterJob.",
)
NO_CLAIM = Unfit(
    "on this cluster GPUs are given by claims, and not by count to pods that another controller creates",
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
    """A template, and the GPUs of its claims; 0 if Muster cannot provide them, with the reason in `why`."""

    namespace: str
    name: str
    gpus: int = 0
    why: Unfit | None = None

    @property
    def key(self) -> Key:
        """Return namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class TemplateProjection:
    """Projects templates in namespaces whose objects are taken up; None for others."""

    policy: WorkloadPolicy

    def __call__(self, raw: JsonObject) -> TemplateView | None:
        """Project a template; never raises."""
        namespace, name = namespace_of(raw), name_of(raw)
        if not self.policy.takes_up(namespace):
            return None
        try:
            return TemplateView(namespace, name, gpus_of(mapping(raw, "spec", "spec"), self.policy.device_class))
        except NoJobError as error:
            return TemplateView(namespace, name, why=Unfit(f"template {name}: {error.reason}", error.field, error.cure))


class Templates:
    """Known templates, and objects that wait for one."""

    def __init__(self) -> None:
        self.may_read = True
        self.models: Callable[[], tuple[str, ...]] = lambda: ()
        self._views: dict[Key, TemplateView] = {}
        self._waiting: dict[Key, dict[str, None]] = {}

    def see(self, view: TemplateView) -> tuple[str, ...]:
        """Add a template. Return uids of objects that waited for it."""
        self._views[view.key] = view
        return tuple(self._waiting.pop(view.key, ()))

    def lose(self, key: Key) -> None:
        """Remove a template; earlier requests stay."""
        self._views.pop(key, None)

    def waiting(self) -> tuple[str, ...]:
        """Return the uids of all waiting objects."""
        return tuple(uid for uids in self._waiting.values() for uid in uids)

    def asked(self, view: WorkloadView, spec: JobSpec) -> JobSpec | Unfit | None:
        """Return the job with the GPUs of its pods' claims, a refusal, or None while a template is missing."""
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
        """Return the template that the object waits for, "" for none."""
        names = dict.fromkeys(filter(None, view.templates))
        return next((name for name in names if (view.namespace, name) not in self._views), "")

    def forget_waiting(self, uid: str, view: WorkloadView) -> None:
        """Forget an object that is gone."""
        for name in view.templates:
            uids = self._waiting.get((view.namespace, name))
            if uids is not None:
                uids.pop(uid, None)
                if not uids:
                    del self._waiting[view.namespace, name]

    def clear(self) -> None:
        """Forget all templates."""
        self._views.clear()
        self._waiting.clear()


def gpus_of(claim: JsonObject, device_class: str) -> int:
    """Return the number of devices that the claim requests. Raises NoJobError for anything but a number."""
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
    """Return the template of the pod's claim, "" for none. Raises NoJobError for several."""
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
    """Return the job with the GPUs of its pods' claims, a refusal, or the name of a missing template.

    `templates` are those of each task group. `models` are for groups that name none: nodes of others have no claims.
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
