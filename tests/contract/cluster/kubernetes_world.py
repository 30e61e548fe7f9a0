"""A Kubernetes in virtual time: a store of objects, kubelets that run what is bound, and programs as labels say.

A program starts START_S after its pod was bound, runs as long as its label says, writes a checkpoint a little later
than every interval, and obeys a deletion at once, or after its last checkpoint. It says "done" when it ends by itself.
A pod with checks runs them first, and waits for its gate; a Job is one pod on the node that it names.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

from contract.cluster.suite import START_S as EPOCH_S
from kit.kube.fake import Refusal, Store, node
from kit.kube.fake.store import Event
from muster.agent.core.behaviour import Behaviour, notice_s, restart_s, run_plan
from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes import names
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
)
from muster.agent.core.kubernetes.names import CHECKS, GATE_ANNOTATION
from muster.checks.report import dump
from muster.kube import resources
from muster.kube.objects import JsonObject, integer, mapping, name_of, namespace_of, objects, strings, text, uid_of
from muster.kube.resources import NODES, PODS, Resource
from muster.schemas.facts.operations import CheckOutcome, CheckResult, PreflightPlan

START_S = 8.0
CHECKS_S = 5.0
WORK_S = 20.0
CHECKPOINT_LATENESS = 1.1
BEHAVIOUR = Behaviour(seed=1)
BY_TITLE = {value.title: value for value in vars(resources).values() if isinstance(value, Resource)}


@dataclass
class World:
    """plans: what the pods of a job (as labelled) and attempt do. on_event: called after each thing that happened.

    bad_nodes: check that fails there, by node.
    """

    store: Store
    now_s: float = 0.0
    plans: dict[tuple[str, str], CreatePods] = field(default_factory=dict)
    on_event: Callable[[], None] = lambda: None
    bad_nodes: dict[str, str] = field(default_factory=dict)
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.store.now = self.clock
        self.store.listeners.append(self.see)
        for title in ("pods", "nodes", "services", "namespaces", "resourceclaims.resource.k8s.io", "jobs.batch"):
            self.store.register(BY_TITLE[title])
        for name in ("muster-jobs", "muster-nodes"):
            self.store.create(BY_TITLE["namespaces"], {"metadata": {"name": name}})

    def clock(self) -> datetime:
        return datetime.fromtimestamp(EPOCH_S, tz=UTC) + timedelta(seconds=self.now_s)

    def stamp(self) -> str:
        return self.clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def add_node(self, name: str, *, gpus: int = 8) -> None:
        self.store.create(NODES, node(name, gpus=gpus))

    def set_ready(self, name: str, *, ready: bool) -> None:
        status = dict(mapping(self.store.get(NODES, name), "status"))
        status["conditions"] = [{"type": "Ready", "status": "True" if ready else "Unknown", "message": "no heartbeat"}]
        self.store.replace(NODES, name, {"metadata": {}, "status": status}, status=True)

    def plan(self, order: CreatePods) -> None:
        self.plans[names.job_label(order.job_id), str(order.attempt)] = order

    def plan_of(self, pod: JsonObject) -> CreatePods:
        labels = strings(pod, "metadata", "labels")
        return self.plans[labels[names.JOB_LABEL], labels[names.ATTEMPT_LABEL]]

    def add_work(self, job: JsonObject) -> None:
        """What a Job's controller and the kubelet make of it: one pod, which says what it was asked to find."""
        template, name = mapping(job, "spec", "template"), name_of(job)
        pod = {"metadata": {**mapping(template, "metadata"), "name": f"{name}-x"}, "spec": mapping(template, "spec")}
        made = self.store.create(PODS, pod, namespace_of(job))
        self.at(self.now_s + WORK_S, lambda: self._worked(made))

    def _worked(self, pod: JsonObject) -> None:
        if (now := self._now(pod)) is not None:
            said = dump(list(self._found(now))) if _plan_of(now) else "version=1.2.3"
            over = {"exitCode": 0, "finishedAt": self.stamp(), "message": said}
            self._say(now, phase="Succeeded", containerStatuses=[{"name": "work", "state": {"terminated": over}}])

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), act))

    def next_s(self) -> float | None:
        return self._due[0][0] if self._due else None

    def advance(self, to_s: float) -> None:
        """Let time pass. What happens at one moment happens in order."""
        while self._due and self._due[0][0] <= to_s:
            self.now_s, _, act = heapq.heappop(self._due)
            act()
            self.on_event()
        self.now_s = max(self.now_s, to_s)

    def see(self, event: Event) -> None:
        """The kubelets look at every change of a pod."""
        if event.resource != PODS or event.gone or names.WORK_LABEL in strings(event.now.obj, "metadata", "labels"):
            return
        now, before = event.now.obj, None if event.before is None else event.before.obj
        if text(now, "spec", "nodeName") and not text(before, "spec", "nodeName"):
            self.at(self.now_s + START_S, lambda: self._begin(now))
        if _gate(now) and not _gate(before):
            self.at(self.now_s + 1.0, lambda: self._start(now))
        if text(now, "metadata", "deletionTimestamp") and not text(before, "metadata", "deletionTimestamp"):
            self._asked_to_end(now)

    def _asked_to_end(self, pod: JsonObject) -> None:
        plan = self.plan_of(pod)
        grace_s = float(integer(pod, "metadata", "deletionGracePeriodSeconds"))
        delay_s = None
        if text(pod, "status", "phase") == "Running":
            delay_s = notice_s(BEHAVIOUR, plan.spec, job_id=plan.job_id, attempt=plan.attempt, grace_s=grace_s)
        self.at(self.now_s + (delay_s or 0.0), lambda: self._stop(pod, saves=delay_s is not None))

    def _now(self, pod: JsonObject) -> JsonObject | None:
        now = self.store.find(PODS, name_of(pod), namespace_of(pod))
        return now if now is not None and uid_of(now) == uid_of(pod) else None

    def _begin(self, pod: JsonObject) -> None:
        if not objects(pod, "spec", "initContainers"):
            self._start(pod)
        elif (now := self._now(pod)) is not None:
            running = {"name": CHECKS, "state": {"running": {"startedAt": self.stamp()}}}
            self._say(now, phase="Pending", initContainerStatuses=[running])
            self.at(self.now_s + CHECKS_S, lambda: self._report(pod))

    def _report(self, pod: JsonObject) -> None:
        if (now := self._now(pod)) is not None:
            over = {"exitCode": 0, "finishedAt": self.stamp(), "message": dump(list(self._found(now)))}
            self._say(now, initContainerStatuses=[{"name": CHECKS, "state": {"terminated": over}}])

    def _found(self, pod: JsonObject) -> Iterator[CheckResult]:
        node = text(pod, "spec", "nodeName")
        for order in PreflightPlan.model_validate_json(_plan_of(pod)).checks:
            outcome = CheckOutcome.FAIL if self.bad_nodes.get(node) == order.check else CheckOutcome.PASS
            yield CheckResult(node=node, check=order.check, outcome=outcome)

    def _start(self, pod: JsonObject) -> None:
        now = self._now(pod)
        if now is None or text(now, "metadata", "deletionTimestamp"):
            return
        plan = self.plan_of(pod)
        device = {"name": "nvidia.com/gpu", "resources": [{"resourceID": f"GPU-{name_of(pod)}", "health": "Healthy"}]}
        self._say(
            now,
            phase="Running",
            containerStatuses=[
                {
                    "name": "main",
                    "state": {"running": {"startedAt": self.stamp()}},
                    "allocatedResourcesStatus": [device],
                }
            ],
        )
        run = run_plan(BEHAVIOUR, plan.spec, job_id=plan.job_id, attempt=plan.attempt, resumed_s=plan.resumed_s)
        self.at(self.now_s + run.run_s, lambda: self._end(pod, run.exit_code))
        saving = plan.spec.checkpointing
        if saving is not None:
            every_s = saving.interval_s * CHECKPOINT_LATENESS
            self.at(self.now_s + restart_s(plan.spec, plan.resumed_s) + every_s, lambda: self._save(pod, every_s))

    def _save(self, pod: JsonObject, every_s: float) -> None:
        now = self._now(pod)
        if now is not None and text(now, "status", "phase") == "Running":
            self._annotate(now)
            self.at(self.now_s + every_s, lambda: self._save(pod, every_s))

    def _annotate(self, pod: JsonObject) -> None:
        annotations = {**mapping(pod, "metadata", "annotations"), names.CHECKPOINT_ANNOTATION: self.stamp()}
        changed = {**pod, "metadata": {**mapping(pod, "metadata"), "annotations": annotations, "resourceVersion": ""}}
        self.store.replace(PODS, name_of(pod), changed, namespace_of(pod))

    def _end(self, pod: JsonObject, code: int) -> None:
        now = self._now(pod)
        if now is not None and text(now, "status", "phase") == "Running":
            self._terminate(now, code, message="" if code else "done")

    def _stop(self, pod: JsonObject, *, saves: bool) -> None:
        now = self._now(pod)
        if now is None:
            return
        if text(now, "status", "phase") == "Running":
            if saves:
                self._annotate(now)
            self._terminate(cast("JsonObject", self._now(pod)), 143)
        self.store.delete(PODS, name_of(pod), namespace_of(pod), grace_s=0)

    def _terminate(self, pod: JsonObject, code: int, message: str = "") -> None:
        began = objects(pod, "status", "containerStatuses")[0]
        running = mapping(began, "state", "running")
        over = {"exitCode": code, "message": message, "finishedAt": self.stamp(), **running}
        self._say(
            pod,
            phase="Failed" if code else "Succeeded",
            containerStatuses=[{"name": "main", "state": {"terminated": over}}],
        )

    def _say(self, pod: JsonObject, **status: object) -> None:
        body = {"metadata": {}, "status": {**mapping(pod, "status"), **status}}
        self.store.replace(PODS, name_of(pod), body, namespace_of(pod), status=True)

    def do(self, call: Call) -> Outcome:
        """What the API server would answer."""
        try:
            return Done(self._done(call))
        except Refusal as refusal:
            return Refused(refusal.code, text(refusal.status, "reason"), str(refusal))

    def _done(self, call: Call) -> JsonObject:
        match call:
            case Create(kind=Kind.JOBS):
                made = self.store.create(BY_TITLE[call.kind.value], call.body, call.namespace)
                self.add_work(made)
                return made
            case Create():
                return self.store.create(BY_TITLE[call.kind.value], call.body, call.namespace)
            case Bind():
                target = {"metadata": {"uid": call.uid}, "target": {"kind": "Node", "name": call.node}}
                self.store.bind(call.name, call.namespace, target)
                return {}
            case Delete() | Evict():
                kind = PODS if isinstance(call, Evict) else BY_TITLE[call.kind.value]
                return self.store.delete(kind, call.name, call.namespace, uid=call.uid, grace_s=call.grace_s) or {}
            case Read():
                return self.store.get(BY_TITLE[call.kind.value], call.name, call.namespace)
            case Merge():
                found = self.store.get(BY_TITLE[call.kind.value], call.name, call.namespace)
                notes = {**mapping(found, "metadata", "annotations"), **mapping(call.body, "metadata", "annotations")}
                metadata = {**mapping(found, "metadata"), "annotations": notes, "resourceVersion": ""}
                changed = {**found, "metadata": metadata}
                return self.store.replace(BY_TITLE[call.kind.value], call.name, changed, call.namespace)
            case _:
                return self.store.replace(
                    BY_TITLE[call.kind.value], call.name, call.body, call.namespace, status=bool(call.subresource)
                )


def _gate(pod: JsonObject | None) -> str:
    return text(pod, "metadata", "annotations", GATE_ANNOTATION)


def _plan_of(pod: JsonObject) -> str:
    containers = (*objects(pod, "spec", "initContainers"), *objects(pod, "spec", "containers"))
    variables = (one for container in containers for one in objects(container, "env"))
    return next((text(one, "value") for one in variables if text(one, "name") == "MUSTER_PREFLIGHT_PLAN"), "")
