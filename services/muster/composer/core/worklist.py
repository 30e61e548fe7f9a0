"""What has to be looked at: because it changed, or because its time came.

Remembers only to save work: an entry too many costs one look. Nothing here is part of what the composer believes.
"""

import heapq

from muster.core import Instant

ATTACHMENT, REQUEST = "attachment", "request"


class Worklist:
    """attachments, requests: to be looked at by the next decision.

    waiting: requests that wait for a device to come back, by its uuid.
    attach, detach: attachments that may call as soon as their fabric has room, in turn, by fabric. unsettled: whose
    call failed, so that the next survey matters to them, by fabric.
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
        """At this attachment."""
        self.attachments[attachment] = None

    def look_request(self, name: str) -> None:
        """At this request."""
        self.requests[name] = None

    def wait_for(self, uuid: str, request: str) -> None:
        """Look at the request when something happens to the device."""
        self.waiting.setdefault(uuid, {})[request] = None

    def look_waiting(self, uuid: str) -> None:
        """Something happened to this device: at the requests that wait for it."""
        self.requests.update(self.waiting.pop(uuid, {}))

    def look_at(self, moment: Instant, what: str, name: str) -> None:
        """When the moment has come. The newest such word for a name counts."""
        if self._filed.get((what, name)) != moment:
            self._filed[what, name] = moment
            heapq.heappush(self._heap, (moment, what, name))

    def queue(self, attachment: str, fabric: str, *, attach: bool, detach: bool, unsettled: bool) -> None:
        """Put it into these queues, where it keeps its turn, and out of the others."""
        for queues, belongs in ((self.attach, attach), (self.detach, detach), (self.unsettled, unsettled)):
            if belongs:
                queues.setdefault(fabric, {}).setdefault(attachment, None)
            elif (queue := queues.get(fabric)) is not None:
                queue.pop(attachment, None)

    def forget(self, attachment: str, fabric: str) -> None:
        """It is over."""
        self.queue(attachment, fabric, attach=False, detach=False, unsettled=False)
        self.attachments.pop(attachment, None)
        self._filed.pop((ATTACHMENT, attachment), None)

    def advance(self, now: Instant) -> None:
        """Mark everything whose time came."""
        while self._heap and self._heap[0][0] <= now:
            moment, what, name = heapq.heappop(self._heap)
            if self._filed.get((what, name)) == moment:
                del self._filed[what, name]
                (self.attachments if what == ATTACHMENT else self.requests)[name] = None

    def next_at(self) -> Instant | None:
        """When the next one comes due."""
        while self._heap and self._filed.get(self._heap[0][1:]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
