"""The simulated cluster's nodes, and how the service is wired."""

import re
from pathlib import Path

import pytest

from muster.agent.app import behaviour_of, read_fleet, services
from muster.agent.core.core import AgentCore
from muster.agent.declaration import DECLARATION
from muster.bus.service import CoreService
from muster.bus.settings import FleetSettings, Settings
from muster.core.settings import SimulationSettings
from muster.openb.trace import NODE_FILE, OpenbFormatError

DATA = Path(__file__).parents[4] / "shared" / "data" / "openb"


def test_a_regular_fleet_has_racks_and_blocks() -> None:
    fleet = read_fleet(FleetSettings(nodes=20, rack_size=4, racks_per_block=2))
    assert list(fleet)[:2] == ["gpu-0001", "gpu-0002"]
    assert fleet["gpu-0001"].domains == (("block", "b0"), ("rack", "r0"))
    assert fleet["gpu-0009"].domains == (("block", "b1"), ("rack", "r2"))
    assert fleet["gpu-0020"].domains == (("block", "b2"), ("rack", "r4"))


@pytest.mark.parametrize(
    ("gpus", "inside"),
    [
        (1, ()),
        (2, (("pair", (0, 0)),)),
        (4, (("socket", (0, 0, 1, 1)), ("pair", (0, 0, 1, 1)))),
        (6, (("socket", (0, 0, 0, 1, 1, 1)), ("pair", (0, 0, 1, 2, 2, 3)))),
        (8, (("socket", (0, 0, 0, 0, 1, 1, 1, 1)), ("pair", (0, 0, 1, 1, 2, 2, 3, 3)))),
    ],
)
def test_a_regular_node_has_two_sockets_and_pairs_within_them(
    gpus: int, inside: tuple[tuple[str, tuple[int, ...]], ...]
) -> None:
    (node,) = read_fleet(FleetSettings(nodes=1, gpus_per_node=gpus)).values()
    assert node.device_domains == inside


def test_nvlink_domains_lie_within_racks_if_the_settings_name_them() -> None:
    fleet = read_fleet(FleetSettings(nodes=8, rack_size=4, nvlink_size=2))
    assert [dict(node.domains)["nvlink"] for node in fleet.values()] == ["v0", "v0", "v1", "v1", "v2", "v2", "v3", "v3"]
    assert fleet["gpu-0001"].domains[-1][0] == "nvlink", "the narrowest stands last"
    with pytest.raises(ValueError, match="does not divide rack_size"):
        FleetSettings(rack_size=4, nvlink_size=3)


def test_every_device_of_the_fleet_has_its_own_id_and_keeps_it() -> None:
    fleet = read_fleet(FleetSettings(nodes=200))
    uuids = [uuid for node in fleet.values() for uuid in node.gpu_uuids]
    assert len(set(uuids)) == 1600
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in uuids)
    assert read_fleet(FleetSettings(nodes=200)) == fleet


def test_nodes_without_gpus_have_no_model() -> None:
    (node,) = read_fleet(FleetSettings(nodes=1, gpus_per_node=0)).values()
    assert (node.gpu_model, node.gpu_uuids) == ("", ())


def test_a_node_list_is_the_fleet(tmp_path: Path) -> None:
    table = tmp_path / "nodes.csv"
    table.write_text("sn,cpu_milli,memory_mib,gpu,model\nn-1,64000,1024,2,T4\n")
    (node,) = read_fleet(FleetSettings(csv=table)).values()
    assert (node.cpu_milli, node.memory_mib, node.gpu_model, len(node.gpu_uuids)) == (64_000, 1024, "T4", 2)
    assert (node.domains, node.device_domains) == ((), ()), "the list says nothing of what is near"


def test_a_broken_node_list_is_named(tmp_path: Path) -> None:
    table = tmp_path / "nodes.csv"
    table.write_text("sn,cpu_milli,memory_mib,gpu,model\nn-1,x,1024,2,T4\n")
    with pytest.raises(OpenbFormatError, match=r"nodes\.csv, line 2, column 'cpu_milli'"):
        read_fleet(FleetSettings(csv=table))


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the openb trace is not at {DATA}")
def test_the_published_nodes_are_the_fleet() -> None:
    fleet = read_fleet(FleetSettings(csv=DATA / NODE_FILE))
    assert (len(fleet), sum(len(node.gpu_uuids) for node in fleet.values())) == (1213, 6212)


def test_the_service_makes_a_new_core_each_time(tmp_path: Path) -> None:
    (service,) = services(Settings(state_dir=tmp_path, credentials_dir=tmp_path))
    assert isinstance(service, CoreService)
    assert service.declaration is DECLARATION
    first, second = service.core(), service.core()
    assert isinstance(first, AgentCore)
    assert first is not second
    assert service.sink is not None


def test_settings_reach_the_simulation() -> None:
    behaviour = behaviour_of(SimulationSettings(seed=9, run_s=3.0, node_failures_per_day=2.0))
    assert (behaviour.seed, behaviour.run_s, behaviour.node_failures_per_day) == (9, 3.0, 2.0)
