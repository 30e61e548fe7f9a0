"""Questions to the composer and the scaler. They do not say which cluster they speak of: who asks knows."""

from nats.aio.client import Client

from muster.gateway.asking import Leader
from muster.schemas.devices import RequestView
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
        self.cluster = cluster
        self._leader = Leader(client, cluster=cluster, service="composer")
        self._of_cluster = {"cluster": cluster}

    async def devices(self, *, only: str = "") -> DevicesAnswer:
        """See `Composer.devices`."""
        answer = await self._leader.ask("devices", AskFleet(only=only), DevicesAnswer)
        devices = tuple(one.model_copy(update=self._of_cluster) for one in answer.devices)
        fabrics = tuple(one.model_copy(update=self._of_cluster) for one in answer.fabrics)
        return DevicesAnswer(devices=devices, fabrics=fabrics)

    async def requests(self, *, only: str = "") -> RequestsAnswer:
        """See `Composer.requests`."""
        answer = await self._leader.ask("requests", AskFleet(only=only), RequestsAnswer)
        return RequestsAnswer(requests=tuple(map(self._with_cluster, answer.requests)))

    async def compose_check(self, question: AskCompose) -> DeviceCheckAnswer:
        """See `Composer.compose_check`."""
        return await self._leader.ask("compose-check", question, DeviceCheckAnswer)

    async def detach_check(self, question: AskDetach) -> DeviceCheckAnswer:
        """See `Composer.detach_check`."""
        return await self._leader.ask("detach-check", question, DeviceCheckAnswer)

    def _with_cluster(self, request: RequestView) -> RequestView:
        resources = tuple(one.model_copy(update=self._of_cluster) for one in request.resources)
        return request.model_copy(update={**self._of_cluster, "resources": resources})


class NatsScaler:
    """The scaler of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="scaler")
        self._of_cluster = {"cluster": cluster}

    async def choices(self) -> ScaleAnswer:
        """See `Scaler.choices`."""
        answer = await self._leader.ask("choices", AskFleet(), ScaleAnswer)
        return ScaleAnswer(choices=tuple(one.model_copy(update=self._of_cluster) for one in answer.choices))
