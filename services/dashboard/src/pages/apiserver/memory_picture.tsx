import { format } from "../../ui";
import type { ApiServerReplica } from "../../wire";
import { chartOf, HEIGHT, memoryWords, WIDTH } from "./memory";

const COLOURS = 6;

/** A line for each replica, so that one that grows away from the others is seen. */
export function MemoryPicture({ replicas }: { replicas: readonly ApiServerReplica[] }) {
  const chart = chartOf(replicas);
  if (!chart) {
    return <p class="muted">The chart begins with the second scrape of the metrics.</p>;
  }
  const told = chart.lines.map((line) => `${line.name} ${memoryWords(line.newestMib)}`).join(", ");
  return (
    <figure class="memory">
      <span class="memory-top muted">{memoryWords(chart.maxMib)}</span>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Memory of API servers over time: ${told}`}
      >
        {[0.25, 0.5, 0.75].map((share) => (
          <line key={share} class="memory-rule" x1={0} x2={WIDTH} y1={HEIGHT * share} y2={HEIGHT * share} />
        ))}
        {chart.lines.map((line, index) => (
          <polyline key={line.name} class={`memory-line memory-${index % COLOURS}`} points={line.points} />
        ))}
      </svg>
      <figcaption>
        <span class="muted">{format.instant(chart.fromNs)}</span>
        <span class="memory-key">
          {chart.lines.map((line, index) => (
            <span key={line.name} class={`memory-${index % COLOURS}`}>
              {line.name}
            </span>
          ))}
        </span>
        <span class="muted">{format.instant(chart.toNs)}</span>
      </figcaption>
    </figure>
  );
}
