"""Commands for queues: `muster queues`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Output, StateDir, listing

app = typer.Typer(name="queues", help="List, create and change queues and their quota.", invoke_without_command=True)

_SHARES = "Quota"
_TIMES = "Order and time limits"
_ADMISSION = "Admission"
_PREEMPTION = "Preemption"
_AMOUNTS = "`16` (GPUs) or `gpu:H100=8,cpu=64`; `none`: no"


@app.callback()
@listing
def queues(context: typer.Context, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """List the tree of queues: quota, limits of borrowing and lending, use, and the number of jobs."""
    if context.invoked_subcommand is None:
        from muster.cli import reading

        reading.queues(state_dir, output)


@app.command("list")
@listing
def list_queues(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """List the tree of queues, as `muster queues` does."""
    from muster.cli import reading

    reading.queues(state_dir, output)


@app.command("set")
def set_queues(
    *,
    path: Annotated[
        Path | None, typer.Argument(help="Queue file in YAML or JSON, one queue per document.", metavar="FILE")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Same as the argument FILE.", metavar="FILE")
    ] = None,
    state_dir: StateDir,
    name: Annotated[
        str, typer.Option(help="Create or change this queue by options; other settings stay.", callback=values.queue)
    ] = "",
    parent: Annotated[
        str | None, typer.Option(help="Parent queue; the queue lends and borrows within it.", callback=values.queue)
    ] = None,
    quota: Annotated[
        list[str] | None, typer.Option(help=f"Nominal quota: {_AMOUNTS} quota.", rich_help_panel=_SHARES)
    ] = None,
    borrowing_limit: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Maximum amount borrowed above the quota: {_AMOUNTS} borrowing limit.", rich_help_panel=_SHARES
        ),
    ] = None,
    lending_limit: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Maximum idle quota lent to other queues: {_AMOUNTS} lending limit.", rich_help_panel=_SHARES
        ),
    ] = None,
    weight: Annotated[float | None, typer.Option(help="Fair-share weight.", rich_help_panel=_SHARES)] = None,
    order: Annotated[
        str | None, typer.Option(help="Order of jobs: fair (fair share of users) or fifo.", rich_help_panel=_TIMES)
    ] = None,
    half_life_s: Annotated[
        float | None, typer.Option(help="Half-life of past usage in fair share, in seconds.", rich_help_panel=_TIMES)
    ] = None,
    starving_after_s: Annotated[
        float | None,
        typer.Option(help="Waiting time until a job gets a reserved start, in seconds.", rich_help_panel=_TIMES),
    ] = None,
    run_time_default_s: Annotated[
        float | None, typer.Option(help="Default run-time limit of a job, in seconds.", rich_help_panel=_TIMES)
    ] = None,
    run_time_max_s: Annotated[
        float | None, typer.Option(help="Maximum run-time limit of a job, in seconds.", rich_help_panel=_TIMES)
    ] = None,
    min_slice_default_s: Annotated[
        float | None,
        typer.Option(help="Default minimum run time before preemption, in seconds.", rich_help_panel=_TIMES),
    ] = None,
    min_slice_max_s: Annotated[
        float | None, typer.Option(help="Maximum of a job's minimum run time, in seconds.", rich_help_panel=_TIMES)
    ] = None,
    within_queue: Annotated[
        str | None,
        typer.Option(
            help="Preempt jobs of the same queue: never, lower-priority, lower-or-newer-equal-priority.",
            rich_help_panel=_PREEMPTION,
        ),
    ] = None,
    reclaim: Annotated[
        str | None,
        typer.Option(
            help="Reclaim lent quota from other queues: never, lower-priority, any.", rich_help_panel=_PREEMPTION
        ),
    ] = None,
    fair_share: Annotated[
        list[str] | None,
        typer.Option(
            help="Fair-share preemption strategy, in order: final-share, initial-share; repeat.",
            rich_help_panel=_PREEMPTION,
        ),
    ] = None,
    over_slice: Annotated[
        str | None,
        typer.Option(
            help="Preempt jobs whose time slice is over: never, starving (for starving jobs).",
            rich_help_panel=_PREEMPTION,
        ),
    ] = None,
    defragment: Annotated[
        str | None,
        typer.Option(
            help="Defragmentation: never, advise (only report), move (move jobs).", rich_help_panel=_PREEMPTION
        ),
    ] = None,
    team: Annotated[
        list[str] | None,
        typer.Option(
            help="Team that may submit to this subtree; repeat. `*`: all; `none`: only the team of the queue's name.",
            rich_help_panel=_ADMISSION,
        ),
    ] = None,
    priority_max: Annotated[
        int | None, typer.Option(help="Maximum priority of jobs, 0 to 1000.", rich_help_panel=_ADMISSION)
    ] = None,
    closed: Annotated[
        bool | None, typer.Option("--closed/--open", help="Close the queue for new jobs, or open it.")
    ] = None,
) -> None:
    """Create or change queues from a file, or one queue by options (operators and admins)."""
    from muster.cli import queue_tree

    if path is not None and file is not None:
        raise usage("FILE and --file: give the file once")
    tree = path or file
    if tree is not None:
        if name:
            raise usage("FILE and --name: give the file or one queue, not both")
        queue_tree.set_from_file(state_dir, tree)
        return
    if not name:
        raise usage("FILE: no queue given; give a queue file, or --name with the settings to change")
    queue_tree.set_from_options(
        state_dir,
        name,
        {
            "parent": parent, "weight": weight, "order": order, "half_life_s": half_life_s, "closed": closed,
            "quota": queue_tree.amounts("--quota", quota),
            "borrowing_limit": queue_tree.amounts("--borrowing-limit", borrowing_limit),
            "lending_limit": queue_tree.amounts("--lending-limit", lending_limit),
            "starving_after_s": starving_after_s, "run_time_default_s": run_time_default_s,
            "run_time_max_s": run_time_max_s, "min_slice_default_s": min_slice_default_s,
            "min_slice_max_s": min_slice_max_s, "within_queue": within_queue, "reclaim": reclaim,
            "fair_share": list(fair_share) if fair_share is not None else None, "over_slice": over_slice,
            "defragment": defragment, "teams": queue_tree.teams(team), "priority_max": priority_max,
        },
    )  # fmt: skip
