"""The gateway: Muster's HTTP API."""
