"""Facts of scaling: which device or node moves, and why. By the scaler; what an autoscaler says, by the agent."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Label, Payload, Text, Wire

ALTERNATIVES_MAX = 16
PARTS_MAX = 4_096


class ScalePart(Wire):
    """Devices that one node gets: `count` of `device_model` from the pool of `fabric`."""

    node: Label
    count: int
    fabric: str = ""
    device_model: str = ""


class Alternative(Wire):
    """One thing that was simulated. what: in words; fits: whether it would help; chosen: whether it was taken.

    gpus, nodes: how many would move. watts: more (or, when scaling down, less) than now. ready_s: until it helps.
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
    """Where the first of a choice's jobs is to go: so many replicas of one of its groups on this node."""

    node: Label
    group: int = 0
    replicas: int = 1


class ScaleChosen(Payload):
    """`gpu-attach-chosen`, `node-add-chosen`, `gpu-remove-chosen`, `node-remove-chosen`: one of the four cases.

    node: target or victim; group: node group; device_model and count: for GPUs. reason: with numbers.
    parts: of an attachment, all nodes and models; it is carried out whole or not at all. devices: uuids that go back to
    the pool. request_id: under which the scheduler is asked to withhold the node that goes. moves: devices that go from
    one node to another: returned here, to be attached by `parts` of the same decision. `parts` of an added node: what
    is kept for it in the pool, to be attached by a later choice. places: what is kept for the first of `jobs` until it
    is placed.
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
    """`nothing-chosen`: neither a device nor a node would help, or none may be had. subject: the job, or the node.

    code: what stands in the way, in a fixed vocabulary; said again only when that changed.
    """

    case: int
    code: str = ""
    jobs: tuple[Label, ...] = ()
    node: str = ""
    reason: Text = ""
    alternatives: Annotated[tuple[Alternative, ...], Field(max_length=ALTERNATIVES_MAX)] = ()


class ScaleEnded(Payload):
    """`ended`: a choice was carried out, or could not be. took_s: since it was chosen."""

    failed: bool = False
    reason: Text = ""
    took_s: float = 0.0


class AutoscalerSignal(Payload):
    """What an autoscaler outside Muster wants, as the agent sees it (kind `autoscaler`, subject: group or node).

    `node-wanted`: it wants a node for these jobs. `node-refused`: it wants one and cannot. `node-unneeded`: it would
    remove this node. `removal-blocked`: it would and cannot. `settled`: none of that any more.
    """

    group: str = ""
    node: str = ""
    jobs: tuple[Label, ...] = ()
    reason: Text = ""


class ProvisionFailed(Payload):
    """`provision-failed` of a node: it was to be added, or to leave, and could not."""

    scale: Label
    group: str = ""
    reason: Text = ""


class ScaleState(Payload):
    """`state-recorded` of a choice. name: which of the four it is. trace: of the job behind it.

    failure: why its node could not be provided, said by failure_fact; "" while nobody said so. ended, ended_at: of one
    that is over and still shown; its parts and places are left out.
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
    """Since when a device or node holds nothing; `at` 0: it is held."""

    name: Label
    at: InstantNs


class Refused(Wire):
    """What `nothing-chosen` said last of a job or node. reason: of the newest alone, which are shown."""

    name: Label
    case: int
    code: str = ""
    at: InstantNs = 0
    reason: Text = ""


class HeardSignal(Wire):
    """What an autoscaler outside said last about a group or node, and has not settled. at: since when it says so."""

    subject: Label
    name: Label
    at: InstantNs = 0
    fact: str = ""
    signal: AutoscalerSignal


class ScalerState(Payload):
    """`state-recorded` of the scaler itself (kind `scaler`): what its next choices depend on beside the books.

    In as many parts as it takes, `scaler`, `scaler-2`, ...: each has some of the entries, and all that is no list.
    chosen: how many choices were ever made. idle_devices, idle_nodes: since when. low_nodes: since when less than half
    of the node is used. moved_at: when a device or node was
    last added to or taken from a node or group, by name. failed_at: when a choice last failed, by group or fabric.
    served_at: jobs for which a choice was carried out, and when. refused: the newest of what nothing was chosen for.
    supplied_at: when there last came to be more to choose from; freed_at: when a place last came free.
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
