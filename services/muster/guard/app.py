"""Wiring only: the guard's core over what the API servers show."""

from importlib.metadata import version
from pathlib import Path

from muster.bus.kubernetes_settings import GuardSettings
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.guard.core import GuardCore
from muster.guard.core.config import GuardConfig, Kind, Subjects
from muster.guard.core.report import answer_report
from muster.guard.declaration import DECLARATION
from muster.guard.replicas import Place
from muster.guard.sink import ServerWatch
from muster.schemas.registry import StreamRole


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The guard of one cluster. On a simulated one too, since checkpoints wait for its part; there it sees nothing."""
    config, place = config_of(settings), place_of(settings)
    queries = {"report": answer_report}
    if place is None or not settings.guard.enabled:
        core = CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: GuardCore(config),
            queries=queries,
        )
        return (core,)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: GuardCore(config, guarded=True),
            queries=queries,
            sink=lambda: ServerWatch(place, config, scrape_s=settings.guard.scrape_s, version=version("gpumuster")),
        ),
    )


def config_of(settings: Settings) -> GuardConfig:
    """The guard's part of the settings."""
    guard = settings.guard
    return GuardConfig(
        kinds=tuple(Kind(kind.resource, kind.group, kind.seats) for kind in guard.kinds),
        subjects=Subjects(guard.subjects),
        apply=guard.apply,
        skew_ratio=guard.skew_ratio,
        lists_per_minute=guard.lists_per_minute,
        secrets_per_workload=guard.secrets_per_workload,
    )


def place_of(settings: Settings) -> Place | None:
    """How the cluster is reached; None for a simulated one."""
    kubernetes = settings.kubernetes
    if kubernetes is None:
        return None
    return Place(
        kubeconfig=kubernetes.kubeconfig,
        context=kubernetes.context or "",
        api_servers=kubernetes.api_servers,
        connection_age_s=kubernetes.connection_age_s,
        audit_host=settings.guard.audit_host,
        audit_port=settings.guard.audit_port,
        audit_token=settings.guard.audit_token,
        audit_tls=_pair(settings.guard),
    )


def _pair(guard: GuardSettings) -> tuple[Path, Path] | None:
    """Certificate and key of the audit receiver; the settings have both or none."""
    certificate, key = guard.audit_certificate, guard.audit_key
    return None if certificate is None or key is None else (certificate, key)
