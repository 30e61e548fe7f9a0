/** Who may do what with a job, with the reason where it may not be done. Pure; the gateway decides, this only foretells. */

import type { JobView, Me } from "../../wire";
import { TERMINAL } from "../jobs/words";

export type ActionName = "cancel" | "hold" | "release" | "priority";

/** why: what stands in the way, "" if nothing does. */
export interface Action {
  readonly name: ActionName;
  readonly title: string;
  readonly why: string;
}

const RUNS: ReadonlySet<string> = new Set(["placed", "running", "stopping"]);

/** What can be done with the job, in the order of the buttons: hold or release, whichever would change something. */
export function actionsFor(job: JobView, me: Me | null): readonly Action[] {
  const hold = job.held
    ? { name: "release" as const, title: "Release", why: whyNot(job, me, "release") }
    : { name: "hold" as const, title: "Hold", why: whyNot(job, me, "hold") };
  return [
    { name: "priority", title: "Priority", why: whyNot(job, me, "priority") },
    hold,
    { name: "cancel", title: "Cancel", why: whyNot(job, me, "cancel") },
  ];
}

function whyNot(job: JobView, me: Me | null, action: ActionName): string {
  if (TERMINAL.has(job.phase)) return `The job has ended: ${job.phase}.`;
  if (!me) return "Your identity is not known yet.";
  const refused = whyNotAllowed(job, me);
  if (refused) return refused;
  if (action === "hold" && RUNS.has(job.phase)) return "The job is already placed. Only a waiting job can be held.";
  return "";
}

/** Why somebody may not act for the job's team, which reading its output takes, too; "" if they may. */
export function whyNotAllowed(job: JobView, me: Me): string {
  if (me.role === "operator" || me.role === "admin") return "";
  if (me.role === "viewer")
    return `Your token is read-only (${me.principal} is a viewer). Ask a member of team ${job.team}.`;
  if (me.teams.includes(job.team)) return "";
  return `The job belongs to team ${job.team}; your teams: ${me.teams.join(", ") || "none"}. Ask an operator.`;
}
