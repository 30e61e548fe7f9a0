/**
 * The first line of a job's page: what somebody who opens it wants to know before anything else. Pure.
 *
 * For a waiting job that is why it waits, its place, when it starts and what would help; for others where they stand.
 */

import type { JobView, WhyAnswer } from "../../wire";
import {
  brief,
  clock,
  counted,
  distance,
  gpus,
  heldMilli,
  long,
  NS_PER_S,
  nodeList,
  ordinal,
  when,
} from "../jobs/words";

/** Answers to one question each. told: the answer; more: what it rests on. */
export interface Answer {
  readonly question: string;
  readonly told: string;
  readonly more: string;
}

/** tone: how it is coloured. sentence: one that stands alone. answers: in the order of asking. */
export interface Headline {
  readonly tone: "waiting" | "held" | "good" | "going" | "bad" | "over";
  readonly sentence: string;
  readonly answers: readonly Answer[];
}

/** why: the scheduler's answer, null while it is not there. */
export function headline(job: JobView, why: WhyAnswer | null, nowNs: number): Headline {
  switch (job.phase) {
    case "submitted":
    case "queued":
      return job.held ? heldHeadline(job, why, nowNs) : waiting(job, why, nowNs);
    case "placed":
      return placed(job, nowNs);
    case "running":
      return running(job, nowNs);
    case "stopping":
      return stopping(job, why);
    default:
      return ended(job, nowNs);
  }
}

/** The reasons of the scheduler as people say them. */
const REASONS: Readonly<Record<string, string>> = {
  "no-node": "no node of the kind it asks for",
  model: "no node has the GPU model it asks for",
  gpu: "not enough free GPUs",
  cpu: "not enough free CPU beside the GPUs",
  memory: "not enough free memory beside the GPUs",
  fragmented: "free GPUs are scattered over too many nodes",
  topology: "free GPUs are not close enough together",
  health: "nodes that would do are out of service",
  reservation: "what is free is kept for others",
  quota: "its queue's quota is used up",
  "borrowing-limit": "its queue may borrow no more",
  "non-preemptible": "a job that may not be preempted may not borrow",
  behind: "others of its shape stand in front",
  turn: "it is about to be tried",
  "unknown-queue": "there is no such queue",
  "closed-queue": "its queue is closed",
  "too-large": "it asks for more than there is",
  "no-sharing": "no GPU is shared between jobs here",
  "scheduler-unreachable": "the scheduler does not answer just now",
  "not-routed": "no cluster has taken it yet",
  submitted: "it has just come",
  retry: "it is to be run again",
  preempted: "it made way for another job",
  "node-lost": "its node was lost",
  "preflight-failed": "a node failed its check",
  requeued: "a user had it queued again",
  held: "somebody holds it back",
};

/** A reason code in words; the code itself if there are none for it. */
export function reasonWords(code: string): string {
  return REASONS[code] ?? code;
}

function waiting(job: JobView, why: WhyAnswer | null, nowNs: number): Headline {
  const code = why?.reason || job.reason;
  const detail = why?.detail || job.detail;
  const place = why?.position ? `${ordinal(why.position)} of ${why.waiting} in ${job.queue}` : "";
  const startsAt = why?.expected_start_at || job.reserved_at;
  return {
    tone: "waiting",
    sentence: waitingSentence(job, code, place, startsAt, nowNs),
    answers: [
      {
        question: "Why",
        told: capital(detail || reasonWords(code)) || "Not known yet",
        more: code && `reason: ${code}`,
      },
      { question: "Place", told: place || (why ? "Not in a queue" : "…"), more: place ? placeWords(job) : "" },
      startAnswer(why, startsAt, nowNs),
      {
        question: "Hint",
        told: why?.cure ? capital(why.cure) : why ? "Wait" : "…",
        more: "",
      },
    ],
  };
}

/** `Waits for 11 min, 3rd of 12 in llm, starts by 14:05 (in 12 min): its queue's quota is used up.` */
function waitingSentence(job: JobView, code: string, place: string, startsAt: number, nowNs: number): string {
  const parts = [`Waits for ${long((nowNs - job.submitted_at) / NS_PER_S)}`];
  if (place) parts.push(place);
  if (startsAt > nowNs) parts.push(`starts by ${when(startsAt, nowNs)}`);
  return `${parts.join(", ")}${code ? `: ${reasonWords(code)}` : ""}.`;
}

function startAnswer(why: WhyAnswer | null, startsAt: number, nowNs: number): Answer {
  if (startsAt) {
    const late = startsAt < nowNs ? "At any moment" : `By ${clock(startsAt, nowNs)}, ${distance(startsAt, nowNs)}`;
    return { question: "Starts", told: late, more: why?.expected_basis ?? "" };
  }
  return { question: "Starts", told: why ? "Unknown" : "…", more: why?.expected_basis ?? "" };
}

function placeWords(job: JobView): string {
  const again = job.attempt > 1 ? `, for its ${ordinal(job.attempt)} run` : "";
  return `priority ${job.priority}, ${gpus(job.gpu_milli)} GPUs${again}`;
}

function heldHeadline(job: JobView, why: WhyAnswer | null, nowNs: number): Headline {
  const detail = why?.detail || job.detail;
  return {
    tone: "held",
    sentence: `Held for ${long((nowNs - (job.queued_at || job.submitted_at)) / NS_PER_S)}: not placed until it is released.`,
    answers: [
      { question: "Why", told: "A user holds the job", more: detail },
      { question: "Place", told: "Skipped", more: "the job keeps its age, and thus its place after the release" },
      { question: "Starts", told: "After its release", more: "" },
      { question: "Hint", told: why?.cure ? capital(why.cure) : "Release it", more: "" },
    ],
  };
}

