"""Reading and entering the pods of a job with the user's own `kubectl`.

Muster has no permission to do either. It names the pods; the user's Kubernetes credentials decide what is allowed.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from muster.cli.errors import refused, usage
from muster.cli.output import interrupting_child, print_note
from muster.core.instant import NS_PER_S
from muster.schemas.live import OutputLine
from muster.schemas.pods import KUBERNETES, JobPod, JobPods
from muster.schemas.views import JobView

PODS_MAX = 64
"""Pods whose output is read at a time."""
LINES_QUEUED_MAX = 1_000
CHUNK_BYTES = 64 * 1024
LINE_BYTES_MAX = 1024 * 1024
"""A longer line is printed in parts."""
ASK_S_MAX = 30.0
"""Time limit of a question to kubectl about the user's contexts, in seconds."""
CONTEXTS_SHOWN = 10
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


@dataclass(frozen=True, slots=True)
class Target:
    """Pods of one job, and the kubeconfig context that reaches them."""

    context: str
    found: JobPods

    def command(self, verb: str, pod: JobPod, *options: str, words: Sequence[str] = ()) -> list[str]:
        """Return the command line of kubectl. words: what follows `--`."""
        where = [
            f"--context={self.context}",
            f"--namespace={self.found.namespace}",
            f"--container={self.found.container}",
        ]
        return ["kubectl", verb, *where, *options, pod.name, *(["--", *words] if words else [])]


def target(job: JobView, found: JobPods, *, context: str) -> Target:
    """Return the pods of a job that has some. context: "" for the one named like the cluster. Raises CliError."""
    if not found.cluster:
        raise refused(f"JOB: {job.id} is {job.phase.value} and has no pods yet; `muster why {job.id}` says why")
    if found.backend != KUBERNETES:
        raise refused(
            f"JOB: {job.id} is on cluster {found.cluster}, which is not a Kubernetes cluster; "
            "simulated jobs have no processes to enter"
        )
    if not found.pods and job.origin:
        raise refused(f"JOB: {job.id} stands for {job.origin}, which creates its pods itself; use kubectl on its pods")
    if not found.pods:
        raise refused(f"JOB: {job.id} is {job.phase.value} and has no pods; `muster why {job.id}` says why")
    if not found.namespace:
        raise refused(f"JOB: cluster {found.cluster} does not report the namespace of its pods; upgrade its agent")
    return Target(known_context(context, cluster=found.cluster), found)


