"""A fabric whose driver could not be made: it is there, and says to everybody what is wrong with its settings."""

from typing import NoReturn

from muster.fabric.driver import AttachOrder, DetachOrder, FabricUnavailableError


class UnopenedDriver:
    """See FabricDriver. Nothing is ever sent."""

    parallel_max = 1

    def __init__(self, why: str) -> None:
        self._why = why

    async def attach(self, order: AttachOrder) -> NoReturn:  # noqa: ARG002 - the port
        """Raises FabricUnavailableError."""
        raise FabricUnavailableError(self._why)

    async def detach(self, order: DetachOrder) -> NoReturn:  # noqa: ARG002 - the port
        """Raises FabricUnavailableError."""
        raise FabricUnavailableError(self._why)

    async def survey(self) -> NoReturn:
        """Raises FabricUnavailableError."""
        raise FabricUnavailableError(self._why)

    async def close(self) -> None:
        """Nothing is open."""
