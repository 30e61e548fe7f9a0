"""Print the decisions of the scaler."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from muster.bus.clock import SystemTime
from muster.cli import moments, output
from muster.cli.errors import refused
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import call
from muster.core.instant import NS_PER_S
from muster.schemas.facts.scale import Alternative
from muster.schemas.queries import ScaleChoiceView

CHOICES = ("CHOICE", "WHEN", "CASE", "WHAT", "WHERE", "FOR", "STATE", "REASON")
CHOICES_WIDE = (*CHOICES, "GROUP", "WATTS", "READY_S", "DEVICES", "CLUSTER", "DETAIL")
ALTERNATIVES = ("CHOSEN", "ALTERNATIVE", "HELPS", "GPUS", "NODES", "WATTS", "READY_S", "DETAIL")
NUMBERS = ("CASE", "GPUS", "NODES", "WATTS", "READY_S", "DEVICES")
CASES = {
    1: "a node is needed",
    2: "a node is needed and not available",
    3: "a node or GPU is not needed",
    4: "a node is not needed and cannot be removed",
}
"""The cases of the scaler, by number."""
_WHAT = {
    "gpu-attach-chosen": "attach",
    "gpu-remove-chosen": "return",
    "node-add-chosen": "add a node",
    "node-remove-chosen": "remove the node",
    "nothing-chosen": "nothing",
}
SCALING_DOWN = frozenset({3, 4})
JOBS_TOLD_MAX = 2


def choice_rows(choices: Iterable[ScaleChoiceView], *, now_ns: int, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """Return a row per decision."""
    for one in choices:
        row = (
            one.id, moments.distance(one.at, now_ns=now_ns) if one.at else "", str(one.case), what(one),
            one.node or one.group, _jobs(one.jobs), _state(one, now_ns=now_ns), one.reason,
        )  # fmt: skip
        more = (
            one.group,
            watts(one.watts, case=one.case),
            f"{one.ready_s:g}",
            str(len(one.devices)),
            one.cluster,
            one.detail,
        )
        yield (*row, *more) if wide else row


def choice_pairs(choice: ScaleChoiceView, *, now_ns: int) -> Sequence[tuple[str, str]]:
    """Return the details of a decision, without its alternatives."""
    return (
        ("choice", choice.id),
        ("case", f"{choice.case}: {CASES[choice.case]}" if choice.case in CASES else str(choice.case)),
        ("what", what(choice)),
        ("node", choice.node),
        ("group", choice.group),
        ("devices", ", ".join(choice.devices)),
        ("for jobs", ", ".join(choice.jobs)),
        ("reason", choice.reason),
        ("power", f"{watts(choice.watts, case=choice.case)} W" if choice.watts else ""),
        ("ready", f"after {moments.long(choice.ready_s)}" if choice.ready_s else ""),
        ("chosen", moments.when(choice.at, now_ns=now_ns) if choice.at else ""),
        ("state", _state(choice, now_ns=now_ns)),
        ("detail", choice.detail),
        ("cluster", choice.cluster),
    )


def alternative_rows(alternatives: Iterable[Alternative], *, case: int) -> Iterable[tuple[str, ...]]:
    """Return a row per alternative, in the order of evaluation."""
    for one in alternatives:
        yield (
            "*" if one.chosen else "", one.what, "yes" if one.fits else "no", str(one.gpus), str(one.nodes),
            watts(one.watts, case=case), f"{one.ready_s:g}", one.detail,
        )  # fmt: skip


def watts(change: float, *, case: int) -> str:
    """Format the change of power; for scaling down, the scaler reports the saved power."""
    return f"{-change if case in SCALING_DOWN and change else change:+g}"


def what(choice: ScaleChoiceView) -> str:
    """Return the action: `attach 2 x H100`, `add a node`, `nothing`."""
    words = _WHAT.get(choice.name, choice.name)
    if not choice.name.startswith("gpu-"):
        return words
    count = len(choice.devices) if choice.name == "gpu-remove-chosen" else choice.count
    return f"{words} {count} x {choice.device_model or 'GPU'}"


def _state(choice: ScaleChoiceView, *, now_ns: int) -> str:
    if choice.name == "nothing-chosen":
        return ""
    if not choice.outcome:
        return f"in progress for {moments.long((now_ns - choice.at) / NS_PER_S)}" if choice.at else "in progress"
    return f"{choice.outcome} in {moments.long((choice.ended_at - choice.at) / NS_PER_S)}"


def _jobs(jobs: Sequence[str]) -> str:
    more = len(jobs) - JOBS_TOLD_MAX
    return ",".join(jobs[:JOBS_TOLD_MAX]) + (f" and {more} more" if more > 0 else "")


def choices(state_dir: Path, form: Output, *, verbose: bool, limit: int, cluster: str) -> None:
    """List the newest decisions; verbose: each in detail."""
    found = call(state_dir, lambda muster: muster.scale_choices(cluster=cluster))[:limit]
    if output.emitted(found, form):
        return
    if verbose:
        for number, one in enumerate(found):
            if number:
                print_line()
            _in_full(one)
        return
    wide = form is Output.WIDE
    rows = choice_rows(found, now_ns=SystemTime().wall(), wide=wide)
    output.table(CHOICES_WIDE if wide else CHOICES, rows, right=NUMBERS)


def one(state_dir: Path, form: Output, choice: str, *, cluster: str) -> None:
    """Show one decision. Raises CliError (refused) if the scaler does not have it."""
    every = call(state_dir, lambda muster: muster.scale_choices(cluster=cluster))
    found = next((view for view in every if view.id == choice), None)
    if found is None:
        raise refused(f"ID: the scaler has no decision {choice}; `muster scale` lists the newest")
    if form is Output.JSON:
        output.emit_model(found)
    else:
        _in_full(found)


def _in_full(choice: ScaleChoiceView) -> None:
    output.details(choice_pairs(choice, now_ns=SystemTime().wall()))
    if choice.alternatives:
        rows = alternative_rows(choice.alternatives, case=choice.case)
        output.table(ALTERNATIVES, rows, right=NUMBERS)
