"""Objects of older versions of `resource.k8s.io` and of v1 are one another's translation, and nothing is lost."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.dialects import GROUP, VERSIONS, is_served, newest, understood, worded
from muster.kube.objects import JsonObject
from muster.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

ALL = (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, DEVICE_CLASSES)
ATTRIBUTES = {"uuid": {"string": "GPU-1"}}


def claim(version: str, request: JsonObject) -> JsonObject:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [request], "config": [{"opaque": {}}]}},
        "status": {"reservedFor": []},
    }


def test_a_request_says_exactly_in_v1_what_it_says_flatly_in_v1beta1() -> None:
    flat = claim("v1beta1", {"name": "gpus", "deviceClassName": "gpu", "count": 2, "brandNew": True})
    exact = claim("v1", {"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": 2, "brandNew": True}})
    assert understood(RESOURCE_CLAIMS, flat) == exact
    assert worded(RESOURCE_CLAIMS, exact, "v1beta1") == flat


def test_alternatives_of_v1beta1_stand_beside_an_empty_class() -> None:
    first = [{"name": "big", "deviceClassName": "gpu"}]
    flat = claim("v1beta1", {"name": "gpus", "deviceClassName": "", "firstAvailable": first})
    assert understood(RESOURCE_CLAIMS, flat) == claim("v1", {"name": "gpus", "firstAvailable": first})
    again = worded(RESOURCE_CLAIMS, understood(RESOURCE_CLAIMS, flat), "v1beta1")
    assert again == claim("v1beta1", {"name": "gpus", "firstAvailable": first}), "an absent class is an empty one"


def test_a_device_of_v1beta1_has_its_attributes_in_basic() -> None:
    capacity = {"memory": {"value": "80Gi"}}
    spec: JsonObject = {"driver": "d", "devices": [{"name": "a", "basic": {"attributes": ATTRIBUTES}}, {"name": "b"}]}
    old: JsonObject = {"apiVersion": "resource.k8s.io/v1beta1", "spec": spec}
    new = understood(RESOURCE_SLICES, old)
    assert new == {
        "apiVersion": "resource.k8s.io/v1",
        "spec": {"driver": "d", "devices": [{"name": "a", "attributes": ATTRIBUTES}, {"name": "b"}]},
    }
    wanted: JsonObject = {"spec": {"devices": [{"name": "a", "attributes": ATTRIBUTES, "capacity": capacity}]}}
    assert worded(RESOURCE_SLICES, wanted, "v1beta1") == {
        "spec": {"devices": [{"name": "a", "basic": {"attributes": ATTRIBUTES, "capacity": capacity}}]}
    }


def test_items_of_a_list_do_not_say_their_version() -> None:
    template: JsonObject = {"spec": {"spec": {"devices": {"requests": [{"name": "g", "deviceClassName": "gpu"}]}}}}
    said = understood(RESOURCE_CLAIM_TEMPLATES, template, "resource.k8s.io/v1beta1")
    exact = {"name": "g", "exactly": {"deviceClassName": "gpu"}}
    assert said == {"spec": {"spec": {"devices": {"requests": [exact]}}}}


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "v1", "kind": "Status", "reason": "NotFound"},
        {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "c"}},
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "1"}},
        {"metadata": {"finalizers": []}},
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_no_object_of_the_group_stays_as_it_is(obj: JsonObject, version: str) -> None:
    assert understood(RESOURCE_CLAIMS, obj) is obj
    assert worded(RESOURCE_CLAIMS, obj, version) == obj


def test_objects_of_other_groups_and_of_v1_are_not_even_looked_at() -> None:
    pod: JsonObject = {"apiVersion": "v1", "spec": {"devices": [{"name": "a", "basic": {}}]}}
    assert understood(PODS, pod, "resource.k8s.io/v1beta1") is pod
    new: JsonObject = {"apiVersion": "resource.k8s.io/v1", "spec": {"devices": [{"name": "a", "basic": {"x": 1}}]}}
    assert understood(RESOURCE_SLICES, new) is new


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
fields = st.dictionaries(st.sampled_from(["deviceClassName", "count", "attributes", "capacity", "new"]), values)
names = st.text(min_size=1, max_size=3)
requests = st.builds(lambda name, rest: {"name": name, "exactly": rest}, names, fields) | st.builds(
    lambda name, first: {"name": name, "firstAvailable": first}, names, st.lists(fields, min_size=1, max_size=2)
)
devices = st.builds(lambda name, rest: {**rest, "name": name}, names, fields)


@st.composite
def anything(draw: st.DrawFn) -> tuple[Resource, JsonObject]:
    """An object of v1, of any kind of the group."""
    resource = draw(st.sampled_from(ALL))
    asked: JsonObject = {"devices": {"requests": draw(st.lists(requests, max_size=3)), "config": []}}
    spec: JsonObject = {
        "resourceclaims": asked,
        "resourceclaimtemplates": {"metadata": {}, "spec": asked},
        "resourceslices": {"driver": "d", "devices": draw(st.lists(devices, max_size=3))},
        "deviceclasses": {"selectors": []},
    }[resource.plural]
    return resource, {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec, "status": {"x": [1]}}


@given(anything(), st.sampled_from(VERSIONS))
def test_there_and_back_is_the_same_and_touches_nothing(case: tuple[Resource, JsonObject], version: str) -> None:
    resource, obj = case
    before = copy.deepcopy(obj)
    sent = worded(resource, obj, version)
    assert sent["apiVersion"] == f"{GROUP}/{version}"
    kept = copy.deepcopy(sent)
    assert understood(resource, sent) == obj == before
    assert sent == kept


def test_the_newest_of_the_versions_that_are_spoken_is_taken() -> None:
    assert newest(["v1alpha3", "v1beta1", "v1beta2"]) == "v1beta2"
    assert newest(["v1beta1", "v1"]) == "v1"
    assert newest(["v1alpha3", "v2"]) == ""


def test_a_feature_needs_any_version_that_is_spoken_or_the_one_that_it_names() -> None:
    old = {GROUP, f"{GROUP}/v1beta1", "batch", "batch/v1"}
    assert is_served(GROUP, old)
    assert not is_served(f"{GROUP}/v1", old)
    assert not is_served(GROUP, {GROUP, f"{GROUP}/v1alpha3"})
    assert is_served("batch/v1", old)
