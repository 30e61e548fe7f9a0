"""The same random faults for jobs whose objects make their pods, and whose places are checked before.

Beside the storm's own: a controller that makes an object's pods while it is let go, checks that pass, fail or end
badly, and a scheduler that opens what passed, sends back what did not, and places again what was not done.
"""

from collections.abc import Iterable

from contract.cluster.kubernetes_world import BY_TITLE
from kit.agent_workloads import POLICY, has_asked
from muster.agent.core.cluster import (
    ChecksSeen,
    CreatePods,
    DeletePods,
    Observation,
    OpenGate,
    PodsExitedSeen,
)
from muster.agent.core.kubernetes.calls import Bind, Call, Done, Kind, Merge, Outcome
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.names import CHECK_POD_LABEL, COMPLETION_INDEX, job_label
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.projections import PodProjection
from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.agent.core.workloads.adopted_pods import WorkloadPods
from muster.agent.core.workloads.workloads import Workloads
from muster.checks.report import dump
from muster.kube.objects import JsonObject, at, mapping, name_of, namespace_of, strings, text
from muster.kube.resources import PODS
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, CheckResult, PreflightPlan
from muster.schemas.job import JobSpec, Slot, TaskGroup, WorkloadRef
from unit.agent.kubernetes.storm import Key, Storm

PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"),))
THEIRS = "physics"
DONE = frozenset({PodsOutcome.SUCCEEDED, PodsOutcome.FAILED})

LETTERS = str.maketrans("01", "AB")
"""Ids of jobs have neither 0 nor 1; octal numbers have no 8 nor 9."""


