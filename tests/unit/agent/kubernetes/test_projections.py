"""What is kept of objects as the API server sends them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.agent.core.kubernetes.projections import NodeProjection, PodProjection
from muster.agent.core.kubernetes.resources import count, instant, mib_down, mib_up, milli, pod_requests
from muster.agent.core.kubernetes.views import Requests
from muster.core import NS_PER_S
from muster.kube.objects import JsonObject

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["metadata", "spec", "status", "containers", "conditions", "taints", "labels", "name"]), inner
    ),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.parametrize(
    ("quantity", "milli_units", "mib"),
    [
        ("500m", 500, 1), ("2", 2000, 1), (4, 4000, 1), ("0.1", 100, 1), ("100u", 1, 1), ("1Gi", 2**30 * 1000, 1024),
        ("1e9", 10**12, 954), ("1G", 10**12, 954), ("128974848", 128974848000, 123),
        ("12E", 12 * 10**21, 11444091796875),
    ],
)  # fmt: skip
def test_quantities_are_read_as_kubernetes_writes_them(quantity: object, milli_units: int, mib: int) -> None:
    assert (milli(quantity), mib_up(quantity)) == (milli_units, mib)


def test_what_a_node_offers_is_rounded_down() -> None:
    assert (mib_down("1023Ki"), mib_up("1023Ki"), count("7")) == (0, 1, 7)


@pytest.mark.parametrize("nonsense", ["", "abc", None, True, [], "1..2", "9" * 100, "1e999999999"])
def test_what_is_no_quantity_counts_as_none(nonsense: object) -> None:
    assert milli(nonsense) == 0


def test_moments_are_read_to_the_nanosecond() -> None:
    assert instant("2023-11-14T22:13:20Z") == 1_700_000_000 * NS_PER_S
    assert instant("2023-11-14T22:13:20.5Z") == 1_700_000_000 * NS_PER_S + 500_000_000
    assert instant("2000-02-29T00:00:00Z") == 951_782_400 * NS_PER_S
    assert instant("tomorrow") == 0


def container(cpu: str, memory: str = "", **more: object) -> JsonObject:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory or "1Mi", **more}}}


def test_init_containers_count_as_the_largest_and_sidecars_beside_the_rest() -> None:
    spec: JsonObject = {
        "containers": [container("1"), container("2", **{"nvidia.com/gpu": "2"})],
        "initContainers": [
            container("5"),
            {**container("500m"), "restartPolicy": "Always"},
            container("3"),
        ],
        "overhead": {"cpu": "100m"},
    }
    assert pod_requests(spec) == Requests(5100, 3, (("nvidia.com/gpu", 2),))


def test_requests_of_the_whole_pod_win() -> None:
    spec: JsonObject = {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}
    assert pod_requests(spec).cpu_milli == 4000


def test_a_pod_that_was_deleted_says_until_when_it_lives_and_how_it_ended() -> None:
    over = {"exitCode": 3, "startedAt": "2023-11-14T22:13:10Z", "finishedAt": "2023-11-14T22:13:20Z"}
    view = PodProjection()(
        {
            "metadata": {"name": "a", "deletionTimestamp": "2023-11-14T22:13:50Z", "deletionGracePeriodSeconds": 30},
            "status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": over}}]},
        }
    )
    assert view.end is not None
    assert (view.end.exit_code, view.end.ran_s, view.end.finished_at) == (3, 10.0, 1_700_000_000 * NS_PER_S)
    assert (view.ends_at, view.grace_s) == (1_700_000_030 * NS_PER_S, 30)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"reason": "OutOfcpu", "message": "not enough cpu"}, "OutOfcpu: not enough cpu"),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}, "OOMKilled"),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}, ""),
    ],
)
def test_an_end_says_why_where_somebody_said_it(status: JsonObject, told: str) -> None:
    view = PodProjection()({"status": {"phase": "Failed", **status}})
    assert view.end is not None
    assert view.end.told == told


def test_a_disrupted_pod_says_so() -> None:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
    view = PodProjection()({"status": {"phase": "Failed", "conditions": conditions}})
    assert view.end is not None
    assert view.end.disrupted


def test_devices_are_those_that_the_kubelet_tells() -> None:
    told = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-b"}, {"resourceID": "GPU-a"}]}]
    view = PodProjection()({"status": {"phase": "Running", "containerStatuses": [{"allocatedResourcesStatus": told}]}})
    assert view.devices == ("GPU-a", "GPU-b")


@pytest.mark.parametrize(
    ("spec", "closed"),
    [
        ({}, ""),
        ({"unschedulable": True}, "cordoned"),
        ({"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, ""),
        ({"taints": [{"key": "dedicated", "effect": "PreferNoSchedule"}]}, ""),
        ({"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}, "taint dedicated:NoSchedule"),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}, ""),
    ],
)
def test_a_node_is_closed_by_a_cordon_or_a_taint_that_muster_does_not_tolerate(spec: JsonObject, closed: str) -> None:
    view = NodeProjection(tolerated=frozenset({"nvidia.com/gpu"}))({"metadata": {"name": "n"}, "spec": spec})
    assert view.closed == closed


def test_a_node_is_reached_at_its_address_within_the_cluster() -> None:
    addresses = [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.7"}]
    assert NodeProjection()({"metadata": {"name": "n"}, "status": {"addresses": addresses}}).address == "10.0.0.7"
    assert NodeProjection()({"metadata": {"name": "n"}}).address == ""


def test_a_heartbeat_is_no_change() -> None:
    def beat(at: str) -> JsonObject:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": at}
        return {"metadata": {"name": "n", "resourceVersion": at}, "status": {"conditions": [condition]}}

    assert NodeProjection()(beat("1")) == NodeProjection()(beat("2"))


@given(JSON)
def test_no_object_is_too_strange_to_be_read(raw: object) -> None:
    if isinstance(raw, dict):
        PodProjection()(raw)
        NodeProjection()(raw)
