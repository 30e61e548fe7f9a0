"""The agent: turns placements into pods, and tells the log what nodes and pods do."""
