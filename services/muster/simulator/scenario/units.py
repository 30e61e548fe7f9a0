"""People's units as the wire's, with the field in every error."""

from collections.abc import Mapping

from muster.schemas import quantities
from muster.schemas.quantities import QuantityError
from muster.simulator.errors import InputError


def amounts(human: Mapping[str, float], at: str) -> dict[str, int]:
    """Raises InputError with the resource."""
    try:
        return quantities.amounts(human)
    except QuantityError as error:
        raise InputError(f"{at}.{error.key}", error.reason) from error


def gpus_of(wanted: float, at: str) -> tuple[int, int]:
    """Whole GPUs, or thousandths of one: never both. Raises InputError."""
    try:
        milli = quantities.gpu_milli(wanted, key="gpus")
    except QuantityError as error:
        raise InputError(f"{at}.gpus", error.reason) from error
    whole, share = divmod(milli, quantities.MILLI)
    if whole and share:
        raise InputError(f"{at}.gpus", f"{wanted:g} is neither a whole number of GPUs nor a share below 1; round it")
    return whole, share


def cpu_milli(cores: float, at: str) -> int:
    """Raises InputError."""
    try:
        return quantities.cpu_milli(cores, key="cpu")
    except QuantityError as error:
        raise InputError(f"{at}.cpu", error.reason) from error


def memory_mib(gib: float, at: str) -> int:
    """Raises InputError."""
    try:
        return quantities.memory_mib(gib, key="memory_gib")
    except QuantityError as error:
        raise InputError(f"{at}.memory_gib", error.reason) from error


def names_of(name: str, count: int) -> tuple[str, ...]:
    """The names of `count` equal things: the name itself if there is one, else numbered from 0."""
    return (name,) if count == 1 else tuple(f"{name}-{index}" for index in range(count))
