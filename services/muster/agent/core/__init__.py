"""The agent's pure part: the fold, the port to a cluster, and the simulated cluster."""
