import { expect, it } from "vitest";
import { Gate, HELD_MAX } from "./gate";

it("keeps the order of what came before it opened and after", () => {
  const gate = new Gate();
  const done: number[] = [];
  gate.pass(() => done.push(1));
  gate.pass(() => done.push(2));
  expect(done).toEqual([]);
  gate.open();
  gate.pass(() => done.push(3));
  expect(done).toEqual([1, 2, 3]);
});

it("holds the newest up to its bound", () => {
  const gate = new Gate();
  let done = 0;
  for (let number = 0; number < HELD_MAX + 9; number += 1) {
    gate.pass(() => {
      done += 1;
    });
  }
  gate.open();
  expect(done).toBe(HELD_MAX);
});
