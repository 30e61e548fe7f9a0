"""Requests of pods and offers of nodes, as the kubelet counts them, and times in Kubernetes' format.

Formats: apimachinery `resource.Quantity` ("500m", "64Gi") and RFC 3339. Amounts are whole thousandths of cores, MiB and
devices. GPU shares are extended resources: MIG profiles, MPS or time-slicing, as the cluster's settings name them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from muster.agent.core.kubernetes.views import NO_REQUESTS, Requests
from muster.core import NS_PER_S, Instant
from muster.kube.objects import JsonObject, mapping, objects, text

_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_CACHED = 4096  # a cluster writes few different quantities, and its containers ask for few different things
_DAYS_TO_1970 = 719_468
_QUANTITY_CHARS_MAX = 64
_DIGITS_MAX = 30  # the server's own limit is 2**63 - 1; a larger power of ten would be a number of gigabytes


def amount(quantity: object) -> Decimal:
    """Return the value of a quantity; 0 if it is absent or invalid."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        return Decimal(0)
    return _parsed(str(quantity))


def milli(quantity: object) -> int:
    """Return thousandths, rounded up as Kubernetes does ("100u" is 1m)."""
    return _milli(quantity) if isinstance(quantity, str) else _up(amount(quantity) * 1000)


def mib_up(quantity: object) -> int:
    """Return MiB rounded up, for requests."""
    return _mib_up(quantity) if isinstance(quantity, str) else _up(amount(quantity) / 2**20)


def mib_down(quantity: object) -> int:
    """Return MiB rounded down, for offers."""
    return int(amount(quantity) / 2**20)


def count(quantity: object) -> int:
    """Return a whole number."""
    return int(amount(quantity))


@lru_cache(maxsize=_CACHED)
def _milli(text: str) -> int:
    return _up(_parsed(text) * 1000)


@lru_cache(maxsize=_CACHED)
def _mib_up(text: str) -> int:
    return _up(_parsed(text) / 2**20)


@lru_cache(maxsize=_CACHED)
def _parsed(text: str) -> Decimal:
    if len(text) > _QUANTITY_CHARS_MAX:
        return Decimal(0)
    number = text.rstrip("numkKMGTPEi")
    suffix = text[len(number) :]
    if suffix not in _SUFFIXES:  # an exponent: "12e6", "1E3"; or "5E" for exa, which the table has
        number, suffix = text, ""
    try:
        value = Decimal(number)
    except InvalidOperation:
        return Decimal(0)
    if not value.is_finite() or value.adjusted() > _DIGITS_MAX:
        return Decimal(0)
    return value * _SUFFIXES[suffix]


def _up(value: Decimal) -> int:
    whole = int(value)
    return whole if whole >= value else whole + 1


def instant(text: str) -> Instant:
    """Return the time of an RFC 3339 time stamp in UTC; 0 for anything else."""
    if not text:
        return Instant(0)  # most times are absent, and exceptions are slow
    try:
        date, _, clock = text.removesuffix("Z").partition("T")
        year, month, day = map(int, date.split("-"))
        hour, minute, rest = clock.split(":")
        second, _, fraction = rest.partition(".")
        whole = ((_days(year, month, day) * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
        part = int(fraction[:9].ljust(9, "0")) if fraction else 0
    except ValueError:
        return Instant(0)
    return Instant(whole * NS_PER_S + part)


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the Gregorian calendar (H. Hinnant, "days_from_civil")."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _DAYS_TO_1970


_MORE = frozenset({"initContainers", "resources", "overhead"})
"""Fields that make a pod's requests differ from those of its only container."""


def pod_requests(spec: JsonObject) -> Requests:
    """Return the requests that scheduler and kubelet count: containers, the largest init container, sidecars, overhead.

    As in k8s.io/component-helpers `resource.PodRequests`; pod-level resources (`spec.resources`) override.
    """
    containers = objects(spec, "containers")
    if len(containers) == 1 and not _MORE.intersection(spec):
        return _asked(containers[0])  # the common case
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
    """Return the offer of a node."""
    extended = tuple(sorted((name, count(allocatable[name])) for name in allocatable if "/" in name))
    return Requests(milli(allocatable.get("cpu")), mib_down(allocatable.get("memory")), extended)


def _add(to: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for name, number in more:
        to[name] = to.get(name, 0) + number


PARTS_MILLI = 1001
"""Size of a shared GPU, as in `muster.placement`: seven shares of 143 fit."""


def profile_for(gpu_milli: int, profiles: Mapping[str, int]) -> str | None:
    """Return the resource of the smallest sufficient share; None if there is none.

    `profiles` has thousandths of a GPU by resource. Of two equal shares the first by name.
    """
    fitting = [(milli, resource) for resource, milli in profiles.items() if milli >= gpu_milli]
    return min(fitting)[1] if fitting else None


@dataclass(frozen=True, slots=True)
class Parts:
    """Shared GPUs of a node: their number, and thousandths of a GPU per share."""

    places: int = 0
    milli: int = 0


NO_PARTS = Parts()


def parts_of(allocatable: Mapping[str, int], profiles: Mapping[str, int]) -> Parts:
    """Return the node's shares, if all its GPUs are shared; `allocatable` are its extended resources.

    A node has shares of one size: of several, the one that covers most of its GPUs, because only the kubelet knows
    which GPU provides which. Shares of foreign pods are not subtracted: that would lose whole GPUs.
    """
    offered = [(allocatable.get(resource, 0) * milli, milli, resource) for resource, milli in profiles.items()]
    most, milli, resource = max(offered, default=(0, 0, ""))
    if not most:
        return NO_PARTS
    return Parts(places=allocatable[resource] // (PARTS_MILLI // milli), milli=milli)


_DAY_S = 86_400


def rfc3339(at: int) -> str | None:
    """Return `2026-11-21T16:00:00Z`; None for 0."""
    if not at:
        return None
    days, second = divmod(at // NS_PER_S, _DAY_S)
    year, month, day = _civil(days)
    hour, rest = divmod(second, 3_600)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{rest // 60:02d}:{rest % 60:02d}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day since 1970-01-01 (H. Hinnant, "civil_from_days")."""
    era, of_era = divmod(days + 719_468, 146_097)
    of_year_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * of_year_era + of_year_era // 4 - of_year_era // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    return of_year_era + era * 400 + (month <= 2), month, day
