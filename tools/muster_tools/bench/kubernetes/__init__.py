"""`muster bench kubernetes`: the same workloads through several schedulers, each on a fresh real control plane."""