class AdoptedStorm(Storm):
    """opened: attempts whose first step may begin. verdicts: those whose checks were told, and whether they passed.

    let_go, over: jobs whose objects are so. again: jobs that are to be placed again, with their last attempt.
    """

    def __init__(self, seed: int) -> None:
        self.opened: set[Key] = set()
        self.verdicts: dict[Key, bool] = {}
        self.let_go: set[str] = set()
        self.over: set[str] = set()
        self.sizes: dict[str, int] = {}
        self.again: dict[str, int] = {}
        self.made = 0
        self.workloads = Workloads(POLICY)
        super().__init__(seed, resizes=False)
        self.store.create(BY_TITLE["namespaces"], {"metadata": {"name": THEIRS}})

    def new_cluster(self, options: ClusterOptions) -> KubernetesCluster:
        worklist = Worklist()
        adopted = WorkloadPods(worklist, self.workloads)
        policy = PodPolicy(cluster="atlas", preflight_image="tools")
        return KubernetesCluster(options, PodOrders(policy), worklist=worklist, adopted=adopted)

    def step(self) -> None:
        super().step()
        if self.chance.random() < 0.7:
            self.control()
        if self.chance.random() < 0.5:
            self.judge()

    def calm(self) -> None:
        for _ in range(8):
            super().calm()
            self.control()
            self.judge()
        super().calm()

    def api(self, call: Call) -> Outcome:
        if isinstance(call, Merge) and call.kind is Kind.JOBS:
            if at(call.body, "spec", "suspend") is False:
                self.let_go.add(call.name)
            else:
                self.let_go.discard(call.name)
            return Done()
        return super().api(call)

    def outcome(self, call: Call) -> Outcome:
        """Who leads lets nothing go, and binds nothing of it, while a pod that checks holds a place of the job."""
        if isinstance(call, Merge) and call.kind is Kind.JOBS:
            self.assert_unchecked(call.name)
        elif isinstance(call, Bind) and call.namespace == THEIRS:
            self.assert_unchecked(call.name.rpartition("-")[0].rpartition("-")[0])
        return super().outcome(call)

    def assert_unchecked(self, name: str) -> None:
        left = [
            view.name for view in self.bound() if view.member is not None and job_label(view.member.key.job_id) == name
        ]
        assert not left, f"{name} goes on while {left} check its places"

    def place(self) -> None:
        free = self.free()
        if not free:
            return
        if self.again and self.chance.random() < 0.6:
            job_id = self.chance.choice(sorted(self.again))
            count, attempt = self.sizes[job_id], self.again[job_id] + 1
        else:
            job_id, count, attempt = f"J{len(self.sizes):025o}".translate(LETTERS), self.chance.randint(1, 3), 1
        if count > len(free):
            return
        self.again.pop(job_id, None)
        self.sizes[job_id] = count
        nodes = self.chance.sample(free, count)
        slots = tuple(Slot(group=0, replica=number, node=node, gpus=1) for number, node in enumerate(nodes))
        name = job_label(job_id)
        origin = WorkloadRef(
            cluster="local", api_version="batch/v1", kind="Job", namespace=THEIRS, name=name, uid=f"uid-{name}"
        )
        spec = JobSpec(name="job", team="blue", task_groups=(TaskGroup(gpus=1, replicas=count),), grace_s=20)
        self.slots[job_id, attempt] = slots
        order = CreatePods(job_id, attempt, self.now, slots, spec, origin=origin, preflight=PLAN)
        self.do(has_asked(self.workloads, order))

    def check(self, seen: Observation) -> None:
        super().check(seen)
        key = (getattr(seen, "job_id", ""), getattr(seen, "attempt", 0))
        if isinstance(seen, ChecksSeen):
            is_bad = any(one.outcome is CheckOutcome.FAIL for one in seen.results)
            if is_bad or seen.is_last:
                self.verdicts[key] = self.verdicts.get(key, True) and not is_bad
        elif isinstance(seen, PodsExitedSeen):
            self.verdicts.pop(key, None)
            if seen.exited.outcome in DONE:
                assert key in self.opened, f"{key} is done, and never began"
                self.over.add(job_label(seen.job_id))
            elif not self.healed:
                self.again[seen.job_id] = seen.attempt

    def judge(self) -> None:
        """What the scheduler makes of the checks; now and then it opens what has not reported in time."""
        for key in list(self.slots):
            late = key in self.started and self.chance.random() < (0.0 if self.healed else 0.02)
            passed = self.verdicts.pop(key, True if late else None)
            if passed is None or key in self.stopped | self.opened:
                continue
            if passed:
                self.opened.add(key)
                self.do(OpenGate(*key, self.now))
            else:
                self.stopped.add(key)
                self.do(DeletePods(*key, self.now))

    def control(self) -> None:
        """Every object that is let go has a pod for each index that is not done."""
        for job_id, count in self.sizes.items():
            name = job_label(job_id)
            if name in self.over:
                continue
            pods = [
                view for view in map(PodProjection(), self.store.all(PODS)) if view.owner and view.owner.name == name
            ]
            wanted = set(range(count)) if name in self.let_go else set()
            for view in pods:
                is_done = view.end is not None and view.end.succeeded
                if is_done or (view.end is None and not view.ends_at):
                    wanted.discard(int(dict(view.labels)[COMPLETION_INDEX]))
            for index in sorted(wanted):
                self.make(name, index)

    def make(self, name: str, index: int) -> None:
        self.made += 1
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
        metadata = {
            "name": f"{name}-{index}-{self.made}", "namespace": THEIRS, "labels": {COMPLETION_INDEX: str(index)},
            "ownerReferences": [owner],
        }  # fmt: skip
        spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "busybox"}]}
        self.store.create(PODS, {"metadata": metadata, "spec": spec}, THEIRS)

    def clear(self) -> None:
        """All objects are deleted, with their pods."""
        self.over.update(map(job_label, self.sizes))
        for raw in self.store.all(PODS):
            if namespace_of(raw) == THEIRS:
                self.store.delete(PODS, name_of(raw), THEIRS, grace_s=0)

    def kubelets(self) -> None:
        super().kubelets()
        for raw in self.store.all(PODS):
            is_check = CHECK_POD_LABEL in strings(raw, "metadata", "labels")
            likely = self.healed or self.chance.random() < 0.4
            if is_check and text(raw, "status", "phase") == "Running" and likely:
                if text(raw, "metadata", "deletionTimestamp") or text(raw, "spec", "nodeName") in self.dead:
                    continue
                self.report(raw)

    def say(self, raw: JsonObject, phase: str, state: JsonObject) -> None:
        """Checks end well with a report, or badly; whoever ends otherwise is a pod of others."""
        if CHECK_POD_LABEL in strings(raw, "metadata", "labels") and phase == "Succeeded":
            self.report(raw)
        else:
            super().say(raw, phase, state)

    def report(self, raw: JsonObject) -> None:
        fails = not self.healed and self.chance.random() < 0.1
        outcome = CheckOutcome.FAIL if fails else CheckOutcome.PASS
        message = dump([CheckResult(node="?", check=one.check, outcome=outcome) for one in PLAN.checks])
        state = {"terminated": {"exitCode": 0, "message": message}}
        status = {
            **mapping(raw, "status"),
            "phase": "Succeeded",
            "containerStatuses": [{"name": "checks", "state": state}],
        }
        self.store.replace(PODS, name_of(raw), {"metadata": {}, "status": status}, namespace_of(raw), status=True)

    def run_by(self, key: Key) -> list[str]:
        job = job_label(key[0])
        views = map(PodProjection(), self.store.all(PODS))
        return [
            view.name
            for view in views
            if view.owner and view.owner.name == job and view.node and view.phase in ("Running", "Succeeded")
        ]

    def bound(self) -> Iterable[PodView]:
        """Pods that use a living node."""
        for view in map(PodProjection(), self.store.all(PODS)):
            living = view.node not in self.dead and view.node and self.store.find(BY_TITLE["nodes"], view.node)
            if view.end is None and living:
                yield view

    def holding(self, key: Key) -> Iterable[PodView]:
        for view in self.bound():
            is_check = view.member is not None and (view.member.key.job_id, view.member.key.attempt) == key
            if is_check or (view.owner and view.owner.name == job_label(key[0])):
                yield view
