"""Hierarchical quota and fair share: the tree of queues, their usage and limits. Pure: no I/O, no clock."""
