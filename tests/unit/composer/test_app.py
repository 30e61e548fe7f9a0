"""What the settings become."""

from pathlib import Path

from muster.bus.settings import FabricSettings, Settings
from muster.composer.app import config_of, services
from muster.composer.declaration import DECLARATION
from muster.core.settings import ComposerSettings, GroupSettings, ScalingSettings
from muster.fabric.layout import machine_id
from muster.schemas.registry import StreamRole


def made() -> Settings:
    return Settings(
        state_dir=Path("state"),
        credentials_dir=Path("credentials"),
        fabrics=(
            FabricSettings(name="one", limit=16, call_s=60.0, url="http://127.0.0.1:1"),
            FabricSettings(name="layout", driver="nec", limit=16, url="http://127.0.0.1:1"),
        ),
        scaling=ScalingSettings(
            groups=(
                GroupSettings(name="fixed", gpus=8),
                GroupSettings(name="cdi", composable=True, fabric="one", gpu_models=("A100",), gpus_max=4),
            ),
            may_not_coexist=(("A100", "L4"),),
            withhold_s=12.0,
        ),
        composer=ComposerSettings(attempts_max=7, orphan_s=33.0),
    )


def test_only_composable_groups_count() -> None:
    assert [(group.name, group.fabric, group.gpus_max) for group in config_of(made()).groups] == [("cdi", "one", 4)]


def test_a_fabric_that_takes_one_call_at_a_time_gets_one_at_a_time() -> None:
    assert {fabric.name: fabric.limit for fabric in config_of(made()).fabrics} == {"one": 16, "layout": 1}


def test_bounds_are_those_that_were_set() -> None:
    bounds = config_of(made()).bounds
    assert (bounds.attempts_max, bounds.orphan_s, bounds.scaler_withhold_s) == (7, 33.0, 12.0)


def test_what_makes_the_calls_is_port_and_sink() -> None:
    (service,) = services(made())
    assert service.sink is not None  # type: ignore[union-attr]
    assert service.core().state.calls is service.sink()  # type: ignore[union-attr]


def test_it_folds_the_clusters_log_and_may_ask_to_withhold() -> None:
    assert DECLARATION.folds == (StreamRole.LOG,)
    assert DECLARATION.withholds
    assert {query.name for query in DECLARATION.queries} == {"devices", "requests", "compose-check", "detach-check"}


def test_the_machines_of_a_group_are_known_by_the_layout() -> None:
    scaling = ScalingSettings(groups=(GroupSettings(name="cdi", composable=True, fabric="one", nodes=1, nodes_max=2),))
    (group,) = config_of(made().model_copy(update={"scaling": scaling})).groups
    assert group.machines == tuple((machine_id(node), node) for node in ("cdi-0001", "cdi-0002"))
