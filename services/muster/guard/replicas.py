"""Where every API server of a cluster is."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from muster.guard.limits import REPLICAS_MAX, SHARED_AGE_S
from muster.guard.scraping import ReplicaScraper
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeConfigError, KubeError
from muster.kube.objects import JsonObject, integer, objects, sequence
from muster.kube.resources import ENDPOINT_SLICES
from muster.kube.shapes import Selection

SERVER_NAME = "kubernetes.default.svc"
"""Which every API server's certificate names, whatever its address."""
_ENDPOINTS = Selection(namespace="default", labels="kubernetes.io/service-name=kubernetes")


@dataclass(frozen=True, slots=True)
class Place:
    """How a cluster is reached; see `KubernetesSettings`. audit_*: of the audit webhook; port 0: nowhere.

    audit_tls: certificate and key; None: plain HTTP.
    """

    kubeconfig: Path | None
    context: str = ""
    api_servers: tuple[str, ...] = ()
    connection_age_s: float = 600.0
    audit_host: str = ""
    audit_port: int = 0
    audit_token: Path | None = None
    audit_tls: tuple[Path, Path] | None = None


@dataclass(frozen=True, slots=True)
class Replicas:
    """scrapers: one for each API server; close them. lacking: what is not seen of them, and why; "" for nothing."""

    scrapers: tuple[ReplicaScraper, ...]
    lacking: str = ""


async def find_replicas(connection: KubeConnection, place: Place, *, user_agent: str) -> Replicas:
    """Those that the settings name, else those that the `kubernetes` service lists if all can be reached, else what is
    behind the one address that the kubeconfig names. Raises KubeConfigError."""
    if place.api_servers:
        urls = place.api_servers[:REPLICAS_MAX]
        return Replicas(tuple(ReplicaScraper(_name(url), connection.at_replica(url)) for url in urls))
    urls, why = await _listed(connection)
    found = []
    for url in urls:
        at_replica = connection.at_replica(url, server_name=SERVER_NAME)
        try:
            await at_replica.get_path("/version")
        except (KubeError, KubeConfigError) as error:
            why = str(error)
            await at_replica.close()
        else:
            found.append(ReplicaScraper(_name(url), at_replica))
    if found and len(found) == len(urls):
        return Replicas(tuple(found))
    for scraper in found:
        await scraper.close()
    lacking = (
        f"API servers are looked at through one address, {connection.url}, and told apart by when they started, since "
        f"they could not be reached one by one: {why}; name them in kubernetes.api_servers"
    )
    return Replicas((ReplicaScraper(_name(connection.url), await _young(place, user_agent), shared=True),), lacking)


async def _young(place: Place, user_agent: str) -> KubeConnection:
    return await KubeConnection.open(
        kubeconfig=place.kubeconfig, context=place.context, user_agent=user_agent, connection_age_s_max=SHARED_AGE_S
    )


async def _listed(connection: KubeConnection) -> tuple[tuple[str, ...], str]:
    try:
        page = await connection.list_page(ENDPOINT_SLICES, select=_ENDPOINTS)
    except KubeError as error:
        return (), str(error)
    urls = tuple(dict.fromkeys(url for item in page.items for url in _urls(item)))
    return urls[:REPLICAS_MAX], "" if urls else "service default/kubernetes lists no endpoints"


def _urls(item: JsonObject) -> list[str]:
    ports = [integer(port, "port") for port in objects(item, "ports")]
    hosts = [str(host) for endpoint in objects(item, "endpoints") for host in sequence(endpoint, "addresses")]
    return [f"https://{f'[{host}]' if ':' in host else host}:{port}" for host in hosts for port in ports[:1]]


def _name(url: str) -> str:
    return urlsplit(url).netloc or url
