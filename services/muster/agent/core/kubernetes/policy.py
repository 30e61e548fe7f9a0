"""What a cluster offers pods, as the settings say it; and the error of a job that asks for what is not there."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """The part of a cluster's settings that pods follow from.

    cluster: as Muster calls it. namespace: `{team}` stands for the team. resource: what a GPU is called as an extended
    resource. device_class: of our claims. sharing: thousandths of a GPU by extended resource. rdma: extended resources
    that a pod gets, and how many. lock_memory: pods with them may lock memory. networks: annotations by network. image:
    of jobs that name none; preflight_image: of what checks them before their first step, "": nothing does.
    user_namespaces, shm: whether pods get them. run_as: user id in the containers; None: the
    image's own. With one, pods obey the pod-security profile `restricted`. names_objects: jobs may name
    Secrets, claims and service accounts there.
    """

    cluster: str
    namespace: str = "muster-jobs"
    resource: str = "nvidia.com/gpu"
    device_class: str = "gpu.muster.dev"
    sharing: Mapping[str, int] = field(default_factory=dict)
    rdma: Mapping[str, int] = field(default_factory=dict)
    lock_memory: bool = False
    networks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    image: str = ""
    preflight_image: str = ""
    user_namespaces: bool = True
    shm: bool = True
    run_as: int | None = None
    names_objects: bool = False


class ImpossiblePodError(Exception):
    """The cluster cannot have such a pod. field: of the job; cure: what to do. It would never get better by itself."""

    def __init__(self, message: str, *, field: str, cure: str) -> None:
        super().__init__(f"{field}: {message}; {cure}")
        self.field = field
        self.cure = cure
