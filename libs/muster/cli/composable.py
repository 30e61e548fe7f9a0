"""The composable group that `muster up` gives a stack: nodes that take GPUs from the pool of a simulated fabric."""

GROUP, FABRIC = "flex", "fabric"
MODEL = "NVIDIA-A100-PCIE-40GB"
"""As in the sample request of the field's operator."""
NODES, POOL = 2, 8
GPUS_MAX = 8
SPARE_NODES = 2
"""Nodes that scaling may add to those that are there at the start."""

Json = dict[str, object]


def composable_settings(*, nodes: int, pool: int) -> Json:
    """Sections of `Settings`. nodes: there from the start, without GPUs, and kept; 0: nothing scales and no fabric.

    pool: GPUs in the pool.
    """
    if not nodes:
        return {"scaling": {"groups": []}, "fabrics": []}
    group: Json = {
        "name": GROUP,
        "composable": True,
        "nodes": nodes,
        "nodes_min": nodes,
        "nodes_max": nodes + SPARE_NODES,
        "gpus_max": GPUS_MAX,
        "gpu_models": [MODEL],
        "fabric": FABRIC,
    }
    return {"scaling": {"groups": [group]}, "fabrics": [{"name": FABRIC, "simulated": {"pool": {MODEL: pool}}}]}
