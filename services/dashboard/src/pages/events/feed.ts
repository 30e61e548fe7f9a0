/** The list that the page shows: follows the store while it is not held, and remembers how much came meanwhile. */

import { signal } from "@preact/signals";
import { FACTS_KEPT } from "../../live/facts";
import { type Changes, store } from "../../live/store";
import type { FactRow } from "../../wire";
import { newestFirst } from "./filter";

export class EventFeed {
  readonly shown = signal<FactRow[]>([]);
  /** Matching facts that came while the list was held. */
  readonly waiting = signal(0);
  #past: FactRow[] = [];
  #pastIds: ReadonlySet<string> = new Set();
  #matches: (fact: FactRow) => boolean = () => true;
  #held = false;

  /** Facts from before this page was live, oldest first. */
  setPast(facts: FactRow[]): void {
    this.#past = facts;
    this.#pastIds = new Set(facts.map((fact) => fact.id));
    store.learn(facts);
    this.#rebuild();
  }

  setMatcher(matches: (fact: FactRow) => boolean): void {
    this.#matches = matches;
    this.#rebuild();
  }

  /** A fact that is known here, of now or of before. */
  find(id: string): FactRow | undefined {
    return store.facts.get(id) ?? this.#past.find((fact) => fact.id === id);
  }

  hold(held: boolean): void {
    if (this.#held && !held) {
      this.#held = false;
      this.#rebuild();
    }
    this.#held = held;
  }

  came(changes: Changes): void {
    if (changes.reset) {
      if (!this.#held) {
        this.#rebuild();
      }
      return;
    }
    const fitting = changes.facts.filter((fact) => !this.#pastIds.has(fact.id) && this.#matches(fact));
    if (fitting.length === 0) {
      return;
    }
    if (this.#held) {
      this.waiting.value += fitting.length;
    } else {
      this.shown.value = [...fitting.reverse(), ...this.shown.peek()].slice(0, FACTS_KEPT);
    }
  }

  #rebuild(): void {
    this.shown.value = newestFirst(this.#past, store.facts.list()).filter(this.#matches);
    this.waiting.value = 0;
  }
}
