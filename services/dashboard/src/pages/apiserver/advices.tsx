import { Badge, format, Panel } from "../../ui";
import type { StandingAdvice } from "../../wire";

/** What endangers the API server now, worst first, each with what to do. */
export function Advices({ advices }: { advices: readonly StandingAdvice[] }) {
  if (!advices.length) {
    return null;
  }
  return (
    <Panel title="Advice">
      <ol class="advices">
        {advices.map((one) => (
          <li key={one.id}>
            <p class="advice-head">
              <Badge tone={one.severity === "critical" ? "bad" : "warn"}>{one.code.replaceAll("-", " ")}</Badge>
              <b>{one.about}</b>
              {one.since > 0 && <small class="muted">since {format.instant(one.since)}</small>}
            </p>
            <p>{one.detail}</p>
            <p class="muted">{one.cure}</p>
          </li>
        ))}
      </ol>
    </Panel>
  );
}
