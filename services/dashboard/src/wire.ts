/** What the gateway answers and the projector publishes, and the names by which the pages know it. */

import type { FactView, JobView, NodeView, Phase, QueueView, ReservationView, TokenRecord } from "./models";

export type * from "./models";

/** One GPU: utilisation in per cent, temperature in °C, memory used in MiB, power in W. */
export type Reading = [utilPct: number, tempC: number, memoryMib: number, powerW: number];

export type JobRow = JobView;
export type NodeRow = NodeView;
export type QueueRow = QueueView;
export type ReservationRow = ReservationView;
export type FactRow = FactView;
export type Me = TokenRecord;

export const PUBLIC_AUDIENCE = "public";
/** Stands for the federation's log where a cluster is named. */
export const FED_CLUSTER = "fed";
export const FED_STREAM = "FED";

const ENDED: ReadonlySet<Phase> = new Set(["succeeded", "failed", "cancelled", "timed-out"]);

/** Whether nothing more will happen to a job in that phase. */
export function isOver(phase: Phase): boolean {
  return ENDED.has(phase);
}
