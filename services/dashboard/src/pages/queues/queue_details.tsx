import { Pairs, Panel } from "../../ui";
import type { QueueView } from "../../wire";
import { gpus, long } from "../jobs/words";
import type { Figures } from "./figures";
import { wordsOf } from "./queue_bar";
import { amountOf, GPU } from "./tree";

/** The chosen queue's knobs, and what the bar says in words. */
export function QueueDetails({ queue, figures, resource }: { queue: QueueView; figures: Figures; resource: string }) {
  const { spec } = queue;
  const preemption = spec?.preemption;
  const length = (seconds: number | null | undefined) =>
    seconds === null || seconds === undefined ? "" : long(seconds);
  const pairs: [string, string][] = [
    ["Nominal quota", amountsOf(queue.quota) || gpus(queue.gpu_milli_quota).replace("-", "none of its own")],
    ["Borrowing limit", amountsOf(queue.borrowing_limit) || "none"],
    ["Lending limit", amountsOf(queue.lending_limit) || "lends all of it"],
    ["Holds", amountsOf(queue.held) || "nothing"],
    ["Weight", String(queue.weight)],
    ["Order", queue.order ?? spec?.order ?? "as above"],
    ["Share, recent", `${queue.share.toFixed(2)}, ${queue.used_share.toFixed(2)}`],
    ["Accepts new jobs", queue.closed ? "no, the queue is closed" : "yes"],
    ["Takes jobs of", teamsOf(queue)],
    ["Priority at most", String(spec?.priority_max ?? "")],
    ["Reserves after", length(spec?.starving_after_s)],
    ["Half-life of past use", length(spec?.half_life_s)],
    ["Run time at most", length(spec?.run_time_max_s)],
    ["Slice at most", length(spec?.min_slice_max_s)],
    ["Preempts within", preemption?.within_queue ?? ""],
    ["Reclaims", preemption?.reclaim ?? ""],
    ["Queue per user", spec?.user_template ? "yes" : ""],
  ];
  return (
    <Panel title={`Queue ${queue.name}`} note={queue.parent ? `below ${queue.parent}` : "at the top"}>
      <p class="qwords">{wordsOf(figures, resource)}.</p>
      <Pairs pairs={pairs.filter(([, value]) => value)} />
    </Panel>
  );
}

/** The teams that this queue itself names; those of the queues above may submit too. */
function teamsOf(queue: QueueView): string {
  const teams = [...new Set([queue.name, ...(queue.spec?.teams ?? [])])].join(", ");
  return queue.parent ? `${teams}, and teams of the queues above` : teams;
}

function amountsOf(amounts: Readonly<Record<string, number>>): string {
  return Object.entries(amounts)
    .sort(([one], [two]) => Number(two.startsWith(GPU)) - Number(one.startsWith(GPU)) || one.localeCompare(two))
    .filter(([, value]) => value !== 0 || Object.keys(amounts).length === 1)
    .map(([resource, value]) => amountOf(resource, value))
    .join(", ");
}
