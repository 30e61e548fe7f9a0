"""Node groups: what they show of a node, which models stand together, and settings that contradict themselves."""

import pytest

from muster.bus.settings import FabricSettings
from muster.core.settings import GroupSettings, ModelSettings, ScalingSettings
from muster.placement import NodeShape
from muster.scaler.config import config_of
from muster.scaler.core.groups import (
    SPEC_ACTUAL,
    SPEC_FIXED,
    SPEC_SET,
    ScalingConfig,
    ScalingConfigError,
    check_group,
    free_node_names,
    shown_spec,
    spec_text,
)

CDI = GroupSettings(
    name="cdi", composable=True, nodes_max=4, gpus_max=8, gpu_models=("A100", "H100"), fabric="rack", memory_mib=1_000
)
PLAIN = GroupSettings(name="plain", nodes_max=2, gpus=4, gpu_models=("H100",), cpu_milli=32_000, memory_mib=2_000)


def test_a_composable_group_shows_the_most_gpus_that_a_node_can_have_whatever_its_nodes_have() -> None:
    actual = NodeShape("cdi-0001", 64_000, 1_000, 1, "H100")
    shown = shown_spec(CDI, actual, name="cdi-0002")
    assert shown == NodeShape("cdi-0002", 64_000, 1_000, 8, "A100")
    assert shown_spec(CDI, model="H100").gpu_model == "H100"
    assert spec_text(CDI, actual) == SPEC_FIXED


def test_an_ordinary_group_shows_an_actual_node_and_the_settings_while_it_has_none() -> None:
    actual = NodeShape("plain-0001", 31_000, 1_900, 4, "H100", domains=(("rack", "r1"),))
    assert shown_spec(PLAIN, actual, name="plain-0002") == NodeShape("plain-0002", 31_000, 1_900, 4, "H100")
    assert shown_spec(PLAIN, name="plain-0001") == NodeShape("plain-0001", 32_000, 2_000, 4, "H100")
    assert (spec_text(PLAIN, actual), spec_text(PLAIN)) == (SPEC_ACTUAL, SPEC_SET)


def test_new_nodes_take_the_lowest_names_that_are_free_within_the_groups_limit() -> None:
    assert free_node_names(CDI, {"cdi-0001", "cdi-0003"}, 1) == ["cdi-0002"]
    assert free_node_names(CDI, {"cdi-0001", "cdi-0003"}, 5) == ["cdi-0002", "cdi-0004"]


def test_a_node_takes_gpus_of_one_model_of_its_group_at_a_time() -> None:
    config = ScalingConfig(ScalingSettings(groups=(CDI,)), frozenset({"rack"}))
    assert config.takes(CDI, "H100")
    assert config.takes(CDI, "H100", present=["H100", ""])
    assert not config.takes(CDI, "H100", present=["A100"])
    assert not config.takes(CDI, "L40")


def test_models_that_a_rule_names_do_not_stand_on_one_node_whatever_their_type() -> None:
    settings = ScalingSettings(groups=(CDI,), may_not_coexist=(("H100", "CXL-512"),))
    config = ScalingConfig(settings, frozenset({"rack"}))
    assert not config.takes(CDI, "H100", present=["CXL-512"])
    assert config.takes(CDI, "A100", present=["CXL-512"])
    assert not config.may_stand_together(["CXL-512", "H100"])


def test_the_settings_become_the_config() -> None:
    scaling = ScalingSettings(
        mode="cluster-autoscaler",
        groups=(
            GroupSettings(
                name="cdi", composable=True, nodes=1, nodes_max=2, gpus_max=4, gpu_models=("A100",), fabric="rack"
            ),
        ),
        models={"A100": ModelSettings(idle_w=50.0, busy_w=400.0, attach_s=20.0, detach_s=10.0)},
        may_not_coexist=(("A100", "H100"),),
        gpu_idle_s=5.0,
    )
    config = config_of(scaling, [FabricSettings(name="rack")])
    assert config.settings == scaling
    assert config.groups["cdi"].gpus_max == 4
    assert config.model("A100").attach_s == 20.0
    assert config.model("unheard") == ModelSettings()
    assert [group.name for group in config.composable_of("rack")] == ["cdi"]


@pytest.mark.parametrize(
    ("group", "change", "field"),
    [
        (CDI, {"gpus_min": 9}, "gpus_min"),
        (CDI, {"gpus": 9}, "gpus"),
        (CDI, {"gpus_max": 0}, "gpus_max"),
        (CDI, {"fabric": ""}, "fabric"),
        (CDI, {"gpu_models": ()}, "gpu_models"),
        (CDI, {"gpu_models": ("A100", "A100")}, "gpu_models"),
        (CDI, {"warm_gpus": 33}, "warm_gpus"),
        (CDI, {"nodes_min": 5}, "nodes_min"),
        (PLAIN, {"fabric": "rack"}, "fabric"),
        (PLAIN, {"gpus_max": 8}, "gpus_max"),
        (PLAIN, {"gpu_models": ()}, "gpu_models"),
        (PLAIN, {"gpu_models": ("A100", "H100")}, "gpu_models"),
    ],
)
def test_a_group_that_contradicts_itself_is_refused_by_the_name_of_its_field(
    group: GroupSettings, change: dict[str, object], field: str
) -> None:
    with pytest.raises(ScalingConfigError) as refused:
        check_group(group.model_copy(update=change))
    assert refused.value.field == f"scaling.groups[{group.name}].{field}"
    assert str(refused.value).startswith(refused.value.field)


def test_groups_name_fabrics_that_there_are_and_names_that_are_their_own() -> None:
    group = GroupSettings(name="cdi", composable=True, nodes_max=1, gpus_max=1, gpu_models=("A100",), fabric="rack")
    with pytest.raises(ScalingConfigError, match="there is no fabric rack"):
        config_of(ScalingSettings(groups=(group,)))
    with pytest.raises(ScalingConfigError, match="two groups are named cdi"):
        config_of(ScalingSettings(groups=(group, group)), [FabricSettings(name="rack")])
    more = group.model_copy(update={"nodes": 2})
    with pytest.raises(ScalingConfigError, match="2 at the start are above nodes_max 1"):
        config_of(ScalingSettings(groups=(more,)), [FabricSettings(name="rack")])


def test_a_rule_of_coexistence_names_two_models() -> None:
    with pytest.raises(ScalingConfigError, match="H100 alone excludes nothing"):
        ScalingConfig(ScalingSettings(may_not_coexist=(("H100", "H100"),)))