function placed(job: JobView, nowNs: number): Headline {
  const since = job.placed_at ? brief(Math.max(0, nowNs - job.placed_at) / NS_PER_S) : "";
  return {
    tone: "going",
    sentence: `Placed on ${nodeList(job.nodes)}; the pods are starting${since ? `, for ${since}` : ""}.`,
    answers: [where(job), waited(job), sliceAnswer(job, nowNs)],
  };
}

function running(job: JobView, nowNs: number): Headline {
  const shrunk = heldMilli(job) && heldMilli(job) !== job.gpu_milli;
  const size = shrunk ? `${gpus(heldMilli(job))} of ${gpus(job.gpu_milli)} GPUs` : `${gpus(job.gpu_milli)} GPUs`;
  return {
    tone: "good",
    sentence: `Has run for ${long((nowNs - job.running_at) / NS_PER_S)} with ${size} on ${counted(job.nodes.length, "node")}.`,
    answers: [where(job), waited(job), sliceAnswer(job, nowNs), checkpointAnswer(job, nowNs)],
  };
}

function where(job: JobView): Answer {
  return { question: "Where", told: nodeList(job.nodes) || "Nowhere yet", more: counted(job.slots.length, "replica") };
}

function waited(job: JobView): Answer {
  const start = job.placed_at || job.running_at;
  const told = start ? brief(Math.max(0, start - job.submitted_at) / NS_PER_S) : "…";
  return { question: "Waited", told, more: job.attempt > 1 ? `this is its ${ordinal(job.attempt)} run` : "" };
}

function sliceAnswer(job: JobView, nowNs: number): Answer {
  if (!job.preemptible)
    return { question: "Protected from preemption", told: "Until its end", more: "the job is not preemptible" };
  if (!job.slice_ends_at)
    return { question: "Protected from preemption", told: "The time slice begins when the job runs", more: "" };
  if (job.slice_ends_at < nowNs) {
    return {
      question: "Protected from preemption",
      told: "No more",
      more: `its time slice ended at ${clock(job.slice_ends_at, nowNs)}; other jobs may preempt it`,
    };
  }
  return {
    question: "Protected from preemption",
    told: `Until ${when(job.slice_ends_at, nowNs)}`,
    more: "then other jobs may preempt it",
  };
}

function checkpointAnswer(job: JobView, nowNs: number): Answer {
  const told = job.checkpointed_at ? capital(distance(job.checkpointed_at, nowNs)) : "None";
  const more = job.checkpointed_at ? "" : "what it did would be lost if it had to stop";
  return { question: "Last checkpoint", told, more };
}

function stopping(job: JobView, why: WhyAnswer | null): Headline {
  const whom = job.made_way_for ? ` to make way for ${job.made_way_for}` : "";
  return {
    tone: "going",
    sentence: `Is being stopped${whom}.`,
    answers: [
      { question: "Why", told: capital(reasonWords(job.reason || "stopping")), more: why?.detail || job.detail },
      where(job),
    ],
  };
}

function ended(job: JobView, nowNs: number): Headline {
  const ran = job.running_at && job.ended_at ? (job.ended_at - job.running_at) / NS_PER_S : 0;
  const after = ran ? ` after ${brief(ran)}` : " before it ran";
  const words: Readonly<Record<string, string>> = {
    succeeded: "Succeeded",
    failed: "Failed",
    cancelled: "Was cancelled",
    "timed-out": "Exceeded its run time",
  };
  const code = job.phase === "failed" ? ` with exit code ${job.exit_code}` : "";
  const answers: Answer[] = [
    { question: "Ended", told: when(job.ended_at, nowNs), more: "" },
    { question: "Waited", told: waited(job).told === "…" ? "To its end" : waited(job).told, more: waited(job).more },
    {
      question: "Ran on",
      told: nodeList(job.nodes) || "Nothing",
      more: job.gpu_milli ? `${gpus(job.gpu_milli)} GPUs` : "",
    },
  ];
  const died = job.phase === "failed" ? exitWords(job.exit_code) : "";
  if (died && job.reason.startsWith("exit code")) {
    answers.unshift({ question: "Why", told: capital(died), more: job.detail });
  } else if (job.reason || job.detail || died) {
    answers.unshift({
      question: "Why",
      told: capital(job.detail || reasonWords(job.reason) || died),
      more: job.detail || job.reason ? died : "",
    });
  }
  return {
    tone: job.phase === "succeeded" ? "over" : job.phase === "cancelled" ? "over" : "bad",
    sentence: `${words[job.phase] ?? job.phase}${after}${code}.`,
    answers,
  };
}

const SIGNALS: Readonly<Record<number, string>> = {
  1: "hung up",
  2: "interrupted",
  6: "aborted",
  9: "killed, often for want of memory",
  11: "a bad memory access",
  15: "asked to end",
};

/** What an exit code tells by itself: codes above 128 are signals, as shells tell them. */
function exitWords(code: number): string {
  const signal = SIGNALS[code - 128];
  return signal
    ? `exit code ${code}: ${signal} (signal ${code - 128})`
    : code
      ? `exit code ${code}, the program's own`
      : "";
}

function capital(text: string): string {
  return text ? `${text.charAt(0).toUpperCase()}${text.slice(1)}` : "";
}
