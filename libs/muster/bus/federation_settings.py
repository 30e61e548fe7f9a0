"""Settings of the federation: its clusters, the routing policy, and when a silent cluster is lost."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from muster.schemas.base import Name
from muster.schemas.routing import CLUSTERS_MAX, RoutingPolicy

CLOCK_RATE_ERROR_MAX = 0.001
"""Maximum difference of clock rates: ten times that of an undisciplined quartz; NTP slews by 0.0005."""


SKEW_S_MAX = 2.0
"""Maximum lead of a leader's clock over its broker's before it is corrected, in seconds (see `bus.clock`)."""


def margin_least_s(lost_after_s: float, *, heartbeat_s: float) -> float:
    """Return the smallest margin that keeps a job from running in two clusters.

    Between the end in one cluster and the start in the other are two margins, of which half a margin is grace. The
    rest has to cover the lead of the federation's clock, a heartbeat (the delay of an agent whose own clock is
    behind, since it uses the newest folded time stamp), and the drift of the clocks meanwhile.
    """
    drift_s = 2.1 * lost_after_s * CLOCK_RATE_ERROR_MAX  # both clocks, and the neglected higher-order terms
    return (heartbeat_s + SKEW_S_MAX + drift_s) / 1.5


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MemberSettings(_Section):
    """One cluster of the federation.

    name: as in its own settings; also its JetStream domain. lost_after_s: None: as for all clusters. teams: for a
    center, the team of the objects of each namespace of this cluster; objects of a namespace without an entry become no
    jobs. It must equal `kubernetes.teams` in the cell's settings.
    """

    name: Name
    lost_after_s: Annotated[float, Field(ge=0)] | None = None
    teams: dict[Name, Name] = {}


class CentreSettings(_Section):
    """Connection of a cell's broker to the center's.

    url: address for leaf nodes of the center's broker: `tls://HOST:7422`, or `nats-leaf://HOST:7422` within one
    network. credentials: the file that the center created for this cell, `cell-NAME/centre.creds`.
    """

    url: Annotated[str, Field(pattern=r"^(tls|nats-leaf|wss?)://[^/]+")]
    credentials: Path


class FederationSettings(_Section):
    """clusters: all members, in order of preference; none: the one cluster of this stack. lost_after_s: time without
    contact after which a cluster is given up and its jobs are rerouted; 0: never. margin_s: jobs end there this time
    before, and are rerouted this time after: it covers the grace of the ended jobs and differences of the clock rates.
    heartbeat_s: interval between heartbeats of a cluster that may be given up. centre: of a cell that runs apart, its
    connection to the federation. copies_keep_s: a center purges facts of its copies of clusters' logs that are older
    and before the cluster's older checkpoint; 0: never. policy: initial routing policy, until it is changed (`muster
    routes set`)."""

    clusters: Annotated[tuple[MemberSettings, ...], Field(max_length=CLUSTERS_MAX)] = ()
    lost_after_s: Annotated[float, Field(ge=0)] = 0.0
    margin_s: Annotated[float, Field(ge=0)] = 60.0
    heartbeat_s: Annotated[float, Field(gt=0)] = 5.0
    centre: CentreSettings | None = None
    copies_keep_s: Annotated[float, Field(ge=0)] = 7 * 86_400.0
    policy: RoutingPolicy = RoutingPolicy()

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        names = [member.name for member in self.clusters]
        if len(set(names)) != len(names):
            raise ValueError(f"clusters: names must be distinct, found {', '.join(sorted(names))}")
        return self

    @model_validator(mode="after")
    def _rules_lead_to_members(self) -> Self:
        known = {member.name for member in self.clusters}
        strange = sorted(set(self.policy.clusters) - known)
        if known and strange:
            raise ValueError(f"policy: no cluster {strange[0]}; there are {', '.join(sorted(known))}")
        return self

    @model_validator(mode="after")
    def _margins_leave_time_to_run(self) -> Self:
        for name, lost_after_s in self.lost_after().items():
            if not lost_after_s:
                continue
            least = self.margin_s + 3 * self.heartbeat_s
            if lost_after_s <= least:
                raise ValueError(
                    f"lost_after_s {lost_after_s:g} of {name or 'the cluster'}: it must exceed margin_s and three "
                    f"heartbeats ({least:g}), or every delay ends jobs"
                )
            needed = margin_least_s(lost_after_s, heartbeat_s=self.heartbeat_s)
            if self.margin_s < needed:
                raise ValueError(
                    f"margin_s {self.margin_s:g}: with lost_after_s {lost_after_s:g} and heartbeat_s "
                    f"{self.heartbeat_s:g} it must be {needed:g} at least, or a job might run in two clusters"
                )
        return self

    def lost_after(self) -> dict[str, float]:
        """Return lost_after_s of every cluster by name; of the stack's own cluster under "" if none are named."""
        if not self.clusters:
            return {"": self.lost_after_s}
        return {
            member.name: self.lost_after_s if member.lost_after_s is None else member.lost_after_s
            for member in self.clusters
        }
