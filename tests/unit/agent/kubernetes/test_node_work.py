"""Work on nodes of a real cluster: Jobs pinned to the node, or words that others act on; each request once."""

from dataclasses import dataclass, field

import pytest

from muster.agent.core.cluster import WorkOnNode, WorkSeen
from muster.agent.core.kubernetes.calls import Call, Create, Done, Kind, Merge, Outcome, Read, Refused, Unanswered
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.node_jobs import (
    BOOT_ANNOTATION,
    WORK_ANNOTATION,
    WorkPolicy,
    checks_job,
    job_name,
)
from muster.agent.core.kubernetes.views import End, NodeView, PodView
from muster.core import Instant
from muster.core.settings import NodeActionSettings
from muster.kube.objects import JsonObject, at, mapping, objects, text
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOrder,
    CheckOutcome,
    ChecksReported,
    ChecksRequested,
    NodeAction,
    NodeActionEnded,
    NodeActionRequested,
)
from unit.agent.kubernetes.rig import SPACE, Manifests, Rig, node

STATE = "nvidia.com/gpu-driver-upgrade-state"
POLICY = WorkPolicy(
    cluster="atlas",
    image="tools:1",
    actions={
        NodeAction.RESET: NodeActionSettings(command=("nvidia-smi", "--gpu-reset", "-i", "{device}"), privileged=True),
        NodeAction.REBOOT: NodeActionSettings(
            by="annotation", set={"weave.works/kured-reboot": "{request}"}, restarts=True
        ),
        NodeAction.DRIVER: NodeActionSettings(
            by="label",
            set={STATE: "upgrade-required"},
            done={STATE: "upgrade-done"},
            after={"skip": "true"},
            failed={STATE: "upgrade-failed"},
        ),
    },
)


@dataclass
class Works(Rig):
    cluster: KubernetesCluster = field(
        default_factory=lambda: KubernetesCluster(
            ClusterOptions(cluster="atlas", namespace=SPACE), Manifests(), works=POLICY
        )
    )

    def ask(self, action: NodeAction, *, request_id: str = "r-1", version: str = "", device: str = "") -> None:
        asked = NodeActionRequested(request_id=request_id, action=action, version=version, device=device)
        self.cluster.carry_out(WorkOnNode("n0", request_id, self.now, asked))

    def check(self, request_id: str = "c-1") -> None:
        asked = ChecksRequested(request_id=request_id, checks=(CheckOrder(check="gpu-health"),))
        self.cluster.carry_out(WorkOnNode("n0", request_id, self.now, asked))

    def call(self) -> Call:
        (one,) = self.calls()
        return one

    def worked(self, *, request_id: str = "r-1", said: str = "", code: int = 0, reason: str = "") -> None:
        name = job_name("atlas", "n0", request_id)
        end = End(succeeded=not code and not reason, exit_code=code, reason=reason, said=said)
        self.see(PodView("muster-nodes", f"{name}-x", "u", node="n0", phase="Succeeded", work=name, end=end))

    def show(self, **fields: object) -> NodeView:
        view = node("n0", **fields)
        self.cluster.node_seen(view, self.now)
        self.cluster.settle(self.now)
        return view

    def ended(self) -> NodeActionEnded | ChecksReported | None:
        seen = [one.ended for one in self.observe() if isinstance(one, WorkSeen)]
        assert len(seen) <= 1
        return seen[0] if seen else None

    def outcome(self) -> tuple[ActionOutcome, str, str]:
        ended = self.ended()
        assert isinstance(ended, NodeActionEnded)
        return ended.outcome, ended.detail, ended.version


@pytest.fixture
def works() -> Works:
    rig = Works()
    rig.ready(node("n0", boot="boot-1"), node("n1"))
    return rig


def pod_of(call: Call) -> JsonObject:
    assert isinstance(call, Create)
    return mapping(call.body, "spec", "template", "spec")


# --- by a Job ----------------------------------------------------------------------------------------------------


def test_a_job_is_pinned_to_the_node_past_every_scheduler_and_taint(works: Works) -> None:
    works.ask(NodeAction.RESET, device="GPU-7")
    call = works.call()
    assert isinstance(call, Create)
    assert (call.kind, call.namespace, call.name) == (Kind.JOBS, "muster-nodes", job_name("atlas", "n0", "r-1"))
    pod = pod_of(call)
    assert (pod["nodeName"], pod["tolerations"]) == ("n0", [{"operator": "Exists"}])
    (container,) = objects(pod, "containers")
    assert container["command"] == ["nvidia-smi", "--gpu-reset", "-i", "GPU-7"]
    assert at(container, "securityContext", "privileged") is True


