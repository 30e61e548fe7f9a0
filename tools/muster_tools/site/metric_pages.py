"""Metrics as a page: what the services export, with labels and help, read from the metrics themselves."""

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from types import ModuleType

from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

from muster.bus.ports import LogCounters
from muster.gateway.metrics import Metrics
from muster_tools.site.markdown import code, documented, prose, table

HEAD = """# Metrics

Every service process has a page (`muster status` says where), the gateway one of its own at `/metrics`. A histogram has
the series `_bucket`, `_sum` and `_count`. What to look at and when: [observability](../concepts/observability.md).
"""
SERVICES = (
    "gateway", "federation", "scheduler", "agent", "scaler", "composer", "projector", "notifier", "guard",
    "telemetry", "health", "upgrader",
)  # fmt: skip
SHARED = "every service"


@dataclass(frozen=True, slots=True, order=True)
class Shown:
    """One metric as it is exported."""

    service: str
    name: str
    kind: str
    labels: tuple[str, ...]
    told: str


def page(metrics: Iterable[Shown]) -> str:
    """One page, a section for each service."""
    listed = sorted(set(metrics))
    parts = [HEAD]
    for service in (*SERVICES, SHARED):
        rows = [
            (code(one.name), one.kind, ", ".join(code(label) for label in one.labels), prose(one.told))
            for one in listed
            if one.service == service
        ]
        if rows:
            title = service[0].upper() + service[1:]
            parts.append(f"## {title}\n\n{table(('metric', 'kind', 'labels', ''), rows)}")
    return "\n".join(parts)


def exported() -> Iterator[Shown]:
    """Yield every metric that a module of the services or of the bus defines. Imports all services."""
    for service in SERVICES:
        package = importlib.import_module(f"muster.{service}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)  # some are loaded only where they are needed
    for name, module in sorted(sys.modules.items()):
        if name.startswith("muster."):
            for metric in _metrics(module):
                yield _shown(metric, _service(name))
    for metric in vars(Metrics()).values():
        if isinstance(metric, MetricWrapperBase):
            yield _shown(metric, "gateway")
    names = [field.name for field in fields(LogCounters)]
    _, told = documented(LogCounters.__doc__ or "", names)
    for name in names:
        yield Shown(SHARED, f"muster_log_{name}_total", "counter", ("log",), told[name])


def _metrics(module: ModuleType) -> Iterator[MetricWrapperBase]:
    for value in vars(module).values():
        if isinstance(value, MetricWrapperBase) and not value._labelvalues:  # noqa: SLF001 - a child of another one
            yield value


def _shown(metric: MetricWrapperBase, service: str) -> Shown:
    (family,) = metric.describe()
    name = f"{family.name}_total" if isinstance(metric, Counter) else family.name
    labels = tuple(metric._labelnames)  # noqa: SLF001 - the library tells the names of labels nowhere else
    return Shown(service, name, family.type, labels, family.documentation)


def _service(module: str) -> str:
    name = module.split(".")[1]
    return name if name in SERVICES else SHARED
