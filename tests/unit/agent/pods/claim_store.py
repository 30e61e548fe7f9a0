"""An API server of claims and services in memory, one call at a time, with versions and a watch in their order."""

import copy
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.calls import (
    Bind,
    Call,
    Create,
    Delete,
    Done,
    Evict,
    Kind,
    Merge,
    Outcome,
    Read,
    Refused,
    Replace,
)
from muster.kube.objects import JsonObject, mapping, sequence, text, uid_of, version_of

Key = tuple[Kind, str, str]


@dataclass
class ClaimStore:
    """events: every change of a claim, for whoever follows; None where it went."""

    objects: dict[Key, JsonObject] = field(default_factory=dict)
    events: list[tuple[tuple[str, str], JsonObject | None]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    version: int = 0

    def claims(self) -> list[JsonObject]:
        """All that are there."""
        return [one for (kind, _, _), one in self.objects.items() if kind is Kind.CLAIMS]

    def pod(self, namespace: str, name: str, uid: str, *, phase: str = "Pending") -> None:
        """A pod is so."""
        metadata: JsonObject = {"name": name, "namespace": namespace, "uid": uid}
        self.objects[Kind.PODS, namespace, name] = {"metadata": metadata, "status": {"phase": phase}}

    def make(self, call: Call) -> Outcome:
        """What the server would answer."""
        self.calls.append(call)
        assert not isinstance(call, Bind | Evict)
        key = (call.kind, call.namespace, call.name)
        there = self.objects.get(key)
        if isinstance(call, Create):
            if there is not None:
                return Refused(409, "AlreadyExists")
            made = copy.deepcopy(call.body)
            made.pop("status", None)
            mapping(made, "metadata")["uid"] = f"uid-{self.version + 1}"
            return self._keep(key, made)
        if there is None:
            return Refused(404, "NotFound")
        match call:
            case Read():
                return Done(copy.deepcopy(there))
            case Replace():
                if version_of(call.body) != version_of(there):
                    return Refused(409, "Conflict")
                assert call.subresource == "status"
                return self._keep(key, {**copy.deepcopy(there), "status": copy.deepcopy(call.body["status"])})
            case Merge():
                return self._merged(key, there, call)
            case Delete():
                return self._deleted(key, there, call)

    def _merged(self, key: Key, there: JsonObject, call: Merge) -> Outcome:
        change = mapping(call.body, "metadata")
        if change.get("resourceVersion", version_of(there)) != version_of(there):
            return Refused(409, "Conflict")
        made = copy.deepcopy(there)
        metadata = mapping(made, "metadata")
        metadata["finalizers"] = change["finalizers"]
        metadata["labels"] = mapping(metadata, "labels") | mapping(change, "labels")
        if text(made, "metadata", "deletionTimestamp") and not change["finalizers"]:
            return self._dropped(key, made)
        return self._keep(key, made)

    def _deleted(self, key: Key, there: JsonObject, call: Delete) -> Outcome:
        if call.uid and call.uid != uid_of(there):
            return Refused(409, "Conflict")
        if not sequence(there, "metadata", "finalizers"):
            return self._dropped(key, there)
        made = copy.deepcopy(there)
        mapping(made, "metadata")["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return self._keep(key, made)

    def _dropped(self, key: Key, there: JsonObject) -> Outcome:
        del self.objects[key]
        if key[0] is Kind.CLAIMS:
            self.events.append((key[1:], None))
        return Done(copy.deepcopy(there))

    def _keep(self, key: Key, made: JsonObject) -> Outcome:
        self.version += 1
        mapping(made, "metadata")["resourceVersion"] = str(self.version)
        self.objects[key] = made
        if key[0] is Kind.CLAIMS:
            self.events.append((key[1:], copy.deepcopy(made)))
        return Done(copy.deepcopy(made))


@dataclass
class Follower:
    """Reads the store's events from the beginning, one by one."""

    store: ClaimStore
    seen: int = 0

    def next(self) -> tuple[tuple[str, str], JsonObject | None] | None:
        """The next one; None if there is none."""
        if self.seen == len(self.store.events):
            return None
        self.seen += 1
        return self.store.events[self.seen - 1]
