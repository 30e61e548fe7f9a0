"""`pod-garbage`: pods that ended stay until there are thousands of them, and every LIST of pods carries them."""

from muster.guard.core.config import GuardConfig
from muster.guard.core.judges.finding import Finding, finding
from muster.guard.core.limits import TERMINATED_DEFAULT, TERMINATED_MIN, TERMINATED_PART
from muster.guard.core.look import Look

CODE = "pod-garbage"


def judge(look: Look, config: GuardConfig) -> list[Finding] | None:  # noqa: ARG001 - a judge
    """From the pods' phases; None if they may not be read."""
    if look.pods is None:
        return None
    pods, ended = look.pods.pods, look.pods.terminated
    if not ended or ended < TERMINATED_PART * pods:
        return []
    known = look.pods.threshold
    limit = f"{known}" if known is not None else f"{TERMINATED_DEFAULT} unless it was told otherwise"
    return [
        finding(
            code=CODE,
            severity="info",
            degree=ended / TERMINATED_MIN,
            detail=(
                f"{ended} of {pods} pods have ended and are still there; the controller manager removes them beyond "
                f"{limit} (--terminated-pod-gc-threshold)"
            ),
            cure=(
                f"start kube-controller-manager with --terminated-pod-gc-threshold={TERMINATED_MIN}, and give Jobs "
                f"ttlSecondsAfterFinished; Muster removes the pods of its own jobs"
            ),
            figures=(("terminated", float(ended)), ("pods", float(pods))),
        )
    ]
