"""Amounts in users' units, and in the units of the wire.

    gpu         GPUs of any model       gpu_milli          thousandths
    gpu:H100    GPUs of that model      gpu_milli:H100     thousandths
    cpu         cores                   cpu_milli          thousandths
    memory_gib  GiB                     memory_mib         MiB

Conversion is exact both ways: an amount finer than the wire's unit is refused, never rounded.
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from muster.schemas.facts.queue import CPU, GPU, MEMORY, RESOURCES_MAX

Number = int | float

MILLI = 1_000
MIB_PER_GIB = 1_024
AMOUNT_MAX = 10**15
"""Maximum amount in the wire's unit: a float still distinguishes every thousandth."""

_WORDS = {"gpu": (GPU, MILLI), "cpu": (CPU, MILLI), "memory_gib": (MEMORY, MIB_PER_GIB)}
_WIRE = {wire: (word, unit) for word, (wire, unit) in _WORDS.items()}
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_KNOWN = "gpu, gpu:<model>, cpu or memory_gib"


class QuantityError(ValueError):
    """An amount that cannot be read. key: its resource; reason: what is wrong, and the allowed form."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


def amounts(human: Mapping[str, object]) -> dict[str, int]:
    """Convert `{gpu: 16, "gpu:H100": 8, memory_gib: 0.5}` to `{gpu_milli: 16000, ..., memory_mib: 512}`. Raises
    QuantityError for an unknown resource, for a value that is not a number, and for a negative or too fine amount."""
    if len(human) > RESOURCES_MAX:
        raise QuantityError("resources", f"{len(human)} of them; at most {RESOURCES_MAX} can be named")
    found: dict[str, int] = {}
    for key, value in human.items():
        wire, unit = _wire(str(key))
        found[wire] = _whole(value, unit, key=str(key))
    return found


def human(amounts: Mapping[str, int]) -> dict[str, Number]:
    """Convert amounts of the wire to users' units; `amounts` is the inverse. Raises QuantityError."""
    found: dict[str, Number] = {}
    for resource, amount in amounts.items():
        base, colon, model = resource.partition(":")
        if base not in _WIRE:
            raise QuantityError(resource, f"not a resource of the wire; use one of {', '.join(_WIRE)}")
        word, unit = _WIRE[base]
        whole, rest = divmod(amount, unit)
        found[f"{word}{colon}{model}"] = amount / unit if rest else whole
    return found


def gpu_milli(gpus: object, *, key: str) -> int:
    """Return `gpus` GPUs in thousandths. key: the name in errors. Raises QuantityError."""
    return _whole(gpus, MILLI, key=key)


def cpu_milli(cores: object, *, key: str) -> int:
    """Return `cores` cores in thousandths. key: the name in errors. Raises QuantityError."""
    return _whole(cores, MILLI, key=key)


def memory_mib(gib: object, *, key: str) -> int:
    """Return `gib` GiB in MiB. key: the name in errors. Raises QuantityError."""
    return _whole(gib, MIB_PER_GIB, key=key)


def _wire(key: str) -> tuple[str, int]:
    word, colon, model = key.partition(":")
    if word not in _WORDS or (colon and word != "gpu"):
        hint = f" (the wire's {key!r} is {_WIRE[word][0]} here)" if word in _WIRE else ""
        raise QuantityError(key, f"unknown{hint}; write {_KNOWN}")
    if colon and not _MODEL.fullmatch(model):
        raise QuantityError(key, "a GPU model is 1 to 63 letters, digits, dots, hyphens and underscores")
    wire, unit = _WORDS[word]
    return f"{wire}{colon}{model}", unit


def _whole(value: object, unit: int, *, key: str) -> int:
    """Return the value times `unit`, a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(key, f"{value!r} is not a number")
    if not math.isfinite(value):
        raise QuantityError(key, f"{value!r} is not an amount; leave the resource out to set no bound")
    exact = Fraction(Decimal(str(value))) * unit  # as written: 0.1 is a tenth, not the nearest binary fraction
    if exact.denominator != 1:
        exact = Fraction(value) * unit  # a MiB of a large GiB is a binary fraction that is written with rounded digits
    if exact < 0:
        raise QuantityError(key, f"{value} is negative; write 0 or more")
    if exact > AMOUNT_MAX:
        raise QuantityError(key, f"{value} is more than {AMOUNT_MAX // unit}")
    if exact.denominator != 1:
        least = "a thousandth" if unit == MILLI else f"1/{unit} (one MiB)"
        raise QuantityError(key, f"{value} is finer than {least}")
    return int(exact)
