"""The agent: turns placements into pods, and reports nodes and pods to the log."""
