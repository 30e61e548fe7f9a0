"""What pods and devices follow from, out of a cluster's settings."""

from muster.agent.core.kubernetes.chosen import DevicePolicy
from muster.agent.core.kubernetes.cpus import read_cpu_set
from muster.agent.core.kubernetes.node_jobs import WorkPolicy
from muster.agent.core.kubernetes.policy import PodPolicy
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.core.settings import PreflightSettings


def pod_policy(cluster: str, settings: KubernetesSettings, *, preflight_image: str = "") -> PodPolicy:
    """For manifests. cluster: as Muster calls it. preflight_image: of what checks pods before their first step."""
    return PodPolicy(
        cluster=cluster,
        namespace=settings.namespace,
        resource=settings.resource,
        device_class=settings.device_class,
        sharing=settings.sharing.profiles,
        rdma=settings.network.rdma,
        lock_memory=settings.network.lock_memory,
        networks=settings.network.annotations,
        image=settings.image,
        preflight_image=preflight_image,
        user_namespaces=settings.user_namespaces,
        shm=settings.shm,
        run_as=settings.run_as,
        names_objects=settings.shared_objects or "{team}" in settings.namespace,
    )


def device_policy(settings: KubernetesSettings) -> DevicePolicy:
    """For devices that Muster chooses. Raises CpuSetError."""
    return DevicePolicy(
        driver=settings.driver,
        models=settings.models,
        reserved=read_cpu_set(settings.reserved_cpus),
        threads=settings.cpu_threads,
        own_nodes=settings.own_nodes,
        namespace=settings.own_namespace,
    )


def work_policy(cluster: str, settings: PreflightSettings) -> WorkPolicy:
    """For work on nodes."""
    nodes = settings.nodes
    return WorkPolicy(**{**dict(nodes), "image": nodes.image or settings.image}, cluster=cluster)
