"""jobs.csv: one line for each job of each run."""

import csv
import io
from collections.abc import Sequence

from muster.core.instant import seconds_between
from muster.simulator.engine import START
from muster.simulator.load.play import Played
from muster.simulator.load.recorder import JobTrack

COLUMNS = (
    "policy", "name", "queue", "gpus", "replicas", "submitted_s", "placed_s", "ended_s", "wait_s", "state", "runs",
    "preemptions", "gpu_h", "lost_gpu_h",
)  # fmt: skip


def jobs_csv(runs: Sequence[tuple[str, Played]]) -> str:
    """runs: (policy, what was played). Times are seconds since the start, empty while they have not come."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for policy, played in runs:
        for track in played.recorder.tracks.values():
            writer.writerow(_row(policy, track, played))
    return text.getvalue()


def _row(policy: str, track: JobTrack, played: Played) -> tuple[str | int, ...]:
    moments = (track.submitted_at, track.placed_at, track.ended_at)
    state = track.ended or ("running" if track.held_milli else "waiting")
    return (
        policy, track.name, track.queue, f"{track.gpu_milli / 1000:g}", track.replicas,
        *(f"{seconds_between(START, moment):.3f}" if moment else "" for moment in moments),
        f"{track.wait_s(played.ended_at):.3f}", state, track.attempts, track.preemptions,
        f"{track.gpu_h:.3f}", f"{track.lost_gpu_h:.3f}",
    )  # fmt: skip
