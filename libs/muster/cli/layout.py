"""Lay out tables: widths of columns on a terminal, and the order of rows. Pure."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from muster.cli.errors import usage

SEPARATOR = "  "
SHRUNK_MIN = 8
"""A column is shrunk to this width before other columns are omitted."""
CUT_MIN = 3
"""The minimum width of a column of a table that is still too wide after omitting columns."""
IDENTITIES = frozenset({"JOBID", "CHOICE", "UUID", "TOKEN_ID"})
"""Columns that are shrunk only if nothing else helps: a cut id is of no use."""
KEPT = frozenset({"ST", "STATE", "PHASE", "REASON", "NODELIST(REASON)"})
"""Columns that are never omitted, besides the first one and identities."""

_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")
_CLOCK = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")

Row = Sequence[str]
SortKey = tuple[int, float, str]


@dataclass(frozen=True, slots=True)
class Columns:
    """The visible columns of a table."""

    shown: tuple[int, ...]
    """Indexes of the columns."""
    widths: tuple[int, ...]
    """Width of each visible column."""


def fitted(headings: Sequence[str], natural: Sequence[int], room: int) -> Columns:
    """Return the columns that fit into `room` characters: shrink long texts, then omit columns from the right.

    natural: the full width of each column.
    """
    fixed = frozenset(at for at, name in enumerate(headings) if at == 0 or name in IDENTITIES)
    shown = list(range(len(natural)))
    while _least(shown, natural, fixed, SHRUNK_MIN) > room:
        omitted = next((at for at in reversed(shown) if at not in fixed and headings[at] not in KEPT), None)
        if omitted is None:
            return Columns(tuple(shown), _shrunk(shown, natural, frozenset(), CUT_MIN, room))
        shown.remove(omitted)
    return Columns(tuple(shown), _shrunk(shown, natural, fixed, SHRUNK_MIN, room))


def _least(shown: Sequence[int], natural: Sequence[int], fixed: Collection[int], least: int) -> int:
    return sum(_limited(at, natural, fixed, least) for at in shown) + len(SEPARATOR) * (len(shown) - 1)


def _limited(at: int, natural: Sequence[int], fixed: Collection[int], limit: int) -> int:
    return natural[at] if at in fixed else min(natural[at], limit)


def _shrunk(
    shown: Sequence[int], natural: Sequence[int], fixed: Collection[int], least: int, room: int
) -> tuple[int, ...]:
    """Return the widths with the largest common limit for texts at which the table fits, at least `least`."""
    low, high = least, max((natural[at] for at in shown), default=least)
    while low < high:
        middle = (low + high + 1) // 2
        if _least(shown, natural, fixed, middle) <= room:
            low = middle
        else:
            high = middle - 1
    return tuple(_limited(at, natural, fixed, low) for at in shown)


def ordered(headings: Sequence[str], rows: Sequence[Row], sort_by: str) -> Sequence[Row]:
    """Return the rows sorted by a column; `-COLUMN` is descending. Raises CliError for an unknown column."""
    named = sort_by.removeprefix("-").upper()
    if named not in headings:
        raise unknown_field(sort_by, [heading.lower() for heading in headings])
    column = headings.index(named)
    return sorted(rows, key=lambda row: sort_key(row[column]), reverse=sort_by.startswith("-"))


def unknown_field(sort_by: str, known: Sequence[str]) -> Exception:
    """Return the error for a field that cannot be sorted by."""
    return usage(f"--sort-by: {sort_by.removeprefix('-')!r} is not a field; use one of {', '.join(known)}")


def sort_key(text: str) -> SortKey:
    """Return the order of a cell: durations and numbers by their value, before texts."""
    if found := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return (0, ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds, "")
    if found := _SECONDS.fullmatch(text):
        return (0, float(found[1]), "")
    if found := _NUMBER.match(text):
        return (0, float(found[0].replace(",", "")), text)
    return (1, 0.0, text)
