"""Outcome of a scenario, as `muster simulate scenario` prints it, and its differences from the expectation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from muster.core import Fact
from muster.core.instant import seconds_between
from muster.scheduler.core.answers import answer_queues, answer_why
from muster.scheduler.core.stores.jobs import HOLDING, JobRecord
from muster.schemas import quantities
from muster.schemas.facts.job import JobResizeRequested, JobStopRequested
from muster.schemas.facts.queue import GPU
from muster.schemas.job import Phase
from muster.schemas.queries import AskFleet, AskJob, QueuesAnswer, WhyAnswer
from muster.simulator.engine import Engine
from muster.simulator.scenario.model import Expected, ExpectedJob, ExpectedQueue
from muster.simulator.scenario.scaling import ScalingOutcome, scaling_differences

_STATES = {
    Phase.SUBMITTED: "pending",
    Phase.QUEUED: "pending",
    Phase.PLACED: "running",
    Phase.RUNNING: "running",
    Phase.STOPPING: "stopping",
}


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """state: pending, running, stopping, or how it ended. nodes, devices: of each replica, in order.

    preempted_for: the job for which it, or some of its replicas, last made way. reason, detail: why it waits, or how
    it ended. expected_start_s: from the scenario's end, None if nothing is known.
    """

    state: str
    nodes: tuple[str, ...] = ()
    devices: tuple[tuple[int, ...], ...] = ()
    replicas: int = 0
    preempted_for: str | None = None
    reason: str = ""
    detail: str = ""
    expected_start_s: float | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields; expected_start_s only if it is known."""
        known = {} if self.expected_start_s is None else {"expected_start_s": round(self.expected_start_s, 3)}
        return {
            "state": self.state,
            "nodes": list(self.nodes),
            "devices": [list(of_replica) for of_replica in self.devices],
            "replicas": self.replicas,
            "preempted_for": self.preempted_for,
            "reason": self.reason,
            "detail": self.detail,
            **known,
        }


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """held, quota: in people's units, with the queues below. share: of what can be lent, 0 if it borrows nothing."""

    held: dict[str, float]
    quota: dict[str, float]
    share: float
    pending: int
    running: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields."""
        return {
            "held": dict(self.held),
            "quota": dict(self.quota),
            "share": round(self.share, 6),
            "pending": self.pending,
            "running": self.running,
        }


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """stable: five more rounds changed nothing. rounds: decisions that it took to get there."""

    jobs: dict[str, JobOutcome]
    queues: dict[str, QueueOutcome]
    stable: bool
    rounds: int
    scaling: ScalingOutcome | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the stable JSON form; `scaling` only if something scales."""
        scaling = {} if self.scaling is None else {"scaling": self.scaling.to_json()}
        return {
            "jobs": {name: job.to_json() for name, job in self.jobs.items()},
            "queues": {name: queue.to_json() for name, queue in self.queues.items()},
            "stable": self.stable,
            "rounds": self.rounds,
            **scaling,
        }


@dataclass(slots=True)
class Ways:
    """The job that each job was preempted for, by the facts; watches an engine."""

    made: dict[str, str] = field(default_factory=dict)

    def watch(self, fact: Fact) -> None:
        """Fold one fact."""
        if isinstance(fact.payload, JobStopRequested | JobResizeRequested) and fact.payload.made_way_for:
            self.made[fact.subject_id] = fact.payload.made_way_for


def outcome_of(engine: Engine, names: dict[str, str], ways: Ways, *, stable: bool, rounds: int) -> ScenarioOutcome:
    """Return the engine's present state. names: of the jobs, by id."""
    records = engine.scheduler.state.jobs.records
    jobs = {
        name: _job_outcome(engine, records[job_id], names, ways) for job_id, name in names.items() if job_id in records
    }
    return ScenarioOutcome(jobs, _queue_outcomes(engine), stable, rounds)


