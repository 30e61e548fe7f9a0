"""The background supervisor, started by `control.detach`, which passes `StartOptions` as JSON on standard input."""

import asyncio
import json
import logging
import os
import sys

from muster.stack.options import READY_FD, StartOptions
from muster.stack.up import RunningStack, serve

_logger = logging.getLogger("muster.stack")


def main() -> int:
    """Serve until SIGTERM; return 1 if the stack does not start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    told = int(os.environ.pop(READY_FD, "-1"))
    if told >= 0:
        os.set_inheritable(told, False)  # else the children would keep the pipe open, and the starter would wait

    def tell(error: str) -> None:
        nonlocal told
        if told >= 0:
            os.write(told, json.dumps({"error": error}).encode())
            os.close(told)
            told = -1

    def on_ready(_stack: RunningStack) -> None:
        tell("")

    try:
        asyncio.run(serve(StartOptions.model_validate_json(sys.stdin.buffer.read()), on_ready=on_ready))
    except Exception as error:
        _logger.exception("the stack did not start")
        tell(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
