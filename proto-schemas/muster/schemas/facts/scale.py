"""Facts of scaling: which device or node is added or removed, and why. By the scaler; autoscaler signals by the
agent."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Label, Payload, Text, Wire

ALTERNATIVES_MAX = 16
PARTS_MAX = 4_096


class ScalePart(Wire):
    """Devices for one node: `count` of `device_model` from the pool of `fabric`."""

    node: Label
    count: int
    fabric: str = ""
    device_model: str = ""


class Alternative(Wire):
    """One simulated alternative. what: as text; fits: whether it would help; chosen: whether it was chosen.

    gpus, nodes: number added or removed. watts: change against now. ready_s: time until it helps.
    """

    what: Text
    fits: bool
    chosen: bool = False
    gpus: int = 0
    nodes: int = 0
    watts: float = 0.0
    ready_s: float = 0.0
    detail: Text = ""


class ScalePlace(Wire):
    """Where the first of a decision's jobs is to be placed: `replicas` of one of its groups on this node."""

    node: Label
    group: int = 0
    replicas: int = 1


class ScaleChosen(Payload):
    """`gpu-attach-chosen`, `node-add-chosen`, `gpu-remove-chosen`, `node-remove-chosen`: one of the four cases.

    node: the node to add to or to remove; group: node group; device_model and count: for GPUs. reason: with
    numbers. parts: of an attachment, all nodes and models; carried out as a whole or not at all. devices: uuids
    that return to the pool. request_id: of the request to the scheduler to drain the node. moves: devices that move
    from one node to another: returned here, and attached by `parts` of the same decision. `parts` of an added node:
    devices reserved for it in the pool, attached by a later decision. places: reserved for the first of `jobs`
    until it is placed.
    """

    case: int
    group: str = ""
    node: str = ""
    device_model: str = ""
    count: int = 1
    jobs: tuple[Label, ...] = ()
    reason: Text = ""
    parts: Annotated[tuple[ScalePart, ...], Field(max_length=PARTS_MAX)] = ()
    devices: Annotated[tuple[Label, ...], Field(max_length=PARTS_MAX)] = ()
    moves: bool = False
    request_id: str = ""
    alternatives: Annotated[tuple[Alternative, ...], Field(max_length=ALTERNATIVES_MAX)] = ()
    watts: float = 0.0
    ready_s: float = 0.0
    places: Annotated[tuple[ScalePlace, ...], Field(max_length=PARTS_MAX)] = ()


class NothingChosen(Payload):
    """`nothing-chosen`: neither a device nor a node would help, or none is available. subject: the job, or the node.

    code: the obstacle, in a fixed vocabulary; emitted again only when that changed.
    """

    case: int
    code: str = ""
    jobs: tuple[Label, ...] = ()
    node: str = ""
    reason: Text = ""
    alternatives: Annotated[tuple[Alternative, ...], Field(max_length=ALTERNATIVES_MAX)] = ()


class ScaleEnded(Payload):
    """`ended`: a decision was carried out, or failed. took_s: time since the decision."""

    failed: bool = False
    reason: Text = ""
    took_s: float = 0.0


class AutoscalerSignal(Payload):
    """The signal of an autoscaler outside Muster, as the agent reads it (kind `autoscaler`, subject: group or node).

    `node-wanted`: it requests a node for these jobs. `node-refused`: its request failed. `node-unneeded`: it would
    remove this node. `removal-blocked`: it cannot remove it. `settled`: none of these applies any more.
    """

    group: str = ""
    node: str = ""
    jobs: tuple[Label, ...] = ()
    reason: Text = ""


class ProvisionFailed(Payload):
    """`provision-failed` of a node: it could not be added or removed."""

    scale: Label
    group: str = ""
    reason: Text = ""


class ScaleState(Payload):
    """`state-recorded` of a decision. name: which of the four cases it is. trace: of the job behind it.

    failure: why its node could not be provisioned, reported by failure_fact; "" without a failure. ended, ended_at:
    of a decision that is over and still shown; its parts and places are left out.
    """

    name: str
    chosen: ScaleChosen
    chosen_at: InstantNs = 0
    fact: str = ""
    withheld: bool = False
    trace: str = ""
    failure: Text = ""
    failure_fact: str = ""
    ended: ScaleEnded | None = None
    ended_at: InstantNs = 0


class IdleSince(Wire):
    """Since when a device or node is unused; `at` 0: it is in use."""

    name: Label
    at: InstantNs


class Refused(Wire):
    """The newest `nothing-chosen` of a job or node. reason: of the newest ones only, which are shown."""

    name: Label
    case: int
    code: str = ""
    at: InstantNs = 0
    reason: Text = ""


class HeardSignal(Wire):
    """The newest unsettled signal of an outside autoscaler about a group or node. at: since when."""

    subject: Label
    name: Label
    at: InstantNs = 0
    fact: str = ""
    signal: AutoscalerSignal


class ScalerState(Payload):
    """`state-recorded` of the scaler itself (kind `scaler`): the input of its next decisions beside the ledger.

    In several parts, `scaler`, `scaler-2`, ...: each has some of the entries, and all fields that are not lists.
    chosen: number of decisions ever made. idle_devices, idle_nodes: since when. low_nodes: since when less than
    half of the node is used. moved_at: when a device or node was last added to or removed from a node or group, by
    name. failed_at: when a decision last failed, by group or fabric. served_at: jobs for which a decision was
    carried out, and when. refused: the newest jobs and nodes without a decision. supplied_at: when supply last
    grew; freed_at: when a place last became free.
    """

    chosen: int = 0
    idle_devices: tuple[IdleSince, ...] = ()
    idle_nodes: tuple[IdleSince, ...] = ()
    low_nodes: tuple[IdleSince, ...] = ()
    moved_at: tuple[IdleSince, ...] = ()
    failed_at: tuple[IdleSince, ...] = ()
    signals: tuple[HeardSignal, ...] = ()
    served_at: tuple[IdleSince, ...] = ()
    refused: tuple[Refused, ...] = ()
    supplied_at: InstantNs = 0
    freed_at: InstantNs = 0
