"""Kubernetes: one connection to an API server, a reflector per resource kind, and what the server says of itself."""