def test_a_reset_of_no_device_in_particular_is_one_of_all(works: Works) -> None:
    works.ask(NodeAction.RESET)
    (container,) = objects(pod_of(works.call()), "containers")
    assert container["command"] == ["nvidia-smi", "--gpu-reset"]


def test_it_is_tried_once_and_never_longer_than_its_limit(works: Works) -> None:
    works.ask(NodeAction.RESET)
    call = works.call()
    assert isinstance(call, Create)
    assert (at(call.body, "spec", "backoffLimit"), at(call.body, "spec", "activeDeadlineSeconds")) == (0, 1800)


def test_the_end_of_its_pod_is_the_end_of_the_action(works: Works) -> None:
    works.ask(NodeAction.RESET)
    works.calls()
    works.answer()
    assert works.ended() is None
    works.worked(said="resetting\nversion=9.1\n")
    assert works.outcome() == (ActionOutcome.DONE, "", "9.1")


def test_a_pod_that_fails_fails_the_action_with_its_words(works: Works) -> None:
    works.ask(NodeAction.RESET)
    works.calls()
    works.answer()
    works.worked(code=3, said="the GPU is in use")
    assert works.outcome() == (ActionOutcome.FAILED, "the GPU is in use", "")


def test_what_a_former_leader_made_is_found_and_not_made_again(works: Works) -> None:
    works.ask(NodeAction.RESET)
    works.calls()
    works.answer(Refused(409, "AlreadyExists", "there"))
    assert isinstance(works.call(), Read)
    works.answer(Done({"metadata": {"annotations": {BOOT_ANNOTATION: "boot-0"}}}))
    assert works.calls() == []
    works.worked()
    assert works.outcome()[0] is ActionOutcome.DONE


def test_a_new_leader_asks_again_under_the_same_name(works: Works) -> None:
    works.ask(NodeAction.RESET)
    first = works.call()
    works.cluster.reset()
    works.tasks.clear()
    works.ready(node("n0"))
    assert works.call() == first


def test_checks_outside_of_a_job_count_the_gpus_that_the_log_knows(works: Works) -> None:
    for seen in works.observe():
        works.cluster.acknowledge(seen, works.now)
    works.check()
    found = objects(objects(pod_of(works.call()), "containers")[0], "env")
    assert {text(one, "value") for one in found if text(one, "name") == "MUSTER_PREFLIGHT_GPUS"} == {"8"}


def test_checks_of_a_node_that_the_log_does_not_know_count_nothing() -> None:
    asked = ChecksRequested(request_id="c-1", checks=(CheckOrder(check="gpu-health"),))
    effect = WorkOnNode("n0", "c-1", Instant(1), asked)
    made = mapping(checks_job(POLICY, effect, asked), "spec", "template", "spec")
    assert "MUSTER_PREFLIGHT_GPUS" not in {text(one, "name") for one in objects(objects(made, "containers")[0], "env")}


def test_checks_are_read_from_what_their_pod_left_behind(works: Works) -> None:
    works.check()
    variables = {
        text(one, "name"): text(one, "value") for one in objects(objects(pod_of(works.call()), "containers")[0], "env")
    }
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "all"
    works.answer()
    works.worked(request_id="c-1", said='{"v":1,"r":[{"c":"gpu-health","o":"fail","k":"row-remap"}]}')
    ended = works.ended()
    assert isinstance(ended, ChecksReported)
    assert [(one.node, one.outcome, one.code) for one in ended.results] == [("n0", CheckOutcome.FAIL, "row-remap")]


def test_a_pod_of_checks_that_dies_tells_that_they_could_not_run(works: Works) -> None:
    works.check()
    works.calls()
    works.answer()
    works.worked(request_id="c-1", reason="DeadlineExceeded")
    ended = works.ended()
    assert isinstance(ended, ChecksReported)
    assert [one.outcome for one in ended.results] == [CheckOutcome.CANNOT_RUN]


# --- by words that others act on -----------------------------------------------------------------------------------


