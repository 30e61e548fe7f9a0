"""Count LISTs by client: parse requests in flight from the dump of flow control, and count in a sliding window.

The dump (`dump_requests?includeRequestDetails=1`) has the columns of apiserver v0.34, util/flowcontrol/
apf_controller_debug.go. It shows a request only while it waits or executes, so it misses light ones; it is the source
where no audit log is sent. It lacks field selectors, so nodes, which list single secrets by them, are left out.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.core import Instant
from muster.core.instant import NS_PER_S
from muster.guard.core.limits import CLIENTS_MAX, SLOTS, WINDOW_S
from muster.guard.core.look import ClientLists
from muster.guard.core.printable import NAME_CHARS_MAX, printable

_COLUMN = re.compile(r",\s+")
_COLUMNS = 18
_NODES = "system:node:"
_ARRIVED, _USER, _VERB, _NAME, _VERSION, _RESOURCE = 5, 10, 11, 14, 15, 16


@dataclass(frozen=True, slots=True)
class Request:
    """One LIST; `arrived` (the server's text) and `user` identify it."""

    arrived: str
    user: str
    resource: str


def lists_of(lines: Iterable[str]) -> Iterator[Request]:
    """Yield the LISTs of a dump, except those of one object by name."""
    for line in lines:
        columns = [column.strip() for column in _COLUMN.split(line.strip() + " ")]
        if len(columns) != _COLUMNS or columns[_VERB] != "list" or columns[_NAME]:
            continue
        if columns[_USER].startswith(_NODES):
            continue
        group = columns[_VERSION].rpartition("/")[0]
        resource = columns[_RESOURCE]
        user = printable(columns[_USER], NAME_CHARS_MAX)
        yield Request(columns[_ARRIVED], user, printable(f"{resource}.{group}" if group else resource, NAME_CHARS_MAX))


OTHERS = "others"
_SLOT_NS = WINDOW_S * NS_PER_S // SLOTS
_MINUTE_S = 60.0

Client = tuple[str, str, str]
"""User agent, user, resource."""


class ClientTally:
    """Counts of LISTs by client in a sliding window."""

    def __init__(self) -> None:
        self._slots: deque[tuple[int, Counter[Client]]] = deque(maxlen=SLOTS + 1)
        self._known: Counter[Client] = Counter()
        self._since: Instant | None = None

    def add(self, now: Instant, *, agent: str, user: str, resource: str, lists: int = 1) -> None:
        """Count `lists` more LISTs of a client."""
        client = (agent, user, resource)
        if client not in self._known and len(self._known) >= CLIENTS_MAX:
            client = (OTHERS, OTHERS, resource)
        slot = now // _SLOT_NS
        if self._since is None:
            self._since = now
        self._forget(now)
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, Counter()))
        self._slots[-1][1][client] += lists
        self._known[client] += lists

    def rates(self, now: Instant) -> tuple[ClientLists, ...]:
        """Return the rates by client, the highest first."""
        self._forget(now)
        if self._since is None:
            return ()
        seconds = min(float(WINDOW_S), max(_SLOT_NS / NS_PER_S, (now - self._since) / NS_PER_S))
        return tuple(
            ClientLists(agent, user, resource, number * _MINUTE_S / seconds, number)
            for (agent, user, resource), number in sorted(self._known.items(), key=lambda one: (-one[1], one[0]))
        )

    def _forget(self, now: Instant) -> None:
        oldest = now // _SLOT_NS - SLOTS
        while self._slots and self._slots[0][0] <= oldest:
            _, gone = self._slots.popleft()
            self._known.subtract(gone)
            for client in gone:
                if self._known[client] <= 0:
                    del self._known[client]
