"""The three strategies, each run over the same work with the production cores."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.fleet import Fleet, regular_fleet
from muster.core import Fact
from muster.core.instant import seconds_between
from muster.core.settings import FabricBehaviour, GroupSettings, ModelSettings, ScalingSettings
from muster.scaler.core.groups import ScalingConfig
from muster.schemas.job import Phase
from muster.simulator.engine import START, Engine, join_nodes, set_queue, survey_fabrics
from muster.simulator.load.play import LIMITS, pace_of
from muster.simulator.load.recorder import JobTrack, Recorder
from muster.simulator.load.trace import Arrival
from muster.simulator.scaling import Scaling
from muster_tools.bench.ways.load import Work, queue
from muster_tools.bench.ways.meter import J_PER_KWH, Meter, Point, Power

GPUS_PER_HOST = 8
HOST_CPU_MILLI, HOST_MEMORY_MIB = 128_000, 786_432
"""The largest machine with 8 GPUs of the openb trace: each of its tasks fits one."""
MODEL, GROUP, FABRIC = "G3", "host", "fabric"
STEP_S = 1.0
START_S = 0.5
"""Median time from placed to running, the same for all strategies: image pulls are not compared."""
SWITCH_S, VISIBLE_S = 10.0, 40.0
"""Times of an attachment: the fabric's switch (median), until the node reports the device; the sum is `attach_s`."""
IDLE_S = 600.0
POOL_GPU_W = 60.0
"""Power of a GPU in the pool that is not switched off: its idle watts."""
UNSCHEDULABLE_S = 5.0


class Way(StrEnum):
    """The strategies: share GPUs on hosts that are always on; scale hosts; scale GPUs, and hosts with them."""

    SPLIT = "split"
    NODES = "nodes"
    DEVICES = "devices"


@dataclass(frozen=True, slots=True)
class Result:
    """Results of one strategy."""

    way: Way
    jobs: int
    done: int
    """Jobs that ended before the comparison did."""
    unplaced: int
    waits: tuple[float, ...]
    """Waiting times in seconds, of placed jobs, ascending."""
    gpu_share_on: float
    """Requested GPU time over the time of GPUs that are on."""
    gpu_share_all: float
    """Requested GPU time over the time of all GPUs."""
    gpus_on_mean: float
    hosts_on_mean: float
    kwh: float
    """Energy without the GPUs in the pool."""
    pool_kwh: float
    """Additional energy of the GPUs in the pool if they were not switched off."""
    attached: int
    detached: int
    nodes_added: int
    nodes_removed: int
    facts: int
    points: tuple[Point, ...]

    @property
    def mean_wait_s(self) -> float:
        """Return the mean of `waits`, 0 without any."""
        return sum(self.waits) / len(self.waits) if self.waits else 0.0

    def wait_s(self, share: float) -> float:
        """Return the wait that this share of the jobs does not exceed."""
        return self.waits[min(len(self.waits) - 1, int(share * len(self.waits)))] if self.waits else 0.0


Reached = Callable[[float], None]
"""Called with the virtual hours that have passed."""


def play_way(way: Way, work: Work, *, gpus: int, seed: int, reached: Reached | None = None) -> Result:
    """Run one strategy. gpus: a multiple of GPUS_PER_HOST. Raises NeverSettlesError if decisions never end."""
    meter = Meter(power_of(), gpus, work.asked_milli, START, work.ends_at, gpus_per_host=_gpus_at_once(way))
    recorder = Recorder()

    def watch(fact: Fact) -> None:
        recorder.watch(fact)
        meter.watch(fact)

    engine = Engine(
        _fixed_fleet(gpus) if way is Way.SPLIT else {},
        behaviour=Behaviour(seed=seed, start_s=START_S),
        start=START,
        limits=dataclasses.replace(LIMITS, unschedulable_interval_s=UNSCHEDULABLE_S),
        pace=pace_of(STEP_S),
        watch=watch,
        scaled=scaling.begin() if (scaling := scaling_of(way, gpus)) is not None else None,
    )
    join_nodes(engine)
    survey_fabrics(engine)
    set_queue(engine, queue(), at="queue")
    arrivals: Sequence[Arrival] = work.split if way is Way.SPLIT else work.whole
    for now in engine.moments(work.ends_at, arrivals=engine.arrivals(arrivals)):
        if reached is not None:
            reached(seconds_between(START, now) / 3600)
    meter.close()
    return _result(way, engine, recorder, meter)


