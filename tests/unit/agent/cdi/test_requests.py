"""ComposabilityRequest objects in the operator's words, served by Muster's composer."""

from hypothesis import given
from hypothesis import strategies as st

from kit.composer_fabrics import A100
from kit.kube.fake.patches import merged
from muster.agent.core.kubernetes.cdi.request_book import ENDED_MAX, PRINCIPAL
from muster.agent.core.kubernetes.cdi.requests import FINALIZER, canonical, changes
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.kube.objects import JsonObject
from muster.kube.permissions import Feature
from muster.schemas.devices import GPU, ComposabilitySpec
from muster.schemas.facts.composability import ComposeRequested, RequestRefused
from muster.schemas.facts.device import CallFailure
from unit.agent.cdi.leader import Leader
from unit.agent.cdi.request_harness import RequestHarness


def harness(*, free: int = 8) -> RequestHarness:
    made = RequestHarness()
    made.fabrics.stock("one", (GPU, A100), free)
    for name in ("n1", "n2"):
        made.node(name)
    made.settle()
    return made


def test_an_object_gets_its_devices_and_says_so_in_the_operators_words() -> None:
    it = harness()
    it.apply("gpus", size=2, target_node="n1")
    it.bring_all()
    status = it.status("gpus")
    assert status["state"] == "Running"
    assert status["scalarResource"]["size"] == 2
    told = list(status["resources"].values())
    assert [one["state"] for one in told] == ["Online", "Online"]
    assert {one["node_name"] for one in told} == {"n1"}
    assert all(one["device_id"].startswith("GPU-") and one["cdi_device_id"].startswith("res-") for one in told)
    assert it.objects["gpus"]["metadata"]["finalizers"] == [FINALIZER]


def test_what_is_attaching_is_shown_on_the_way() -> None:
    it = harness()
    it.apply("gpus")
    it.run()
    assert it.status("gpus")["state"] == "Updating"
    assert [one["state"] for one in it.status("gpus")["resources"].values()] == ["Attaching"]


def test_it_is_asked_once_whatever_happens_to_the_object() -> None:
    it = harness()
    it.apply("gpus")
    it.bring_all()
    for _ in range(3):
        it.show_object("gpus")
        it.run()
    assert it.names("composability", "gpus").count("compose-requested") == 1


def test_another_size_is_another_wish() -> None:
    it = harness()
    it.apply("gpus", size=1)
    it.bring_all()
    it.apply("gpus", size=3)
    it.bring_all()
    assert len(it.status("gpus")["resources"]) == 3
    it.apply("gpus", size=1)
    it.take_all()
    assert len(it.status("gpus")["resources"]) == 1
    assert it.status("gpus")["scalarResource"]["size"] == 1


def test_a_spec_that_names_no_node_any_more_is_shown_without_one() -> None:
    it = harness()
    it.apply("gpus", target_node="n1")
    it.bring_all()
    assert it.status("gpus")["scalarResource"]["target_node"] == "n1"
    it.apply("gpus", size=0, target_node="n1")
    it.take_all()
    it.apply("gpus")
    it.bring_all()
    assert "target_node" not in it.status("gpus")["scalarResource"]


def test_a_devices_error_is_shown_until_it_is_over() -> None:
    it = harness()
    it.apply("gpus")
    it.run()
    (call,) = it.fabrics.attaching
    it.fabrics.tell(call, CallFailure.UNAVAILABLE, "the fabric sleeps")
    it.run()
    assert [one["error"] for one in it.status("gpus")["resources"].values()] == ["the fabric sleeps"]
    it.advance(60)
    it.bring_all()
    assert [one["state"] for one in it.status("gpus")["resources"].values()] == ["Online"]
    assert ["error" in one for one in it.status("gpus")["resources"].values()] == [False]


_statuses = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.booleans() | st.integers() | st.lists(st.none() | st.integers(), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    ),
    max_size=3,
)


@given(was=_statuses, wanted=_statuses)
def test_one_merge_patch_makes_any_status_of_any_other(was: JsonObject, wanted: JsonObject) -> None:
    assert merged(was, changes(canonical(was) if was else "", wanted)) == wanted


def test_a_deleted_object_stays_until_its_devices_are_back() -> None:
    it = harness()
    it.apply("gpus")
    it.bring_all()
    it.delete("gpus")
    it.run()
    assert it.status("gpus")["state"] == "Cleaning"
    assert "gpus" in it.objects
    it.take_all()
    assert "gpus" not in it.objects
    assert it.names("composability", "gpus")[-1] == "ended"


