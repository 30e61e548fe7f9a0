"""What the API server was asked, from its own metrics."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import aiohttp

READS, LISTS = frozenset({"GET"}), frozenset({"LIST"})
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
OWN_LISTS = frozenset({"limitranges"})
"""What the API server's own admission lists every half a minute while pods are created, whoever creates them."""
_LINE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Requests:
    """Since the API server started. by_verb: requests that ended. watching: watches that are open.

    streamed: lists that came through a watch (sendInitialEvents). lists_of: LISTs by resource, OWN_LISTS included.
    """

    by_verb: Mapping[str, int] = field(default_factory=dict)
    watching: int = 0
    streamed: int = 0
    lists_of: Mapping[str, int] = field(default_factory=dict)

    @property
    def lists(self) -> int:
        """LISTs by clients."""
        return sum(count for resource, count in self.lists_of.items() if resource not in OWN_LISTS)

    @property
    def reads(self) -> int:
        """GETs of single objects."""
        return self._sum(READS)

    @property
    def writes(self) -> int:
        """Whatever changes an object."""
        return self._sum(WRITES)

    @property
    def watches(self) -> int:
        """Watches that were opened: those that ended and those that run."""
        return self.by_verb.get("WATCH", 0) + self.watching

    def since(self, earlier: "Requests") -> "Requests":
        """The difference; open watches can have become fewer."""
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
    """Read a page of Prometheus metrics as kube-apiserver writes it."""
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
    """Ask the API server now. Raises aiohttp.ClientError."""
    async with client.get("/metrics", raise_for_status=True) as answer:
        return parse(await answer.text())
