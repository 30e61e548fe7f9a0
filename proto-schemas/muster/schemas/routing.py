"""The routing policy: rules of the federation, as operators write them and as the log keeps them."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from muster.schemas.base import Label, Name, Text, Wire
from muster.schemas.job import LABELS_MAX, MODELS_MAX, JobKind

RULES_MAX = 256
CLUSTERS_MAX = 64
TEAMS_MAX = 4_096


class Choice(Wire):
    """One target cluster of a rule, and when jobs overflow to the next one.

    cluster: its name. queue_max: overflow if this many jobs, or more, wait there; None: no limit.
    expected_start_s_max: overflow if a new job would wait longer there, as far as known; None: no limit.
    """

    cluster: Name
    queue_max: Annotated[int, Field(ge=0)] | None = None
    expected_start_s_max: Annotated[float, Field(ge=0)] | None = None


class RoutingRule(Wire):
    """Jobs that match go to the first of `clusters` that accepts jobs and does not overflow.

    An empty condition matches every job; all conditions must match. name: of the rule. teams, users, kinds: of the
    job. labels: of the job. models: the job would run on one of these (a job that accepts any model matches).
    gpus_min, gpus_max: of the whole gang. clusters: targets, in order of preference. waits: if every cluster
    overflows, the job waits with the federation; otherwise it goes to the first that accepts jobs.
    """

    name: Name
    teams: Annotated[tuple[Name, ...], Field(max_length=TEAMS_MAX)] = ()
    users: Annotated[tuple[Label, ...], Field(max_length=TEAMS_MAX)] = ()
    kinds: tuple[JobKind, ...] = ()
    labels: Annotated[dict[Label, Text], Field(max_length=LABELS_MAX)] = Field(default_factory=dict)
    models: Annotated[tuple[Label, ...], Field(max_length=MODELS_MAX)] = ()
    gpus_min: Annotated[float, Field(ge=0)] = 0.0
    gpus_max: Annotated[float, Field(ge=0)] | None = None
    clusters: Annotated[tuple[Choice, ...], Field(min_length=1, max_length=CLUSTERS_MAX)]
    waits: bool = False

    @model_validator(mode="after")
    def _sizes_are_a_range(self) -> Self:
        if self.gpus_max is not None and self.gpus_max < self.gpus_min:
            raise ValueError(f"rule {self.name}: gpus_max {self.gpus_max:g} is below gpus_min {self.gpus_min:g}")
        return self

    @property
    def is_for_all(self) -> bool:
        """Return whether the rule matches every job."""
        conditions = (self.teams, self.users, self.kinds, self.labels, self.models, self.gpus_min)
        return not any(conditions) and self.gpus_max is None


class TeamLimit(Wire):
    """Limit and weight of a team over all clusters together.

    team: its name. gpus: maximum of its jobs that were routed and have not ended; None: no limit. weight: its share
    against other teams, for jobs that wait to be routed.
    """

    team: Name
    gpus: Annotated[float, Field(ge=0)] | None = None
    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0


class RoutingPolicy(Wire):
    """All rules, of which the first match applies, and the teams' limits over all clusters.

    rules: the last one must match every job; none: every job goes to the first cluster of the settings that accepts
    jobs. teams: teams with a limit or a weight.
    """

    rules: Annotated[tuple[RoutingRule, ...], Field(max_length=RULES_MAX)] = ()
    teams: Annotated[tuple[TeamLimit, ...], Field(max_length=TEAMS_MAX)] = ()

    @model_validator(mode="after")
    def _every_job_finds_a_rule(self) -> Self:
        if self.rules and not self.rules[-1].is_for_all:
            raise ValueError(
                f"rules: the last one ({self.rules[-1].name}) must have no conditions, or jobs find no cluster"
            )
        return self

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        for what, names in (
            ("rules", [rule.name for rule in self.rules]),
            ("teams", [limit.team for limit in self.teams]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what}: {', '.join(twice)} is listed more than once")
        return self

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return every cluster that a rule names, in order."""
        return tuple(dict.fromkeys(choice.cluster for rule in self.rules for choice in rule.clusters))
