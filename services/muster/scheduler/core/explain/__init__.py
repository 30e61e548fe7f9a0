"""Explanations for facts and queries: why a job waits, and when it starts."""
