"""Protects the API server."""
