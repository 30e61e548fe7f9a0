"""What is kept of objects that ask to run: who they are, what they ask, and what they say of it themselves."""

from dataclasses import dataclass
from enum import StrEnum

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
