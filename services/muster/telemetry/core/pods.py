"""From the pod that a page names to the job that it belongs to: by how the agent names pods, or by their owner."""

import re
from collections.abc import Container, Mapping

OWN_POD = re.compile(r"mj-([a-z2-7]{26})-\d+-\d+-\d+")
"""As the agent names the pods that it makes: job, attempt, group, replica."""
PARTS_MAX = 6
"""So many `-…` are taken off a pod's name to find the object that made it: a JobSet's pod has four behind its name."""


def job_of_pod(owner: str, live: Container[str], origins: Mapping[str, str]) -> str | None:
    """The job of a pod, if it is one of `live`. owner: namespace/pod.

    origins: by namespace/name, jobs of objects that make their pods themselves.
    """
    namespace, _, pod = owner.rpartition("/")
    made = OWN_POD.fullmatch(pod)
    if made is not None:
        job_id = made[1].upper()
        return job_id if job_id in live else None
    name = pod
    for _ in range(PARTS_MAX if origins else 0):
        found = origins.get(f"{namespace}/{name}")
        if found is not None:
            return found if found in live else None
        name, dash, _ = name.rpartition("-")
        if not dash:
            break
    return None
