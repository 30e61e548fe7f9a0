"""The value of a node's idle GPUs under the fleet's typical demand. Fragmentation is that of FGD (USENIX ATC '23).

For a node n and typical task classes m with frequencies p_m:

    F(n)    = sum over m of p_m * F(n, m)
    F(n, m) = all idle GPU of n                          if m requests no GPU or cannot run on n
              idle part of n's devices that m cannot use  otherwise

F shows a lack of CPU only when it is used up and no class runs any more. So the score looks ahead at stranded GPUs:

    S(n) = max(0, idle GPU of n - the GPUs that n's idle CPU, or memory, would serve)
           at the mean CPU, or memory, per GPU of the classes that request GPUs

so that tasks with much CPU go where more CPU is left beside the GPUs. The score of a placement is how much it lowers
both: 100 * sigmoid((F + S before - F - S after) / 1000), in milli-GPUs, rounded to whole points. The rounding is
intended: following the exact score spreads tasks over nodes for tiny gains.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from muster.placement.devices import Arrangement, whole_by_domain
from muster.placement.shapes import DEVICE_MILLI, TaskShape, share_of
from muster.placement.state import StateKey, allows, stands_within

CLASSES_MAX = 64
"""Task classes that the score uses: the most frequent ones."""

VALUES_MAX = 50_000
"""Cached F values, sums of F and S, and device profiles, each; beyond it the cache is cleared."""


_Profile = tuple[tuple[int, ...], str, bool, Arrangement, tuple[int, ...]]


class Demand:
    """Typical task classes and their frequencies (any positive scale), and F under them.

    Without classes every placement scores the same, so that packing alone decides.
    """

    def __init__(self, classes: Mapping[TaskShape, float]) -> None:
        ranked = sorted(classes.items(), key=lambda item: (-item[1], _order(item[0])))
        kept = [(shape, weight) for shape, weight in ranked[:CLASSES_MAX] if weight > 0]
        total = sum(weight for _, weight in kept)
        self.classes: tuple[tuple[TaskShape, float], ...] = tuple((shape, weight / total) for shape, weight in kept)
        self._cpu = np.array([shape.cpu_milli for shape, _ in kept], dtype=np.int64)
        self._memory = np.array([shape.memory_mib for shape, _ in kept], dtype=np.int64)
        self._profiles: dict[_Profile, NDArray[np.float64]] = {}
        self._values: dict[StateKey, float] = {}
        self._sums: dict[StateKey, float] = {}
        self._cpu_per_gpu, self._memory_per_gpu = _per_gpu(self.classes)

    def __bool__(self) -> bool:
        return bool(self.classes)

    def fragmented_milli(self, key: StateKey) -> float:
        """Return F of one node in this state, in milli-GPUs."""
        if not key.idle_milli:
            return 0.0
        value = self._values.get(key)
        if value is None:
            runs = (self._cpu <= key.cpu_milli) & (self._memory <= key.memory_mib)
            value = key.idle_milli - float(self._usable_milli(key) @ runs)
            if len(self._values) >= VALUES_MAX:
                self._values.clear()
            self._values[key] = value
        return value

    def points(self, before: StateKey, after: StateKey) -> int:
        """Return the score of a placement that changes a node's state: 0 to 100, higher is better."""
        # Sums of floats differ in their last digits; a placement that changes nothing must score 50 everywhere.
        gain = round(self._wasted_milli(before) - self._wasted_milli(after), 6)
        return round(100.0 / (1.0 + math.exp(-gain / 1000.0)))

    def stranded_milli(self, key: StateKey) -> float:
        """Return S of one node in this state: idle milli-GPUs beyond what its CPU and memory would serve."""
        served = float(key.idle_milli)
        if self._cpu_per_gpu:
            served = min(served, DEVICE_MILLI * key.cpu_milli / self._cpu_per_gpu)
        if self._memory_per_gpu:
            served = min(served, DEVICE_MILLI * key.memory_mib / self._memory_per_gpu)
        return key.idle_milli - served

    def _wasted_milli(self, key: StateKey) -> float:
        value = self._sums.get(key)
        if value is None:
            if len(self._sums) >= VALUES_MAX:
                self._sums.clear()
            value = self._sums[key] = self.fragmented_milli(key) + self.stranded_milli(key)
        return value

    def _usable_milli(self, key: StateKey) -> NDArray[np.float64]:
        """Return per class: frequency times the idle milli-GPUs that it can use, CPU and memory aside."""
        profile = (key.shares, key.model, key.whole, key.parts, key.sizes)
        usable = self._profiles.get(profile)
        if usable is None:
            usable = np.array([share * _usable(key, shape) for shape, share in self.classes], dtype=np.float64)
            if len(self._profiles) >= VALUES_MAX:
                self._profiles.clear()
            self._profiles[profile] = usable
        return usable


def _per_gpu(classes: Iterable[tuple[TaskShape, float]]) -> tuple[float, float]:
    """Return mean CPU milli and memory MiB per whole GPU of the classes that request GPUs, without full nodes."""
    gpu_milli = cpu_milli = memory_mib = 0.0
    for shape, share in classes:
        if shape.holds_devices and not shape.full_node:
            gpu_milli += share * (shape.gpus * DEVICE_MILLI + shape.gpu_milli)
            cpu_milli += share * shape.cpu_milli
            memory_mib += share * shape.memory_mib
    if not gpu_milli:
        return 0.0, 0.0
    return DEVICE_MILLI * cpu_milli / gpu_milli, DEVICE_MILLI * memory_mib / gpu_milli


def _usable(key: StateKey, shape: TaskShape) -> int:
    if not allows(shape, key.model) or (shape.within_required and not stands_within(key, shape, shape.within)):
        return 0
    per_device = DEVICE_MILLI if shape.gpus else share_of(shape.gpu_milli, key.sizes)
    devices = [share for share in key.shares if share >= per_device]
    if not per_device or len(devices) < max(shape.gpus, 1):
        return 0
    if shape.full_node:
        return key.idle_milli if key.whole else 0
    if shape.within_required and shape.gpus:
        return DEVICE_MILLI * sum([idle for idle in whole_by_domain(key.parts, shape.within) if idle >= shape.gpus])
    return sum(devices)


def _order(
    shape: TaskShape,
) -> tuple[tuple[int, int, int, int], tuple[str, ...], tuple[bool, str, bool], tuple[str, ...]]:
    request = shape.full_node, shape.within, shape.within_required
    amounts = shape.gpus, shape.gpu_milli, shape.cpu_milli, shape.memory_mib
    return amounts, shape.gpu_models, request, shape.models_excluded
