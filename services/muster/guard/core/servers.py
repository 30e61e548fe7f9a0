"""The port between the guard's fold and the API servers: looks come out."""

from typing import Protocol

from muster.guard.core.look import Look


class Servers(Protocol):
    """What looks at the API servers while the guard leads."""

    def look(self) -> Look | None:
        """The newest look of this term; None before the first."""
        ...


class NoServers:
    """There are none: the cluster is simulated, or the guard is switched off."""

    def look(self) -> None:
        """See Servers.look."""
        return
