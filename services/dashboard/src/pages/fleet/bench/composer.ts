/** Stands for the composer: attaches GPUs of a pool to two nodes and takes them back, for as long as the page is open. */

import type { AttachmentPhase, DeviceView, FabricView, FactView, NodeView } from "../../../wire";

const MODEL = "NVIDIA-A100-PCIE-40GB";
const SWITCH_MS = 5_000;
const VISIBLE_MS = 1_500;
const TURN_MS = 2_500;

interface Step {
  phase: AttachmentPhase;
  fact: string;
  afterMs: number;
}

const THERE: Step[] = [
  { phase: "requested", fact: "requested", afterMs: 0 },
  { phase: "attaching", fact: "attaching", afterMs: 800 },
  { phase: "attached", fact: "attached", afterMs: SWITCH_MS },
  { phase: "visible", fact: "visible", afterMs: VISIBLE_MS },
  { phase: "online", fact: "online", afterMs: 400 },
];
const BACK: Step[] = [
  { phase: "withholding", fact: "detach-wanted", afterMs: 0 },
  { phase: "detaching", fact: "detaching", afterMs: 500 },
  { phase: "detached", fact: "detached", afterMs: SWITCH_MS },
];

interface Way {
  device: DeviceView;
  steps: Step[];
  nextMs: number;
}

export interface Answers {
  devices: { devices: DeviceView[] };
  fabrics: { fabrics: FabricView[] };
}

export class FakeComposer {
  private readonly devices = new Map<string, DeviceView>();
  private readonly ways: Way[] = [];
  private readonly gpus = new Map([
    ["flex-0001", 0],
    ["flex-0002", 0],
  ]);
  private readonly changed = new Set<string>();
  private readonly size: number;
  private turnMs = 1_500;
  private made = 0;

  constructor(size: number) {
    this.size = size;
  }

  nodes(): NodeView[] {
    return this.size === 0 ? [] : [...this.gpus.keys()].map((name) => this.node(name));
  }

  changedNodes(): NodeView[] {
    const nodes = [...this.changed].map((name) => this.node(name));
    this.changed.clear();
    return nodes;
  }

  /** Facts of what happened since the last call. */
  facts(at: number): FactView[] {
    const facts: FactView[] = [];
    const now = performance.now();
    if (now > this.turnMs && this.size > 0) {
      this.turnMs = now + TURN_MS;
      this.begin(now);
    }
    for (const way of [...this.ways]) {
      const [step, next] = way.steps;
      if (step && now >= way.nextMs) {
        way.steps.shift();
        way.nextMs = now + (next?.afterMs ?? 0);
        facts.push(this.take(way.device, step, at));
        if (!next) {
          this.ways.splice(this.ways.indexOf(way), 1);
        }
      }
    }
    return facts;
  }

  fact(name: string, { kind, id, at, body = "" }: { kind: string; id: string; at: number; body?: string }): FactView {
    this.made++;
    return {
      id: `fact-${this.made}`,
      seq: 0,
      time: at,
      stream: "LOG_atlas",
      cluster: "atlas",
      writer: kind === "job" ? "scheduler" : "composer",
      kind,
      subject_id: id,
      name,
      causes: [],
      trace: "",
      body,
    };
  }

  /** What `/v1/devices` and `/v1/fabrics` would answer. */
  answers(): Answers {
    return {
      devices: { devices: [...this.devices.values()] },
      fabrics: { fabrics: this.size > 0 ? [this.fabric()] : [] },
    };
  }

  private begin(now: number): void {
    const online = [...this.devices.values()].filter((device) => device.phase === "online");
    const free = this.size - this.devices.size;
    if (free > 2) {
      const node = Math.random() < 0.6 ? "flex-0001" : "flex-0002";
      const device: DeviceView = { ...BLANK, id: `a${++this.made}`, node };
      this.devices.set(device.id, device);
      this.ways.push({ device, steps: [...THERE], nextMs: now });
    } else if (online[0]) {
      this.ways.push({ device: online[0], steps: [...BACK], nextMs: now });
    }
  }

  private take(device: DeviceView, { phase, fact }: Step, at: number): FactView {
    device.phase = phase;
    const { node, model, fabric, origin } = device;
    if (phase === "visible" || phase === "detached") {
      this.gpus.set(node, Math.max(0, (this.gpus.get(node) ?? 0) + (phase === "visible" ? 1 : -1)));
      this.changed.add(node);
    }
    if (phase === "detached") {
      this.devices.delete(device.id);
    }
    const body = JSON.stringify({ node, model, fabric, origin });
    return this.fact(fact, { kind: "attachment", id: device.id, at, body });
  }

  private fabric(): FabricView {
    const attached = [...this.devices.values()].filter((one) => !["requested", "attaching"].includes(one.phase)).length;
    return {
      name: "fabric",
      cluster: "atlas",
      driver: "fm",
      pool: [{ type: "gpu", model: MODEL, free: this.size - attached, attached }],
      breaker: "closed",
      error: "",
      retry_at: 0,
      in_flight: this.ways.length,
      limit: 8,
      orphans: 0,
      surveyed_at: 0,
    };
  }

  private node(name: string): NodeView {
    return {
      name,
      cluster: "atlas",
      gpu_model: MODEL,
      gpus: this.gpus.get(name) ?? 0,
      gpu_milli_held: 0,
      cpu_milli: 64_000,
      cpu_milli_held: 0,
      memory_mib: 524_288,
      memory_mib_held: 0,
      domains: [["rack", "flex-r0"]],
      usable: true,
      lost: false,
      reason: "",
      jobs: [],
      device_domains: [],
      group: "flex",
      reasons: [],
      condition: "",
    };
  }
}

const BLANK: DeviceView = {
  id: "",
  cluster: "atlas",
  type: "gpu",
  model: MODEL,
  node: "",
  fabric: "fabric",
  device_uuid: "",
  device_id: "",
  phase: "requested",
  origin: "request",
  request: "",
  attempt: 0,
  error: "",
  holders: [],
  since: 0,
};
