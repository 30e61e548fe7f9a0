"""Parts of GPUs: which one a job gets, and what a node says of its own."""

import pytest

from muster.agent.core.kubernetes.describing import Devices, NodePolicy, described
from muster.agent.core.kubernetes.resources import NO_PARTS, PARTS_MILLI, Parts, parts_of, profile_for
from muster.agent.core.kubernetes.views import NodeView, Requests
from muster.placement import shapes
from muster.schemas.facts.node import NodeJoined

MIG = {"nvidia.com/mig-1g.10gb": 143, "nvidia.com/mig-3g.40gb": 429}
SLICES = {"nvidia.com/gpu.shared": 125}


def node(policy: dict[str, int], *, resource: str = "nvidia.com/gpu", **extended: int) -> NodeJoined:
    offer = Requests(64_000, 64_000, tuple(sorted((f"nvidia.com/{name}", count) for name, count in extended.items())))
    view = NodeView("n", "uid", offer, 64_000, labels=(("nvidia.com/gpu.product", "H100"),), ready=True)
    return described(view, policy=NodePolicy(resource=resource, sharing=policy), devices=Devices())


def test_a_job_gets_the_smallest_part_that_is_large_enough() -> None:
    assert profile_for(143, MIG) == "nvidia.com/mig-1g.10gb"
    assert profile_for(144, MIG) == "nvidia.com/mig-3g.40gb"
    assert profile_for(500, MIG) is None


@pytest.mark.parametrize(
    ("have", "parts"),
    [
        ({"nvidia.com/mig-1g.10gb": 56}, Parts(places=8, milli=143)),
        ({"nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-3g.40gb": 14}, Parts(places=7, milli=429)),
        ({"nvidia.com/mig-1g.10gb": 6}, Parts(places=0, milli=143)),
        ({}, NO_PARTS),
    ],
)
def test_a_node_gives_parts_of_one_size(have: dict[str, int], parts: Parts) -> None:
    assert parts_of(have, MIG) == parts


def test_a_node_that_is_all_parts_gives_no_gpu_whole() -> None:
    said = node(SLICES, **{"gpu.shared": 64})
    assert (len(said.gpu_uuids), said.share_milli, said.parts_only, said.gpu_model) == (8, (125,), True, "H100")


def test_a_node_with_whole_gpus_gives_these() -> None:
    said = node(SLICES, gpu=4, **{"gpu.shared": 32})
    assert (len(said.gpu_uuids), said.share_milli, said.parts_only) == (4, (), False)


def test_slices_that_keep_the_name_of_whole_gpus_are_parts() -> None:
    said = node({"nvidia.com/gpu": 100}, gpu=80)
    assert (len(said.gpu_uuids), said.share_milli, said.parts_only) == (8, (100,), True)


def test_the_engine_counts_shared_gpus_as_the_agent_does() -> None:
    assert shapes.PARTS_MILLI == PARTS_MILLI
