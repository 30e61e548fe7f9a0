"""Where clusters stand: drained and resumed by people, drained for good once nothing is left there."""

from collections.abc import Callable, Iterator

from muster.core import Draft, Fact
from muster.federation.core.contact import strand
from muster.federation.core.members import Member
from muster.federation.core.moves import leave_if_drained
from muster.federation.core.state import State
from muster.schemas.facts.federation import (
    ClusterDrainRequested,
    ClusterMoved,
    ClusterPhase,
    ClusterResumeRequested,
    ClusterWish,
    MemberState,
)
from muster.schemas.registry import STATE_NAME


def drafts(state: State) -> Iterator[Draft]:
    """The answer to the oldest wish for every cluster, and `drained` of those that nothing is left on."""
    for strange in state.strange_wishes.values():
        refused = ClusterMoved(principal=_principal(strange), reason=_no_cluster(state, strange.cluster))
        name = "drain-refused" if strange.drain is not None else "resume-refused"
        yield Draft("cluster", strange.cluster, name, refused, (strange.fact,), strange.trace)
    for member in state.members.values():
        wish = next(iter(member.wishes), None)
        if wish is not None:
            yield _answer(state, member, wish)
        elif member.phase is ClusterPhase.DRAINING and not member.jobs:
            drained = ClusterMoved(to=member.drain.to if member.drain is not None else ())
            yield Draft("cluster", member.name, "drained", drained, (member.fact,))


def _principal(wish: ClusterWish) -> str:
    asked = wish.drain or wish.resume
    return asked.principal if asked is not None else ""


def _no_cluster(state: State, name: str) -> str:
    return f"there is no cluster {name}; there are {', '.join(state.members)}"


def _answer(state: State, member: Member, wish: ClusterWish) -> Draft:
    causes = (wish.fact,)
    if wish.drain is not None:
        asked = wish.drain
        reason = _refusal(state, member, asked)
        name, words = ("drain-refused", reason) if reason else ("draining", asked.reason)
        moved = ClusterMoved(principal=asked.principal, reason=words, to=asked.to, jobs=len(member.jobs))
        return Draft("cluster", member.name, name, moved, causes, wish.trace)
    assert wish.resume is not None, f"{wish.fact}: a wish for a cluster is a drain or a resume"
    name, words = "resumed", wish.resume.reason
    if member.drain is None:
        name, words = "resume-refused", f"it is {member.phase.value}, and nobody drains it"
    moved = ClusterMoved(principal=wish.resume.principal, reason=words, jobs=len(member.jobs))
    return Draft("cluster", member.name, name, moved, causes, wish.trace)


def _refusal(state: State, member: Member, asked: ClusterDrainRequested) -> str:
    """Why it cannot be drained so; "" if it can."""
    for name in asked.to:
        if name == member.name:
            return f"to: {name} is the cluster itself; name others, or none"
        if name not in state.members:
            return f"to: {_no_cluster(state, name)}"
    return ""


def snapshot(state: State) -> Iterator[Draft]:
    """Clusters of which more is known than the settings say, and wishes for those that are none."""
    for member in state.members.values():
        if not member.is_at_home:
            yield Draft("member", member.name, STATE_NAME, member.as_body(MemberState))
    strange: dict[str, list[ClusterWish]] = {}
    for wish in state.strange_wishes.values():
        strange.setdefault(wish.cluster, []).append(wish)
    for name, asked in strange.items():
        yield Draft("member", name, STATE_NAME, MemberState(wishes=tuple(asked)))


def restore(state: State, name: str, stored: MemberState) -> None:
    """What a checkpoint says of a cluster. One that is no member any more says nothing."""
    member = state.members.get(name)
    if member is None:
        state.strange_wishes.update({wish.fact: wish for wish in stored.wishes})
        return
    restored = Member.restored(stored, name=name, lost_after_s=member.lost_after_s)
    state.members[name] = restored
    if restored.phase is ClusterPhase.LOST:
        strand(state, restored)


def _requested(state: State, fact: Fact) -> None:
    wish = ClusterWish(fact=fact.id, cluster=fact.subject_id, trace=fact.trace)
    match fact.payload:
        case ClusterDrainRequested() as asked:
            wish = wish.model_copy(update={"drain": asked})
        case ClusterResumeRequested() as asked:
            wish = wish.model_copy(update={"resume": asked})
        case _:
            raise AssertionError(f"{fact.id}: {fact.name} of a cluster asks for nothing known")
    member = state.members.get(fact.subject_id)
    if member is None:
        state.strange_wishes[fact.id] = wish
    else:
        member.wishes = (*member.wishes, wish)


def _answered(state: State, fact: Fact) -> Member | None:
    """The member that this fact is about, without the wish that it answers."""
    member = state.members.get(fact.subject_id)
    for cause in fact.causes:
        state.strange_wishes.pop(cause, None)
    if member is not None and member.wishes:
        member.wishes = tuple(wish for wish in member.wishes if wish.fact not in fact.causes)
    return member


def _draining(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ClusterMoved)
    member, moved = _answered(state, fact), fact.payload
    if member is None:
        state.anomalies["draining out of turn"] += 1
        return
    member.drain = ClusterDrainRequested(principal=moved.principal, reason=moved.reason, to=moved.to)
    if member.phase is not ClusterPhase.LOST:
        member.move(ClusterPhase.DRAINING, at=fact.time, fact=fact.id)
    for job_id in member.jobs:
        leave_if_drained(state, state.jobs[job_id], fact)
    state.lanes.stir()


def _drained(state: State, fact: Fact) -> None:
    member = state.members.get(fact.subject_id)
    if member is None or member.phase is not ClusterPhase.DRAINING:
        state.anomalies["drained out of turn"] += 1
        return
    member.move(ClusterPhase.DRAINED, at=fact.time, fact=fact.id)


def _resumed(state: State, fact: Fact) -> None:
    """Jobs that were not asked back yet stay."""
    member = _answered(state, fact)
    if member is None or member.drain is None:
        state.anomalies["resumed out of turn"] += 1
        return
    member.drain, member.renewals = None, ()  # whether it hears is seen from here on
    if member.phase is not ClusterPhase.LOST:
        member.move(ClusterPhase.ACTIVE, at=fact.time, fact=fact.id)
    for job_id in member.jobs:
        record = state.jobs[job_id]
        if record.reroute is not None and not record.reroute.forwarded and not record.reroute.principal:
            record.reroute = None
    state.lanes.stir()


def _refused(state: State, fact: Fact) -> None:
    _answered(state, fact)


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("cluster", "drain-requested"): _requested,
    ("cluster", "resume-requested"): _requested,
    ("cluster", "draining"): _draining,
    ("cluster", "drain-refused"): _refused,
    ("cluster", "drained"): _drained,
    ("cluster", "resumed"): _resumed,
    ("cluster", "resume-refused"): _refused,
}
