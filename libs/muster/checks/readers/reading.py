"""What a tool's output means."""

from dataclasses import dataclass

from muster.schemas.facts.operations import CheckOutcome


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured, and what was asked for."""

    value: float | None = None
    least: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a check found; `CheckResult` adds node, check and time."""

    outcome: CheckOutcome
    detail: str = ""
    measured: Measurement = Measurement()
    device: str = ""
    code: str = ""


def passed(detail: str = "", *, value: float | None = None, least: float | None = None, unit: str = "") -> Reading:
    """All is well."""
    return Reading(CheckOutcome.PASS, detail, Measurement(value, least, unit))


def failed(detail: str, *, device: str = "", code: str = "") -> Reading:
    """The hardware is not well."""
    return Reading(CheckOutcome.FAIL, detail, device=device, code=code)


def unable(detail: str) -> Reading:
    """Nobody knows: the tool did not say."""
    return Reading(CheckOutcome.CANNOT_RUN, detail)


def at_least(value: float, least: float, *, unit: str, detail: str = "", device: str = "") -> Reading:
    """Pass where at least so much was measured."""
    outcome = CheckOutcome.PASS if value >= least else CheckOutcome.FAIL
    measured = Measurement(round(value, 3), least, unit)
    return Reading(outcome, detail, measured, device="" if value >= least else device)