def test_an_object_of_the_same_name_begins_anew() -> None:
    it = harness()
    for _ in range(2):
        it.apply("gpus")
        it.bring_all()
        assert it.status("gpus")["state"] == "Running"
        it.delete("gpus")
        it.take_all()
        assert it.objects == {}
    assert it.names("composability", "gpus").count("compose-requested") == 2


def test_a_refusal_is_the_objects_error_and_another_spec_is_tried() -> None:
    it = harness(free=1)
    it.apply("gpus", size=4, target_node="nowhere")
    it.run()
    assert "nowhere" in it.status("gpus")["error"]
    assert it.status("gpus")["state"] == "NodeAllocating"
    it.apply("gpus", size=1, target_node="n1")
    it.bring_all()
    assert it.status("gpus")["state"] == "Running"
    assert "error" not in it.status("gpus")


def test_a_refused_object_can_be_deleted() -> None:
    it = harness(free=1)
    it.apply("gpus", size=4, target_node="nowhere")
    it.run()
    it.delete("gpus")
    it.run()
    assert it.objects == {}


def test_a_spec_that_cannot_be_is_told_and_asked_of_nobody() -> None:
    it = harness()
    it.apply("gpus", size=-3)
    it.run()
    assert "spec.resource.size" in it.status("gpus")["error"]
    assert it.names("composability") == []
    it.delete("gpus")
    it.run()
    assert it.objects == {}


def test_a_request_of_the_same_name_through_the_api_stays_theirs() -> None:
    it = harness()
    it.compose("gpus")
    it.apply("gpus", size=4)
    it.run()
    assert "Muster API" in it.status("gpus")["error"]
    it.delete("gpus")
    it.run()
    assert it.objects == {}
    assert "decompose-requested" not in it.names("composability", "gpus")


def test_an_object_that_was_torn_away_gives_its_devices_back() -> None:
    it = harness()
    it.apply("gpus")
    it.bring_all()
    it.objects["gpus"]["metadata"]["finalizers"] = []
    it.delete("gpus")
    it.take_all()
    assert it.names("composability", "gpus")[-1] == "ended"


def test_another_leader_asks_nothing_twice() -> None:
    it = harness()
    it.apply("gpus", size=2)
    it.bring_all()
    it.lead(it.log)
    it.run()
    assert it.names("composability", "gpus").count("compose-requested") == 1
    assert len(it.status("gpus")["resources"]) == 2


def test_a_leader_that_begins_from_a_checkpoint_asks_nothing_twice() -> None:
    it = harness()
    it.apply("gpus", size=2)
    it.apply("others")
    it.bring_all()
    before = len(it.log)
    it.lead(it.checkpoint())
    it.run()
    assert [fact.name for fact in it.log[before:]] == []
    assert it.status("gpus")["state"] == "Running"


def test_what_was_deleted_while_nobody_led_is_given_back() -> None:
    it = harness()
    it.apply("gpus")
    it.bring_all()
    del it.objects["gpus"]
    it.lead(it.log)
    it.take_all()
    assert it.names("composability", "gpus")[-1] == "ended"


def test_only_so_many_refused_requests_are_remembered_and_the_newest_is_one() -> None:
    it = harness()
    asked = ComposeRequested(spec=ComposabilitySpec(model=A100, size=1), principal=PRINCIPAL)
    for name in (*(f"r{number}" for number in range(ENDED_MAX + 10)), "r20"):
        it.write("agent", "composability", name, "compose-requested", asked)
        it.write("composer", "composability", name, "refused", RequestRefused(field="", reason="no"))
    assert len(it.part.book.requests) == ENDED_MAX
    assert list(it.part.book.requests)[-1] == "r20"


def test_requests_live_on_where_their_objects_may_not_be_seen() -> None:
    it = harness()
    it.apply("gpus", size=2)
    it.bring_all()
    leader = Leader(KubernetesSettings(image="busybox", requests="muster"), it.log)
    leader.begin(Feature.COMPOSABILITY)
    assert leader.said() == []
    assert not leader.machines.requests._dirty  # as many as the log has, if nobody looks at them
    leader.begin()
    assert leader.said() == ["decompose-requested"]
