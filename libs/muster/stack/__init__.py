"""The stack of one machine: its state directory, the embedded NATS and Redis, and the supervisor of all processes.

Imports stay light: the supervisor lives as long as the stack and its memory counts.
"""
