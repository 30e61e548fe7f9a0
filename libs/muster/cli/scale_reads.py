"""Asking for the scaler's choices, and printing them."""

from pathlib import Path

from muster.bus.clock import SystemTime
from muster.cli import output, scale_tables
from muster.cli.errors import refused
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import call
from muster.schemas.queries import ScaleChoiceView


def choices(state_dir: Path, form: Output, *, verbose: bool, limit: int, cluster: str) -> None:
    """The newest choices as a table; verbose: each in full."""
    found = call(state_dir, lambda muster: muster.scale_choices(cluster=cluster))[:limit]
    if form is Output.JSON:
        output.emit_models(found)
        return
    if verbose:
        for number, one in enumerate(found):
            if number:
                print_line()
            _in_full(one)
        return
    wide = form is Output.WIDE
    rows = scale_tables.choice_rows(found, now_ns=SystemTime().wall(), wide=wide)
    output.table(scale_tables.CHOICES_WIDE if wide else scale_tables.CHOICES, rows, right=scale_tables.NUMBERS)


def one(state_dir: Path, form: Output, choice: str, *, cluster: str) -> None:
    """One choice in full. Raises CliError (refused) if the scaler does not know it (any more)."""
    every = call(state_dir, lambda muster: muster.scale_choices(cluster=cluster))
    found = next((view for view in every if view.id == choice), None)
    if found is None:
        raise refused(f"ID: the scaler knows no choice {choice}; `muster scale` shows the newest")
    if form is Output.JSON:
        output.emit_model(found)
    else:
        _in_full(found)


def _in_full(choice: ScaleChoiceView) -> None:
    output.details(scale_tables.choice_pairs(choice, now_ns=SystemTime().wall()))
    if choice.alternatives:
        rows = scale_tables.alternative_rows(choice.alternatives, case=choice.case)
        output.table(scale_tables.ALTERNATIVES, rows, right=scale_tables.NUMBERS)
