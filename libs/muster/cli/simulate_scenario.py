"""Simulate a scenario file and print the result."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.cli import output as printed
from muster.cli.errors import refused, usage
from muster.cli.files import read_text
from muster.cli.options import Output
from muster.cli.text import duration, node_list
from muster.core.virtual import NeverSettlesError
from muster.simulator.document import LIMITS
from muster.simulator.errors import InputError
from muster.simulator.scenario import Scenario, ScenarioOutcome, differences, parse, simulate
from muster.simulator.scenario.outcome import JobOutcome
from muster.simulator.scenario.scaling import ScalingOutcome


def run(file: Path, *, after_s: float, check: bool, output: Output) -> None:
    """Run a scenario. Raises CliError: 2 for an invalid file, 3 if it is never stable or not as expected."""
    with _told_of(file):
        scenario = parse(read_text(file, bytes_max=LIMITS.characters, form="scenario file"))
        outcome = simulate(scenario, after_s=after_s)
    if output is Output.JSON:
        printed.emit_json(outcome.to_json())
    else:
        _tell(outcome, wide=output is Output.WIDE)
    if not outcome.stable:
        raise refused(f"{file}: not stable after {outcome.rounds} rounds: decisions still change the state of jobs")
    if check:
        _check(file, scenario, outcome)


@contextmanager
def _told_of(file: Path) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise usage(f"{file}: {error}") from error
    except NeverSettlesError as error:
        raise refused(f"{file}: {error}") from error


def _check(file: Path, scenario: Scenario, outcome: ScenarioOutcome) -> None:
    found = differences(scenario.expect, outcome)
    if found:
        more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
        raise refused(f"{file}: not as expected: {'; '.join(found[:5])}{more}")


def _tell(outcome: ScenarioOutcome, *, wide: bool) -> None:
    headings = ("JOB", "STATE", "REPLICAS", "NODES", "MADE WAY FOR", "START", "REASON")
    rows = (
        (
            name,
            job.state,
            str(job.replicas or ""),
            node_list(tuple(dict.fromkeys(job.nodes))),
            job.preempted_for or "",
            "" if job.expected_start_s is None else f"in {duration(job.expected_start_s)}",
            _reason(job) if wide else job.reason,
        )
        for name, job in outcome.jobs.items()
    )
    printed.table(headings, rows, right=("REPLICAS",))
    printed.table(
        ("QUEUE", "HELD", "QUOTA", "SHARE", "RUNNING", "PENDING"),
        (
            (
                name,
                _amounts(queue.held),
                _amounts(queue.quota),
                f"{queue.share:.3f}",
                str(queue.running),
                str(queue.pending),
            )
            for name, queue in outcome.queues.items()
        ),
        right=("SHARE", "RUNNING", "PENDING"),
    )
    if outcome.scaling is not None:
        _tell_scaling(outcome.scaling)
    printed.details([("stable", f"after {outcome.rounds} rounds" if outcome.stable else "no")])


def _tell_scaling(scaling: ScalingOutcome) -> None:
    printed.table(
        ("CHOICE", "CASE", "GROUP", "NODE", "COUNT", "FOR", "OUTCOME", "REASON"),
        (
            (
                choice.choice,
                str(choice.case),
                choice.group,
                choice.node,
                str(choice.count or ""),
                ",".join(choice.jobs),
                choice.outcome,
                choice.reason,
            )
            for choice in scaling.choices
        ),
        right=("CASE", "COUNT"),
    )
    printed.table(
        ("GROUP", "NODES", "GPUS"),
        ((name, str(nodes), str(gpus)) for name, (nodes, gpus) in scaling.groups.items()),
        right=("NODES", "GPUS"),
    )
    printed.details([("pool", ", ".join(f"{count} {model}" for model, count in scaling.pool.items()))])


def _reason(job: JobOutcome) -> str:
    """Return the reason with its numbers, once if the detail begins with the reason."""
    if not job.detail or job.detail.startswith(f"{job.reason}:"):
        return job.detail or job.reason
    return f"{job.reason}: {job.detail}"


def _amounts(human: dict[str, float]) -> str:
    return ", ".join(f"{resource} {amount:g}" for resource, amount in human.items()) or "-"
