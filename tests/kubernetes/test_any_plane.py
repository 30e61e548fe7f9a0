"""Which control plane tests get: the one that is named, else one of our own, else K3s, and never none in silence."""

from pathlib import Path

import pytest

from kit.kube import k3s as kube_k3s
from kit.kube.planes import ORDINARY, AnyPlane, any_plane
from muster_tools.local_kubernetes.errors import LocalPlaneError, NoProgramsError

FORBIDDEN = 403


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with nothing of what a control plane is made of."""
    for name in ("MUSTER_TEST_KUBECONFIG", "KUBECONFIG", "KUBEBUILDER_ASSETS", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kube_k3s, "SOCKET", tmp_path / "docker.sock")


async def test_a_named_cluster_is_used_as_it_is(plane: AnyPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TEST_KUBECONFIG", "1")
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig()))

    async with any_plane() as found:
        assert found.kubeconfig() == plane.kubeconfig()
        async with found.client() as client, client.get("/api/v1/secrets") as answer:
            assert answer.ok
        async with found.client(ORDINARY) as client, client.get("/api/v1/secrets") as answer:
            assert answer.status == FORBIDDEN
        with pytest.raises(LocalPlaneError, match="unset MUSTER_TEST_KUBECONFIG"):
            found.kubeconfig(ORDINARY)


async def test_a_named_cluster_that_is_not_there_is_no_reason_to_take_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MUSTER_TEST_KUBECONFIG", "1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))

    with pytest.raises(LocalPlaneError, match=r"KUBECONFIG: .* is no file"):
        await any_plane().__aenter__()


@pytest.mark.usefixtures("bare")
async def test_without_any_the_test_fails_and_says_what_to_install() -> None:
    with pytest.raises(NoProgramsError, match=r"install Go .*KUBEBUILDER_ASSETS .*KUBECONFIG .*Docker"):
        await any_plane().__aenter__()
