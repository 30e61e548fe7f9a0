"""Build reservations from options, and list them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from muster.bus.clock import SystemTime
from muster.cli import moments, output
from muster.cli.errors import usage
from muster.cli.jobfile import sentence
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.reservation_commands import Wanted
from muster.cli.session import call
from muster.cli.text import gpus, node_list
from muster.core.instant import NS_PER_S
from muster.schemas.facts.reservation import Repeat, ReservationSpec
from muster.schemas.views import ReservationView

HEADINGS = ("RESERVATION", "WHAT", "FOR", "STARTS", "LENGTH", "REPEAT", "STATE", "GPUS_KEPT")
HEADINGS_WIDE = (*HEADINGS, "CLUSTER", "REASON")
RIGHT = frozenset({"GPUS_KEPT"})


def spec_of(wanted: Wanted, *, now_ns: int) -> ReservationSpec:
    """Return the reservation of the options. Raises CliError that names the option."""
    nodes = tuple(part.strip() for text in wanted.nodes or () for part in text.split(",") if part.strip())
    if bool(nodes) == bool(wanted.gpus):
        raise usage("--nodes, --gpus: give exactly one of them: the nodes, or the number of GPUs to reserve")
    if (bool(wanted.for_queue), bool(wanted.for_job), wanted.maintenance).count(True) != 1:
        raise usage("--for-queue, --for-job, --maintenance: give exactly one of them")
    if bool(wanted.starts) == bool(wanted.starts_in):
        raise usage("--starts, --in: give exactly one of them: the start time")
    if not wanted.length:
        raise usage("--for: is missing; give the duration, for example --for 4h")
    if wanted.starts:
        starts_at = moments.moment_ns(wanted.starts, option="--starts")
    else:
        starts_at = now_ns + round(moments.length_s(wanted.starts_in, option="--in") * NS_PER_S)
    duration_s = moments.length_s(wanted.length, option="--for")
    if starts_at + duration_s * NS_PER_S <= now_ns:
        raise usage(
            f"--starts: the reservation would end {moments.distance(starts_at, now_ns=now_ns)}; give a later start"
        )
    try:
        return ReservationSpec(
            name=wanted.name,
            nodes=nodes,
            gpus=wanted.gpus,
            gpu_model=wanted.model,
            queue=wanted.for_queue or None,
            job_id=wanted.for_job or None,
            starts_at=starts_at,
            duration_s=duration_s,
            repeat=Repeat.WEEKLY if wanted.weekly else Repeat.ONCE,
            reason=wanted.reason,
        )
    except ValidationError as error:
        raise usage(sentence(error)) from error


def reserve(state_dir: Path, wanted: Wanted) -> None:
    """Request a reservation. Raises CliError."""
    now_ns = SystemTime().wall()
    spec = spec_of(wanted, now_ns=now_ns)
    booked = call(state_dir, lambda muster: muster.reserve(spec))
    told = "booked" if booked is not None else "requested; the scheduler has not answered yet"
    print_line(f"{spec.name}: {told}, from {moments.when(spec.starts_at, now_ns=now_ns)}")


def end(state_dir: Path, name: str, *, reason: str) -> None:
    """Request the end of a reservation. Raises CliError."""
    call(state_dir, lambda muster: muster.end_reservation(name, reason=reason))
    print_line(f"{name}: end requested")


def show(state_dir: Path, form: Output) -> None:
    """List reservations."""
    found = call(state_dir, lambda muster: muster.reservations())
    if output.emitted(found, form):
        return
    wide = form is Output.WIDE
    shown = rows(found, now_ns=SystemTime().wall(), wide=wide)
    output.table(HEADINGS_WIDE if wide else HEADINGS, shown, right=RIGHT)


def rows(found: Sequence[ReservationView], *, now_ns: int, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """Return a row per reservation, next start first."""
    for view in sorted(found, key=lambda view: (not view.active, _starts(view), view.name)):
        spec = view.spec
        row = (
            view.name,
            node_list(spec.nodes) if spec.nodes else f"{spec.gpus} GPUs{' ' if spec.gpu_model else ''}{spec.gpu_model}",
            f"queue {spec.queue}" if spec.queue else f"job {spec.job_id}" if spec.job_id else "maintenance",
            moments.when(_starts(view), now_ns=now_ns),
            moments.long(spec.duration_s),
            spec.repeat.value,
            "active" if view.active else "pending",
            gpus(view.held_gpu_milli) if view.active else "-",
        )
        yield (*row, view.cluster, spec.reason) if wide else row


def _starts(view: ReservationView) -> int:
    return view.next_starts_at or view.spec.starts_at