def _job_outcome(engine: Engine, record: JobRecord, names: dict[str, str], ways: Ways) -> JobOutcome:
    slots = record.slots if record.phase in HOLDING else ()
    for_whom = ways.made.get(record.id)
    reason, detail, expected_s = "", "", None
    if record.phase in (Phase.SUBMITTED, Phase.QUEUED):
        answer = answer_why(engine.scheduler, AskJob(job_id=record.id), engine.now)
        assert isinstance(answer, WhyAnswer)
        reason, detail = str(answer.reason), answer.detail
        if answer.expected_start_at:
            expected_s = max(0.0, seconds_between(engine.now, answer.expected_start_at))
    elif record.phase.is_terminal:
        reason, detail = record.reason, record.detail
    return JobOutcome(
        state="held" if record.held is not None else _STATES.get(record.phase, record.phase.value),
        nodes=tuple(slot.node for slot in slots),
        devices=tuple(slot.devices for slot in slots),
        replicas=len(slots),
        preempted_for=None if for_whom is None else names.get(for_whom, for_whom),
        reason=reason,
        detail=detail,
        expected_start_s=expected_s,
    )


def _queue_outcomes(engine: Engine) -> dict[str, QueueOutcome]:
    answer = answer_queues(engine.scheduler, AskFleet(), engine.now)
    assert isinstance(answer, QueuesAnswer)
    found = {}
    for view in answer.queues:
        held = {GPU: view.gpu_milli_held} | {resource: amount for resource, amount in view.held.items() if amount}
        found[view.name] = QueueOutcome(
            held=quantities.human(held),
            quota=quantities.human(view.quota),
            share=view.share,
            pending=view.jobs_queued,
            running=view.jobs_running,
        )
    return found


SHARE_ROUNDING = 1e-3
START_ROUNDING_S = 1.0


def differences(expected: Expected, outcome: ScenarioOutcome) -> tuple[str, ...]:
    """Return one sentence for each difference from the expectation; only named fields are compared."""
    found = [] if outcome.stable else ["stable: expected true, found false"]
    for name, job in expected.jobs.items():
        found += _all_differences(f"jobs.{name}", _job_pairs(job, outcome.jobs.get(name)))
    for name, queue in expected.queues.items():
        found += _all_differences(f"queues.{name}", _queue_pairs(queue, outcome.queues.get(name)))
    if expected.scaling is not None:
        found += (
            ["scaling: expected, and not there"]
            if outcome.scaling is None
            else (scaling_differences(expected.scaling, outcome.scaling))
        )
    return tuple(found)


_Pairs = Mapping[str, tuple[object, object]]


def _all_differences(at: str, pairs: _Pairs | None) -> Iterator[str]:
    if pairs is None:
        yield f"{at}: expected, and not there"
        return
    for name, (wanted, is_so) in pairs.items():
        if wanted != is_so:
            yield f"{at}.{name}: expected {wanted!r}, found {is_so!r}"


def _job_pairs(wanted: ExpectedJob, job: JobOutcome | None) -> _Pairs | None:
    if job is None:
        return None
    pairs: dict[str, tuple[object, object]] = {
        field: (getattr(wanted, field), getattr(job, field))
        for field in ("state", "replicas", "preempted_for", "reason")
        if field in wanted.model_fields_set
    }
    if wanted.nodes is not None:
        pairs["nodes"] = (sorted(wanted.nodes), sorted(job.nodes))
    if wanted.expected_start_s is not None:
        is_so = job.expected_start_s
        near = is_so is not None and abs(is_so - wanted.expected_start_s) <= START_ROUNDING_S
        pairs["expected_start_s"] = (wanted.expected_start_s, wanted.expected_start_s if near else is_so)
    return pairs


def _queue_pairs(wanted: ExpectedQueue, queue: QueueOutcome | None) -> _Pairs | None:
    if queue is None:
        return None
    pairs: dict[str, tuple[object, object]] = {
        field: (getattr(wanted, field), getattr(queue, field))
        for field in ("pending", "running")
        if getattr(wanted, field) is not None
    }
    for resource, amount in (wanted.held or {}).items():
        pairs[f"held.{resource}"] = (amount, queue.held.get(resource, 0))
    if wanted.share is not None:
        near = abs(queue.share - wanted.share) <= SHARE_ROUNDING
        pairs["share"] = (wanted.share, wanted.share if near else queue.share)
    return pairs
