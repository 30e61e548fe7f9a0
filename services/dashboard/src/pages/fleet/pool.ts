/**
 * Devices of fabrics on their way, from what the composer lists and from facts that come before it is asked again. Pure.
 *
 * An attachment's phase says where its device is seen: in the pool, on the way, at its node.
 */

import type { AttachmentPhase, DeviceView, FabricView, FactView } from "../../wire";

/** Where a device is seen. `arriving` and `returning`: it is just being put down. */
export type Leg = "pool" | "to-node" | "arriving" | "node" | "to-pool" | "returning" | "failed";

export interface Moving {
  id: string;
  cluster: string;
  node: string;
  model: string;
  fabric: string;
  phase: AttachmentPhase;
  leg: Leg;
  /** When this leg began, by the page's own clock. */
  sinceMs: number;
  /** How far it was when this leg began: 0 in the pool, 1 at the node. */
  from: number;
}

const LEG: Record<AttachmentPhase, Leg> = {
  requested: "pool",
  attaching: "to-node",
  attached: "arriving",
  visible: "arriving",
  online: "node",
  withholding: "node",
  detaching: "to-pool",
  detached: "returning",
  failed: "failed",
};

const BY_FACT: Record<string, AttachmentPhase> = {
  requested: "requested",
  attaching: "attaching",
  attached: "attached",
  visible: "visible",
  online: "online",
  "detach-wanted": "withholding",
  "detach-given-up": "online",
  detaching: "detaching",
  detached: "detached",
  failed: "failed",
};

/** After this a device that was put down is only where it now belongs. */
export const LANDING_MS = 900;
export const FAILED_SHOWN_MS = 4_000;
/** How a device creeps while nobody knows how long its switch takes: two thirds of the way after so long. */
const CREEP_MS = 6_000;
const CREEP_TO = 0.88;

const ease = (along: number): number => 1 - (1 - along) ** 3;

/** How far along a device is at a moment: 0 in the pool, 1 at its node. */
export function progress(moving: Moving, nowMs: number): number {
  const elapsed = Math.max(0, nowMs - moving.sinceMs);
  const landing = ease(Math.min(1, elapsed / LANDING_MS));
  const creeping = CREEP_TO * (1 - Math.exp(-elapsed / CREEP_MS));
  switch (moving.leg) {
    case "pool":
      return 0;
    case "node":
    case "arriving":
      return moving.from + (1 - moving.from) * landing;
    case "to-node":
      return moving.from + (1 - moving.from) * creeping;
    case "to-pool":
      return moving.from * (1 - creeping);
    case "returning":
    case "failed":
      return moving.from * (1 - landing);
  }
}

/** Whether something of it is still to be animated. */
export function isUnderWay(moving: Moving, nowMs: number): boolean {
  const elapsed = nowMs - moving.sinceMs;
  switch (moving.leg) {
    case "to-node":
    case "to-pool":
    case "pool":
      return true;
    case "node":
      return moving.from < 1 && elapsed < LANDING_MS;
    case "arriving":
      return true;
    case "returning":
      return elapsed < LANDING_MS;
    case "failed":
      return elapsed < FAILED_SHOWN_MS;
  }
}

export interface PoolFigures {
  fabric: FabricView;
  models: { type: string; model: string; free: number; reserved: number; out: number }[];
}

export class Pool {
  readonly moving = new Map<string, Moving>();
  fabrics: readonly FabricView[] = [];
  /** Whether fabrics and devices of several clusters are listed: then their names and ids say whose they are. */
  isOfSeveral = false;
  private devices = new Map<string, DeviceView>();

  /** The composer's list. It is the truth: what it does not know any more is back in its pool. */
  listed(devices: readonly DeviceView[], fabrics: readonly FabricView[], nowMs: number, isFirst = false): void {
    this.fabrics = fabrics.map((fabric) => ({ ...fabric, name: this.fabricName(fabric.cluster, fabric.name) }));
    const known = devices.map((device) => ({
      ...device,
      id: this.deviceId(device.cluster, device.id),
      fabric: this.fabricName(device.cluster, device.fabric),
    }));
    this.devices = new Map(known.map((device) => [device.id, device]));
    for (const device of known) {
      if (isFirst || !this.moving.has(device.id)) {
        this.enter(device, nowMs, isFirst);
      } else {
        this.move(device.id, device.phase, nowMs);
      }
    }
    for (const [id, moving] of this.moving) {
      const isGone = !this.devices.has(id) && moving.leg !== "returning" && moving.leg !== "failed";
      if (isGone) {
        this.move(id, moving.leg === "pool" ? "failed" : "detached", nowMs);
      }
    }
    this.sweep(nowMs);
  }

