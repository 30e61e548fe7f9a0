"""Hierarchical quota: the tree of queues, what they hold and may hold, who borrows how much. Pure: no I/O, no clock."""
