"""What docs/kubernetes.md says people can type is typed here, at a real API server whose nodes are KWOK's.

The pods of Muster only seem to run there. What is in them runs beside, on loopback: each part with its own Secret,
agent and guard as the users that their pods' accounts are, with the rights that `kubectl apply` gave these and no more.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from documents.blocks import RUN, Block, all_blocks
from documents.scripts import scripted
from documents.stage import Stage, made
from documents.tables import stand_of
from kit.kube.audit import REFUSED, asked, audit_flags
from kit.kube.manifests import K8S, kubectl
from kit.kube.planes import open_plane
from kit.kube.pods_on_loopback import free_ports, running
from muster.kube.permissions import permissions_of
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions
from muster_tools.local_kubernetes.plane import STAGES, ControlPlane

PAGE = "docs/kubernetes.md"
ACCOUNTS = {service: f"system:serviceaccount:muster:muster-{service}" for service in ("agent", "guard")}
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:muster")
OPTIONS = PlaneOptions(
    scheduler=True,
    controllers=(
        *CONTROLLERS,
        "deployment-controller",
        "persistentvolume-binder-controller",
        "persistentvolumeclaim-protection-controller",
        "replicaset-controller",
        "statefulset-controller",
    ),
    kwok_stages=(STAGES, Path(__file__).with_name("kwok-ends.yaml")),
    users=tuple((account, GROUPS) for account in ACCOUNTS.values()),
)
NODES = 3
DISK = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /nowhere}
"""
CREATED = 201
EVERYBODY = {("authorization.k8s.io", "selfsubjectaccessreviews", "create")}
"""What every user may do."""
TALKS = "port-forward"
"""From the block with this on, people talk to what runs in the pods."""

pytestmark = pytest.mark.timeout(600)


def blocks() -> list[Block]:
    return [block for block in all_blocks() if block.page == PAGE and block.language in RUN]


@asynccontextmanager
async def cluster(audit: Path) -> AsyncIterator[ControlPlane]:
    """Nodes with GPUs, and a disk: what a reader's cluster has. What agent and guard ask is written down."""
    async with open_plane(replace(OPTIONS, apiserver_flags=audit_flags(audit, ACCOUNTS.values()))) as plane:
        async with plane.client() as client:
            await make_fleet(client, NODES)
        kubectl(plane, "apply", "-f", "-", given=DISK)
        yield plane


async def staged(plane: ControlPlane, directory: Path, ports: dict[str, int]) -> Stage:
    """The reader's clone and shell. The container that makes the streams ends at once, as the others run at once."""
    stage = made(directory)
    (stage.work / "k8s").unlink()
    shutil.copytree(K8S, stage.work / "k8s", ignore=shutil.ignore_patterns("secrets"))
    job = stage.work / "k8s" / "base" / "bus.yaml"
    told = job.read_text()
    ending = told.replace(
        "    metadata:\n      labels:", '    metadata:\n      annotations: {muster.dev/run-s: "0"}\n      labels:'
    )
    assert ending != told
    job.write_text(ending)
    await stage.run(
        f"export KUBECONFIG={plane.kubeconfig()} PATH={plane.program('kubectl').parent}:$PATH "
        f"MUSTER_INIT_HTTP_URL=http://127.0.0.1:{ports['http']} "
        f"MUSTER_INIT_NATS_URL=nats://127.0.0.1:{ports['client']} "
        f"MUSTER_INIT_WEBSOCKET_URL=ws://127.0.0.1:{ports['websocket']}"
    )
    return stage


def assert_rights_were_enough(audit: Path) -> None:
    """Agent and guard were refused nothing, and used nothing that is not in the table."""
    found = asked(audit)
    for service, account in ACCOUNTS.items():
        own = [one for one in found if one.user == account]
        assert [one for one in own if one.code == REFUSED] == []
        used = {(one.group, one.resource, one.verb) for one in own if one.resource} - EVERYBODY
        assert used <= {(row.group, row.resource, verb) for row in permissions_of(service) for verb in row.verbs}
        assert used, f"the {service} asked nothing"
    bound = [one for one in found if one.resource == "pods/binding" and one.code == CREATED]
    assert {one.user for one in bound} == {ACCOUNTS["agent"]}, "the first job's pod"


async def test_commands_of_the_installation(tmp_path: Path) -> None:
    ports, audit = free_ports(), tmp_path / "audit"
    async with cluster(audit) as plane, AsyncExitStack() as inside:
        stage = await staged(plane, tmp_path / "stage", ports)
        for block in blocks():
            if TALKS in block.text:
                secrets = stage.work / "k8s" / "overlays" / "development" / "secrets"
                kubeconfigs = {service: plane.kubeconfig(account) for service, account in ACCOUNTS.items()}
                inside.enter_context(running(tmp_path / "pods", secrets, ports, kubeconfigs=kubeconfigs))
            script = "\n".join(scripted(block, stand_of(PAGE).instead))
            if script:
                try:
                    await stage.run(script)
                except AssertionError as error:
                    raise AssertionError(f"{PAGE}:{block.line}: {error}") from None
        assert_rights_were_enough(audit)


def test_the_readme_says_what_the_installation_says() -> None:
    """Its commands are those of the page, in their order, as from a clone with a virtual environment."""
    there = [one for block in blocks() for one in block.parts()]
    said = [
        one.replace(".venv/bin/", "")
        for block in all_blocks()
        if block.page == "README.md" and "kubectl" in block.text
        for one in block.parts()
    ]
    assert len(said) > 5
    left = iter(there)
    assert [one for one in said if one not in left] == []
