"""Requests that an API server works on now, as its flow control dumps them (`dump_requests?includeRequestDetails=1`).

Columns of apiserver v0.34, util/flowcontrol/apf_controller_debug.go. A request is seen only while it waits or is
executed, so heavy ones are seen and light ones are not: it is what there is where no audit log is sent. Field selectors
are not shown, so nodes, which list single secrets by them, are left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.guard.core.words import NAME_CHARS_MAX, shown

_COLUMN = re.compile(r",\s+")
_COLUMNS = 18
_NODES = "system:node:"
_ARRIVED, _USER, _VERB, _NAME, _VERSION, _RESOURCE = 5, 10, 11, 14, 15, 16


@dataclass(frozen=True, slots=True)
class Request:
    """One LIST. arrived: when, in the server's words; with the user it tells one request from another."""

    arrived: str
    user: str
    resource: str


def lists_of(lines: Iterable[str]) -> Iterator[Request]:
    """LISTs of more than one object by its name."""
    for line in lines:
        columns = [column.strip() for column in _COLUMN.split(line.strip() + " ")]
        if len(columns) != _COLUMNS or columns[_VERB] != "list" or columns[_NAME]:
            continue
        if columns[_USER].startswith(_NODES):
            continue
        group = columns[_VERSION].rpartition("/")[0]
        resource = columns[_RESOURCE]
        user = shown(columns[_USER], NAME_CHARS_MAX)
        yield Request(columns[_ARRIVED], user, shown(f"{resource}.{group}" if group else resource, NAME_CHARS_MAX))
