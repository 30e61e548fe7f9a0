"""What an API server does, as far as Muster relies on it. Inherited by a fake one and by a real one.

Objects are config maps and pods without a kubelet; every test has a namespace of its own, `space`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic_core import from_json

from kit.kube.fake.samples import binding, custom_resource, pod
from kit.waiting import until_async
from muster.kube.connection import KubeConnection
from muster.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    GoneError,
    InvalidError,
    NotFoundError,
)
from muster.kube.objects import JsonObject, at, mapping, name_of, objects, sequence, text, uid_of, version_of
from muster.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, PODS, TOKEN_REVIEWS, Resource
from muster.kube.shapes import Patch, Selection, Writing

END_OF_INITIAL_EVENTS = "k8s.io/initial-events-end"
STATES = Resource("contract.muster.example", "v1", "states", namespaced=True, kind="State")


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> JsonObject:
    metadata: JsonObject = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Events:
    """Events of one watch, one by one."""

    def __init__(self, batches: AsyncIterator[list[bytes]]) -> None:
        self._batches = batches
        self._waiting: list[JsonObject] = []

    async def next(self, *, bookmarks: bool = False) -> tuple[str, JsonObject]:
        """Type and object."""
        while True:
            while self._waiting:
                event = self._waiting.pop(0)
                if bookmarks or event["type"] != "BOOKMARK":
                    return text(event, "type"), mapping(event, "object")
            batch = await anext(self._batches)
            self._waiting = [from_json(line) for line in batch]

    async def initial(self) -> tuple[list[str], JsonObject]:
        """Names until the end of the initial events, and the bookmark that marks it."""
        names: list[str] = []
        while True:
            kind, obj = await self.next(bookmarks=True)
            if kind == "BOOKMARK" and at(obj, "metadata", "annotations", END_OF_INITIAL_EVENTS) == "true":
                return names, obj
            assert kind == "ADDED"
            names.append(name_of(obj))


@asynccontextmanager
async def watching(
    kube: KubeConnection,
    resource: Resource,
    space: str,
    *,
    version: str = "",
    initial_events: bool = False,
    metadata_only: bool = False,
    labels: str = "",
    fields: str = "",
) -> AsyncIterator[Events]:
    select = Selection(namespace=space, labels=labels, fields=fields)
    async with kube.watch(
        resource,
        select=select,
        version=version,
        initial_events=initial_events,
        metadata_only=metadata_only,
        timeout_s=60,
        silence_s=30.0,
    ) as lines:
        yield Events(lines.batches())


class ApiServerContract:
    """Fixtures to be given: `kube` (a KubeConnection) and `space` (an empty namespace)."""

    async def test_an_object_is_completed_at_creation(self, kube: KubeConnection, space: str) -> None:
        made = await kube.create(CONFIG_MAPS, config_map("a", colour="red"), namespace=space)
        assert uid_of(made)
        assert version_of(made)
        assert text(made, "metadata", "creationTimestamp")
        assert await kube.get(CONFIG_MAPS, "a", namespace=space) == made

    async def test_a_name_is_made_from_its_beginning(self, kube: KubeConnection, space: str) -> None:
        body = {**config_map(""), "metadata": {"generateName": "run-"}}
        names = {name_of(await kube.create(CONFIG_MAPS, body, namespace=space)) for _ in range(2)}
        assert len(names) == 2
        assert all(name.startswith("run-") and len(name) > len("run-") for name in names)

    async def test_a_second_object_of_a_name_is_refused(self, kube: KubeConnection, space: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace=space)
        with pytest.raises(AlreadyExistsError, match="create configmaps a"):
            await kube.create(CONFIG_MAPS, config_map("a"), namespace=space)

    async def test_what_is_not_there_is_not_found(self, kube: KubeConnection, space: str) -> None:
        with pytest.raises(NotFoundError):
            await kube.get(CONFIG_MAPS, "a", namespace=space)
        with pytest.raises(NotFoundError):
            await kube.delete(CONFIG_MAPS, "a", namespace=space)
        with pytest.raises(NotFoundError):
            await kube.create(CONFIG_MAPS, config_map("a"), namespace="nowhere-at-all")
        with pytest.raises(NotFoundError):
            await kube.list_page(Resource("no.such", "v1", "things", namespaced=False))

    async def test_an_object_without_a_name_is_invalid(self, kube: KubeConnection, space: str) -> None:
        with pytest.raises(InvalidError) as refused:
            await kube.create(CONFIG_MAPS, {**config_map(""), "metadata": {}}, namespace=space)
        assert refused.value.causes[0].field == "metadata.name"

    async def test_replacing_an_old_version_conflicts(self, kube: KubeConnection, space: str) -> None:
        old = await kube.create(CONFIG_MAPS, config_map("a", colour="red"), namespace=space)
        new = await kube.replace(CONFIG_MAPS, "a", {**old, "data": {"colour": "blue"}}, namespace=space)
        assert int(version_of(new)) > int(version_of(old))
        with pytest.raises(ConflictError):
            await kube.replace(CONFIG_MAPS, "a", {**old, "data": {"colour": "green"}}, namespace=space)
        assert text(await kube.get(CONFIG_MAPS, "a", namespace=space), "data", "colour") == "blue"

    async def test_replacing_without_a_version_takes_whatever_is_there(self, kube: KubeConnection, space: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", colour="red"), namespace=space)
        new = await kube.replace(CONFIG_MAPS, "a", config_map("a", colour="blue"), namespace=space)
        assert text(new, "data", "colour") == "blue"

    async def test_what_changes_nothing_gets_no_new_version(self, kube: KubeConnection, space: str) -> None:
        made = await kube.create(CONFIG_MAPS, config_map("a", colour="red"), namespace=space)
        same = await kube.patch(CONFIG_MAPS, "a", {"data": {"colour": "red"}}, kind=Patch.MERGE, namespace=space)
        assert version_of(same) == version_of(made)

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            (Patch.MERGE, {"data": {"size": "2", "colour": None}}),
            (Patch.STRATEGIC, {"data": {"size": "2", "colour": None}}),
            (
                Patch.JSON,
                [{"op": "remove", "path": "/data/colour"}, {"op": "add", "path": "/data/size", "value": "2"}],
            ),
        ],
    )
    async def test_a_patch_changes_a_part(
        self, kube: KubeConnection, space: str, kind: Patch, body: JsonObject | list[JsonObject]
    ) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", colour="red", shape="round"), namespace=space)
        patched = await kube.patch(CONFIG_MAPS, "a", body, kind=kind, namespace=space)
        assert mapping(patched, "data") == {"shape": "round", "size": "2"}

    async def test_an_applied_intent_is_created_and_then_changed(self, kube: KubeConnection, space: str) -> None:
        how = Writing(field_manager="muster-test", force=True)
        for colour in ("red", "blue"):
            body = config_map("a", colour=colour)
            applied = await kube.patch(CONFIG_MAPS, "a", body, kind=Patch.APPLY, namespace=space, writing=how)
            assert text(applied, "data", "colour") == colour

    async def test_a_dry_run_keeps_nothing(self, kube: KubeConnection, space: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace=space, writing=Writing(dry_run=True))
        assert (await kube.list_page(CONFIG_MAPS, select=Selection(space, fields="metadata.name=a"))).items == []

    async def test_only_the_uid_that_is_meant_is_deleted(self, kube: KubeConnection, space: str) -> None:
        made = await kube.create(CONFIG_MAPS, config_map("a"), namespace=space)
        with pytest.raises(ConflictError):
            await kube.delete(CONFIG_MAPS, "a", namespace=space, uid="00000000-0000-0000-0000-000000000000")
        with pytest.raises(ConflictError):
            await kube.delete(CONFIG_MAPS, "a", namespace=space, version="1")
        await kube.delete(CONFIG_MAPS, "a", namespace=space, uid=uid_of(made))
        with pytest.raises(NotFoundError):
            await kube.get(CONFIG_MAPS, "a", namespace=space)

    async def test_a_finalizer_keeps_a_deleted_object(self, kube: KubeConnection, space: str) -> None:
        body = config_map("a")
        body["metadata"] = {"name": "a", "finalizers": ["muster.example/wait"]}
        await kube.create(CONFIG_MAPS, body, namespace=space)
        await kube.delete(CONFIG_MAPS, "a", namespace=space)
        kept = await kube.get(CONFIG_MAPS, "a", namespace=space)
        assert text(kept, "metadata", "deletionTimestamp")
        await kube.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, kind=Patch.MERGE, namespace=space)
        with pytest.raises(NotFoundError):
            await kube.get(CONFIG_MAPS, "a", namespace=space)

    async def test_a_list_comes_in_pages_of_one_state(self, kube: KubeConnection, space: str) -> None:
        for number in range(5):
            await kube.create(CONFIG_MAPS, config_map(f"m{number}", labels={"test": "pages"}), namespace=space)
        select = Selection(space, labels="test=pages")
        first = await kube.list_page(CONFIG_MAPS, select=select, limit=2)
        await kube.delete(CONFIG_MAPS, "m4", namespace=space)
        second = await kube.list_page(CONFIG_MAPS, select=select, limit=2, continue_token=first.continue_token)
        third = await kube.list_page(CONFIG_MAPS, select=select, limit=2, continue_token=second.continue_token)
        pages = (first, second, third)
        assert [[name_of(item) for item in page.items] for page in pages] == [["m0", "m1"], ["m2", "m3"], ["m4"]]
        assert {page.version for page in pages} == {first.version}
        assert third.continue_token == ""

    @pytest.mark.parametrize(
        ("labels", "fields", "names"),
        [
            ("team=a", "", ["m0", "m1"]),
            ("team!=a", "", ["m2"]),
            ("team in (a, b),rank", "", ["m1", "m2"]),
            ("!rank", "", ["m0"]),
            ("", "metadata.name=m1", ["m1"]),
            ("team", "metadata.name!=m1", ["m0", "m2"]),
        ],
    )
    async def test_selectors_select(
        self, kube: KubeConnection, space: str, labels: str, fields: str, names: list[str]
    ) -> None:
        for name, given in (
            ("m0", {"team": "a"}),
            ("m1", {"team": "a", "rank": "1"}),
            ("m2", {"team": "b", "rank": "2"}),
        ):
            await kube.create(CONFIG_MAPS, config_map(name, labels=given), namespace=space)
        page = await kube.list_page(CONFIG_MAPS, select=Selection(space, labels=labels, fields=fields))
        assert [name_of(item) for item in page.items if name_of(item).startswith("m")] == names

    async def test_metadata_alone_can_be_had(self, kube: KubeConnection, space: str) -> None:
        given = config_map("a", labels={"test": "meta"}, colour="red")
        made = await kube.create(CONFIG_MAPS, given, namespace=space, metadata_only=True)
        assert (name_of(made), "data" in made, bool(uid_of(made))) == ("a", False, True)
        select = Selection(space, labels="test=meta")
        page = await kube.list_page(CONFIG_MAPS, select=select, metadata_only=True)
        one = await kube.get(CONFIG_MAPS, "a", namespace=space, metadata_only=True)
        assert [name_of(item) for item in page.items] == ["a"]
        assert "data" not in page.items[0]
        assert "data" not in one
        async with watching(
            kube, CONFIG_MAPS, space, initial_events=True, metadata_only=True, labels="test=meta"
        ) as events:
            _, obj = await events.next()
            assert (name_of(obj), "data" in obj) == ("a", False)

    async def test_a_watch_goes_on_from_a_version(self, kube: KubeConnection, space: str) -> None:
        made = await kube.create(CONFIG_MAPS, config_map("a"), namespace=space)
        changed = await kube.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, kind=Patch.MERGE, namespace=space)
        await kube.delete(CONFIG_MAPS, "a", namespace=space)
        async with watching(kube, CONFIG_MAPS, space, version=version_of(made)) as events:
            assert await events.next() == ("MODIFIED", changed)
            kind, gone = await events.next()
            assert (kind, name_of(gone)) == ("DELETED", "a")
            assert int(version_of(gone)) > int(version_of(changed))

    async def test_a_streaming_list_gives_the_state_and_then_what_happens(
        self, kube: KubeConnection, space: str
    ) -> None:
        for name in ("a", "b"):
            await kube.create(CONFIG_MAPS, config_map(name, labels={"test": "stream"}), namespace=space)
        async with watching(kube, CONFIG_MAPS, space, initial_events=True, labels="test=stream") as events:
            names, bookmark = await events.initial()
            assert sorted(names) == ["a", "b"]
            made = await kube.create(CONFIG_MAPS, config_map("c", labels={"test": "stream"}), namespace=space)
            assert await events.next() == ("ADDED", made)
            assert int(version_of(made)) > int(version_of(bookmark))

    async def test_an_object_that_leaves_the_selection_is_deleted_from_it(
        self, kube: KubeConnection, space: str
    ) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", labels={"in": "yes"}), namespace=space)
        async with watching(kube, CONFIG_MAPS, space, initial_events=True, labels="in=yes") as events:
            assert (await events.initial())[0] == ["a"]
            for value, expected in (("no", "DELETED"), ("yes", "ADDED")):
                patch: JsonObject = {"metadata": {"labels": {"in": value}}}
                await kube.patch(CONFIG_MAPS, "a", patch, kind=Patch.MERGE, namespace=space)
                kind, obj = await events.next()
                assert (kind, name_of(obj)) == (expected, "a")

    async def test_a_version_that_never_was_kept_is_gone(self, kube: KubeConnection, space: str) -> None:
        """Of a continue token that the server does not know."""
        with pytest.raises((GoneError, InvalidError)):
            await kube.list_page(CONFIG_MAPS, select=Selection(space), limit=1, continue_token="nonsense")

    async def test_a_pod_is_bound_once(self, kube: KubeConnection, space: str) -> None:
        made = await kube.create(PODS, pod("p", namespace=space), namespace=space)
        assert text(made, "status", "phase") == "Pending"
        with pytest.raises(InvalidError, match="does not match name"):
            await kube.create_subresource(PODS, "p", "binding", binding("q", "n1"), namespace=space)
        with pytest.raises(ConflictError):
            await kube.create_subresource(PODS, "p", "binding", binding("p", "n1", uid="other"), namespace=space)
        await kube.create_subresource(PODS, "p", "binding", binding("p", "n1", uid=uid_of(made)), namespace=space)
        bound = await kube.get(PODS, "p", namespace=space)
        assert text(bound, "spec", "nodeName") == "n1"
        assert {"PodScheduled"} <= {str(at(one, "type")) for one in sequence(bound, "status", "conditions")}
        with pytest.raises(ConflictError, match="already assigned"):
            await kube.create_subresource(PODS, "p", "binding", binding("p", "n2"), namespace=space)
        select = Selection(space, fields="spec.nodeName=n1")
        assert [name_of(item) for item in (await kube.list_page(PODS, select=select)).items] == ["p"]

    async def test_a_bound_pod_waits_for_its_kubelet_when_deleted(self, kube: KubeConnection, space: str) -> None:
        await kube.create(PODS, pod("p", namespace=space, node_name="n1"), namespace=space)
        left = await kube.delete(PODS, "p", namespace=space, grace_s=5)
        assert at(left, "metadata", "deletionGracePeriodSeconds") == 5
        assert text(await kube.get(PODS, "p", namespace=space), "metadata", "deletionTimestamp")
        await kube.delete(PODS, "p", namespace=space, grace_s=0)
        with pytest.raises(NotFoundError):
            await kube.get(PODS, "p", namespace=space)

    async def test_a_waiting_pod_is_deleted_at_once(self, kube: KubeConnection, space: str) -> None:
        await kube.create(PODS, pod("p", namespace=space), namespace=space)
        await kube.delete(PODS, "p", namespace=space)
        with pytest.raises(NotFoundError):
            await kube.get(PODS, "p", namespace=space)

    async def test_an_evicted_pod_is_deleted_with_grace(self, kube: KubeConnection, space: str) -> None:
        await kube.create(PODS, pod("p", namespace=space, node_name="n1"), namespace=space)
        body: JsonObject = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p", "namespace": space},
            "deleteOptions": {"gracePeriodSeconds": 7},
        }
        await kube.create_subresource(PODS, "p", "eviction", body, namespace=space)
        left = await kube.get(PODS, "p", namespace=space)
        assert at(left, "metadata", "deletionGracePeriodSeconds") == 7

    async def test_status_and_the_rest_are_written_apart(self, kube: KubeConnection, space: str) -> None:
        made = await kube.create(PODS, pod("p", namespace=space), namespace=space)
        await kube.patch(
            PODS, "p", {"status": {"phase": "Running"}}, kind=Patch.MERGE, namespace=space, subresource="status"
        )
        await kube.patch(
            PODS,
            "p",
            {"metadata": {"labels": {"x": "1"}}, "status": {"phase": "Failed"}},
            kind=Patch.MERGE,
            namespace=space,
        )
        now = await kube.get(PODS, "p", namespace=space)
        assert text(now, "status", "phase") == "Running"
        assert text(now, "metadata", "labels", "x") == "1"
        with pytest.raises(ConflictError):
            await kube.replace(PODS, "p", made, namespace=space, subresource="status")

    async def test_the_server_says_what_it_is_and_serves(self, kube: KubeConnection) -> None:
        version = await kube.get_path("/version")
        assert text(version, "gitVersion").startswith("v1.")
        groups = [text(one, "name") for one in objects(await kube.get_path("/apis"), "groups")]
        assert {"batch", "resource.k8s.io", "flowcontrol.apiserver.k8s.io"} <= set(groups)
        claims = objects(await kube.get_path("/apis/resource.k8s.io/v1"), "resources")
        assert {"resourceclaims", "resourceslices"} <= {text(one, "name") for one in claims}
        versions = objects(await kube.get_path("/apis/batch"), "versions")
        assert "batch/v1" in [text(one, "groupVersion") for one in versions]
        assert "pods" in [text(one, "name") for one in objects(await kube.get_path("/api/v1"), "resources")]
        for path in ("/apis/no.such", "/apis/no.such/v1", "/nothing"):
            with pytest.raises(NotFoundError):
                await kube.get_path(path)

    async def test_a_custom_resource_is_served_once_defined(self, kube: KubeConnection, space: str) -> None:
        definition = custom_resource(STATES.group, STATES.plural, STATES.kind)
        try:
            await kube.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

            async def served() -> bool:
                try:
                    await kube.list_page(STATES, select=Selection(space))
                except NotFoundError:
                    return False
                return True

            await until_async(served)
            body: JsonObject = {
                "apiVersion": STATES.api_version,
                "kind": STATES.kind,
                "metadata": {"name": "s"},
                "spec": {"size": 2},
                "status": {"ready": True},
            }
            made = await kube.create(STATES, body, namespace=space)
            assert "status" not in made
            changed = await kube.patch(
                STATES, "s", {"status": {"ready": True}}, kind=Patch.MERGE, namespace=space, subresource="status"
            )
            assert at(changed, "status", "ready") is True
            assert at(changed, "metadata", "generation") == 1
            changed = await kube.patch(STATES, "s", {"spec": {"size": 3}}, kind=Patch.MERGE, namespace=space)
            assert at(changed, "metadata", "generation") == 2
        finally:
            await kube.delete(CUSTOM_RESOURCE_DEFINITIONS, name_of(definition))

    async def test_a_review_does_not_authenticate_a_token_that_nobody_made(self, kube: KubeConnection) -> None:
        spec: JsonObject = {"token": "a.b.c", "audiences": ["muster"]}
        review: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        assert not at(await kube.create(TOKEN_REVIEWS, review), "status", "authenticated")
