import { store } from "../../live/store";
import { format } from "../../ui";
import type { FactRow } from "../../wire";

/** What a fact is about, as a link where there is a page of it. */
export function Subject({ fact }: { fact: FactRow }) {
  const id = fact.subject_id;
  switch (fact.kind) {
    case "job": {
      const name = store.jobName(id);
      return (
        <a href={`/jobs/${id}`} title={id}>
          {name || format.shortId(id)}
          {name && <span class="muted"> {format.shortId(id)}</span>}
        </a>
      );
    }
    case "node":
      return <a href={`/fleet?node=${encodeURIComponent(id)}`}>{id}</a>;
    case "queue":
      return <a href={`/queues?queue=${encodeURIComponent(id)}`}>{id}</a>;
    case "scale":
      return <a href={`/scale?choice=${encodeURIComponent(id)}`}>{id}</a>;
    default:
      return <span title={id}>{id}</span>;
  }
}
