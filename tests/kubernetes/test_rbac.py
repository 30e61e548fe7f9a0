"""What services may do at a real API server: the verbs of the table, nothing more, and never Secrets."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import cast

import aiohttp
import pytest

from kit.kube.manifests import JOBS, K8S, kubectl
from kit.kube.planes import AnyPlane
from muster.kube.objects import JsonObject, at, objects, text
from muster.kube.permissions import AGENT, GATEWAY, GUARD, TABLE, services
from muster.kube.rbac import OF_FABRICS, account_of, asked_in

VERBS = (
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "escalate",
    "bind",
    "impersonate",
)
ASKED_AT_ONCE = 32
EVERYBODY = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})
"""What each user may do: ask what it may do."""
Right = tuple[str, str, str, str, str]
"""Namespace, group, resource, verb, and of which object ("": any)."""


@pytest.fixture
async def admin(plane: AnyPlane) -> AsyncIterator[aiohttp.ClientSession]:
    """With Muster's roles bound to accounts, as the base does it, and the component for identity."""
    roles = [str(K8S / place / "rbac.yaml") for place in ("base", "components/identity")]
    for file in (str(K8S / "base" / "namespaces.yaml"), *roles):
        kubectl(plane, "apply", "--server-side", "-f", file)
    async with plane.client() as client:
        yield client
    for file in roles:
        kubectl(plane, "delete", "--ignore-not-found", "-f", file)


def wanted(service: str) -> set[Right]:
    """What the roles grant: writing is kept to the namespace of jobs, and nothing is granted that only fabrics need."""
    return {
        (namespace, row.group, row.resource, verb, name)
        for row in TABLE
        if row.service == service and row.feature not in OF_FABRICS
        for verb in row.verbs
        for namespace in asked_in(row, verb, (JOBS,))
        for name in row.names or ("",)
    }


async def served(admin: aiohttp.ClientSession) -> set[tuple[str, str]]:
    """Group and name of every resource that the API server has, subresources too."""
    found = set()
    async with admin.get("/apis") as answer:
        groups = [text(one, "preferredVersion", "groupVersion") for one in objects(await answer.json(), "groups")]
    for path in ("/api/v1", *(f"/apis/{group}" for group in groups)):
        async with admin.get(path) as answer:
            rows = objects(await answer.json(), "resources")
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        found |= {(group, text(row, "name")) for row in rows}
    return found


async def may(admin: aiohttp.ClientSession, service: str, asked: Iterable[Right]) -> set[Right]:
    """Those of the rights that the service's account has."""
    gate = asyncio.Semaphore(ASKED_AT_ONCE)
    account = f"system:serviceaccount:muster:{account_of(service)}"

    async def one(right: Right) -> bool:
        namespace, group, resource, verb, name = right
        plural, _, subresource = resource.partition("/")
        attributes = {
            "namespace": namespace,
            "group": group,
            "resource": plural,
            "subresource": subresource,
            "verb": verb,
            "name": name,
        }
        spec: JsonObject = {
            "user": account,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:muster", "system:authenticated"],
            "resourceAttributes": attributes,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        async with gate, admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=body) as answer:
            answer.raise_for_status()
            return at(await answer.json(), "status", "allowed") is True

    rights = list(asked)
    return {right for right, allowed in zip(rights, await asyncio.gather(*map(one, rights)), strict=True) if allowed}


@pytest.mark.parametrize("service", services())
async def test_a_service_may_do_what_the_table_says(admin: aiohttp.ClientSession, service: str) -> None:
    assert await may(admin, service, wanted(service)) == wanted(service)


@pytest.mark.parametrize("service", services())
async def test_a_service_may_do_nothing_else_to_whatever_the_api_server_has(
    admin: aiohttp.ClientSession, service: str
) -> None:
    everything = {("", group, resource, verb, "") for group, resource in await served(admin) for verb in VERBS}
    allowed = {right for right in await may(admin, service, everything) if right[2] not in EVERYBODY}
    assert len(everything) > 500
    assert allowed <= wanted(service)


@pytest.mark.parametrize("service", services())
async def test_no_service_may_do_anything_with_secrets(admin: aiohttp.ClientSession, service: str) -> None:
    asked = {
        (space, "", "secrets", verb, "")
        for space in ("", "muster", "muster-jobs", "kube-system", "default")
        for verb in VERBS
    }
    assert await may(admin, service, asked) == set()


async def test_jobs_are_made_in_their_namespace_alone(admin: aiohttp.ClientSession) -> None:
    """Who may create pods somewhere can mount what is secret there."""
    spaces = ("", "default", "kube-system", "muster", JOBS)
    asked = {(space, "", "pods", verb, "") for space in spaces for verb in ("create", "delete")}
    assert {right[0] for right in await may(admin, AGENT, asked)} == {JOBS}


async def test_who_has_no_role_may_do_nothing(admin: aiohttp.ClientSession) -> None:
    assert await may(admin, "scheduler", wanted(AGENT) | wanted(GUARD)) == set()


async def test_the_guard_reads_metrics_and_the_agent_does_not(admin: aiohttp.ClientSession) -> None:
    async def reads(service: str) -> object:
        spec = {
            "user": f"system:serviceaccount:muster:{account_of(service)}",
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        async with admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=body) as answer:
            return cast("JsonObject", await answer.json())["status"]

    assert at(await reads(GUARD), "allowed") is True
    assert [at(await reads(service), "allowed") for service in (AGENT, GATEWAY)] == [False, False]
