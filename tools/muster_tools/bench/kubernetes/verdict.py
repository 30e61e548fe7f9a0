"""What the figures say about Muster, against what was to be reached. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster_tools.bench.kubernetes.plan import Contender
from muster_tools.bench.kubernetes.result import Result

BINDS_RATIO = 2.0
"""Binds per second, over the better of kube-scheduler's profiles."""
P99_RATIO = 1 / 3
"""99th percentile of create to bound, over the same one's."""
FLOOR_SHARE = 0.7
"""Or, where the API server itself is the ceiling: binds per second over those of the floor."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One contender of Muster's. None: there is nothing to compare with in this run.

    floor_share: of what the floor binds per second. running_share: of the pods that run per second in the floor's run,
    whose kubelets lag behind; told beside, not judged.
    """

    contender: Contender
    all_placed: bool
    binds_ratio: float | None
    p99_ratio: float | None
    floor_share: float | None
    running_share: float | None
    lists_in_surge: int

    @property
    def reached(self) -> bool | None:
        """Whether everything was placed as fast as it was to be; None without anything to compare with."""
        faster = None
        if self.binds_ratio is not None and self.p99_ratio is not None:
            faster = self.binds_ratio >= BINDS_RATIO and self.p99_ratio <= P99_RATIO
        at_the_floor = None if self.floor_share is None else self.floor_share >= FLOOR_SHARE
        if faster is None and at_the_floor is None:
            return None
        return self.all_placed and bool(faster or at_the_floor)


def verdicts(results: Sequence[Result]) -> tuple[Verdict, ...]:
    """Of each of Muster's contenders, against kube-scheduler with the same kind of devices and the floor."""
    by_name = {result.contender: result for result in results}
    floor = by_name.get(Contender.FLOOR)
    found = []
    for contender, others in (
        (Contender.MUSTER, (Contender.DEFAULT, Contender.BIN_PACKING)),
        (Contender.MUSTER_CLAIMS, (Contender.CLAIMS,)),
    ):
        if (ours := by_name.get(contender)) is None:
            continue
        better = max(
            (by_name[other] for other in others if other in by_name),
            key=lambda result: (result.placed, result.binds_per_s),
            default=None,
        )
        found.append(
            Verdict(
                contender=contender,
                all_placed=ours.stranded == 0,
                binds_ratio=_ratio(ours.binds_per_s, better.binds_per_s if better else 0.0),
                p99_ratio=_ratio(ours.latency_ms.p99, better.latency_ms.p99 if better else 0.0),
                floor_share=_ratio(ours.binds_per_s, floor.binds_per_s if floor else 0.0),
                running_share=_ratio(ours.running_per_s, floor.running_per_s if floor else 0.0),
                lists_in_surge=ours.surge.lists,
            )
        )
    return tuple(found)


def _ratio(ours: float, theirs: float) -> float | None:
    return round(ours / theirs, 3) if theirs else None
