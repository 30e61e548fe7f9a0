import { describe, expect, it } from "vitest";
import { choicesOf, ofCluster } from "./clusters";

describe("whose services are asked", () => {
  it("is the gateway's first where none is named", () =>
    expect(ofCluster("/v1/conditions", "")).toBe("/v1/conditions"));

  it.each([
    ["/v1/conditions", "/v1/conditions?cluster=west"],
    ["/v1/usage/top?by=team", "/v1/usage/top?by=team&cluster=west"],
    ["", ""],
  ])("is said in %j as %j", (path, said) => expect(ofCluster(path, "west")).toBe(said));
});

describe("a choice of cluster", () => {
  it("is not offered where there is one", () => {
    expect(choicesOf([], "")).toEqual([]);
    expect(choicesOf(["east"], "")).toEqual([]);
    expect(choicesOf(["east"], "east")).toEqual([]);
  });

  it("is among all that there are", () => expect(choicesOf(["east", "west"], "west")).toEqual(["east", "west"]));

  it("leads away from one that there is not", () => expect(choicesOf(["east"], "north")).toEqual(["east", "north"]));
});
