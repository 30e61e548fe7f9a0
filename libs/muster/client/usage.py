"""What GPUs do for jobs and teams: a part of `Muster`."""

from muster.client.http import Door
from muster.schemas.usage import Energy, Idle, JobUse, Top
from muster.schemas.usage_words import EnergyBy, TopBy, TopOrder


class UsageMethods:
    """Every method raises RefusedError or UnreachableError. cluster: "" is the first one."""

    _door: Door

    async def stats(self, job_id: str) -> JobUse:
        """What a job did with its GPUs; NotFoundError if there is no such job."""
        return JobUse.model_validate_json(await self._door.ask("GET", f"/v1/jobs/{job_id}/stats"))

    async def top(
        self,
        *,
        by: TopBy = TopBy.JOB,
        order: TopOrder = TopOrder.GPUS,
        team: str = "",
        limit: int = 20,
        cluster: str = "",
    ) -> Top:
        """Who uses GPUs just now, and how the nodes' exporters are."""
        params = {"by": by.value, "order": order.value, "limit": str(limit), **_said(team=team, cluster=cluster)}
        return Top.model_validate_json(await self._door.ask("GET", "/v1/usage/top", params=params))

    async def idle(self, *, team: str = "", limit: int = 20, cluster: str = "") -> Idle:
        """GPUs that are held and do nothing, by team."""
        params = {"limit": str(limit), **_said(team=team, cluster=cluster)}
        return Idle.model_validate_json(await self._door.ask("GET", "/v1/usage/idle", params=params))

    async def energy(
        self, *, by: EnergyBy = EnergyBy.TEAM, days: int = 30, team: str = "", limit: int = 100, cluster: str = ""
    ) -> Energy:
        """What teams or queues used over the last days."""
        params = {"by": by.value, "days": str(days), "limit": str(limit), **_said(team=team, cluster=cluster)}
        return Energy.model_validate_json(await self._door.ask("GET", "/v1/usage/energy", params=params))


def _said(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}
