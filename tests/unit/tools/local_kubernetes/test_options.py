"""What a control plane is made of becomes command lines; what no plane can be is refused with the field's name."""

from pathlib import Path

import pytest

from muster_tools.local_kubernetes import commands
from muster_tools.local_kubernetes.access import token_rows
from muster_tools.local_kubernetes.commands import Layout, Ports
from muster_tools.local_kubernetes.errors import OptionError
from muster_tools.local_kubernetes.options import NODE_LIFECYCLE, PlaneOptions, Profile, Scheduler, User
from muster_tools.local_kubernetes.pki import Pki
from muster_tools.local_kubernetes.plane import configuration
from muster_tools.local_kubernetes.programs import ALL, Programs


def layout(options: PlaneOptions) -> Layout:
    return Layout(
        directory=Path("/plane"),
        options=options,
        programs=Programs({name: Path("/programs") / name for name in ALL}),
        ports=Ports(etcd=1, etcd_peer=2, apiservers=(3, 4, 5), controllers=6, kwok=7, schedulers={}),
        pki=Pki(*(Path("/plane/pki") / name for name in ("ca", "crt", "key", "sa"))),
        tokens=Path("/plane/tokens.csv"),
    )


def test_every_api_server_has_a_port_of_its_own_and_the_same_store() -> None:
    where = layout(PlaneOptions(apiservers=3))

    argvs = [commands.api_server(where, index).argv for index in range(3)]

    assert [word for argv in argvs for word in argv if word.startswith("--secure-port")] == [
        "--secure-port=3", "--secure-port=4", "--secure-port=5",
    ]  # fmt: skip
    assert all("--etcd-servers=http://127.0.0.1:1" in argv for argv in argvs)


def test_versions_gates_limits_and_more_reach_the_api_server() -> None:
    options = PlaneOptions(
        emulated_version="1.32",
        feature_gates={"WatchList": False},
        runtime_config={"resource.k8s.io/v1beta1": True},
        max_requests_inflight=40,
        max_mutating_requests_inflight=20,
        apiserver_flags=("--goaway-chance=0.01",),
        apiserver_env={"GOGC": "50"},
    )

    command = commands.api_server(layout(options), 0)

    assert {
        "--emulated-version=1.32",
        "--feature-gates=WatchList=false",
        "--runtime-config=resource.k8s.io/v1beta1=true",
        "--max-requests-inflight=40",
        "--max-mutating-requests-inflight=20",
        "--goaway-chance=0.01",
    } <= set(command.argv)
    assert command.environment == {"GOGC": "50"}


@pytest.mark.parametrize("controllers", [(), (NODE_LIFECYCLE,)])
def test_new_nodes_are_tainted_only_where_somebody_takes_the_taint_off(controllers: tuple[str, ...]) -> None:
    argv = commands.api_server(layout(PlaneOptions(controllers=controllers)), 0).argv

    refused = next(word for word in argv if word.startswith("--disable-admission-plugins"))
    assert ("TaintNodesByCondition" in refused) == (not controllers)


@pytest.mark.parametrize("count", [0, 4])
def test_only_so_many_api_servers_can_be_had(count: int) -> None:
    with pytest.raises(OptionError, match="apiservers: "):
        PlaneOptions(apiservers=count)


def test_a_user_cannot_be_named_twice() -> None:
    with pytest.raises(OptionError, match="users: "):
        PlaneOptions(users=(("a", ()), ("a", ())))


def test_two_schedulers_need_two_names() -> None:
    with pytest.raises(OptionError, match="more_schedulers: "):
        PlaneOptions(scheduler=True, more_schedulers=(Scheduler(),))


def test_schedulers_of_one_user_share_its_token() -> None:
    options = PlaneOptions(scheduler=True, more_schedulers=(Scheduler(name="second"),))

    assert [user.name for user in options.everybody] == ["admin", "system:kube-scheduler"]


def test_tokens_carry_groups() -> None:
    rows = token_rows([User("a", ("x", "y"))], lambda name: f"token-of-{name}")

    assert rows == 'token-of-a,a,a,"x,y"\n'


def test_bin_packing_scores_the_fullest_node_by_its_gpus() -> None:
    found = configuration(Profile.BIN_PACKING, scheduler_name="packs", kubeconfig=Path("/k"))

    assert "'type': 'MostAllocated', 'resources': [{'name': 'nvidia.com/gpu', 'weight': 1}]" in str(found)
    assert "MostAllocated" not in str(configuration(Profile.DEFAULT, scheduler_name="s", kubeconfig=Path("/k")))
