/** A page's state in its address. */

import { query, setQuery } from "../route";

/**
 * Parameters of the address with their defaults. Reading them in a component makes it draw anew when they change;
 * setting one to its default takes it out of the address.
 */
export function useQueryParams<Defaults extends Record<string, string>>(
  defaults: Defaults,
): [values: Record<keyof Defaults, string>, set: (changes: Partial<Record<keyof Defaults, string>>) => void] {
  const now = query.value;
  const values = {} as Record<keyof Defaults, string>;
  for (const name of Object.keys(defaults) as (keyof Defaults & string)[]) {
    values[name] = now.get(name) ?? defaults[name] ?? "";
  }
  const set = (changes: Partial<Record<keyof Defaults, string>>): void => {
    const wanted: Record<string, string | null> = {};
    for (const [name, value] of Object.entries(changes) as [string, string | undefined][]) {
      wanted[name] = value === undefined || value === defaults[name] ? null : value;
    }
    setQuery(wanted);
  };
  return [values, set];
}
