"""The composer's core: folds the cluster's log, decides which device goes where by which call, keeps its checkpoint."""

from collections.abc import Iterator

from muster.composer.core.attachments import Steps
from muster.composer.core.capacity import Capacity
from muster.composer.core.config import ComposerConfig
from muster.composer.core.decision import Decision
from muster.composer.core.fabric_calls import FabricCalls
from muster.composer.core.fabrics import Fabrics, Look, Surveyed, SurveyWentWrong
from muster.composer.core.fold_devices import ATTACHMENT_HANDLERS, FABRIC_HANDLERS
from muster.composer.core.fold_nodes import NODE_HANDLERS
from muster.composer.core.fold_requests import REQUEST_HANDLERS
from muster.composer.core.orphans import Orphans
from muster.composer.core.plans import Planner
from muster.composer.core.records import Attachment, Fabric, Request
from muster.composer.core.requests import RequestSteps
from muster.composer.core.state import Handler, State
from muster.composer.core.surveys import Surveys
from muster.core import Draft, Fact, Instant
from muster.schemas.devices import RequestPhase
from muster.schemas.facts.composability import RequestState
from muster.schemas.facts.device import AttachmentState
from muster.schemas.facts.fabric import FabricState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.registry import STATE_NAME


def _state_recorded(state: State, fact: Fact) -> None:
    state.attachments.kinds_on.clear()
    match fact.payload:
        case AttachmentState():
            attachment = Attachment.restored(fact.payload, id=fact.subject_id)
            state.fabrics.ensure(attachment.fabric)
            state.attachments.add(attachment)
        case RequestState():
            _load_request(state, fact.subject_id, fact.payload)
        case FabricState():
            _load_fabric(state, fact.subject_id, fact.payload)
        case NodeState(description=description):
            state.hosts.nodes.apply(fact)
            state.hosts.machines.take(description.machine, fact.subject_id)
        case GrantState():
            state.hosts.grants.load(fact.kind, fact.subject_id, fact.payload)
        case JobState() as job:
            if not job.phase.is_terminal:
                state.hosts.host_resources.describe(fact.subject_id, job.job.spec)
            state.hosts.holds.apply(fact)
        case _:
            return  # another service's view of its own subjects


def _load_request(state: State, name: str, stored: RequestState) -> None:
    request = Request.restored(stored, name=name, attachments=state.requests.ensure(name).attachments)
    state.requests.put(request)
    if request.phase in (RequestPhase.REFUSED, RequestPhase.ENDED):
        state.requests.end(request, request.phase, request.since)
    state.worklist.look_request(name)


def _load_fabric(state: State, name: str, stored: FabricState) -> None:
    state.fabrics.put(Fabric.restored(stored, name=name))
    state.hosts.machines.load(name, stored.machines)


def state_drafts(state: State) -> Iterator[Draft]:
    """The composer's part of a checkpoint. Requests come in the order in which they ended."""
    for request in sorted(state.requests.values(), key=lambda request: request.since):
        if request.spec is not None or request.wishes or request.error:
            yield Draft("composability", request.name, STATE_NAME, request.as_body(RequestState), trace=request.trace)
    for attachment in state.attachments.values():
        body = attachment.as_body(AttachmentState)
        yield Draft("attachment", attachment.id, STATE_NAME, body, trace=attachment.trace)
    for fabric in state.fabrics.values():
        yield Draft("fabric", fabric.name, STATE_NAME, _fabric_state(state, fabric))


def _fabric_state(state: State, fabric: Fabric) -> FabricState:
    body = fabric.as_body(FabricState)
    body.pool = dict(sorted(body.pool.items()))
    body.machines = tuple(state.hosts.machines.stored(fabric.name))
    return body


STATE_HANDLERS: dict[tuple[str, str], Handler] = {
    (kind, "state-recorded"): _state_recorded
    for kind in ("attachment", "composability", "fabric", "node", "device", "job")
}


class ComposerCore:
    """Implements `ObservingCore[Look]`: the only writer of requests, attachments and fabrics of one cluster.

    state: as folded, for reading. surveys: what this instance saw of fabrics; another instance looks anew.
    """

    def __init__(self, fabrics: Fabrics, config: ComposerConfig) -> None:
        state = self.state = State(fabrics, config)
        attachments, requests, records, worklist = state.attachments, state.requests, state.fabrics, state.worklist
        surveys = self.surveys = Surveys(config, attachments, records, worklist=worklist)
        calls = self._calls = FabricCalls(
            config=config, attachments=attachments, fabrics=records, calls=fabrics, worklist=worklist, surveys=surveys
        )
        self._orphans = Orphans(
            config=config, attachments=attachments, fabrics=records, surveys=surveys, fabric_calls=calls
        )
        self._steps = Steps(
            bounds=config.bounds,
            attachments=attachments,
            requests=requests,
            worklist=worklist,
            surveys=surveys,
            fabric_calls=calls,
        )
        self.capacity = Capacity(config, attachments, records)
        self.planner = Planner(capacity=self.capacity, attachments=attachments, requests=requests, fabrics=records)
        self.requests = RequestSteps(
            bounds=config.bounds,
            requests=requests,
            attachments=attachments,
            fabrics=records,
            planner=self.planner,
            worklist=worklist,
        )
        self._now = Instant(0)
        self._has_more = False

    def apply(self, fact: Fact) -> None:
        """See `Core`; what fits no state is counted in `state.anomalies`."""
        handler = _HANDLERS.get((fact.kind, fact.name))
        if handler is not None:
            handler(self.state, fact)

    def decide(self, now: Instant) -> list[Draft]:
        """See `Core`. About DRAFTS_MAX drafts at most: what is left over follows at once."""
        state, decision = self.state, Decision(now)
        self._now = now
        state.worklist.advance(now)
        for seen in state.calls.observe(now):
            if isinstance(seen, Surveyed | SurveyWentWrong):
                self.observe(seen, now)
            else:
                self._calls.settle(seen, decision)
        self._orphans.settle(decision)
        self._steps.make(decision)
        self.requests.make(decision)
        self._calls.breakers(decision)
        self._calls.dispatch(decision)
        self.surveys.ask(state.calls, now)
        self._has_more = decision.is_full
        return decision.drafts

    def observe(self, observation: Look, now: Instant) -> bool:  # noqa: ARG002 - a look says when it began
        """See `ObservingCore`: a fabric was looked at, or could not be. Late ones are left out."""
        return self.surveys.take(observation)

    def next_wakeup(self) -> Instant | None:
        """See `Core`."""
        if self._has_more:
            return self._now
        moments = [self.state.worklist.next_at(), self.state.calls.next_change(), self._orphans.next_due()]
        moments += [fabric.retry_at for fabric in self.state.fabrics.values() if fabric.retry_at > self._now]
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """See `Core`. Nodes come with the agent's part, grants and what jobs hold with the scheduler's."""
        yield from state_drafts(self.state)


_HANDLERS: dict[tuple[str, str], Handler] = {
    **ATTACHMENT_HANDLERS,
    **FABRIC_HANDLERS,
    **NODE_HANDLERS,
    **REQUEST_HANDLERS,
    **STATE_HANDLERS,
}
