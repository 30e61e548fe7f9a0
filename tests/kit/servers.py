"""Real servers for tests: from containers where a Docker engine and its images answer, else from the wheels.

The same configuration files serve both: a container shares the host's network and the test's directory. Nothing is
ever pulled. MUSTER_TEST_SERVERS=wheels or =containers decides for one way.
"""

import base64
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import nats
from nats.aio.client import Client

from kit.ports import own_port
from muster.bus.access import BusUser, bus_users, inbox_prefix
from muster.bus.declaration import Declaration, QueryType
from muster.bus.jwt import VIEW_SIGNER_FILE, ViewCredential, ViewSigner, key_of_seed
from muster.schemas.base import Wire
from muster.schemas.registry import StreamRole
from muster.stack import nats_server, redis_server
from muster.stack.keys import MintedAccess, mint_access
from muster.stack.ports import LOOPBACK
from muster.stack.process import die_with_parent

CLUSTER = "atlas"
READY_S_MAX = 20.0
POLL_S = 0.01
NATS_IMAGE = "nats:2.15-alpine"
REDIS_IMAGE = "redis:7-alpine"
DOCKER_TIMEOUT_S = 2
PORT_TRIES = 5


class ServerEndedError(RuntimeError):
    """The server ended before it was ready; its log says why."""


class _Any(Wire):
    """A body of a question whose fields do not matter."""


DECLARATIONS = (
    Declaration("gateway", buckets=("tokens",), reads=("TELEMETRY_{cluster}", "LOGS_{cluster}")),
    Declaration("federation", folds=(StreamRole.FED, StreamRole.FED_UP)),
    Declaration(
        "scheduler",
        folds=(StreamRole.LOG,),
        queries=tuple(
            QueryType(name, _Any, _Any) for name in ("job", "why", "dry-run", "queues", "nodes", "queue-check")
        ),
    ),
    Declaration("agent", folds=(StreamRole.LOG,), publishes=("logs.{cluster}.*",)),
    Declaration("telemetry", folds=(StreamRole.LOG,), publishes=("telemetry.{cluster}.*",)),
    Declaration("scaler", folds=(StreamRole.LOG,), queries=(QueryType("choices", _Any, _Any),), withholds=True),
    Declaration("guard", folds=(StreamRole.LOG,), queries=(QueryType("report", _Any, _Any),)),
    Declaration(
        "health",
        folds=(StreamRole.LOG,),
        queries=(QueryType("conditions", _Any, _Any),),
        subscribes=("telemetry.{cluster}.*",),
        withholds=True,
    ),
    Declaration("upgrader", folds=(StreamRole.LOG,), queries=(QueryType("campaigns", _Any, _Any),), withholds=True),
    Declaration(
        "composer",
        folds=(StreamRole.LOG,),
        queries=tuple(QueryType(name, _Any, _Any) for name in ("devices", "requests", "compose-check", "detach-check")),
        withholds=True,
    ),
    Declaration(
        "projector",
        folds=(StreamRole.LOG, StreamRole.FED),
        publishes=("view.{cluster}.>", "view.fed.*.slice"),
        subscribes=("telemetry.{cluster}.*", "logs.{cluster}.*"),
    ),
)
"""What the services of a stack declare, as far as rights go; tests of the servers do not import the services."""


class Launcher(Protocol):
    """One way to run a server's command."""

    def start(self) -> None: ...

    def kill(self) -> None:
        """As by SIGKILL: nothing is flushed, nobody is told."""
        ...

    def stop(self) -> None: ...

    def has_ended(self) -> bool:
        """Whether it is known to have ended by itself."""
        ...


class ProcessLauncher:
    """A server from its wheel, as a child that dies with the tests."""

    def __init__(self, argv: Sequence[str], directory: Path) -> None:
        self._argv = tuple(argv)
        self._log = directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call, safe after a fork
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(with_signal)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=5)
        self._process = None


