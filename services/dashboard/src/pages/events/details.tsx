import { Badge, format, Pairs, Panel, useFetched } from "../../ui";
import type { FactRow } from "../../wire";
import { pretty, toneOf } from "./filter";
import { Subject } from "./subject";

interface DetailsProps {
  fact: FactRow;
  onClose: () => void;
  onShow: (id: string) => void;
  find: (id: string) => FactRow | undefined;
}

/** One fact with its body and what led to it. */
export function Details({ fact, onClose, onShow, find }: DetailsProps) {
  return (
    <Panel
      class="event-details"
      title="Fact"
      note={<Badge tone={toneOf(fact.name)}>{fact.name}</Badge>}
      actions={
        <button type="button" class="button button-quiet" aria-label="Close the details" onClick={onClose}>
          ✕
        </button>
      }
    >
      <Pairs
        pairs={[
          ["Subject", <Subject key="subject" fact={fact} />],
          ["Writer", fact.writer],
          ["Time", format.instantInFull(fact.time)],
          ["Log", `${fact.stream} ${fact.seq}`],
          ["Cluster", fact.cluster || "none yet"],
          ["Trace", fact.trace ? <code>{fact.trace.split("-")[1] ?? fact.trace}</code> : "–"],
        ]}
      />
      <h3>Because of</h3>
      {fact.causes.length === 0 && <p class="muted">This fact has no cause.</p>}
      <ul class="causes">
        {fact.causes.map((id) => (
          <Cause key={id} id={id} cause={find(id)} onShow={onShow} />
        ))}
      </ul>
      <h3>Body</h3>
      <Body fact={fact} />
    </Panel>
  );
}

interface CauseProps {
  id: string;
  cause: FactRow | undefined;
  onShow: (id: string) => void;
}

function Cause({ id, cause, onShow }: CauseProps) {
  return (
    <li>
      {cause ? (
        <button type="button" class="link" onClick={() => onShow(id)}>
          {cause.kind} {cause.name}
        </button>
      ) : (
        <code class="muted">{id}</code>
      )}
    </li>
  );
}

/** The public form of a job's fact has no body: then the API is asked, which has all of a job's facts. */
function Body({ fact }: { fact: FactRow }) {
  const missing = fact.body === "" && fact.kind === "job";
  const asked = useFetched<{ facts: FactRow[] }>(missing ? `/v1/jobs/${fact.subject_id}/events` : "");
  const body = fact.body || asked.value?.facts.find(({ id }) => id === fact.id)?.body || "";
  if (body) {
    return (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      <pre class="body" tabIndex={0}>
        {pretty(body)}
      </pre>
    );
  }
  if (asked.problem) {
    return <p class="muted">{asked.problem.message}</p>;
  }
  return (
    <p class="muted">
      {missing && !asked.value ? "Loading …" : "The fact has no further content, or it belongs to another team."}
    </p>
  );
}
