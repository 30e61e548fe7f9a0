"""Where an outcome is not as the scenario expects."""

from collections.abc import Iterator, Mapping

from muster.simulator.scenario.model import Expected, ExpectedJob, ExpectedQueue
from muster.simulator.scenario.outcome import JobOutcome, QueueOutcome, ScenarioOutcome
from muster.simulator.scenario.scaling import scaling_differences

SHARE_ROUNDING = 1e-3
START_ROUNDING_S = 1.0


def differences(expected: Expected, outcome: ScenarioOutcome) -> tuple[str, ...]:
    """One sentence for each field that is not as expected; only what the scenario names is compared."""
    found = [] if outcome.stable else ["stable: expected true, found false"]
    for name, job in expected.jobs.items():
        found += _all(f"jobs.{name}", _job_pairs(job, outcome.jobs.get(name)))
    for name, queue in expected.queues.items():
        found += _all(f"queues.{name}", _queue_pairs(queue, outcome.queues.get(name)))
    if expected.scaling is not None:
        found += (
            ["scaling: expected, and not there"]
            if outcome.scaling is None
            else (scaling_differences(expected.scaling, outcome.scaling))
        )
    return tuple(found)


_Pairs = Mapping[str, tuple[object, object]]


def _all(at: str, pairs: _Pairs | None) -> Iterator[str]:
    if pairs is None:
        yield f"{at}: expected, and not there"
        return
    for field, (wanted, is_so) in pairs.items():
        if wanted != is_so:
            yield f"{at}.{field}: expected {wanted!r}, found {is_so!r}"


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