class ContainerLauncher:
    """The same server from an image that is there already."""

    def __init__(self, image: str, argv: Sequence[str], directory: Path) -> None:
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - only where an engine answers

        self._container = (
            DockerContainer(image, network_mode="host", user=f"{os.getuid()}:{os.getgid()}", entrypoint=argv[0])
            .with_command(list(argv[1:]))
            .with_volume_mapping(str(directory), str(directory), "rw")
        )
        self._created = False

    def start(self) -> None:
        if self._created:
            self._container.get_wrapped_container().start()
        else:
            self._container.start()
            self._created = True

    def kill(self) -> None:
        self._container.get_wrapped_container().kill("SIGKILL")

    def stop(self) -> None:
        if self._created:
            self._container.stop()
            self._created = False

    def has_ended(self) -> bool:
        if not self._created:
            return False
        container = self._container.get_wrapped_container()
        container.reload()
        return container.status == "exited"


@functools.cache
def has_image(image: str) -> bool:
    """Whether a Docker engine answers at once and holds the image."""
    choice = os.environ.get("MUSTER_TEST_SERVERS", "")
    may_answer = bool(os.environ.get("DOCKER_HOST")) or Path("/var/run/docker.sock").exists()
    if choice == "wheels" or (choice != "containers" and not may_answer):
        return False
    import docker  # noqa: PLC0415 - only where an engine may answer
    from docker.errors import DockerException  # noqa: PLC0415

    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    try:
        docker.from_env(timeout=DOCKER_TIMEOUT_S).images.get(image)
    except (DockerException, OSError):
        if choice == "containers":
            raise
        return False
    return True


class _Server:
    """Start, kill and restart on the same port and directory."""

    def __init__(self, launcher: Launcher, is_ready: Callable[[], bool], directory: Path) -> None:
        self.launcher = launcher
        self.directory = directory
        self._is_ready = is_ready

    def start(self) -> None:
        self.launcher.start()
        end = time.monotonic() + READY_S_MAX
        while not self._is_ready():
            if self.launcher.has_ended():
                raise ServerEndedError(self._said())
            if time.monotonic() > end:
                raise TimeoutError(f"not ready in {READY_S_MAX} s:\n{self._said()}")
            time.sleep(POLL_S)

    def _said(self) -> str:
        log = self.directory / "server.log"
        return log.read_text()[-4000:] if log.exists() else ""

    def kill(self) -> None:
        """SIGKILL."""
        self.launcher.kill()

    def restart(self) -> None:
        """Kill if it still runs, then start again: same port, same store."""
        self.launcher.kill()
        self.start()

    def stop(self) -> None:
        self.launcher.stop()


S = TypeVar("S", bound=_Server)


class NatsServer(_Server):
    """A real nats-server with JetStream. In operator mode every user of `users` has credentials."""

    def __init__(self, directory: Path, config: nats_server.NatsConfig, users: Sequence[BusUser] = ()) -> None:
        self.config = config
        self.users = {user.name: user for user in users}
        self.credentials_dir = directory / "creds"
        self.url = config.url
        self.monitor_url = config.monitor_url
        self.websocket_url = f"ws://{LOOPBACK}:{config.websocket_port}" if config.websocket_port else ""
        self._config_path = directory / "nats-server.conf"
        argv = ("-c", str(self._config_path))
        launcher: Launcher = (
            ContainerLauncher(NATS_IMAGE, ("nats-server", *argv), directory)
            if has_image(NATS_IMAGE)
            else ProcessLauncher((str(nats_server.nats_binary()), *argv), directory)
        )
        super().__init__(launcher, lambda: _healthy(self.monitor_url), directory)

    def start(self) -> None:
        self._config_path.write_text(nats_server.render(self.config))
        super().start()

    def credentials(self, user: str) -> Path:
        """The user's credentials file; the file is there only in operator mode."""
        return self.credentials_dir / f"{user}.creds"

    @property
    def view_signer(self) -> ViewSigner:
        """What the gateway mints dashboard users with."""
        return ViewSigner.load((self.credentials_dir / VIEW_SIGNER_FILE).read_text())

    async def connect(self, user: str = "", **options: object) -> Client:
        """A connection as `user` (operator mode) or as anybody (plain), with the user's own inbox."""
        if user:
            options = {"user_credentials": str(self.credentials(user)), "inbox_prefix": inbox_prefix(user), **options}
        options = {"allow_reconnect": False, "connect_timeout": 5, **options}
        return await nats.connect(self.url, **options)  # type: ignore[arg-type]

    async def connect_view(self, credential: ViewCredential, **options: object) -> Client:
        """A connection as a dashboard."""
        key = key_of_seed(credential.seed)
        return await nats.connect(
            self.url,
            allow_reconnect=False,
            inbox_prefix=credential.inbox_prefix,
            user_jwt_cb=lambda: bytearray(credential.jwt.encode()),
            signature_cb=lambda nonce: base64.b64encode(key.sign(nonce.encode())),
            **options,  # type: ignore[arg-type]
        )


