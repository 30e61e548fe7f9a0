import { format } from "../../ui";
import type { ConditionsAnswer } from "../../wire";
import { HEIGHT, historyOf, timeBetween, WIDTH } from "./history";

/** How many nodes and GPUs were not healthy at any time, and how long it is from one problem to the next. */
export function Picture({ answer }: { answer: ConditionsAnswer }) {
  const history = historyOf(answer);
  if (!history) {
    return <p class="muted">No hardware was unhealthy in the recorded history.</p>;
  }
  const { fromNs, toNs, points, now, most } = history;
  const between = timeBetween(answer);
  return (
    <figure class="health-history">
      <span class="muted">{most}</span>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Not healthy over time: ${now} now, ${most} at the most since ${format.instant(fromNs)}`}
      >
        <polygon class="health-area" points={`0,${HEIGHT} ${points} ${WIDTH},${HEIGHT}`} />
        <polyline class="health-line" points={points} />
      </svg>
      <figcaption class="muted">
        <span>{format.instant(fromNs)}</span>
        <span>{format.instant(toNs)}</span>
      </figcaption>
      {between && (
        <p>
          <b>{format.duration(between.seconds)}</b> between failures in the fleet,{" "}
          <b>{format.duration(between.perNodeS)}</b> of one node: {format.many(between.problems, "problem")} within{" "}
          {format.duration(between.windowS)}.
        </p>
      )}
    </figure>
  );
}
