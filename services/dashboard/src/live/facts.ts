/** The newest facts, each once: the public form of a fact has no body where its team's form has one. */

import type { FactRow } from "../wire";

export const FACTS_KEPT = 5_000;

/** A ring of facts in the order of their coming. */
export class FactRing {
  #ring: FactRow[] = [];
  #first = 0;
  #byId = new Map<string, FactRow>();

  get size(): number {
    return this.#ring.length;
  }

  get(id: string): FactRow | undefined {
    return this.#byId.get(id);
  }

  /** Keep a fact. False if it was known; a body that was missing is then filled in. */
  add(fact: FactRow): boolean {
    const known = this.#byId.get(fact.id);
    if (known) {
      if (!known.body && fact.body) {
        known.body = fact.body;
      }
      return false;
    }
    this.#byId.set(fact.id, fact);
    if (this.#ring.length < FACTS_KEPT) {
      this.#ring.push(fact);
      return true;
    }
    const oldest = this.#ring[this.#first];
    if (oldest) {
      this.#byId.delete(oldest.id);
    }
    this.#ring[this.#first] = fact;
    this.#first = (this.#first + 1) % FACTS_KEPT;
    return true;
  }

  /** All of them, oldest first: a new array. */
  list(): FactRow[] {
    return [...this.#ring.slice(this.#first), ...this.#ring.slice(0, this.#first)];
  }

  clear(): void {
    this.#ring = [];
    this.#first = 0;
    this.#byId.clear();
  }
}
