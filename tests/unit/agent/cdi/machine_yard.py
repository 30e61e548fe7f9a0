"""MachineSets without a cluster: patches change them as an API server would, and machines follow their replicas."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.calls import Done, Merge, Outcome, Refused, Unanswered
from muster.agent.core.kubernetes.cdi.machine_sets import (
    SCALE,
    MachinePolicy,
    MachineSets,
    MachineSetView,
    MachineView,
    project_machine,
    project_machine_set,
)
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import NS_PER_S, Instant
from muster.kube.objects import JsonObject, integer, strings, text

START = Instant(1_700_000_000 * NS_PER_S)
GROUP, SET = "hgx", "hgx-machines"
FIXED = {"muster.dev/spec": "spec-fixed"}


@dataclass
class Stored:
    """An object as the API server has it. version grows with every write."""

    body: JsonObject
    version: int = 1

    def shown(self) -> JsonObject:
        metadata = {**self.body["metadata"], "resourceVersion": str(self.version)}
        return {**self.body, "metadata": metadata}


@dataclass
class Yard:
    """One MachineSet and its machines. loses: answers of the next patches that are lost after they were done."""

    replicas: int = 1
    fixed: Mapping[str, str] = field(default_factory=dict)
    loses: int = 0
    refuses: int = 0

    def __post_init__(self) -> None:
        self.now = START
        self.made = 0
        self.patches: list[Merge] = []
        self.set = Stored(
            {"metadata": {"name": SET, "uid": "set", "annotations": {}}, "spec": {"replicas": self.replicas}}
        )
        self.machines: dict[str, Stored] = {}
        self.policy = MachinePolicy(sets={GROUP: SET}, fixed={GROUP: dict(self.fixed)} if self.fixed else {})
        self.lead()
        self.follow(old=True)
        self.run()

    # --- who leads ---

    def lead(self) -> None:
        """A leader that knows nothing but what it sees; what the log says is told by the test."""
        self.worklist = Worklist()
        self.core = MachineSets(self.policy, self.worklist)
        self.told: list[str] = []
        self.core.tell = self.told.append
        self.show()
        self.core.synced()

    def run(self) -> None:
        """Make all calls until none is left, and show what came of them."""
        for _ in range(100):
            self.core.settle(self.now)
            task = self.worklist.take(self.now)
            if task is None:
                return
            assert isinstance(task.call, Merge)
            self.worklist.finished(task, self._answer(task.call), self.now)
            self.show()
        raise AssertionError("calls never end")

    def later(self, seconds: float) -> None:
        self.now = Instant(self.now + round(seconds * NS_PER_S))
        self.run()

    def _answer(self, call: Merge) -> Outcome:
        self.patches.append(call)
        if self.refuses:
            self.refuses -= 1
            return Refused(403, "Forbidden", "not yours")
        stored = self.set if call.name == SET else self.machines[call.name]
        version = text(call.body, "metadata", "resourceVersion")
        if version and version != str(stored.version):
            return Refused(409, "Conflict")
        annotations = {
            **strings(stored.body, "metadata", "annotations"),
            **strings(call.body, "metadata", "annotations"),
        }
        stored.body["metadata"] = {**stored.body["metadata"], "annotations": annotations}
        if "spec" in call.body:
            stored.body["spec"] = call.body["spec"]
        stored.version += 1
        if self.loses:
            self.loses -= 1
            return Unanswered("the connection broke")
        return Done(stored.shown())

    # --- what the world does ---

    def show(self) -> None:
        self.core.set_seen(self.view())
        for stored in self.machines.values():
            self.core.machine_seen(self.machine(stored))

    def view(self) -> MachineSetView:
        return project_machine_set(self.set.shown(), kept=self.policy.annotations)

    def machine(self, stored: Stored) -> MachineView:
        view = project_machine(stored.shown(), delete_mark=self.policy.delete_mark)
        assert view is not None
        return view

    def follow(self, *, old: bool = False) -> list[str]:
        """The MachineSet makes or deletes machines until there are as many as it says. old: with nodes."""
        wanted = integer(self.set.body, "spec", "replicas")
        while len(self.machines) < wanted:
            self.made += 1
            name = f"m{self.made}"
            self.machines[name] = Stored(
                {"metadata": {"name": name, "uid": f"u{name}", "annotations": {},
                              "creationTimestamp": "2001-01-01T00:00:00Z" if old else "2030-01-01T00:00:00Z",
                              "ownerReferences": [{"kind": "MachineSet", "name": SET}]}, "status": {}}
            )  # fmt: skip
            if old:
                self.become_node(name)
        while len(self.machines) > wanted:
            marked = [name for name, one in self.machines.items() if self.machine(one).is_marked]
            name = (marked or sorted(self.machines))[0]
            del self.machines[name]
            self.core.machine_gone(name)
        self.show()
        return list(self.machines)

    def become_node(self, name: str) -> str:
        node = f"node-of-{name}"
        self.machines[name].body["status"] = {"nodeRef": {"name": node}}
        self.machines[name].version += 1
        self.show()
        return node

    def replicas_now(self) -> int:
        return integer(self.set.body, "spec", "replicas")

    def scales(self) -> dict[str, str]:
        """The choice for which each machine came."""
        return {name: text(one.body, "metadata", "annotations", SCALE) for name, one in self.machines.items()}

    def somebody_sets(self, replicas: int) -> None:
        self.set.body["spec"] = {"replicas": replicas}
        self.set.version += 1
        self.show()

    def ready(self, count: int) -> None:
        self.set.body["status"] = {"readyReplicas": count}
        self.set.version += 1
        self.show()
