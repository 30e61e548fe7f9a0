/** Plays a stack beside the page, so that what it costs is not counted as the page's. */

import type { LiveSlice, LiveTelemetry, Snapshot } from "../../../wire";
import { SyntheticFleet } from "../synthetic";
import { FakeComposer } from "./composer";
import type { Message, Play } from "./messages";

const SLICE_EVERY_MS = 50;
const TELEMETRY_EVERY_MS = 1_000;
const TELEMETRY_PARTS = 4;
const JOB_FACTS = ["queued", "placed", "running", "pods-started", "pods-exited", "succeeded", "routed", "checkpointed"];

const encoder = new TextEncoder();
const bytesOf = (body: unknown): Uint8Array<ArrayBuffer> => encoder.encode(JSON.stringify(body));
const send = (message: Message): void => postMessage(message);

addEventListener("message", (event: MessageEvent<Play>) => play(event.data));

function play({ fleet: options, pool, jobsPerS, isStill }: Play): void {
  const fleet = new SyntheticFleet(options);
  const composer = new FakeComposer(pool);
  for (const node of composer.nodes()) {
    fleet.nodes.set(node.name, node);
  }
  const snapshot: Snapshot = {
    seqs: {},
    at: Date.now() * 1e6,
    jobs: [...fleet.jobs.values()],
    nodes: [...fleet.nodes.values()],
    queues: [],
    reservations: [],
    telemetry: readings(fleet, [...fleet.telemetry.keys()]),
    unconfirmed_jobs: [],
  };
  send({ kind: "snapshot", bytes: bytesOf(snapshot), answers: composer.answers() });
  if (!isStill) {
    let seq = 1;
    let owed = 0;
    setInterval(() => {
      owed += (jobsPerS * SLICE_EVERY_MS) / 1_000;
      const jobs = Math.floor(owed);
      owed -= jobs;
      seq = slice(fleet, composer, jobs, seq);
    }, SLICE_EVERY_MS);
    setInterval(() => telemetry(fleet), TELEMETRY_EVERY_MS);
  }
}

/** Returns the sequence of the newest fact. */
function slice(fleet: SyntheticFleet, composer: FakeComposer, jobs: number, prev: number): number {
  const changed = fleet.turn(jobs);
  const at = Date.now() * 1e6;
  const facts = composer.facts(at);
  for (const id of [...changed.jobs, ...changed.goneJobs].slice(0, jobs)) {
    facts.push(...JOB_FACTS.map((name) => composer.fact(name, { kind: "job", id, at })));
  }
  facts.forEach((fact, nth) => {
    fact.seq = prev + nth + 1;
  });
  const body: LiveSlice = {
    cluster: "atlas",
    audience: "public",
    seq: prev + facts.length,
    prev,
    part: 1,
    parts: 1,
    at,
    jobs: [...changed.jobs].flatMap((id) => fleet.jobs.get(id) ?? []),
    gone_jobs: [...changed.goneJobs],
    nodes: [...changed.nodes].flatMap((name) => fleet.nodes.get(name) ?? []).concat(composer.changedNodes()),
    gone_nodes: [],
    queues: [],
    gone_queues: [],
    reservations: [],
    gone_reservations: [],
    facts,
  };
  send({ kind: "slice", bytes: bytesOf(body), answers: composer.answers() });
  return body.seq;
}

function telemetry(fleet: SyntheticFleet): void {
  fleet.measure();
  const names = [...fleet.telemetry.keys()];
  const size = Math.ceil(names.length / TELEMETRY_PARTS);
  for (let part = 0; part < TELEMETRY_PARTS; part++) {
    const nodes = readings(fleet, names.slice(part * size, (part + 1) * size));
    const body: LiveTelemetry = { cluster: "atlas", at: Date.now() * 1e6, nodes };
    send({ kind: "telemetry", bytes: bytesOf(body) });
  }
}

const readings = (fleet: SyntheticFleet, names: string[]): LiveTelemetry["nodes"] =>
  Object.fromEntries(names.map((name) => [name, [...(fleet.telemetry.get(name) ?? [])]]));
