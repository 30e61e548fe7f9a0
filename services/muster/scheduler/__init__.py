"""The scheduler: job phases, queues and their limits, placement, and grants to hold a node or device."""
