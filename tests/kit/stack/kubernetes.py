"""A whole stack whose agent works a Kubernetes API server, fake or real."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from kit.kube.objects import SPACE
from kit.stack.living import Harness, open_harness, options
from muster.stack.declared import SERVICES

NAMESPACE = "muster-jobs"


def kubeconfig_for(url: str, directory: Path) -> Path:
    """A kubeconfig file for a server without authentication."""
    path = directory / "kubeconfig.json"
    named = [{"name": "fake", "cluster": {"server": url}}]
    context = {"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}
    users = [{"name": "nobody", "user": {}}]
    config = {
        "apiVersion": "v1", "kind": "Config", "clusters": named, "contexts": [context], "users": users,
        "current-context": "fake",
    }  # fmt: skip
    path.write_text(json.dumps(config))
    return path


@asynccontextmanager
async def open_kubernetes_harness(
    state_dir: Path,
    kubeconfig: Path,
    *,
    split: bool = False,
    services: Sequence[str] = SERVICES,
    preflight: Mapping[str, object] | None = None,
    **kubernetes: object,
) -> AsyncIterator[Harness]:
    """kubernetes: fields of KubernetesSettings; preflight: of PreflightSettings."""
    start = options(state_dir, split=split, services=services)
    settings = {
        **start.settings,
        "kubernetes": {
            "kubeconfig": str(kubeconfig),
            "image": "busybox",
            "devices": "device-plugin",
            "own_nodes": False,
            "lost_s": 2.0,
            "teams": {SPACE: SPACE},
            **kubernetes,
        },
    }
    if preflight is not None:
        settings["preflight"] = dict(preflight)
    async with open_harness(start.model_copy(update={"settings": settings})) as harness:
        yield harness