def marks_of(works: Works) -> list[object]:
    """What the calls that are to be made write of whose words stand on the node; None takes them off."""
    return [
        at(call.body, "metadata", "annotations", WORK_ANNOTATION) for call in works.calls() if isinstance(call, Merge)
    ]


def on_node(works: Works, *, state: str = "upgrade-done", request_id: str = "r-1") -> None:
    works.show(labels=((STATE, state),), annotations=((WORK_ANNOTATION, request_id), (BOOT_ANNOTATION, "boot-1")))


def test_a_label_asks_the_operator_for_a_new_driver(works: Works) -> None:
    works.ask(NodeAction.DRIVER, version="580.105")
    call = works.call()
    assert isinstance(call, Merge)
    assert (call.kind, call.name) == (Kind.NODES, "n0")
    assert at(call.body, "metadata", "labels") == {STATE: "upgrade-required"}
    assert at(call.body, "metadata", "annotations", WORK_ANNOTATION) == "r-1"


def test_what_the_label_said_before_our_words_stood_there_counts_for_nothing(works: Works) -> None:
    works.show(labels=((STATE, "upgrade-done"),))
    works.ask(NodeAction.DRIVER, version="580.105")
    works.calls()
    works.answer()
    assert works.ended() is None
    on_node(works, state="pod-restart-required")
    assert works.ended() is None
    on_node(works)
    assert works.outcome() == (ActionOutcome.DONE, "", "580.105")


def test_the_operator_may_say_that_it_failed(works: Works) -> None:
    works.ask(NodeAction.DRIVER)
    works.calls()
    works.answer()
    on_node(works, state="upgrade-failed")
    assert works.outcome()[:2] == (ActionOutcome.FAILED, f"{STATE}=upgrade-failed")


def test_words_of_ours_are_taken_back_when_the_log_has_the_end(works: Works) -> None:
    works.ask(NodeAction.DRIVER)
    works.calls()
    works.answer()
    on_node(works)
    (seen,) = works.observe()
    works.cluster.acknowledge(seen, works.now)
    call = works.call()
    assert isinstance(call, Merge)
    assert at(call.body, "metadata", "annotations", WORK_ANNOTATION) is None
    assert at(call.body, "metadata", "labels") == {"skip": "true"}


def test_a_new_leader_goes_on_with_words_that_stand_there(works: Works) -> None:
    works.ask(NodeAction.DRIVER)
    works.calls()
    works.answer()
    works.cluster.reset()
    works.tasks.clear()
    marks = ((WORK_ANNOTATION, "r-1"), (BOOT_ANNOTATION, "boot-1"))
    works.ready(node("n0", labels=((STATE, "upgrade-required"),), annotations=marks))
    assert works.calls() == []
    on_node(works)
    assert works.outcome()[0] is ActionOutcome.DONE


def test_a_reboot_is_done_when_the_node_is_ready_after_another_boot(works: Works) -> None:
    works.ask(NodeAction.REBOOT)
    works.calls()
    works.answer()
    marks = ((WORK_ANNOTATION, "r-1"),)
    for fields in ({"boot": "boot-1"}, {"boot": "boot-1", "ready": False}, {"boot": "boot-2", "ready": False}):
        works.show(annotations=marks, **fields)
        assert [one for one in works.observe() if isinstance(one, WorkSeen)] == []
    works.show(annotations=marks, boot="boot-2")
    assert works.outcome()[0] is ActionOutcome.DONE


def test_others_act_on_one_wish_for_a_node_at_a_time(works: Works) -> None:
    works.ask(NodeAction.DRIVER)
    works.calls()
    works.answer()
    works.ask(NodeAction.REBOOT, request_id="r-2")
    assert works.calls() == []
    on_node(works)
    (seen,) = works.observe()
    works.cluster.acknowledge(seen, works.now)
    assert marks_of(works) == [None], "the next words could be taken off with the last ones"
    works.answer()
    assert marks_of(works) == ["r-2"]


def test_the_next_words_wait_while_nobody_answers_that_the_last_ones_are_off(works: Works) -> None:
    works.ask(NodeAction.DRIVER)
    works.calls()
    works.answer()
    works.ask(NodeAction.REBOOT, request_id="r-2")
    on_node(works)
    (seen,) = works.observe()
    works.cluster.acknowledge(seen, works.now)
    works.calls()
    works.answer(Unanswered())
    works.pass_time(60.0)
    assert marks_of(works) == [None]
    works.answer(Refused(403, "Forbidden", "a webhook says no"))
    assert marks_of(works) == ["r-2"], "what is refused keeps nobody waiting"


