"""Settings of the gateway's HTTP server: how many connections it keeps, and how long a client may take."""

from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _network(text: str) -> str:
    ip_network(text)  # raises ValueError
    return text


Network = Annotated[str, AfterValidator(_network)]
"""An address or a network, `10.0.0.0/8` or `192.0.2.7`, without host bits."""


class HttpSettings(BaseModel):
    """Bounds that hold before a token is read, so for anonymous clients, too."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    connections_max: Annotated[int, Field(ge=1, le=65_536)] = 4_096
    """Open connections of all clients, also those whose TLS handshake is under way. Above it the connection that was
    idle longest is closed; where none is idle, new connections may ask for `/healthz` and `/readyz` alone."""

    connections_per_address_max: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Open connections of one IPv4 address or one IPv6 /64 network. Above it the connection of the same address that
    was idle longest is closed; where none is idle, new connections are refused (429; with TLS, closed before the
    handshake)."""

    proxies: tuple[Network, ...] = ()
    """Addresses and networks of ingresses, load balancers and NAT gateways in front of the gateway. Their connections
    are not limited by address, since many clients share them."""

    header_s_max: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    """Time for the first request's header after connecting, with the TLS handshake if there is one, and for each header
    from its first byte."""

    body_s_max: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    """Time for a request's body, from the end of its header."""

    idle_s_max: Annotated[float, Field(gt=0, le=3_600)] = 75.0
    """Time that a connection is kept between two requests."""

    write_s_max: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    """Time that a client may leave an answer unread once the buffers are full."""

    header_bytes_max: Annotated[int, Field(ge=1_024, le=1024 * 1024)] = 65_536
    """Bytes of a request's header, and of what follows a body (trailers)."""

    live_credential_s: Annotated[int, Field(ge=5, le=900)] = 20
    """Time for which the broker accepts a credential of the live view. A dashboard renews it before that; the broker
    ends the connection of a revoked or expired token after so long at most. Longer for programs that listen without
    renewing, shorter where dashboards are near the gateway."""
