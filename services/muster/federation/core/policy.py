"""Changes of the routing policy while the federation runs; a change applies to jobs without a cluster."""

from collections.abc import Iterator

from muster.core import Draft, Fact
from muster.core.folding import Folds
from muster.federation.core.state import State
from muster.federation.core.turns import enlist
from muster.schemas.facts.federation import (
    PendingRoutingChange,
    RoutingChanged,
    RoutingChangeRefused,
    RoutingChangeRequested,
    RoutingState,
)
from muster.schemas.registry import STATE_NAME

FOLDS = Folds[State, None]()


SUBJECT = "policy"


def drafts(state: State) -> Iterator[Draft]:
    """Return `changed` or `change-refused` for the oldest request; the next one is checked against the result."""
    request = next(iter(state.routing_requests.values()), None)
    if request is None:
        return
    asked = request.asked
    field, reason = refusal(state, asked)
    if reason:
        refused = RoutingChangeRefused(field=field, reason=reason, principal=asked.principal)
        yield Draft("routing", SUBJECT, "change-refused", refused, (request.fact,), request.trace)
        return
    changed = RoutingChanged(policy=asked.policy, version=state.policy_version + 1, principal=asked.principal)
    yield Draft("routing", SUBJECT, "changed", changed, (request.fact,), request.trace)


def refusal(state: State, asked: RoutingChangeRequested) -> tuple[str, str]:
    """Return the wrong field, and why; empty if the policy is accepted."""
    if asked.based_on and asked.based_on != state.policy_version:
        return (
            "based_on",
            f"version {state.policy_version} applies, not {asked.based_on}: get the current policy and change that one",
        )
    strange = [name for name in asked.policy.clusters if name not in state.members]
    if strange:
        return "rules", f"there is no cluster {strange[0]}; the clusters are {', '.join(state.members)}"
    return "", ""


def snapshot(state: State) -> Iterator[Draft]:
    """Return the changed policy and the requests without an answer."""
    requests = tuple(state.routing_requests.values())
    if state.policy_version or requests:
        policy = state.policy if state.policy_version else None
        stored = RoutingState(policy=policy, version=state.policy_version, principal=state.policy_by, wishes=requests)
        yield Draft("routing", SUBJECT, STATE_NAME, stored)


@FOLDS.on("routing", STATE_NAME, RoutingState)
def _restore(state: State, _fact: Fact, stored: RoutingState) -> None:
    """Restore the policy from a checkpoint."""
    state.routing_requests.update({request.fact: request for request in stored.wishes})
    if stored.policy is not None:
        state.policy, state.policy_version, state.policy_by = stored.policy, stored.version, stored.principal
        _sort_again(state)


def _sort_again(state: State) -> None:
    """Move waiting jobs to the queues of the new rules."""
    for job_id in tuple(state.pending.jobs()):
        enlist(state, state.jobs[job_id])
    state.pending.mark_dirty()


@FOLDS.on("routing", "change-requested", RoutingChangeRequested)
def _requested(state: State, fact: Fact, asked: RoutingChangeRequested) -> None:
    state.routing_requests[fact.id] = PendingRoutingChange(fact=fact.id, asked=asked, trace=fact.trace)


@FOLDS.on("routing", "changed", RoutingChanged)
def _changed(state: State, fact: Fact, changed: RoutingChanged) -> None:
    _answered(state, fact)
    state.policy, state.policy_version, state.policy_by = changed.policy, changed.version, changed.principal
    _sort_again(state)


@FOLDS.on("routing", "change-refused", RoutingChangeRefused)
def _refused(state: State, fact: Fact, _: RoutingChangeRefused) -> None:
    _answered(state, fact)


def _answered(state: State, fact: Fact) -> None:
    for cause in fact.causes:
        state.routing_requests.pop(cause, None)
