"""Kubelets of all nodes at once: what is bound runs, ends as its annotations say, and goes when it is deleted."""

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Self

from kit.kube.fake.server import FakeKube
from kit.kube.fake.store import Event
from muster.kube.objects import JsonObject, at, integer, mapping, name_of, namespace_of, objects, strings, text, uid_of
from muster.kube.resources import NODES, PODS

RUN_S = "fake.muster/run-s"
"""Annotation: seconds until the pod's container ends; without it, it runs until it is deleted."""
EXIT_CODE = "fake.muster/exit-code"
"""Annotation: its exit code then; 0 makes the pod Succeeded, another Failed."""
OUT_OF = "fake.muster/out-of"
"""Annotation: the resource of which the kubelet finds too little ("nvidia.com/gpu"): it refuses the pod."""
CHECKS, GATE_ANNOTATION = "muster-preflight", "muster.dev/gate"
"""Of pods that are checked first: the container that does it, and what lets them begin."""

Key = tuple[str, str]


class FakeKubelet:
    """Runs pods within `kube`. start_s: from bound to Running; stop_s: from deletion to gone, at most the grace.

    counts: refuses pods whose nvidia.com/gpu exceed what the node's allocatable leaves. exit_code_on_stop: of
    containers that a deletion ends. bad_nodes: where every check of a pod fails. Use it as a context manager.
    """

    def __init__(
        self,
        kube: FakeKube,
        *,
        start_s: float = 0.0,
        stop_s: float = 0.0,
        counts: bool = True,
        exit_code_on_stop: int = 143,
        bad_nodes: frozenset[str] = frozenset(),
    ) -> None:
        self.bad_nodes = bad_nodes
        self.kube = kube
        self.start_s = start_s
        self.stop_s = stop_s
        self.counts = counts
        self.exit_code_on_stop = exit_code_on_stop
        self.paused = False
        """While true, nothing happens to pods; `resume` looks at all of them again."""
        self.used: dict[str, dict[str, int]] = {}
        """GPUs by node and pod uid."""
        self._timers: set[asyncio.TimerHandle] = set()
        self._loop = asyncio.get_event_loop()

    def __enter__(self) -> Self:
        self.kube.store.listeners.append(self._see)
        self.resume()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kube.store.listeners.remove(self._see)
        for timer in self._timers:
            timer.cancel()

    def resume(self) -> None:
        """Go on after a pause."""
        self.paused = False
        for pod in self.kube.store.all(PODS):
            self._look(pod)

    def _see(self, event: Event) -> None:
        if event.resource != PODS:
            return
        if event.gone:
            self.used.get(text(event.now.obj, "spec", "nodeName"), {}).pop(uid_of(event.now.obj), None)
        elif not self.paused:
            self._look(event.now.obj)

    def _look(self, pod: JsonObject) -> None:
        if not text(pod, "spec", "nodeName"):
            return
        deleted, phase = bool(text(pod, "metadata", "deletionTimestamp")), text(pod, "status", "phase")
        if deleted:
            grace_s = integer(pod, "metadata", "deletionGracePeriodSeconds")
            self._later(min(self.stop_s, grace_s), self._stop, pod)
        elif phase == "Pending":
            self._later(self.start_s, self._start, pod)

    def _later(self, after_s: float, act: Callable[[JsonObject], None], pod: JsonObject) -> None:
        def due() -> None:
            self._timers.discard(timer)
            now = self.kube.store.find(PODS, name_of(pod), namespace_of(pod))
            if now is not None and uid_of(now) == uid_of(pod) and not self.paused:
                act(now)

        timer = self._loop.call_later(after_s, due)
        self._timers.add(timer)

    def _start(self, pod: JsonObject) -> None:
        if text(pod, "status", "phase") != "Pending" or text(pod, "metadata", "deletionTimestamp"):
            return
        lacking = strings(pod, "metadata", "annotations").get(OUT_OF, "") or self._lacking(pod)
        if lacking:
            message = (
                f"Pod was rejected: Node didn't have enough resource: {lacking}, requested: 8, used: 8, capacity: 8"
            )
            self._say(pod, {"phase": "Failed", "reason": f"OutOf{lacking}", "message": message})
            return
        node, uid = text(pod, "spec", "nodeName"), uid_of(pod)
        if self._waits(pod, node):
            return
        self.used.setdefault(node, {})[uid] = gpus_of(pod)
        started = self.kube.store.stamp()
        containers: list[object] = [
            {
                "name": text(one, "name"),
                "ready": True,
                "restartCount": 0,
                "containerID": f"fake://{uid}",
                "state": {"running": {"startedAt": started}},
            }
            for one in objects(pod, "spec", "containers")
        ]
        conditions = [
            {"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        self._say(
            pod, {"phase": "Running", "startTime": started, "containerStatuses": containers, "conditions": conditions}
        )
        run_s = strings(pod, "metadata", "annotations").get(RUN_S)
        if run_s is not None:
            self._later(float(run_s), self._end, pod)

    def _waits(self, pod: JsonObject, node: str) -> bool:
        """Whether the pod waits for its gate; its checks were run, and said what they found."""
        plan = _plan_of(pod)
        if not plan or strings(pod, "metadata", "annotations").get(GATE_ANNOTATION) == "open":
            return False
        if not objects(pod, "status", "initContainerStatuses"):
            outcome = "fail" if node in self.bad_nodes else "pass"
            found = [{"c": text(one, "check"), "o": outcome} for one in objects(json.loads(plan), "checks")]
            over = {"exitCode": 0, "finishedAt": self.kube.store.stamp(), "message": json.dumps({"v": 1, "r": found})}
            self._say(pod, {"initContainerStatuses": [{"name": CHECKS, "state": {"terminated": over}}]})
        return True

    def _lacking(self, pod: JsonObject) -> str:
        node = text(pod, "spec", "nodeName")
        found = self.kube.store.find(NODES, node)
        if not self.counts or found is None:
            return ""
        there = int(str(at(found, "status", "allocatable", "nvidia.com/gpu") or 0))
        taken = sum(self.used.get(node, {}).values())
        return "nvidia.com/gpu" if gpus_of(pod) + taken > there and gpus_of(pod) else ""

    def _end(self, pod: JsonObject) -> None:
        if text(pod, "status", "phase") == "Running":
            code = int(strings(pod, "metadata", "annotations").get(EXIT_CODE, "0"))
            self._terminate(pod, code)

    def _stop(self, pod: JsonObject) -> None:
        if text(pod, "status", "phase") == "Running":
            self._terminate(pod, self.exit_code_on_stop)
        self.kube.store.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod), grace_s=0)

    def _terminate(self, pod: JsonObject, code: int) -> None:
        self.used.get(text(pod, "spec", "nodeName"), {}).pop(uid_of(pod), None)
        ended = {"exitCode": code, "finishedAt": self.kube.store.stamp(), "reason": "Error" if code else "Completed"}
        containers: list[object] = [
            {**mapping(one), "ready": False, "state": {"terminated": ended}}
            for one in objects(pod, "status", "containerStatuses")
        ]
        phase = "Failed" if code else "Succeeded"
        self._say(pod, {"phase": phase, "containerStatuses": containers})

    def _say(self, pod: JsonObject, status: JsonObject) -> None:
        self.kube.set_status(PODS, name_of(pod), status, namespace_of(pod))


def gpus_of(pod: JsonObject) -> int:
    """nvidia.com/gpu of all containers."""
    containers = objects(pod, "spec", "containers")
    return sum(int(str(at(one, "resources", "limits", "nvidia.com/gpu") or 0)) for one in containers)


def _plan_of(pod: JsonObject) -> str:
    """What its first container is to check, "" if it is not checked."""
    variables = (one for container in objects(pod, "spec", "initContainers") for one in objects(container, "env"))
    return next((text(one, "value") for one in variables if text(one, "name") == "MUSTER_PREFLIGHT_PLAN"), "")
