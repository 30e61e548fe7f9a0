"""Helpers for background loops."""

import asyncio


def end_if_cancelled() -> None:
    """Raise CancelledError if this task was cancelled.

    A cancellation that meets an arriving answer may be lost on its way through a client's timeouts; a loop that
    calls this once per iteration ends nevertheless.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
