"""The catalogue of checks: what each one tests, and its cost.

Thresholds are parameters with defaults that every generation of data-center GPU meets: a suite raises them for its
machines, because a default that fails healthy nodes would cause users to disable the check.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.schemas.facts.operations import CheckOrder, CheckScope


class CheckError(ValueError):
    """A check, suite or parameter that does not exist or is invalid. The message lists the valid ones."""


DEVICE_COUNT, GPU_HEALTH, DCGM = "device-count", "gpu-health", "dcgm"
PEER_BANDWIDTH, ALL_REDUCE, STORAGE, COMMAND = "peer-bandwidth", "all-reduce", "storage", "command"


@dataclass(frozen=True, slots=True)
class CheckKind:
    """One check of the library. words: what it tests. limit_s: timeout of one run, unless the suite sets it.

    numbers: parameters with their defaults, numbers of at least 0. texts: parameters that are texts. gpus_least:
    minimum of whole GPUs per pod for a meaningful result; gang_gpus_least: the same of the gang. is_invasive: it
    loads the GPUs, and needs them exclusively.
    """

    name: str
    words: str
    limit_s: float
    scope: CheckScope = CheckScope.NODE
    numbers: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    gpus_least: int = 0
    gang_gpus_least: int = 0
    is_invasive: bool = False

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of parameters that an order may have."""
        return frozenset((*self.numbers, *self.texts))


_KINDS = (
    CheckKind(DEVICE_COUNT, "as many GPUs as were given are there and answer", 30.0, gpus_least=1),
    CheckKind(
        GPU_HEALTH,
        "no GPU waits for a row remap or a page retirement, none failed to remap, and none asks to be reset",
        30.0,
        numbers={"temperature_c_max": 90.0},
        gpus_least=1,
    ),
    CheckKind(
        DCGM,
        "the vendor's own diagnosis, of level 1 (seconds) to 4 (an hour)",
        300.0,
        numbers={"level": 1.0},
        gpus_least=1,
        is_invasive=True,
    ),
    CheckKind(
        PEER_BANDWIDTH,
        "GPUs of one node copy to each other as fast as they should",
        120.0,
        numbers={"gb_per_s_min": 10.0, "mib": 256.0},
        texts={"program": "nvbandwidth"},
        gpus_least=2,
        is_invasive=True,
    ),
    CheckKind(
        ALL_REDUCE,
        "all GPUs of the gang add up numbers together, as fast as they should",
        300.0,
        scope=CheckScope.GANG,
        numbers={"gb_per_s_min": 1.0, "mib": 256.0, "rounds": 20.0},
        texts={"program": "all_reduce_perf"},
        gpus_least=1,
        gang_gpus_least=2,
        is_invasive=True,
    ),
    CheckKind(
        STORAGE,
        "a file can be written to the path, and reads back as it was",
        60.0,
        numbers={"mb_per_s_min": 0.0, "mib": 64.0},
        texts={"path": "/tmp"},  # noqa: S108 - where a pod may always write
    ),
    CheckKind(COMMAND, "a program of your own: 0 is pass, 1 to 124 is fail, anything else could not run", 60.0),
)
KINDS: Mapping[str, CheckKind] = {kind.name: kind for kind in _KINDS}


def kind_of(check: str) -> CheckKind:
    """Return the check of this name. Raises CheckError."""
    kind = KINDS.get(check)
    if kind is None:
        raise CheckError(f"check: there is no check {check!r}; use one of {', '.join(KINDS)}")
    return kind


def order(
    check: str,
    *,
    limit_s: float | None = None,
    parameters: Mapping[str, str] | None = None,
    command: tuple[str, ...] = (),
) -> CheckOrder:
    """Return an order for one check, with its scope, limit and parameters filled in. Raises CheckError."""
    kind = kind_of(check)
    given = dict(parameters or {})
    _refuse_unknown(kind, given)
    if (kind.name == COMMAND) != bool(command):
        raise CheckError(f"{check}: `command` is required for check {COMMAND!r}, and allowed only there")
    for name in given.keys() & kind.numbers.keys():
        number_of(check, name, given[name])
    defaults = {name: f"{value:g}" for name, value in kind.numbers.items()} | dict(kind.texts)
    return CheckOrder(
        check=check,
        scope=kind.scope,
        limit_s=kind.limit_s if limit_s is None else limit_s,
        parameters=defaults | given,
        command=command,
    )


def number_of(check: str, name: str, text: str) -> float:
    """Return a parameter that is a number of at least 0. Raises CheckError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise CheckError(f"{check}: parameter {name}: {text!r} is not a number of at least 0")
    return value


def _refuse_unknown(kind: CheckKind, given: Mapping[str, str]) -> None:
    unknown = sorted(given.keys() - kind.parameters)
    if unknown:
        known = ", ".join(sorted(kind.parameters)) or "none"
        raise CheckError(f"{kind.name}: there is no parameter {unknown[0]!r}; there are {known}")
