"""Names on the broker that the bootstrap makes, rights speak of and clients ask for. Logs are named in the schemas."""

API = "$JS.API"
LEASES_BUCKET = "leases"
CHECKPOINTS_BUCKET = "checkpoints"
CENTRE_DOMAIN = "fed"
"""JetStream domain of the center's broker; a reserved name. The domain of a cell is its cluster's name."""


def api_of(domain: str) -> str:
    """Return JetStream's API of another domain, as its leaf nodes reach it."""
    return f"$JS.{domain}.API"


def telemetry_stream(cluster: str) -> str:
    """Stream of a cluster's telemetry."""
    return f"TELEMETRY_{cluster}"


def output_stream(cluster: str) -> str:
    """Stream of a cluster's job output lines."""
    return f"LOGS_{cluster}"


def bucket_stream(bucket: str) -> str:
    """Stream of a key-value bucket (ADR-8 of NATS)."""
    return f"KV_{bucket}"


def store_stream(store: str) -> str:
    """Stream of an object store (ADR-20 of NATS)."""
    return f"OBJ_{store}"


def copied_checkpoints(cluster: str) -> str:
    """Return the stream of a center's copy of a cell's checkpoints."""
    return f"{store_stream(CHECKPOINTS_BUCKET)}_{cluster}"


WORKLOADS_CONSUMER = "gateway-workloads"
"""Name of the durable consumer that all gateways share, on every cluster's log."""


def webhook_consumer(webhook: str) -> str:
    """Name of a webhook's durable consumer, the same on every log."""
    return f"webhook-{webhook}"


def deliveries(cluster: str) -> str:
    """Return the subject prefix on which a cell receives deliveries of FED; the server adds a suffix."""
    return f"sync.{cluster}"


def copied(cluster: str) -> str:
    """Return the subject prefix on which the center receives copies of a cell's streams; the server adds a suffix."""
    return f"copy.{cluster}"


def addressed_to(cluster: str) -> str:
    """Return the filter of a cluster's messages in FED: the source of its log, and all that its cell may read."""
    return f"muster.fed.federation.{cluster}.>"
