"""Who asks is told to a real API server, and who it is that answers is checked."""

from pathlib import Path

import pytest
import yaml

from kit.kube.planes import ORDINARY, AnyPlane, open_plane
from muster.kube.connection import KubeConnection
from muster.kube.errors import ForbiddenError, UnauthorizedError, UnavailableError
from muster.kube.resources import NODES, PODS
from muster_tools.local_kubernetes.options import PlaneOptions


def changed(plane: AnyPlane, tmp_path: Path, cluster: dict[str, object], user: dict[str, object] | None = None) -> Path:
    """The admin's kubeconfig with other fields; None takes one away."""
    document = yaml.safe_load(plane.kubeconfig().read_text())
    for section, fields in ((document["clusters"][0]["cluster"], cluster), (document["users"][0]["user"], user or {})):
        section.update(fields)
        for name in [name for name, value in fields.items() if value is None]:
            del section[name]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


async def version_by(path: Path) -> object:
    async with await KubeConnection.open(kubeconfig=path, user_agent="muster-test/1") as kube:
        return (await kube.get_path("/version"))["gitVersion"]


async def test_certificates_are_checked_unless_told_otherwise(tmp_path: Path) -> None:
    async with open_plane(PlaneOptions(kwok=False)) as plane:
        assert await version_by(changed(plane, tmp_path, {"tls-server-name": "kubernetes.default.svc"}))
        for wrong in ({"tls-server-name": "elsewhere.example"}, {"certificate-authority-data": None}):
            with pytest.raises(UnavailableError, match="check certificate-authority, tls-server-name"):
                await version_by(changed(plane, tmp_path, wrong))
        trusting = {"certificate-authority-data": None, "insecure-skip-tls-verify": True}
        assert await version_by(changed(plane, tmp_path, trusting))
        with pytest.raises(UnauthorizedError):
            await version_by(changed(plane, tmp_path, {}, {"token": "nobody's"}))


async def test_a_missing_permission_is_named(plane: AnyPlane) -> None:
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(ORDINARY), user_agent="muster-test/1") as kube:
        with pytest.raises(ForbiddenError, match="grant verb 'list' on 'nodes' in a ClusterRole bound to this user"):
            await kube.list_page(NODES)
        with pytest.raises(
            ForbiddenError, match="grant verb 'create' on 'pods/binding' in a Role in namespace default"
        ):
            await kube.create_subresource(PODS, "p", "binding", {"metadata": {"name": "p"}}, namespace="default")
        with pytest.raises(ForbiddenError) as refused:
            await kube.watch(PODS, timeout_s=5, silence_s=5.0).__aenter__()
        assert (refused.value.asked.verb, refused.value.asked.resource) == ("watch", "pods")
