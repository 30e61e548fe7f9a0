"""k8s/components/identity as docs/identity.md says: TLS, a provider and TokenReview, and no other right for it."""

import re
from pathlib import Path
from typing import cast

import pytest
import yaml

from kit.http.certificates import Authority
from kit.kube.manifests import JOBS, K8S, NAMESPACE, copy_with_secrets, kubectl, of_kind, pod_of, title
from kit.kube.planes import AnyPlane
from muster.bus.settings import Settings, with_variables
from muster.kube.objects import JsonObject, at, objects, text

PAGE = K8S.parent / "docs" / "identity.md"
SECTION = "## On Kubernetes"


@pytest.fixture(scope="module", params=["development", "centre"])
def manifests(
    request: pytest.FixtureRequest, plane: AnyPlane, tmp_path_factory: pytest.TempPathFactory
) -> tuple[JsonObject, ...]:
    place = copy_with_secrets(tmp_path_factory.mktemp("identity"), request.param)
    file = place / "kustomization.yaml"
    file.write_text(f"{file.read_text()}\ncomponents: [../../components/identity]\n")
    return tuple(yaml.safe_load_all(kubectl(plane, "kustomize", str(place))))


def named(manifests: tuple[JsonObject, ...], kind: str, name: str = "gateway") -> JsonObject:
    (found,) = [one for one in of_kind(manifests, kind) if text(one, "metadata", "name") == name]
    return found


def container_of(manifests: tuple[JsonObject, ...]) -> JsonObject:
    (container,) = objects(pod_of(named(manifests, "Deployment")), "spec", "containers")
    return container


def blocks(language: str) -> list[str]:
    """What stands between fences in the page's section."""
    section = PAGE.read_text(encoding="utf-8").partition(SECTION)[2]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_the_api_server_takes_every_object(prepared: AnyPlane, manifests: tuple[JsonObject, ...]) -> None:
    said = kubectl(
        prepared, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
        given=yaml.safe_dump_all(manifests),
    )  # fmt: skip
    assert "Warning" not in said
    assert len(re.findall(r"serverside-applied \(server dry run\)", said)) == len(manifests)


def test_the_gateways_pod_passes_the_restricted_standard(prepared: AnyPlane, manifests: tuple[JsonObject, ...]) -> None:
    pod = pod_of(named(manifests, "Deployment"))
    account = named(manifests, "ServiceAccount", "muster-gateway")
    assert at(pod, "spec", "serviceAccountName") == text(account, "metadata", "name")
    kubectl(prepared, "apply", "--server-side", "-f", "-", given=yaml.safe_dump(account))
    try:
        assert "created" in kubectl(prepared, "create", "--dry-run=server", "-f", "-", given=yaml.safe_dump(pod))
    finally:
        kubectl(prepared, "delete", "-f", "-", given=yaml.safe_dump(account))


def test_the_gateway_speaks_tls_with_the_secret_that_the_page_makes(
    plane: AnyPlane, manifests: tuple[JsonObject, ...], tmp_path: Path
) -> None:
    Authority.make(tmp_path).issue()
    (said,) = blocks("sh")
    words = said.split()[1:]
    made = kubectl(
        plane, *(word.replace("=tls/", f"={tmp_path}/") for word in words), "--dry-run=client", "--output=yaml"
    )
    secret = cast("JsonObject", yaml.safe_load(made))
    container = container_of(manifests)
    (volume,) = [one for one in objects(pod_of(named(manifests, "Deployment")), "spec", "volumes") if "secret" in one
                 and text(one, "name") == "tls"]  # fmt: skip
    assert text(volume, "secret", "secretName") == text(secret, "metadata", "name")
    variables = {text(one, "name"): text(one, "value") for one in objects(container, "env")}
    tls = Settings.model_validate(with_variables({"state_dir": "/x", "credentials_dir": "/x"}, variables)).tls
    (mount,) = [one for one in objects(container, "volumeMounts") if text(one, "name") == "tls"]
    there = {Path(text(mount, "mountPath")) / key for key in cast("JsonObject", secret["data"])}
    assert {tls.certificate, tls.key} == there


def test_probes_and_the_service_know_that_the_port_speaks_tls(manifests: tuple[JsonObject, ...]) -> None:
    container = container_of(manifests)
    ports = {text(port, "name"): port["containerPort"] for port in objects(container, "ports")}
    probe = at(container, "readinessProbe", "httpGet")
    assert probe == {"path": "/readyz?leaders=false", "port": "http", "scheme": "HTTPS"}
    metrics = {text(container, kind, "httpGet", "port") for kind in ("startupProbe", "livenessProbe")}
    assert (metrics, set(ports)) == ({"metrics"}, {"http", "metrics"})
    served = objects(named(manifests, "Service"), "spec", "ports")
    assert served == [{"name": "https", "port": 443, "targetPort": "http", "appProtocol": "https"}]


def test_the_settings_of_the_page_name_what_is_mounted(manifests: tuple[JsonObject, ...]) -> None:
    (told,) = blocks("yaml")
    settings = Settings.model_validate({**yaml.safe_load(told), "state_dir": "/x", "credentials_dir": "/x"})
    assert settings.identity.oidc is not None
    assert settings.identity.token_review is not None
    assert settings.identity.oidc.ca_file is not None
    container = container_of(manifests)
    (mount,) = [one for one in objects(container, "volumeMounts") if text(one, "name") == "issuer"]
    (volume,) = [
        one for one in objects(pod_of(named(manifests, "Deployment")), "spec", "volumes") if "configMap" in one
    ]
    assert str(settings.identity.oidc.ca_file.parent) == text(mount, "mountPath")
    assert at(volume, "configMap") == {"name": "muster-issuer-ca", "optional": True}


def test_nobody_but_the_gateway_gets_a_token_and_it_may_review_tokens_alone(manifests: tuple[JsonObject, ...]) -> None:
    with_token = {
        text(one, "metadata", "name")
        for one in of_kind(manifests, "Deployment", "StatefulSet", "Job")
        if at(one, "spec", "template", "spec", "automountServiceAccountToken") is not False
    }
    assert with_token - {"agent", "guard"} == {"gateway"}
    role = named(manifests, "ClusterRole", "muster-gateway")
    assert role["rules"] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    ]
    bound = [
        title(one)
        for one in of_kind(manifests, "RoleBinding", "ClusterRoleBinding")
        if any(text(subject, "name") == "muster-gateway" for subject in objects(one, "subjects"))
    ]
    assert bound == ["ClusterRoleBinding muster-gateway"]


def test_the_gateway_reaches_the_provider_and_the_api_server(manifests: tuple[JsonObject, ...]) -> None:
    policy = named(manifests, "NetworkPolicy", "gateway-identity")
    labels = cast("JsonObject", at(pod_of(named(manifests, "Deployment")), "metadata", "labels"))
    selector = cast("JsonObject", at(policy, "spec", "podSelector", "matchLabels"))
    assert selector.items() <= labels.items()
    assert [port["port"] for rule in objects(policy, "spec", "egress") for port in objects(rule, "ports")] == [
        443,
        6443,
    ]
    assert {text(one, "metadata", "namespace") for one in manifests} <= {"", NAMESPACE, JOBS, "default"}
