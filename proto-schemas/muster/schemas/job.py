"""A job as its owner specifies it, and as the fleet records it."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from muster.schemas.base import TEXT_CHARS_MAX, InstantNs, JobId, Kept, Label, Name, Text, Wire

ENV_MAX = 256
VOLUMES_MAX = 32
NETWORKS_MAX = 8
REPLICAS_MAX = 4096
GROUPS_MAX = 16
RUN_TIME_S_MAX = 90 * 86_400
GRACE_S_MAX = 3_600
MODELS_MAX = 32
LABELS_MAX = 64
COMMAND_MAX = 256
PRIORITY_MAX = 1000


Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
"""Name of an environment variable."""
Mount = Annotated[str, Field(pattern=r"^/[^:\x00]{0,255}$")]
"""Absolute path in a container."""


class SecretVariable(Wire):
    """An environment variable from `key` of a Secret in the job's namespace. Muster never reads it."""

    variable: Variable
    secret: Label
    key: Label


class ClaimMount(Wire):
    """A PersistentVolumeClaim of the job's namespace, mounted at `path`."""

    claim: Label
    path: Mount
    read_only: bool = False


class PodOptions(Kept):
    """Options of every pod of a job.

    user_namespace: root inside is not root outside (`hostUsers: false`). shm_mib: size of /dev/shm, which data
    loaders share; None: half of the pod's memory, 0: the container runtime's 64 MiB. scratch_mib: size limit of an
    emptyDir at /scratch; 0: none. rdma: devices of the fabric between nodes; None: if the job has several pods and
    the cluster has such devices. networks: secondary networks, by their names in the cluster. whole_cores:
    Guaranteed, whole cores, near the GPUs. env: variables. secret_env: variables from Secrets. volumes: claims to
    mount. service_account: of the namespace; None: its default, without a token.
    """

    user_namespace: bool = True
    shm_mib: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    scratch_mib: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    rdma: bool | None = None
    networks: Annotated[tuple[Name, ...], Field(max_length=NETWORKS_MAX)] = ()
    whole_cores: bool = False
    env: Annotated[dict[Variable, Text], Field(max_length=ENV_MAX)] = Field(default_factory=dict)
    secret_env: Annotated[tuple[SecretVariable, ...], Field(max_length=ENV_MAX)] = ()
    volumes: Annotated[tuple[ClaimMount, ...], Field(max_length=VOLUMES_MAX)] = ()
    service_account: Label | None = None


Priority = Annotated[int, Field(ge=0, le=PRIORITY_MAX)]
"""Priority of a job within its queue: a higher one is scheduled earlier and preempted later."""


class Topology(Wire):
    """Placement of replicas within one domain of `level` ("node", "rack", "block", or a level that the fleet declares).

    For a level within nodes ("socket", "pair", or one that nodes declare for their devices), the devices of each
    replica are in one domain.
    """

    level: Name
    required: bool = False


class TaskGroup(Kept):
    """Replicas of one shape. A replica requests whole GPUs (`gpus`) or a fraction of one (`gpu_milli`), never both.

    cpu_milli: thousandths of a core. memory_mib: MiB. gpu_milli: thousandths of one GPU, 1 to 999. gpu_models:
    accepted models; empty means any. min_replicas: the job starts with this number, and grows up to `replicas`
    (None: all or nothing). topology: of this group's replicas, within the job's own. command, image: of this
    group's replicas, for jobs with different parts: groups named `launcher` start the processes of the others
    (MPI), groups named `ps` serve them (parameter servers). Empty: the job's.
    """

    name: Name = "main"
    replicas: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 1
    gpus: Annotated[int, Field(ge=0, le=1024)] = 0
    gpu_milli: Annotated[int, Field(ge=0, le=999)] = 0
    gpu_models: Annotated[tuple[Label, ...], Field(max_length=MODELS_MAX)] = ()
    cpu_milli: Annotated[int, Field(ge=0, le=10_000_000)] = 1000
    memory_mib: Annotated[int, Field(ge=0, le=100_000_000)] = 1024
    min_replicas: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] | None = None
    topology: Topology | None = None
    command: Annotated[tuple[Text, ...], Field(max_length=COMMAND_MAX)] = ()
    image: Text = ""

    @model_validator(mode="after")
    def _one_way_to_ask_for_gpus(self) -> Self:
        if self.gpus and self.gpu_milli:
            raise ValueError("request whole `gpus` or a fraction `gpu_milli`, not both")
        if self.min_replicas is not None and self.min_replicas > self.replicas:
            raise ValueError(f"min_replicas {self.min_replicas} is above replicas {self.replicas}: lower it")
        return self

    @property
    def replicas_least(self) -> int:
        """Return the minimum number of replicas with which the gang runs."""
        return self.replicas if self.min_replicas is None else self.min_replicas


