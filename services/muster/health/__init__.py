"""Keeps jobs off bad hardware: verdicts on nodes and devices, and pre-flight verdicts."""
