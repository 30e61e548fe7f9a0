"""RBAC from the table of permissions: nothing more than its verbs, never Secrets."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from muster.cli.kubernetes_commands import rbac_yaml
from muster.kube.objects import JsonObject, at, objects, text
from muster.kube.permissions import AGENT, GATEWAY, GUARD, PATHS, TABLE, Feature, Permission
from muster.kube.rbac import OF_FABRICS, READING, Scope, asked_in, manifests

BASE = Path(__file__).parents[3] / "k8s" / "base"


EVERYWHERE = Scope()


def granted(service: str, scope: Scope = EVERYWHERE) -> set[tuple[str, str, str, str]]:
    """(namespace, group, resource, verb) of everything that the manifests give to a service."""
    return {
        (text(role, "metadata", "namespace"), *found)
        for role in manifests(scope)
        if text(role, "kind").endswith("Role") and text(role, "metadata", "name") == f"muster-{service}"
        for rule in objects(role, "rules")
        for found in _verbs(rule)
    }


def _verbs(rule: JsonObject) -> Iterator[tuple[str, str, str]]:
    for group in cast("list[str]", rule.get("apiGroups", [])):
        for resource in cast("list[str]", rule["resources"]):
            for verb in cast("list[str]", rule["verbs"]):
                yield group, resource, verb


def wanted(service: str) -> set[tuple[str, str, str, str]]:
    return {
        (row.namespace, row.group, row.resource, verb) for row in TABLE if row.service == service for verb in row.verbs
    }


@pytest.mark.parametrize("service", [AGENT, GUARD])
def test_a_service_gets_the_verbs_of_its_rows_and_no_others(service: str) -> None:
    assert granted(service) == wanted(service)


def test_the_gateway_may_review_tokens_only_where_that_is_wanted() -> None:
    assert granted(GATEWAY) == set()
    assert granted(GATEWAY, Scope(services=(GATEWAY,))) == wanted(GATEWAY)
    assert wanted(GATEWAY) == {("", "authentication.k8s.io", "tokenreviews", "create")}


@pytest.mark.parametrize(("resource", "verbs"), [("secrets", ("list",)), ("*", ("get",)), ("pods", ("*",))])
def test_no_row_may_name_secrets_or_everything(resource: str, verbs: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="not allowed for Muster"):
        Permission(AGENT, "", resource, verbs, "curiosity")


def test_paths_are_read_only() -> None:
    rules = [rule for role in manifests() for rule in objects(role, "rules") if "nonResourceURLs" in rule]
    assert [(rule["nonResourceURLs"], rule["verbs"]) for rule in rules] == [(list(row.paths), ["get"]) for row in PATHS]


def test_writing_is_kept_to_the_namespaces_of_jobs() -> None:
    scope = Scope(writes_in=("team-a", "team-b"))
    for namespace, _, resource, verb in granted(AGENT, scope):
        is_of_jobs = namespace in ("", *scope.writes_in, "gpu-operator", "nvidia-dra-driver-gpu")
        if is_of_jobs and resource.startswith(("pods", "jobs", "musterjobs", "services", "resourceclaims")):
            assert (verb in READING) == (namespace == ""), f"{verb} {resource} in {namespace!r}"
    everywhere = {found[1:] for found in granted(AGENT, scope)}
    assert everywhere == {found[1:] for found in granted(AGENT)}, "nothing was lost"


def test_a_feature_that_is_not_wanted_asks_for_nothing() -> None:
    without = granted(AGENT, Scope(without=(Feature.DRA,)))
    assert granted(AGENT) - without == {
        (row.namespace, row.group, row.resource, verb)
        for row in TABLE
        if row.service == AGENT and row.feature is Feature.DRA
        for verb in row.verbs
    }


def test_every_role_is_bound_to_the_account_of_its_service() -> None:
    found = manifests(Scope(namespace="elsewhere"))
    roles = {(text(one, "kind"), text(one, "metadata", "namespace"), text(one, "metadata", "name")) for one in found}
    bindings = [one for one in found if text(one, "kind").endswith("Binding")]
    assert bindings
    for one in bindings:
        name = text(one, "metadata", "name")
        assert (at(one, "roleRef", "kind"), at(one, "roleRef", "name")) == (
            text(one, "kind").removesuffix("Binding"),
            name,
        )
        assert (text(one, "kind").removesuffix("Binding"), text(one, "metadata", "namespace"), name) in roles
        assert one["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": "elsewhere"}]


@pytest.mark.parametrize(
    ("file", "options", "scope"),
    [
        (
            "base/rbac.yaml",
            "--writes-in muster-jobs --no-fabrics",
            Scope(writes_in=("muster-jobs",), without=OF_FABRICS),
        ),
        ("components/identity/rbac.yaml", "--service gateway", Scope(services=(GATEWAY,))),
    ],
)
def test_the_manifests_in_the_repository_are_those_of_the_table(file: str, options: str, scope: Scope) -> None:
    written = (BASE.parent / file).read_text(encoding="utf-8")
    assert written == rbac_yaml(scope), f"make them anew: muster kubernetes rbac {options} > k8s/{file}"
    assert len(list(yaml.safe_load_all(written))) == len(manifests(scope))
    assert f"`muster kubernetes rbac {options}`" in (BASE.parent / "README.md").read_text(encoding="utf-8")


def test_what_is_asked_of_the_api_server_is_what_is_granted() -> None:
    writes_in = ("team-a", "team-b")
    asked = {
        (namespace, row.group, row.resource, verb)
        for row in TABLE
        if row.service == AGENT
        for verb in row.verbs
        for namespace in asked_in(row, verb, writes_in)
    }
    assert asked == granted(AGENT, Scope(writes_in=writes_in))


def test_the_page_on_permissions_says_what_is_lost_without_each_feature() -> None:
    page = (BASE.parents[1] / "docs" / "permissions.md").read_text(encoding="utf-8")
    assert [feature for feature in Feature if f"`{feature}`" not in page] == []
