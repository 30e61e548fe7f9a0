import { describe, expect, it } from "vitest";
import { noChanges } from "../../live/changes";
import { fact } from "../../live/samples";
import type { FactRow } from "../../wire";
import { EventFeed } from "./feed";

const came = (...facts: FactRow[]) => ({ ...noChanges(), facts });
const shown = (feed: EventFeed): number[] => feed.shown.value.map((one) => one.seq);

describe("the list of events", () => {
  it("shows what comes first, and what was asked for after it, each once", () => {
    const feed = new EventFeed();
    feed.setPast([fact(1), fact(2)]);
    feed.came(came(fact(2), fact(3), fact(4)));
    expect(shown(feed)).toEqual([4, 3, 2, 1]);
  });

  it("stands still while it is held and counts what fits", () => {
    const feed = new EventFeed();
    feed.setPast([fact(1)]);
    feed.setMatcher((one) => one.name !== "placed");
    feed.hold(true);
    feed.came(came(fact(2), fact(3, { name: "placed" })));
    expect([shown(feed), feed.waiting.value]).toEqual([[1], 1]);
    feed.hold(false);
    expect(feed.waiting.value).toBe(0);
  });
});
