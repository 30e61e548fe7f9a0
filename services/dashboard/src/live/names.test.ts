import { expect, it } from "vitest";
import { JobNames, NAMES_KEPT } from "./names";
import { fact } from "./samples";

const body = JSON.stringify({ job: { id: "A", spec: { name: "llama" } } });

it("learns a name from the facts that hold the job", () => {
  const names = new JobNames();
  names.learn(fact(1, { name: "placed", body }));
  expect(names.get("A")).toBe("");
  names.learn(fact(2, { name: "routed", body }));
  expect(names.get("A")).toBe("llama");
});

it.each(["", "{}", "no json", '{"job":{"spec":{"name":7}}}'])("is not disturbed by %s", (other) => {
  const names = new JobNames();
  names.learn(fact(1, { name: "submitted", body: other }));
  expect(names.get("A")).toBe("");
});

it("forgets the oldest beyond its bound", () => {
  const names = new JobNames();
  for (let number = 0; number <= NAMES_KEPT; number += 1) {
    names.keep(`J${number}`, "n");
  }
  expect([names.get("J0"), names.get("J1")]).toEqual(["", "n"]);
});
