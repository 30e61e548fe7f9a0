/** Views of the table under a name: those that everybody has, and those that this browser keeps. A view is an address. */

export interface View {
  readonly name: string;
  readonly about: string;
  /** What stands after `?`. */
  readonly search: string;
}

const KEY = "muster.views";
export const VIEWS_MAX = 50;
export const NAME_CHARS_MAX = 60;

/** user: who looks, "" while that is not known. */
export function commonViews(user: string): readonly View[] {
  const mine = user ? [{ name: "Mine", about: `Jobs of ${user}`, search: `user=${encodeURIComponent(user)}` }] : [];
  return [
    { name: "All live", about: "Newest first", search: "" },
    ...mine,
    {
      name: "Waiting longest",
      about: "Jobs that have waited longest",
      search: "phase=submitted%2Cqueued&sort=-submitted",
    },
    { name: "Why they wait", about: "Waiting jobs by reason", search: "phase=submitted%2Cqueued&group=reason" },
    { name: "Biggest", about: "Running jobs with the most GPUs", search: "phase=running&sort=-gpus" },
    { name: "By team", about: "Live jobs of each team", search: "group=team" },
    { name: "Preempted", about: "Jobs that were preempted at least once", search: "preempted=%3E%3D1&sort=-preempted" },
    { name: "Held", about: "Jobs that wait until they are released", search: "held=held" },
    { name: "Failed", about: "Newest first", search: "show=ended&phase=failed%2Ctimed-out" },
  ];
}

/** Views that were kept, oldest first. What cannot be read counts as none. */
export function keptViews(storage: Storage): readonly View[] {
  try {
    const kept: unknown = JSON.parse(storage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isView).slice(0, VIEWS_MAX) : [];
  } catch {
    return [];
  }
}

/** Keep a view; one of the same name is replaced. Returns all. */
export function keepView(storage: Storage, name: string, search: string): readonly View[] {
  const given = name.trim().slice(0, NAME_CHARS_MAX);
  const others = keptViews(storage).filter((view) => view.name !== given);
  const all = [...others, { name: given, about: "Saved in this browser", search }].slice(-VIEWS_MAX);
  storage.setItem(KEY, JSON.stringify(all));
  return all;
}

export function dropView(storage: Storage, name: string): readonly View[] {
  const left = keptViews(storage).filter((view) => view.name !== name);
  storage.setItem(KEY, JSON.stringify(left));
  return left;
}

function isView(value: unknown): value is View {
  const view = value as Partial<View> | null;
  return typeof view?.name === "string" && typeof view.search === "string" && typeof view.about === "string";
}
