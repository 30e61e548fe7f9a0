"""Submit jobs, send requests for jobs, and print the results."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from muster.bus.clock import SystemTime
from muster.cli import output, tables, watching
from muster.cli.errors import CliError, refused
from muster.cli.job_commands import Ask
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import counting
from muster.cli.session import call
from muster.cli.text import node_list
from muster.schemas.job import JobSpec
from muster.schemas.queries import DryRunAnswer
from muster.schemas.views import JobView

if TYPE_CHECKING:
    from muster.client import Muster

PART_JOBS = 100  # jobs of one request
PROGRESS_FROM = 50  # number of jobs from which a progress bar is shown


def submit(state_dir: Path, specs: Sequence[JobSpec], *, key: str, watch: bool, form: Output) -> None:
    """Submit jobs in order and print them. Raises CliError; jobs accepted before the error stay and are printed."""
    accepted: list[JobView] = []
    try:
        jobs = call(state_dir, lambda muster: submit_all(muster, specs, key=key, accepted=accepted))
    except CliError as error:
        if not accepted:
            raise
        _print_submitted(accepted, form)
        told = f"{error} {len(accepted)} of {len(specs)} jobs were accepted."
        raise CliError(told, code=error.code) from error
    _print_submitted(jobs, form)
    if watch:
        watching.until_all_end(state_dir, [job.id for job in jobs], form)


async def submit_all(muster: "Muster", specs: Sequence[JobSpec], *, key: str, accepted: list[JobView]) -> list[JobView]:
    """Submit each job with idempotency key `key`, or `key-n` for several, so that a repetition is harmless.

    accepted: gets each accepted job, so that they are known if one is refused. Raises the first refusal; jobs after
    that request are not sent.
    """
    if len(specs) == 1:
        accepted.append(await muster.submit(specs[0], idempotency_key=key))
        return accepted
    with counting("submitting", total=len(specs)) if len(specs) >= PROGRESS_FROM else nullcontext() as advance:
        for first in range(0, len(specs), PART_JOBS):
            part = specs[first : first + PART_JOBS]
            outcomes = await muster.submit_many(part, idempotency_key=key, first=first + 1)
            accepted += [outcome for outcome in outcomes if isinstance(outcome, JobView)]
            for outcome in outcomes:
                if not isinstance(outcome, JobView):
                    raise outcome
                if advance is not None:
                    advance()
    return accepted


def dry_run(state_dir: Path, specs: Sequence[JobSpec], form: Output) -> None:
    """Print whether and where each job would start. Raises CliError (refused) if one can never run."""

    async def ask(muster: "Muster") -> list[DryRunAnswer]:
        return [await muster.dry_run(spec) for spec in specs]

    answers = call(state_dir, ask)
    if form is Output.JSON:
        output.emit_models(answers)
    else:
        now_ns = SystemTime().wall()
        for spec, answer in zip(specs, answers, strict=True):
            print_line(f"{spec.name}: {_would(answer)}")
            for consequence in _consequences(answer, now_ns=now_ns):
                print_line(f"    {consequence}")
    for spec, answer in zip(specs, answers, strict=True):
        if answer.refused:
            raise refused(f"{spec.name}: {_refusal(answer)}")


def ask_each(state_dir: Path, ids: Sequence[str], ask: Ask, *, reason: str, form: Output) -> None:
    """Send the request for each job. Raises CliError at the first refusal."""

    async def ask_all(muster: "Muster") -> list[JobView]:
        method = {
            "cancel": muster.cancel, "hold": muster.hold, "release": muster.release, "requeue": muster.requeue,
        }[ask]  # fmt: skip
        return [await method(job_id, reason=reason) for job_id in ids]

    _tell(call(state_dir, ask_all), f"{ask} requested", form)


def prioritise(state_dir: Path, job_id: str, priority: int, *, reason: str, form: Output) -> None:
    """Request a new priority for a job. Raises CliError if it is refused."""
    job = call(state_dir, lambda muster: muster.prioritise(job_id, priority, reason=reason))
    _tell([job], f"priority {priority} requested, had {job.priority}", form)


def _tell(jobs: Sequence[JobView], asked: str, form: Output) -> None:
    """Print the request for each job and its previous state."""
    if output.emitted(jobs, form):
        return
    for job in jobs:
        print_line(f"{job.id}: {asked}, was {'held' if job.held else job.phase.value}")


def _would(answer: DryRunAnswer) -> str:
    if answer.refused:
        return f"would be refused: {_refusal(answer)}"
    if answer.placed:
        return f"would be placed now on {node_list(answer.nodes)}"
    position = f", position {answer.position}" if answer.position else ""
    return f"would wait{position}: {_words(answer.reason, answer.detail)}"


def _refusal(answer: DryRunAnswer) -> str:
    return _words(answer.field, _words(answer.reason, answer.detail))


def _words(first: str, second: str) -> str:
    """Return both parts with a colon between them, or only the second if it begins with the first."""
    return second if second.startswith(f"{first}: ") else ": ".join(part for part in (first, second) if part)


def _consequences(answer: DryRunAnswer, *, now_ns: int) -> list[str]:
    """Return further lines: hint, expected start, preemptions."""
    expected = tables.expected_start(answer.expected_start_at, answer.expected_basis, now_ns=now_ns)
    lines = (("hint", answer.cure), ("expected start", expected), ("would preempt", ", ".join(answer.preempts)))
    return [f"{name}: {value}" for name, value in lines if value]


def _print_submitted(jobs: Sequence[JobView], form: Output) -> None:
    if output.emitted(jobs, form):
        return
    for job in jobs:
        print_line(f"{job.id}  {job.name}  {job.phase.value}  (muster why {job.id})")
