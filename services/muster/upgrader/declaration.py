"""Declares what the upgrader reads and writes. Imports little, because a stack loads it before anything starts."""

from muster.bus.declaration import Declaration, QueryType
from muster.schemas import campaigns
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="upgrader",
    folds=(StreamRole.LOG,),
    queries=(
        QueryType("campaigns", campaigns.AskCampaigns, campaigns.CampaignsAnswer),
        QueryType("campaign-check", campaigns.AskCampaignCheck, campaigns.CampaignCheckAnswer),
        QueryType("preview", campaigns.AskPreview, campaigns.CampaignPreview),
    ),
    withholds=True,
)
