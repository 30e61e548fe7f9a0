"""What a job may say of its pods beside their size: cures for long-standing gaps of Kubernetes.

Every option has a default that is right for most; what a cluster offers by name (networks, devices of the fabric
between nodes) is set per cluster.
"""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import Label, Name, Text, Wire

ENV_MAX = 256
VOLUMES_MAX = 32
NETWORKS_MAX = 8
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


class PodOptions(Wire):
    """Options of every pod of a job.

    user_namespace: root inside is not root outside (`hostUsers: false`). shm_mib: size of /dev/shm, which data loaders
    share; None: half of the pod's memory, 0: the container runtime's 64 MiB. scratch_mib: an emptyDir at /scratch of at
    most so much; 0: none. rdma: devices of the fabric between nodes; None: if the job has several pods and the cluster
    has such devices. networks: secondary networks by the names that the cluster gives them. whole_cores: Guaranteed,
    whole cores, near the GPUs. env: variables. secret_env: variables from Secrets. volumes: claims to mount.
    service_account: of the namespace; None: its default, without a token.
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
