"""`muster simulate trace openb --arrivals shuffled --until full`: how much of a fleet can be allocated."""

from collections.abc import Sequence

from muster.cli import output as printed
from muster.cli.errors import usage
from muster.cli.options import Output
from muster.cli.progress import counting
from muster.cli.simulate_trace import TraceFiles
from muster.simulator.errors import InputError
from muster.simulator.filling import Filling, fill, summary


def run(files: TraceFiles, *, seeds: Sequence[int], output: Output) -> None:
    """One line of JSON for one seed, the mean and every run for more. Raises CliError."""
    nodes, tasks, _ = files.read()
    runs: list[Filling] = []
    try:
        with counting("filling", total=len(seeds)) as advance:
            for seed in seeds:
                runs.append(fill(nodes, tasks, seed=seed))
                advance()
    except InputError as error:
        raise usage(str(error)) from error
    if output is Output.JSON:
        printed.emit_json(runs[0].to_json() if len(runs) == 1 else summary(runs))
        return
    rows = [(str(run.seed), *(f"{pct:.2f} %" for pct in run.allocated_pct.values())) for run in runs]
    if len(runs) > 1:
        means = (sum(run.allocated_pct[pct] for run in runs) / len(runs) for pct in runs[0].allocated_pct)
        rows.append(("mean", *(f"{mean:.2f} %" for mean in means)))
    printed.table(("SEED", "AT 100 %", "AT 130 %"), rows, right=("AT 100 %", "AT 130 %"))
