/** A fleet made of numbers, for tests and for driving the map without a stack: the same seed, the same fleet. */

import { jobRow } from "../../live/samples";
import type { JobView, NodeView, Phase, Reading, Slot } from "../../wire";
import type { Readings } from "./arrangement";
import type { Changed } from "./cells";

export interface SyntheticOptions {
  nodes: number;
  gpusPerNode: number;
  seed: number;
  /** Share of the GPUs that are held, 0 to 1. */
  load: number;
  teams: readonly string[];
  rackSize: number;
  racksPerBlock: number;
}

export const SYNTHETIC: SyntheticOptions = {
  nodes: 1750,
  gpusPerNode: 8,
  seed: 7,
  load: 0.86,
  teams: [
    "physics",
    "vision",
    "speech",
    "robotics",
    "climate",
    "genomics",
    "search",
    "research",
    "platform",
    "students",
  ],
  rackSize: 8,
  racksPerBlock: 8,
};

const nodeName = (index: number): string => `gpu-${String(index + 1).padStart(4, "0")}`;

/** Park and Miller's generator: small, and the same everywhere. */
export function random(seed: number): () => number {
  let state = (seed % 2147483646) + 1;
  return () => {
    state = (state * 48271) % 2147483647;
    return (state - 1) / 2147483646;
  };
}

const NO_CHANGE = (): {
  reset: boolean;
  jobs: Set<string>;
  goneJobs: Set<string>;
  nodes: Set<string>;
  goneNodes: Set<string>;
  telemetry: Set<string>;
} => ({
  reset: false,
  jobs: new Set(),
  goneJobs: new Set(),
  nodes: new Set(),
  goneNodes: new Set(),
  telemetry: new Set(),
});

export class SyntheticFleet {
  readonly nodes = new Map<string, NodeView>();
  readonly jobs = new Map<string, JobView>();
  readonly telemetry = new Map<string, Readings>();
  private readonly free: number[][] = [];
  private readonly draw: () => number;
  private made = 0;
  private now = 1_700_000_000_000_000_000;

  private readonly options: SyntheticOptions;

  constructor(options: SyntheticOptions = SYNTHETIC) {
    this.options = options;
    this.draw = random(options.seed);
    for (let index = 0; index < options.nodes; index++) {
      const node = this.node(index);
      this.nodes.set(node.name, node);
      this.free.push(Array.from({ length: node.gpus }, (_, device) => device));
    }
    const wanted = options.nodes * options.gpusPerNode * options.load;
    for (let held = 0, tried = 0; held < wanted && tried < 4 * wanted; tried++) {
      held += this.submit("running")?.slots.reduce((sum, slot) => sum + slot.devices.length, 0) ?? 0;
    }
    this.measure();
  }

  /** So many jobs end and as many begin; returns what changed. */
  turn(jobs: number): Changed {
    const changed = NO_CHANGE();
    const ids = [...this.jobs.keys()];
    for (let nth = 0; nth < jobs && ids.length > 0; nth++) {
      const id = ids[Math.floor(this.draw() * ids.length)] as string;
      const job = this.jobs.get(id);
      if (job && job.phase !== "placed") {
        this.end(job);
        changed.goneJobs.add(id);
        changed.nodes.add(job.nodes[0] ?? "");
      }
      const next = this.submit("placed");
      if (next) {
        changed.jobs.add(next.id);
      }
    }
    for (const job of this.jobs.values()) {
      if (job.phase === "placed" && !changed.jobs.has(job.id) && this.draw() < 0.5) {
        this.jobs.set(job.id, { ...job, phase: "running", running_at: this.now });
        changed.jobs.add(job.id);
      }
    }
    changed.nodes.delete("");
    return changed;
  }

