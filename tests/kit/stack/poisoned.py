"""`muster serve NAME`, but the scheduler cannot bear jobs of one name, as if it had a defect.

Arguments: NAME STATE_DIR.
"""

import sys
from pathlib import Path

from muster.bus.host import run_services
from muster.core.fact import Fact
from muster.scheduler.core import SchedulerCore
from muster.schemas.facts.job import JobRouted
from muster.stack.declared import SERVICES

POISON = "poison"


def main(name: str, state_dir: str) -> None:
    """Host what `muster serve` would."""
    bear = SchedulerCore.apply

    def apply(core: SchedulerCore, fact: Fact) -> None:
        if isinstance(fact.payload, JobRouted) and fact.payload.job.spec.name == POISON:
            raise RuntimeError("cannot bear this job")
        bear(core, fact)

    SchedulerCore.apply = apply  # type: ignore[method-assign]
    run_services(SERVICES if name == "all" else (name,), Path(state_dir))


if __name__ == "__main__":
    main(*sys.argv[1:])
