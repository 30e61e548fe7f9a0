"""Which connections are open, which of them are idle, and which one makes room for a new one. Pure."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Generic, TypeVar

RESERVE = 64
"""Connections above the limit, kept for health probes."""

IPV6_PREFIX_BITS = 64
"""One client of IPv6 has at least this network for itself."""

Connection = TypeVar("Connection", bound=Hashable)


class Admission(Enum):
    """What becomes of a new connection."""

    ADMITTED = "admitted"
    ADDRESS_FULL = "address-full"
    FULL = "full"


@dataclass(slots=True)
class _Address(Generic[Connection]):
    """Connections of one address. idle: longest first."""

    open: int = 0
    idle: dict[Connection, None] = field(default_factory=dict)


class ConnectionTable(Generic[Connection]):
    """Open connections, in all and by address. A connection is idle while no answer is being made for it."""

    def __init__(self, *, connections_max: int, per_address_max: int, proxies: Sequence[str] = ()) -> None:
        self._connections_max = connections_max
        self._per_address_max = per_address_max
        self._proxies = tuple(map(ip_network, proxies))
        self._keys: dict[Connection, str] = {}
        self._addresses: dict[str, _Address[Connection]] = {}
        self._idle: dict[Connection, None] = {}

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._keys)

    @property
    def is_over(self) -> bool:
        """Whether only health probes are answered."""
        return len(self._keys) > self._connections_max

    def open(self) -> tuple[Connection, ...]:
        """Return all open connections."""
        return tuple(self._keys)

    def admit(self, connection: Connection, address: str) -> tuple[Admission, Connection | None]:
        """Return what becomes of a new connection, and which idle connection to close for it.

        The connection to close is out of the table already.
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
        """Note that the connection waits for its client from now on."""
        key = self._keys.get(connection)
        if key is not None and connection not in self._idle:
            self._idle[connection] = None
            self._addresses[key].idle[connection] = None

    def mark_busy(self, connection: Connection) -> None:
        """Note that an answer is being made for the connection."""
        key = self._keys.get(connection)
        if key is not None and connection in self._idle:
            del self._idle[connection]
            del self._addresses[key].idle[connection]

    def remove(self, connection: Connection) -> None:
        """Forget the connection; nothing happens if it is unknown."""
        self.mark_busy(connection)
        key = self._keys.pop(connection, None)
        if key is None:
            return
        of_address = self._addresses[key]
        of_address.open -= 1
        if not of_address.open:
            del self._addresses[key]

    def _key(self, address: str) -> str:
        """Return what connections are counted under; "" is not limited."""
        try:
            read = ip_address(address.partition("%")[0])
        except ValueError:
            return ""  # a socket without addresses: only who may open its file connects
        if isinstance(read, IPv6Address) and read.ipv4_mapped is not None:
            read = read.ipv4_mapped
        if any(read in network for network in self._proxies):
            return ""
        if isinstance(read, IPv6Address):
            return str(ip_network((int(read), IPV6_PREFIX_BITS), strict=False))
        return str(read)
