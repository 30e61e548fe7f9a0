import { describe, expect, it } from "vitest";
import { gpuCount, milliHeld, placesOf } from "./slots";
import type { Slot } from "./wire";

const aSlot = (part: Partial<Slot>): Slot => ({
  group: 0,
  replica: 0,
  node: "n",
  devices: [],
  gpu_milli: 1_000,
  gpus: 0,
  places: [],
  ...part,
});

describe("a slot", () => {
  it("holds its devices where the scheduler picked them", () => {
    const slot = aSlot({ devices: [2, 5], gpu_milli: 500 });
    expect([gpuCount(slot), milliHeld(slot), placesOf(slot)]).toEqual([2, 1_000, [2, 5]]);
  });

  it("holds a number of GPUs at places where the kubelet picked them", () => {
    const slot = aSlot({ gpus: 3, places: [1, 2, 4] });
    expect([gpuCount(slot), milliHeld(slot), placesOf(slot)]).toEqual([3, 3_000, [1, 2, 4]]);
  });

  it("is drawn at the first places if nobody said which", () => {
    expect(placesOf(aSlot({ gpus: 2 }))).toEqual([0, 1]);
  });

  it("holds nothing without GPUs", () => {
    const slot = aSlot({ gpu_milli: 0 });
    expect([gpuCount(slot), milliHeld(slot), placesOf(slot)]).toEqual([0, 0, []]);
  });
});
