"""k8s/components/audit on the development overlay, as docs/audit.md says: what API servers send reaches the guard."""

import re
from pathlib import Path
from typing import cast

import pytest
import yaml

from kit.kube.manifests import K8S, NAMESPACE, copy_with_secrets, kubectl, of_kind, pod_of
from kit.kube.planes import AnyPlane
from muster.bus.settings import Settings
from muster.kube.objects import JsonObject, at, objects, text

PAGE = K8S.parent / "docs" / "audit.md"


@pytest.fixture(scope="module")
def manifests(plane: AnyPlane, tmp_path_factory: pytest.TempPathFactory) -> tuple[JsonObject, ...]:
    place = copy_with_secrets(tmp_path_factory.mktemp("audit"), "development")
    file = place / "kustomization.yaml"
    file.write_text(f"{file.read_text()}\ncomponents: [../../components/audit]\n")
    return tuple(yaml.safe_load_all(kubectl(plane, "kustomize", str(place))))


def guard(manifests: tuple[JsonObject, ...]) -> JsonObject:
    return next(one for one in of_kind(manifests, "Deployment") if text(one, "metadata", "name") == "guard")


def test_the_api_server_takes_the_secret_of_the_page_and_all_that_the_component_adds(
    plane: AnyPlane, manifests: tuple[JsonObject, ...], tmp_path: Path
) -> None:
    (tmp_path / "audit").mkdir()
    for name in ("audit.crt", "audit.key", "audit-token"):
        (tmp_path / "audit" / name).write_text("x")
    said = next(
        block for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL) if block.startswith("kubectl")
    )
    words = said.replace("\\\n", " ").replace("=audit/", f"={tmp_path}/audit/").split()[1:]
    assert "muster-guard-audit created (dry run)" in kubectl(plane, *words, "--dry-run=client")
    added = [
        one
        for one in manifests
        if text(one, "metadata", "name") == "guard-audit"
        or (text(one, "kind"), text(one, "metadata", "name")) == ("Deployment", "guard")
    ]
    kubectl(plane, "create", "--dry-run=client", "--validate=strict", "-f", "-", given=yaml.safe_dump_all(added))
    assert sorted(text(one, "kind") for one in added) == ["Deployment", "NetworkPolicy", "Service"]


def test_the_settings_of_the_page_name_what_is_mounted_and_served(manifests: tuple[JsonObject, ...]) -> None:
    (told,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    settings = Settings.model_validate({**yaml.safe_load(told), "state_dir": "/x", "credentials_dir": "/x"}).guard
    pod = pod_of(guard(manifests))
    (container,) = objects(pod, "spec", "containers")
    (mount,) = [one for one in objects(container, "volumeMounts") if text(one, "name") == "audit"]
    files = (settings.audit_token, settings.audit_certificate, settings.audit_key)
    assert {str(path.parent) for path in files if path} == {text(mount, "mountPath")}
    assert [path.name for path in files if path] == ["token", "tls.crt", "tls.key"]
    (volume,) = [one for one in objects(pod, "spec", "volumes") if text(one, "name") == "audit"]
    assert text(volume, "secret", "secretName") == "muster-guard-audit"
    (port,) = [one for one in objects(container, "ports") if text(one, "name") == "audit"]
    assert cast("int", port["containerPort"]) == settings.audit_port


def test_the_name_of_the_page_is_the_services(manifests: tuple[JsonObject, ...]) -> None:
    (service,) = [one for one in of_kind(manifests, "Service") if text(one, "metadata", "name") == "guard-audit"]
    assert (
        f"https://{text(service, 'metadata', 'name')}.{NAMESPACE}.svc:{objects(service, 'spec', 'ports')[0]['port']}"
        in PAGE.read_text()
    )
    assert at(service, "spec", "selector") == {"app.kubernetes.io/name": "guard"}
