"""MachineSets and Machines (Cluster API or OpenShift) as far as Muster needs to know them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.resources import instant
from muster.agent.core.kubernetes.views import NOT_SEEN
from muster.core import Instant
from muster.kube.objects import JsonObject, at, integer, name_of, objects, strings, text, uid_of, version_of

ADDS = "muster.dev/adds"
"""Annotation of a MachineSet: the scaler's choices for which its replicas were raised and whose nodes are not there."""
REMOVES = "muster.dev/removes"
"""The same, for which they were lowered."""
REPLICAS = "muster.dev/replicas"
"""As Muster last wrote or saw them settled: another number is somebody else's."""
SCALE = "muster.dev/scale"
"""Annotation of a Machine: the scaler's choice for which it came."""
SPEC = "muster.dev/spec"
"""Annotation of a MachineSet: "spec-fixed" if it shows one spec, whatever devices its nodes have just now."""
OURS = (ADDS, REMOVES, REPLICAS, SPEC)
WORDS_MAX = 512
"""Characters of why a machine failed."""
DIGITS_MAX = 9
"""Of a number in an annotation: anybody may write there, and a long one is costly to read, or cannot be."""

_FAILED = frozenset({"Failed"})


@dataclass(frozen=True, slots=True)
class MachineSetView:
    """version: without it no write is safe. replicas: as its spec says. annotations: those that Muster writes."""

    name: str
    uid: str
    version: str
    replicas: int
    ready: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)

    def choices(self, annotation: str) -> tuple[str, ...]:
        """Choices of the scaler that an annotation names."""
        return tuple(name for name in self.annotations.get(annotation, "").split(",") if name)

    @property
    def own_replicas(self) -> int | None:
        """As Muster last wrote them; None if it never did."""
        written = self.annotations.get(REPLICAS, "")
        return int(written) if len(written) <= DIGITS_MAX and written.isdecimal() else None


@dataclass(frozen=True, slots=True)
class MachineView:
    """One machine. of: its MachineSet. node: that it became, "" before. scale: the choice for which it came.

    created: by the API server's clock. is_marked: the MachineSet gives it up before others. failure: why it will not
    become a node.
    """

    name: str
    uid: str
    of: str
    node: str = ""
    scale: str = ""
    created: Instant = NOT_SEEN
    is_marked: bool = False
    is_going: bool = False
    failure: str = ""


def project_machine_set(raw: JsonObject, *, kept: frozenset[str] = frozenset(OURS)) -> MachineSetView:
    """kept: annotations that are compared and written."""
    annotations = {key: value for key, value in strings(raw, "metadata", "annotations").items() if key in kept}
    return MachineSetView(
        name=name_of(raw),
        uid=uid_of(raw),
        version=version_of(raw),
        replicas=integer(raw, "spec", "replicas", default=1),
        ready=integer(raw, "status", "readyReplicas"),
        annotations=annotations,
    )


def project_machine(raw: JsonObject, *, delete_mark: str = "") -> MachineView | None:
    """None for a machine that no MachineSet made. delete_mark: annotation by which one is chosen to go."""
    owners = objects(raw, "metadata", "ownerReferences")
    owner = next((text(one, "name") for one in owners if text(one, "kind") == "MachineSet"), "")
    if not owner:
        return None
    failed = text(raw, "status", "failureMessage") or text(raw, "status", "errorMessage")
    if not failed and text(raw, "status", "phase") in _FAILED:
        failed = "its phase is Failed"
    return MachineView(
        name=name_of(raw),
        uid=uid_of(raw),
        of=owner,
        node=text(raw, "status", "nodeRef", "name"),
        scale=text(raw, "metadata", "annotations", SCALE),
        created=instant(text(raw, "metadata", "creationTimestamp")),
        is_marked=delete_mark in strings(raw, "metadata", "annotations"),
        is_going=at(raw, "metadata", "deletionTimestamp") is not None,
        failure=failed[:WORDS_MAX],
    )
