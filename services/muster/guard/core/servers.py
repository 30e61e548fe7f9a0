"""The port between the guard's fold and the API servers: looks come out."""

from typing import Protocol

from muster.core import Instant
from muster.guard.core.look import Look


class Servers(Protocol):
    """What looks at the API servers while the guard leads."""

    def look(self) -> Look | None:
        """The newest look of this term; None before the first."""
        ...

    def observe(self) -> Look | None:
        """The same, to decide on: it is told then."""
        ...

    def next_change(self) -> Instant | None:
        """When there is a look that was not decided on; None if it wakes the core itself once there is."""
        ...


class NoServers:
    """There are none: the cluster is simulated, or the guard is switched off."""

    def look(self) -> None:
        """See Servers.look."""
        return

    def observe(self) -> None:
        """See Servers.observe."""
        return

    def next_change(self) -> None:
        """See Servers.next_change."""
        return