def known_context(context: str, *, cluster: str) -> str:
    """Return the kubeconfig context for a cluster. Raises CliError if there is no kubectl or no such context."""
    check_installed()
    wanted = context or cluster
    try:
        asked = subprocess.run(
            ["kubectl", "config", "get-contexts", "--output=name"],  # noqa: S607 - the user's own kubectl
            capture_output=True,
            text=True,
            timeout=ASK_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise usage(f"kubectl: did not list its contexts within {ASK_S_MAX:g} s; check your kubeconfig") from error
    contexts = asked.stdout.split()
    if wanted not in contexts:
        known = ", ".join(contexts[:CONTEXTS_SHOWN]) or "none"
        raise usage(
            f"--kube-context: your kubeconfig has no context {wanted!r} for cluster {cluster}; "
            f"name one of its contexts: {known}"
        )
    return wanted


def check_installed() -> None:
    """Raise CliError if there is no kubectl."""
    if shutil.which("kubectl") is None:
        raise usage("kubectl: is not installed or not in PATH; Muster enters pods with your own kubectl, so install it")


def pod_of(target: Target, *, group: int, replica: int) -> JobPod:
    """Return the pod of a replica. Raises CliError."""
    for pod in target.found.pods:
        if (pod.group, pod.replica) == (group, replica):
            return pod
    known = ", ".join(f"{pod.group}/{pod.replica}" for pod in target.found.pods[:CONTEXTS_SHOWN])
    raise usage(f"--replica: job {target.found.job_id} has no replica {group}/{replica}; it has {known}")


def terminal_options() -> list[str]:
    """Return the options that pass on standard input, and the terminal if there is one."""
    return ["--stdin", *(["--tty"] if os.isatty(0) and os.isatty(1) else [])]


def interactive(command: Sequence[str]) -> int:
    """Run a command on this terminal, and return its exit code. Ctrl-C is for the command."""
    with interrupting_child():
        return subprocess.run(list(command), check=False).returncode  # noqa: S603 - the user's own kubectl


async def read_output(
    target: Target, pods: Sequence[JobPod], *, follow: bool, tail: int | None
) -> AsyncGenerator[OutputLine, None]:
    """Yield the output of pods as `kubectl logs` prints it, until it ends. tail: lines of each; None: all.

    Raises CliError if there are too many pods. An error of kubectl is printed on stderr.
    """
    if len(pods) > PODS_MAX:
        raise usage(f"--replica: the job has {len(pods)} replicas, and {PODS_MAX} can be read at a time; name one")
    given = ["--timestamps", *(["--follow"] if follow else []), *([] if tail is None else [f"--tail={tail}"])]
    lines: asyncio.Queue[OutputLine] = asyncio.Queue(LINES_QUEUED_MAX)
    reading = asyncio.create_task(_read_all(target, pods, given, lines), name="kubectl logs")
    try:
        while not (reading.done() and lines.empty()):
            getting = asyncio.create_task(lines.get())
            await asyncio.wait({getting, reading}, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                yield getting.result()
            else:
                getting.cancel()
        await reading
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def _read_all(
    target: Target, pods: Sequence[JobPod], options: Sequence[str], lines: asyncio.Queue[OutputLine]
) -> None:
    async with asyncio.TaskGroup() as group:
        for pod in pods:
            group.create_task(_read_one(target, pod, options, lines))


async def _read_one(target: Target, pod: JobPod, options: Sequence[str], lines: asyncio.Queue[OutputLine]) -> None:
    """Put the lines of one pod into the queue until `kubectl logs` ends."""
    process = await asyncio.create_subprocess_exec(
        *target.command("logs", pod, *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for Muster, which reads on until the job has ended
    )
    assert process.stdout is not None, "it is a pipe"
    assert process.stderr is not None, "it is a pipe"
    complaint = asyncio.create_task(_end_of(process.stderr))
    try:
        async for text in _lines(process.stdout):
            await lines.put(_line(target.found, pod, text))
        code = await process.wait()
        if code:
            print_note(f"muster: kubectl logs {pod.name} ended with exit code {code}: {await complaint}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        complaint.cancel()


async def _end_of(stream: asyncio.StreamReader) -> str:
    """Read a stream to its end; return the last part of what it said."""
    kept = b""
    while data := await stream.read(CHUNK_BYTES):
        kept = (kept + data)[-CHUNK_BYTES:]
    return kept.decode(errors="replace").strip()[-500:]


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    rest = b""
    while data := await stream.read(CHUNK_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
        if len(rest) > LINE_BYTES_MAX:
            yield rest.decode(errors="replace")
            rest = b""
    if rest:
        yield rest.decode(errors="replace")


def _line(found: JobPods, pod: JobPod, text: str) -> OutputLine:
    """Return a line of `kubectl logs --timestamps`. A line without a time has the time 0."""
    stamp, at = _STAMP.match(text), 0
    if stamp is not None:
        with suppress(ValueError):  # looks like a time, and is none
            seconds = datetime.fromisoformat(stamp[1] + stamp[3].replace("Z", "+00:00")).timestamp()
            at = int(seconds) * NS_PER_S + int((stamp[2] or "0").ljust(9, "0"))
            text = text[stamp.end() :]
    return OutputLine(at=at, group=pod.group, replica=pod.replica, attempt=found.attempt, text=text)
