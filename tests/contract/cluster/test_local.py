"""The cluster of local processes keeps the contract of all clusters: its pure part, with processes in virtual time."""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from contract.cluster.simulated_fleet import FLEET
from contract.cluster.suite import ClusterContract, create, moment
from muster.agent.core.cluster import (
    Cluster,
    Effect,
    NodeLostSeen,
    Observation,
    OpenGate,
    PodsExitedSeen,
    PodsStartedSeen,
    WorkSeen,
)
from muster.agent.core.local.attempt import Key, StartProcess, StopProcess
from muster.agent.core.local.cluster import LocalCluster
from muster.core import NS_PER_S, Instant
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.facts.operations import ActionOutcome, CheckOutcome, NodeActionEnded
from muster.schemas.job import Slot
from muster.schemas.labels import EXIT_CODE, RUN_S

from contract.cluster.checked import to_check  # isort: skip
from contract.cluster.worked_on import reboot  # isort: skip

START_S = 10.0
LATENESS = 1.08
SAVE_S = 5.0
TERM, KILL = 143, 137


@dataclass
class Machine:
    """Processes in virtual time: they begin START_S after the order, run as their labels say, and obey at once."""

    cluster: LocalCluster
    now_s: float = 0.0
    living: dict[tuple[Key, Slot], StartProcess] = field(default_factory=dict)
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), act))

    def next_s(self) -> float | None:
        return self._due[0][0] if self._due else None

    def advance(self, to_s: float) -> None:
        while self._due and self._due[0][0] <= to_s:
            self.now_s, _, act = heapq.heappop(self._due)
            act()
            self.work()
        self.now_s = max(self.now_s, to_s)

    def work(self) -> None:
        while (order := self.cluster.take()) is not None:
            match order:
                case StartProcess():
                    self.living[order.key, order.slot] = order
                    self.at(self.now_s + START_S, lambda order=order: self._begin(order))  # type: ignore[misc]
                case StopProcess():
                    self._stop(order)

    def _begin(self, order: StartProcess) -> None:
        if (order.key, order.slot) not in self.living:
            return
        self.cluster.began(order.key, order.slot, moment(self.now_s))
        restart_s = 10.0 if order.resumed_s else 0.0
        run_s = float(order.spec.labels[RUN_S]) - order.resumed_s + restart_s
        self.at(self.now_s + run_s, lambda: self._end(order.key, order.slot, int(order.spec.labels[EXIT_CODE])))
        if order.spec.checkpointing is not None:
            self._save_every(order, order.spec.checkpointing.interval_s * LATENESS)

    def _save_every(self, order: StartProcess, interval_s: float) -> None:
        def save() -> None:
            if (order.key, order.slot) in self.living:
                self.cluster.saved(order.key)
                self._save_every(order, interval_s)

        self.at(self.now_s + interval_s, save)

    def _stop(self, order: StopProcess) -> None:
        process = self.living.get((order.key, order.slot))
        if process is None:
            return
        if order.grace_s and process.spec.checkpointing is not None:
            self.at(self.now_s + SAVE_S, lambda: self._save_and_end(order))
        else:
            self._end(order.key, order.slot, TERM if order.grace_s else KILL)

    def _save_and_end(self, order: StopProcess) -> None:
        if (order.key, order.slot) in self.living:
            self.cluster.saved(order.key)
            self._end(order.key, order.slot, TERM)

    def _end(self, key: Key, slot: Slot, code: int) -> None:
        if self.living.pop((key, slot), None) is not None:
            self.cluster.exited(key, slot, code, at=moment(self.now_s))


class Driven:
    """Implements `Cluster`: who works the orders does so at once."""

    def __init__(self) -> None:
        self.cluster = LocalCluster(FLEET)
        self.machine = Machine(self.cluster)

    def carry_out(self, effect: Effect) -> None:
        self.machine.advance((effect.at - moment(0)) / NS_PER_S if hasattr(effect, "at") else 0)
        self.cluster.carry_out(effect)
        self.machine.work()

    def observe(self, now: Instant) -> Sequence[Observation]:
        self.machine.advance((now - moment(0)) / NS_PER_S)
        return self.cluster.observe(now)

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        self.cluster.acknowledge(observation, at)
        self.machine.work()

    def next_change(self) -> Instant | None:
        moments = [self.cluster.next_change()]
        if (next_s := self.machine.next_s()) is not None:
            moments.append(moment(next_s))
        return min((one for one in moments if one is not None), default=None)


class TestLocalCluster(ClusterContract):
    def new_cluster(self) -> Cluster:
        return Driven()

    def lose_node(self, cluster: Cluster, node: str, *, at_s: float) -> None:
        """The machine is there while its agent is; but what the log says of another one's time counts."""
        cluster.acknowledge(NodeLostSeen(node), moment(at_s))

    def test_what_had_begun_is_lost_with_the_agent_and_what_had_not_begins_anew(self) -> None:
        cluster = self.running()
        assert isinstance(cluster, Driven)
        cluster.carry_out(create(job_id="K" * 26, at_s=11))
        cluster.machine.living.clear()
        cluster.cluster.reset(moment(12))
        cluster.machine.work()
        lost, started = sorted(self.settle(cluster, 60), key=lambda seen: type(seen).__name__)
        assert isinstance(lost, PodsExitedSeen)
        assert (lost.exited.outcome, lost.exited.node, lost.job_id) == (PodsOutcome.NODE_LOST, "gpu-0001", "J" * 26)
        assert isinstance(started, PodsStartedSeen)
        assert started.job_id == "K" * 26

    def test_who_never_led_started_nothing_and_one_who_begins_to_lead_starts_what_lives(self) -> None:
        """A follower folds whole logs: what began and ended in them asks for no process."""
        cluster = LocalCluster(FLEET)
        for number in range(3):
            job_id = str(number) * 26
            cluster.carry_out(create(job_id=job_id))
            if number:
                cluster.acknowledge(
                    PodsExitedSeen(job_id, PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED)), moment(5)
                )
        cluster.reset(moment(6))
        orders = list(iter(cluster.take, None))
        assert [order.key for order in orders] == [("0" * 26, 1)]

    def test_what_it_cannot_do_to_a_node_or_check_is_told_so_and_the_gate_still_opens(self) -> None:
        cluster = self.joined()
        cluster.carry_out(reboot())
        (refused,) = self.settle(cluster, 1)
        assert isinstance(refused, WorkSeen)
        assert isinstance(refused.ended, NodeActionEnded)
        assert refused.ended.outcome is ActionOutcome.CANNOT_RUN
        cluster.acknowledge(refused, moment(1))
        cluster.carry_out(to_check(run_s=50.0, at_s=1))
        (started,) = self.settle(cluster, 2)
        cluster.acknowledge(started, moment(2))
        (found,) = self.settle(cluster, 3)
        assert {one.outcome for one in found.results} == {CheckOutcome.CANNOT_RUN}  # type: ignore[union-attr]
        cluster.acknowledge(found, moment(3))
        assert self.settle(cluster, 100) == ()
        cluster.carry_out(OpenGate("J" * 26, 1, moment(100)))
        (ended,) = self.settle(cluster, 161)
        assert isinstance(ended, PodsExitedSeen)
        assert (ended.exited.outcome, ended.exited.ran_s) == (PodsOutcome.SUCCEEDED, 50.0)