class Checkpointing(Wire):
    """The job can resume: it writes a checkpoint about every `interval_s` and needs `restart_s` to come back."""

    interval_s: Annotated[float, Field(gt=0, le=RUN_TIME_S_MAX)] = 1800.0
    restart_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0


class JobKind(StrEnum):
    """Kind of work; policy and routing may use it."""

    BATCH = "batch"
    INTERACTIVE = "interactive"
    MPI = "mpi"
    INFERENCE = "inference"


RunTime = Annotated[float, Field(gt=0, le=RUN_TIME_S_MAX)]
"""Run-time limit over all attempts, in seconds."""
SliceTime = Annotated[float, Field(ge=0, le=RUN_TIME_S_MAX)]
"""Minimum run time before preemption, in seconds."""


class JobChange(Wire):
    """Changes of a job, and the reason, for the record. None: unchanged. The times are those of a job that waits."""

    priority: Priority | None = None
    total_run_time_s: RunTime | None = None
    min_slice_s: SliceTime | None = None
    reason: Text = ""


class PriorityChange(Wire):
    """The new priority of a job, and the reason, for the record."""

    priority: Priority
    reason: Text = ""


class JobSpec(Kept):
    """A job as submitted. Quota is checked when scheduling, not here.

    total_run_time_s: run-time limit over all attempts; then the job is ended as timed-out. min_slice_s: minimum run
    time before preemption. retries: maximum number of consecutive failures of the job itself without progress; a
    failure of the infrastructure uses none. Progress: its attempt wrote a checkpoint, or lasted an hour if
    checkpointing is set or the job serves requests; otherwise an attempt starts over, and all its failures are
    consecutive. preemptible: may be preempted, and may therefore borrow. grace_s: termination grace period.
    same_model: all replicas on GPUs of one model. left_out: run times that the submitter left to the queue, set by
    the gateway. pod: options of its Kubernetes pods. pin: it stays on its cluster, and continues there while that
    cluster is unreachable; without it, a job that ended there unnoticed runs once more elsewhere. preflight: name
    of the suite of checks before its first step; "none" for none; None: the platform's default. workdir: working
    directory of the command, an absolute path; "": that of the image.
    """

    name: Name
    team: Name
    queue: Name | None = None
    priority: Priority = 50
    kind: JobKind = JobKind.BATCH
    task_groups: Annotated[tuple[TaskGroup, ...], Field(min_length=1, max_length=GROUPS_MAX)]
    topology: Topology | None = None
    full_node: bool = False
    total_run_time_s: RunTime = 7 * 86_400.0
    min_slice_s: SliceTime = 3600.0
    checkpointing: Checkpointing | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    command: Annotated[tuple[Text, ...], Field(max_length=COMMAND_MAX)] = ()
    image: Text = ""
    workdir: Annotated[str, Field(pattern=r"^(/[^\x00-\x1f\x7f]*)?$", max_length=TEXT_CHARS_MAX)] = ""
    labels: Annotated[dict[Label, Text], Field(max_length=LABELS_MAX)] = Field(default_factory=dict)
    preemptible: bool = True
    grace_s: Annotated[float, Field(ge=0, le=GRACE_S_MAX)] = 30.0
    same_model: bool = False
    left_out: tuple[Literal["total_run_time_s", "min_slice_s"], ...] = ()
    pod: PodOptions = PodOptions()
    pin: bool = False
    preflight: Name | None = None

    @model_validator(mode="after")
    def _group_names_are_distinct(self) -> Self:
        names = [group.name for group in self.task_groups]
        if len(set(names)) != len(names):
            raise ValueError(f"task_groups: names must be distinct, found {', '.join(sorted(names))}")
        return self

    @model_validator(mode="after")
    def _whole_cores_are_whole(self) -> Self:
        for group in self.task_groups if self.pod.whole_cores else ():
            if group.cpu_milli % 1000 or not group.cpu_milli or not group.memory_mib:
                raise ValueError(
                    f"pod.whole_cores: group {group.name} asks for {group.cpu_milli} milli-cores and {group.memory_mib}"
                    f" MiB; ask for memory and for {max(1, -(-group.cpu_milli // 1000)) * 1000} milli-cores"
                )
        return self

    @property
    def queue_name(self) -> str:
        """Return the requested queue, or the team's own."""
        return self.queue or self.team

    @property
    def gpu_milli_total(self) -> int:
        """Return the GPUs of the whole gang, in thousandths."""
        return sum(group.replicas * (group.gpus * 1000 + group.gpu_milli) for group in self.task_groups)


