"""Quantities and moments as Kubernetes writes them ("500m", "64Gi", "2025-11-21T15:00:00Z"), read without I/O.

Formats: apimachinery `resource.Quantity` and RFC 3339.
"""

from decimal import Decimal, InvalidOperation
from functools import lru_cache

from muster.core import NS_PER_S, Instant

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
_CACHED = 4096  # a cluster writes few different quantities
_DAYS_TO_1970 = 719_468
_QUANTITY_CHARS_MAX = 64
_DIGITS_MAX = 30  # the server's own limit is 2**63 - 1; a larger power of ten would be a number of gigabytes


def amount(quantity: object) -> Decimal:
    """Its value in units; 0 for what is no quantity: the server has validated it, so that is an absent one."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        return Decimal(0)
    return _parsed(str(quantity))


def milli(quantity: object) -> int:
    """In thousandths, rounded up as Kubernetes does ("100u" is 1m)."""
    return _milli(quantity) if isinstance(quantity, str) else _up(amount(quantity) * 1000)


def mib_up(quantity: object) -> int:
    """In MiB, rounded up: what somebody asks for."""
    return _mib_up(quantity) if isinstance(quantity, str) else _up(amount(quantity) / 2**20)


def mib_down(quantity: object) -> int:
    """In MiB, rounded down: what a node offers."""
    return int(amount(quantity) / 2**20)


def count(quantity: object) -> int:
    """A whole number of things."""
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
    """The moment of an RFC 3339 time-stamp in UTC, as the API server writes all of them; 0 for anything else."""
    if not text:
        return Instant(0)  # most objects lack most moments, and an exception is dear
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
    """Days since 1970-01-01 in the Gregorian calendar (H. Hinnant, "days_from_civil")."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _DAYS_TO_1970
