"""Upgrade campaigns: a part of `Muster`."""

from collections.abc import Sequence
from urllib.parse import quote

from pydantic import BaseModel

from muster.client.bodies import done, own_key, sent
from muster.client.http import Door
from muster.schemas.campaigns import CampaignPreview, CampaignView
from muster.schemas.facts.upgrade import CampaignSpec

_WHERE = "/v1/campaigns"


class _Campaigns(BaseModel):
    campaigns: list[CampaignView]


class CampaignMethods:
    """Every method raises RefusedError or UnreachableError; NotFoundError if there is no such campaign.

    cluster: whose campaign; by default the first cluster's.
    """

    _door: Door

    async def campaigns(self, *, cluster: str = "") -> Sequence[CampaignView]:
        """Those that go on, then those that are over; without their nodes."""
        found = await self._door.ask("GET", _WHERE, params=_of(cluster))
        return _Campaigns.model_validate_json(found).campaigns

    async def campaign(self, name: str, *, cluster: str = "") -> CampaignView:
        """One of them with its nodes."""
        return CampaignView.model_validate_json(await self._door.ask("GET", _one(name), params=_of(cluster)))

    async def preview_campaign(self, spec: CampaignSpec, *, cluster: str = "") -> CampaignPreview:
        """What it would come to if it began now, beside two ways to drain by hand."""
        answer = await self._door.ask("POST", "/v1/campaign-previews", body=sent(spec), params=_of(cluster))
        return CampaignPreview.model_validate_json(answer)

    async def start_campaign(self, spec: CampaignSpec, *, cluster: str = "") -> CampaignView | None:
        """Start it (operators). None if after two seconds it is only asked for."""
        answer = await self._door.ask("POST", _WHERE, body=sent(spec), params=_of(cluster), headers=own_key())
        return done(CampaignView, answer)

    async def pause_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        """Take no further node (operators); what is being upgraded goes on to its end."""
        return await self._change(name, "pause", reason=reason, cluster=cluster)

    async def resume_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        """Go on after a pause or a stop (operators); nodes that failed are tried again."""
        return await self._change(name, "resume", reason=reason, cluster=cluster)

    async def abort_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        """End it before all nodes had their turn (operators)."""
        return await self._change(name, "abort", reason=reason, cluster=cluster)

    async def _change(self, name: str, ask: str, *, reason: str, cluster: str) -> CampaignView:
        params = {**_of(cluster), **({"reason": reason} if reason else {})}
        answer = await self._door.ask("POST", f"{_one(name)}/{ask}", params=params, headers=own_key())
        return CampaignView.model_validate_json(answer)


def _one(name: str) -> str:
    return f"{_WHERE}/{quote(name, safe='')}"


def _of(cluster: str) -> dict[str, str]:
    return {"cluster": cluster} if cluster else {}
