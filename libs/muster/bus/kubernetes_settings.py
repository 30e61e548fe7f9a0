"""Settings of a real cluster and of its guard: how to reach it, the meaning of its labels, and its options."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from muster.schemas.base import Name


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SharingSettings(_Section):
    """Sharing of GPUs (`gpu_milli`) in this cluster.

    mode: none refuses jobs that request a part of a GPU. profiles: extended resources, with the thousandths of a GPU of
    one of each ("nvidia.com/mig-1g.10gb": 143); a job gets the smallest that is large enough.
    """

    mode: Literal["none", "mig", "mps", "time-slicing"] = "none"
    profiles: dict[str, Annotated[int, Field(ge=1, le=999)]] = {}

    @model_validator(mode="after")
    def _profiles_where_there_is_sharing(self) -> Self:
        if (self.mode == "none") != (not self.profiles):
            raise ValueError("profiles: name the extended resources of this mode, and none for mode `none`")
        return self


class NetworkSettings(_Section):
    """Networks for jobs of several nodes. A job requests them by name (`pod.networks`).

    rdma: extended resources of one pod, with the number of each. lock_memory: pods with them may lock memory
    (IPC_LOCK), which disables their user namespace and needs a namespace that allows it; without, the limit of the
    container runtime applies (containerd's LimitMEMLOCK=infinity). annotations: those that name the secondary networks,
    by the name that jobs use ("fast": {"k8s.v1.cni.cncf.io/networks": "infiniband"}).
    """

    rdma: dict[str, Annotated[int, Field(ge=1)]] = {}
    lock_memory: bool = False
    annotations: dict[str, dict[str, str]] = {}


class PluginPods(_Section):
    """Pods that must start anew on a node when its devices changed.

    namespace: in which they run. labels: that they carry. counts: the node's capacity counts the GPUs that they find,
    so that a device that was attached is believed once such a pod is younger and runs.
    """

    namespace: str
    labels: dict[str, str]
    counts: bool = True


class ScaleTargets(_Section):
    """MachineSets of node groups. api: of the MachineSets. namespace: that holds them. names: MachineSet by node group.

    autoscaler: the Cluster Autoscaler runs here, and its signals are read.
    """

    api: Literal["cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2", "machine.openshift.io/v1beta1"] = (
        "cluster.x-k8s.io/v1beta1"
    )
    namespace: str = "default"
    names: dict[str, str] = {}
    autoscaler: bool = False


class PoolSettings(_Section):
    """Devices in the pools of fabrics, published as ResourceSlices for claims of other schedulers.

    names: what a device of a model is called there; none: nothing is published. fabrics: number of each fabric, by its
    name. Needs DRA, and the API server's gate DRADeviceBindingConditions.
    """

    names: dict[str, Name] = {}
    fabrics: dict[str, Annotated[int, Field(ge=0, le=100)]] = {}


class KubernetesSettings(_Section):
    """A cluster of Kubernetes 1.32 or newer.

    kubeconfig, context: of the API server; None: the service account of the pod. api_servers: addresses of every API
    server, for the guard; none: as the `kubernetes` service lists them. namespace: of the pods of jobs from the Muster
    API; `{team}` is replaced by the team, whose namespace must then have the label `muster.dev/team`. namespaces: those
    whose objects become jobs; none: all. teams: the team of the objects of each namespace; objects of a namespace
    without an entry become no jobs. A center uses `teams` in its federation.clusters, which must be the same.
    node_selector: labels of the nodes that Muster schedules. devices: whether the scheduler picks GPUs (`dra`) or the
    kubelet (`device-plugin`); `auto`: dra if it is served and the nodes publish devices. if_lacking: if an API or a
    permission is missing, fall back to a mode without it, or stop. resource: the device plugin's resource name of a
    GPU. driver: of the DRA devices. device_class: Muster's. own_nodes: reserve nodes with DRA devices for Muster (taint
    and admission policy). model_label: node label with the GPUs' model. models: Muster's model name, by the value of
    that label or of the device's productName. levels: topology, widest first, as node label by level. group_label: node
    label with the node group. machine_annotation: node annotation with the machine's name in its fabric. reserved_cpus:
    CPU set reserved for the system on every node ("0-1,64-65"). cpu_threads: threads per core, as the nodes count their
    CPUs. sharing, network: see there. image: for jobs without one. user_namespaces: pods may use user namespaces.
    run_as: user id in the containers of jobs, which then comply with the pod-security profile `restricted`; None: the
    image's own. shared_objects: jobs of all teams may name Secrets, claims and service accounts of a namespace that
    they share. shm: pods get a larger /dev/shm. own_namespace: of Muster's own objects. bind_s: time after which a gang
    that is bound only in part is rolled back. lost_s: time after which a node that is not ready is lost. kept_s: time
    for which ended pods are kept, so that their output can be read. writes: concurrent writes to the API server.
    requests: the controller of ComposabilityRequest objects: Muster's composer, the field's operator, or none.
    plugin_pods: restarted after an attach or detach on that node. scaling: nodes of groups. pool: published devices of
    fabrics. connection_age_s: age at which connections are renewed, to spread load over API servers. compare_s:
    interval between two comparisons of the cached state with the API server.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    api_servers: tuple[str, ...] = ()
    namespace: str = "muster-jobs"
    namespaces: tuple[str, ...] = ()
    teams: dict[Name, Name] = {}
    node_selector: dict[str, str] = {}
    devices: Literal["auto", "device-plugin", "dra"] = "auto"
    if_lacking: Literal["fall-back", "stop"] = "fall-back"
    resource: str = "nvidia.com/gpu"
    driver: str = "gpu.nvidia.com"
    device_class: str = "gpu.muster.dev"
    own_nodes: bool = True
    own_namespace: Name = "muster"
    model_label: str = "nvidia.com/gpu.product"
    models: dict[str, str] = {}
    levels: dict[str, str] = {"block": "topology.kubernetes.io/zone", "rack": "muster.dev/rack"}
    group_label: str = "muster.dev/node-group"
    machine_annotation: str = "cluster-manager.cdi.io/machine"
    reserved_cpus: Annotated[str, Field(pattern=r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$")] = ""
    cpu_threads: Annotated[int, Field(ge=1, le=8)] = 2
    sharing: SharingSettings = SharingSettings()
    network: NetworkSettings = NetworkSettings()
    image: str = ""
    user_namespaces: bool = True
    run_as: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = None
    shared_objects: bool = False
    shm: bool = True
    bind_s: Annotated[float, Field(gt=0)] = 60.0
    lost_s: Annotated[float, Field(ge=0)] = 40.0
    kept_s: Annotated[float, Field(ge=0)] = 300.0
    writes: Annotated[int, Field(ge=1, le=1_000)] = 32
    requests: Literal["muster", "operator", "none"] = "none"
    plugin_pods: tuple[PluginPods, ...] = (
        PluginPods(namespace="gpu-operator", labels={"app": "nvidia-device-plugin-daemonset"}),
        PluginPods(namespace="gpu-operator", labels={"app": "nvidia-dcgm-exporter"}, counts=False),
        PluginPods(namespace="nvidia-dra-driver-gpu", labels={"app.kubernetes.io/component": "kubelet-plugin"}),
    )
    scaling: ScaleTargets = ScaleTargets()
    pool: PoolSettings = PoolSettings()
    connection_age_s: Annotated[float, Field(gt=0)] = 600.0
    compare_s: Annotated[float, Field(gt=0)] = 300.0

    @property
    def writes_in(self) -> tuple[str, ...]:
        """Return the namespaces in which pods of jobs can be; none: all of them."""
        if not self.namespaces or "{team}" in self.namespace:
            return ()
        return tuple(dict.fromkeys((self.namespace, *self.namespaces)))


class GuardedKind(_Section):
    """A kind whose LIST requests are limited to a few at a time.

    resource: its plural. group: "" is the core group. seats: per API server.
    """

    resource: str = "secrets"
    group: str = ""
    seats: Annotated[int, Field(ge=1, le=100)] = 2


class GuardSettings(_Section):
    """Monitoring and flow control of API servers by the guard.

    enabled: the guard runs. apply: it writes flow control; else it only reports. kinds: resources whose requests are
    limited. subjects: to which clients this applies: service accounts, or all authenticated users. scrape_s: interval
    between two scrapes of the API servers' metrics. skew_ratio: largest memory of an API server over the smallest, from
    which it is reported. lists_per_minute: of one client, from which it is reported. audit_host, audit_port: address
    for the API servers' audit webhook; port 0: none. audit_token: a file with the token that they send; without one,
    any client of the port can report false events. audit_certificate, audit_key: files in PEM; with both it uses TLS.
    secrets_per_workload: number from which it is reported.
    """

    enabled: bool = True
    apply: bool = False
    kinds: tuple[GuardedKind, ...] = (GuardedKind(),)
    subjects: Literal["service-accounts", "everybody"] = "service-accounts"
    scrape_s: Annotated[float, Field(gt=0)] = 15.0
    skew_ratio: Annotated[float, Field(gt=1)] = 2.0
    lists_per_minute: Annotated[float, Field(gt=0)] = 30.0
    audit_host: str = "127.0.0.1"
    audit_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    audit_token: Path | None = None
    audit_certificate: Path | None = None
    audit_key: Path | None = None
    secrets_per_workload: Annotated[int, Field(ge=1)] = 50

    @model_validator(mode="after")
    def _has_both_or_none(self) -> Self:
        if (self.audit_certificate is None) != (self.audit_key is None):
            lacks = "audit_key" if self.audit_key is None else "audit_certificate"
            raise ValueError(f"guard.{lacks} is not set: TLS needs audit_certificate and audit_key")
        return self
