"""Questions to the composer and the scaler."""

from nats.aio.client import Client

from muster.gateway.asking import Leader
from muster.schemas.queries import (
    AskCompose,
    AskDetach,
    AskFleet,
    DeviceCheckAnswer,
    DevicesAnswer,
    RequestsAnswer,
    ScaleAnswer,
)


class NatsComposer:
    """The composer of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="composer")

    async def devices(self, *, only: str = "") -> DevicesAnswer:
        """See `Composer.devices`."""
        return await self._leader.ask("devices", AskFleet(only=only), DevicesAnswer)

    async def requests(self, *, only: str = "") -> RequestsAnswer:
        """See `Composer.requests`."""
        return await self._leader.ask("requests", AskFleet(only=only), RequestsAnswer)

    async def compose_check(self, question: AskCompose) -> DeviceCheckAnswer:
        """See `Composer.compose_check`."""
        return await self._leader.ask("compose-check", question, DeviceCheckAnswer)

    async def detach_check(self, question: AskDetach) -> DeviceCheckAnswer:
        """See `Composer.detach_check`."""
        return await self._leader.ask("detach-check", question, DeviceCheckAnswer)


class NatsScaler:
    """The scaler of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="scaler")

    async def choices(self) -> ScaleAnswer:
        """See `Scaler.choices`."""
        return await self._leader.ask("choices", AskFleet(), ScaleAnswer)
