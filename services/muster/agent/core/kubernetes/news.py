"""What there is to tell of an attempt."""

from muster.agent.core.cluster import CheckpointSeen, PodsObservation, PodsResizedSeen, PodsStartedSeen
from muster.agent.core.kubernetes.context import NodesSeen
from muster.agent.core.kubernetes.live import AttemptState, LiveAttempt
from muster.agent.core.kubernetes.preflight import next_report


def news_of(one: LiveAttempt, nodes: NodesSeen) -> PodsObservation | None:
    """The next thing to tell: start, checks, checkpoint, resize, exit.

    A deletion overtakes a start that was not told.
    """
    job_id, attempt = one.key
    if not one.started_at and one.running_at and one.deletion is None:
        return PodsStartedSeen(job_id, attempt, _device_uuids(one, nodes))
    if one.order.preflight is not None and (report := next_report(one)) is not None:
        return report
    if one.started_at and one.checkpoint > one.checkpoint_told:
        one.checkpoint_offered = one.checkpoint
        return CheckpointSeen(job_id, attempt)
    if one.started_at and one.resized and one.resize is not None and not one.is_ending:
        return PodsResizedSeen(job_id, attempt, len(one.resize.slots))
    return one.exited() if one.state is AttemptState.ENDED else None


def _device_uuids(one: LiveAttempt, nodes: NodesSeen) -> tuple[tuple[str, ...], ...]:
    """Of each slot: as its node describes the devices that it names, or as the kubelet tells; () if it does not.

    What the kubelet gave a pod that only checks, it may not give the job's, unless that was all that the node has.
    """
    told: list[tuple[str, ...]] = []
    for slot in one.order.slots:
        pod = one.pods[slot.group, slot.replica]
        devices = pod.view.devices if pod.view is not None else ()
        if pod.is_check and len(devices) != nodes.gpus(slot.node):
            devices = ()
        told.append(devices or nodes.uuids(slot.node, slot.devices))
    return tuple(told)
