/** The lines that a running job prints, as they come. What it printed before is `GET /v1/jobs/{id}/output`. */

import type { OutputLine, OutputLines } from "../wire";
import { live } from "./connection";

/** Two connections overlap when a credential is renewed; a message that both delivered is among the newest of these. */
const KNOWN_MAX = 64;
const decoder = new TextDecoder();

/** Be called with new lines until the returned function is. Only who acts for the team gets any. */
export function followOutput(
  cluster: string,
  team: string,
  jobId: string,
  onLines: (lines: OutputLine[]) => void,
): () => void {
  const known = new Set<string>();
  const isNew = (message: OutputLines): boolean => {
    const name = `${message.at}/${message.group}/${message.replica}/${message.attempt}/${message.lines.length}`;
    if (known.has(name)) {
      return false;
    }
    known.add(name);
    if (known.size > KNOWN_MAX) {
      const [oldest] = known;
      known.delete(oldest ?? "");
    }
    return true;
  };
  return live.listen(`view.${cluster}.${team}.output.${jobId}`, (body) => {
    const message = JSON.parse(decoder.decode(body)) as OutputLines;
    if (!isNew(message)) {
      return;
    }
    const { lines, at, group, replica, attempt } = message;
    onLines(lines.map((text) => ({ at, group, replica, attempt, text })));
  });
}
