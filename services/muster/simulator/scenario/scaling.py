"""A scenario's scaling written out: what the scaler may do, and what it did."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from muster.core import Fact
from muster.core.settings import FabricBehaviour, GroupSettings, ScalingSettings
from muster.scaler.core.groups import ScalingConfig, ScalingConfigError, check_group
from muster.schemas.facts.scale import NothingChosen, ScaleChosen, ScaleEnded
from muster.simulator.engine import Engine
from muster.simulator.errors import InputError
from muster.simulator.scaling import Scaled, Scaling
from muster.simulator.scenario.model import ExpectedScaling, ScaledGroup, ScalingPart
from muster.simulator.scenario.resources import cpu_milli, memory_mib

FABRIC = "fabric"
"""The one fabric of a scenario."""
WORDS = {
    "gpu-attach-chosen": "attach",
    "node-add-chosen": "add",
    "gpu-remove-chosen": "return",
    "node-remove-chosen": "remove",
    "nothing-chosen": "nothing",
}

_CALLED = {"gpu_models": "model"}
"""Fields of a group that a scenario calls otherwise."""


def planned_scaling(part: ScalingPart) -> Scaling:
    """Raises InputError with the field that cannot be."""
    groups: dict[str, GroupSettings] = {}
    for index, wanted in enumerate(part.groups):
        at = f"scaling.groups[{index}]"
        if wanted.name in groups:
            raise InputError(f"{at}.name", f"there is a group {wanted.name} already; names are distinct")
        groups[wanted.name] = _group(wanted, at)
    try:
        config = ScalingConfig(
            ScalingSettings(
                groups=tuple(groups.values()),
                may_not_coexist=part.may_not_coexist,
                gpu_idle_s=part.gpu_idle_s,
                node_unneeded_s=part.node_unneeded_s,
                delay_after_add_s=part.delay_after_add_s,
                visible_s=part.visible_s,
            ),
            frozenset({FABRIC}),
        )
    except ScalingConfigError as error:
        raise InputError("scaling", str(error)) from error
    return Scaling(
        config,
        pool={FABRIC: part.pool},
        behaviour=FabricBehaviour(switch_median_s=part.attach_s, switch_sigma=0.0),
    )


def _group(wanted: ScaledGroup, at: str) -> GroupSettings:
    nodes_max = wanted.nodes if wanted.nodes_max is None else wanted.nodes_max
    if wanted.nodes > nodes_max:
        raise InputError(f"{at}.nodes", f"{wanted.nodes} are more than nodes_max {nodes_max}")
    gpus_max = wanted.gpus_max if wanted.gpus_max is not None else wanted.gpus if wanted.composable else 0
    group = GroupSettings(
        name=wanted.name,
        composable=wanted.composable,
        nodes=wanted.nodes,
        nodes_min=wanted.nodes_min,
        nodes_max=nodes_max,
        gpus=wanted.gpus,
        gpus_min=wanted.gpus_min,
        gpus_max=gpus_max,
        gpu_models=wanted.model,
        warm_gpus=wanted.warm_gpus,
        cpu_milli=cpu_milli(wanted.cpu, at),
        memory_mib=memory_mib(wanted.memory_gib, at),
        fabric=FABRIC if wanted.composable else "",
        idle_w=wanted.idle_w,
        busy_w=wanted.busy_w,
        provision_s=wanted.provision_s,
        deprovision_s=wanted.deprovision_s,
    )
    try:
        check_group(group)
    except ScalingConfigError as error:
        name = error.field.rpartition(".")[2]
        raise InputError(f"{at}.{_CALLED.get(name, name)}", str(error).partition(": ")[2]) from error
    return group


@dataclass(frozen=True, slots=True)
class ChoiceOutcome:
    """One choice. choice: attach, add, return, remove or nothing. jobs: by name. outcome: "", done or failed."""

    choice: str
    case: int
    group: str
    node: str
    count: int
    jobs: tuple[str, ...]
    reason: str
    outcome: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields."""
        return {
            "choice": self.choice,
            "case": self.case,
            "group": self.group,
            "node": self.node,
            "count": self.count,
            "jobs": list(self.jobs),
            "reason": self.reason,
            "outcome": self.outcome,
        }


