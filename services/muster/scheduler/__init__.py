"""The scheduler: every job's phase, queues and their limits, placement, and who may hold a node or device."""
