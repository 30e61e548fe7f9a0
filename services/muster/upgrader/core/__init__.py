"""The pure part of the upgrader service."""
