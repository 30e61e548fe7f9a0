"""The pure part of the health service."""
