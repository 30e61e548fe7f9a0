"""Commands for jobs: `muster submit`, `cancel`, `hold`, `release`, `requeue`, `priority` and `edit`."""

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
    ("cancel", "Jobs to cancel.", "Cancel jobs; running pods are stopped."),
    ("hold", "Pending jobs to hold.", "Hold pending jobs: they do not start, and keep their position in the queue."),
    ("release", "Held jobs to release.", "Release held jobs, so that they can start."),
    (
        "requeue",
        "Placed or running jobs.",
        "Stop the attempt of jobs, with its grace period, and queue them again; it counts as no failure or preemption.",
    ),
)
"""Requests for several jobs, with the help texts of the argument and of the command."""


def register(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(cls=WithWords)(submit)
    for ask, of, does in _ASKS:
        app.command(ask)(_asking(ask, of=of, does=does))
    app.command()(priority)
    app.command()(edit)


_SHAPE = "Options of a job without a file"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOptions:
    """Options that define one job without a file."""

    gpus: Annotated[int | None, typer.Option(help="GPUs per replica.", rich_help_panel=_SHAPE)] = None
    gpu_milli: Annotated[
        int | None, typer.Option(help="Share of one GPU per replica, in thousandths.", rich_help_panel=_SHAPE)
    ] = None
    gpu_model: Annotated[
        list[str] | None,
        typer.Option(help="Acceptable GPU model; repeat for more. Default: any.", rich_help_panel=_SHAPE),
    ] = None
    replicas: Annotated[
        int | None,
        typer.Option(help="Number of replicas, placed all together (gang). Default: 1.", rich_help_panel=_SHAPE),
    ] = None
    min_replicas: Annotated[
        int | None, typer.Option(help="Minimum replicas to start with (elastic job).", rich_help_panel=_SHAPE)
    ] = None
    same_model: Annotated[
        bool, typer.Option("--same-model", help="Place all replicas on one GPU model.", rich_help_panel=_SHAPE)
    ] = False
    cpu_milli: Annotated[
        int | None, typer.Option(help="CPU per replica, in thousandths of a core.", rich_help_panel=_SHAPE)
    ] = None
    memory_mib: Annotated[int | None, typer.Option(help="Memory per replica, in MiB.", rich_help_panel=_SHAPE)] = None
    name: Annotated[str, typer.Option(help="Job name.", rich_help_panel=_SHAPE, callback=values.name)] = "job"
    team: Annotated[
        str,
        typer.Option(
            envvar="MUSTER_TEAM", rich_help_panel=_SHAPE, help="Team that the job belongs to.", callback=values.team
        ),
    ] = "default"
    queue: Annotated[
        str | None,
        typer.Option(help="Queue. Default: the queue of the team.", rich_help_panel=_SHAPE, callback=values.queue),
    ] = None
    priority: Annotated[
        int | None, typer.Option(help="Priority, 0 to 1000; higher starts first.", rich_help_panel=_SHAPE)
    ] = None
    kind: Annotated[
        str | None, typer.Option(help="Kind of job: batch, interactive, mpi, ...", rich_help_panel=_SHAPE)
    ] = None
    topology: Annotated[
        str,
        typer.Option(
            help="Topology level to share, such as `rack` (preferred) or `rack!` (required).", rich_help_panel=_SHAPE
        ),
    ] = ""
    group_topology: Annotated[
        str,
        typer.Option(
            help="Topology level for the GPUs of one replica, such as `socket` or `pair!`.", rich_help_panel=_SHAPE
        ),
    ] = ""
    full_node: Annotated[
        bool, typer.Option("--full-node", help="Use whole nodes; no other job runs there.", rich_help_panel=_SHAPE)
    ] = False
    run_time_s: Annotated[
        float | None, typer.Option(help="Run-time limit over all attempts, in seconds.", rich_help_panel=_SHAPE)
    ] = None
    min_slice_s: Annotated[
        float | None, typer.Option(help="Minimum run time before preemption, in seconds.", rich_help_panel=_SHAPE)
    ] = None
    grace_s: Annotated[
        float | None, typer.Option(help="Termination grace period, in seconds.", rich_help_panel=_SHAPE)
    ] = None
    preemptible: Annotated[
        bool | None,
        typer.Option(
            "--preemptible/--not-preemptible",
            help="Allow preemption; required to borrow quota.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    retries: Annotated[
        int | None, typer.Option(help="Maximum retries after failures of the job itself.", rich_help_panel=_SHAPE)
    ] = None
    preflight: Annotated[
        str | None, typer.Option(help="Suite of node checks before the job starts, or `none`.", rich_help_panel=_SHAPE)
    ] = None
    image: Annotated[str, typer.Option(help="Container image.", rich_help_panel=_SHAPE)] = ""
    command: Annotated[
        str,
        typer.Option(
            help="Command line, in quotes. Alternative: words after `--`.",
            rich_help_panel=_SHAPE,
            parser=values.lines,
            metavar="TEXT",
        ),
    ] = ""
    label: Annotated[
        list[str] | None, typer.Option(help="Label, KEY=VALUE; repeat for more.", rich_help_panel=_SHAPE)
    ] = None
    workdir: Annotated[
        str | None,
        typer.Option(help="Working directory of the command, an absolute path.", rich_help_panel=_SHAPE),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="Environment variable, NAME=VALUE; repeat for more.",
            rich_help_panel=_SHAPE,
            parser=values.lines,
            metavar="TEXT",
        ),
    ] = None
    env_secret: Annotated[
        list[str] | None,
        typer.Option(help="Environment variable from a Secret, NAME=SECRET/KEY; repeat.", rich_help_panel=_SHAPE),
    ] = None


_WORDS = "muster.words"


class WithWords(TyperCommand):
    """A command that stores the words after `--` apart from its arguments, for `words_of`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments before `--`."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_WORDS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


def words_of(context: typer.Context) -> tuple[str, ...] | None:
    """Return the words after `--`; None without a `--`."""
    words: tuple[str, ...] | None = context.meta.get(_WORDS)
    return words


def check_words(words: tuple[str, ...] | None, shape: JobOptions) -> None:
    """Raise CliError if the command of a job is given twice, or is empty."""
    if words is not None and (shape.command or not words):
        raise usage("--: give the command of the job once, with --command or after --, such as -- python train.py")


@spread
def submit(
    *,
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="Job file in YAML or JSON, one job per document; `-`: standard input.", metavar="FILE"),
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
        typer.Option(
            "--set",
            help="FIELD=VALUE of the template's job, such as gpus=16 or pod.env.EPOCHS=3; repeat for more.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report whether and where the jobs would start; submit nothing.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Wait for the jobs to end; exit code 1 unless all succeed.")
    ] = False,
    idempotency_key: Annotated[
        str,
        typer.Option(
            help="Submitting again with the same key returns the same job; job n of a file gets KEY-n.",
            callback=values.key,
        ),
    ] = "",
) -> None:
    """Submit the jobs of a file, one job of a template, or one job defined by options, with its command after `--`.

    For example: muster submit --gpus 8 -- python train.py --lr 3
    """
    from muster.cli import job_spec, submitting
    from muster.cli.jobfile import load_jobs

    words = words_of(context)
    check_words(words, shape)
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
    job_spec.print_key_warnings(specs)
    if dry_run:
        submitting.dry_run(state_dir, specs, output)
        return
    key = idempotency_key or os.urandom(12).hex()
    submitting.submit(state_dir, specs, key=key, watch=watch, form=output)


def _asking(ask: Ask, *, of: str, does: str) -> Callable[..., None]:
    """Return the command for this request. of, does: help texts of the argument and the command."""

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
    job_id: Annotated[
        str, typer.Argument(help="Id of a pending or running job.", metavar="ID", callback=values.job_id)
    ],
    priority: Annotated[int, typer.Argument(help="New priority, 0 to 1000.", metavar="N", min=0, max=1000)],
    state_dir: StateDir,
    output: As = Output.TABLE,
    reason: Reason = "",
) -> None:
    """Change the priority of a job: its position in the queue, and when it is preempted."""
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
