"""How often requests fit on nodes: all requests on all states at once, as arrays.

Equal to `state.count` for each pair of state and request; a test compares both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.placement.shapes import DEVICE_MILLI, TaskShape, share_of
from muster.placement.state import UNBOUNDED_COUNT, StateKey, allows, stands_within, whole_sets

Counts = NDArray[np.int64]

_NO_SETS = (0, "")


class Ask(NamedTuple):
    """A request to count. `together`: 0 counts replicas; otherwise nodes with room for this many at once."""

    shape: TaskShape
    together: int


class States:
    """States as arrays, with a column per amount; `something` is 0 if nothing at all is left."""

    def __init__(self, keys: Sequence[StateKey]) -> None:
        self.keys = keys
        amounts = np.array([(key.cpu_milli, key.memory_mib, key.idle_milli) for key in keys], dtype=np.int64)
        self.cpu, self.memory, self.idle = amounts[:, 0:1], amounts[:, 1:2], amounts[:, 2:3]
        self.something = (amounts.max(axis=1, keepdims=True) > 0).astype(np.int64)
        self.whole_devices = np.array([[key.shares.count(DEVICE_MILLI)] for key in keys], dtype=np.int64)
        self.devices_if_whole = np.array([[len(key.shares) if key.whole else -1] for key in keys], dtype=np.int64)
        places: dict[str, int] = {}
        self.model = np.array([places.setdefault(key.model, len(places)) for key in keys], dtype=np.int64)
        self.models = tuple(places)


class Asks:
    """Requests as arrays, to count all of them on many states at once; `counts` is `state.count` for each pair."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        shapes = [ask.shape for ask in asks]
        self._shapes = shapes
        self._cpu = np.array([shape.cpu_milli for shape in shapes], dtype=np.int64)
        self._memory = np.array([shape.memory_mib for shape in shapes], dtype=np.int64)
        self._gpus = np.array([shape.gpus for shape in shapes], dtype=np.int64)
        self._millis = sorted({shape.gpu_milli for shape in shapes if shape.gpu_milli})
        places = {milli: place for place, milli in enumerate(self._millis, start=1)}
        self._share = np.array([places.get(shape.gpu_milli, 0) for shape in shapes], dtype=np.int64)
        self._full = np.array([shape.full_node for shape in shapes], dtype=bool)
        least = [max(shape.gpus, 1 if shape.gpu_milli else 0) for shape in shapes]
        self._least_devices = np.array(least, dtype=np.int64)
        self._together = np.array([ask.together for ask in asks], dtype=np.int64)
        requests = [(s.gpus, s.within) if s.within_required and s.gpus else _NO_SETS for s in shapes]
        self._sets = sorted(set(requests) - {_NO_SETS})
        at = {request: place for place, request in enumerate(self._sets, start=1)}
        self._set = np.array([at.get(request, 0) for request in requests], dtype=np.int64)
        # Shapes that need more than the sets of whole devices: a full node, a share, or no device.
        self._inside = [(at, s) for at, s in enumerate(shapes) if s.within_required and (s.full_node or not s.gpus)]
        self._any_full, self._any_together = bool(self._full.any()), bool(self._together.any())
        self._models: dict[str, NDArray[np.bool_]] = {}

    def counts(self, states: "States") -> Counts:
        """Return, per state and request, the replicas that fit on one node in the state."""
        room = np.minimum(_times(states.cpu, self._cpu), _times(states.memory, self._memory))
        np.minimum(room, _times(states.whole_devices, self._gpus), out=room)
        if self._millis:
            room = np.minimum(room, self._shares(states.keys)[:, self._share])
        if self._sets:
            room = np.minimum(room, self._whole_sets(states.keys)[:, self._set])
        room *= states.something
        if self._any_full:
            is_fit = (states.cpu >= self._cpu) & (states.memory >= self._memory)
            is_fit &= states.devices_if_whole >= self._least_devices
            room = np.where(self._full, is_fit, room)
        for at, shape in self._inside:
            room[:, at] *= [stands_within(key, shape, shape.within) for key in states.keys]
        room *= np.stack([self._allowed(model) for model in states.models])[states.model]
        if self._any_together:
            room = np.where(self._together, room >= self._together, room)
        return room

    def _shares(self, keys: Sequence[StateKey]) -> Counts:
        """Return per state and size of share how many fit; the first column is for requests without a share."""
        rows = [[UNBOUNDED_COUNT, *(_parts(key, milli) for milli in self._millis)] for key in keys]
        return np.array(rows, dtype=np.int64)

    def _whole_sets(self, keys: Sequence[StateKey]) -> Counts:
        """Return per state and required level inside nodes the sets of devices; the first column as in `_shares`."""
        rows = [[UNBOUNDED_COUNT, *(whole_sets(key, gpus, level) for gpus, level in self._sets)] for key in keys]
        return np.array(rows, dtype=np.int64)

    def _allowed(self, model: str) -> NDArray[np.bool_]:
        allowed = self._models.get(model)
        if allowed is None:
            allowed = np.array([allows(shape, model) for shape in self._shapes], dtype=bool)
            self._models[model] = allowed
        return allowed


def _parts(key: StateKey, milli: int) -> int:
    """Return how many shares of this size fit, each rounded up as the node serves it."""
    if key.sizes:
        milli = share_of(milli, key.sizes)
        if not milli:
            return 0
    return sum(share // milli for share in key.shares)


def _times(offered: Counts, asked: Counts) -> Counts:
    """Return how many times `asked` fits in `offered`; unbounded where nothing is requested."""
    return np.where(asked, offered // np.maximum(asked, 1), UNBOUNDED_COUNT)
