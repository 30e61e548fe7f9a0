"""What ordinary pods ask that name Muster as their scheduler: one alone, or several as a gang by label."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.agent.core.kubernetes.resources import instant
from muster.agent.core.workloads.asking.common import OPTION_FIELDS, options_of, small_number, spec_of, words_of
from muster.agent.core.workloads.asking.templates import shape_of
from muster.agent.core.workloads.guests import MAIN, Guest, PodAsks, Shape
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.values import NOTHING_SHOWN, NoJobError, Shown, Unfit
from muster.kube.objects import JsonObject, integer, mapping, namespace_of, objects, strings, text, truth
from muster.kube.workload_labels import GANG, GANG_SIZE, GROUP, POD_CONDITION, QUEUE
from muster.schemas.job import REPLICAS_MAX, JobSpec

OWNED = frozenset({"Job", "JobSet", "MPIJob", "MusterJob"})
"""Controllers whose pods are theirs: the controller asks to run, its pods never alone."""


@dataclass(frozen=True, slots=True)
class GuestProjection:
    """Makes a Guest of a pod; None for one that asks nothing of Muster."""

    policy: WorkloadPolicy

    def __call__(self, raw: JsonObject) -> Guest | None:
        """Raises nothing: what can be no job says why."""
        labels = strings(raw, "metadata", "labels")
        if QUEUE not in labels or not self.policy.takes_up(namespace_of(raw)) or _is_owned(raw):
            return None
        gang, words = labels.get(GANG, ""), words_of(raw)
        size = small_number(words.get(GANG_SIZE, "1"), most=REPLICAS_MAX) or 0
        shown = _shown(raw)
        is_gated = bool(objects(raw, "spec", "schedulingGates"))  # somebody else wants to do something first
        waits = not text(raw, "spec", "nodeName") and text(raw, "status", "phase") == "Pending" and not is_gated
        asks: PodAsks | Unfit | None = None
        if waits and not shown.job_id:
            asks = self._asks(raw) if size and (gang or size == 1) else _bad_size(gang)
        return Guest(
            asks=asks,
            created=instant(text(raw, "metadata", "creationTimestamp")),
            gang=gang,
            gang_size=size or 1,
            shown=shown,
        )

    def _asks(self, raw: JsonObject) -> PodAsks | Unfit:
        words = words_of(raw)
        try:
            shape = shape_of(mapping(raw, "spec"), self.policy, path="spec")
        except NoJobError as error:
            return Unfit(error.reason, error.field, error.cure)
        options = options_of(words)
        options.setdefault("grace_s", integer(raw, "spec", "terminationGracePeriodSeconds", default=30))
        return PodAsks(shape, tuple(sorted(options.items())), words.get(GROUP, MAIN))


@dataclass(frozen=True, slots=True)
class GangAsks:
    """The job of a gang. order: for each slot, the index of its pod. templates: see `WorkloadView`."""

    spec: JobSpec
    order: tuple[int, ...]
    templates: tuple[str, ...] = ()


def gang_asks(pods: Sequence[PodAsks], *, name: str, team: str) -> GangAsks:
    """What the pods of a gang ask together.

    Pods of one group and shape are replicas of each other; other shapes of a group are groups of their own. What is
    said of the job as a whole is read from the first pod. Raises NoJobError.
    """
    places: dict[tuple[str, Shape], list[int]] = {}
    for index, asks in enumerate(pods):
        places.setdefault((asks.group, asks.shape), []).append(index)
    groups: list[JsonObject] = []
    taken: dict[str, int] = {}
    for (group, shape), indexes in places.items():
        taken[group] = taken.get(group, 0) + 1
        title = group if taken[group] == 1 else f"{group}-{taken[group]}"
        groups.append(shape.group(title, len(indexes)))
    body: JsonObject = {**dict(pods[0].options), "task_groups": groups}
    spec = spec_of(body, name=name, team=team, fields=OPTION_FIELDS)
    templates = tuple(shape.template for _, shape in places)
    order = tuple(index for indexes in places.values() for index in indexes)
    return GangAsks(spec, order, templates if any(templates) else ())


def _bad_size(gang: str) -> Unfit:
    field = f"metadata.labels[{GANG_SIZE if gang else GANG}]"
    cure = f"Label all pods of the gang with {GANG} and {GANG_SIZE}, at most {REPLICAS_MAX}."
    return Unfit("a gang has a name and a size", field, cure)


def _is_owned(raw: JsonObject) -> bool:
    return any(
        text(owner, "kind") in OWNED and truth(owner, "controller")
        for owner in objects(raw, "metadata", "ownerReferences")
    )


def _shown(raw: JsonObject) -> Shown:
    """A pod shows its job in a condition: the phase as its reason, the job's id at the head of its message."""
    for condition in objects(raw, "status", "conditions"):
        if text(condition, "type") == POD_CONDITION:
            phase, message = kebab(text(condition, "reason")), text(condition, "message")
            job_id = message.partition(":")[0] if text(condition, "status") != "False" else ""
            return Shown(job_id=job_id, phase=phase, said=said_by(phase, message))
    return NOTHING_SHOWN


def said_by(phase: str, message: str) -> str:
    """What a pod's condition says, as one text."""
    return f"{phase}\n{message}"


def kebab(reason: str) -> str:
    """`TimedOut` as `timed-out`."""
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in reason).lstrip("-")


def camel_reason(word: str) -> str:
    """`timed-out` as conditions say it: `TimedOut`."""
    return "".join(part.capitalize() for part in word.replace("_", "-").split("-"))
