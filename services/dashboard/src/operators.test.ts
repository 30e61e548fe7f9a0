import { describe, expect, it } from "vitest";
import { whyNotOperator } from "./operators";
import type { Role } from "./wire";

const me = (role: Role) => ({ principal: "ada", role, teams: [], expires_at_s: null });

describe("what only operators may do", () => {
  it.each<Role>(["operator", "admin"])("%s may", (role) => expect(whyNotOperator(me(role), "reset it")).toBe(""));

  it.each<Role>(["viewer", "submitter"])("%s may not, and is told so", (role) =>
    expect(whyNotOperator(me(role), "reset it")).toBe(`Only operators and admins may reset it; ada is a ${role}.`),
  );

  it("nobody may before it is known who asks", () => expect(whyNotOperator(null, "reset it")).not.toBe(""));
});
