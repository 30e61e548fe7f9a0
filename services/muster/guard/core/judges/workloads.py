"""`secrets-per-workload`: a workload has its credentials in many secrets, each of which every kubelet lists by name."""

from muster.guard.core.config import GuardConfig
from muster.guard.core.judges.finding import Finding, finding
from muster.guard.core.look import Look

CODE = "secrets-per-workload"
_CURE = (
    "put them as keys into one secret of the workload (1 MiB holds them), or mount short-lived tokens; mark those that "
    "never change `immutable: true`, which kubelets then do not watch"
)


def judge(look: Look, config: GuardConfig) -> list[Finding] | None:
    """From the pods alone; None if they may not be read."""
    if look.pods is None:
        return None
    return [
        finding(
            code=CODE,
            about=one.title,
            degree=one.secrets / config.secrets_per_workload,
            detail=(
                f"{one.title} has its credentials in {one.secrets} secrets: its {one.pods} pods on {one.nodes} nodes "
                f"make kubelets send {one.lists} LISTs, and as many WATCHes, at their start and again whenever a "
                f"kubelet or an API server restarts"
            ),
            cure=_CURE,
            figures=(
                ("secrets", float(one.secrets)),
                ("lists", float(one.lists)),
                ("pods", float(one.pods)),
                ("nodes", float(one.nodes)),
            ),
        )
        for one in look.pods.workloads
    ]
