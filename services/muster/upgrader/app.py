"""Run the upgrader: its facts, settings and questions, and metrics of campaigns, nodes and turns while it leads."""

from collections import Counter as Sums
from collections.abc import Sequence

from nats.aio.client import Client
from prometheus_client import Counter, Gauge, Histogram

from muster.bus.gauges import LeaderGauges
from muster.bus.service import CoreService, Hosted, LeaderHandle
from muster.bus.settings import Settings, UpgradeSettings
from muster.checks.suites import policy_of
from muster.core import Fact, Instant
from muster.core.fact import Core
from muster.core.instant import seconds_between
from muster.core.settings import PreflightSettings
from muster.schemas.facts.upgrade import CampaignEnded, NodeStepped, Step
from muster.schemas.registry import StreamRole
from muster.upgrader.core import UpgraderCore, answers
from muster.upgrader.core.answers import course_of
from muster.upgrader.core.config import UpgradeConfig, Validation
from muster.upgrader.declaration import DECLARATION

COURSES = ("going", "paused", "stopped", "aborting")
_TURN_S = (60.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0)
_SHOWN = frozenset({"campaign", "node"})

_CAMPAIGNS = Gauge("muster_upgrade_campaigns", "Campaigns that are not over, by how they go.", ("state",))
_NODES = Gauge("muster_upgrade_nodes", "Nodes of campaigns that are not over, by step.", ("step",))
_ENDS = Counter("muster_upgrade_turns", "Turns that ended: done, failed, rolled-back.", ("outcome",))
_TAKES = Histogram("muster_upgrade_turn_seconds", "From a node given to the end of its turn.", (), buckets=_TURN_S)
_LOST = Counter("muster_upgrade_gpu_hours_lost", "GPU-hours that no job used while campaigns kept nodes.", ())

for _step in Step:
    if _step.is_end:
        _ENDS.labels(_step.value)  # shown as 0 before the first, or a rate would not see it


class CampaignsSink:
    """The sink of metrics for the campaigns of one cluster, for one leader term after the other."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._gauges = LeaderGauges()
        self._core: UpgraderCore | None = None
        self._drained: dict[tuple[str, str], Instant] = {}

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """Show the metrics of the state."""
        assert isinstance(core, UpgraderCore), "these are metrics of the upgrader"
        self._core = core
        self._drained.clear()
        self._show(core)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Count the facts, and show the state."""
        assert self._core is not None, "a sink is opened first"
        mine = [fact for fact in facts if fact.writer == "upgrader" and fact.kind in _SHOWN]
        for fact in mine:
            self._count(fact)
        if mine:
            self._show(self._core)

    async def close(self) -> None:
        """Hide the metrics."""
        self._core = None
        self._gauges.hide()

    def _count(self, fact: Fact) -> None:
        match fact.payload:
            case CampaignEnded(gpu_hours_lost=lost):
                _LOST.inc(lost)
                self._drained = {key: at for key, at in self._drained.items() if key[0] != fact.subject_id}
            case NodeStepped(campaign=campaign, step=Step.DRAINED):
                self._drained[campaign, fact.subject_id] = fact.time
            case NodeStepped(campaign=campaign, step=step) if step.is_end:
                _ENDS.labels(step.value).inc()
                began = self._drained.pop((campaign, fact.subject_id), None)
                if began is not None:
                    _TAKES.observe(seconds_between(began, fact.time))

    def _show(self, core: UpgraderCore) -> None:
        live = core.state.live
        states = Sums(course_of(campaign) for campaign in live)
        for state in COURSES:
            self._gauges.show(_CAMPAIGNS, states[state], state)
        steps = Sums(turn.step.value for campaign in live for turn in campaign.turns.values())
        for step in Step:
            self._gauges.show(_NODES, steps[step.value], step.value)


def config_of(settings: UpgradeSettings, preflight: PreflightSettings) -> UpgradeConfig:
    """Return the upgrader's configuration with the suites of checks. Raises CheckError for invalid suites."""
    suites = policy_of(preflight).suites
    return UpgradeConfig(
        campaigns_max=settings.campaigns_max,
        suites={
            name: Validation(suite.checks, suite.limit_s, suite.cannot_run_passes) for name, suite in suites.items()
        },
        patience_s=settings.patience_s,
        rack_level=settings.rack_level,
    )


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the upgrader of one cluster. Raises CheckError for invalid suites of checks."""
    config = config_of(settings.upgrades, settings.preflight)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: UpgraderCore(config),
            queries={
                "campaigns": answers.answer_campaigns,
                "campaign-check": answers.answer_check,
                "preview": answers.answer_preview,
            },
            sink=lambda: CampaignsSink(settings.cluster),
        ),
    )
