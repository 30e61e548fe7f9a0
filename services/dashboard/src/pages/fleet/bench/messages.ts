/** What the worker that plays the stack sends to the page: bytes, as the broker would. */

import type { SyntheticOptions } from "../synthetic";
import type { Answers } from "./composer";

export interface Play {
  fleet: SyntheticOptions;
  pool: number;
  jobsPerS: number;
  isStill: boolean;
}

export type Message =
  | { kind: "snapshot"; bytes: Uint8Array<ArrayBuffer>; answers: Answers }
  | { kind: "slice"; bytes: Uint8Array<ArrayBuffer>; answers: Answers }
  | { kind: "telemetry"; bytes: Uint8Array<ArrayBuffer> };
