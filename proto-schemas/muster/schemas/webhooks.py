"""Webhook messages: bodies of HTTP requests, after the Standard Webhooks specification (type, timestamp, data).

Receivers are written in any language, so times are RFC 3339 texts in UTC, and no number needs more than a double.
Fields are only added. A receiver ignores unknown types and fields.
"""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import Wire
from muster.schemas.facts.scale import ALTERNATIVES_MAX, Alternative, ScalePart

NODES_MAX = 64  # names of nodes in one message; `nodes_total` says how many there are
JOBS_MAX = 16
PARTS_MAX = 64
DEVICES_MAX = 64


class JobEnded(Wire):
    """`job-ended`: a job ended, by its one terminal fact.

    phase: succeeded, failed, cancelled or timed-out; reason: as text, with its causes; exit_code: of the first pod
    that failed, else 0. started_at, nodes: of the last attempt, empty if it never ran. waited_s: all time without
    running; ran_s: over all attempts; total_s: from submission to the end. name, team and other fields of the
    submission are empty if it is no longer stored. url: its page in the dashboard, "" without an address.
    """

    job_id: str
    name: str = ""
    team: str = ""
    queue: str = ""
    principal: str = ""
    cluster: str = ""
    phase: str
    reason: str = ""
    exit_code: int = 0
    attempt: int = 0
    gpus: float = 0.0
    nodes: Annotated[tuple[str, ...], Field(max_length=NODES_MAX)] = ()
    nodes_total: int = 0
    submitted_at: str = ""
    started_at: str = ""
    ended_at: str
    waited_s: float = 0.0
    ran_s: float = 0.0
    total_s: float = 0.0
    trace_id: str = ""
    url: str = ""


class ServedJob(Wire):
    """A job that a scaling decision serves."""

    job_id: str
    name: str = ""
    team: str = ""


class ScaleDecided(Wire):
    """`scale-chosen`: the fleet is to grow or to shrink.

    choice: gpu-attach-chosen, node-add-chosen, gpu-remove-chosen or node-remove-chosen; other fields as in the fact
    (`muster.schemas.facts.scale.ScaleChosen`), long lists cut. jobs: that it serves, without those of other teams
    if the webhook is for some teams. ready_s: estimated time until it helps. url: of the scale timeline.
    """

    choice_id: str
    choice: str
    cluster: str = ""
    group: str = ""
    node: str = ""
    device_model: str = ""
    count: int = 0
    reason: str = ""
    jobs: Annotated[tuple[ServedJob, ...], Field(max_length=JOBS_MAX)] = ()
    jobs_total: int = 0
    parts: Annotated[tuple[ScalePart, ...], Field(max_length=PARTS_MAX)] = ()
    devices: Annotated[tuple[str, ...], Field(max_length=DEVICES_MAX)] = ()
    alternatives: Annotated[tuple[Alternative, ...], Field(max_length=ALTERNATIVES_MAX)] = ()
    watts: float = 0.0
    ready_s: float = 0.0
    chosen_at: str
    trace_id: str = ""
    url: str = ""


class HardwareChanged(Wire):
    """`hardware-changed`: a node or GPU is out of service, needs a person, or is back; or health's brake tripped.

    what: `quarantined`, `needs-person`, `healthy`, or `brake-tripped` (kind brake): health stops until an operator
    resets the brake. kind: node, device or brake. device: uuid. codes: of the open faults. attempts: of repair.
    lasted_s: healthy only. url: of the page of conditions.
    """

    what: str
    kind: str
    node: str = ""
    device: str = ""
    cluster: str = ""
    codes: tuple[str, ...] = ()
    reason: str = ""
    attempts: int = 0
    lasted_s: float = 0.0
    changed_at: str
    url: str = ""


class JobFaulted(Wire):
    """`job-fault`: the job's own program faulted on a GPU; the hardware is healthy.

    code: as the driver reports it ("xid-31").
    """

    job_id: str
    name: str = ""
    team: str = ""
    cluster: str = ""
    code: str
    node: str = ""
    device: str = ""
    reason: str = ""
    faulted_at: str
    trace_id: str = ""
    url: str = ""


class CampaignTold(Wire):
    """`campaign-changed`: an upgrade campaign started (`accepted`), was `stopped` or `aborted`, or has `ended`.

    A stopped campaign waits until an operator resumes it. component: with its version; nodes: selected; both for
    `accepted`. done, failed, took_s, gpu_hours_lost: for `ended`. failed_nodes: that stay drained until an operator
    acts. url: of the page of campaigns.
    """

    what: str
    campaign: str
    cluster: str = ""
    component: str = ""
    principal: str = ""
    reason: str = ""
    nodes: int = 0
    done: int = 0
    failed: int = 0
    failed_nodes: Annotated[tuple[str, ...], Field(max_length=NODES_MAX)] = ()
    took_s: float = 0.0
    gpu_hours_lost: float = 0.0
    changed_at: str
    url: str = ""


class ClusterChanged(Wire):
    """`cluster-changed`: a cluster of the federation is `draining`, `drained`, `resumed`, `lost` or `returned`.

    lost: it was silent, and its jobs that may run elsewhere are rerouted. jobs: live there at that moment. to:
    target clusters of its jobs.
    """

    what: str
    cluster: str
    principal: str = ""
    reason: str = ""
    to: tuple[str, ...] = ()
    jobs: int = 0
    changed_at: str
    url: str = ""


class Trial(Wire):
    """`test`: a test message, on request."""

    webhook: str
    message: str


class WebhookMessage(Wire):
    """Body of every request. id: of the event, also in the header `webhook-id`; the same on every retry.

    type: the event's name. timestamp: when the event took place. data: by the type.
    """

    id: str
    type: str
    timestamp: str
    data: JobEnded | ScaleDecided | HardwareChanged | JobFaulted | CampaignTold | ClusterChanged | Trial
