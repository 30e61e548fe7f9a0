import type { Slot } from "./wire";

/** How many GPUs a slot holds, or holds parts of, whoever picked them. */
export function gpuCount(slot: Slot): number {
  return slot.gpus || slot.devices.length;
}

/** Thousandths of a GPU that a slot holds in all. */
export function milliHeld(slot: Slot): number {
  return slot.gpu_milli * gpuCount(slot);
}

/**
 * The places of its node at which a slot is drawn: its devices, or where the kubelet picked those, as many places as it
 * holds, of which nobody says which device stands there.
 */
export function placesOf(slot: Slot): readonly number[] {
  if (!slot.gpus) return slot.devices;
  return slot.places?.length ? slot.places : Array.from({ length: slot.gpus }, (_none, index) => index);
}
