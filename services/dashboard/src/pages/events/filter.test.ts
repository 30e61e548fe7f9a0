import { describe, expect, it } from "vitest";
import { fact } from "../../live/samples";
import { matcher, newestFirst, pretty, toneOf } from "./filter";

const nameOf = (id: string): string => (id === "A" ? "Train-Llama" : "");
const filter = { text: "", kind: "", writer: "" };

describe("a filter", () => {
  it("without anything lets all through", () => {
    expect(matcher(filter, nameOf)(fact(1))).toBe(true);
  });

  it("asks for all of its words, in any column and in the job's name", () => {
    const matches = matcher({ ...filter, text: "LLAMA  queued" }, nameOf);
    expect(matches(fact(1))).toBe(true);
    expect(matches(fact(1, { name: "placed" }))).toBe(false);
    expect(matches(fact(1, { kind: "node" }))).toBe(false);
  });

  it("takes kind and writer as they are", () => {
    expect(matcher({ ...filter, kind: "nod" }, nameOf)(fact(1, { kind: "node" }))).toBe(false);
    expect(matcher({ ...filter, writer: "agent" }, nameOf)(fact(1, { writer: "agent" }))).toBe(true);
  });
});

describe("the list", () => {
  it("has each fact once, the newest first, and those of one moment in the log's order", () => {
    const past = [fact(1), fact(2)];
    const live = [fact(2), fact(4, { time: 5e6 }), fact(5)];
    expect(newestFirst(past, live).map((one) => one.seq)).toEqual([5, 4, 2, 1]);
  });
});

describe("what is shown of a fact", () => {
  it.each([
    ["failed", "bad"],
    ["change-refused", "bad"],
    ["preempted", "warn"],
    ["running", "ok"],
    ["queued", "neutral"],
  ])("%s is %s", (name, tone) => expect(toneOf(name)).toBe(tone));

  it("is its body in lines, or as it is", () => {
    expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
    expect(pretty('{"devices":[4,5],"on":[{"n":1}]}')).toContain('"devices": [4, 5],');
    expect(pretty("no json")).toBe("no json");
  });
});
