import { describe, expect, it } from "vitest";
import { isWithin, NAVIGATION, pageOf } from "./pages";

const ID = "ABCDEFGHIJKLMNOPQRSTUVWX27";

describe("the page of a path", () => {
  it.each(["/", ...NAVIGATION.map(({ path }) => path)])("%s has one", (path) => {
    expect(pageOf(path)?.id).toBe("");
  });

  it("of a job knows its id", () => {
    expect(pageOf(`/jobs/${ID}`)?.id).toBe(ID);
  });

  it.each([
    "/nowhere",
    "/jobs/%",
    "/jobs/%E0",
    "/jobs/..%2Fme",
    `/jobs/${ID}/x`,
    `/jobs/${ID.toLowerCase()}`,
    "/fleet/",
  ])("%s is none", (path) => expect(pageOf(path)).toBeNull());

  it("stands under one entry of the navigation", () => {
    expect(NAVIGATION.filter((nav) => isWithin(nav, `/jobs/${ID}`)).map((nav) => nav.title)).toEqual(["Jobs"]);
    expect(NAVIGATION.filter((nav) => isWithin(nav, "/")).map((nav) => nav.title)).toEqual(["Fleet"]);
  });
});
