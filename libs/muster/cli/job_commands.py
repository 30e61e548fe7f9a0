"""`muster submit`, and what may be asked of jobs afterwards: `cancel`, `hold`, `release`, `requeue`, `priority`,
`edit`."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperCommand

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Output, Reason, StateDir, spread
from muster.cli.template_commands import template_name

Ask = Literal["cancel", "hold", "release", "requeue"]
_ASKS: tuple[tuple[Ask, str, str], ...] = (
    ("cancel", "Jobs to cancel.", "Ask that jobs end; running pods are stopped."),
    ("hold", "Waiting jobs to hold.", "Ask that waiting jobs are not started; they keep their places in line."),
    ("release", "Held jobs to release.", "Ask that held jobs may be started again."),
    (
        "requeue",
        "Placed or running jobs.",
        "Stop the attempt of jobs, with its grace period, and queue them again; it counts as no failure or preemption.",
    ),
)
"""What may be asked of each of several jobs, with the help texts of the argument and of the command."""


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(cls=_WithWords)(submit)
    for ask, of, does in _ASKS:
        app.command(ask)(_asking(ask, of=of, does=does))
    app.command()(priority)
    app.command()(edit)


_SHAPE = "One job without a file"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOptions:
    """The options that make one job without a file."""

    gpus: Annotated[int | None, typer.Option(help="Whole GPUs per replica.", rich_help_panel=_SHAPE)] = None
    gpu_milli: Annotated[int | None, typer.Option(help="Thousandths of one GPU.", rich_help_panel=_SHAPE)] = None
    gpu_model: Annotated[list[str] | None, typer.Option(help="A model that will do.", rich_help_panel=_SHAPE)] = None
    replicas: Annotated[int | None, typer.Option(help="Replicas, placed whole.", rich_help_panel=_SHAPE)] = None
    min_replicas: Annotated[int | None, typer.Option(help="It runs with so many.", rich_help_panel=_SHAPE)] = None
    same_model: Annotated[bool, typer.Option("--same-model", help="All on one GPU model.", rich_help_panel=_SHAPE)] = (
        False
    )
    cpu_milli: Annotated[int | None, typer.Option(help="Thousandths of a core.", rich_help_panel=_SHAPE)] = None
    memory_mib: Annotated[int | None, typer.Option(help="MiB per replica.", rich_help_panel=_SHAPE)] = None
    name: Annotated[str, typer.Option(help="Name of the job.", rich_help_panel=_SHAPE, callback=values.name)] = "job"
    team: Annotated[
        str, typer.Option(envvar="MUSTER_TEAM", rich_help_panel=_SHAPE, help="Team.", callback=values.team)
    ] = "default"
    queue: Annotated[
        str | None, typer.Option(help="By default the team's.", rich_help_panel=_SHAPE, callback=values.queue)
    ] = None
    priority: Annotated[int | None, typer.Option(help="0 to 1000.", rich_help_panel=_SHAPE)] = None
    kind: Annotated[str | None, typer.Option(help="batch, interactive, mpi, ...", rich_help_panel=_SHAPE)] = None
    topology: Annotated[str, typer.Option(help="Level, `rack`; `rack!` insists.", rich_help_panel=_SHAPE)] = ""
    group_topology: Annotated[
        str, typer.Option(help="Of each replica's devices: `socket`, `pair!`.", rich_help_panel=_SHAPE)
    ] = ""
    full_node: Annotated[bool, typer.Option("--full-node", help="Alone on its nodes.", rich_help_panel=_SHAPE)] = False
    run_time_s: Annotated[float | None, typer.Option(help="Over all runs.", rich_help_panel=_SHAPE)] = None
    min_slice_s: Annotated[float | None, typer.Option(help="Left alone so long.", rich_help_panel=_SHAPE)] = None
    grace_s: Annotated[float | None, typer.Option(help="From notice to end.", rich_help_panel=_SHAPE)] = None
    preemptible: Annotated[
        bool | None, typer.Option("--preemptible/--not-preemptible", help="May borrow.", rich_help_panel=_SHAPE)
    ] = None
    retries: Annotated[int | None, typer.Option(help="After its own failures.", rich_help_panel=_SHAPE)] = None
    preflight: Annotated[
        str | None, typer.Option(help="Suite of checks before its first step, or `none`.", rich_help_panel=_SHAPE)
    ] = None
    image: Annotated[str, typer.Option(help="Container image.", rich_help_panel=_SHAPE)] = ""
    command: Annotated[
        str, typer.Option(help="Command line, in quotes; better behind `--`.", rich_help_panel=_SHAPE)
    ] = ""
    label: Annotated[list[str] | None, typer.Option(help="key=value.", rich_help_panel=_SHAPE)] = None
    env: Annotated[list[str] | None, typer.Option(help="Environment variable, NAME=VALUE.", rich_help_panel=_SHAPE)] = (
        None
    )
    env_secret: Annotated[
        list[str] | None,
        typer.Option(help="Environment variable from a Secret, NAME=SECRET/KEY.", rich_help_panel=_SHAPE),
    ] = None


_WORDS = "muster.words"


class _WithWords(TyperCommand):
    """A command that keeps what stands behind `--` apart from its arguments, as `context.meta[_WORDS]`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse what stands before `--`."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_WORDS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


