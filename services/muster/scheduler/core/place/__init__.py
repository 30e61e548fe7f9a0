"""Placement of admitted jobs, and growth of elastic jobs."""
