import { describe, expect, it } from "vitest";
import { told } from "./words";

describe("a connection in words", () => {
  it("counts how long nothing came", () => {
    const { word, words } = told({ kind: "stale", sinceMs: 1_000 }, 13_400);
    expect(word).toBe("stale 12 s");
    expect(words).toContain("for 12 s");
  });

  it("says why it is offline and when it tries again", () => {
    const offline = { kind: "offline", why: "The gateway cannot be reached", retryAtMs: 5_000 } as const;
    expect(told(offline, 2_100).words).toMatch(/^The gateway cannot be reached\. .* Next attempt in 3 s\.$/);
    expect(told(offline, 6_000).words).toMatch(/Next attempt now\.$/);
  });

  it("says why joining takes its time, if something stands in the way", () => {
    expect(told({ kind: "joining", why: "Redis is away" }, 0).words).toBe("Redis is away");
    expect(told({ kind: "joining", why: "" }, 0).words).toContain("snapshot");
  });
});
