"""Values of objects and pods that ask to run: what they ask, why they can be no job, and what the settings say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster.core import Instant
from muster.kube.objects import JsonObject
from muster.schemas import ids
from muster.schemas.job import JobSpec, Phase, WorkloadRef

REASON_CHARS_MAX = 1024
"""Of a reason in a fact or on an object."""


class WorkloadKind(StrEnum):
    """Kinds of objects that stand for a job, as they call themselves."""

    MUSTER_JOB = "MusterJob"
    POD = "Pod"
    JOB = "Job"
    JOB_SET = "JobSet"
    MPI_JOB = "MPIJob"

    @property
    def makes_pods(self) -> bool:
        """Whether its pods are made by somebody else; Muster binds them."""
        return self is not WorkloadKind.MUSTER_JOB

    @property
    def suspends(self) -> bool:
        """Whether it is held and let go by `suspend`."""
        return self in (WorkloadKind.JOB, WorkloadKind.JOB_SET, WorkloadKind.MPI_JOB)


class NoJobError(Exception):
    """The object can be no job. field: of the object; cure: what to do. A change of the object may help."""

    def __init__(self, reason: str, *, field: str = "", cure: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason, self.field, self.cure = reason[:REASON_CHARS_MAX], field, cure[:REASON_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class Unfit:
    """The same as a value: why the object can be no job."""

    reason: str
    field: str = ""
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the object says of its job. job_id: "" while it says nothing. said: all of it in one text, so that the same
    is not written twice. generation: of the object that was rejected, 0 if it was not.
    """

    job_id: str = ""
    phase: str = ""
    said: str = ""
    generation: int = 0

    @property
    def is_final(self) -> bool:
        """Whether it shows an end."""
        return self.phase in _FINAL


NOTHING_SHOWN = Shown()
REFUSED = "refused"
"""Phase that an object shows whose job was never accepted."""
_FINAL = frozenset({REFUSED, *(phase.value for phase in Phase if phase.is_terminal)})


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """An object that asks to run. asks: what; None if it asks nothing: it is taken up, over, or none of ours.

    generation: the API server raises it with every change of what is asked. deleting: somebody deleted it. suspended:
    it has no pods, and makes none. finished: it says itself that it is over. members: uids of pods that are a gang, in
    the order of its slots. let_go_for: attempt for which Muster last let it make its pods. held: Muster suspended it,
    and not its owner. note: why it asks nothing yet, for whoever looks at it. templates: of the claims of each task
    group's pods, "" for a group whose pods have none; () if no pod has one.
    """

    kind: WorkloadKind
    api_version: str
    namespace: str
    name: str
    uid: str
    generation: int
    asks: JobSpec | Unfit | None
    shown: Shown = NOTHING_SHOWN
    deleting: bool = False
    suspended: bool = False
    finished: bool = False
    let_go_for: int = 0
    held: bool = False
    note: str = ""
    members: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """As people say it: "MusterJob blue/train"."""
        return f"{self.kind.value} {self.namespace}/{self.name}"

    def ref(self, cluster: str) -> WorkloadRef:
        """As facts name it."""
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
    """cluster: as Muster calls it. teams: by namespace; objects of other namespaces can be no jobs.

    namespaces: whose objects are taken up; empty: all. resource: what a GPU is called as an extended resource. sharing:
    thousandths of a GPU by extended resource. model_label: node label of the GPUs' model; models: our name by what that
    label says. device_class: of claims whose devices Muster gives.
    """

    cluster: str
    teams: Mapping[str, str] = field(default_factory=dict)
    namespaces: frozenset[str] = frozenset()
    resource: str = "nvidia.com/gpu"
    sharing: Mapping[str, int] = field(default_factory=dict)
    model_label: str = "nvidia.com/gpu.product"
    models: Mapping[str, str] = field(default_factory=dict)
    device_class: str = "gpu.muster.dev"

    def takes_up(self, namespace: str) -> bool:
        """Whether objects of this namespace are looked at."""
        return not self.namespaces or namespace in self.namespaces

    def team(self, namespace: str) -> str:
        """For whom objects of this namespace ask. Raises NoJobError where the settings name no team for it."""
        team = self.teams.get(namespace)
        if team is None:
            raise NoJobError(
                f"namespace {namespace} acts for no team of Muster",
                field="metadata.namespace",
                cure="Have the administrator name its team in kubernetes.teams of Muster's settings.",
            )
        return team

    def job_id(self, namespace: str, uid: str) -> str:
        """Of the job that this very object stands for; an id that no job has where its namespace acts for no team."""
        team = self.teams.get(namespace, "")
        return ids.origin_job_id(team=team, cluster=self.cluster, namespace=namespace, uid=uid)

    def is_job_of(self, job_id: str, *, namespace: str, uid: str) -> bool:
        """Whether the id that an object shows is that of its job, and not copied from another object.

        Jobs that were made before ids named clusters show what was theirs then: they must not run once more.
        """
        return job_id in (self.job_id(namespace, uid), self._job_id_before(namespace, uid))

    def _job_id_before(self, namespace: str, uid: str) -> str:
        """When ids did not name clusters, and a namespace acted for the team of its own name unless it was named."""
        team, key = self.teams.get(namespace, namespace), f"kubernetes-{uid}"
        return ids.job_id(team=team, principal=ids.origin_principal(namespace), idempotency_key=key)


MAIN = "main"
"""Task group of pods that name none."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What each of some equal pods asks; fields of TaskGroup. template: of the claim of its GPUs, "" if it has none."""

    gpus: int = 0
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    template: str = ""

    def group(self, name: str, replicas: int) -> JsonObject:
        """As a task group of a JobSpec's body."""
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
    """What one pod asks. options: fields of a JobSpec, as (name, value) of text. group: its task group."""

    shape: Shape
    options: tuple[tuple[str, object], ...]
    group: str = MAIN


@dataclass(frozen=True, slots=True)
class AdoptedPod:
    """A pod that asks to run by itself or in a gang. gang: "" for one alone. asks: None if it is bound or over."""

    asks: PodAsks | Unfit | None
    created: Instant
    gang: str = ""
    gang_size: int = 1
    shown: Shown = NOTHING_SHOWN
