"""Identity providers of the gateway, as the settings configure them, with their connections."""

from contextlib import AsyncExitStack
from importlib.metadata import version

from muster.bus.clock import TimeSource
from muster.bus.gateway_settings import IdentitySettings
from muster.gateway.identity.identities import Identities, Source
from muster.gateway.identity.oidc import OidcVerifier, ProviderKeys, http_client
from muster.gateway.identity.reviews import TokenReviews
from muster.gateway.metrics import Metrics
from muster.kube.connection import KubeConnection, user_agent_of


async def opened_identities(
    settings: IdentitySettings, closing: AsyncExitStack, *, time: TimeSource, metrics: Metrics
) -> Identities | None:
    """Return the identity providers, or None if the settings name none. closing: closes the connections.

    Sends no request yet: a gateway starts while a provider is down. Raises KubeConfigError, and OSError for files.
    """
    sources: list[Source] = []
    if settings.oidc is not None:
        client = await closing.enter_async_context(http_client(settings.oidc))
        sources.append(OidcVerifier(settings.oidc, ProviderKeys(settings.oidc, client, time), time))
    review = settings.token_review
    if review is not None:
        agent = user_agent_of("gateway", version("gpumuster"))
        server = await closing.enter_async_context(
            await KubeConnection.open(kubeconfig=review.kubeconfig, context=review.context, user_agent=agent)
        )
        sources.append(TokenReviews(review, server, time, known_max=settings.cached_max))
    return Identities(settings, sources, time=time, metrics=metrics) if sources else None
