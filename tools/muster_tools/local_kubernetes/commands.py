"""The command line of every process of a control plane, from its options and where things are."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster_tools.local_kubernetes import programs
from muster_tools.local_kubernetes.child import Command
from muster_tools.local_kubernetes.options import NODE_LIFECYCLE, PlaneOptions, Scheduler
from muster_tools.local_kubernetes.pki import Pki
from muster_tools.local_kubernetes.ports import LOOPBACK
from muster_tools.local_kubernetes.programs import Programs

SERVICE_RANGE = "10.0.0.0/16"
POD_RANGE = "10.128.0.1/9"
CLIENT_QPS, CLIENT_BURST = 1_000, 2_000
"""Limits of scheduler and controllers: far above what two cores reach, so that no client is throttled by itself."""

_UNPROTECTED = "/healthz,/readyz,/livez,/metrics"


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports of each process. schedulers: by their names."""

    etcd: int
    etcd_peer: int
    apiservers: tuple[int, ...]
    controllers: int
    kwok: int
    schedulers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything that command lines name."""

    directory: Path
    options: PlaneOptions
    programs: Programs
    ports: Ports
    pki: Pki
    tokens: Path

    @property
    def etcd_url(self) -> str:
        """Return the URL of etcd for clients."""
        return f"http://{LOOPBACK}:{self.ports.etcd}"

    @property
    def server_urls(self) -> tuple[str, ...]:
        """Return the URL of each API server."""
        return tuple(f"https://{LOOPBACK}:{port}" for port in self.ports.apiservers)


def etcd(layout: Layout) -> Command:
    """One member that does not flush: what it holds may be lost with the machine, and tests are faster."""
    peer = f"http://{LOOPBACK}:{layout.ports.etcd_peer}"
    argv = (
        str(layout.programs.path(programs.ETCD)),
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={layout.etcd_url}",
        f"--advertise-client-urls={layout.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync=true",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    )
    return Command("etcd", argv)


def api_server(layout: Layout, index: int) -> Command:
    """One API server; all of them share etcd, keys and tokens."""
    options, pki = layout.options, layout.pki
    refused = ["ServiceAccount"]
    if NODE_LIFECYCLE not in options.controllers:
        refused.append(
            "TaintNodesByCondition"
        )  # else every new node keeps the taint that only that controller takes off
    argv = [
        str(layout.programs.path(programs.API_SERVER)),
        f"--etcd-servers={layout.etcd_url}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports.apiservers[index]}",
        f"--tls-cert-file={pki.server_certificate}",
        f"--tls-private-key-file={pki.server_key}",
        f"--client-ca-file={pki.ca}",
        f"--token-auth-file={layout.tokens}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki.service_account_key}",
        f"--service-account-signing-key-file={pki.service_account_key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",
        "--shutdown-watch-termination-grace-period=1s",  # else it waits for its watchers, a minute long
        f"--disable-admission-plugins={','.join(refused)}",
        f"--max-requests-inflight={options.max_requests_inflight}",
        f"--max-mutating-requests-inflight={options.max_mutating_requests_inflight}",
        *_versions(options),
    ]
    if options.runtime_config:
        argv.append(f"--runtime-config={_pairs(options.runtime_config)}")
    return Command(api_server_name(index), (*argv, *options.apiserver_flags), options.apiserver_env)


def api_server_name(index: int) -> str:
    """kube-apiserver-0 and so on."""
    return f"{programs.API_SERVER}-{index}"


def controller_manager(layout: Layout, kubeconfig: Path) -> Command:
    """Return the command of the controller manager with the requested controllers only."""
    argv = (
        str(layout.programs.path(programs.CONTROLLER_MANAGER)),
        *_component(kubeconfig, layout.ports.controllers),
        f"--service-account-private-key-file={layout.pki.service_account_key}",
        f"--root-ca-file={layout.pki.ca}",
        f"--controllers={','.join(layout.options.controllers)}",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={CLIENT_BURST}",
        *_versions(layout.options),
    )
    return Command(programs.CONTROLLER_MANAGER, argv)


def scheduler(layout: Layout, wanted: Scheduler, config: Path) -> Command:
    """Return the command of a scheduler; its client and profile are in its configuration file."""
    argv = (
        str(layout.programs.path(wanted.program)),
        f"--config={config}",
        *_listening(layout.ports.schedulers[wanted.name]),
        *_versions(layout.options),
    )
    return Command(wanted.name, argv)


def kwok(layout: Layout, kubeconfig: Path, configs: tuple[Path, ...]) -> Command:
    """Return the command of KWOK, which simulates the kubelets of every node."""
    argv = (
        str(layout.programs.path(programs.KWOK)),
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=true",
        f"--node-lease-duration-seconds={layout.options.node_lease_s}",
        f"--server-address={LOOPBACK}:{layout.ports.kwok}",
        "--v=WARN",
        f"--node-ip={LOOPBACK}",
        f"--cidr={POD_RANGE}",
        *(f"--config={path}" for path in configs),
    )
    return Command(programs.KWOK, argv)


def _component(kubeconfig: Path, port: int) -> tuple[str, ...]:
    return (f"--kubeconfig={kubeconfig}", "--leader-elect=false", *_listening(port))


def _listening(port: int) -> tuple[str, ...]:
    return (
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        "--authentication-skip-lookup=true",
        f"--authorization-always-allow-paths={_UNPROTECTED}",
    )


def _versions(options: PlaneOptions) -> tuple[str, ...]:
    found = []
    if options.emulated_version:
        found.append(f"--emulated-version={options.emulated_version}")
    if options.feature_gates:
        found.append(f"--feature-gates={_pairs(options.feature_gates)}")
    return tuple(found)


def _pairs(settings: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in settings.items())
