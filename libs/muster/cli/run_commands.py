"""`muster run`, and what is done with a job that runs: `logs`, `wait`, `exec`, `attach`, `shell`."""

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.job_commands import JobOptions, WithWords, check_words, words_of
from muster.cli.options import StateDir, spread

if TYPE_CHECKING:
    from muster.schemas.job import JobSpec

TAIL_MAX = 2_000
SHELL_S = 4 * 3600.0
"""Run-time limit of `muster shell` unless `--run-time-s` sets another one, in seconds."""
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as in shells."""
CONTEXT_VARIABLE = "MUSTER_KUBE_CONTEXT"


class WaitFor(StrEnum):
    """State that `muster wait` waits for."""

    RUNNING = "running"
    ENDED = "ended"


_replica = values.kind(
    "replica",
    r"([0-9]{1,2}/)?[0-9]{1,4}",
    "give N for replica N of the first task group, or G/N of task group G, from 0",
)
_context = values.kind(
    "kubeconfig context", r"[A-Za-z0-9._:/@+=-]{1,253}", "give a name of `kubectl config get-contexts`"
)

Job = Annotated[
    str, typer.Argument(help="Id of the job, as `submit` printed it.", metavar="JOB", callback=values.job_id)
]
Replica = Annotated[
    str,
    typer.Option(
        metavar="N|G/N", help="Replica N of the first task group, or of task group G; from 0.", callback=_replica
    ),
]
KubeContext = Annotated[
    str,
    typer.Option(
        envvar=CONTEXT_VARIABLE,
        help="Context of your kubeconfig for a job on Kubernetes; by default the one with the name of the cluster.",
        callback=_context,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(cls=WithWords, context_settings={"allow_extra_args": True})(run)
    app.command()(logs)
    app.command()(wait)
    app.command("exec", cls=WithWords)(execute)
    app.command()(attach)
    app.command(cls=WithWords)(shell)


@spread
def run(
    *,
    context: typer.Context,
    state_dir: StateDir,
    shape: JobOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            dir_okay=False,
            writable=True,
            help="File on this machine that gets the output instead of the terminal.",
        ),
    ] = None,
    kube_context: KubeContext = "",
    idempotency_key: Annotated[
        str, typer.Option(help="Key of the submission; the same key again is the same job.", callback=values.key)
    ] = "",
) -> None:
    """Run a command as a job: submit it, wait for it, stream its output, and exit with its exit code.

    For example: muster run --gpus 8 -- python train.py

    If the job waits longer than a few seconds, the reason is printed on stderr. Ctrl-C cancels the job; a second Ctrl-C
    leaves at once. With several replicas each line begins with the number of its replica. Exit codes: the job's own;
    1 if the job ended without one (timed out, cancelled); 130 after Ctrl-C. 2, 3 and 4 are also the codes of errors
    of Muster, which then prints a line that begins with `muster:`.
    """
    from muster.cli import running

    words = words_of(context)
    if context.args:
        raise usage(_hint(context.args[0]))
    check_words(words, shape)
    if not (words or shape.command or shape.image):
        raise usage("COMMAND: is missing; give it behind --, such as: muster run --gpus 8 -- python train.py")
    spec = _spec(shape, words or ())
    key = idempotency_key or os.urandom(12).hex()
    with _interruptible():
        running.run(state_dir, spec, key=key, output=output, context=kube_context)


def _hint(word: str) -> str:
    return (
        f"{values.shown(word)}: the command of a job goes behind --, such as: muster run --gpus 8 -- python train.py; "
        "`muster serve` runs a service of Muster"
    )


def logs(
    job: Job,
    *,
    state_dir: StateDir,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new lines until the job has ended, or Ctrl-C.")
    ] = False,
    replica: Replica = "",
    attempt: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Only this attempt, from 1; by default all.")
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Only the attempt before the present one.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=1, max=TAIL_MAX, help="Number of the newest lines to start with; by default all.")
    ] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time in UTC.")] = False,
    kube_context: KubeContext = "",
) -> None:
    """Print the output of a job, oldest line first.

    Muster keeps output for one hour. The output of a job on Kubernetes is read from its pods, with your own kubectl.
    With several replicas each line begins with the number of its replica, as `--replica` takes it. Control
    characters are shown as escapes.
    """
    from muster.cli import job_output

    if previous and attempt is not None:
        raise usage("--previous and --attempt: give one of them")
    group, of = job_output.replica_of(replica) or (None, None)
    wanted = job_output.Wanted(group, of, attempt, tail, follow)
    with _interruptible():
        job_output.show(state_dir, job, wanted, previous=previous, has_time=timestamps, context=kube_context)


def wait(
    jobs: Annotated[list[str], typer.Argument(help="Ids of the jobs.", metavar="JOB...", callback=values.job_id)],
    *,
    state_dir: StateDir,
    until: Annotated[WaitFor, typer.Option("--for", help="What to wait for, of every job.")] = WaitFor.ENDED,
    timeout: Annotated[
        str, typer.Option(help="Longest wait, for example 90s or 2h; by default there is no limit.", metavar="TIME")
    ] = "",
) -> None:
    """Wait until jobs have ended, or run. Prints nothing if all is well.

    Exit codes: 0 if all jobs succeeded (`--for running`: run, or succeeded already); 1 if a job ended otherwise,
    or the time is over.
    """
    from muster.cli import running
    from muster.cli.moments import length_s

    timeout_s = length_s(timeout, option="--timeout") if timeout else None
    with _interruptible():
        running.wait(state_dir, jobs, running=until is WaitFor.RUNNING, timeout_s=timeout_s)


def execute(
    job: Job,
    *,
    context: typer.Context,
    state_dir: StateDir,
    replica: Replica = "",
    kube_context: KubeContext = "",
) -> None:
    """Run a command in the container of a running job on Kubernetes: muster exec JOB -- nvidia-smi

    Muster names the pod, and your own kubectl enters it with your Kubernetes credentials: the cluster decides whether
    you may. The command has the terminal, so its output is not filtered. The exit code is that of the command.
    """
    from muster.cli import job_output, running

    words = words_of(context)
    if not words:
        raise usage("COMMAND: is missing; give it behind --, such as: muster exec JOB -- nvidia-smi")
    of = job_output.replica_of(replica) or (0, 0)
    _end(running.execute(state_dir, job, words, replica=of, context=kube_context))


def attach(job: Job, *, state_dir: StateDir, replica: Replica = "", kube_context: KubeContext = "") -> None:
    """Connect the terminal to the command of a running job on Kubernetes, with your own kubectl.

    You see what the command prints from now on. The command gets no input: pods of Muster have no standard input.
    The output is not filtered.
    """
    from muster.cli import job_output, running

    of = job_output.replica_of(replica) or (0, 0)
    with _interruptible():
        _end(running.attach(state_dir, job, replica=of, context=kube_context))


@spread
def shell(
    *,
    context: typer.Context,
    state_dir: StateDir,
    shape: JobOptions,
    kube_context: KubeContext = "",
) -> None:
    """Open a shell in a new interactive job on Kubernetes: muster shell --gpus 1 --image IMAGE

    The job is submitted, waits for its GPUs like any other, and is cancelled when the shell ends. It ends after 4
    hours at the latest, or `--run-time-s`. Give another program than a shell behind `--`. See `muster exec` for how the
    pod is entered. The exit code is that of the shell.
    """
    from muster.cli import running

    if shape.command or (shape.replicas or 1) > 1:
        raise usage("--command and --replicas: an interactive job has one replica; give its program behind --")
    name = "shell" if values.source_of(context, "name") == "DEFAULT" else shape.name
    interactive = dataclasses.replace(
        shape, name=name, kind=shape.kind or "interactive", run_time_s=shape.run_time_s or SHELL_S
    )
    spec = _spec(interactive, running.KEEP_OPEN)
    with _interruptible():
        _end(running.shell(state_dir, spec, words_of(context) or (), key=os.urandom(12).hex(), context=kube_context))


def _spec(shape: JobOptions, words: tuple[str, ...]) -> "JobSpec":
    """Return the job; print a warning for values that look like keys. Raises CliError."""
    from muster.cli import job_spec

    spec = job_spec.from_options(shape, words=words)
    job_spec.print_key_warnings([spec])
    return spec


def _end(code: int) -> None:
    """Raise typer.Exit if the code is not 0."""
    if code:
        raise typer.Exit(code)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C end the command without a message."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error
