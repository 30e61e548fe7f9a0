/**
 * The fleet page with a fleet made of numbers in the place of a stack: to measure it, and to look at it.
 *
 * Address: ?nodes=1750&jobs=125&load=0.86&pool=8&still=1. Bodies are made before the clock runs, and come as bytes as they
 * would from the broker, so that decoding is counted. Not part of what is built for the gateway.
 */

import "../../../style.css";
import { render } from "preact";
import { diagnostics } from "../../../diagnostics";
import { store } from "../../../live/store";
import { followAddress } from "../../../route";
import { followTheme } from "../../../theme";
import { followKeys } from "../../../ui/keys";
import type { LiveSlice, LiveTelemetry } from "../../../wire";
import Fleet from "..";
import { SYNTHETIC, SyntheticFleet } from "../synthetic";
import { FakeComposer } from "./composer";

const SLICE_EVERY_MS = 50;
const TELEMETRY_EVERY_MS = 1_000;
const TELEMETRY_PARTS = 4;
const FACTS_PER_JOB = 8;

const params = new URLSearchParams(location.search);
const number = (name: string, otherwise: number): number => Number(params.get(name) ?? otherwise);

const fleet = new SyntheticFleet({
  ...SYNTHETIC,
  nodes: number("nodes", SYNTHETIC.nodes),
  load: number("load", SYNTHETIC.load),
});
const composer = new FakeComposer(number("pool", 8));
const encoder = new TextEncoder();
const decoder = new TextDecoder();
let seq = 1;

function begin(): void {
  for (const node of composer.nodes()) {
    fleet.nodes.set(node.name, node);
  }
  store.connection.value = { kind: "live" };
  store.reset({
    seqs: {},
    at: Date.now() * 1e6,
    jobs: [...fleet.jobs.values()],
    nodes: [...fleet.nodes.values()],
    queues: [],
    reservations: [],
    telemetry: Object.fromEntries([...fleet.telemetry].map(([name, readings]) => [name, [...readings]])),
  });
  composer.answerFetch();
  followTheme();
  followAddress();
  followKeys();
  render(
    <div class="frame" style={{ gridTemplate: "1fr / 1fr" }}>
      <main>
        <Fleet />
      </main>
    </div>,
    document.getElementById("app") as HTMLElement,
  );
  if (!params.has("still")) {
    setInterval(slice, SLICE_EVERY_MS);
    setInterval(telemetry, TELEMETRY_EVERY_MS);
  }
}

/** Give something to the page as a message; making it is not counted. */
function arrive<T>(body: T, apply: (body: T) => void): void {
  const bytes = encoder.encode(JSON.stringify(body));
  diagnostics.message(bytes.length, () => apply(JSON.parse(decoder.decode(bytes)) as T));
}

function slice(): void {
  const perSlice = (number("jobs", 125) * SLICE_EVERY_MS) / 1_000;
  const jobs = Math.floor(perSlice) + (Math.random() < perSlice % 1 ? 1 : 0);
  const changed = fleet.turn(jobs);
  const at = Date.now() * 1e6;
  const facts = composer.facts(at);
  const named = [
    "queued",
    "placed",
    "running",
    "pods-started",
    "pods-exited",
    "succeeded",
    "routed",
    "preflight-passed",
  ];
  for (const id of [...changed.jobs, ...changed.goneJobs].slice(0, jobs)) {
    for (const name of named.slice(0, FACTS_PER_JOB)) {
      facts.push(composer.fact(name, { kind: "job", id, at }));
    }
  }
  const prev = seq;
  facts.forEach((fact) => {
    fact.seq = ++seq;
  });
  const body: LiveSlice = {
    cluster: "atlas",
    audience: "public",
    seq,
    prev,
    at,
    part: 1,
    parts: 1,
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
  arrive(body, (got) => {
    store.apply(got);
    store.hear(got);
  });
}

function telemetry(): void {
  fleet.measure();
  const names = [...fleet.telemetry.keys()];
  const size = Math.ceil(names.length / TELEMETRY_PARTS);
  for (let part = 0; part < TELEMETRY_PARTS; part++) {
    const nodes: LiveTelemetry["nodes"] = {};
    for (const name of names.slice(part * size, (part + 1) * size)) {
      nodes[name] = [...(fleet.telemetry.get(name) ?? [])];
    }
    arrive({ cluster: "atlas", at: Date.now() * 1e6, nodes }, (got: LiveTelemetry) => store.readings(got));
  }
}

begin();
