"""Look-up of the control plane's programs, in the order of envtest, then the cache, then a build.

1. `TEST_ASSET_<NAME>`, for example TEST_ASSET_KUBE_APISERVER: one program's file.
2. `KUBEBUILDER_ASSETS/<name>`: a folder of programs.
3. An earlier build of the Go modules in go/, in the user's cache.
4. A new build.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from muster_tools.local_kubernetes import bounds
from muster_tools.local_kubernetes.errors import BuildFailedError, NoProgramsError

SOURCES = Path(__file__).parent / "go"
KUBERNETES_VERSION = "1.34.4"
_WORDS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class GoModule:
    """One go.mod of this repository. packages: what to build, by program name. linked: values set when linking."""

    name: str
    packages: Mapping[str, str]
    linked: Mapping[str, str]

    @property
    def source(self) -> Path:
        """Its folder."""
        return SOURCES / self.name


def _kubernetes_version() -> Mapping[str, str]:
    """Without these the API server calls itself v0.0.0, and emulates no version."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return {
        "k8s.io/component-base/version.gitVersion": f"v{KUBERNETES_VERSION}",
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBERNETES_VERSION}",
    }


MODULES: tuple[GoModule, ...] = (
    GoModule(
        "kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        },
        _kubernetes_version(),
    ),
    GoModule("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}, {}),
    GoModule("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, {}),
    GoModule("topology-scheduler", {"topology-scheduler": "."}, _kubernetes_version()),
)


def cache_dir(environment: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/muster`, or under ~/.cache."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster"


def digest_of(source: Path) -> str:
    """16 hexadecimal digits of everything in a folder: names and contents."""
    found = hashlib.sha256()
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(source).as_posix()}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def module_dir(module: GoModule, cache: Path) -> Path:
    """Return the cache directory of exactly this module's builds."""
    return cache / f"{module.name}-{digest_of(module.source)}"


def command_of(module: GoModule, programs: Sequence[str], out: Path) -> tuple[str, ...]:
    """Return the build command. Its flags decide what Go's cache can reuse, so they are the same everywhere."""
    linked = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in module.linked.items())])
    return (
        "nice", "go", "build", "-buildvcs=false", "-mod=readonly", "-trimpath", f"-ldflags={linked}",
        "-o", f"{out}{os.sep}", *(module.packages[program] for program in programs),
    )  # fmt: skip


def build(
    module: GoModule, programs: Sequence[str], *, cache: Path, say: Callable[[str], None] = lambda _words: None
) -> Mapping[str, Path]:
    """Return the programs by name, built unless these versions are in the cache; `say` is called before a long build.

    Raises NoProgramsError (there is no Go), BuildFailedError.
    """
    target = module_dir(module, cache)
    wanted = {program: target / program for program in programs}
    if all(path.exists() for path in wanted.values()):
        return wanted
    if shutil.which("go") is None:
        raise NoProgramsError(
            f"{', '.join(programs)}: not found, and there is no `go` to build them with; install Go 1.26 or newer, "
            "or set KUBEBUILDER_ASSETS to a folder that holds them"
        )
    target.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_suffix(".lock")):
        missing = [program for program, path in wanted.items() if not path.exists()]
        if missing:
            say(f"building {', '.join(missing)} once, into {target} (Kubernetes: about 15 minutes on two cores)")
            _run(module, missing, target)
            _forget_older(module, cache, kept=target)
    return wanted


def _run(module: GoModule, programs: Sequence[str], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target, prefix=".building-") as scratch:
        out = Path(scratch)
        try:
            subprocess.run(  # noqa: S603 - our own arguments, no shell
                command_of(module, programs, out),
                cwd=module.source,
                env={**os.environ, "CGO_ENABLED": "0"},
                check=True,
                capture_output=True,
                text=True,
                timeout=bounds.BUILD_S_MAX,
            )
        except subprocess.CalledProcessError as error:
            words = str(error.stderr).strip()[-_WORDS_MAX:]
            raise BuildFailedError(f"{', '.join(programs)}: go build failed; it said: {words}") from error
        except subprocess.TimeoutExpired as error:
            raise BuildFailedError(f"{', '.join(programs)}: not built within {bounds.BUILD_S_MAX:g} s") from error
        for program in programs:
            (out / _file_of(module.packages[program], program)).replace(target / program)


def _file_of(package: str, program: str) -> str:
    """Return Go's name of a package's program: its last part, or the one before a major version; of `.` its module."""
    if package == ".":
        return program
    *_, before, last = package.split("/")
    return before if last[:1] == "v" and last[1:].isdecimal() else last


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file; the kernel lets go of it when this process ends. Raises BuildFailedError after LOCK_S_MAX."""
    end_s = time.monotonic() + bounds.LOCK_S_MAX
    with path.open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end_s:
                    raise BuildFailedError(f"{path}: another process builds for {bounds.LOCK_S_MAX:g} s") from None
            time.sleep(bounds.POLL_S)
        yield


def _forget_older(module: GoModule, cache: Path, *, kept: Path) -> None:
    others = [path for path in cache.glob(f"{module.name}-*") if path.is_dir() and path != kept]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[bounds.BUILDS_KEPT_MAX - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
        path.with_suffix(".lock").unlink(missing_ok=True)


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
        """Return a program's file. Raises NoProgramsError if it was not requested when the programs were located."""
        if name not in self.files:
            raise NoProgramsError(f"{name}: not located; ask for it when locating the programs")
        return self.files[name]


def variable_of(name: str) -> str:
    """envtest's variable of one program: kube-apiserver → TEST_ASSET_KUBE_APISERVER."""
    return f"TEST_ASSET_{name.upper().replace('-', '_')}"


def named(name: str, environment: Mapping[str, str]) -> Path | None:
    """Return the file that the environment names, None if it names none.

    Raises NoProgramsError if the variable of this program names a missing file: another program would test something
    else than requested.
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
    """Find or build the programs. Blocks for minutes if Kubernetes must be built; calls `say` before.

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
