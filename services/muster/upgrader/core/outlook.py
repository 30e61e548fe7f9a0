"""A campaign's view of its nodes: which are out of use, which may be taken, and when each comes free of jobs."""

from muster.core import Instant, after
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.upgrade import Step
from muster.upgrader.core import limits
from muster.upgrader.core.planning import Busy, Candidate, Room
from muster.upgrader.core.state import Campaign, State, Turn, domain


def nodes_of(share: str, selected: int) -> int:
    """Return how many nodes may be out of use: a number, or a part of `selected` like "5%", at least one."""
    if share.endswith("%"):
        return max(1, selected * int(share[:-1]) // 100)
    return int(share)


def room_of(campaign: Campaign) -> Room:
    """Return its limits, in nodes."""
    spec, selected = campaign.spec, len(campaign.turns)
    return Room(
        total=nodes_of(spec.max_unavailable, selected),
        parallel=spec.parallel,
        per_rack=nodes_of(spec.per_rack, selected) if spec.per_rack else 0,
        per_group=nodes_of(spec.per_group, selected) if spec.per_group else 0,
    )


def is_out(state: State, node: str, now: int) -> bool:
    """Return whether no new job can start there, for any reason."""
    return bool(state.is_lost(node) or state.cordon(node) or state.taken_by_others(node, now)) or any(
        turn.is_open or turn.is_withheld or (turn.step is Step.FAILED and turn.request_id)
        for turn in state.turns_on(node)
    )


def hindrance(state: State, campaign: Campaign, node: str, now: int) -> str:
    """Return why the node cannot be taken now, whatever the limits; "" if it can."""
    if node not in state.nodes:
        return "it is not part of the cluster"
    if state.is_lost(node):
        return "it does not answer"
    other = state.taken_by_others(node, now)
    if other:
        return f"{other} keeps it from jobs"
    for turn in state.turns_on(node):
        if turn.campaign != campaign.name and turn.is_open:
            return f"campaign {turn.campaign} has it"
    return ""


def free_at(state: State, campaign: Campaign, node: str, now: Instant) -> tuple[Instant, str]:
    """Return when the node comes free of jobs at the latest, and the job that it waits for ("": none)."""
    moving = campaign.spec.running is RunningJobs.MOVE
    ends = [(job.leaves_by(now, moving=moving), job.id) for job in state.jobs_on(node)]
    return max(ends, default=(now, ""))


def busy_of(state: State, campaign: Campaign, now: Instant) -> list[Busy]:
    """Return the nodes of a campaign that are out of use; those that can be taken stay so until they are."""
    found, level = list[Busy](), state.config.rack_level
    for name, turn in campaign.turns.items():
        if not is_out(state, name, now):
            continue
        until, described = _until(state, campaign, turn, now), state.nodes.description(name)
        group = described.group if described is not None else ""
        found.append(Busy(until, domain(described, level), group, turn.is_open))
    return found


def is_candidate(state: State, campaign: Campaign, turn: Turn, now: Instant) -> bool:
    """Return whether the node waits for its turn and can be taken."""
    return turn.step is Step.PLANNED and not hindrance(state, campaign, turn.node, now)


def candidates(state: State, campaign: Campaign, now: Instant) -> list[Candidate]:
    """Return the nodes of a campaign that wait for their turn and can be taken."""
    found, level = list[Candidate](), state.config.rack_level
    for name, turn in campaign.turns.items():
        if not is_candidate(state, campaign, turn, now):
            continue
        described = state.nodes[name].description
        moment, gang = free_at(state, campaign, name, now)
        out = state.cordon(name) is not None or turn.is_withheld
        rank = 0 if turn.request_id else 1  # who is kept already goes first of those that come free together
        found.append(Candidate(name, moment, gang, rank, domain(described, level), described.group, out))
    return found


def _until(state: State, campaign: Campaign, turn: Turn, now: Instant) -> int | None:
    """Return when a node that is out of use comes back, as far as known."""
    if not turn.is_open:
        return None
    began = turn.since
    if turn.step in (Step.CORDONED, Step.WAITING):
        began = free_at(state, campaign, turn.node, now)[0]
    return max(after(now, limits.MARGIN_S), after(Instant(began), campaign.spec.takes_s))
