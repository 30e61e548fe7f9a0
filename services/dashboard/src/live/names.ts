/** Names of jobs that were seen: facts name jobs by id only, also long after their rows are gone. */

import type { FactRow } from "../wire";

export const NAMES_KEPT = 20_000;

export class JobNames {
  #names = new Map<string, string>();

  get(id: string): string {
    return this.#names.get(id) ?? "";
  }

  keep(id: string, name: string): void {
    if (this.#names.has(id)) {
      return;
    }
    this.#names.set(id, name);
    if (this.#names.size > NAMES_KEPT) {
      const [oldest] = this.#names.keys();
      this.#names.delete(oldest ?? "");
    }
  }

  /** From the two facts that hold the whole job, if their bodies are there. */
  learn(fact: FactRow): void {
    if (fact.kind !== "job" || fact.body === "" || (fact.name !== "submitted" && fact.name !== "routed")) {
      return;
    }
    try {
      const { job } = JSON.parse(fact.body) as { job?: { spec?: { name?: unknown } } };
      if (typeof job?.spec?.name === "string") {
        this.keep(fact.subject_id, job.spec.name);
      }
    } catch {
      // a body of another form names nobody; the id is shown
    }
  }
}
