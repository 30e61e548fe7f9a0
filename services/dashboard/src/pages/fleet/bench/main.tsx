/**
 * The fleet page with a fleet made of numbers in the place of a stack: to measure it, and to look at it.
 *
 * Address: ?nodes=1750&jobs=125&load=0.86&pool=8&still=1. What would be the stack runs in a worker and sends bytes as the
 * broker would, so that only the page's own work is on the main thread. Not part of what is built for the gateway.
 */

import "../../../style.css";
import { render } from "preact";
import { diagnostics } from "../../../diagnostics";
import { store } from "../../../live/store";
import { followAddress } from "../../../route";
import { followTheme } from "../../../theme";
import { followKeys } from "../../../ui/keys";
import type { LiveSlice, LiveTelemetry, Snapshot } from "../../../wire";
import Fleet from "..";
import { SYNTHETIC } from "../synthetic";
import type { Answers } from "./composer";
import type { Message, Play } from "./messages";

const params = new URLSearchParams(location.search);
const number = (name: string, otherwise: number): number => Number(params.get(name) ?? otherwise);
const decoder = new TextDecoder();
let answers: Answers = { devices: { devices: [] }, fabrics: { fabrics: [] } };

const decoded = <T,>(bytes: Uint8Array): T => JSON.parse(decoder.decode(bytes)) as T;

function take(message: Message): void {
  if (message.kind === "snapshot") {
    answers = message.answers;
    store.connection.value = { kind: "live" };
    store.reset(decoded<Snapshot>(message.bytes));
    show();
    return;
  }
  diagnostics.message(message.bytes.length, () => {
    if (message.kind === "slice") {
      answers = message.answers;
      const slice = decoded<LiveSlice>(message.bytes);
      store.apply(slice);
      store.hear(slice);
    } else {
      store.readings(decoded<LiveTelemetry>(message.bytes));
    }
  });
}

function show(): void {
  const main = (
    <main style={{ height: "100dvh" }}>
      <Fleet />
    </main>
  );
  render(main, document.getElementById("app") as HTMLElement);
}

/** The two addresses that the page asks; nothing else is asked for. */
globalThis.fetch = async (asked) => {
  const body = { "/v1/devices": answers.devices, "/v1/fabrics": answers.fabrics }[String(asked)];
  return new Response(JSON.stringify(body ?? { title: "not here", status: 404 }), { status: body ? 200 : 404 });
};
followTheme();
followAddress();
followKeys();
const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
worker.onmessage = (event: MessageEvent<Message>) => take(event.data);
const play: Play = {
  fleet: { ...SYNTHETIC, nodes: number("nodes", SYNTHETIC.nodes), load: number("load", SYNTHETIC.load) },
  pool: number("pool", 8),
  jobsPerS: number("jobs", 125),
  isStill: params.has("still"),
};
worker.postMessage(play);
