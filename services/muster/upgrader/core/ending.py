"""When a campaign stops by itself, and when it is over."""

from collections import Counter

from muster.core import Draft, Instant, seconds_between
from muster.schemas.facts.upgrade import FAILED_TOLD_MAX, CampaignEnded, CampaignStopped, Step
from muster.upgrader.core.campaigns import Campaign
from muster.upgrader.core.state import State

SECONDS_PER_HOUR = 3600.0


def course(state: State, campaign: Campaign, now: Instant) -> list[Draft]:
    """`ended` once nothing is left to do, else `stopped` once it must not go on by itself."""
    if _is_over(campaign):
        return [_said(campaign, "ended", summary(campaign, now))]
    if not campaign.goes_on:
        return []
    failures = campaign.failures - campaign.failures_forgiven
    if failures >= campaign.spec.failures_max:
        count = f"{failures} nodes" if failures > 1 else "1 node"
        reason = f"{count} failed, of {campaign.spec.failures_max} that may"
        return [_said(campaign, "stopped", CampaignStopped(reason=reason, failed=failed_nodes(campaign)))]
    if state.braked:
        return [_said(campaign, "stopped", CampaignStopped(reason=f"health's brake is on: {state.braked}"[:1024]))]
    return []


def summary(campaign: Campaign, now: Instant) -> CampaignEnded:
    """How it stands at this moment, as its end would say."""
    tally = Counter(turn.step for turn in campaign.turns.values())
    lost_gpu_s = sum(turn.lost_gpu_s for turn in campaign.turns.values())
    ended = tally[Step.DONE] + tally[Step.FAILED] + tally[Step.ROLLED_BACK]
    return CampaignEnded(
        aborted=bool(campaign.aborted),
        done=tally[Step.DONE],
        failed=tally[Step.FAILED],
        rolled_back=tally[Step.ROLLED_BACK],
        left_out=len(campaign.turns) - ended,
        took_s=seconds_between(campaign.accepted_at, now),
        gpu_hours_lost=round(lost_gpu_s / SECONDS_PER_HOUR, 3),
        failed_nodes=failed_nodes(campaign),
        reason=campaign.aborted,
    )


def failed_nodes(campaign: Campaign) -> tuple[str, ...]:
    """Nodes that are withheld because their upgrade failed."""
    failed = (name for name, turn in campaign.turns.items() if turn.step is Step.FAILED and turn.request_id)
    return tuple(sorted(failed)[:FAILED_TOLD_MAX])


def _is_over(campaign: Campaign) -> bool:
    if campaign.open:
        return False
    waits = [turn for turn in campaign.turns.values() if turn.step is Step.PLANNED]
    return not waits or (bool(campaign.aborted) and not any(turn.request_id for turn in waits))


def _said(campaign: Campaign, name: str, payload: CampaignEnded | CampaignStopped) -> Draft:
    return Draft("campaign", campaign.name, name, payload, (campaign.last_fact,), campaign.trace)
