"""Values of objects and pods that ask to run: their requests, refusals, and the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster.core import Instant
from muster.kube.objects import JsonObject
from muster.schemas import ids
from muster.schemas.job import JobSpec, Phase, WorkloadRef

REASON_CHARS_MAX = 1024
"""Length of a reason in a fact or on an object."""


class WorkloadKind(StrEnum):
    """Kinds of objects that represent a job."""

    MUSTER_JOB = "MusterJob"
    POD = "Pod"
    JOB = "Job"
    JOB_SET = "JobSet"
    MPI_JOB = "MPIJob"

    @property
    def makes_pods(self) -> bool:
        """Return whether a controller creates its pods, which Muster binds."""
        return self is not WorkloadKind.MUSTER_JOB

    @property
    def suspends(self) -> bool:
        """Return whether `suspend` holds and starts it."""
        return self in (WorkloadKind.JOB, WorkloadKind.JOB_SET, WorkloadKind.MPI_JOB)


class NoJobError(Exception):
    """The object is not a valid job; a change of `field` may help. `cure` is the hint."""

    def __init__(self, reason: str, *, field: str = "", cure: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason, self.field, self.cure = reason[:REASON_CHARS_MAX], field, cure[:REASON_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class Unfit:
    """A NoJobError as a value."""

    reason: str
    field: str = ""
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """The state of its job that an object shows."""

    job_id: str = ""
    """"" while it shows nothing."""
    phase: str = ""
    said: str = ""
    """All of it as one text, to avoid equal writes."""
    generation: int = 0
    """Generation of the rejected object, 0 if it was not rejected."""

    @property
    def is_final(self) -> bool:
        """Return whether it shows an end."""
        return self.phase in _FINAL


NOTHING_SHOWN = Shown()
REFUSED = "refused"
"""Phase of an object whose job was never accepted."""
_FINAL = frozenset({REFUSED, *(phase.value for phase in Phase if phase.is_terminal)})


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """An object that asks to run."""

    kind: WorkloadKind
    api_version: str
    namespace: str
    name: str
    uid: str
    generation: int
    """Changes with every change of its spec."""
    asks: JobSpec | Unfit | None
    """None if it asks for nothing: it is taken up, over, or not Muster's."""
    shown: Shown = NOTHING_SHOWN
    deleting: bool = False
    suspended: bool = False
    """Whether it has no pods and creates none."""
    finished: bool = False
    """Whether its own status says that it is over."""
    let_go_for: int = 0
    """Attempt for which Muster last unsuspended it."""
    held: bool = False
    """Whether Muster suspended it, not its owner."""
    note: str = ""
    """Why it asks for nothing yet, for display."""
    members: tuple[str, ...] = ()
    """Uids of the pods of a gang, in slot order."""
    templates: tuple[str, ...] = ()
    """Claim template of each task group, "" without one; () if no group has one."""

    @property
    def title(self) -> str:
        """Return its name for display: "MusterJob blue/train"."""
        return f"{self.kind.value} {self.namespace}/{self.name}"

    def ref(self, cluster: str) -> WorkloadRef:
        """Return its reference for facts."""
        return WorkloadRef(
            cluster=cluster,
            api_version=self.api_version,
            kind=self.kind.value,
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            members=self.members,
        )


@dataclass(frozen=True, slots=True)
class WorkloadPolicy:
    """Settings by which objects become jobs."""

    cluster: str
    teams: Mapping[str, str] = field(default_factory=dict)
    """Team by namespace; objects of other namespaces are refused."""
    namespaces: frozenset[str] = frozenset()
    """Namespaces whose objects are taken up; empty for all."""
    resource: str = "nvidia.com/gpu"
    """Extended resource of a GPU."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """Thousandths of a GPU by extended resource."""
    model_label: str = "nvidia.com/gpu.product"
    """Node label of the GPU model."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Muster's model name by that label's value."""
    device_class: str = "gpu.muster.dev"
    """Device class of claims that Muster serves."""

    def takes_up(self, namespace: str) -> bool:
        """Return whether objects of this namespace are taken up."""
        return not self.namespaces or namespace in self.namespaces

    def team(self, namespace: str) -> str:
        """Return the team of a namespace. Raises NoJobError if the settings have none."""
        team = self.teams.get(namespace)
        if team is None:
            raise NoJobError(
                f"namespace {namespace} belongs to no team",
                field="metadata.namespace",
                cure="Have the administrator add it to kubernetes.teams of Muster's settings.",
            )
        return team

    def job_id(self, namespace: str, uid: str) -> str:
        """Return the id of the object's job; an id of no job if its namespace belongs to no team."""
        team = self.teams.get(namespace, "")
        return ids.origin_job_id(team=team, cluster=self.cluster, namespace=namespace, uid=uid)

    def is_job_of(self, job_id: str, *, namespace: str, uid: str) -> bool:
        """Return whether an id shown by an object is that of its job, and not copied from another object.

        Jobs from before ids contained the cluster show their old id: they must not run again.
        """
        return job_id in (self.job_id(namespace, uid), self._job_id_before(namespace, uid))

    def _job_id_before(self, namespace: str, uid: str) -> str:
        """Return the id from before ids contained clusters; unlisted namespaces were teams."""
        team, key = self.teams.get(namespace, namespace), f"kubernetes-{uid}"
        return ids.job_id(team=team, principal=ids.origin_principal(namespace), idempotency_key=key)


MAIN = "main"
"""Task group of pods that name none."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The request of each of some equal pods; fields of TaskGroup. `template` is that of its GPU claim, "" for none."""

    gpus: int = 0
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    template: str = ""

    def group(self, name: str, replicas: int) -> JsonObject:
        """Return the task group of a JobSpec's body."""
        return {
            "name": name,
            "replicas": replicas,
            "gpus": self.gpus,
            "gpu_milli": self.gpu_milli,
            "gpu_models": self.gpu_models,
            "cpu_milli": self.cpu_milli,
            "memory_mib": self.memory_mib,
        }


@dataclass(frozen=True, slots=True)
class PodAsks:
    """The request of one pod; `options` are (name, value) of JobSpec fields."""

    shape: Shape
    options: tuple[tuple[str, object], ...]
    group: str = MAIN


@dataclass(frozen=True, slots=True)
class AdoptedPod:
    """A pod that asks to run alone (`gang` is "") or in a gang; `asks` is None if it is bound or over."""

    asks: PodAsks | Unfit | None
    created: Instant
    gang: str = ""
    gang_size: int = 1
    shown: Shown = NOTHING_SHOWN