@dataclass(frozen=True, slots=True)
class ScalingOutcome:
    """choices: in their order. groups: (nodes, GPUs on them) by group. pool: free devices by model."""

    choices: tuple[ChoiceOutcome, ...]
    groups: Mapping[str, tuple[int, int]]
    pool: Mapping[str, int]

    def to_json(self) -> dict[str, JsonValue]:
        """Return {choices, groups: {name: {nodes, gpus}}, pool}."""
        return {
            "choices": [choice.to_json() for choice in self.choices],
            "groups": {name: {"nodes": nodes, "gpus": gpus} for name, (nodes, gpus) in self.groups.items()},
            "pool": dict(self.pool),
        }


@dataclass(slots=True)
class Choices:
    """Choices of the scaler; watches an engine. made: by the choice's name in the log."""

    made: dict[str, ChoiceOutcome] = field(default_factory=dict)

    def watch(self, fact: Fact) -> None:
        """Fold one fact."""
        if fact.kind != "scale":
            return
        match fact.payload:
            case ScaleChosen() as chosen:
                self.made[fact.subject_id] = ChoiceOutcome(
                    WORDS[fact.name], chosen.case, chosen.group, chosen.node, chosen.count, chosen.jobs, chosen.reason
                )
            case NothingChosen() as nothing:
                self.made[fact.id] = ChoiceOutcome(
                    WORDS[fact.name], nothing.case, "", nothing.node, 0, nothing.jobs, nothing.reason
                )
            case ScaleEnded() as ended if fact.subject_id in self.made:
                outcome = "failed" if ended.failed else "done"
                self.made[fact.subject_id] = replace(self.made[fact.subject_id], outcome=outcome)

    def outcome(self, engine: Engine, scaled: Scaled, *, names: Mapping[str, str]) -> ScalingOutcome:
        """Return the final state. names: of jobs by id."""
        described = [node.description for node in engine.agent.nodes.values()]
        groups = {}
        for name in scaled.groups.by_name:
            members = [node for node in described if node.group == name]
            groups[name] = (len(members), sum(len(node.present) for node in members))
        choices = tuple(
            replace(choice, jobs=tuple(names.get(job, job) for job in choice.jobs)) for choice in self.made.values()
        )
        return ScalingOutcome(choices, groups, scaled.pool())


def scaling_differences(expected: ExpectedScaling, outcome: ScalingOutcome) -> Iterator[str]:
    """Yield one sentence for each field that differs from the expectation."""
    if expected.choices is not None:
        found = [choice.choice for choice in outcome.choices]
        wanted = [choice.choice for choice in expected.choices]
        if found != wanted:
            yield f"scaling.choices: expected {wanted!r}, found {found!r}"
        else:
            yield from _choice_differences(expected, outcome)
    for name, group in expected.groups.items():
        nodes, gpus = outcome.groups.get(name, (0, 0))
        for what, one, other in (("nodes", group.nodes, nodes), ("gpus", group.gpus, gpus)):
            if one is not None and one != other:
                yield f"scaling.groups.{name}.{what}: expected {one}, found {other}"
    for model, free in expected.pool.items():
        if outcome.pool.get(model, 0) != free:
            yield f"scaling.pool.{model}: expected {free}, found {outcome.pool.get(model, 0)}"


def _choice_differences(expected: ExpectedScaling, outcome: ScalingOutcome) -> Iterator[str]:
    for index, (wanted, found) in enumerate(zip(expected.choices or (), outcome.choices, strict=True)):
        pairs = {name: getattr(found, name) for name in ("case", "group", "node", "count", "outcome")}
        for name, is_so in pairs.items():
            if getattr(wanted, name) is not None and getattr(wanted, name) != is_so:
                yield f"scaling.choices[{index}].{name}: expected {getattr(wanted, name)!r}, found {is_so!r}"
        if wanted.job is not None and wanted.job not in found.jobs:
            yield f"scaling.choices[{index}].job: expected {wanted.job!r}, found {list(found.jobs)!r}"
