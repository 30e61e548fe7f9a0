"""Whole stacks, started for tests on loopback, and what is asked of them."""
