"""Files for a stack in Kubernetes, on the administrator's machine; kustomize makes Secrets of them.

No process in the cluster creates or reads Secrets through the API: the files are written here, applied with `kubectl
apply`, and each pod mounts the Secret of its own part. `keys/` and `host/` stay on this machine.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.leaf import cell_user_name
from muster.bus.settings import FabricSettings, Settings, WebhookSettings
from muster.stack.keys import write_private
from muster.stack.nats_server import SYNC_ALWAYS
from muster.stack.parts import CLI, GRAFANA, HOST, KEYS, REDIS, TOGETHER, Layout
from muster.stack.provision import Broker, provision
from muster.stack.simulators import DCGM_SIMULATOR, SIMULATOR

STATEFUL_SET, HEADLESS = "nats", "nats-servers"
"""Names in k8s/base/nats.yaml: the address of pod `nats-0` is `nats-0.nats-servers`."""
PID_FILE = Path("/tmp/nats.pid")  # noqa: S108 - its container has no other users
KUSTOMIZATION = "kustomization.yaml"
_AT_HOME = frozenset({KEYS, HOST, CLI, GRAFANA, SIMULATOR, DCGM_SIMULATOR})
"""Parts without a Secret: the keys, the admin's files, and parts that do not run in the cluster."""
_HEAD = "# A Secret for each part, by `muster init kubernetes`. Who reads these files may do everything: keep them.\n"


@dataclass(frozen=True, slots=True)
class Carried:
    """A file that settings name on this machine: it is copied to the parts that read it, under a fixed name."""

    parts: tuple[str, ...]
    name: str
    source: Path


def write(
    directory: Path,
    layout: Layout,
    settings: Settings,
    *,
    now_s: int,
    services: Sequence[str] | None = None,
    entropy: Callable[[int], bytes] = os.urandom,
) -> tuple[str, ...]:
    """Write a directory per part and the kustomization that makes Secrets of them; return the names of the Secrets.

    layout: `flat`. A repeated call keeps keys and token, and renews credentials. Raises DeclarationError, ValueError
    (also for settings that are not possible in Kubernetes), OSError.
    """
    _refuse_simulated(settings)
    inside, carried = with_carried(settings, layout.home)
    found = provision(
        directory, layout, inside, now_s=now_s, services=services, broker=broker_of(settings), entropy=entropy
    )
    wanted = tuple(sorted(set(found) - _AT_HOME - _of_others(settings)))
    for one in carried:
        text = one.source.read_text(encoding="utf-8")
        for part in one.parts:
            write_private(directory / part / one.name, text)
    generators = [
        {"name": secret_of(part), "namespace": "muster", "files": files}
        for part in wanted
        if (files := list(_keys(directory, part)))
    ]
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "generatorOptions": {"labels": {"app.kubernetes.io/part-of": "muster"}},
        "secretGenerator": generators,
    }
    write_private(directory / KUSTOMIZATION, _HEAD + yaml.safe_dump(body, sort_keys=False))
    return tuple(map(secret_of, wanted))


def _of_others(settings: Settings) -> frozenset[str]:
    """Return the parts for the administrators of cells, and those that a cell does not run."""
    match settings.role:
        case "centre":
            return frozenset(map(cell_user_name, settings.clusters))
        case "cell":
            return frozenset({REDIS, TOGETHER})
        case "whole":
            return frozenset()


def secret_of(part: str) -> str:
    """Return the name of a part's Secret, before kustomize adds a hash of its content."""
    return f"muster-{part}"


def broker_of(settings: Settings) -> Broker:
    """Return a broker with as many servers as copies of each stream; acknowledged messages are on disk."""
    count = settings.bus.replicas
    names = tuple(f"{STATEFUL_SET}-{number}.{HEADLESS}" for number in range(count)) if count > 1 else ()
    return Broker(servers=names, sync_interval_s=SYNC_ALWAYS, pid_file=PID_FILE)


def with_carried(settings: Settings, home: Path) -> tuple[Settings, tuple[Carried, ...]]:
    """Return the settings with the paths of files in the cluster, and the current paths of these files."""
    carried: list[Carried] = []

    def moved(source: Path | None, name: str, *parts: str) -> Path | None:
        if source is None:
            return None
        carried.append(Carried(parts, name, source))
        return home / name

    def fabric(one: FabricSettings) -> FabricSettings:
        return one.model_copy(update={"credentials": moved(one.credentials, f"fabric-{one.name}.json", "composer")})

    def webhook(one: WebhookSettings) -> WebhookSettings:
        secret = moved(one.secret, f"webhook-{one.name}.key", "notifier")
        url_file = moved(one.url_file, f"webhook-{one.name}.url", "notifier")
        return one.model_copy(update={"secret": secret, "url_file": url_file})

    def cluster(one: KubernetesSettings | None) -> KubernetesSettings | None:
        if one is None:
            return None
        return one.model_copy(update={"kubeconfig": moved(one.kubeconfig, "kubeconfig", "agent", "guard")})

    inside = settings.model_copy(
        update={
            "fabrics": tuple(map(fabric, settings.fabrics)),
            "webhooks": tuple(map(webhook, settings.webhooks)),
            "kubernetes": cluster(settings.kubernetes),
        }
    )
    return inside, tuple(carried)


def _refuse_simulated(settings: Settings) -> None:
    for one in settings.fabrics:
        if one.simulated is not None:
            raise ValueError(
                f"fabrics[{one.name}].simulated: no simulator runs in Kubernetes; set the manager's `url` instead"
            )


def _keys(directory: Path, part: str) -> Iterator[str]:
    """Yield `KEY=PATH` of each file of a part. Keys of a Secret hold no `/`; files of one part have different names."""
    for path in sorted((directory / part).rglob("*")):
        if path.is_file():
            yield f"{path.name}={path.relative_to(directory)}"
