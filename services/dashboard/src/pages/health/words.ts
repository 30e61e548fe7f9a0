/** What health says, as people read it. */

import type { Tone } from "../../ui";
import type { Condition, FaultClass, HealthPhase } from "../../wire";

export const PHASE_TONE: Readonly<Record<HealthPhase, Tone>> = {
  healthy: "ok",
  suspect: "warn",
  quarantined: "bad",
  repairing: "info",
  verifying: "info",
};

export const CLASS_TONE: Readonly<Record<FaultClass, Tone>> = {
  note: "neutral",
  application: "info",
  degraded: "warn",
  fatal: "bad",
};

/** "xid-79, remap-pending: fell off the bus". */
export function reasonOf({ faults, because }: Condition): string {
  const codes = [...new Set(faults.map((fault) => fault.told.code))].join(", ");
  const said = because || faults[0]?.told.because || faults[0]?.told.detail || "";
  return codes && said ? `${codes}: ${said}` : codes || said;
}

/** "reset, try 2"; "" while nothing was tried. */
export function triesOf({ action, attempt }: Condition): string {
  const tries = attempt > 0 ? `try ${attempt}` : "";
  return action && tries ? `${action}, ${tries}` : action || tries;
}

/** Who has it, and whether jobs can still be there. */
export function keptOf({ withheld, maintained_by }: Condition): string {
  const held = withheld ? "no jobs hold it" : "jobs may still hold it";
  return maintained_by.length ? `${held}; kept by ${maintained_by.join(", ")}` : held;
}
