/** The map's colours: one table per theme, indexed by numbers that fit a cell's look. */

import { contrast, mix, ramp } from "./colour";

export type Theme = "dark" | "light";
export type ColourBy = "job" | "team" | "utilisation" | "temperature";
export const COLOUR_BYS: readonly ColourBy[] = ["job", "team", "utilisation", "temperature"];

export const HUES = 8;
export const JOB_COLOURS = 16;
export const RAMP_STEPS = 20;
/** Added to an index: the same colour, of what the filter leaves out. */
export const DIMMED = 128;

/** Where each family of colours begins in a table. */
export const AT = {
  ground: 0,
  panel: 1,
  free: 2,
  hollow: 3,
  lost: 4,
  hatch: 5,
  unread: 6,
  noGpu: 7,
  text: 8,
  faint: 9,
  frame: 10,
  team: 16,
  job: 32,
  utilisation: 64,
  temperature: 96,
} as const;

export const UTILISATION_PCT: readonly [number, number] = [0, 100];
export const TEMPERATURE_C: readonly [number, number] = [25, 95];

/**
 * Eight hues, searched so that the nearest two stay apart for usual, protan, deutan and tritan eyes alike, and from the
 * ground and from free cells. Neighbours in the list differ strongly. A slot has about the same hue in both themes.
 */
export const TEAM_HUES: Record<Theme, readonly string[]> = {
  dark: ["#495ae6", "#e8a322", "#4dcbb1", "#b86498", "#f4ea62", "#9bf7fd", "#e93800", "#af8cff"],
  light: ["#283cc7", "#c78a28", "#07b79d", "#c32755", "#f0bb42", "#4a85a9", "#7c1c15", "#521d75"],
};

interface Grounds {
  ground: string;
  panel: string;
  free: string;
  hollow: string;
  lost: string;
  hatch: string;
  unread: string;
  text: string;
  faint: string;
  frame: string;
  /** Where the second half of the job colours leans to. */
  towards: string;
}

const GROUNDS: Record<Theme, Grounds> = {
  dark: {
    ground: "#0e1116",
    panel: "#161a20",
    free: "#343c48",
    hollow: "#3d4653",
    lost: "#5b2a30",
    hatch: "#0e1116",
    unread: "#6b7482",
    text: "#c9d1dc",
    faint: "#8a94a3",
    frame: "#242a33",
    towards: "#ffffff",
  },
  light: {
    ground: "#f6f7f9",
    panel: "#ffffff",
    free: "#d5dae1",
    hollow: "#b9c0ca",
    lost: "#e9b9b9",
    hatch: "#ffffff",
    unread: "#98a1ae",
    text: "#232a34",
    faint: "#5c6674",
    frame: "#e3e6eb",
    towards: "#ffffff",
  },
};

/** Lightness moves one way only, so the order is seen without hue too; the end that matters stands off the ground. */
const UTILISATION_STOPS: Record<Theme, readonly string[]> = {
  dark: ["#1f3352", "#1f5c7a", "#23888c", "#4cb386", "#a3d977", "#f7f7a1"],
  light: ["#e3efc0", "#a9d8a8", "#62b8a4", "#2f8f9c", "#25628a", "#1c2f66"],
};
const TEMPERATURE_STOPS: Record<Theme, readonly string[]> = {
  dark: ["#2c2850", "#64307a", "#a63a76", "#dd5a55", "#f79a45", "#fdea9c"],
  light: ["#fdeec0", "#fbc27a", "#ee8757", "#cb4c5b", "#8a2a66", "#3d1a4e"],
};

export interface Palette {
  theme: Theme;
  /** CSS colours by index; `DIMMED` more of the same, mixed into the panel. */
  colours: readonly string[];
  /** What can be read on each of them. */
  inks: readonly string[];
}

const INKS = ["#0b0e13", "#ffffff"] as const;
const DIM_SHARE = 0.16;

function build(theme: Theme): Palette {
  const grounds = GROUNDS[theme];
  const colours = new Array<string>(2 * DIMMED).fill(grounds.panel);
  const put = (from: number, list: readonly string[]): void =>
    list.forEach((colour, at) => {
      colours[from + at] = colour;
    });
  put(AT.ground, [grounds.ground, grounds.panel, grounds.free, grounds.hollow, grounds.lost, grounds.hatch]);
  put(AT.unread, [grounds.unread, grounds.hollow, grounds.text, grounds.faint, grounds.frame]);
  const hues = TEAM_HUES[theme];
  put(AT.team, hues);
  const second = hues.map((hue) => (theme === "dark" ? mix(hue, grounds.towards, 0.62) : mix(hue, "#ffffff", 0.58)));
  put(
    AT.job,
    hues.flatMap((hue, at) => [hue, second[at] ?? hue]),
  );
  put(AT.utilisation, ramp(UTILISATION_STOPS[theme], RAMP_STEPS));
  put(AT.temperature, ramp(TEMPERATURE_STOPS[theme], RAMP_STEPS));
  for (let index = 0; index < DIMMED; index++) {
    colours[DIMMED + index] = mix(colours[index] ?? grounds.panel, grounds.panel, DIM_SHARE);
  }
  for (const index of [AT.ground, AT.panel, AT.hatch]) {
    colours[DIMMED + index] = colours[index] ?? grounds.panel;
  }
  return { theme, colours, inks: colours.map(inkOn) };
}

const inkOn = (colour: string): string => (contrast(INKS[0], colour) > contrast(INKS[1], colour) ? INKS[0] : INKS[1]);

export const PALETTES: Record<Theme, Palette> = { dark: build("dark"), light: build("light") };

/** Step of a ramp, 0 to RAMP_STEPS - 1; what lies outside the range takes its end. */
export function step(value: number, [low, high]: readonly [number, number]): number {
  const along = Math.floor(((value - low) / (high - low)) * RAMP_STEPS);
  return along < 0 ? 0 : along >= RAMP_STEPS ? RAMP_STEPS - 1 : along;
}

/** FNV-1a, 32 bits: the same in every browser. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  }
  return value >>> 0;
}

/** Kinds of marks that tell teams of the same hue apart: none, a dot, a slit, a bar. */
export const MARKS = 4;

export const markOfSlot = (slot: number): number => Math.floor(slot / HUES) % MARKS;

/**
 * Which slot a team has, none twice: its hue is `slot % HUES`, its mark `markOfSlot(slot)`. A team keeps its slot for as long as the page
 * lives; those that are there at the start are taken in order of name, so every browser gives them the same.
 */
export class TeamSlots {
  private readonly slots = new Map<string, number>();
  private readonly taken = new Set<number>();

  constructor(teams: Iterable<string> = []) {
    this.enter(teams);
  }

  /** Give these a slot each, in order of name. */
  enter(teams: Iterable<string>): void {
    for (const team of [...new Set(teams)].sort()) {
      this.of(team);
    }
  }

  of(team: string): number {
    const known = this.slots.get(team);
    if (known !== undefined) {
      return known;
    }
    const wanted = hash(team) % HUES;
    let slot = wanted;
    for (let tried = 0; this.taken.has(slot); tried++) {
      slot = Math.floor(tried / HUES) * HUES + ((wanted + tried) % HUES);
    }
    this.slots.set(team, slot);
    this.taken.add(slot);
    return slot;
  }

  /** All teams that ever had a slot, with it. */
  entries(): IterableIterator<[string, number]> {
    return this.slots.entries();
  }
}
