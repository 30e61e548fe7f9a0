"""Questions to the guard. It does not say which cluster it speaks of: who asks knows."""

from nats.aio.client import Client

from muster.gateway.asking import Leader
from muster.schemas.apiserver import ApiServerReport, AskReport


class NatsGuard:
    """The guard of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="guard")
        self._of_cluster = {"cluster": cluster}

    async def report(self) -> ApiServerReport:
        """See `Guard.report`."""
        answer = await self._leader.ask("report", AskReport(), ApiServerReport)
        return answer.model_copy(update=self._of_cluster)
