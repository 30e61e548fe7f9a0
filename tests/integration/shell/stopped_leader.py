"""A process of its own that hosts the releasing scheduler; its decision about node `slow` lasts until it may go on.

Arguments: settings as JSON, a file that it makes when it decides about `slow`, a file that it then waits for.
"""

import asyncio
import logging
import sys
import time
from pathlib import Path

from kit.toys import Releasing, scheduler
from muster.bus.host import run
from muster.bus.settings import Settings
from muster.core.fact import Draft
from muster.core.instant import Instant

DECISION_S_MAX = 30.0


class Slow(Releasing):
    """Blocks its process in mid-decision, as a long collection of garbage or a stopped machine would."""

    deciding = Path()
    go_on = Path()

    def decide(self, now: Instant) -> list[Draft]:
        drafts = super().decide(now)
        if any(draft.subject_id == "slow" for draft in drafts) and not self.deciding.exists():
            self.deciding.touch()
            end = time.monotonic() + DECISION_S_MAX
            while not self.go_on.exists() and time.monotonic() < end:
                time.sleep(0.01)
        return drafts


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    Slow.deciding, Slow.go_on = Path(sys.argv[2]), Path(sys.argv[3])
    asyncio.run(run([scheduler(Slow)], Settings.model_validate_json(sys.argv[1])))
