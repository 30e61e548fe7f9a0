"""Where jobs go: rules of the federation, as people write them and as the log keeps them."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from muster.schemas.base import Label, Name, Text, Wire
from muster.schemas.job import LABELS_MAX, MODELS_MAX, JobKind

RULES_MAX = 256
CLUSTERS_MAX = 64
TEAMS_MAX = 4_096


class Choice(Wire):
    """One cluster that a rule leads to, and when jobs go on to the next one instead.

    cluster: its name. queue_max: so many jobs wait there, or more; None: never for that. expected_start_s_max: a job
    that came now would wait longer there, as far as that is known; None: never for that.
    """

    cluster: Name
    queue_max: Annotated[int, Field(ge=0)] | None = None
    expected_start_s_max: Annotated[float, Field(ge=0)] | None = None


class RoutingRule(Wire):
    """Jobs that match go to the first of `clusters` that takes jobs and does not overflow.

    An empty condition matches every job; all conditions must match. name: of the rule, for people. teams, users, kinds:
    of the job. labels: that it carries. models: the job would run on one of these (one that takes any model matches).
    gpus_min, gpus_max: of the whole gang. clusters: where they go, the preferred first. waits: where every cluster
    overflows the job waits with the federation; else it goes to the first that takes jobs.
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
        """Whether it matches every job."""
        conditions = (self.teams, self.users, self.kinds, self.labels, self.models, self.gpus_min)
        return not any(conditions) and self.gpus_max is None


class TeamLimit(Wire):
    """What a team may have over all clusters together.

    team: its name. gpus: of its jobs that were routed and have not ended; None: no limit. weight: its share, against
    the other teams', where jobs wait for their turn to be routed.
    """

    team: Name
    gpus: Annotated[float, Field(ge=0)] | None = None
    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0


class RoutingPolicy(Wire):
    """All rules, the first that matches counts, and the teams' limits over all clusters.

    rules: the last one must match every job; none: every job goes to the first cluster of the settings that takes jobs.
    teams: those with a limit or a weight.
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
                raise ValueError(f"{what}: {', '.join(twice)} stands there more than once")
        return self

    @property
    def clusters(self) -> tuple[str, ...]:
        """Every cluster that a rule names, in order."""
        return tuple(dict.fromkeys(choice.cluster for rule in self.rules for choice in rule.clusters))
