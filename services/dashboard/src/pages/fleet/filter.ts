/** What somebody typed to find nodes and jobs: words, all of which must fit. */

import type { JobView, NodeView } from "../../wire";

export type CellState = "free" | "held" | "starting" | "stopping" | "withheld" | "lost" | "absent" | "none";
export const CELL_STATES: readonly CellState[] = [
  "free",
  "held",
  "starting",
  "stopping",
  "withheld",
  "lost",
  "absent",
  "none",
];
/** Words looked at; more are ignored, and said to be. */
export const WORDS_MAX = 8;

const NODE_KEYS = ["node", "model", "group", "cluster", "in", "domain"] as const;
const JOB_KEYS = ["job", "team", "queue", "user", "phase"] as const;
const KEYS: ReadonlySet<string> = new Set<string>([...NODE_KEYS, ...JOB_KEYS, "state"]);

export interface Word {
  /** "" for a word without a key: it may fit a node or a job. */
  key: string;
  value: string;
}

export interface Filter {
  words: readonly Word[];
  /** All words fit. */
  all: number;
  ignored: readonly string[];
}

export const NO_FILTER: Filter = { words: [], all: 0, ignored: [] };

/** `team:physics state:held gpu-00`: keys are those above, anything else is searched in names and ids. */
export function parseFilter(text: string): Filter {
  const tokens = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const words = tokens.slice(0, WORDS_MAX).map((token): Word => {
    const colon = token.indexOf(":");
    const key = colon > 0 ? token.slice(0, colon) : "";
    return KEYS.has(key) ? { key, value: token.slice(colon + 1) } : { key: "", value: token };
  });
  return { words, all: (1 << words.length) - 1, ignored: tokens.slice(WORDS_MAX) };
}

/** What somebody typed, looked for in one cluster only; "" is all. */
export const filterIn = (cluster: string, text: string): Filter =>
  parseFilter(cluster ? `in:${cluster} ${text}` : text);

const has = (text: string, value: string): boolean => text.toLowerCase().includes(value);

/** One bit per word that the node fits. */
export function nodeBits(filter: Filter, node: NodeView): number {
  return bits(filter, (word) => {
    switch (word.key) {
      case "node":
        return has(node.name, word.value);
      case "model":
        return has(node.gpu_model, word.value);
      case "group":
        return has(node.group, word.value);
      case "cluster":
        return has(node.cluster, word.value);
      case "in":
        return node.cluster === word.value;
      case "domain":
        return node.domains.some(([, name]) => name.toLowerCase() === word.value);
      case "":
        return has(node.name, word.value) || has(node.gpu_model, word.value);
      default:
        return false;
    }
  });
}

/** One bit per word that the job fits. */
export function jobBits(filter: Filter, job: JobView): number {
  return bits(filter, (word) => {
    switch (word.key) {
      case "job":
        return has(job.name, word.value) || has(job.id, word.value);
      case "team":
        return job.team.toLowerCase() === word.value;
      case "queue":
        return job.queue.toLowerCase() === word.value;
      case "user":
        return has(job.principal, word.value);
      case "phase":
        return job.phase === word.value;
      case "":
        return has(job.name, word.value) || has(job.id, word.value) || has(job.team, word.value);
      default:
        return false;
    }
  });
}

/** One bit per `state:` word that the state fits. */
export function stateBits(filter: Filter, state: CellState): number {
  return bits(filter, (word) => word.key === "state" && word.value === state);
}

function bits(filter: Filter, fits: (word: Word) => boolean): number {
  let found = 0;
  filter.words.forEach((word, at) => {
    if (fits(word)) {
      found |= 1 << at;
    }
  });
  return found;
}
