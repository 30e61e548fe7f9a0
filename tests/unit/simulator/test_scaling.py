"""Groups and fabrics of a simulation agree on every node, machine and device."""

from muster.core.settings import FabricBehaviour, GroupSettings, ScalingSettings
from muster.scaler.core.groups import ScalingConfig
from muster.simulator.scaling import Scaling

FLEX = GroupSettings(
    name="flex", composable=True, nodes=1, nodes_max=4, gpus=2, gpus_max=8, gpu_models=("A100",), fabric="blue"
)
PLAIN = GroupSettings(name="plain", nodes=1, nodes_max=2, gpus=4, gpu_models=("H100",))


def scaling() -> Scaling:
    config = ScalingConfig(ScalingSettings(groups=(FLEX, PLAIN)), frozenset({"blue"}))
    return Scaling(config, pool={"blue": {"A100": 3}}, behaviour=FabricBehaviour(seed=7))


def test_what_the_fabric_has_on_a_machine_is_what_its_node_shows() -> None:
    nodes, (blue,) = scaling().groups().first_nodes(), scaling().models().values()
    assert list(nodes) == ["flex-0001", "plain-0001"]
    flex = nodes["flex-0001"]
    standing = blue.inventory().machines[flex.machine]
    assert [device.device_uuid for device in standing] == list(flex.present.values())
    assert nodes["plain-0001"].machine == ""


def test_the_fabric_reaches_every_machine_that_its_groups_may_have_and_holds_the_pool() -> None:
    (blue,) = scaling().models().values()
    assert len(blue.machines) == 4
    assert blue.inventory().free == {("gpu", "A100"): 3}


def test_each_run_begins_with_fabrics_of_its_own() -> None:
    given = scaling()
    assert given.models()["blue"] is not given.models()["blue"]
