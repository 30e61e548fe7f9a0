"""Simulated DCGM exporters: a page for every simulated node, with faults that can be injected."""
