"""What contenders have in common whose pods the bench makes itself."""

from collections.abc import Callable, Mapping

from muster_tools.bench.kubernetes.manifests import pod_name
from muster_tools.bench.kubernetes.observing import Pod, Seen, name_of
from muster_tools.bench.kubernetes.result import Crowd
from muster_tools.bench.kubernetes.stage import Stage
from muster_tools.local_kubernetes.child import Usage
from muster_tools.local_kubernetes.fleet import create_all
from muster_tools.local_kubernetes.nodes import Manifest

MakePod = Callable[[int, int], tuple[str, Manifest]]
"""Path and object of the n-th workload, of so many GPUs."""


class OwnPods:
    """Creates one pod per workload and leaves the rest to who schedules."""

    def __init__(self, stage: Stage, make: MakePod, *, notes: tuple[str, ...] = ()) -> None:
        self._stage = stage
        self._make = make
        self.notes = notes

    def key_of(self, pod: Pod) -> str:
        """The pod's name."""
        return name_of(pod)

    def usage(self) -> Mapping[str, Usage]:
        """All processes are the plane's."""
        return {}

    async def submit(self, seen: Seen) -> None:
        """As fast as the connections allow."""
        plan = self._stage.plan
        pods = (self._make(number, gpus) for number, gpus in enumerate(plan.gpus))
        await create_all(
            self._stage.client,
            pods,
            parallel=plan.connections,
            begun=lambda number: seen.created(pod_name(number)),
        )

    async def afterwards(self) -> tuple[Crowd, ...]:
        """Nothing."""
        return ()
