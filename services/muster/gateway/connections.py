"""Track open and idle connections, and choose the idle one that a new connection replaces. Pure."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Generic, TypeVar

RESERVE = 64
"""Connections above the limit that are reserved for health probes."""

IPV6_PREFIX_BITS = 64
"""A single IPv6 client controls at least a network of this prefix length."""

Connection = TypeVar("Connection", bound=Hashable)


class Admission(Enum):
    """The outcome of a new connection."""

    ADMITTED = "admitted"
    ADDRESS_FULL = "address-full"
    FULL = "full"


@dataclass(slots=True)
class _Address(Generic[Connection]):
    """Connections of one address. idle: the longest idle first."""

    open: int = 0
    idle: dict[Connection, None] = field(default_factory=dict)


class ConnectionTable(Generic[Connection]):
    """Open connections, in total and by address. A connection is idle while no answer to it is in progress."""

    def __init__(self, *, connections_max: int, per_address_max: int, proxies: Sequence[str] = ()) -> None:
        self._connections_max = connections_max
        self._per_address_max = per_address_max
        self._proxies = tuple(map(ip_network, proxies))
        self._keys: dict[Connection, str] = {}
        self._addresses: dict[str, _Address[Connection]] = {}
        self._idle: dict[Connection, None] = {}

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._keys)

    @property
    def is_over(self) -> bool:
        """Return whether only health probes are answered."""
        return len(self._keys) > self._connections_max

    def open(self) -> tuple[Connection, ...]:
        """Return all open connections."""
        return tuple(self._keys)

    def admit(self, connection: Connection, address: str) -> tuple[Admission, Connection | None]:
        """Return the outcome for a new connection, and the idle connection to close for it.

        The connection to close has already been removed from the table.
        """
        key = self._key(address)
        known = self._addresses.get(key, _Address())
        closes: Connection | None = None
        if key and known.open >= self._per_address_max:
            if not known.idle:
                return Admission.ADDRESS_FULL, None
            closes = next(iter(known.idle))
        elif len(self._keys) >= self._connections_max and self._idle:
            closes = next(iter(self._idle))
        elif len(self._keys) >= self._connections_max + RESERVE:
            return Admission.FULL, None
        if closes is not None:
            self.remove(closes)
        self._keys[connection] = key
        self._addresses.setdefault(key, known).open += 1
        self.mark_idle(connection)
        return Admission.ADMITTED, closes

    def mark_idle(self, connection: Connection) -> None:
        """Mark the connection as waiting for its client."""
        key = self._keys.get(connection)
        if key is not None and connection not in self._idle:
            self._idle[connection] = None
            self._addresses[key].idle[connection] = None

    def mark_busy(self, connection: Connection) -> None:
        """Mark the connection as being answered."""
        key = self._keys.get(connection)
        if key is not None and connection in self._idle:
            del self._idle[connection]
            del self._addresses[key].idle[connection]

    def remove(self, connection: Connection) -> None:
        """Remove the connection; ignore an unknown one."""
        self.mark_busy(connection)
        key = self._keys.pop(connection, None)
        if key is None:
            return
        of_address = self._addresses[key]
        of_address.open -= 1
        if not of_address.open:
            del self._addresses[key]

    def _key(self, address: str) -> str:
        """Return the key under which connections are counted; "" is not limited."""
        try:
            read = ip_address(address.partition("%")[0])
        except ValueError:
            return ""  # a Unix socket: access to its file limits who connects
        if isinstance(read, IPv6Address) and read.ipv4_mapped is not None:
            read = read.ipv4_mapped
        if any(read in network for network in self._proxies):
            return ""
        if isinstance(read, IPv6Address):
            return str(ip_network((int(read), IPV6_PREFIX_BITS), strict=False))
        return str(read)
