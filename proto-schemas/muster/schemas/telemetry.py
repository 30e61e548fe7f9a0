"""What is measured and printed: bodies on `telemetry.<cluster>.<node>` and `logs.<cluster>.<job>`. Never facts.

Their streams keep them for a short while only; whoever folds a log must not need them.
"""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Text, Wire
from muster.schemas.facts.node import GPUS_PER_NODE_MAX

OUTPUT_LINES_MAX = 256

Measured = Annotated[float, Field(allow_inf_nan=False)]
"""A number that JSON can hold: drivers do report NaN, and who passes it on stops every page that reads it."""


class DeviceSample(Wire):
    """One GPU at one moment. utilisation_pct: 0 to 100, as DCGM's DCGM_FI_DEV_GPU_UTIL. job_ids: who holds it."""

    index: Annotated[int, Field(ge=0, lt=GPUS_PER_NODE_MAX)]
    uuid: str
    utilisation_pct: Measured
    memory_used_mib: int
    memory_total_mib: int
    power_w: Measured
    temperature_c: Measured
    job_ids: tuple[str, ...] = ()


class NodeSample(Wire):
    """All GPUs of one node at one moment."""

    node: str
    at: InstantNs
    gpu_model: str = ""
    devices: Annotated[tuple[DeviceSample, ...], Field(max_length=GPUS_PER_NODE_MAX)] = ()


class OutputLines(Wire):
    """What one replica of a job printed since the last message."""

    job_id: str
    attempt: int
    at: InstantNs
    group: int = 0
    replica: int = 0
    lines: Annotated[tuple[Text, ...], Field(max_length=OUTPUT_LINES_MAX)] = ()
