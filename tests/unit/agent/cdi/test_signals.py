"""The Cluster Autoscaler's traces as the four cases' words: each told once, and settled when no trace is left."""

from muster.agent.core.cluster import WordSeen
from muster.agent.core.kubernetes.cdi.machine_sets import Drift
from muster.agent.core.kubernetes.cdi.signals import EVENT_S, Signals, backoffs_in, project_event
from muster.agent.core.kubernetes.projections import NodeProjection
from muster.core import NS_PER_S, Instant
from muster.schemas.facts.scale import AutoscalerSignal

START = Instant(1_767_225_600 * NS_PER_S)  # 2026-01-01T00:00:00Z
SETS = {"hgx": "hgx-machines", "cpu": "cpu-machines"}


class Harness:
    """Signals whose observations the log takes."""

    def __init__(self) -> None:
        self.signals = Signals(
            SETS, lambda namespace, pod: {"ml/train-0": "JOB1", "ml/eval-0": "JOB2"}.get(f"{namespace}/{pod}", "")
        )
        self.now = START
        self.log: list[tuple[str, str, AutoscalerSignal]] = []
        self.signals.synced()
        self._events = 0

    def run(self) -> list[tuple[str, str]]:
        """Tell until nothing is left; what was told now."""
        before = len(self.log)
        for _ in range(20):
            self.signals.settle(self.now)
            news = list(self.signals.observations())
            if not news:
                return [(subject, word) for subject, word, _ in self.log[before:]]
            for seen in news:
                assert isinstance(seen.payload, AutoscalerSignal)
                self.log.append((seen.subject, seen.name, seen.payload))
                self.signals.acknowledge(seen)
        raise AssertionError("it is never told")

    def event(self, reason: str, about: str, message: str = "", *, kind: str = "Pod") -> None:
        self._events += 1
        namespace, _, name = about.rpartition("/")
        raw = {
            "metadata": {"uid": f"e{self._events}"}, "reason": reason, "message": message,
            "involvedObject": {"kind": kind, "namespace": namespace, "name": name},
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        view = project_event(raw)
        assert view is not None
        self.signals.event_seen(view)

    def node(self, name: str, *taints: str) -> None:
        spec = {"taints": [{"key": key, "effect": "PreferNoSchedule"} for key in taints]}
        self.signals.node_seen(NodeProjection()({"metadata": {"name": name}, "spec": spec}), "hgx")

    def later(self, seconds: float) -> None:
        self.now = Instant(self.now + round(seconds * NS_PER_S))


def test_a_node_that_is_a_candidate_is_unneeded_until_the_taint_goes() -> None:
    harness = Harness()
    harness.node("n1", "DeletionCandidateOfClusterAutoscaler")
    assert harness.run() == [("n1", "node-unneeded")]
    assert harness.log[-1][2].group == "hgx"
    harness.node("n1", "ToBeDeletedByClusterAutoscaler")
    assert harness.run() == []
    harness.node("n1")
    assert harness.run() == [("n1", "settled")]


def test_a_node_that_cannot_be_removed_is_blocked() -> None:
    harness = Harness()
    harness.node("n1", "ToBeDeletedByClusterAutoscaler")
    harness.run()
    harness.event("ScaleDownFailed", "n1", "failed to drain: pod has a disruption budget", kind="Node")
    assert harness.run() == [("n1", "removal-blocked")]
    assert "disruption budget" in harness.log[-1][2].reason
    harness.later(EVENT_S + 1)
    assert harness.run() == [("n1", "node-unneeded")]


def test_a_node_that_leaves_wants_nothing_any_more() -> None:
    harness = Harness()
    harness.node("n1", "ToBeDeletedByClusterAutoscaler")
    harness.run()
    harness.signals.node_gone("n1")
    assert harness.run() == [("n1", "settled")]


def test_a_scale_up_for_a_job_is_wanted_of_its_group() -> None:
    harness = Harness()
    harness.event(
        "TriggeredScaleUp", "ml/train-0", "pod triggered scale-up: [{MachineSet/default/hgx-machines 1->2 (max: 9)}]"
    )
    assert harness.run() == [("hgx", "node-wanted")]
    assert harness.log[-1][2].jobs == ("JOB1",)


def test_pods_of_nobody_here_say_nothing() -> None:
    harness = Harness()
    harness.event(
        "TriggeredScaleUp", "web/frontend-7", "pod triggered scale-up: [{MachineSet/default/cpu-machines 1->2}]"
    )
    assert harness.run() == []


def test_another_scan_that_says_the_same_is_not_told_again() -> None:
    harness = Harness()
    for scan in range(3):
        harness.event(
            "NotTriggerScaleUp", "ml/train-0", f"pod didn't trigger scale-up: {scan} Insufficient nvidia.com/gpu"
        )
        harness.run()
    assert [(subject, word) for subject, word, _ in harness.log] == [("any-group", "node-refused")]


def test_what_is_refused_now_is_wanted_no_longer() -> None:
    harness = Harness()
    harness.event("TriggeredScaleUp", "ml/train-0", "pod triggered scale-up: [{hgx-machines 1->2}]")
    harness.run()
    harness.event("NotTriggerScaleUp", "ml/train-0", "max node group size reached")
    told = harness.run()
    assert ("hgx", "settled") in told
    assert ("any-group", "node-refused") in told


def test_a_group_in_backoff_refuses_those_who_wait_for_it() -> None:
    harness = Harness()
    harness.event("TriggeredScaleUp", "ml/train-0", "pod triggered scale-up: [{hgx-machines 1->2}]")
    harness.run()
    harness.signals.backoffs_seen({"MachineSet/default/hgx-machines": "out of machines"})
    harness.run()
    subject, word, signal = harness.log[-1]
    assert (subject, word, signal.jobs, signal.reason) == ("hgx", "node-refused", ("JOB1",), "out of machines")


def test_a_machine_set_that_somebody_raised_is_a_wish_for_nodes() -> None:
    harness = Harness()
    harness.signals.drifts_seen((Drift("hgx", "hgx-machines", 2, 4),))
    assert harness.run() == [("hgx", "node-wanted")]
    assert "from 2 to 4" in harness.log[-1][2].reason
    harness.signals.drifts_seen(())
    assert harness.run() == [("hgx", "settled")]


def test_events_lapse() -> None:
    harness = Harness()
    harness.event("NotTriggerScaleUp", "ml/eval-0", "no group fits")
    harness.run()
    assert harness.signals.next_change() == START + round(EVENT_S * NS_PER_S)
    harness.later(EVENT_S + 1)
    assert harness.run() == [("any-group", "settled")]


def test_another_leader_tells_nothing_twice_and_settles_what_is_over() -> None:
    harness = Harness()
    harness.node("n1", "ToBeDeletedByClusterAutoscaler")
    harness.node("n2", "ToBeDeletedByClusterAutoscaler")
    harness.run()
    harness.signals.reset()
    harness.node("n1", "ToBeDeletedByClusterAutoscaler")
    assert harness.run() == []  # not before all was seen
    harness.signals.synced()
    assert harness.run() == [("n2", "settled")]


def test_a_checkpoint_says_what_stands() -> None:
    harness = Harness()
    harness.signals.acknowledge(WordSeen("autoscaler", "n9", "node-unneeded", AutoscalerSignal(node="n9")))
    assert harness.run() == [("n9", "settled")]


def test_the_status_names_groups_in_backoff() -> None:
    told = """
time: 2026-01-01 00:00:00
autoscalerStatus: Running
nodeGroups:
- name: MachineSet/default/hgx-machines
  scaleUp:
    status: Backoff
    backoffInfo: {errorCode: OTHER, errorMessage: out of machines}
- name: MachineSet/default/cpu-machines
  scaleUp: {status: NoActivity}
"""
    assert backoffs_in(told) == {"MachineSet/default/hgx-machines": "out of machines"}
    assert backoffs_in("nodeGroups: {") == {}
    assert backoffs_in("[1, 2]") == {}
