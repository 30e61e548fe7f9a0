"""Where the control plane's programs are, in the order of envtest, then the cache, then a build.

1. `TEST_ASSET_<NAME>`, for example TEST_ASSET_KUBE_APISERVER: one program's file.
2. `KUBEBUILDER_ASSETS/<name>`: a folder of programs.
3. What was built before from the Go modules in go/, in the user's cache.
4. Built now.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster_tools.local_kubernetes.building import MODULES, GoModule, build, cache_dir
from muster_tools.local_kubernetes.errors import NoProgramsError

API_SERVER, ETCD, KUBECTL, KWOK = "kube-apiserver", "etcd", "kubectl", "kwok"
CONTROLLER_MANAGER, SCHEDULER = "kube-controller-manager", "kube-scheduler"
TOPOLOGY_SCHEDULER = "topology-scheduler"
"""Ours: kube-scheduler with a plugin that reads NodeResourceTopology objects; measured against, never used."""

ALL = (API_SERVER, ETCD, CONTROLLER_MANAGER, SCHEDULER, KUBECTL, KWOK)
FOLDER_VARIABLE = "KUBEBUILDER_ASSETS"


@dataclass(frozen=True, slots=True)
class Programs:
    """Files by the name of the program."""

    files: Mapping[str, Path] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """The file. Raises NoProgramsError if it was not asked for when the programs were located."""
        if name not in self.files:
            raise NoProgramsError(f"{name}: not located; ask for it when locating the programs")
        return self.files[name]


def variable_of(name: str) -> str:
    """envtest's variable of one program: kube-apiserver → TEST_ASSET_KUBE_APISERVER."""
    return f"TEST_ASSET_{name.upper().replace('-', '_')}"


def named(name: str, environment: Mapping[str, str]) -> Path | None:
    """The file that the environment names, None if it names none.

    Raises NoProgramsError where the variable of this very program names a file that is not there: falling back would
    test something else than was asked for.
    """
    if own := environment.get(variable_of(name)):
        path = Path(own)
        if not _runs(path):
            raise NoProgramsError(f"{variable_of(name)}: {path} is no program; name the file of {name}, or unset it")
        return path
    if folder := environment.get(FOLDER_VARIABLE):
        path = Path(folder) / name
        if _runs(path):
            return path
    return None


def locate(
    names: Iterable[str] = ALL,
    *,
    environment: Mapping[str, str] | None = None,
    modules: Iterable[GoModule] = MODULES,
    say: Callable[[str], None] = lambda _words: None,
) -> Programs:
    """Find or build the programs. Blocks for minutes where Kubernetes must be built; `say` is told before.

    Raises NoProgramsError, BuildFailedError.
    """
    settled = os.environ if environment is None else environment
    wanted = tuple(dict.fromkeys(names))
    found = {name: path for name in wanted if (path := named(name, settled)) is not None}
    cache = cache_dir(settled)
    for module in modules:
        missing = [name for name in wanted if name in module.packages and name not in found]
        if missing:
            found.update(build(module, missing, cache=cache, say=say))
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise NoProgramsError(f"{', '.join(unknown)}: no such program of a control plane; there are {', '.join(ALL)}")
    return Programs(found)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
