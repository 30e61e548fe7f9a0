import { describe, expect, it } from "vitest";
import { contrast, distance, labOf, linear, seenBy, VISIONS } from "./colour";
import {
  AT,
  DIMMED,
  HUES,
  MARKS,
  markOfSlot,
  PALETTES,
  RAMP_STEPS,
  step,
  TEAM_HUES,
  TEMPERATURE_C,
  TeamSlots,
  type Theme,
} from "./palette";

const THEMES: Theme[] = ["dark", "light"];
const colour = (theme: Theme, index: number): string => PALETTES[theme].colours[index] as string;

describe.each(THEMES)("the %s palette", (theme) => {
  it.each(VISIONS)("keeps every two team hues apart for %s eyes", (vision) => {
    const seen = TEAM_HUES[theme].map((hue) => seenBy(vision, hue));
    const gaps = seen.flatMap((one, at) => seen.slice(at + 1).map((other) => distance(one, other)));
    expect(Math.min(...gaps)).toBeGreaterThan(0.1);
  });

  it.each(VISIONS)("keeps team hues apart from free cells and the ground for %s eyes", (vision) => {
    const grounds = [colour(theme, AT.panel), colour(theme, AT.free)].map((ground) => seenBy(vision, ground));
    const gaps = TEAM_HUES[theme].flatMap((hue) => grounds.map((ground) => distance(seenBy(vision, hue), ground)));
    expect(Math.min(...gaps)).toBeGreaterThan(0.1);
  });

  it.each(["utilisation", "temperature"] as const)(
    "has a ramp of %s that only gets lighter, or only darker",
    (ramp) => {
      const light = Array.from({ length: RAMP_STEPS }, (_, at) => labOf(linear(colour(theme, AT[ramp] + at)))[0]);
      const rises = light.slice(1).map((value, at) => value - (light[at] as number));
      expect(rises.every((rise) => rise > 0.005) || rises.every((rise) => rise < -0.005)).toBe(true);
    },
  );

  it("dims every colour towards the panel", () => {
    for (let at = AT.team; at < AT.team + HUES; at++) {
      const panel = colour(theme, AT.panel);
      expect(distance(colour(theme, at + DIMMED), panel)).toBeLessThan(distance(colour(theme, at), panel) / 3);
    }
  });

  it("has ink that can be read on every colour that words stand on", () => {
    const { colours, inks } = PALETTES[theme];
    const weakest = colours.slice(AT.team, DIMMED).map((on, at) => contrast(on, inks[AT.team + at] as string));
    expect(Math.min(...weakest)).toBeGreaterThan(4.4);
  });

  it("has text that can be read", () => {
    expect(contrast(colour(theme, AT.text), colour(theme, AT.ground))).toBeGreaterThan(7);
    expect(contrast(colour(theme, AT.faint), colour(theme, AT.panel))).toBeGreaterThan(4.5);
  });
});

describe("slots of teams", () => {
  const teams = ["physics", "vision", "speech", "robotics", "climate", "genomics", "search", "research", "platform"];

  it("do not depend on the order in which teams are seen", () => {
    const one = new TeamSlots(teams);
    const other = new TeamSlots([...teams].reverse());
    expect(teams.map((team) => one.of(team))).toEqual(teams.map((team) => other.of(team)));
  });

  it("differ, in hue as long as there are hues", () => {
    const slots = new TeamSlots(teams.slice(0, HUES));
    expect(new Set(teams.slice(0, HUES).map((team) => slots.of(team) % HUES)).size).toBe(HUES);
    const many = Array.from({ length: HUES * MARKS }, (_, at) => `team-${at}`);
    const looks = many.map((team) => new TeamSlots(many).of(team)).map((slot) => `${slot % HUES}/${markOfSlot(slot)}`);
    expect(new Set(looks).size).toBe(HUES * MARKS);
    const more = Array.from({ length: 3 * HUES * MARKS }, (_, at) => `team-${at}`);
    const crowded = new TeamSlots(more);
    expect(new Set(more.map((team) => crowded.of(team))).size).toBe(more.length);
  });

  it("stay when another team comes", () => {
    const slots = new TeamSlots(teams);
    const before = teams.map((team) => slots.of(team));
    slots.of("aardvarks");
    expect(teams.map((team) => slots.of(team))).toEqual(before);
  });
});

describe("steps of a ramp", () => {
  it("take the ends for what lies outside", () => {
    expect([-40, 25, 60, 95, 200].map((value) => step(value, TEMPERATURE_C))).toEqual([0, 0, 10, 19, 19]);
  });
});
