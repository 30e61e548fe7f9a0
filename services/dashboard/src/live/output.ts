/** The lines that a running job prints, as they come. What it printed before is `GET /v1/jobs/{id}/output`. */

import type { OutputLine, OutputLines } from "../wire";
import { live } from "./connection";

const decoder = new TextDecoder();

/** Be called with new lines until the returned function is. Only who acts for the team gets any. */
export function followOutput(
  cluster: string,
  team: string,
  jobId: string,
  onLines: (lines: OutputLine[]) => void,
): () => void {
  return live.listen(`view.${cluster}.${team}.output.${jobId}`, (body) => {
    const { lines, at, group, replica, attempt } = JSON.parse(decoder.decode(body)) as OutputLines;
    onLines(lines.map((text) => ({ at, group, replica, attempt, text })));
  });
}
