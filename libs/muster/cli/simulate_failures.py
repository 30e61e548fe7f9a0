"""Simulate weeks of one large job with hardware failures, with and without the health service."""

import time
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import JsonValue

from muster.bus.settings import Settings
from muster.cli import moments, output
from muster.cli.errors import usage
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import measured
from muster.health.config import config_of
from muster.simulator.failures.account import Bucket
from muster.simulator.failures.calendar import (
    MIX,
    PLANNED,
    PUBLISHED,
    PUBLISHED_DAYS,
    PUBLISHED_GPUS,
    PUBLISHED_PLANNED,
    RATE,
    Odds,
)
from muster.simulator.failures.run import Outcome, play
from muster.simulator.failures.scene import GPUS, Scene, Times

WORDS = {
    Bucket.KEPT: "effective training",
    Bucket.SAVING: "standing still for checkpoints",
    Bucket.LOST: "work done again",
    Bucket.DETECT: "from fault to the end of its run",
    Bucket.REQUEUE: "from there to queued again",
    Bucket.PLACING: "from queued to running",
    Bucket.RESTART: "from running to the first new step",
}


def scene_of(
    *, gpus: int, spares: int, days: float, seed: int, checkpoint_s: float, restart_s: float, rate: float | None
) -> Scene:
    """Return the scene of the options. rate: None: as published. Raises CliError for a fraction of a node."""
    if gpus % GPUS:
        raise usage(f"--gpus {gpus}: must be a multiple of {GPUS}, the GPUs of a node")
    times = Times(checkpoint_s=checkpoint_s, restart_s=restart_s)
    odds = Odds(RATE if rate is None else rate)
    return Scene(gpus=gpus, spares=spares, days=days, seed=seed, times=times, odds=odds)


def scenes(scene: Scene, *, watched: list[bool]) -> list[Scene]:
    """Return the scene with and without the health service, with the same faults."""
    return [replace(scene, with_health=with_health) for with_health in watched]


def run(form: Output, scenes: list[Scene]) -> None:
    """Simulate each scene and print the use of time."""
    config = config_of(Settings(state_dir=Path(), credentials_dir=Path()))  # as they come: nothing is read from there
    outcomes: list[tuple[Outcome, float]] = []
    for number, scene in enumerate(scenes):
        began = time.process_time()
        with measured(f"virtual days, run {number + 1} of {len(scenes)}", total=scene.days) as reached:
            outcome = play(scene, config, reached=reached)
        outcomes.append((outcome, time.process_time() - began))
    if form is Output.JSON:
        output.emit_json({"runs": [_as_json(outcome, cpu_s) for outcome, cpu_s in outcomes]})
        return
    for scene, (outcome, cpu_s) in zip(scenes, outcomes, strict=True):
        _show(scene, outcome, cpu_s)


def _show(scene: Scene, outcome: Outcome, cpu_s: float) -> None:
    watched = "health watches" if outcome.with_health else "without health: people find what is broken"
    print_line(
        f"{scene.gpus:,} GPUs and {scene.spares} spare nodes, {scene.days:g} days, seed {scene.seed}, {watched}:"
        f" {outcome.effective:.2%} effective training time ({cpu_s:.0f} s of processor time)"
    )
    rows = [(WORDS[one], moments.long(outcome.spent_s[one.value]), _share(outcome, one)) for one in Bucket]
    output.table(("TIME", "TOOK", "SHARE"), rows, right=("TOOK", "SHARE"))
    causes = [(cause.name, cause.count) for cause in MIX] + [(PLANNED, PUBLISHED_PLANNED)]
    known = {name for name, _ in causes}
    causes += [(name, 0) for name in outcome.interruptions if name not in known]
    shown = [(name, str(outcome.interruptions.get(name, 0)), str(count)) for name, count in causes]
    total = f"{PUBLISHED + PUBLISHED_PLANNED} in {PUBLISHED_DAYS:g} d on {PUBLISHED_GPUS:,} GPUs"
    output.table(("INTERRUPTED BY", "TIMES", "PUBLISHED"), shown, right=("TIMES", "PUBLISHED"))
    for line in _lines(outcome, total):
        print_line(line)


def _share(outcome: Outcome, bucket: Bucket) -> str:
    return f"{outcome.spent_s[bucket.value] / outcome.wall_s:.2%}"


def _lines(outcome: Outcome, total: str) -> list[str]:
    interruptions = outcome.total_interruptions
    every = moments.long(outcome.wall_s / max(1, interruptions))
    found = f"{outcome.lemons_found} of which were found"
    by_health = f"{outcome.quarantines} quarantines of nodes and devices, {outcome.false} false"
    by_people = f"{outcome.repair_gpu_h:,.0f} GPU-hours out of use, {outcome.by_hand} repairs by people"
    lines = [
        f"{interruptions} interruptions (published {total}), one every {every}; they ended {outcome.again} more runs",
        f"{outcome.struck} faults in the fleet, {outcome.on_lemons} on {outcome.lemons} lemons, {found}",
        f"{by_health}; brake pulled {outcome.brakes} times; {by_people}",
    ]
    if outcome.given_up:
        lines.append(f"given up and submitted again {len(outcome.given_up)} times: {outcome.given_up[0]}")
    return lines


def _as_json(outcome: Outcome, cpu_s: float) -> dict[str, JsonValue]:
    figures: dict[str, JsonValue] = asdict(outcome)
    return figures | {"effective": round(outcome.effective, 5), "cpu_s": round(cpu_s, 1)}
