"""What pods ask of nodes and nodes offer, as the kubelet counts it: whole thousandths of cores, MiB and devices."""

from collections.abc import Iterable

from muster.agent.core.kubernetes.quantities import count, mib_down, mib_up, milli
from muster.agent.core.kubernetes.views import NO_REQUESTS, Requests
from muster.kube.objects import JsonObject, mapping, objects, text


def pod_requests(spec: JsonObject) -> Requests:
    """What the scheduler and the kubelet count: containers beside the largest init container, sidecars, overhead.

    As in k8s.io/component-helpers `resource.PodRequests`; pod-level resources (`spec.resources`) win where they stand.
    """
    cpu = memory = 0
    extended: dict[str, int] = {}
    for container in objects(spec, "containers"):
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
    extended = tuple((name, count(requests[name])) for name in requests if "/" in name)
    return Requests(milli(requests.get("cpu")), mib_up(requests.get("memory")), extended)


def offered(allocatable: JsonObject) -> Requests:
    """What a node offers, in the same terms."""
    extended = tuple(sorted((name, count(allocatable[name])) for name in allocatable if "/" in name))
    return Requests(milli(allocatable.get("cpu")), mib_down(allocatable.get("memory")), extended)


def _add(to: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for name, number in more:
        to[name] = to.get(name, 0) + number
