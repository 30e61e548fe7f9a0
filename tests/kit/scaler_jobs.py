"""Jobs that keep a scaled cluster busy."""

from kit.scaler import FABRIC, MODEL, VirtualScaler
from muster.schemas.facts.scale import ScalePart


def part(node: str, count: int = 1, *, model: str = MODEL) -> ScalePart:
    return ScalePart(node=node, count=count, fabric=FABRIC, device_model=model)


def busy(world: VirtualScaler, index: int = 1, *, gpus: int = 1, group: str = "comp", **values: object) -> str:
    """A node all of whose GPUs are held."""
    node = world.join(group, index, gpus=gpus, **values)
    world.fill(f"busy-{node}", node, tuple(range(gpus)), cpu_milli=1_000, memory_mib=1_024)
    return node