def power_of() -> Power:
    """Return the power model of the settings' defaults."""
    host, model = GroupSettings(name=GROUP), ModelSettings()
    return Power(host.idle_w, host.busy_w, HOST_CPU_MILLI, model.idle_w, model.busy_w, POOL_GPU_W)


def scaling_of(way: Way, gpus: int) -> Scaling | None:
    """Return what scales: nothing, hosts with their GPUs, or hosts without GPUs and GPUs from a pool."""
    if way is Way.SPLIT:
        return None
    composable = way is Way.DEVICES
    group = GroupSettings(
        name=GROUP,
        composable=composable,
        nodes_max=gpus // GPUS_PER_HOST,
        gpus=0 if composable else GPUS_PER_HOST,
        gpus_max=GPUS_PER_HOST if composable else 0,
        gpu_models=(MODEL,),
        cpu_milli=HOST_CPU_MILLI,
        memory_mib=HOST_MEMORY_MIB,
        fabric=FABRIC if composable else "",
    )
    config = ScalingConfig(
        ScalingSettings(groups=(group,), gpu_idle_s=IDLE_S, node_unneeded_s=IDLE_S, visible_s=VISIBLE_S),
        frozenset({FABRIC}) if composable else frozenset(),
    )
    return Scaling(
        config,
        pool={FABRIC: {MODEL: gpus}} if composable else {},
        behaviour=FabricBehaviour(switch_median_s=SWITCH_S),
    )


def _gpus_at_once(way: Way) -> int:
    """Return the number of GPUs that are on with an added host."""
    return GPUS_PER_HOST if way is Way.NODES else 0


def _fixed_fleet(gpus: int) -> Fleet:
    return regular_fleet(
        nodes=gpus // GPUS_PER_HOST, gpus_per_node=GPUS_PER_HOST, gpu_model=MODEL, cpu_milli=HOST_CPU_MILLI,
        memory_mib=HOST_MEMORY_MIB, rack_size=8, racks_per_block=8,
    )  # fmt: skip


def _result(way: Way, engine: Engine, recorder: Recorder, meter: Meter) -> Result:
    tracks: Sequence[JobTrack] = tuple(recorder.tracks.values())
    window_s = meter.hours * 3600
    return Result(
        way=way,
        jobs=len(tracks),
        done=sum(track.ended in (Phase.SUCCEEDED.value, Phase.FAILED.value) for track in tracks),
        unplaced=sum(not track.placed_at for track in tracks),
        waits=tuple(sorted(track.wait_s(engine.now) for track in tracks if track.placed_at)),
        gpu_share_on=meter.asked_gpu_s / meter.on_gpu_s if meter.on_gpu_s else 0.0,
        gpu_share_all=meter.asked_gpu_s / (meter.all_gpus * window_s) if window_s else 0.0,
        gpus_on_mean=meter.on_gpu_s / window_s if window_s else 0.0,
        hosts_on_mean=meter.on_host_s / window_s if window_s else 0.0,
        kwh=meter.joules / J_PER_KWH,
        pool_kwh=meter.pool_joules / J_PER_KWH,
        attached=meter.attached,
        detached=meter.detached,
        nodes_added=meter.nodes_added,
        nodes_removed=meter.nodes_removed,
        facts=engine.seq,
        points=tuple(meter.points),
    )
