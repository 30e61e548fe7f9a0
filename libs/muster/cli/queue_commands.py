"""`muster queues`: the tree with what it holds, and changes to it."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Output, StateDir

app = typer.Typer(name="queues", help="Queues: who may use how much.", invoke_without_command=True)

_SHARES = "Shares of what is there"
_TIMES = "Order and time"
_ADMISSION = "Who may submit"
_MAKING_WAY = "Who makes way"
_AMOUNTS = "`gpu=16`, `gpu:H100=8,cpu=64`, or `16` GPUs; `none` for no"


@app.callback()
def queues(context: typer.Context, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the tree of queues: what each is promised, may borrow and lend, holds, and who waits."""
    if context.invoked_subcommand is None:
        from muster.cli import reading

        reading.queues(state_dir, output)


@app.command("list")
def list_queues(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the tree of queues, as `muster queues` does."""
    from muster.cli import reading

    reading.queues(state_dir, output)


@app.command("set")
def set_queues(
    *,
    path: Annotated[Path | None, typer.Argument(help="Queue file, one queue per document.", metavar="FILE")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="The same.", metavar="FILE")] = None,
    state_dir: StateDir,
    name: Annotated[
        str, typer.Option(help="One queue without a file; what no option names stays as it is.", callback=values.queue)
    ] = "",
    parent: Annotated[
        str | None, typer.Option(help="The queue above; with it, it lends and borrows.", callback=values.queue)
    ] = None,
    quota: Annotated[list[str] | None, typer.Option(help=f"{_AMOUNTS} quota.", rich_help_panel=_SHARES)] = None,
    borrowing_limit: Annotated[
        list[str] | None, typer.Option(help="At most so much more.", rich_help_panel=_SHARES)
    ] = None,
    lending_limit: Annotated[
        list[str] | None, typer.Option(help="Of the quota, when idle.", rich_help_panel=_SHARES)
    ] = None,
    weight: Annotated[float | None, typer.Option(help="Part of what is borrowed.", rich_help_panel=_SHARES)] = None,
    order: Annotated[str | None, typer.Option(help="fair or fifo.", rich_help_panel=_TIMES)] = None,
    half_life_s: Annotated[float | None, typer.Option(help="Past use counts half.", rich_help_panel=_TIMES)] = None,
    starving_after_s: Annotated[float | None, typer.Option(help="Then reservations.", rich_help_panel=_TIMES)] = None,
    run_time_default_s: Annotated[float | None, typer.Option(help="Over all runs.", rich_help_panel=_TIMES)] = None,
    run_time_max_s: Annotated[float | None, typer.Option(help="At most.", rich_help_panel=_TIMES)] = None,
    min_slice_default_s: Annotated[
        float | None, typer.Option(help="Not stopped before.", rich_help_panel=_TIMES)
    ] = None,
    min_slice_max_s: Annotated[float | None, typer.Option(help="At most.", rich_help_panel=_TIMES)] = None,
    within_queue: Annotated[
        str | None,
        typer.Option(help="never, lower-priority, lower-or-newer-equal-priority.", rich_help_panel=_MAKING_WAY),
    ] = None,
    reclaim: Annotated[
        str | None, typer.Option(help="never, lower-priority, any.", rich_help_panel=_MAKING_WAY)
    ] = None,
    fair_share: Annotated[
        list[str] | None, typer.Option(help="final-share, initial-share; repeat.", rich_help_panel=_MAKING_WAY)
    ] = None,
    over_slice: Annotated[str | None, typer.Option(help="never, starving.", rich_help_panel=_MAKING_WAY)] = None,
    defragment: Annotated[str | None, typer.Option(help="never, advise, move.", rich_help_panel=_MAKING_WAY)] = None,
    team: Annotated[
        list[str] | None,
        typer.Option(
            help="Team that may submit here and below; repeat. `*`: every team; `none`: only the queue's namesake.",
            rich_help_panel=_ADMISSION,
        ),
    ] = None,
    priority_max: Annotated[
        int | None, typer.Option(help="Maximum priority of its jobs, 0 to 1000.", rich_help_panel=_ADMISSION)
    ] = None,
    closed: Annotated[bool | None, typer.Option("--closed/--open", help="Takes no new jobs, or takes them.")] = None,
) -> None:
    """Create or change queues (operators and admins): a whole tree from a file, or one queue by options."""
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
        raise usage("FILE: no queue named; give a queue file, or --name with what it shall be")
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
