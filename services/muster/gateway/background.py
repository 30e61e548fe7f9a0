"""Loops beside the requests."""

import asyncio


def end_if_cancelled() -> None:
    """Raises CancelledError if this task was asked to end.

    A cancellation that meets an answer just arriving may be lost on its way through a client's time-outs; a loop that
    asks once per round ends all the same.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
