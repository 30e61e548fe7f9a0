"""All settings, typed; read from `<state-dir>/settings.json` and the environment.

The environment variables `MUSTER_<FIELD>` and `MUSTER_<SECTION>__<FIELD>` take precedence over the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from muster.bus.federation_settings import FederationSettings
from muster.bus.gateway_settings import AccessSettings, HttpSettings, IdentitySettings, TlsSettings
from muster.bus.kubernetes_settings import GuardSettings, KubernetesSettings
from muster.core.settings import (
    ComposerSettings,
    PreflightSettings,
    ScalingSettings,
    SimulatedFabricSettings,
    SimulationSettings,
)
from muster.schemas.base import Label, Name

EXPORTER_URL = "http://{address}:9400/metrics"
"""URL of dcgm-exporter on a node whose network its pod shares."""
_PLACES = frozenset({"node", "address"})
DAY_S = 86_400.0
OPT_OUT_MAX = 10_000
_PREFIX = "MUSTER_"
_FILE = "settings.json"
_NOT_OVERRIDDEN = frozenset({"state_dir"})  # MUSTER_STATE_DIR names the directory that this file stands in


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TelemetrySettings(_Section):
    """enabled: whether pages are scraped. url: of a node's page, with {node} and {address} filled in; "": the stack's
    own exporters on a simulated cluster, port 9400 of the node's address on a real one. interval_s: between two
    readings of a node. timeout_s: of one reading. stale_s: time without a change after which an exporter is stale.
    idle_below_pct: a GPU whose utilization and SM activity are at or below this is idle. idle_after_s: time after which
    a held idle GPU is listed. report_s: between two facts about the use of a running job."""

    enabled: bool = True
    url: str = ""
    interval_s: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    stale_s: Annotated[float, Field(gt=0)] = 120.0
    idle_below_pct: Annotated[float, Field(ge=0, le=100)] = 1.0
    idle_after_s: Annotated[float, Field(ge=0)] = 600.0
    report_s: Annotated[float, Field(ge=1)] = 600.0

    @field_validator("url")
    @classmethod
    def _places_are_known(cls, url: str) -> str:
        if not url:
            return url
        named = {name for _, name, _, _ in Formatter().parse(url) if name is not None}
        if not url.startswith(("http://", "https://")) or not named or not named <= _PLACES:
            raise ValueError(f"url: {url!r}: write http://HOST:PORT/PATH with {{node}} or {{address}} in it")
        return url


class BrakeSettings(_Section):
    """Limit of health: once tripped, nothing is drained, repaired or given back until `muster health brake reset`.

    share: of all nodes; more suspected nodes within the window trip it. nodes_min: number that never trips it.
    window_s: time within which they are counted.
    """

    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    nodes_min: Annotated[int, Field(ge=1, le=10_000)] = 3
    window_s: Annotated[float, Field(gt=0, le=DAY_S)] = 600.0


class LemonSettings(_Section):
    """When a node counts as one that is ill again and again.

    incidents: so often it was ill or lost within the window. window_s: within which they are counted. ratio: so many
    times as often as the others.
    """

    incidents: Annotated[int, Field(ge=2, le=64)] = 3
    window_s: Annotated[float, Field(gt=0, le=365 * DAY_S)] = 30 * DAY_S
    ratio: Annotated[float, Field(ge=1)] = 4.0


class HealthSettings(_Section):
    """Actions of health after faults.

    enabled: readings of GPUs are evaluated. rules: a file, or a folder of files, of rules over the built-in ones
    (`muster health rules check`). dry_run: faults are recorded, but nothing is drained. opt_out: nodes for which the
    same applies, as for nodes with the label `muster.dev/health: observe`. repair: faulty hardware is reset, rebooted,
    replaced; else it waits for an operator. verify: suite of checks that must all pass before a node is given back;
    "none": only an operator gives it back. verify_device: the same of a device. attempts_max: maximum number of
    repairs. action_s: time limit of one. periodic: suite of checks that may run beside jobs. periodic_every_s: between
    two of a node, 0: none. deep: suite for idle nodes, which are drained for it. deep_every_s: between two of a node,
    0: none. deep_at_once: concurrent deep checks. soak_s: time of observation after passed checks, before jobs are
    placed. steady_s: time for which a page must show that a lasting fault is over. brake: see below. lemons: see below.
    """

    enabled: bool = True
    rules: Path | None = None
    dry_run: bool = False
    opt_out: Annotated[tuple[Label, ...], Field(max_length=OPT_OUT_MAX)] = ()
    repair: bool = True
    verify: Name = "validate"
    verify_device: Name = "periodic"
    attempts_max: Annotated[int, Field(ge=1, le=10)] = 3
    action_s: Annotated[float, Field(gt=0, le=DAY_S)] = 1_800.0
    periodic: Name = "periodic"
    periodic_every_s: Annotated[float, Field(ge=0, le=365 * DAY_S)] = 0.0
    deep: Name = "deep"
    deep_every_s: Annotated[float, Field(ge=0, le=365 * DAY_S)] = 0.0
    deep_at_once: Annotated[int, Field(ge=1, le=1_000)] = 1
    soak_s: Annotated[float, Field(ge=0, le=7 * DAY_S)] = 0.0
    steady_s: Annotated[float, Field(ge=0, le=DAY_S)] = 60.0
    brake: BrakeSettings = BrakeSettings()
    lemons: LemonSettings = LemonSettings()


class LocalSettings(_Section):
    """Jobs run as processes of the agent's machine, on the nodes that `fleet` says there are.

    directory: a folder for each attempt lies there, with what its processes printed. checkpoint_poll_s: how often it is
    looked whether a job wrote a checkpoint. secrets: a directory with TEAM/SECRET/KEY, files from which a job's
    `pod.secret_env` comes, readable by the agent's user alone; None: no job may name any.
    """

    directory: Path
    checkpoint_poll_s: Annotated[float, Field(gt=0)] = 1.0
    secrets: Path | None = None


class UpgradeSettings(_Section):
    """campaigns_max: that go on at the same time. patience_s: a node that is not full of jobs is kept for its turn at
    most so long before. rack_level: the level of topology by which a campaign's limit per rack counts.
    """

    campaigns_max: Annotated[int, Field(ge=1, le=64)] = 4
    patience_s: Annotated[float, Field(ge=0)] = 4 * 3600.0
    rack_level: str = "rack"


class FleetSettings(_Section):
    """The nodes of the simulated cluster: a regular fleet, or exactly those of an openb node list (`csv`).

    nodes: their number. prefix: of their names. gpus_per_node, gpu_model, cpu_milli, memory_mib: of each node.
    rack_size: nodes of a rack. racks_per_block: racks of a block. nvlink_size: nodes of a rack that share an NVLink
    domain; 0 declares no such level. kubelet_picks: a placement has the number of a node's GPUs and not their indexes,
    as on clusters with a device plugin. share_milli: sizes, ascending, of parts of a GPU; None: any. csv: the node
    list, which replaces the other fields.
    """

    nodes: Annotated[int, Field(ge=0, le=100_000)] = 64
    prefix: Name = "gpu"
    gpus_per_node: Annotated[int, Field(ge=0, le=64)] = 8
    rack_size: Annotated[int, Field(ge=1)] = 8
    racks_per_block: Annotated[int, Field(ge=1)] = 8
    nvlink_size: Annotated[int, Field(ge=0)] = 0
    gpu_model: str = "H100"
    cpu_milli: Annotated[int, Field(ge=1)] = 128_000
    memory_mib: Annotated[int, Field(ge=1)] = 1_048_576
    kubelet_picks: bool = False
    share_milli: tuple[Annotated[int, Field(ge=1, le=1_000)], ...] | None = None
    csv: Path | None = None

    @model_validator(mode="after")
    def _nvlink_domains_lie_within_racks(self) -> Self:
        if self.nvlink_size and self.rack_size % self.nvlink_size:
            raise ValueError(
                f"nvlink_size {self.nvlink_size} does not divide rack_size {self.rack_size}: a domain lies in one rack"
            )
        return self


class SchedulerSettings(_Section):
    """Limits of the scheduler.

    decide_s: time limit of a decision, of any service; longer decisions are counted. unschedulable_interval_s: minimum
    interval between two reports why a job waits. checkpoint_every_facts: number of facts between checkpoints. blame_s:
    time after an error of a job with GPUs in which health may blame the hardware, before a retry of the job is used.
    None: the interval of telemetry's readings and 2 s more, at most a minute, if it reads pages.
    """

    decide_s: Annotated[float, Field(gt=0)] = 0.05
    unschedulable_interval_s: Annotated[float, Field(ge=0)] = 5.0
    checkpoint_every_facts: Annotated[int, Field(ge=1)] = 100_000
    blame_s: Annotated[float, Field(ge=0, le=600)] | None = None


class BusSettings(_Section):
    """Limits of the log and of the shell.

    lease_ttl_s: time without a renewal after which a leader is replaced. log_bytes_max, fed_bytes_max: maximum size of
    the cluster's log and the federation's; at it they refuse more. trim_keep_s: minimum age of trimmed facts. replicas:
    copies of each stream, in a cluster of NATS servers.
    """

    lease_ttl_s: Annotated[float, Field(ge=0.5)] = 3.0
    log_bytes_max: Annotated[int, Field(ge=1024 * 1024)] = 8 * 1024**3
    fed_bytes_max: Annotated[int, Field(ge=64 * 1024)] = 4 * 1024**3
    trim_keep_s: Annotated[float, Field(ge=0)] = 86_400.0
    replicas: Annotated[int, Field(ge=1, le=5)] = 1


class FabricSettings(_Section):
    """One composable fabric and the manager that it is reached through.

    name: as groups name it. driver: how the manager is spoken to; operator: the field's operator moves the devices of a
    real cluster, by its objects, and has no url. url: base of the manager's API; a simulated one is
    filled in by the stack. tenant, cluster_id: as Fsas managers call us. credentials: a JSON file with username,
    password, realm, client_id, client_secret (Fsas managers); never the values. limit: calls at a time.
    call_s: time-out of one call. memory_models: of memory devices in the pool; those of GPUs are the node groups'.
    simulated: the stack runs a simulator for it.
    """

    name: Name
    driver: Literal["fm", "cm", "nec", "sunfish", "operator"] = "fm"
    url: str = ""
    tenant: str = "tenant"
    cluster_id: str = "cluster"
    credentials: Path | None = None
    limit: Annotated[int, Field(ge=1, le=1024)] = 16
    call_s: Annotated[float, Field(gt=0, le=600)] = 180.0
    memory_models: tuple[str, ...] = ()
    simulated: SimulatedFabricSettings | None = None


class WebhookSettings(_Section):
    """Receiver of selected events.

    name: its position in the log belongs to the name. url: of the receiver. url_file: a file with the address instead,
    if that is a secret, as Slack's is. events: names of the notifier's table. teams: whose jobs; none: all. secret: a
    file with the key that signs each request; never the key itself. format: a JSON document, or that of Slack's
    incoming webhooks. timeout_s: of one request. attempts_max: then the event becomes a dead letter. backoff_s: before
    the second attempt; it doubles. backoff_s_max: longest wait before the next.
    """

    name: Name
    url: Annotated[str, Field(pattern=r"^https?://", max_length=2_048)] | None = None
    url_file: Path | None = None
    events: Annotated[tuple[str, ...], Field(min_length=1)]
    teams: tuple[Name, ...] = ()
    secret: Path | None = None
    format: Literal["json", "slack"] = "json"
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    attempts_max: Annotated[int, Field(ge=1, le=100)] = 12
    backoff_s: Annotated[float, Field(gt=0, le=3_600)] = 5.0
    backoff_s_max: Annotated[float, Field(gt=0, le=86_400)] = 900.0

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("give the receiver's address as `url`, or `url_file` with a file that holds it")
        return self


class Settings(_Section):
    """One stack, or one process of it.

    state_dir: directory of the stack. role: whole: one cluster and its federation on one broker; centre: the federation
    of the clusters that `federation.clusters` names, each of which is a cell: one cluster with its own broker that
    joins the center's as a leaf node. cluster: its name, part of every subject; in the center one of its clusters, by
    default the first. nats_url, redis_url: addresses of the servers. credentials_dir: one `<user>.creds` per NATS user
    that this process may use. http_host, http_port: address of the gateway. metrics_port: port of this process's
    metrics; 0: none. websocket_url: NATS address for browsers. dashboard_url: address of the gateway for links in
    messages. kubernetes: the real cluster; None: a simulated one. local: jobs are processes of this machine. fleet,
    simulation, scheduler, scaling, fabrics, composer, webhooks, guard, telemetry, health, preflight, upgrades,
    federation, bus, access, http, identity, tls: see below.
    """

    state_dir: Path
    role: Literal["whole", "centre", "cell"] = "whole"
    cluster: Name = "local"
    nats_url: str = "nats://127.0.0.1:4222"
    redis_url: str = "redis://127.0.0.1:6379/0"
    credentials_dir: Path
    http_host: str = "127.0.0.1"
    http_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    websocket_url: str = ""
    dashboard_url: str = ""
    kubernetes: KubernetesSettings | None = None
    local: LocalSettings | None = None
    fleet: FleetSettings = FleetSettings()
    simulation: SimulationSettings = SimulationSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    scaling: ScalingSettings = ScalingSettings()
    fabrics: tuple[FabricSettings, ...] = ()
    composer: ComposerSettings = ComposerSettings()
    webhooks: tuple[WebhookSettings, ...] = ()
    guard: GuardSettings = GuardSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    health: HealthSettings = HealthSettings()
    preflight: PreflightSettings = PreflightSettings()
    upgrades: UpgradeSettings = UpgradeSettings()
    federation: FederationSettings = FederationSettings()
    bus: BusSettings = BusSettings()
    access: AccessSettings = AccessSettings()
    http: HttpSettings = HttpSettings()
    identity: IdentitySettings = IdentitySettings()
    tls: TlsSettings = TlsSettings()

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return the clusters whose logs are on this broker: its own, or in the center copies of all."""
        if self.role != "centre":
            return (self.cluster,)
        return tuple(member.name for member in self.federation.clusters)

    @model_validator(mode="before")
    @classmethod
    def _a_centre_is_one_of_its_clusters(cls, said: object) -> object:
        """Set the default cluster for questions to the federation."""
        if not isinstance(said, dict) or said.get("role") != "centre" or "cluster" in said:
            return said
        members = FederationSettings.model_validate(said.get("federation", {})).clusters
        return {**said, "cluster": members[0].name} if members else said

    @model_validator(mode="after")
    def _a_centre_has_clusters(self) -> Self:
        if self.role == "centre" and self.cluster not in self.clusters:
            names = ", ".join(self.clusters) or "none"
            raise ValueError(
                f"cluster: {self.cluster!r} is not in federation.clusters ({names}); a center has at least one, and "
                "its own name must be one of them"
            )
        return self

    @model_validator(mode="after")
    def _jobs_run_in_one_way(self) -> Self:
        if self.local is not None and self.kubernetes is not None:
            raise ValueError("local: jobs are pods of Kubernetes or processes of this machine; set one of the two")
        return self

    @model_validator(mode="after")
    def _checks_have_an_image(self) -> Self:
        """Require an image for checks: with the job's own image, the job's author would control the result."""
        if self.kubernetes is not None and self.preflight.default not in (None, "none") and not self.preflight.image:
            raise ValueError(
                f"preflight.image: is not set, but preflight.default is {self.preflight.default!r}; name an image that "
                "has `muster` and the tools of the checks, or remove preflight.default"
            )
        return self

    @model_validator(mode="after")
    def _one_moves_devices(self) -> Self:
        """Require one manager of devices: the operator detaches devices that others attach."""
        operated = [fabric.name for fabric in self.fabrics if fabric.driver == "operator"]
        asks_it = self.kubernetes is not None and self.kubernetes.requests == "operator"
        if operated and not asks_it:
            raise ValueError(f"fabrics: {operated[0]}: driver `operator` needs kubernetes.requests `operator`")
        if asks_it and len(operated) != 1:
            raise ValueError("kubernetes.requests: with `operator` name one fabric whose driver is `operator`")
        if asks_it and len(self.fabrics) > 1:
            raise ValueError(
                "fabrics: beside the operator's no other is allowed: it detaches devices that others attach"
            )
        return self


def load_settings(state_dir: Path, environment: Mapping[str, str]) -> Settings:
    """Load the settings of a stack. Raises OSError, or pydantic.ValidationError that names the field."""
    values = json.loads((state_dir / _FILE).read_text(encoding="utf-8"))
    return Settings.model_validate(with_variables(values, environment))


def with_variables(values: Mapping[str, object], environment: Mapping[str, str]) -> dict[str, object]:
    """Return the settings with the values of the environment variables."""
    changed = dict(values)
    for field, info in Settings.model_fields.items():
        if field in _NOT_OVERRIDDEN:
            continue
        section = info.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            given = {
                inner: value
                for inner in section.model_fields
                if (value := environment.get(f"{_PREFIX}{field}__{inner}".upper())) is not None
            }
            if given:
                before = changed.get(field)
                changed[field] = {**(before if isinstance(before, dict) else {}), **given}
        elif (value := environment.get(f"{_PREFIX}{field}".upper())) is not None:
            changed[field] = value
    return changed
