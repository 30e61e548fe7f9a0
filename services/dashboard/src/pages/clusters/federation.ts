/** What the federation says of its clusters and of where jobs go, as people read it. Pure. */

import * as format from "../../ui/format";
import type { Choice, ClusterView, FederationView, MemberView, RoutingRule } from "../../wire";

/** A cluster as it says itself and as the federation has it; one of the two may be missing. */
export interface Seen {
  name: string;
  state: string;
  cluster: ClusterView | null;
  member: MemberView | null;
}

/** By name; also those that only the federation remembers, as one that is lost. */
export function seenClusters(clusters: readonly ClusterView[], federation: FederationView | undefined): Seen[] {
  const members = new Map(federation?.clusters.map((member) => [member.name, member]));
  const names = new Set([...clusters.map((one) => one.name), ...members.keys()]);
  return [...names].sort().map((name) => {
    const cluster = clusters.find((one) => one.name === name) ?? null;
    const member = members.get(name) ?? null;
    return { name, state: member?.state ?? cluster?.state ?? "", cluster, member };
  });
}

/** Why a cluster gets no jobs, in sentences; "" for one that gets them. */
export function stateWords({ state, since, by, reason, to, jobs, heard_at }: MemberView): string {
  if (state === "active") {
    return "";
  }
  if (state === "lost") {
    return `Lost: no report since ${format.instant(heard_at)}. Its jobs that may run elsewhere were rerouted. It gets jobs again when it answers.`;
  }
  const who = [since > 0 && `since ${format.instant(since)}`, by && `by ${by}`].filter(Boolean).join(" ");
  const where = to.length ? `New jobs go to ${to.join(", then ")}.` : "New jobs follow the routing rules.";
  const rest = state === "draining" ? `${format.many(jobs, "job")} left there.` : "No jobs are left there.";
  return `${state === "draining" ? "Being drained" : "Drained"} ${who}${reason && `: ${reason}`}. ${where} ${rest}`.replace(
    " .",
    ".",
  );
}

/** Which jobs a rule is for. */
export function matchWords(rule: RoutingRule): string {
  const said = [
    rule.teams.length > 0 && `team ${rule.teams.join(" or ")}`,
    rule.users.length > 0 && `user ${rule.users.join(" or ")}`,
    rule.kinds.length > 0 && rule.kinds.join(" or "),
    ...Object.entries(rule.labels).map(([name, value]) => `${name}=${value}`),
    rule.models.length > 0 && `on ${rule.models.join(" or ")}`,
    sizeWords(rule),
  ].filter(Boolean);
  return said.join(", ") || "every job";
}

function sizeWords({ gpus_min, gpus_max }: RoutingRule): string {
  if (gpus_max === null) {
    return gpus_min > 0 ? `${gpus_min} GPUs or more` : "";
  }
  return gpus_min > 0 ? `${gpus_min} to ${gpus_max} GPUs` : `up to ${gpus_max} GPUs`;
}

/** "atlas (until 50 wait), then borealis; waits if all are full". */
export function routeWords({ clusters, waits }: RoutingRule): string {
  const where = clusters.map((choice) => choice.cluster + overflowWords(choice)).join(", then ");
  return waits ? `${where}; waits if all are full` : where;
}

function overflowWords({ queue_max, expected_start_s_max }: Choice): string {
  const said = [
    queue_max !== null && `until ${queue_max} wait`,
    expected_start_s_max !== null && `until the wait is ${format.duration(expected_start_s_max)}`,
  ].filter(Boolean);
  return said.length ? ` (${said.join(", ")})` : "";
}
