import { describe, expect, it } from "vitest";
import type { CampaignSpec, CampaignView, TurnView } from "../../wire";
import { actionsFor, orderedTurns, progressOf, stepCounts, whatWords } from "./words";

function campaign(state: string, steps: Record<string, number> = {}): CampaignView {
  return { name: "driver-580", state, steps } as CampaignView;
}

function turn(node: string, step: string, turn_at = 0): TurnView {
  return { node, step, turn_at, since: 0, waits_for: "", detail: "", attempt: 1, cordoned_by: "" };
}

const grace = { principal: "grace", role: "operator", teams: [], expires_at_s: null } as const;

describe("the progress of a campaign", () => {
  const one = campaign("going", { planned: 5, "waiting-for-jobs": 2, upgrading: 1, done: 8, failed: 1, drained: 0 });

  it("counts nodes that are done, under way and failed", () =>
    expect(progressOf(one)).toEqual({ all: 17, done: 8, failed: 1, underWay: 3 }));

  it("has what needs eyes first, and no step that nobody is at", () =>
    expect(stepCounts(one).map(([step]) => step)).toEqual([
      "failed",
      "upgrading",
      "waiting-for-jobs",
      "planned",
      "done",
    ]));
});

describe("the nodes of a campaign", () => {
  it("come as their turns do, those without one last, those that are done after them", () => {
    const turns = [turn("a", "done"), turn("b", "planned"), turn("c", "planned", 9), turn("d", "planned", 5)];
    expect(orderedTurns([...turns, turn("e", "failed")]).map((one) => one.node)).toEqual(["e", "d", "c", "b", "a"]);
  });
});

describe("what may be asked of a campaign", () => {
  const titles = (state: string) =>
    actionsFor(campaign(state), { ...grace, teams: [] }).map(({ title, why }) => (why ? `no ${title}` : title));

  it.each<[string, string[]]>([
    ["going", ["Pause", "Abort"]],
    ["paused", ["Resume", "Abort"]],
    ["stopped", ["Resume", "Abort"]],
    ["aborting", ["no Pause", "no Abort"]],
    ["ended", ["no Pause", "no Abort"]],
  ])("while it is %s", (state, offered) => expect(titles(state)).toEqual(offered));

  it("is for operators", () => {
    const [pause] = actionsFor(campaign("going"), {
      principal: "ada",
      role: "submitter",
      teams: [],
      expires_at_s: null,
    });
    expect(pause?.why).toContain("ada is a submitter");
  });
});

describe("what a campaign does", () => {
  it.each([
    [{ component: "driver", version: "580.105", command: [] }, "driver 580.105"],
    [{ component: "command", version: "", command: ["./fix.sh", "-y"] }, "command ./fix.sh -y"],
  ])("%o", (spec, words) => expect(whatWords(spec as unknown as CampaignSpec)).toBe(words));
});
