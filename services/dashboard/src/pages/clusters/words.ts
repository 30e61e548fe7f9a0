/** What a cluster says of itself, as people read it. */

import type { Tone } from "../../ui";

const DEVICES: Readonly<Record<string, string>> = {
  scheduler: "the scheduler",
  kubelet: "the kubelet; placements are counts",
};

const SHARING: Readonly<Record<string, string>> = {
  any: "any share",
  none: "not here",
  mig: "MIG profiles",
  mps: "MPS",
  "time-slicing": "time slices",
};

const TONES: Readonly<Record<string, Tone>> = { active: "ok", draining: "warn", drained: "neutral", lost: "bad" };

export const deviceWords = (devices: string): string => DEVICES[devices] ?? devices;

export const sharingWords = (sharing: string): string => SHARING[sharing] ?? sharing;

export const toneOf = (state: string): Tone => TONES[state] ?? "neutral";
