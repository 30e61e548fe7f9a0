"""How things stand with a leading scheduler, as gauges: teams, queues, nodes and GPUs.

Teams and queues are labels up to a bound, the rest stands together as `other`; never a job or a node.
"""

import math
from collections import Counter as Sums

from prometheus_client import Gauge

from muster.bus.gauges import BoundedLabels, LeaderGauges
from muster.cluster.node_records import NodeRecord
from muster.core import Instant
from muster.core.instant import seconds_between
from muster.quota.amounts import borrowing_of, model_resource, nominal_of
from muster.quota.queues import QueueRecord
from muster.scheduler.core.state import State
from muster.scheduler.tally import STATES, Tally
from muster.schemas.facts.queue import GPU

TEAMS_MAX = 64
QUEUES_MAX = 128
MODELS_MAX = 32
_MILLI = 1000

_TEAM_JOBS = Gauge("muster_team_jobs", "Live jobs.", ("team", "state"))
_TEAM_GPUS = Gauge("muster_team_gpus_held", "GPUs held by the team's jobs.", ("team",))
_QUEUE_JOBS = Gauge("muster_queue_jobs", "Live jobs of the queue itself.", ("queue", "state"))
_QUEUE_HELD = Gauge("muster_queue_gpus_held", "GPUs held by jobs of the queue and those below it.", ("queue",))
_QUEUE_NOMINAL = Gauge("muster_queue_gpus_nominal", "Nominal quota of GPUs; none: 0.", ("queue",))
_QUEUE_LIMIT = Gauge("muster_queue_gpus_limit", "GPUs that the queue may hold; +Inf: all there are.", ("queue",))
_QUEUE_SHARE = Gauge("muster_queue_share", "What the queue borrows of what could be lent, by weight.", ("queue",))
_QUEUE_USED = Gauge("muster_queue_used_share", "The same for what it held lately.", ("queue",))
_QUEUE_WAIT = Gauge("muster_queue_oldest_wait_seconds", "How long its first job has waited.", ("queue",))
_NODES = Gauge("muster_nodes", "Nodes of the cluster.", ("state",))
_GPUS = Gauge("muster_gpus", "GPUs of nodes of the cluster.", ("model",))
_GPUS_HELD = Gauge("muster_gpus_held", "GPUs that jobs hold.", ("model",))
_GPUS_UNUSABLE = Gauge("muster_gpus_unusable", "GPUs that take no new jobs.", ("model",))
_ANOMALIES = Gauge("muster_anomalies", "Facts that fitted no state, since the core was made.", ("service",))

_NODE_STATES = ("usable", "lost", "withheld", "unreleased")


class Standing:
    """Shows it for one term after the other. teams: which teams have a label, shared with the counters."""

    def __init__(self, teams: BoundedLabels) -> None:
        self._gauges = LeaderGauges()
        self._teams = teams
        self._queues, self._models = BoundedLabels(QUEUES_MAX), BoundedLabels(MODELS_MAX)
        self._fleet_version = -1
        self._shown_models: set[str] = set()

    def show(self, state: State, tally: Tally, *, now: Instant) -> None:
        """Everything as of now."""
        self._show_teams(tally)
        self._show_queues(state, tally, now)
        self._show_held(tally)
        if state.grants.changes != self._fleet_version:  # else nodes need not be walked through
            self._fleet_version = state.grants.changes
            self._show_fleet(state)
        self._gauges.show(_ANOMALIES, state.anomalies.total(), "scheduler")

    def hide(self) -> None:
        """The term is over."""
        self._gauges.hide()
        self._fleet_version, self._shown_models = -1, set()

    def _show_teams(self, tally: Tally) -> None:
        jobs, milli = Sums[tuple[str, str]](), Sums[str]()
        for (team, standing), count in tally.by_team.items():
            jobs[self._teams.of(team), standing] += count
            milli[self._teams.of(team)] += 0
        for team, held in tally.team_milli.items():
            milli[self._teams.of(team)] += held
        for team, held in milli.items():
            self._gauges.show(_TEAM_GPUS, held / _MILLI, team)
            for standing in STATES:
                self._gauges.show(_TEAM_JOBS, jobs[team, standing], team, standing)

    def _show_queues(self, state: State, tally: Tally, now: Instant) -> None:
        tree, label = state.queues, self._queues.of
        jobs, held = Sums[tuple[str, str]](), Sums[str]()
        for (queue, standing), count in tally.by_queue.items():
            jobs[label(queue), standing] += count
        for queue, milli in tally.queue_milli.items():
            for above in tree.queues[queue].path if queue in tree.queues else ():
                held[label(above.name)] += milli
        together: dict[str, list[QueueRecord]] = {}
        for name, record in tree.queues.items():
            together.setdefault(label(name), []).append(record)
        for shown, records in together.items():
            names = [record.name for record in records]
            waits = [since for name in names if (since := tally.oldest_wait(name))]
            show = self._gauges.show
            show(_QUEUE_HELD, held[shown] / _MILLI, shown)
            show(_QUEUE_NOMINAL, sum(map(_nominal_milli, records)) / _MILLI, shown)
            show(_QUEUE_LIMIT, sum(map(_limit_gpus, records)), shown)
            show(_QUEUE_SHARE, max(map(tree.share, names)), shown)
            show(_QUEUE_USED, max(tree.used_share(name, now) for name in names), shown)
            show(_QUEUE_WAIT, max(0.0, seconds_between(min(waits), now)) if waits else 0.0, shown)
            for standing in STATES:
                show(_QUEUE_JOBS, jobs[shown, standing], shown, standing)

    def _show_held(self, tally: Tally) -> None:
        held = Sums[str]()
        for resource, milli in tally.model_milli.items():
            held[self._model(resource)] += milli
        for model, milli in held.items():
            self._gauges.show(_GPUS_HELD, milli / _MILLI, model)

    def _show_fleet(self, state: State) -> None:
        nodes, gpus, unusable = Sums[str](), Sums[str](), Sums[str]()
        devices = state.grants.devices
        for record in state.nodes.values():
            if record.description is None:
                continue
            nodes[_node_state(record)] += 1
            present = record.description.present.values()
            if not present:
                continue
            model = self._model(model_resource(record.description.gpu_model))
            gpus[model] += len(present)
            if record.usable:
                unusable[model] += sum(uuid in devices and not devices[uuid].usable for uuid in present)
            else:
                unusable[model] += len(present)
        for standing in _NODE_STATES:
            self._gauges.show(_NODES, nodes[standing], standing)
        self._shown_models |= gpus.keys()  # one that is gone is shown as 0
        for model in self._shown_models:
            self._gauges.show(_GPUS, gpus[model], model)
            self._gauges.show(_GPUS_UNUSABLE, unusable[model], model)

    def _model(self, resource: str) -> str:
        return self._models.of(resource.partition(":")[2])


def _node_state(record: NodeRecord) -> str:
    if record.lost:
        return "lost"
    if record.wishes:
        return "withheld"
    return "usable" if record.released else "unreleased"


def _nominal_milli(record: QueueRecord) -> int:
    return nominal_of(record.spec).get(GPU, 0)


def _limit_gpus(record: QueueRecord) -> float:
    """What it may hold by its own words: quota and what it may borrow, infinite if that is not bounded."""
    borrowing = borrowing_of(record.spec).get(GPU)
    return math.inf if borrowing is None else (_nominal_milli(record) + borrowing) / _MILLI
