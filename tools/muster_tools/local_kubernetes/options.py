"""Options of a control plane, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from muster_tools.local_kubernetes import bounds
from muster_tools.local_kubernetes.errors import OptionError

ADMIN = "admin"
MASTERS = "system:masters"
"""The group that may do everything and that flow control exempts: a test of flow control needs another user."""

CONTROLLERS = (
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "resourceclaim-controller",
)
"""Enough for owners, jobs, namespaces, evictions and claims; no node life cycle, so nodes need no heartbeats."""

NODE_LIFECYCLE = "node-lifecycle-controller"


class Profile(StrEnum):
    """Scheduler profiles that come with Muster."""

    DEFAULT = "default"
    BIN_PACKING = "bin-packing"
    TOPOLOGY = "topology"
    """Bin packing by NUMA zones, as the topology scheduler's plugin sees them."""


@dataclass(frozen=True, slots=True)
class User:
    """Someone who has a token at the API server."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One scheduler process. profile: a built-in one, or the file of a whole KubeSchedulerConfiguration.

    scheduler_name: of the pods that it schedules. program: the name of another one with kube-scheduler's flags. user:
    its user at the API server. at_once: started with the plane; else by `ControlPlane.start(name)`.
    """

    name: str = "kube-scheduler"
    profile: Profile | Path = Profile.DEFAULT
    scheduler_name: str = "default-scheduler"
    program: str = "kube-scheduler"
    user: User = field(default_factory=lambda: User("system:kube-scheduler"))
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """A control plane. The defaults: one API server, etcd, and KWOK with Muster's own stages, without a scheduler.

    emulated_version: for example "1.32", empty for the program's own. apiservers: 1 to 3 on one etcd. scheduler,
    scheduler_config: whether kube-scheduler runs, and how; more_schedulers: others beside it. controllers: of
    kube-controller-manager, which does not run without any. kwok_stages: files that replace the built-in ones.
    node_lease_s: duration of KWOK's leases, renewed at a quarter of it; 0 for none. apiserver_env: GOGC, GOMEMLIMIT and
    the like. apiserver_flags: added unchanged. users: beside the admin.
    """

    emulated_version: str = ""
    apiservers: int = 1
    scheduler: bool = False
    scheduler_config: Profile | Path = Profile.DEFAULT
    more_schedulers: tuple[Scheduler, ...] = ()
    controllers: tuple[str, ...] = ()
    kwok: bool = True
    kwok_stages: tuple[Path, ...] = ()
    node_lease_s: int = 40
    apiserver_env: Mapping[str, str] = field(default_factory=dict)
    apiserver_flags: tuple[str, ...] = ()
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    users: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.apiservers <= bounds.API_SERVERS_MAX:
            raise OptionError(f"apiservers: {self.apiservers}; give 1 to {bounds.API_SERVERS_MAX}")
        names = [user.name for user in self.everybody]
        if len(set(names)) != len(names):
            raise OptionError(f"users: a name occurs twice in {', '.join(names)}; names of users are unique")
        processes = [scheduler.name for scheduler in self.schedulers]
        if len(set(processes)) != len(processes):
            raise OptionError(f"more_schedulers: a name occurs twice in {', '.join(processes)}; give each its own")

    @property
    def schedulers(self) -> tuple[Scheduler, ...]:
        """Return every scheduler to start."""
        own = (Scheduler(profile=self.scheduler_config),) if self.scheduler else ()
        return own + self.more_schedulers

    @property
    def everybody(self) -> tuple[User, ...]:
        """Return the users with a token: the admin, the schedulers' users (each once), and the requested ones."""
        components = dict.fromkeys(scheduler.user for scheduler in self.schedulers)
        asked = (User(name, groups) for name, groups in self.users)
        return (User(ADMIN, (MASTERS,)), *components, *asked)
