"""Creation and binding times of workloads, as one watch of bound pods observes them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import aiohttp
from pydantic import JsonValue

from muster_tools.bench.kubernetes import bounds
from muster_tools.bench.workload import Quantiles, quantiles

Pod = Mapping[str, JsonValue]
RUNNING = "Running"
_GONE = 410


class WatchLostError(Exception):
    """The measuring watch was interrupted too often, or is too far behind to continue: there are no figures."""


def name_of(pod: Pod) -> str:
    """Return the pod's name, which identifies a workload whose pod the benchmark creates itself."""
    return str(cast("Mapping[str, JsonValue]", pod["metadata"])["name"])


def node_of(pod: Pod) -> str:
    """Return the node that a pod is bound to."""
    return str(cast("Mapping[str, JsonValue]", pod["spec"])["nodeName"])


@dataclass
class Seen:
    """Observed times by workload, in seconds of this process's monotonic clock."""

    created_s: dict[str, float] = field(default_factory=dict)
    bound_s: dict[str, float] = field(default_factory=dict)
    runs_s: dict[str, float] = field(default_factory=dict)
    """When the pod was first seen running."""
    nodes: dict[str, str] = field(default_factory=dict)
    """The node that each workload is bound to."""
    last_bound_s: float = 0.0
    longest_gap_s: float = 0.0
    """The longest time without a new binding, since the first workload was created."""

    def created(self, key: str, *, at_s: float | None = None) -> None:
        """Record that a workload is about to be created, or was created at that time."""
        self.created_s[key] = time.monotonic() if at_s is None else at_s

    def bound(self, key: str, node: str) -> None:
        """Record that a pod was seen bound; only the first time counts."""
        if key in self.bound_s:
            return
        now_s = self.bound_s[key] = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now_s - (self.last_bound_s or self._began_s(now_s)))
        self.last_bound_s = now_s
        self.nodes[key] = node

    def runs(self, key: str) -> None:
        """Record that a pod was seen running; only the first time counts."""
        self.runs_s.setdefault(key, time.monotonic())

    def _began_s(self, now_s: float) -> float:
        return min(self.created_s.values(), default=now_s)

    @property
    def placed(self) -> int:
        """Return the number of bound workloads among those created."""
        return sum(key in self.bound_s for key in self.created_s)

    @property
    def wall_s(self) -> float:
        """Return the time from the first created to the last bound; 0 if no workload was bound."""
        ends = [self.bound_s[key] for key in self.created_s if key in self.bound_s]
        return max(ends) - min(self.created_s.values()) if ends else 0.0

    @property
    def running(self) -> int:
        """Return the number of running workloads among those created."""
        return sum(key in self.runs_s for key in self.created_s)

    @property
    def running_wall_s(self) -> float:
        """Return the time from the first created to the last seen running; 0 if none was."""
        ends = [self.runs_s[key] for key in self.created_s if key in self.runs_s]
        return max(ends) - min(self.created_s.values()) if ends else 0.0

    def bound_at_s(self) -> tuple[float, ...]:
        """Return when each workload was bound, since the first was created; ascending."""
        began_s = min(self.created_s.values(), default=0.0)
        return tuple(sorted(self.bound_s[key] - began_s for key in self.created_s if key in self.bound_s))

    def latency_ms(self) -> Quantiles:
        """Return the time from created to bound, of the bound workloads."""
        waits = [self.bound_s[key] - began for key, began in self.created_s.items() if key in self.bound_s]
        return quantiles([wait * 1_000 for wait in waits])


@asynccontextmanager
async def observing(client: aiohttp.ClientSession, *, key_of: Callable[[Pod], str] = name_of) -> AsyncIterator[Seen]:
    """Follow bound pods while the block runs. key_of: identifies the workload of a pod.

    Raises WatchLostError out of the block when the watch cannot continue; aiohttp.ClientError if it cannot start.
    """
    seen = Seen()
    async with client.get("/api/v1/pods", params={"limit": "1"}, raise_for_status=True) as answer:
        version = str((await answer.json())["metadata"]["resourceVersion"])
    async with asyncio.TaskGroup() as group:
        following = group.create_task(_follow(client, version, seen, key_of))
        yield seen
        following.cancel()


async def _follow(client: aiohttp.ClientSession, version: str, seen: Seen, key_of: Callable[[Pod], str]) -> None:
    """Process the events of bound pods: one when a pod is bound, one for each later change."""
    at = version
    for _ in range(bounds.WATCH_RETRIES_MAX):
        query = {
            "watch": "1",
            "fieldSelector": "spec.nodeName!=",
            "resourceVersion": at,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(bounds.WATCH_S_MAX),
        }
        unlimited = aiohttp.ClientTimeout(total=None)
        try:
            async with client.get("/api/v1/pods", params=query, timeout=unlimited, raise_for_status=True) as stream:
                async for line in stream.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise WatchLostError(f"the watch of bound pods ended: {event['object'].get('message')}")
                    at = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        key = key_of(event["object"])
                        seen.bound(key, node_of(event["object"]))
                        if event["object"]["status"].get("phase") == RUNNING:
                            seen.runs(key)
        except aiohttp.ClientResponseError as error:
            if error.status == _GONE:
                raise WatchLostError("the watch of bound pods is too far behind to continue") from error
            await asyncio.sleep(bounds.POLL_S)
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(bounds.POLL_S)
    raise WatchLostError(f"the watch of bound pods was interrupted {bounds.WATCH_RETRIES_MAX} times")
