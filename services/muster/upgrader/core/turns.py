"""Schedule turns: nodes are requested ahead of time, so that no job starts there that would end later."""

from collections.abc import Iterator, Sequence

from muster.core import NS_PER_S, Draft, Instant, after
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.upgrade import DAY_MIN, Step, Window
from muster.upgrader.core import limits
from muster.upgrader.core.outlook import busy_of, candidates, is_out, room_of
from muster.upgrader.core.planning import plan
from muster.upgrader.core.state import Campaign, State, Turn
from muster.upgrader.core.steps import ask, give_back, take

_MINUTE_NS = 60 * NS_PER_S
_WEEK_MIN = 7 * DAY_MIN
_EPOCH_WEEKDAY = 3
"""1 January 1970 was a Thursday; Monday is 0."""


def open_at(windows: Sequence[Window], moment: Instant) -> Instant:
    """Return the first time from `moment` on at which a node may be taken."""
    if not windows:
        return moment
    week_start, into = _week(moment)
    best: int | None = None
    for window in windows:
        length = (window.to_min - window.from_min) % DAY_MIN or DAY_MIN
        for day in window.days or range(7):
            opens = (day * DAY_MIN + window.from_min) * _MINUTE_NS
            for start in (opens - _WEEK_MIN * _MINUTE_NS, opens, opens + _WEEK_MIN * _MINUTE_NS):
                if into < start + length * _MINUTE_NS:
                    found = max(start, into)
                    best = found if best is None else min(best, found)
                    break
    assert best is not None, "a window opens every week"
    return Instant(week_start + best)


def _week(moment: Instant) -> tuple[int, int]:
    """Return the Monday, 00:00, before a time, and the nanoseconds since."""
    since_monday = moment + _EPOCH_WEEKDAY * DAY_MIN * _MINUTE_NS
    into = since_monday % (_WEEK_MIN * _MINUTE_NS)
    return moment - into, into


NOT_YET = "its turn comes too late to keep it until then"
CLOSED = "it cannot be taken now"


def planned(state: State, campaign: Campaign, now: Instant) -> dict[str, Instant]:
    """Return when each waiting node has its turn, earliest first; none while the campaign is stopped."""
    spec = campaign.spec
    if not campaign.goes_on or state.braked:
        return {}
    turns = plan(
        candidates(state, campaign, now),
        busy_of(state, campaign, now),
        room_of(campaign),
        now=now,
        takes_ns=round(spec.takes_s * NS_PER_S),
        opens=lambda moment: open_at(spec.windows, Instant(max(moment, spec.starts_at))),
    )
    return dict(sorted(turns.items(), key=lambda turn: (turn[1], turn[0])))


def changes(
    state: State, campaign: Campaign, starts: dict[str, Instant], now: Instant, *, taken: set[str]
) -> Iterator[Draft]:
    """Turns that come now, and what is asked for ahead of others, anew or no more. starts: as planned.

    taken: nodes that other campaigns take in the same breath; those that this one takes are added.
    """
    waits = [turn for turn in campaign.turns.values() if turn.step is Step.PLANNED]
    if not campaign.goes_on or state.braked:
        for turn in waits:
            if turn.request_id:
                yield from give_back(campaign, turn, _why_not(state, campaign))
        return
    kept = _kept(state, campaign, starts, now)
    for name, start in starts.items():
        turn = campaign.turns[name]
        if start <= now:
            if name in taken:
                continue
            taken.add(name)
            yield from take(state, campaign, turn, now)
        elif name in kept:
            if _is_to_be_said(turn, moment := after(start, limits.MARGIN_S)):
                yield ask(campaign, turn, from_at=moment, running=RunningJobs.FINISH)
        elif turn.request_id:
            yield from give_back(campaign, turn, NOT_YET)
    for turn in waits:
        if turn.request_id and turn.node not in starts:
            yield from give_back(campaign, turn, CLOSED)


def _kept(state: State, campaign: Campaign, starts: dict[str, Instant], now: Instant) -> set[str]:
    """Nodes that are kept for a turn to come.

    To keep a node that is full costs nothing. Another one loses room for jobs, so it is kept only for a while before
    its turn; but as many as may be out of use at a time are kept however long it takes: else, where jobs come and go,
    no node would ever come free.
    """
    spare = room_of(campaign).total - sum(is_out(state, name, now) for name in campaign.turns)
    kept, latest = set[str](), after(now, state.config.patience_s)
    for name, start in starts.items():
        is_full = state.is_full(name)
        if is_full or start <= latest or spare > 0:
            kept.add(name)
        spare -= not is_full
    return kept


def _is_to_be_said(turn: Turn, moment: Instant) -> bool:
    """Return whether the time differs enough from the requested one to be announced."""
    if not turn.request_id:
        return True
    return not turn.is_withheld and abs(moment - turn.from_at) > limits.RESAY_S * NS_PER_S


def _why_not(state: State, campaign: Campaign) -> str:
    because = campaign.aborted or campaign.stopped or campaign.paused or state.braked
    return f"campaign {campaign.name} does not go on: {because}"[:1024]
