import { describe, expect, it } from "vitest";
import { Extras } from "./extra";
import type { NatsConnection } from "./nats";

class FakeConnection {
  subscribed: string[] = [];
  ended: string[] = [];
  #callbacks = new Map<string, (error: Error | null, message: { data: Uint8Array }) => void>();

  subscribe(subject: string, options: { callback: (error: Error | null, message: { data: Uint8Array }) => void }) {
    this.subscribed.push(subject);
    this.#callbacks.set(subject, options.callback);
    return { unsubscribe: () => this.ended.push(subject) };
  }

  say(subject: string, error: Error | null = null): void {
    this.#callbacks.get(subject)?.(error, { data: new Uint8Array([1]) });
  }
}

function harness() {
  const extras = new Extras((_, work) => work());
  const connection = new FakeConnection();
  return { extras, connection, use: (one: FakeConnection) => extras.use(one as unknown as NatsConnection) };
}

describe("listening beside the slices", () => {
  it("subscribes once for all who listen, and ends when the last one leaves", () => {
    const { extras, connection, use } = harness();
    use(connection);
    let heard = 0;
    const leave = [1, 2].map(() =>
      extras.listen("a", () => {
        heard += 1;
      }),
    );
    connection.say("a");
    expect([heard, connection.subscribed]).toEqual([2, ["a"]]);
    leave[0]?.();
    expect(connection.ended).toEqual([]);
    leave[1]?.();
    expect(connection.ended).toEqual(["a"]);
  });

  it("goes on over the next connection, and begins with the first if there was none", () => {
    const { extras, connection, use } = harness();
    const leave = extras.listen("a", () => undefined);
    use(connection);
    const next = new FakeConnection();
    use(next);
    expect([connection.subscribed, next.subscribed]).toEqual([["a"], ["a"]]);
    leave();
    expect(next.ended).toEqual(["a"]);
  });

  it("can be begun anew after its end without hearing twice", () => {
    const { extras, connection, use } = harness();
    use(connection);
    let heard = 0;
    extras.listen("a", () => undefined)();
    extras.listen("a", () => {
      heard += 1;
    });
    connection.say("a");
    expect(heard).toBe(1);
  });

  it("hears nothing of a subject that is refused", () => {
    const { extras, connection, use } = harness();
    use(connection);
    extras.listen("a", () => {
      throw new Error("nothing was to come");
    });
    connection.say("a", new Error("permissions violation"));
  });
});
