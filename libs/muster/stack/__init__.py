"""One machine's stack: its state directory, the embedded NATS and Redis, and the supervisor that keeps all running.

Imports stay light: the supervisor lives as long as the stack and its memory counts.
"""
