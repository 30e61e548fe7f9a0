/**
 * Holds back what a new connection delivers until the old one has delivered everything from before.
 *
 * Two connections deliver in no common order: without this, the slice after the one that is still on its way over the
 * old connection would look as if one were lost.
 */

export const HELD_MAX = 2_000;

export class Gate {
  #held: (() => void)[] | null = [];

  /** Do it now, or when the gate opens. Beyond the bound the oldest is left out, which `Join` sees as a loss. */
  pass(work: () => void): void {
    if (this.#held === null) {
      work();
      return;
    }
    this.#held.push(work);
    if (this.#held.length > HELD_MAX) {
      this.#held.shift();
    }
  }

  open(): void {
    const held = this.#held ?? [];
    this.#held = null;
    for (const work of held) {
      work();
    }
  }
}
