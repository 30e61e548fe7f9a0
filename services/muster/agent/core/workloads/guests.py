"""What is kept of a pod that asks to run by itself or in a gang: values only, for views of pods carry them."""

from dataclasses import dataclass

from muster.agent.core.workloads.values import NOTHING_SHOWN, Shown, Unfit
from muster.core import Instant
from muster.kube.objects import JsonObject

MAIN = "main"
"""Task group of pods that name none."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What each of some equal pods asks; fields of TaskGroup. template: of the claim of its GPUs, "" if it has none."""

    gpus: int = 0
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    template: str = ""

    def group(self, name: str, replicas: int) -> JsonObject:
        """As a task group of a JobSpec's body."""
        return {
            "name": name,
            "replicas": replicas,
            "gpus": self.gpus,
            "gpu_milli": self.gpu_milli,
            "gpu_models": self.gpu_models,
            "cpu_milli": self.cpu_milli,
            "memory_mib": self.memory_mib,
        }


@dataclass(frozen=True, slots=True)
class PodAsks:
    """What one pod asks. options: fields of a JobSpec, as (name, value) of text. group: its task group."""

    shape: Shape
    options: tuple[tuple[str, object], ...]
    group: str = MAIN


@dataclass(frozen=True, slots=True)
class Guest:
    """A pod that asks to run by itself or in a gang. gang: "" for one alone. asks: None if it is bound or over."""

    asks: PodAsks | Unfit | None
    created: Instant
    gang: str = ""
    gang_size: int = 1
    shown: Shown = NOTHING_SHOWN