  /** True: the lists are to be asked for again, since a fact told of a device or fabric. */
  heard(facts: readonly FactView[], nowMs: number): boolean {
    let isNews = false;
    for (const fact of facts) {
      if (fact.kind === "attachment") {
        isNews = true;
        const phase = BY_FACT[fact.name];
        if (phase) {
          this.told(fact, phase, nowMs);
        }
      } else if (fact.kind === "fabric" || fact.kind === "composability") {
        isNews = true;
      }
    }
    return isNews;
  }

  /** What lies in each fabric's pool: what is promised to somebody is not free any more. cluster: "" is all. */
  figures(cluster = ""): PoolFigures[] {
    return this.fabrics.filter(isOf(cluster)).map((fabric) => ({
      fabric,
      models: fabric.pool.map(({ type, model, free, attached }) => {
        const leaving = this.count((one) => one.fabric === fabric.name && one.model === model && isLeaving(one));
        const reserved = Math.min(free, leaving);
        return { type, model, free: free - reserved, reserved, out: attached };
      }),
    }));
  }

  /** Per node, how many of its places have, had or will have a device of a fabric. */
  placesByNode(): Map<string, number> {
    const found = new Map<string, number>();
    for (const { node, leg } of this.moving.values()) {
      if (node && leg !== "failed" && leg !== "returning") {
        found.set(node, (found.get(node) ?? 0) + 1);
      }
    }
    return found;
  }

  /** Drop what came to its end. */
  sweep(nowMs: number): void {
    for (const [id, moving] of this.moving) {
      const isOver = moving.leg === "returning" || moving.leg === "failed";
      if (isOver && !isUnderWay(moving, nowMs)) {
        this.moving.delete(id);
      }
    }
  }

  isBusy(nowMs: number): boolean {
    return this.count((one) => isUnderWay(one, nowMs)) > 0;
  }

  private fabricName(cluster: string, name: string): string {
    return this.isOfSeveral ? `${cluster}/${name}` : name;
  }

  private deviceId(cluster: string, id: string): string {
    return this.isOfSeveral ? `${cluster}:${id}` : id;
  }

  private count(fits: (moving: Moving) => boolean): number {
    let found = 0;
    for (const moving of this.moving.values()) {
      found += fits(moving) ? 1 : 0;
    }
    return found;
  }

  private enter(device: DeviceView, nowMs: number, isFirst: boolean): void {
    const { id, cluster, node, model, fabric, phase } = device;
    const leg = LEG[phase];
    if (isFirst && (leg === "returning" || leg === "failed")) {
      return; // over before anybody looked
    }
    const isThere = leg === "node" || leg === "to-pool" || (isFirst && leg === "arriving");
    this.moving.set(id, { id, cluster, node, model, fabric, phase, leg, sinceMs: nowMs, from: isThere ? 1 : 0 });
  }

  private told(fact: FactView, phase: AttachmentPhase, nowMs: number): void {
    const { cluster } = fact;
    const id = this.deviceId(cluster, fact.subject_id);
    const known = this.moving.get(id);
    if (known) {
      this.move(known.id, phase, nowMs);
      return;
    }
    const body = parsed(fact.body);
    if (phase === "requested" && body["origin"] !== "found" && typeof body["node"] === "string") {
      const word = (name: string): string => (typeof body[name] === "string" ? (body[name] as string) : "");
      const [node, model, fabric] = [word("node"), word("model"), this.fabricName(cluster, word("fabric"))];
      this.moving.set(id, { id, cluster, node, model, fabric, phase, leg: "pool", sinceMs: nowMs, from: 0 });
    }
  }

  private move(id: string, phase: AttachmentPhase, nowMs: number): void {
    const moving = this.moving.get(id);
    if (!moving || moving.phase === phase) {
      return;
    }
    moving.phase = phase;
    const leg = LEG[phase];
    if (leg !== moving.leg) {
      moving.from = leg === "to-pool" ? 1 : progress(moving, nowMs);
      moving.leg = leg;
      moving.sinceMs = nowMs;
    }
  }
}

/** Whether something is of the cluster; "" is any. */
export function isOf(cluster: string): (one: { cluster: string }) => boolean {
  return (one) => cluster === "" || one.cluster === cluster;
}

/** In the pool, but promised; or on its way, while the pool's figure still counts it. */
export const isLeaving = ({ leg }: Moving): boolean => leg === "pool" || leg === "to-node";

function parsed(body: string): Record<string, unknown> {
  if (!body) {
    return {};
  }
  try {
    return JSON.parse(body) as Record<string, unknown>;
  } catch {
    return {}; // a body that is none is as good as one that was left out: the list is asked for anyway
  }
}
