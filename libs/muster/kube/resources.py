"""Kinds of objects, as in the paths of the API server."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind; group "" is the core group."""

    group: str
    version: str
    plural: str
    namespaced: bool
    kind: str = ""

    @property
    def api_version(self) -> str:
        """Return the apiVersion of its objects: "v1", "batch/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """Return the name as in permissions: "pods", "jobs.batch"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, of a namespace's objects, or of all. Raises ValueError for an invalid
        combination."""
        if namespace and not self.namespaced:
            raise ValueError(f"{self.title} are cluster-scoped; remove namespace={namespace!r}")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.title} {name!r}: namespace: must be set")
        if subresource and not name:
            raise ValueError(f"{self.title}/{subresource}: name: must be set")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(_segment(name))
        if subresource:
            parts.append(_segment(subresource))
        return "/" + "/".join(parts)


def _segment(name: str) -> str:
    if name in (".", "..") or "/" in name or "%" in name:
        raise ValueError(
            f"{name!r} cannot be part of a path of the Kubernetes API; must not contain '/' or '%', or be '.' or '..'"
        )
    return quote(name, safe=":")


PODS = Resource("", "v1", "pods", namespaced=True, kind="Pod")
NODES = Resource("", "v1", "nodes", namespaced=False, kind="Node")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False, kind="Namespace")
EVENTS = Resource("", "v1", "events", namespaced=True, kind="Event")
SERVICES = Resource("", "v1", "services", namespaced=True, kind="Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", namespaced=True, kind="ConfigMap")
SECRETS = Resource("", "v1", "secrets", namespaced=True, kind="Secret")
"""Tests create these to load an API server; Muster never lists or reads one."""
JOBS = Resource("batch", "v1", "jobs", namespaced=True, kind="Job")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", namespaced=True, kind="EndpointSlice")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False, kind="CustomResourceDefinition"
)
FLOW_SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", namespaced=False, kind="FlowSchema")
PRIORITY_LEVELS = Resource(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "prioritylevelconfigurations",
    namespaced=False,
    kind="PriorityLevelConfiguration",
)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False, kind="DeviceClass")
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", namespaced=False, kind="ResourceSlice")
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", namespaced=True, kind="ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", namespaced=True, kind="ResourceClaimTemplate"
)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False, kind="ClusterRole")
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False, kind="ClusterRoleBinding"
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", namespaced=True, kind="Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", namespaced=True, kind="RoleBinding")
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False, kind="SelfSubjectAccessReview"
)
MUSTER_JOBS = Resource("muster.dev", "v1alpha1", "musterjobs", namespaced=True, kind="MusterJob")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", namespaced=True, kind="JobSet")
MACHINE_SETS = Resource("cluster.x-k8s.io", "v1beta1", "machinesets", namespaced=True, kind="MachineSet")
"""`MACHINE_SETS` and `MACHINES` are also served as v1beta2, with the same fields as far as Muster uses them."""
MACHINES = Resource("cluster.x-k8s.io", "v1beta1", "machines", namespaced=True, kind="Machine")
OPENSHIFT_MACHINE_SETS = Resource("machine.openshift.io", "v1beta1", "machinesets", namespaced=True, kind="MachineSet")
OPENSHIFT_MACHINES = Resource("machine.openshift.io", "v1beta1", "machines", namespaced=True, kind="Machine")
COMPOSABILITY_REQUESTS = Resource(
    "cro.hpsys.ibm.ie.com", "v1alpha1", "composabilityrequests", namespaced=False, kind="ComposabilityRequest"
)
COMPOSABLE_RESOURCES = Resource(
    "cro.hpsys.ibm.ie.com", "v1alpha1", "composableresources", namespaced=False, kind="ComposableResource"
)
MPI_JOBS = Resource("kubeflow.org", "v2beta1", "mpijobs", namespaced=True, kind="MPIJob")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False, kind="TokenReview")
WORKLOADS = {resource.kind: resource for resource in (MUSTER_JOBS, PODS, JOBS, JOB_SETS, MPI_JOBS)}
"""Kinds of objects that may represent a job, by name."""
