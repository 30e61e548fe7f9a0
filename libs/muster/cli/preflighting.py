"""Run node checks on this machine, write the report, and wait for the verdict."""

import contextlib
import os
import sys
import time
from pathlib import Path

from pydantic import ValidationError

from muster.bus.settings import load_settings
from muster.checks import catalogue
from muster.checks.catalogue import CheckError
from muster.checks.plan import orders_for
from muster.checks.programs import run
from muster.checks.report import dump
from muster.checks.runner import place_of, run_plan
from muster.checks.suites import BUILT_IN, PreflightPolicy, Suite, policy_of, suite_of
from muster.cli.errors import ExitCode, usage
from muster.cli.options import Output
from muster.cli.output import emit_models, print_line, print_note, table
from muster.schemas.facts.operations import CheckOutcome, CheckResult, PreflightPlan

PLAN = "MUSTER_PREFLIGHT_PLAN"
TERMINATION_LOG = Path("/dev/termination-log")
"""The file whose text the kubelet reports as the termination message of a container."""
OPEN = "open"
"""What the agent writes into the annotation (muster.dev/gate)."""


def run_here(state_dir: Path, suite: str, report: Path | None, output: Output) -> None:
    """Run the checks of a suite or plan. Raises CliError for an invalid suite or plan."""
    plan = _named(state_dir, suite) if suite else _told()
    results: list[CheckResult] = []
    place = place_of(os.environ, node=os.uname().nodename)
    for result in run_plan(plan, place, run=run, now_s=time.monotonic) if plan is not None else ():
        print_note(f"{result.check}: {result.outcome.value}")
        results.append(result)
    if report is not None or not suite:
        _write(report or TERMINATION_LOG, dump(results))
    if output is Output.JSON:
        emit_models(results)
    else:
        table(("CHECK", "OUTCOME", "MEASURED", "TOOK", "DETAIL"), [_row(one) for one in results])
    if suite:
        _end(results)


def list_suites(state_dir: Path, output: Output) -> None:
    """List the suites and checks. Raises CliError for invalid settings."""
    policy = _policy(state_dir)
    plans = [_plan_of(suite) for suite in policy.suites.values()]
    if output is Output.JSON:
        emit_models(plans)
        return
    table(
        ("SUITE", "CHECKS", "LIMIT", "DEFAULT"),
        [
            (plan.suite, ", ".join(one.check for one in plan.checks), f"{plan.limit_s:g} s", _default(plan, policy))
            for plan in plans
        ],
    )
    print_line()
    table(
        ("CHECK", "OF", "GPUS", "LIMIT", "LOOKS AT", "PARAMETERS"),
        [
            (
                kind.name,
                kind.scope.value,
                "alone" if kind.is_invasive else "beside jobs",
                f"{kind.limit_s:g} s",
                kind.words,
                ", ".join(
                    [*(f"{name}={value:g}" for name, value in kind.numbers.items()), *map("=".join, kind.texts.items())]
                ),
            )
            for kind in catalogue.KINDS.values()
        ],
    )


def wait_at_gate(file: Path, *, poll_s: float) -> None:
    """Wait until the file has the verdict. The kubelet writes new annotations there within seconds."""
    while not _is_open(file):
        time.sleep(poll_s)


def _is_open(file: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # the volume is swapped as a whole: for a moment it is not there
        return file.read_text(encoding="utf-8").strip() == OPEN
    return False


def _told() -> PreflightPlan | None:
    """Return the plan in the environment of the pod; None: there are no checks."""
    text = os.environ.get(PLAN)
    if text is None:
        raise usage(f"--suite: is missing; use one of {', '.join(BUILT_IN)} (outside of a pod there is no {PLAN})")
    if not text:
        return None
    try:
        return PreflightPlan.model_validate_json(text)
    except ValidationError as error:
        raise usage(f"{PLAN}: {error.errors()[0]['msg']}") from error


def _named(state_dir: Path, name: str) -> PreflightPlan:
    try:
        plan = _plan_of(suite_of(_policy(state_dir), name))
    except CheckError as error:
        raise usage(f"--suite: {error}") from error
    gpus = place_of(os.environ, node="").gpus
    orders = plan.checks if gpus is None else orders_for(plan, gpus=gpus)
    return plan.model_copy(update={"checks": orders})


def _policy(state_dir: Path) -> PreflightPolicy:
    """Return the suites of the stack, or the built-in ones if there is none."""
    if not (state_dir / "settings.json").exists():
        return PreflightPolicy()
    try:
        return policy_of(load_settings(state_dir, os.environ).preflight)
    except (CheckError, ValidationError) as error:
        raise usage(f"settings: {error}") from error


def _plan_of(suite: Suite) -> PreflightPlan:
    return PreflightPlan(
        suite=suite.name, checks=suite.checks, limit_s=suite.limit_s, cannot_run_passes=suite.cannot_run_passes
    )


def _default(plan: PreflightPlan, policy: PreflightPolicy) -> str:
    return f"from {policy.gpus_least} GPUs" if plan.suite == policy.default else ""


def _write(report: Path, text: str) -> None:
    """Write the report; print a note if that fails: without a report, the agent treats the checks as not run."""
    try:
        report.write_text(text, encoding="utf-8")
    except OSError as error:
        print_note(f"the report was not written to {report}: {error.strerror}")


def _row(one: CheckResult) -> tuple[str, ...]:
    measured = "" if one.value is None else f"{one.value:g} {one.unit}"
    words = " ".join(filter(None, (one.code, one.device, one.detail)))
    return one.check, one.outcome.value, measured, f"{one.took_s:.1f} s", words


def _end(results: list[CheckResult]) -> None:
    outcomes = {one.outcome for one in results}
    if CheckOutcome.FAIL in outcomes:
        sys.exit(ExitCode.JOBS_FAILED)
    if CheckOutcome.CANNOT_RUN in outcomes:
        sys.exit(ExitCode.REFUSED)