@spread
def submit(
    *,
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="YAML or JSON, one job per document; `-` reads standard input.", metavar="FILE"),
    ] = None,
    state_dir: StateDir,
    output: As = Output.TABLE,
    shape: JobOptions,
    template: Annotated[
        str,
        typer.Option(help="Template to submit; other options change its fields.", callback=template_name),
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="FIELD=VALUE of the template's job, such as gpus=16 or pod.env.EPOCHS=3."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask what would happen; submit nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow to the end; exit 1 unless all succeed.")] = False,
    idempotency_key: Annotated[
        str,
        typer.Option(
            help="The same key again is the same job; the n-th job of a file gets KEY-n.", callback=values.key
        ),
    ] = "",
) -> None:
    """Submit the jobs of a file, one of a template, or one given by options and its command, which stands behind `--`.

    For example: muster submit --gpus 8 -- python train.py --lr 3
    """
    from muster.cli import job_spec, submitting
    from muster.cli.jobfile import load_jobs
    from muster.cli.output import print_note

    words: tuple[str, ...] | None = context.meta.get(_WORDS)
    if words is not None and (shape.command or not words):
        raise usage("--: give the command of the job once, with --command or behind --, such as -- python train.py")
    given = [one for one in job_spec.OPTIONS if values.source_of(context, one) == "COMMANDLINE"]
    if set_ and not template:
        raise usage("--set: changes a field of a template; give --template, or edit the job file")
    if file is not None:
        beside = ["--template"] if template else [*map(job_spec.option_of, given)]
        if beside or words:
            raise usage(f"FILE and {', '.join(beside) or '--'}: give the file or the options of one job, not both")
    elif not template and all(one is None for one in (shape.gpus, shape.gpu_milli, shape.cpu_milli)):
        raise usage("FILE: nothing to submit; give a job file, or a shape such as --gpus 8")
    if template:
        from muster.cli import templates

        specs = [templates.made(template, shape, given=given, words=words or (), assignments=set_ or ())]
    else:
        specs = load_jobs(file) if file else [job_spec.from_options(shape, words=words or ())]
    for warning in dict.fromkeys(one for spec in specs for one in job_spec.key_warnings(spec)):
        print_note(f"warning: {warning}")
    if dry_run:
        submitting.dry_run(state_dir, specs, output)
        return
    key = idempotency_key or os.urandom(12).hex()
    submitting.submit(state_dir, specs, key=key, watch=watch, form=output)


def _asking(ask: Ask, *, of: str, does: str) -> Callable[..., None]:
    """Return the command that asks this of jobs. of, does: see `_ASKS`."""

    def command(
        *,
        ids: Annotated[list[str], typer.Argument(help=of, metavar="ID...", callback=values.job_id)],
        state_dir: StateDir,
        output: As = Output.TABLE,
        reason: Reason = "",
    ) -> None:
        from muster.cli import submitting

        submitting.ask_each(state_dir, ids, ask, reason=reason, form=output)

    command.__doc__ = does
    return command


def priority(
    *,
    job_id: Annotated[str, typer.Argument(help="A job that waits or runs.", metavar="ID", callback=values.job_id)],
    priority: Annotated[int, typer.Argument(help="0 to 1000.", metavar="N", min=0, max=1000)],
    state_dir: StateDir,
    output: As = Output.TABLE,
    reason: Reason = "",
) -> None:
    """Ask that a job has another priority: its place in line, or how soon it makes way."""
    from muster.cli import submitting

    submitting.prioritise(state_dir, job_id, priority, reason=reason, form=output)


def edit(
    *,
    job_id: Annotated[str, typer.Argument(help="A job that waits.", metavar="ID", callback=values.job_id)],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="FIELD=VALUE: priority, total_run_time_s or min_slice_s; repeat for more."),
    ] = None,
    state_dir: StateDir,
    output: As = Output.TABLE,
    reason: Reason = "",
) -> None:
    """Change the priority and the run times of a waiting job; without --set in the editor that $EDITOR names."""
    from muster.cli import editing

    editing.edit(state_dir, job_id, set_ or (), reason=reason, form=output)
