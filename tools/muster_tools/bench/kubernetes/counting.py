"""Requests to the API server, read from its own metrics."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import aiohttp

READS, LISTS = frozenset({"GET"}), frozenset({"LIST"})
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
OWN_LISTS = frozenset({"limitranges"})
"""Resources that admission in the API server lists every 30 s while pods are created, by any client."""
_LINE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Requests:
    """Number of requests since the API server started."""

    by_verb: Mapping[str, int] = field(default_factory=dict)
    """Completed requests by verb."""
    watching: int = 0
    """Open watches."""
    streamed: int = 0
    """Lists that were sent through a watch (sendInitialEvents)."""
    lists_of: Mapping[str, int] = field(default_factory=dict)
    """LISTs by resource, OWN_LISTS included."""

    @property
    def lists(self) -> int:
        """Return the LISTs by clients."""
        return sum(count for resource, count in self.lists_of.items() if resource not in OWN_LISTS)

    @property
    def reads(self) -> int:
        """Return the GETs of single objects."""
        return self._sum(READS)

    @property
    def writes(self) -> int:
        """Return the requests that change an object."""
        return self._sum(WRITES)

    @property
    def watches(self) -> int:
        """Return the watches that were opened, whether ended or still open."""
        return self.by_verb.get("WATCH", 0) + self.watching

    def since(self, earlier: "Requests") -> "Requests":
        """Return the difference to an earlier count; the number of open watches may be negative."""
        return Requests(
            by_verb={verb: count - earlier.by_verb.get(verb, 0) for verb, count in self.by_verb.items()},
            watching=self.watching - earlier.watching,
            streamed=self.streamed - earlier.streamed,
            lists_of={
                resource: count - earlier.lists_of.get(resource, 0)
                for resource, count in self.lists_of.items()
                if count != earlier.lists_of.get(resource, 0)
            },
        )

    def _sum(self, verbs: frozenset[str]) -> int:
        return sum(count for verb, count in self.by_verb.items() if verb in verbs)


def parse(text: str) -> Requests:
    """Parse a page of Prometheus metrics as kube-apiserver writes it."""
    verbs: Counter[str] = Counter()
    lists: Counter[str] = Counter()
    watching = streamed = 0
    for name, labels, value in _samples(text):
        match name:
            case "apiserver_request_total":
                verbs[labels["verb"]] += value
                if labels["verb"] in LISTS:
                    lists[labels["resource"]] += value
            case "apiserver_longrunning_requests" if labels["verb"] == "WATCH":
                watching += value
            case "apiserver_watch_list_duration_seconds_count":
                streamed += value
            case _:
                pass
    return Requests(dict(verbs), watching, streamed, dict(lists))


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], int]]:
    wanted = ("apiserver_request_total{", "apiserver_longrunning_requests{", "apiserver_watch_list_duration_seconds_c")
    for line in text.splitlines():
        if line.startswith(wanted) and (found := _LINE.match(line)) is not None:
            yield found[1], dict(_LABEL.findall(found[2])), int(float(found[3]))


async def requests_of(client: aiohttp.ClientSession) -> Requests:
    """Read the current metrics of the API server. Raises aiohttp.ClientError."""
    async with client.get("/metrics", raise_for_status=True) as answer:
        return parse(await answer.text())
