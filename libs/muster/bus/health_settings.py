"""Settings of the health service: its rules, its brake, and what it may do by itself."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from muster.schemas.base import Label, Name

DAY_S = 86_400.0
OPT_OUT_MAX = 10_000


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BrakeSettings(_Section):
    """What stops health: nothing is withheld, repaired or given back until `muster health brake reset`.

    share: of all nodes; more than that suspected within the window trip it. nodes_min: so many may be in any case.
    window_s: within which they are counted.
    """

    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    nodes_min: Annotated[int, Field(ge=1, le=10_000)] = 3
    window_s: Annotated[float, Field(gt=0, le=DAY_S)] = 600.0


class LemonSettings(_Section):
    """When a node counts as one that is ill again and again.

    incidents: so often it was ill or lost within the window. window_s: within which they are counted. ratio: so many
    times as often as the others.
    """

    incidents: Annotated[int, Field(ge=2, le=64)] = 3
    window_s: Annotated[float, Field(gt=0, le=365 * DAY_S)] = 30 * DAY_S
    ratio: Annotated[float, Field(ge=1)] = 4.0


class HealthSettings(_Section):
    """What health does with what it sees.

    enabled: readings of GPUs are listened to. rules: a file, or a folder of files, of rules over the built-in ones
    (`muster health rules check`). dry_run: faults are recorded, nothing is withheld. opt_out: nodes of which the same
    holds; a node's label `muster.dev/health: observe` says so too. repair: sick hardware is reset, rebooted, replaced;
    else it waits for a person. verify: suite of checks that must all pass before a node is given back; "none": only a
    person's word does that. verify_device: the same of a device. attempts_max: repairs that are tried. action_s: limit
    of one. periodic: suite of checks that may run beside jobs. periodic_every_s: between two of a node, 0: none. deep:
    suite for nodes that idle, which are withheld for it. deep_every_s: between two of a node, 0: none. deep_at_once:
    nodes that are checked so at a time. soak_s: how long what passed its checks is watched before jobs come. steady_s:
    how long a page must show that a lasting fault is over. brake: see below. lemons: see below.
    """

    enabled: bool = True
    rules: Path | None = None
    dry_run: bool = False
    opt_out: Annotated[tuple[Label, ...], Field(max_length=OPT_OUT_MAX)] = ()
    repair: bool = True
    verify: Name = "validate"
    verify_device: Name = "periodic"
    attempts_max: Annotated[int, Field(ge=1, le=10)] = 3
    action_s: Annotated[float, Field(gt=0, le=DAY_S)] = 1_800.0
    periodic: Name = "periodic"
    periodic_every_s: Annotated[float, Field(ge=0, le=365 * DAY_S)] = 0.0
    deep: Name = "deep"
    deep_every_s: Annotated[float, Field(ge=0, le=365 * DAY_S)] = 0.0
    deep_at_once: Annotated[int, Field(ge=1, le=1_000)] = 1
    soak_s: Annotated[float, Field(ge=0, le=7 * DAY_S)] = 0.0
    steady_s: Annotated[float, Field(ge=0, le=DAY_S)] = 60.0
    brake: BrakeSettings = BrakeSettings()
    lemons: LemonSettings = LemonSettings()
