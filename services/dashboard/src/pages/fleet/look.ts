/**
 * How one cell looks, in 32 bits, so that "has anything changed to the eye?" is one comparison.
 *
 * bits 0-7: colour index (bit 7: left out by the filter) · 8-11: kind · 12: joined to its right neighbour, which the same
 * job holds · 13: hatched, since its node may not be used · 14-15: mark · 16-31: version of how the cell is split, or the
 * number that is written on it.
 */

export const Kind = {
  solid: 0,
  free: 1,
  hollow: 2,
  lost: 3,
  starting: 4,
  stopping: 5,
  noGpu: 6,
  split: 7,
} as const;

export type Kind = (typeof Kind)[keyof typeof Kind];

export const COLOUR = 0xff;
export const DIM = 0x80;
export const JOINED = 1 << 12;
export const HATCHED = 1 << 13;
const KIND_AT = 8;
const MARK_AT = 14;
const VERSION_AT = 16;

export const kindOf = (look: number): Kind => ((look >>> KIND_AT) & 0xf) as Kind;
export const markOf = (look: number): number => (look >>> MARK_AT) & 3;
export const withKind = (colour: number, kind: Kind): number => colour | (kind << KIND_AT);
export const withMark = (look: number, mark: number): number => look | ((mark & 3) << MARK_AT);
export const withVersion = (look: number, version: number): number => (look | ((version & 0xffff) << VERSION_AT)) >>> 0;
