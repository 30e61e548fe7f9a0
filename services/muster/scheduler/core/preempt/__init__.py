"""Preemption, defragmentation and drains: which running jobs have to stop, shrink or move."""
