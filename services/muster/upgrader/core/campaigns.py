"""Decide on campaigns: requests are answered; a campaign stops itself after failures, and ends when all is done."""

from collections import Counter
from collections.abc import Iterator

from muster.core import Draft, Instant, seconds_between
from muster.schemas.facts.upgrade import (
    FAILED_TOLD_MAX,
    CampaignAccepted,
    CampaignAsk,
    CampaignChanged,
    CampaignEnded,
    CampaignRefused,
    CampaignSpec,
    CampaignStopped,
    PendingCampaignChange,
    Step,
)
from muster.upgrader.core.state import Campaign, State

_DONE = {CampaignAsk.PAUSE: "paused", CampaignAsk.RESUME: "resumed", CampaignAsk.ABORT: "aborted"}


def answer_requests(state: State) -> Iterator[Draft]:
    """Return the answer to the oldest request of each campaign; the next follows after its fold."""
    answered, started = set[str](), 0
    for request in state.wishes.values():
        if request.name in answered:
            continue
        answered.add(request.name)
        refused = refusal(state, request, started=started)
        if refused is not None:
            said = CampaignRefused(ask=request.ask, field=refused[0], reason=refused[1], principal=request.principal)
            yield Draft("campaign", request.name, "refused", said, (request.fact,), request.trace)
        elif request.spec is not None:
            started += 1
            yield _acceptance(state, request, request.spec)
        else:
            change = CampaignChanged(principal=request.principal, reason=request.reason)
            yield Draft("campaign", request.name, _DONE[request.ask], change, (request.fact,), request.trace)


def refusal(state: State, request: PendingCampaignChange, *, started: int = 0) -> tuple[str, str] | None:
    """Return (field, reason) of an impossible request; None if it is possible, besides the campaigns in `started`."""
    campaign = state.campaigns.get(request.name)
    live = campaign is not None and campaign.ended is None
    if request.spec is not None:
        return _start_refusal(state, request.spec, live=live, started=started)
    if campaign is None or not live:
        return "", f"no campaign {request.name} goes on"
    return _change_refusal(state, campaign, request.ask)


def _start_refusal(state: State, spec: CampaignSpec, *, live: bool, started: int) -> tuple[str, str] | None:
    if live:
        return "name", f"campaign {spec.name} goes on: give this one another name, or abort that one first"
    if len(state.live) + started >= state.config.campaigns_max:
        return "", f"{state.config.campaigns_max} campaigns go on already (upgrades.campaigns_max): wait, or abort one"
    if spec.suite not in state.config.suites:
        return "suite", f"there is no suite {spec.suite}; there are {', '.join(sorted(state.config.suites))}"
    if not selected(state, spec):
        return "select", "no node fits: `muster nodes` shows names, groups and models"
    missing = next((name for name in spec.select.nodes if name not in state.nodes), "")
    if missing:
        return "select.nodes", f"there is no node {missing}"
    return None


def selected(state: State, spec: CampaignSpec) -> list[str]:
    """Return the nodes that a campaign would have, by name."""
    thought = Campaign(name=spec.name, spec=spec)
    return sorted(name for name, node in state.nodes.items() if thought.selects(name, node.description))


def _change_refusal(state: State, campaign: Campaign, ask: CampaignAsk) -> tuple[str, str] | None:
    if campaign.aborted:
        return "", f"campaign {campaign.name} was aborted: what is under way ends, nothing else is done"
    if ask is CampaignAsk.PAUSE and campaign.paused:
        return "", f"campaign {campaign.name} is paused already"
    if ask is CampaignAsk.RESUME:
        failed = any(turn.step is Step.FAILED for turn in campaign.turns.values())
        if not (campaign.paused or campaign.stopped or failed):
            return "", f"campaign {campaign.name} goes on"
        if state.braked:
            return "", f"health's brake is on ({state.braked}): reset it first"
    return None


def _acceptance(state: State, request: PendingCampaignChange, spec: CampaignSpec) -> Draft:
    names = selected(state, spec)
    thought = Campaign(name=spec.name, spec=spec)
    there = sum(thought.is_at_version(state.nodes[name].description) for name in names)
    said = CampaignAccepted(spec=spec, principal=request.principal, nodes=len(names), at_version=there)
    return Draft("campaign", request.name, "accepted", said, (request.fact,), request.trace)


SECONDS_PER_HOUR = 3600.0


def course(state: State, campaign: Campaign, now: Instant) -> list[Draft]:
    """Return `ended` once all is done, or `stopped` once the campaign must not continue by itself."""
    if _is_over(campaign):
        return [_draft(campaign, "ended", summary(campaign, now))]
    if not campaign.goes_on:
        return []
    failures = campaign.failures - campaign.failures_forgiven
    if failures >= campaign.spec.failures_max:
        count = f"{failures} nodes" if failures > 1 else "1 node"
        reason = f"{count} failed, of {campaign.spec.failures_max} that may"
        return [_draft(campaign, "stopped", CampaignStopped(reason=reason, failed=failed_nodes(campaign)))]
    if state.braked:
        return [_draft(campaign, "stopped", CampaignStopped(reason=f"health's brake is on: {state.braked}"[:1024]))]
    return []


def summary(campaign: Campaign, now: Instant) -> CampaignEnded:
    """Return the result of the campaign at this time."""
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
    """Return the nodes that stay drained because their upgrade failed."""
    failed = (name for name, turn in campaign.turns.items() if turn.step is Step.FAILED and turn.request_id)
    return tuple(sorted(failed)[:FAILED_TOLD_MAX])


def _is_over(campaign: Campaign) -> bool:
    if campaign.open:
        return False
    waits = [turn for turn in campaign.turns.values() if turn.step is Step.PLANNED]
    return not waits or (bool(campaign.aborted) and not any(turn.request_id for turn in waits))


def _draft(campaign: Campaign, name: str, payload: CampaignEnded | CampaignStopped) -> Draft:
    return Draft("campaign", campaign.name, name, payload, (campaign.last_fact,), campaign.trace)
