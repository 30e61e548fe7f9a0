"""The Alibaba openb GPU trace (cluster-trace-gpu-v2023): read it, run it through a fleet, report what became of it.

Published with "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX
ATC 2023). `trace`, `account` and `report` are pure; `replay` drives, `files` draws.
"""
