"""What pods ask of nodes and nodes offer, as the kubelet counts it: whole thousandths of cores, MiB and devices."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from muster.agent.core.kubernetes.quantities import count, mib_down, mib_up, milli
from muster.agent.core.kubernetes.views import NO_REQUESTS, Requests
from muster.kube.objects import JsonObject, mapping, objects, text

_MORE = frozenset({"initContainers", "resources", "overhead"})
"""What makes the sum over a pod's containers anything else than that of its only one."""
_CACHED = 4096  # a cluster's containers ask for few different things


def pod_requests(spec: JsonObject) -> Requests:
    """What the scheduler and the kubelet count: containers beside the largest init container, sidecars, overhead.

    As in k8s.io/component-helpers `resource.PodRequests`; pod-level resources (`spec.resources`) win where they stand.
    """
    containers = objects(spec, "containers")
    if len(containers) == 1 and not _MORE.intersection(spec):
        return _asked(containers[0])  # as most pods are
    cpu = memory = 0
    extended: dict[str, int] = {}
    for container in containers:
        asked = _asked(container)
        cpu, memory = cpu + asked.cpu_milli, memory + asked.memory_mib
        _add(extended, asked.extended)
    side_cpu = side_memory = most_cpu = most_memory = 0
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in objects(spec, "initContainers"):
        asked = _asked(container)
        is_sidecar = text(container, "restartPolicy") == "Always"
        if is_sidecar:
            side_cpu, side_memory = side_cpu + asked.cpu_milli, side_memory + asked.memory_mib
            _add(sidecars, asked.extended)
        own_cpu, own_memory = (0, 0) if is_sidecar else (asked.cpu_milli, asked.memory_mib)
        most_cpu, most_memory = max(most_cpu, side_cpu + own_cpu), max(most_memory, side_memory + own_memory)
        for name, number in () if is_sidecar else asked.extended:
            most[name] = max(most.get(name, 0), number + sidecars.get(name, 0))
    _add(extended, sidecars.items())
    for name, number in most.items():
        extended[name] = max(extended.get(name, 0), number)
    total = mapping(spec, "resources", "requests")
    overhead = mapping(spec, "overhead")
    cpu = milli(total["cpu"]) if "cpu" in total else max(cpu + side_cpu, most_cpu)
    memory = mib_up(total["memory"]) if "memory" in total else max(memory + side_memory, most_memory)
    return Requests(
        cpu + milli(overhead.get("cpu")), memory + mib_up(overhead.get("memory")), tuple(sorted(extended.items()))
    )


def _asked(container: JsonObject) -> Requests:
    requests = mapping(container, "resources", "requests")
    if not requests:
        return NO_REQUESTS
    asked = tuple((name, value) for name, value in requests.items() if isinstance(value, str))
    return _read(asked) if len(asked) == len(requests) else _counted(requests)


@lru_cache(maxsize=_CACHED)
def _read(requests: tuple[tuple[str, str], ...]) -> Requests:
    return _counted(dict(requests))


def _counted(asked: Mapping[str, object]) -> Requests:
    extended = tuple(sorted((name, count(asked[name])) for name in asked if "/" in name))
    return Requests(milli(asked.get("cpu")), mib_up(asked.get("memory")), extended)


def offered(allocatable: JsonObject) -> Requests:
    """What a node offers, in the same terms."""
    extended = tuple(sorted((name, count(allocatable[name])) for name in allocatable if "/" in name))
    return Requests(milli(allocatable.get("cpu")), mib_down(allocatable.get("memory")), extended)


def _add(to: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for name, number in more:
        to[name] = to.get(name, 0) + number
