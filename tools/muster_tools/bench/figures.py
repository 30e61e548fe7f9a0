"""Output of a benchmark's figures, with the machine that they were measured on."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from muster.cli import output
from muster.cli.machine import Machine, sentence
from muster.cli.options import Output


def print_figures(
    machine: Machine, document: Mapping[str, object], rows: Iterable[tuple[str, str]], *, form: Output
) -> None:
    """Print the document and the machine as JSON, or the machine and the rows (name, value) as a table."""
    if form is Output.JSON:
        output.emit_json({**document, "machine": asdict(machine)})
        return
    output.print_line(sentence(machine))
    output.details(rows)
