"""The Alibaba openb GPU trace (cluster-trace-gpu-v2023): parse it, run it through a fleet, report the results.

Published with "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX
ATC 2023). `trace`, `account` and `report` are pure; `replay` runs the trace.
"""
