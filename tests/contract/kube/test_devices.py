"""Fake API servers of every version of `resource.k8s.io` look alike, and one that is upgraded is followed."""

from collections.abc import AsyncIterator

import pytest

from contract.kube.devices import DeviceKindsContract, followed
from kit.kube.fake import FakeKube, fake_kube
from kit.waiting import until
from muster.agent.core.kubernetes.slices import SliceView, project_slice
from muster.kube import bounds
from muster.kube.connection import KubeConnection
from muster.kube.dialects import VERSIONS
from muster.kube.errors import NotFoundError, UnavailableError
from muster.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from muster_tools.local_kubernetes.nodes import NodeShape, resource_slice


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def fake(version: str) -> AsyncIterator[FakeKube]:
    async with fake_kube(devices=[version]) as kube:
        yield kube


class TestFakeInEachVersion(DeviceKindsContract):
    """The same of all."""


def add_slice(fake: FakeKube, number: int) -> None:
    fake.add(RESOURCE_SLICES, dict(resource_slice(number, NodeShape(gpus=1))))


@pytest.mark.parametrize("served", [VERSIONS, ("v1beta1", "v1"), ("v1alpha3", "v1beta1"), ("v2", "v1beta2")])
async def test_the_newest_version_that_both_know_is_spoken(served: tuple[str, ...]) -> None:
    async with (
        fake_kube(devices=served) as fake,
        KubeConnection.plain(fake.url, user_agent="muster-test/1") as kube,
    ):
        await kube.list_page(RESOURCE_CLAIMS)
        assert kube.versioned.version == next(one for one in VERSIONS if one in served)


@pytest.mark.parametrize(
    ("before", "after"),
    [(("v1beta1",), ("v1",)), (("v1beta2", "v1beta1"), ("v1", "v1beta1")), (("v1",), ("v1beta1",))],
)
async def test_a_server_that_is_upgraded_or_taken_back_is_followed_without_a_list(
    before: tuple[str, ...], after: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "BACKOFF_S_MIN", 0.01)
    async with (
        fake_kube(devices=before) as fake,
        KubeConnection.plain(fake.url, user_agent="muster-test/1") as kube,
    ):
        add_slice(fake, 1)
        async with followed(kube, RESOURCE_SLICES, "", project_slice) as seen:
            assert len(seen) == 1
            assert not kube.versioned.moved.is_set()
            fake.serve_devices(*after)
            add_slice(fake, 2)
            await until(lambda: len(seen) == 2)
            assert [len(one.devices) for one in seen.values() if isinstance(one, SliceView)] == [1, 1]
            assert (await kube.list_page(RESOURCE_CLAIMS)).items == []
            assert kube.versioned.moved.is_set()
            assert kube.versioned.version == after[0]
            assert fake.count("list", "resourceslices.resource.k8s.io") == 0
            relisted = [one for one in fake.asked("watch") if "sendInitialEvents" in one.query and one.code == 200]
            assert len(relisted) == 1, "it went on where it was"


async def test_a_kind_that_nobody_serves_is_not_found_and_asked_for_anew() -> None:
    async with (
        fake_kube(devices=["v1alpha3"]) as fake,
        KubeConnection.plain(fake.url, user_agent="muster-test/1") as kube,
    ):
        with pytest.raises(NotFoundError):
            await kube.list_page(RESOURCE_CLAIMS)
        fake.serve_devices("v1beta1")
        assert (await kube.list_page(RESOURCE_CLAIMS)).items == []


async def test_replicas_that_differ_are_no_sign_that_an_object_is_gone() -> None:
    """During an upgrade one replica says what it serves, and another one, that does not yet, answers."""
    async with (
        fake_kube(devices=["v1"]) as fake,
        KubeConnection.plain(fake.url, user_agent="muster-test/1") as kube,
    ):
        await kube.list_page(RESOURCE_CLAIMS)
        fake.serves_but_says = ("v1",)
        fake.serve_devices("v1beta1")
        await kube.get_path("/version")  # over a connection that stands
        with pytest.raises(UnavailableError, match="no change was applied") as failed:
            await kube.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}}, namespace="default")
        assert not failed.value.effect_unknown
        fake.serves_but_says = None
        assert (await kube.list_page(RESOURCE_CLAIMS)).items == []
        assert kube.versioned.version == "v1beta1"
