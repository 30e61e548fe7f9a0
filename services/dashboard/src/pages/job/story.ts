/** One fact in a sentence, from its body: what happened, with the numbers that matter. Pure. */

import { milliHeld } from "../../slots";
import type { FactView, Slot } from "../../wire";
import { brief, gpus, long, nodeList } from "../jobs/words";
import { reasonWords } from "./headline";

type Body = Readonly<Record<string, unknown>>;

/** The fact as a sentence; its name in words where nothing more is known. Never throws. */
export function storyOf(fact: FactView): string {
  const body = bodyOf(fact);
  const told = body ? tell(fact, body) : "";
  return told || plain(fact.name);
}

/** The body as an object; undefined if there is none, or if it cannot be read. */
export function bodyOf(fact: FactView): Body | undefined {
  if (!fact.body) return undefined;
  try {
    const body: unknown = JSON.parse(fact.body);
    return typeof body === "object" && body !== null ? (body as Body) : undefined;
  } catch {
    return undefined;
  }
}

/** `pods-started` as `Pods started`. */
export function plain(name: string): string {
  const words = name.replaceAll("-", " ");
  return (words.charAt(0).toUpperCase() + words.slice(1)).replace(/^Gpu /, "GPU ");
}

function tell(fact: FactView, body: Body): string {
  if (fact.kind !== "job" && fact.kind !== "pods") return other(fact, body);
  switch (fact.name) {
    case "submitted":
      return `Submitted by ${nested(body, "job", "principal")}`;
    case "routed":
      return `Routed to cluster ${text(body, "cluster")}`;
    case "queued":
      return sentence(`Waits in ${text(body, "queue")}`, queuedWhy(body));
    case "placed":
      return `Placed on ${placesOf(body)}${sliceOf(body)}`;
    case "reserved":
      return sentence(`Gets ${placesOf(body)} later`, text(body, "basis"));
    case "reservation-lifted":
      return sentence("The reserved capacity is free again", text(body, "reason"));
    case "unschedulable":
      return sentence(`Cannot be placed: ${reasonWords(text(body, "reason"))}`, text(body, "detail"));
    case "running":
      return `All pods run; preflight ${text(body, "preflight") === "null" ? "not requested" : `by ${text(body, "preflight")}`}`;
    case "stop-requested":
      return sentence(
        `Asked to stop within ${long(number(body, "grace_s"))}: ${reasonWords(text(body, "reason"))}`,
        [madeWay(body), text(body, "detail")].filter(Boolean).join("; "),
      );
    case "resize-requested":
      return sentence(`To run with ${placesOf(body)}`, madeWay(body));
    case "resized":
      return `Runs with ${placesOf(body)}`;
    case "pods-resized":
      return `${number(body, "slots")} pods run`;
    case "pods-started":
      return "All pods of the gang started";
    case "pods-exited":
      return exited(body);
    case "checkpointed":
      return "Wrote a checkpoint";
    case "cancel-requested":
    case "hold-requested":
    case "release-requested":
    case "requeue-requested":
    case "edit-requested":
      return sentence(
        `${plain(fact.name.replace("-requested", ""))} requested by ${text(body, "principal")}`,
        text(body, "reason"),
      );
    case "priority-requested":
      return sentence(
        `Priority ${number(body, "priority")} requested by ${text(body, "principal")}`,
        text(body, "reason"),
      );
    case "reprioritised":
      return sentence(
        `Has priority ${number(body, "priority")} now, had ${number(body, "was")}; requested by ${text(body, "principal")}`,
        text(body, "reason"),
      );
    case "edited":
      return sentence(
        `Its run-time limit is ${number(body, "total_run_time_s")} s now, and its time slice ${number(body, "min_slice_s")} s; requested by ${text(body, "principal")}`,
        text(body, "reason"),
      );
    case "held":
      return sentence(`Held by ${text(body, "principal")}`, text(body, "reason"));
    case "unheld":
      return sentence(`Released by ${text(body, "principal")}; it keeps its place in the queue`, text(body, "reason"));
    case "hold-refused":
    case "release-refused":
    case "priority-refused":
    case "requeue-refused":
    case "edit-refused":
      return sentence(`${plain(fact.name)} to ${text(body, "principal")}`, text(body, "reason"));
    case "job-ended":
      return sentence(`The federation recorded the end: ${text(body, "phase")}`, text(body, "reason"));
    case "succeeded":
    case "failed":
    case "cancelled":
    case "timed-out":
      return finished(fact.name, body);
    default:
      return sentence(plain(fact.name), text(body, "reason"));
  }
}

/** Facts of other kinds that were made for the job. */
function other(fact: FactView, body: Body): string {
  const about = `${plain(fact.kind)} ${fact.subject_id}: ${plain(fact.name).toLowerCase()}`;
  return sentence(about.replace("gpu ", "GPU "), text(body, "reason") || text(body, "detail") || text(body, "error"));
}

function queuedWhy(body: Body): string {
  const reason = text(body, "reason");
  const attempt = number(body, "attempt");
  const why = reason && reason !== "submitted" ? reasonWords(reason) : "";
  return [attempt > 1 ? `run ${attempt}` : "", why, text(body, "detail")].filter(Boolean).join("; ");
}

function exited(body: Body): string {
  const code = number(body, "exit_code");
  const parts = [code ? `exit code ${code}` : "", text(body, "node") ? `first on ${text(body, "node")}` : ""];
  return sentence(
    `Pods ended (${text(body, "outcome")}) after ${brief(number(body, "ran_s"))}`,
    parts.filter(Boolean).join(", "),
  );
}

function finished(name: string, body: Body): string {
  const code = number(body, "exit_code");
  const more = [name === "failed" || code ? `exit code ${code}` : "", text(body, "reason")].filter(Boolean).join("; ");
  return sentence(`${plain(name)} after ${brief(number(body, "ran_s"))} of running`, more);
}

function madeWay(body: Body): string {
  const whom = text(body, "made_way_for");
  return whom ? `makes way for ${whom}` : "";
}

function placesOf(body: Body): string {
  const slots = (Array.isArray(body["slots"]) ? body["slots"] : []) as Slot[];
  const milli = slots.reduce((sum, slot) => sum + milliHeld(slot), 0);
  const held = milli ? `, ${gpus(milli)} GPUs` : "";
  return `${nodeList(slots.map((slot) => slot.node)) || "no node"}${held}`;
}

function sliceOf(body: Body): string {
  const slice = number(body, "slice_s");
  return slice ? `; protected from preemption for ${long(slice)} of running` : "";
}

function sentence(first: string, more: string): string {
  return more ? `${first}: ${more}` : first;
}

function text(body: Body, key: string): string {
  const value = body[key];
  return typeof value === "string" ? value : "";
}

function nested(body: Body, outer: string, key: string): string {
  const value = body[outer];
  return typeof value === "object" && value !== null ? text(value as Body, key) : "";
}

function number(body: Body, key: string): number {
  const value = body[key];
  return typeof value === "number" ? value : 0;
}
