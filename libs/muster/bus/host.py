"""Runs a process that hosts services: from its settings until a signal, with its exit code."""

import asyncio
import gc
import importlib
import logging
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import uvloop

from muster.bus.fold import PoisonedError
from muster.bus.limits import YOUNG_OBJECTS
from muster.bus.logs import PROCESS, Closable, set_up_logs
from muster.bus.metrics import registries
from muster.bus.process import DisconnectedError, Process
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings, load_settings
from muster.bus.shell import UnrecoverableError
from muster.bus.tracing import sends

EXIT_POISONED = 70  # sysexits(3) EX_SOFTWARE: the only service halted at a fact; an operator must act
COLLECTOR_THRESHOLDS = (YOUNG_OBJECTS, 10, 2)  # a full collection after about a million
EXIT_DISCONNECTED = 69  # EX_UNAVAILABLE: a connection to the bus was closed for good

_logger = logging.getLogger(__name__)


def run_services(names: Sequence[str], state_dir: Path) -> None:
    """Host the services of these names with the settings of a state directory, until SIGTERM.

    Raises ModuleNotFoundError, OSError, ValueError (settings, variables); SystemExit(EXIT_POISONED) and
    SystemExit(EXIT_DISCONNECTED).
    """
    with _telling(names):
        settings = load_settings(state_dir, os.environ)
        services: list[CoreService | Hosted] = []
        for name in names:
            services += importlib.import_module(f"muster.{name}.app").services(settings)
        _calm_collector()
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(run(services, settings))
        except (PoisonedError, UnrecoverableError) as error:
            raise SystemExit(EXIT_POISONED) from error
        except DisconnectedError as error:
            _logger.critical("%s", error)
            raise SystemExit(EXIT_DISCONNECTED) from error


@contextmanager
def _telling(names: Sequence[str]) -> Iterator[None]:
    """Log records to stderr, and with the metrics to a collector if one is set; what is left is sent at the end."""
    sending: list[Closable] = []
    logs = set_up_logs(names, os.environ)
    if logs is not None:
        sending.append(logs)
    if sends("metrics", os.environ):
        process = names[0] if len(names) == 1 else PROCESS
        push = importlib.import_module("muster.bus.otel_metrics").to_collector(process, registries, os.environ)
        sending.append(push)
    try:
        yield
    finally:
        for one in sending:
            one.close()


def _calm_collector() -> None:
    """Let the cycle collector look at what is new and seldom at what stays.

    A core's state is large, lives long and has no cycles, but every full collection walks all of it: with the
    interpreter's thresholds that was a quarter of the processor time of a surge, and its pauses the tail of the
    latency. The modules loaded by now are never garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


async def run(
    services: Sequence[CoreService | Hosted], settings: Settings, *, until: asyncio.Event | None = None
) -> None:
    """Host services until SIGTERM or SIGINT, or until `until` is set; then leave in order, leases released.

    Raises DisconnectedError; PoisonedError and UnrecoverableError if a single service is hosted; CredentialsError.
    """
    stop = until or asyncio.Event()
    with _signals(stop):
        async with AsyncExitStack() as stack:
            process = Process(services, settings, stack)
            await process.start()
            await process.wait(stop)


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set `stop`, if this is the main thread's loop."""
    loop = asyncio.get_running_loop()
    handled = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(RuntimeError, ValueError):  # not in the main thread: the caller stops us
            loop.add_signal_handler(number, stop.set)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
