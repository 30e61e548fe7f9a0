"""Objects that ask for devices, the real composer that serves them, and the agent's part between them."""

from typing import Any

from kit.composer_fabrics import A100
from kit.kube.fake.patches import merged
from muster.agent.core.kubernetes.calls import Done, Merge, Outcome, Refused
from muster.agent.core.kubernetes.cdi.requests import Requests, project_request
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Draft, Fact
from unit.agent.cdi.agent_harness import AgentHarness


class RequestHarness(AgentHarness[Requests]):
    """objects: by name, as the API server has them; deleted ones with a finalizer stay."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.lead(())

    def lead(self, facts: tuple[Fact, ...] | list[Fact]) -> None:
        """A new agent that folded these facts, and sees the objects."""
        self.worklist = Worklist()
        self.part = Requests(self.worklist)
        for fact in facts:
            self.part.apply(fact)
        for name in self.objects:
            self.show_object(name)
        self.part.synced()

    def append(self, writer: str, draft: Draft, **rest: str) -> Fact:
        fact = super().append(writer, draft, **rest)
        self.part.apply(fact)
        return fact

    # --- objects ---

    def apply(self, name: str, **resource: object) -> None:
        """`kubectl apply`."""
        self.version += 1
        known = self.objects.get(name, {"metadata": {"name": name, "uid": f"u{self.version}"}, "status": {}})
        known["spec"] = {"resource": {"type": "gpu", "model": A100, "size": 1, **resource}}
        self._store(name, known)

    def delete(self, name: str) -> None:
        """`kubectl delete`: it goes once no finalizer keeps it."""
        known = self.objects[name]
        known["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        self._store(name, known)

    def _store(self, name: str, raw: dict[str, Any]) -> None:
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        if raw["metadata"].get("deletionTimestamp") and not raw["metadata"].get("finalizers"):
            del self.objects[name]
            self.part.object_gone(name)
            return
        self.objects[name] = raw
        self.show_object(name)

    def show_object(self, name: str) -> None:
        self.part.object_seen(project_request(self.objects[name]))

    def status(self, name: str) -> dict[str, Any]:
        return self.objects[name]["status"]

    # --- the agent ---

    def answer(self, call: object) -> Outcome:
        assert isinstance(call, Merge)
        raw = self.objects.get(call.name)
        if raw is None:
            return Refused(404, "NotFound")
        metadata = call.body.get("metadata", {})
        if metadata.get("resourceVersion", raw["metadata"]["resourceVersion"]) != raw["metadata"]["resourceVersion"]:
            return Refused(409, "Conflict")
        if call.subresource == "status":
            raw["status"] = merged(raw["status"], call.body["status"])
        else:
            raw["metadata"]["finalizers"] = metadata["finalizers"]
        self._store(call.name, raw)
        return Done(raw)

    def bring_all(self) -> None:
        """Every device that is wanted is attached, shown and usable."""
        self.run()
        while self.fabrics.attaching:
            for call in self.fabrics.attaching:
                self.fabrics.finish(call)
            self.run()
        self.plug()
        self.run()

    def take_all(self) -> None:
        """Everything that is asked to go goes."""
        self.run()
        self.withhold()
        self.run()
        for call in self.fabrics.detaching:
            self.fabrics.finish(call)
        self.run()