def test_of_two_wishes_that_come_together_one_is_put_on_the_node(works: Works) -> None:
    works.ask(NodeAction.REBOOT)
    works.ask(NodeAction.DRIVER, request_id="r-2")
    assert marks_of(works) == ["r-1"]
    works.answer(Refused(403, "Forbidden", "a webhook says no"))
    assert marks_of(works) == [], "the log has not heard of its end"
    (seen,) = works.observe()
    works.cluster.acknowledge(seen, works.now)
    assert marks_of(works) == ["r-2"]


# --- what cannot be done -------------------------------------------------------------------------------------------


def test_an_action_without_a_way_could_not_run(works: Works) -> None:
    works.ask(NodeAction.KUBELET)
    assert works.calls() == []
    outcome, detail, _ = works.outcome()
    assert outcome is ActionOutcome.CANNOT_RUN
    assert "preflight.nodes" in detail


def test_nothing_is_tried_without_the_permission(works: Works) -> None:
    works.cluster.works.may_work = False
    works.ask(NodeAction.RESET)
    assert works.calls() == []
    assert works.outcome()[0] is ActionOutcome.CANNOT_RUN


def test_what_the_api_server_refuses_could_not_run(works: Works) -> None:
    works.ask(NodeAction.RESET)
    works.calls()
    works.answer(Refused(404, "NotFound", 'namespaces "muster-nodes" not found'))
    assert works.outcome()[:2] == (ActionOutcome.CANNOT_RUN, 'namespaces "muster-nodes" not found')


def test_a_limit_ends_what_never_ends(works: Works) -> None:
    works.ask(NodeAction.RESET)
    works.calls()
    works.answer()
    works.pass_time(1801)
    assert works.outcome()[:2] == (ActionOutcome.FAILED, "not done within 1800 s")


def test_a_limit_that_passed_untold_ends_it_under_the_next_leader(works: Works) -> None:
    works.ask(NodeAction.REBOOT)
    works.calls()
    works.answer()
    works.pass_time(1801)
    works.cluster.reset()
    works.tasks.clear()
    works.show(annotations=((WORK_ANNOTATION, "r-1"), (BOOT_ANNOTATION, "")))
    works.cluster.synced()
    works.pass_time(1.0)
    assert works.outcome()[:2] == (ActionOutcome.FAILED, "not done within 1800 s")


@pytest.mark.parametrize("outcome", [Refused(404, "NotFound", "there is no such node"), Done()])
def test_an_answer_that_comes_after_the_log_has_the_end_counts_for_nothing(works: Works, outcome: Outcome) -> None:
    works.ask(NodeAction.REBOOT)
    works.calls()
    works.cluster.node_gone("n0")
    works.cluster.settle(works.now)
    for seen in works.observe():
        works.cluster.acknowledge(seen, works.now)
    works.answer(outcome)
    assert works.ended() is None


def test_the_same_holds_for_what_a_former_leader_is_found_to_have_made(works: Works) -> None:
    works.ask(NodeAction.RESET)
    works.calls()
    works.answer(Refused(409, "AlreadyExists", "there"))
    works.calls()
    works.cluster.node_gone("n0")
    works.cluster.settle(works.now)
    for seen in works.observe():
        works.cluster.acknowledge(seen, works.now)
    works.answer(Refused(403, "Forbidden", "no more"))
    assert works.ended() is None


def test_a_node_that_is_no_more_is_what_who_wanted_another_one_wanted(works: Works) -> None:
    way = NodeActionSettings(by="annotation", set={"replace": "me"})
    replaced = POLICY.model_copy(update={"actions": {NodeAction.REPLACE: way}})
    works.cluster.works.policy = replaced
    works.ask(NodeAction.REPLACE)
    works.calls()
    works.answer()
    works.cluster.node_gone("n0")
    assert works.outcome()[0] is ActionOutcome.DONE


def test_a_follower_does_nothing() -> None:
    rig = Works()
    rig.ask(NodeAction.RESET)
    rig.pass_time(5000)
    assert rig.calls() == []
    assert rig.ended() is None
    assert rig.cluster.next_change() in (None, 0)
