"""Names on the broker that the bootstrap makes, rights speak of and clients ask for. Logs are named in the schemas."""

API = "$JS.API"
LEASES_BUCKET = "leases"
CHECKPOINTS_BUCKET = "checkpoints"
CENTRE_DOMAIN = "fed"
"""JetStream domain of the centre's broker; a reserved name, so no cluster has it. A cell's is its cluster's name."""


def api_of(domain: str) -> str:
    """JetStream's API of another domain, as its leaf nodes reach it."""
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
    """Stream of a centre's copy of a cell's checkpoints."""
    return f"{store_stream(CHECKPOINTS_BUCKET)}_{cluster}"


WORKLOADS_CONSUMER = "gateway-workloads"
"""Name of the durable consumer that all gateways share, on every cluster's log."""


def webhook_consumer(webhook: str) -> str:
    """Name of a webhook's durable consumer, the same on every log."""
    return f"webhook-{webhook}"


def deliveries(cluster: str) -> str:
    """Where a cell has what FED holds for it delivered, followed by what the server adds."""
    return f"sync.{cluster}"


def copied(cluster: str) -> str:
    """Where the centre has its copies of a cell's streams delivered, followed by what the server adds."""
    return f"copy.{cluster}"


def addressed_to(cluster: str) -> str:
    """What of FED goes to a cluster: what its log sources, and all that its credential may read there."""
    return f"muster.fed.federation.{cluster}.>"
