"""Objects to evaluate, because they changed or are due.

It only saves work: an extra entry costs one evaluation, and nothing here is part of the state.
"""

import heapq

from muster.core import Instant

ATTACHMENT, REQUEST = "attachment", "request"


class Worklist:
    """Attachments and requests for the next decision.

    `waiting`: requests that wait for the return of a device, by its uuid. `attach`, `detach`: attachments ready to call
    once their fabric has room, in order, by fabric. `unsettled`: attachments with an unknown outcome, by fabric.
    """

    def __init__(self) -> None:
        self.attachments: dict[str, None] = {}
        self.requests: dict[str, None] = {}
        self.waiting: dict[str, dict[str, None]] = {}
        self.attach: dict[str, dict[str, None]] = {}
        self.detach: dict[str, dict[str, None]] = {}
        self.unsettled: dict[str, dict[str, None]] = {}
        self._heap: list[tuple[Instant, str, str]] = []
        self._filed: dict[tuple[str, str], Instant] = {}

    def look(self, attachment: str) -> None:
        """Mark an attachment."""
        self.attachments[attachment] = None

    def look_request(self, name: str) -> None:
        """Mark a request."""
        self.requests[name] = None

    def wait_for(self, uuid: str, request: str) -> None:
        """Mark the request when something happens to the device."""
        self.waiting.setdefault(uuid, {})[request] = None

    def look_waiting(self, uuid: str) -> None:
        """Mark the requests that wait for this device."""
        self.requests.update(self.waiting.pop(uuid, {}))

    def look_at(self, moment: Instant, what: str, name: str) -> None:
        """Mark the name at this time; the newest time counts."""
        if self._filed.get((what, name)) != moment:
            self._filed[what, name] = moment
            heapq.heappush(self._heap, (moment, what, name))

    def queue(self, attachment: str, fabric: str, *, attach: bool, detach: bool, unsettled: bool) -> None:
        """Put it into these queues, where it keeps its place, and remove it from the others."""
        for queues, belongs in ((self.attach, attach), (self.detach, detach), (self.unsettled, unsettled)):
            if belongs:
                queues.setdefault(fabric, {}).setdefault(attachment, None)
            elif (queue := queues.get(fabric)) is not None:
                queue.pop(attachment, None)

    def forget(self, attachment: str, fabric: str) -> None:
        """Remove an attachment that is over."""
        self.queue(attachment, fabric, attach=False, detach=False, unsettled=False)
        self.attachments.pop(attachment, None)
        self._filed.pop((ATTACHMENT, attachment), None)

    def advance(self, now: Instant) -> None:
        """Mark everything that is due."""
        while self._heap and self._heap[0][0] <= now:
            moment, what, name = heapq.heappop(self._heap)
            if self._filed.get((what, name)) == moment:
                del self._filed[what, name]
                (self.attachments if what == ATTACHMENT else self.requests)[name] = None

    def next_at(self) -> Instant | None:
        """Return when the next entry is due."""
        while self._heap and self._filed.get(self._heap[0][1:]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
