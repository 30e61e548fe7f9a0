"""Stand-ins for the images that compose.yaml names, where no registry can be reached: in this test alone.

All share one layer: a minimal Debian with Python, Redis, Prometheus and busybox, which carries this machine's
certificates. They have the tags that compose.yaml and the Dockerfile use, the label LABEL, and are removed afterwards;
an image of that name that is there already is used as it is. A digest is a registry's to give, so they have none, and
`Project.stand_ins` names them.
"""

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from docker.errors import APIError, ImageNotFound

from compose.engine import Engine
from compose.gobuild import built, cache
from muster.stack.nats_server import nats_binary

LABEL = "dev.muster.stand-in"
BASE = "muster-stand-in-base:test"
SUITE = "bookworm"
PACKAGES = ("busybox", "ca-certificates", "prometheus", "python3", "python3-venv", "redis-server")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
PASSED_ON = ("PIP_", "npm_config_", "NPM_CONFIG_", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY",
             "NO_PROXY")  # fmt: skip
NOT_PASSED_ON = frozenset({"PIP_CERT", "PIP_FIND_LINKS", "PIP_CACHE_DIR"})
BOOTSTRAP_S_MAX = 900


@dataclass(frozen=True)
class StandIn:
    """What makes an image of the base. lines: of its Dockerfile. files: that these copy, by name.

    programs: built from Go modules, copied under the same name.
    """

    lines: tuple[str, ...]
    files: Mapping[str, Callable[[], Path]] = field(default_factory=dict)
    programs: tuple[str, ...] = ()


STAND_INS: Mapping[str, StandIn] = {
    "python": StandIn(("RUN ln -s /usr/bin/python3 /usr/local/bin/python3 && ln -s python3 /usr/local/bin/python",)),
    "nats": StandIn(("COPY nats-server /usr/local/bin/",), {"nats-server": nats_binary}),
    "redis": StandIn(()),
    "prom/prometheus": StandIn(
        (
            "RUN install -d -o 65534 -g 65534 /prometheus",
            "USER 65534:65534",
            'ENTRYPOINT ["/usr/bin/prometheus"]',
        )
    ),
    "otel/opentelemetry-collector-contrib": StandIn(
        ("COPY collector /otelcol-contrib", "USER 10001:10001", 'ENTRYPOINT ["/otelcol-contrib"]'),
        programs=("collector",),
    ),
    "jaegertracing/jaeger": StandIn(
        ("COPY jaeger /jaeger", "USER 10001:10001", 'ENTRYPOINT ["/jaeger"]'), programs=("jaeger",)
    ),
}
"""By repository. What is not here cannot be stood in for (Grafana: its build needs more than Go modules)."""


def missing(engine: Engine, images: Iterable[str]) -> list[str]:
    """Those that the engine has neither had before nor can pull."""
    return [image for image in images if not (_has(engine, image) or _pulled(engine, image))]


def _has(engine: Engine, image: str) -> bool:
    try:
        engine.client.images.get(image)
    except ImageNotFound:
        return False
    return True


def _pulled(engine: Engine, image: str) -> bool:
    try:
        engine.client.images.pull(image)
    except (APIError, ImageNotFound):
        return False
    return True


def tagged(image: str) -> str:
    """The name and its tag, without the digest: as a stand-in is called."""
    return image.partition("@")[0]


def repository(image: str) -> str:
    """The name without tag and digest."""
    return tagged(image).rsplit(":", 1)[0]


def programs(image: str) -> tuple[str, ...]:
    """What must be built for an image's stand-in."""
    return STAND_INS[repository(image)].programs


def make_all(engine: Engine, wanted: Iterable[str]) -> None:
    """Stand-ins, on the base. Raises KeyError if there is none for an image."""
    for image in wanted:
        _make(engine, image)


def _make(engine: Engine, image: str) -> None:
    stand_in = STAND_INS[repository(image)]
    files = {name: path() for name, path in stand_in.files.items()} | {name: built(name) for name in stand_in.programs}
    dockerfile = "\n".join((f"FROM {BASE}", *stand_in.lines, f"LABEL {LABEL}=1", "")).encode()
    with tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            about = tarfile.TarInfo("Dockerfile")
            about.size = len(dockerfile)
            tar.addfile(about, io.BytesIO(dockerfile))
            for name, path in files.items():
                tar.add(path, arcname=name, filter=_executable)
        context.seek(0)
        engine.client.images.build(fileobj=context, custom_context=True, tag=tagged(image), rm=True, forcerm=True)


def _executable(about: tarfile.TarInfo) -> tarfile.TarInfo:
    about.mode = 0o755
    about.uid = about.gid = 0
    return about


def make_base(engine: Engine) -> None:
    """The layer that all stand-ins share. Raises FileNotFoundError if there is no debootstrap, CalledProcessError."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **_passed_on()}
    changes = [f"ENV {name}={value}" for name, value in environment.items()]
    repository_of_base, tag = BASE.rsplit(":", 1)
    engine.client.api.import_image_from_file(
        str(_debian()), repository=repository_of_base, tag=tag, changes=[*changes, f"LABEL {LABEL}=1"]
    )


def _passed_on() -> dict[str, str]:
    """What installs inside a build need of this machine: its certificates, and how its clients are set up."""
    certificates = dict.fromkeys(CERTIFICATE_VARIABLES, CERTIFICATES)
    own = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    return certificates | {name: value for name, value in own.items() if name not in NOT_PASSED_ON and " " not in value}


def _debian() -> Path:
    """A root file system as a tar file, made once for these packages and certificates."""
    bundle = Path(CERTIFICATES)
    certificates = bundle.read_bytes() if bundle.exists() else b""
    digest = hashlib.sha256(f"{SUITE} {PACKAGES}".encode() + certificates).hexdigest()[:16]
    path = cache() / f"debian-{digest}.tar"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(prefix="muster-debian-") as place:
        root = Path(place) / "root"
        command = ["nice", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
        subprocess.run(command, check=True, capture_output=True, timeout=BOOTSTRAP_S_MAX)
        for unneeded in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(root / unneeded, ignore_errors=True)
        if certificates:
            (root / CERTIFICATES.lstrip("/")).write_bytes(certificates)
        (root / "usr/local/bin/wget").symlink_to("/usr/bin/busybox")
        partial = path.with_suffix(f".{os.getpid()}")
        with tarfile.open(partial, "w") as tar:
            tar.add(root, arcname=".", filter=lambda about: None if about.isdev() else about)
        partial.replace(path)
    return path


def remove(engine: Engine) -> None:
    """Every stand-in that any run left, and nothing else; those first that were made last, since they lie on others."""
    left = engine.client.images.list(filters={"label": LABEL})
    for image in sorted(left, key=lambda image: str(image.attrs["Created"]), reverse=True):
        engine.client.images.remove(image.id, force=True)
