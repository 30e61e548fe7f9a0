"""Random faults for the Kubernetes cluster in virtual time: lost answers, late calls, lagging watches, dead nodes.

Also changes of leader, resizes, and people who delete pods. All chance comes from the seed.
"""

import random
from collections.abc import Iterable

from contract.cluster.kubernetes_world import World
from contract.cluster.suite import moment
from kit.kube.fake import node as sample_node
from kit.kube.fake.store import Event, Store
from muster.agent.core.cluster import (
    CreatePods,
    DeletePods,
    Effect,
    NodeLeftSeen,
    NodeLostSeen,
    Observation,
    PodsExitedSeen,
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
)
from muster.agent.core.kubernetes.calls import Bind, Call, Outcome, Refused, Unanswered
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.projections import NodeProjection, PodProjection
from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.kubernetes.worklist import Task
from muster.core import Instant
from muster.kube.objects import JsonObject, mapping, name_of, namespace_of, text
from muster.kube.resources import NODES, PODS
from muster.schemas.job import JobSpec, Slot, TaskGroup

GPUS, AT_ONCE = 4, 6
NAMES = ("n1", "n2", "n3")
Key = tuple[str, int]


class Storm:
    """One history. `step` lets something happen, `heal` ends all faults, `calm` waits until nothing moves."""

    def __init__(self, seed: int, *, resizes: bool) -> None:
        self.chance = random.Random(seed)
        self.resizes = resizes
        self.store = Store()
        self.world = World(self.store)
        self.store.listeners.clear()
        self.events: list[Event] = []
        self.store.listeners.append(self.events.append)
        self.now_s = 0.0
        self.log: list[Effect | tuple[Observation, Instant]] = []
        self.late: list[Call] = []
        self.under_way: list[Task] = []
        self.slots: dict[Key, tuple[Slot, ...]] = {}
        self.resizing: dict[Key, tuple[Slot, ...]] = {}
        self.stopped: set[Key] = set()
        self.started: set[Key] = set()
        self.exited: set[Key] = set()
        self.dead: set[str] = set()
        self.healed = False
        for name in NAMES:
            self.store.create(NODES, sample_node(name, gpus=GPUS))
        self.lead()

    @property
    def now(self) -> Instant:
        self.world.now_s = self.now_s
        return moment(self.now_s)

    def lead(self) -> None:
        """Another leader folds the log and sees everything; calls of the one before may still land."""
        self.late += [task.call for task in self.under_way]
        self.under_way = []
        self.cluster = self.new_cluster(ClusterOptions(cluster="atlas", bind_s=30, lost_s=20, kept_s=50))
        for entry in self.log:
            if isinstance(entry, tuple):
                self.cluster.acknowledge(*entry)
            else:
                self.cluster.carry_out(entry)
        self.events.clear()
        for raw in self.store.all(NODES):
            self.cluster.node_seen(NodeProjection()(raw), self.now)
        for raw in self.store.all(PODS):
            self.cluster.pod_seen(PodProjection()(raw), self.now)
        self.cluster.synced()
        self.cluster.settle(self.now)

    def new_cluster(self, options: ClusterOptions) -> KubernetesCluster:
        """As a new leader has it."""
        return KubernetesCluster(options, PodOrders(PodPolicy(cluster="atlas", image="busybox")))

    def api(self, call: Call) -> Outcome:
        """What the API server does, and would answer."""
        return self.world.do(call)

    def step(self) -> None:
        likely = self.chance.random
        self.now_s += self.chance.choice([0, 0.1, 1, 3])
        if likely() < 0.25:
            self.place()
        if likely() < 0.1:
            self.stop()
        if self.resizes and likely() < 0.15:
            self.resize()
        if likely() < 0.7:
            self.deliver(None if likely() < 0.6 else self.chance.randint(0, 3))
        for _ in range(self.chance.randint(1, 5)):
            self.take()
            self.finish()
        if likely() < 0.5:
            self.kubelets()
        if likely() < 0.6:
            self.tell()
        for share, happens in ((0.03, self.vandalise), (0.03, self.change_node), (0.03, self.lead)):
            if likely() < share:
                happens()
        if self.late and likely() < 0.3:
            self.api(self.late.pop(self.chance.randrange(len(self.late))))

    def heal(self) -> None:
        self.healed = True
        for call in self.late:
            self.api(call)
        self.late = []
        for name in sorted(self.dead):
            self.revive(name)
        self.calm()

    def calm(self) -> None:
        for _ in range(60):
            self.now_s += 2
            self.deliver()
            self.take()
            while self.under_way:
                self.finish()
                self.take()
            self.kubelets()
            self.tell()

    def do(self, effect: Effect) -> None:
        self.log.append(effect)
        self.cluster.carry_out(effect)

    def deliver(self, most: int | None = None) -> None:
        """The watch brings what happened, or only the first of it."""
        most = len(self.events) if most is None else most
        batch, self.events[:] = self.events[:most], self.events[most:]
        for event in batch:
            raw = event.now.obj
            if event.resource == NODES and event.gone:
                self.cluster.node_gone(name_of(raw))
            elif event.resource == NODES:
                self.cluster.node_seen(NodeProjection()(raw), self.now)
            elif event.resource == PODS and event.gone:
                self.cluster.pod_gone(PodProjection()(raw))
            elif event.resource == PODS:
                self.cluster.pod_seen(PodProjection()(raw), self.now)
        self.cluster.settle(self.now)

    def take(self) -> None:
        while len(self.under_way) < AT_ONCE and (task := self.cluster.take(self.now)) is not None:
            self.under_way.append(task)

    def finish(self) -> None:
        if not self.under_way:
            return
        task = self.under_way.pop(self.chance.randrange(len(self.under_way)))
        self.cluster.finished(task, self.outcome(task.call), self.now)
        self.cluster.settle(self.now)

    def outcome(self, call: Call) -> Outcome:
        luck = 1.0 if self.healed else self.chance.random()
        if luck < 0.08:
            return Unanswered("nobody is there")
        if luck < 0.16:
            self.api(call)
            return Unanswered("500, after the work")
        if luck < 0.18 and isinstance(call, Bind):
            return Refused(self.chance.choice([404, 409, 422]), "Conflict", "refused")
        return self.api(call)

    def tell(self) -> None:
        told = list(self.cluster.observe(self.now))
        if not self.healed:
            told = told[: self.chance.randint(0, 5)]
        for seen in told:
            self.check(seen)
            self.log.append((seen, self.now))
            self.cluster.acknowledge(seen, self.now)
            if isinstance(seen, NodeLostSeen | NodeLeftSeen):
                self.end_all_on(seen.node)

    def check(self, seen: Observation) -> None:
        """Once each, in order, and never while what is told to be over still holds a node."""
        if isinstance(seen, PodsStartedSeen):
            key = (seen.job_id, seen.attempt)
            assert key not in self.started | self.exited, f"started twice, or after the exit: {key}"
            self.started.add(key)
        elif isinstance(seen, PodsExitedSeen):
            key = (seen.job_id, seen.attempt)
            assert key not in self.exited, f"exited twice: {key}"
            self.exited.add(key)
            del self.slots[key]
            self.resizing.pop(key, None)
            assert not list(self.holding(key)), f"exit of {key} told while its pods hold nodes"
        elif isinstance(seen, PodsResizedSeen):
            key = (seen.job_id, seen.attempt)
            self.slots[key] = self.resizing.pop(key)
            places = {(slot.group, slot.replica): slot.node for slot in self.slots[key]}
            for view in self.holding(key):
                assert view.member is not None
                assert places.get((view.member.key.group, view.member.key.replica)) == view.node, (
                    f"resize of {key} is not done"
                )

    def run_by(self, key: Key) -> list[str]:
        """Pods of the attempt that run, or did all that they had to."""
        views = (PodProjection()(raw) for raw in self.store.all(PODS))
        mine = [view for view in views if view.member and (view.member.key.job_id, view.member.key.attempt) == key]
        return [view.name for view in mine if view.phase in ("Running", "Succeeded")]

    def holding(self, key: Key) -> Iterable[PodView]:
        """Pods of the attempt that use a living node."""
        for raw in self.store.all(PODS):
            view = PodProjection()(raw)
            if view.member is None or (view.member.key.job_id, view.member.key.attempt) != key or not view.node:
                continue
            if view.end is None and view.node not in self.dead and self.store.find(NODES, view.node) is not None:
                yield view

    def end_all_on(self, node: str) -> None:
        for key, slots in list(self.slots.items()):
            if any(slot.node == node for slot in (*slots, *self.resizing.get(key, ()))):
                self.stopped.add(key)
                self.do(DeletePods(*key, self.now, lost_node=node))

    def free(self) -> list[str]:
        """A node's name for each GPU there that nobody has."""
        used = [
            (node, key, slot.replica)
            for key, slots in self.slots.items()
            for slot in (*slots, *self.resizing.get(key, ()))
            for node in (slot.node,)
        ]
        known = [name for name in NAMES if name in self.cluster.nodes.told and name not in self.dead]
        return [name for name in known for _ in range(GPUS - len({one for one in used if one[0] == name}))]

    def place(self) -> None:
        free = self.free()
        if not free:
            return
        nodes = self.chance.sample(free, min(len(free), self.chance.randint(1, 3)))
        slots = tuple(Slot(group=0, replica=number, node=node, gpus=1) for number, node in enumerate(nodes))
        key = (f"J{len(self.slots) + len(self.exited):025d}", 1)
        group = TaskGroup(gpus=1, replicas=GPUS, min_replicas=1)
        spec = JobSpec(name="job", team="blue", task_groups=(group,), grace_s=20)
        self.slots[key] = slots
        self.do(CreatePods(*key, self.now, slots, spec))

    def stop(self) -> None:
        running = [key for key in self.slots if key not in self.stopped]
        if running:
            self.end(self.chance.choice(running), grace_s=self.chance.choice([0, 5, 20]))

    def end(self, key: Key, *, grace_s: float) -> None:
        self.stopped.add(key)
        self.do(DeletePods(*key, self.now, grace_s=grace_s, evict=self.chance.random() < 0.5))

    def resize(self) -> None:
        """Shrink, grow, or move the last replica."""
        able = [key for key in self.slots if key in self.started and key not in self.stopped | set(self.resizing)]
        free = self.free()
        if not able or not free:
            return
        key = self.chance.choice(able)
        slots, node = list(self.slots[key]), self.chance.choice(free)
        match self.chance.choice(("shrink", "grow", "move")):
            case "shrink" if len(slots) > 1:
                slots.pop()
            case "grow" if len(slots) < GPUS:
                slots.append(Slot(group=0, replica=len(slots), node=node, gpus=1))
            case _ if node != slots[-1].node:
                slots[-1] = slots[-1].model_copy(update={"node": node})
            case _:
                return
        self.resizing[key] = tuple(slots)
        self.do(ResizePods(*key, self.now, tuple(slots), self.chance.choice([0, 10, 60])))

    def kubelets(self) -> None:
        for raw in self.store.all(PODS):
            node, phase = text(raw, "spec", "nodeName"), text(raw, "status", "phase")
            if not node or node in self.dead or (not self.healed and self.chance.random() < 0.5):
                continue
            if self.store.find(NODES, node) is None:
                self.store.delete(PODS, name_of(raw), namespace_of(raw), grace_s=0)
            elif text(raw, "metadata", "deletionTimestamp"):
                if phase == "Running":
                    self.say(raw, "Failed", {"terminated": {"exitCode": 143}})
                else:
                    self.store.delete(PODS, name_of(raw), namespace_of(raw), grace_s=0)
            elif phase == "Pending":
                self.say(raw, "Running", {"running": {}})
            elif phase == "Running" and not self.healed and self.chance.random() < 0.06:
                code = self.chance.choice([0, 0, 1])
                self.say(raw, "Failed" if code else "Succeeded", {"terminated": {"exitCode": code}})

    def say(self, raw: JsonObject, phase: str, state: JsonObject) -> None:
        status = {**mapping(raw, "status"), "phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
        self.store.replace(PODS, name_of(raw), {"metadata": {}, "status": status}, namespace_of(raw), status=True)

    def vandalise(self) -> None:
        """Somebody deletes a pod behind Muster's back."""
        pods = [raw for raw in self.store.all(PODS) if PodProjection()(raw).end is None]
        if pods:
            raw = self.chance.choice(pods)
            self.store.delete(PODS, name_of(raw), namespace_of(raw), grace_s=self.chance.choice([0, 0, 5]))

    def change_node(self) -> None:
        name = self.chance.choice(NAMES)
        if name in self.dead:
            self.revive(name)
        elif len(self.dead) < 2:
            self.dead.add(name)
            if self.chance.random() < 0.4:
                self.store.delete(NODES, name)
            else:
                self.world.set_ready(name, ready=False)

    def revive(self, name: str) -> None:
        self.dead.discard(name)
        if self.store.find(NODES, name) is None:
            self.store.create(NODES, sample_node(name, gpus=GPUS))
        else:
            self.world.set_ready(name, ready=True)