  /** Every GPU is read anew. */
  measure(): Changed {
    const changed = NO_CHANGE();
    this.now += 1_000_000_000;
    let index = 0;
    for (const node of this.nodes.values()) {
      const free = new Set(this.free[index++]);
      const readings = Array.from({ length: node.gpus }, (_, device): Reading => {
        const load = free.has(device) ? 0 : 0.15 + 0.84 * Math.sqrt(this.draw());
        const heat = 30 + 44 * load + 12 * this.draw();
        return [
          Math.round(1000 * load) / 10,
          Math.round(10 * heat) / 10,
          Math.round(70_000 * load),
          Math.round(700 + 5_800 * load) / 10,
        ];
      });
      this.telemetry.set(node.name, readings);
      changed.telemetry.add(node.name);
    }
    return changed;
  }

  private node(index: number): NodeView {
    const { gpusPerNode: gpus, rackSize, racksPerBlock } = this.options;
    const rack = Math.floor(index / rackSize);
    return {
      name: nodeName(index),
      cluster: "atlas",
      gpu_model: "H100",
      gpus,
      gpu_milli_held: 0,
      cpu_milli: 96_000,
      cpu_milli_held: 0,
      memory_mib: 1_048_576,
      memory_mib_held: 0,
      domains: [
        ["block", `b${Math.floor(rack / racksPerBlock)}`],
        ["rack", `r${rack}`],
      ],
      usable: index % 97 !== 41,
      lost: index % 211 === 100,
      reason: index % 97 === 41 ? "withheld for upgrade" : "",
      jobs: [],
      device_domains: [],
      group: "",
      reasons: [],
      condition: "",
    };
  }

  private submit(phase: Phase): JobView | undefined {
    const slots = this.find(this.size());
    if (slots.length === 0) {
      return undefined;
    }
    const id = `job${String(++this.made).padStart(8, "0")}`;
    const team = this.options.teams[Math.floor(this.draw() ** 1.5 * this.options.teams.length)] ?? "physics";
    const job = jobView({ id, team, phase, slots, at: this.now });
    this.jobs.set(id, job);
    return job;
  }

  private size(): number {
    const draw = this.draw();
    return draw < 0.06
      ? 0.5
      : draw < 0.35
        ? 1
        : draw < 0.5
          ? 2
          : draw < 0.68
            ? 4
            : draw < 0.9
              ? 8
              : draw < 0.97
                ? 32
                : 128;
  }

  private find(gpus: number): Slot[] {
    const slots: Slot[] = [];
    const perNode = Math.min(this.options.gpusPerNode, Math.ceil(gpus));
    const replicas = Math.max(1, Math.floor(gpus / perNode));
    let at = Math.floor(this.draw() * this.free.length);
    for (let looked = 0; looked < this.free.length && slots.length < replicas; looked++) {
      const node = this.nodes.get(nodeName(at));
      const free = this.free[at] as number[];
      if (node?.usable && !node.lost && free.length >= perNode) {
        const devices = free.splice(0, perNode);
        const part = { gpu_milli: gpus < 1 ? 500 : 1000, gpus: 0, places: [] };
        slots.push({ group: 0, replica: slots.length, node: node.name, devices, ...part });
      }
      at = (at + 1) % this.free.length;
    }
    return slots;
  }

  private end(job: JobView): void {
    this.jobs.delete(job.id);
    for (const slot of job.slots) {
      const free = this.free[Number(slot.node.slice(4)) - 1];
      free?.push(...slot.devices);
      free?.sort((a, b) => a - b);
    }
  }
}

interface Made {
  id: string;
  team: string;
  phase: Phase;
  slots: Slot[];
  at: number;
}

/** A job's row with everything that does not matter here left plain. */
export function jobView({ id, team, phase, slots, at }: Made): JobView {
  return jobRow(id, phase, {
    name: `${team}-${id.slice(-4)}`,
    team,
    principal: team,
    queue: team,
    attempt: 1,
    gpu_milli: slots.reduce((sum, slot) => sum + slot.gpu_milli * slot.devices.length, 0),
    replicas: slots.length,
    nodes: [...new Set(slots.map((slot) => slot.node))],
    slots,
    submitted_at: at,
    queued_at: at,
    placed_at: at,
    running_at: phase === "running" ? at : 0,
    seq: 1,
    min_replicas: slots.length,
  });
}