class WorkloadRef(Wire):
    """The Kubernetes object that stands for a job. uid: of this object, not of a later one of its name.

    members: uids of the pods, for a gang of ordinary pods; none if the object creates its pods itself, or none
    exist yet.
    """

    cluster: Name
    api_version: Label
    kind: Label
    namespace: Label
    name: Label
    uid: Label
    members: Annotated[tuple[Label, ...], Field(max_length=REPLICAS_MAX)] = ()

    @property
    def title(self) -> str:
        """Return the title of the object, such as "MusterJob physics/train"."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Job(Kept):
    """A job as accepted: immutable from `submitted` to its end.

    body_hash: SHA-256 of the canonical spec; distinguishes a retry from another submission with the same key.
    trace: W3C traceparent of the submission, the root of the job's trace. origin: the Kubernetes object of a
    cluster that it stands for; it runs only there.
    """

    id: JobId
    spec: JobSpec
    principal: Label
    idempotency_key: Label
    body_hash: str
    submitted_at: InstantNs = 0
    trace: str = ""
    origin: WorkloadRef | None = None


class Phase(StrEnum):
    """State of a job; only the scheduler changes it."""

    SUBMITTED = "submitted"
    QUEUED = "queued"
    PLACED = "placed"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"

    @property
    def is_terminal(self) -> bool:
        """Return whether the job has ended."""
        return self in TERMINAL_PHASES


TERMINAL_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.TIMED_OUT})


class Slot(Kept):
    """Placement of one replica. devices: indexes on the node; gpu_milli: share of each of them (1000 = whole).

    gpus: number of GPUs of the node, if the kubelet picks them; `devices` is then empty. places: places of the node
    under which the ledger counts them; they do not identify devices.
    """

    group: int
    replica: int
    node: str
    devices: tuple[int, ...] = ()
    gpu_milli: int = 0
    gpus: int = 0
    places: tuple[int, ...] = ()

    @property
    def gpu_count(self) -> int:
        """Return the number of allocated devices, whether the scheduler or the kubelet picks them."""
        return self.gpus or len(self.devices)

    @property
    def gpu_milli_held(self) -> int:
        """Return the allocated GPUs, in thousandths."""
        return self.gpu_milli * (self.gpus or len(self.devices))

    @property
    def kept_at(self) -> tuple[int, ...]:
        """Return the places of the node in the ledger: its devices, if the scheduler picks them."""
        return self.devices or self.places
