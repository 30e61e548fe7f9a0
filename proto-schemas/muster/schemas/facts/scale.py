"""Facts of scaling: which device or node moves, and why. Written by the scaler."""

from muster.schemas.base import Label, Payload, Text


class ScaleChosen(Payload):
    """`gpu-attach-chosen`, `node-add-chosen`, `gpu-remove-chosen`, `node-remove-chosen`: one of the four cases.

    node: target or victim; group: node group; device_model and count: for GPUs. reason: with numbers.
    """

    case: int
    group: str = ""
    node: str = ""
    device_model: str = ""
    count: int = 1
    jobs: tuple[Label, ...] = ()
    reason: Text = ""
