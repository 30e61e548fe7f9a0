import { describe, expect, it } from "vitest";
import { RETRY_MS_MAX, renewAfterMs, retryAfterMs } from "./lifetime";

const jwt = (claims: object) => `h.${btoa(JSON.stringify(claims)).replaceAll("=", "")}.s`;

describe("a credential's lifetime", () => {
  it("is read from the token itself, so this machine's clock may be wrong", () => {
    expect(renewAfterMs(jwt({ iat: 1_000, exp: 1_900 }))).toBe(675_000);
  });

  it.each(["", "no.token", jwt({}), jwt({ iat: 9, exp: 3 })])("is short if the token does not tell: %s", (token) => {
    expect(renewAfterMs(token)).toBe(225_000);
  });
});

describe("trying again", () => {
  it("takes longer each time, up to a bound, and not all at one moment", () => {
    expect([0, 1, 2, 20].map((failures) => retryAfterMs(failures, 1))).toEqual([500, 1_000, 2_000, RETRY_MS_MAX]);
    expect(retryAfterMs(1, 0)).toBe(500);
  });
});
