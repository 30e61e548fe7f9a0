"""A job's readings and output of the last while, from the streams that keep them."""

import asyncio
from dataclasses import dataclass

from muster.bus.clock import TimeSource
from muster.bus.names import output_stream, telemetry_stream
from muster.core.instant import NS_PER_S
from muster.gateway.measured import fewer, job_readings, output_page
from muster.gateway.recent import RecentMessages
from muster.schemas.live import JobReadings, OutputPage
from muster.schemas.subjects import output_subject, telemetry_subject
from muster.schemas.views import JobView

NODES_MAX = 64
SAMPLES_MAX = 8_192
OUTPUT_MESSAGES_MAX = 8_192
OUTPUT_WINDOWS_S = (120.0, 3_600.0)  # looked through in turn until there are lines enough
SHORTER = 2  # times shorter than what would just fit: messages do not come evenly
TRIES_MAX = 4


@dataclass(frozen=True)
class Readings:
    """Reads what nodes and jobs of these clusters sent."""

    recent: RecentMessages
    clusters: tuple[str, ...]
    time: TimeSource

    async def of_job(self, job: JobView, *, since_s: float) -> JobReadings:
        """What the job's devices measured since then, on the first NODES_MAX of its nodes; fewer if that is too much.

        Raises UnreachableError.
        """
        since_ns = self.time.wall() - round(since_s * NS_PER_S)
        nodes = job.nodes[:NODES_MAX] if job.cluster in self.clusters else ()
        for _ in range(TRIES_MAX):
            if not nodes:
                break
            found = await self.recent.since(
                telemetry_stream(job.cluster),
                [telemetry_subject(job.cluster, node) for node in nodes],
                since_ns=since_ns,
                messages_max=SAMPLES_MAX,
            )
            if found.count <= SAMPLES_MAX:
                return await asyncio.to_thread(job_readings, job.id, found.messages)
            nodes = tuple(fewer(nodes, found=found.count, most=SAMPLES_MAX))
        return JobReadings(job_id=job.id)

    async def output(self, job: JobView, *, lines: int) -> OutputPage:
        """The newest lines that the job printed, as far as they are kept. Raises UnreachableError."""
        page = OutputPage(job_id=job.id)
        if job.cluster not in self.clusters:
            return page
        for window_s in OUTPUT_WINDOWS_S:
            page, is_cut = await self._printed(job, window_s, lines)
            if is_cut or len(page.lines) >= lines:
                break
        return page

    async def _printed(self, job: JobView, window_s: float, lines: int) -> tuple[OutputPage, bool]:
        """Lines of the last while; True if it was made shorter because there was too much."""
        is_cut = False
        for _ in range(TRIES_MAX):
            found = await self.recent.since(
                output_stream(job.cluster),
                [output_subject(job.cluster, job.id)],
                since_ns=self.time.wall() - round(window_s * NS_PER_S),
                messages_max=OUTPUT_MESSAGES_MAX,
            )
            if found.count <= OUTPUT_MESSAGES_MAX:
                return await asyncio.to_thread(output_page, job.id, found.messages, lines=lines), is_cut
            is_cut = True
            window_s *= OUTPUT_MESSAGES_MAX / found.count / SHORTER
        return OutputPage(job_id=job.id), is_cut
