"""A Kubernetes cluster as values: effects and views in, calls and observations out. No I/O, no clock."""
