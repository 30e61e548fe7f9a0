import { describe, expect, it } from "vitest";
import { bytes, duration, gpus, instant, many, mebibytes, relative, secondsBetween } from "./format";

describe("durations", () => {
  it.each([
    [0, "0 s"],
    [0.0123, "12 ms"],
    [3.21, "3.2 s"],
    [59, "59 s"],
    [200, "3 min 20 s"],
    [180, "3 min"],
    [7_500, "2 h 5 min"],
    [187_200, "2 d 4 h"],
    [-4, "0 s"],
  ])("%d s is %s", (seconds, words) => expect(duration(seconds)).toBe(words));
});

describe("instants", () => {
  const now = Date.parse("2026-11-21T14:03:05.250") * 1e6;

  it("say as much as is needed", () => {
    expect(instant(now, now)).toBe("14:03:05");
    expect(instant(Date.parse("2026-03-02T09:08:07") * 1e6, now)).toBe("Mar 2 09:08");
    expect(instant(Date.parse("2024-03-02T09:08:07Z") * 1e6, now)).toBe("2024-03-02");
    expect(instant(0, now)).toBe("–");
  });

  it("are told from now", () => {
    expect(relative(now - 12.9e9, now)).toBe("12 s ago");
    expect(relative(now + 300e9, now)).toBe("in 5 min");
    expect(secondsBetween(0, now)).toBe(0);
  });
});

describe("quantities", () => {
  it.each([
    [gpus(8_000), "8"],
    [gpus(500), "0.5"],
    [gpus(14_000_000), "14,000"],
    [mebibytes(512), "512 MiB"],
    [mebibytes(81_920), "80 GiB"],
    [mebibytes(1_572_864), "1.5 TiB"],
    [bytes(2_048), "2 KiB"],
    [many(1, "job"), "1 job"],
    [many(2, "queue"), "2 queues"],
  ])("%s", (said, words) => expect(said).toBe(words));
});
