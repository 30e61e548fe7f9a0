"""The composer's core: fold the log, decide which device goes where by which call, keep the checkpoint."""

from collections.abc import Iterator

from muster.composer.core import fold_devices, fold_nodes, fold_requests
from muster.composer.core.attachments import Steps
from muster.composer.core.capacity import Capacity
from muster.composer.core.config import ComposerConfig
from muster.composer.core.decision import Decision
from muster.composer.core.fabric_calls import FabricCalls
from muster.composer.core.fabrics import Fabrics, Look, Surveyed, SurveyWentWrong
from muster.composer.core.orphans import Orphans
from muster.composer.core.plans import Planner
from muster.composer.core.records import Attachment, Fabric, Request
from muster.composer.core.requests import RequestSteps
from muster.composer.core.state import State
from muster.composer.core.surveys import Surveys
from muster.core import Draft, Fact, Instant
from muster.core.folding import Folds
from muster.schemas.devices import RequestPhase
from muster.schemas.facts.composability import RequestState
from muster.schemas.facts.device import AttachmentState
from muster.schemas.facts.fabric import FabricState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.registry import STATE_NAME

FOLDS = Folds[State, None](fold_devices.FOLDS, fold_nodes.FOLDS, fold_requests.FOLDS)


@FOLDS.on("attachment", STATE_NAME, AttachmentState)
def _load_attachment(state: State, fact: Fact, stored: AttachmentState) -> None:
    attachment = Attachment.restored(stored, id=fact.subject_id)
    state.fabrics.ensure(attachment.fabric)
    state.attachments.add(attachment)


@FOLDS.on("node", STATE_NAME, NodeState)
def _load_node(state: State, fact: Fact, stored: NodeState) -> None:
    state.attachments.kinds_on.clear()
    state.hosts.nodes.apply(fact)
    state.hosts.machines.take(stored.description.machine, fact.subject_id)


@FOLDS.on(("node", "device"), STATE_NAME, GrantState)
def _load_grant(state: State, fact: Fact, stored: GrantState) -> None:
    state.hosts.grants.load(fact.kind, fact.subject_id, stored)


@FOLDS.on("job", STATE_NAME, JobState)
def _load_job(state: State, fact: Fact, stored: JobState) -> None:
    if not stored.phase.is_terminal:
        state.hosts.host_resources.describe(fact.subject_id, stored.job.spec)
    state.hosts.holds.apply(fact)


@FOLDS.on("composability", STATE_NAME, RequestState)
def _load_request(state: State, fact: Fact, stored: RequestState) -> None:
    name = fact.subject_id
    request = Request.restored(stored, name=name, attachments=state.requests.ensure(name).attachments)
    state.requests.put(request)
    if request.phase in (RequestPhase.REFUSED, RequestPhase.ENDED):
        state.requests.end(request, request.phase, request.since)
    state.worklist.look_request(name)


@FOLDS.on("fabric", STATE_NAME, FabricState)
def _load_fabric(state: State, fact: Fact, stored: FabricState) -> None:
    state.fabrics.put(Fabric.restored(stored, name=fact.subject_id))
    state.hosts.machines.load(fact.subject_id, stored.machines)


def state_drafts(state: State) -> Iterator[Draft]:
    """Yield the composer's part of a checkpoint. Requests come in the order in which they ended."""
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


class ComposerCore:
    """The composer's core: the only writer of requests, attachments and fabrics of one cluster.

    `state` is read-only for others. `surveys` belong to this process; another process surveys again.
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
        """Fold a fact; facts that fit no state are counted in `state.anomalies`."""
        FOLDS.apply(self.state, fact)

    def decide(self, now: Instant) -> list[Draft]:
        """Return about DRAFTS_MAX drafts at most; the rest follows at once."""
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
        """Take a survey, or its failure. Late ones are ignored."""
        return self.surveys.take(observation)

    def next_wakeup(self) -> Instant | None:
        """Return when to decide again."""
        if self._has_more:
            return self._now
        moments = [self.state.worklist.next_at(), self.state.calls.next_change(), self._orphans.next_due()]
        moments += [fabric.retry_at for fabric in self.state.fabrics.values() if fabric.retry_at > self._now]
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """Yield the composer's part of a checkpoint. Nodes are in the agent's part, grants and held devices in the
        scheduler's."""
        yield from state_drafts(self.state)
