"""Garbage collection: the same LISTs at an API server with Go's default and with the guard's advice."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.guard.core.checks import GARBAGE, live_mib_of
from muster.guard.core.look import Look
from muster_tools.demo.guard.burst import API_SERVER, Burst, burst
from muster_tools.demo.guard.limits import GC_LISTS, GC_ROUNDS, GOGC_ADVISED, GOMEMLIMIT_ADVISED
from muster_tools.demo.guard.result import Measure, Story
from muster_tools.demo.guard.stage import READER, USERS, fill, let_read, observing, said, stage
from muster_tools.local_kubernetes.options import PlaneOptions

_DEFAULT = {"GOGC": "100"}
_ADVISED = {"GOGC": GOGC_ADVISED, "GOMEMLIMIT": GOMEMLIMIT_ADVISED}


@dataclass(frozen=True, slots=True)
class _Run:
    """One run. idle_mib: memory before the first burst. look: observation after the last one."""

    idle_mib: float
    bursts: tuple[Burst, ...]
    look: Look
    cpu_s: float

    @property
    def peak_mib(self) -> float:
        return max(one.peak_mib for one in self.bursts)

    @property
    def over_live(self) -> float:
        """Return memory over live heap."""
        replica = self.look.up[0]
        return replica.memory_mib / max(1.0, live_mib_of(replica))


async def memory(*, emulated_version: str) -> Story:
    """Run rounds of LISTs without a limit, at a version that encodes each as a whole and so produces garbage."""
    before = await _run(_DEFAULT, emulated_version)
    after = await _run(_ADVISED, emulated_version)
    return Story(
        name="memory",
        title=f"Garbage collection (version {emulated_version}, emulated; {GC_ROUNDS} rounds of {GC_LISTS} LISTs)",
        before="GOGC=100, Go's default",
        after=" ".join(f"{name}={value}" for name, value in _ADVISED.items()),
        measures=(
            Measure("idle_mib", "memory before the first round, MiB", before.idle_mib, after.idle_mib),
            Measure("peak_mib", "peak memory, MiB", before.peak_mib, after.peak_mib),
            Measure(
                "after_mib", "memory 5 s after the last, MiB", before.bursts[-1].after_mib, after.bursts[-1].after_mib
            ),
            Measure("memory_over_live", "memory over live heap, after that", before.over_live, after.over_live),
            Measure("cpu_s", "processor time of the API server, s", before.cpu_s, after.cpu_s),
            Measure("answered", "LISTs answered", _answered(before), _answered(after)),
        ),
        advice=said(before.look, GARBAGE),
        advice_after=said(after.look, GARBAGE),
        conclusion="collecting more often costs processor time; what keeps the peak small is limiting the LISTs",
    )


async def _run(environment: Mapping[str, str], emulated_version: str) -> _Run:
    options = PlaneOptions(kwok=False, emulated_version=emulated_version, users=USERS, apiserver_env=dict(environment))
    async with stage(options) as plane:
        await let_read(plane)
        await fill(plane)
        async with observing(plane) as observer:
            used_s = plane.usage()[API_SERVER].cpu_s
            bursts = tuple([await burst(plane, READER, lists=GC_LISTS) for _ in range(GC_ROUNDS)])
            look = await observer.look()
            return _Run(bursts[0].idle_mib, bursts, look, plane.usage()[API_SERVER].cpu_s - used_s)


def _answered(run: _Run) -> float:
    return float(sum(one.answered for one in run.bursts))
