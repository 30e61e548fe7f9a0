"""The clusters of a federation and where jobs go: a part of `Muster`."""

from collections.abc import Sequence
from urllib.parse import quote

from muster.client.bodies import own_key, sent
from muster.client.http import Door
from muster.schemas.members import AssignmentView, FederationView, MemberView, RoutesView
from muster.schemas.routing import RoutingPolicy


class MemberMethods:
    """Every method raises RefusedError or UnreachableError; NotFoundError if there is no such cluster or job."""

    _door: Door

    async def federation(self) -> FederationView:
        """The clusters as the federation has them, and what waits for one, with the reasons."""
        return FederationView.model_validate_json(await self._door.ask("GET", "/v1/federation"))

    async def drain_cluster(self, cluster: str, *, to: Sequence[str] = (), reason: str = "") -> MemberView:
        """Give it no new jobs and move those that have not started (operators); what runs there finishes there.

        to: clusters that take its jobs, in order; none: as the rules say.
        """
        return await self._ask(cluster, "drain", to=",".join(to), reason=reason)

    async def resume_cluster(self, cluster: str, *, reason: str = "") -> MemberView:
        """Give it jobs again (operators)."""
        return await self._ask(cluster, "resume", reason=reason)

    async def routes(self) -> RoutesView:
        """Where jobs go: the policy that stands."""
        return RoutesView.model_validate_json(await self._door.ask("GET", "/v1/routes"))

    async def set_routes(self, policy: RoutingPolicy, *, based_on: int = 0) -> RoutesView | None:
        """Have jobs that have no cluster yet go by this policy (operators). None if it is only asked for so far.

        based_on: version that it was made of; if another one stands by now it is refused.
        """
        params = {"based_on": str(based_on)} if based_on else {}
        answer = await self._door.ask("PUT", "/v1/routes", params=params, body=sent(policy), headers=own_key())
        return RoutesView.model_validate_json(answer) if b'"policy"' in answer else None

    async def assignment(self, job_id: str) -> AssignmentView:
        """Which cluster has the job, by which rule; or why none has."""
        return AssignmentView.model_validate_json(await self._door.ask("GET", f"{_job(job_id)}/assignment"))

    async def reroute(self, job_id: str, *, to: str = "", reason: str = "") -> AssignmentView:
        """Have a job that has not started go to another cluster. Where it is now."""
        params = _said(to=to, reason=reason)
        answer = await self._door.ask("POST", f"{_job(job_id)}/reroute", params=params, headers=own_key())
        return AssignmentView.model_validate_json(answer)

    async def _ask(self, cluster: str, ask: str, **options: str) -> MemberView:
        where = f"/v1/clusters/{quote(cluster, safe='')}/{ask}"
        answer = await self._door.ask("POST", where, params=_said(**options), headers=own_key())
        return MemberView.model_validate_json(answer)


def _said(**options: str) -> dict[str, str]:
    return {name: value for name, value in options.items() if value}


def _job(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"