def _healthy(monitor_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{monitor_url}/healthz", timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def running_nats(
    *,
    declarations: Sequence[Declaration] | None = DECLARATIONS,
    clusters: Sequence[str] = (CLUSTER,),
    store_bytes_max: int | None = None,
    sync_interval_s: float = nats_server.SYNC_INTERVAL_S,
) -> Iterator[NatsServer]:
    """A started nats-server in a directory of its own. declarations: None for a server without authorisation."""
    with _directory("muster-nats-") as directory:
        access, users = _access(directory, declarations, clusters)

        def new_server() -> NatsServer:
            config = nats_server.NatsConfig(
                port=own_port(),
                monitor_port=own_port(),
                websocket_port=own_port(),
                store_dir=directory / "store",
                origins=("http://127.0.0.1:8080",),
                sync_interval_s=sync_interval_s,
                store_bytes_max=store_bytes_max,
                access=access,
            )
            return NatsServer(directory, config, users)

        server = _started(new_server)
        try:
            yield server
        finally:
            server.stop()


def _access(
    directory: Path, declarations: Sequence[Declaration] | None, clusters: Sequence[str]
) -> tuple[MintedAccess | None, tuple[BusUser, ...]]:
    if declarations is None:
        return None, ()
    users = bus_users(declarations, clusters=clusters)
    keys, credentials = directory / "keys", directory / "creds"
    return mint_access(keys_dir=keys, credentials_dir=credentials, users=users, now_s=int(time.time())), users


def _started(new_server: Callable[[], S]) -> S:
    """A server that is ready. Somebody may take a port between our looking and its listening: then on others."""
    for _ in range(PORT_TRIES - 1):
        server = new_server()
        try:
            server.start()
        except ServerEndedError as error:
            server.stop()
            if "address already in use" not in str(error).lower():
                raise
        else:
            return server
    server = new_server()
    server.start()
    return server


@contextmanager
def _directory(prefix: str) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class RedisServer(_Server):
    """A real Redis."""

    def __init__(self, directory: Path, config: redis_server.RedisConfig) -> None:
        self.config = config
        self.url = config.url
        self._config_path = directory / "redis.conf"
        launcher: Launcher = (
            ContainerLauncher(REDIS_IMAGE, ("redis-server", str(self._config_path)), directory)
            if has_image(REDIS_IMAGE)
            else ProcessLauncher((str(redis_server.redis_binary()), str(self._config_path)), directory)
        )
        super().__init__(launcher, lambda: _answers_ping(config.port), directory)

    def start(self) -> None:
        self._config_path.write_text(f"{redis_server.render(self.config)}user tests on >tests ~* &* +@all\n")
        super().start()


def redis_admin(url: str) -> str:
    """The URL of a tests' Redis for the tests themselves, who may do everything there."""
    return url.replace("redis://:test-only@", "redis://tests:tests@")


def _answers_ping(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A started Redis in a directory of its own."""
    with _directory("muster-redis-") as directory:
        server = _started(
            lambda: RedisServer(directory, redis_server.RedisConfig(own_port(), directory, password="test-only"))
        )
        try:
            yield server
        finally:
            server.stop()
