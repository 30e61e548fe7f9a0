"""A cluster around the composer, in virtual time: its log, and small stand-ins for the scheduler and the agent.

The scheduler answers `withhold-requested` (sometimes late) and releases new devices; the agent reports on its nodes the
devices that the log has as attached. Both are functions of the seed and of the facts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from muster.core import NS_PER_S, Core, Draft, Fact, Instant, after
from muster.core.seeded import uniform
from muster.core.virtual import VirtualCluster
from muster.schemas.facts.device import DeviceAttached, DeviceDetached
from muster.schemas.facts.node import (
    DrainRequest,
    GrantState,
    NodeJoined,
    NodeState,
    Released,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.registry import STATE_NAME

START = Instant(2_000_000_000 * NS_PER_S)
CLUSTER = "sim"
TICK_NS = NS_PER_S // 10
"""Granularity of virtual time: facts come in bursts."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of the stand-ins, in seconds; `late_share` of the scheduler's grants take `late_s`."""

    visible_s: float = 2.0
    grant_s: float = 0.5
    append_s: float = 0.2
    """From a decision of the scheduler until it is in the log."""
    late_share: float = 0.02
    late_s: float = 29.9


class SharedLog(VirtualCluster):
    """A log that the stand-ins fold after the cores, in the order of `folds`."""

    def __init__(self, cores: Mapping[str, Core]) -> None:
        super().__init__(CLUSTER, start=START, cores=cores, tick_ns=TICK_NS, watch=self._told)
        self.folds: list[Callable[[Fact], None]] = []

    def _told(self, fact: Fact) -> None:
        for fold in self.folds:
            fold(fact)


@dataclass
class _Grant:
    """The scheduler's state of a device or node that has requests or is not released."""

    released: bool = True
    wishes: dict[str, bool] = field(default_factory=dict)


class SchedulerStandIn:
    """Grants drain requests as the scheduler does in a cluster without jobs, with a delay.

    A grant that crosses a withdrawal holds until it is released.
    """

    def __init__(self, log: SharedLog, *, seed: int, delays: Delays) -> None:
        self._log, self._seed, self._delays = log, seed, delays
        self._grants: dict[tuple[str, str], _Grant] = {}
        log.folds.append(self._fold)

    @property
    def withheld(self) -> int:
        """Return the number of devices and nodes that are drained for a request."""
        return sum(1 for grant in self._grants.values() if any(grant.wishes.values()))

    def states(self) -> Iterator[Draft]:
        """Yield the scheduler's part of a checkpoint."""
        for (kind, name), grant in self._grants.items():
            requests = tuple(
                DrainRequest(request_id=request, answered=answered) for request, answered in grant.wishes.items()
            )
            is_withheld = bool(requests) and all(grant.wishes.values())
            state = GrantState(released=grant.released, wishes=requests, withheld=is_withheld)
            yield Draft(kind, name, STATE_NAME, state)

    def renew(self, kind: str, name: str) -> None:
        """Release a new device or node."""
        self._grants[kind, name] = _Grant(released=False)
        self._soon(lambda: self._release(kind, name), kind, name, "release")

    def forget(self, uuid: str) -> None:
        """Remove the state of a device that has left its node."""
        self._grants.pop(("device", uuid), None)

    def _fold(self, fact: Fact) -> None:
        key, payload = (fact.kind, fact.subject_id), fact.payload
        if isinstance(payload, WithholdRequested):
            self._grants.setdefault(key, _Grant()).wishes[payload.request_id] = False
            self._soon(lambda: self._decide(key, payload.request_id, fact.id), *key, payload.request_id)
        elif isinstance(payload, WithholdWithdrawn):
            self._withdraw(key, payload)

    def _withdraw(self, key: tuple[str, str], payload: WithholdWithdrawn) -> None:
        grant = self._grants.get(key)
        answered = grant.wishes.get(payload.request_id) if grant is not None else None
        if grant is None or answered is None or (answered and not payload.after_withheld):
            return
        del grant.wishes[payload.request_id]
        if answered:
            grant.released = False
            self._soon(lambda: self._release(*key), *key, payload.request_id, "release")

    def _decide(self, key: tuple[str, str], request_id: str, fact: str) -> None:
        grant = self._grants.get(key)
        if grant is not None and grant.wishes.get(request_id) is False:
            said_at = after(self._log.now, self._delays.append_s)
            self._log.at(said_at, lambda: self._answer(key, request_id, fact))

    def _answer(self, key: tuple[str, str], request_id: str, fact: str) -> None:
        self._grants.setdefault(key, _Grant()).wishes[request_id] = True
        self._log.write("scheduler", *key, "withheld", Withheld(request_id=request_id), causes=(fact,))

    def _release(self, kind: str, name: str) -> None:
        grant = self._grants.get((kind, name))
        if grant is None or grant.wishes:
            return
        del self._grants[kind, name]
        self._log.write("scheduler", kind, name, "released", Released())

    def _soon(self, act: Callable[[], None], *purpose: str) -> None:
        delays, drawn = self._delays, uniform(self._seed, "grant", *purpose)
        delay_s = delays.late_s if drawn < delays.late_share else delays.grant_s * (0.2 + drawn)
        self._log.at(after(self._log.now, delay_s), act)


class AgentStandIn:
    """Reports attached devices on the nodes of their machines, with a delay."""

    def __init__(
        self,
        log: SharedLog,
        scheduler: SchedulerStandIn,
        *,
        group: str,
        nodes: dict[str, str],
        delays: Delays,
    ) -> None:
        self._log, self._scheduler, self._delays = log, scheduler, delays
        self._group, self._machines = group, nodes
        self._shown: dict[str, list[str]] = {name: [] for name in nodes}
        self._model: dict[str, str] = {}
        log.folds.append(self._fold)

    def start(self) -> None:
        """Let all nodes join and be released."""
        for name in self._machines:
            self._log.write("agent", "node", name, "joined", self._description(name))
            self._log.write("scheduler", "node", name, "released", Released())

    def states(self) -> Iterator[Draft]:
        """Yield the agent's part of a checkpoint, and the scheduler's part for its nodes."""
        for name in self._machines:
            yield Draft("node", name, STATE_NAME, NodeState(description=self._description(name)))
            yield Draft("node", name, STATE_NAME, GrantState(released=True))

    def _fold(self, fact: Fact) -> None:
        payload = fact.payload
        if isinstance(payload, DeviceAttached) and payload.node in self._machines:
            self._log.at(after(self._log.now, self._delays.visible_s), lambda: self._plug(payload))
        elif isinstance(payload, DeviceDetached) and payload.node in self._machines:
            self._log.at(after(self._log.now, 0.1), lambda: self._unplug(payload.node, payload.device_uuid))

    def _plug(self, device: DeviceAttached) -> None:
        shown = self._shown[device.node]
        if device.device_uuid in shown:
            return
        shown.append(device.device_uuid)
        self._model[device.node] = device.model
        self._log.write("agent", "node", device.node, "joined", self._description(device.node))
        self._scheduler.renew("device", device.device_uuid)

    def _unplug(self, node: str, uuid: str) -> None:
        if uuid in self._shown[node]:
            self._shown[node].remove(uuid)
            self._log.write("agent", "node", node, "joined", self._description(node))
            self._scheduler.forget(uuid)

    def _description(self, name: str) -> NodeJoined:
        shown = tuple(self._shown[name])
        return NodeJoined(
            cpu_milli=64_000, memory_mib=524_288, gpu_model=self._model.get(name, "") if shown else "",
            gpu_uuids=shown, group=self._group, machine=self._machines[name],
        )  # fmt: skip
