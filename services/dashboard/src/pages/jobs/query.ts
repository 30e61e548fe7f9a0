/** What is asked of the table of jobs, as the URL carries it: `?phase=running&gpus=>%3D8&q=llama&group=team&sort=-time`. Pure. */

import type { JobView } from "../../wire";
import { COLUMNS, type Column, type ColumnName, columnOf } from "./columns";

export type Show = "live" | "ended";

/** filters: by column, what was written. open: groups that are unfolded. sort, descending: the order of rows. */
export interface JobQuery {
  readonly show: Show;
  readonly text: string;
  readonly filters: ReadonlyMap<ColumnName, string>;
  readonly group: ColumnName | "";
  readonly sort: ColumnName;
  readonly descending: boolean;
  readonly open: readonly string[];
}

export const EMPTY_QUERY: JobQuery = {
  show: "live",
  text: "",
  filters: new Map(),
  group: "",
  sort: "submitted",
  descending: false,
  open: [],
};
export const NONE = "none"; // how an empty value is written in a filter
const OPEN_MAX = 64;

/** Reads the URL's part after `?`. What it does not know it leaves out. */
export function parseQuery(params: URLSearchParams): JobQuery {
  const filters = new Map<ColumnName, string>();
  for (const column of COLUMNS) {
    const text = params.get(column.name)?.trim();
    if (text) filters.set(column.name, text);
  }
  const order = params.get("sort") ?? "";
  const sort = columnOf(order.replace(/^-/, ""));
  const group = columnOf(params.get("group") ?? "");
  return {
    show: params.get("show") === "ended" ? "ended" : "live",
    text: params.get("q") ?? "",
    filters,
    group: group?.grouped ? group.name : "",
    sort: sort?.name ?? EMPTY_QUERY.sort,
    descending: sort ? order.startsWith("-") : EMPTY_QUERY.descending,
    open: params.getAll("open").slice(0, OPEN_MAX),
  };
}

/** The same as text, without what is so anyway; `parseQuery` of it gives the same again. */
export function writeQuery(query: JobQuery): URLSearchParams {
  const params = new URLSearchParams();
  if (query.show !== EMPTY_QUERY.show) params.set("show", query.show);
  if (query.text) params.set("q", query.text);
  for (const column of COLUMNS) {
    const text = query.filters.get(column.name);
    if (text) params.set(column.name, text);
  }
  if (query.group) params.set("group", query.group);
  if (query.sort !== EMPTY_QUERY.sort || query.descending !== EMPTY_QUERY.descending) {
    params.set("sort", `${query.descending ? "-" : ""}${query.sort}`);
  }
  for (const one of query.open) params.append("open", one);
  return params;
}

/** The query with this column's filter; an empty text takes it away. */
export function withFilter(query: JobQuery, name: ColumnName, text: string): JobQuery {
  const filters = new Map(query.filters);
  if (text.trim()) filters.set(name, text.trim());
  else filters.delete(name);
  return { ...query, filters };
}

/** The query with one value of a filter put in, or taken out if it is there. */
export function withValueToggled(query: JobQuery, name: ColumnName, value: string): JobQuery {
  const written = value || NONE;
  const values = valuesOf(query, name);
  const left = values.filter((one) => one !== written);
  return withFilter(query, name, (left.length === values.length ? [...values, written] : left).join(","));
}

/** What a filter names, one by one. */
export function valuesOf(query: JobQuery, name: ColumnName): readonly string[] {
  return (query.filters.get(name) ?? "")
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
}

/** Whether the answer changes by the mere passing of time. */
export function dependsOnTime(query: JobQuery): boolean {
  return [...query.filters.keys()].some((name) => columnOf(name)?.sort === "age");
}

export type Fits = (job: JobView, nowNs: number) => boolean;

/** One test for all filters but those of columns left out. */
export function fitting(query: JobQuery, leftOut: ReadonlySet<ColumnName> = new Set()): Fits {
  const tests: Fits[] = [];
  for (const [name, text] of query.filters) {
    const column = columnOf(name);
    if (column && !leftOut.has(name)) tests.push(columnTest(column, text));
  }
  const words = query.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length) tests.push((job) => includesAll(job, words));
  return (job, nowNs) => tests.every((test) => test(job, nowNs));
}

/** Why a filter cannot be read, in words; "" if it can. */
export function complaint(column: Column, text: string): string {
  if (column.sort === "word" || column.sort === "words" || !text.trim()) return "";
  for (const term of text.split(",")) {
    if (bound(column, term.trim()) !== undefined) continue;
    return column.sort === "age"
      ? `“${term.trim()}” is no length of time: write for example >30m, <2h or >1d12h`
      : `“${term.trim()}” is no number: write for example 8, >=8 or <64`;
  }
  return "";
}

function columnTest(column: Column, text: string): Fits {
  const terms = text
    .split(",")
    .map((term) => term.trim())
    .filter(Boolean);
  if (column.sort === "number" || column.sort === "age") {
    const bounds = terms.map((term) => bound(column, term)).filter((one) => one !== undefined);
    return (job, nowNs) => !bounds.length || bounds.every((one) => one(Number(column.value(job, nowNs))));
  }
  const wanted = terms.filter((term) => !term.startsWith("!")).map(wordTest);
  const refused = terms.filter((term) => term.startsWith("!")).map((term) => wordTest(term.slice(1)));
  return (job, nowNs) => {
    const value = column.value(job, nowNs);
    const words: readonly string[] = typeof value === "object" ? (value.length ? value : [""]) : [String(value)];
    const isWanted = !wanted.length || words.some((one) => wanted.some((test) => test(one)));
    return isWanted && !words.some((one) => refused.some((test) => test(one)));
  };
}

/** `name` alone means exactly that, `gpu-00*` what begins so, `none` what is empty. Case does not count. */
function wordTest(term: string): (word: string) => boolean {
  const low = term.toLowerCase();
  if (low === NONE) return (one) => one === "" || one.toLowerCase() === NONE;
  if (!low.includes("*")) return (one) => one.toLowerCase() === low;
  const pattern = new RegExp(`^${low.split("*").map(escaped).join(".*")}$`);
  return (one) => pattern.test(one.toLowerCase());
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

const UNITS_S: Readonly<Record<string, number>> = { w: 604_800, d: 86_400, h: 3_600, m: 60, min: 60, s: 1 };

/** `>=8`, `<2h`, `4` as a test; undefined if it cannot be read. */
function bound(column: Column, term: string): ((value: number) => boolean) | undefined {
  const match = /^(>=|<=|>|<|=)?\s*(.+)$/.exec(term);
  const most = match?.[2] === undefined ? undefined : amount(column, match[2].trim());
  if (!match || most === undefined) return undefined;
  switch (match[1]) {
    case ">":
      return (value) => value > most;
    case ">=":
      return (value) => value >= most;
    case "<":
      return (value) => value < most;
    case "<=":
      return (value) => value <= most;
    default:
      return column.sort === "age" ? (value) => value >= most : (value) => value === most;
  }
}

function amount(column: Column, text: string): number | undefined {
  if (column.sort === "number") return /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;
  let seconds = 0;
  const rest = text.replace(/(\d+(?:\.\d+)?)\s*(min|w|d|h|m|s)\s*/g, (_all, number: string, unit: string) => {
    seconds += Number(number) * (UNITS_S[unit] ?? 0);
    return "";
  });
  return rest.trim() || !text.trim() ? undefined : seconds;
}

function includesAll(job: JobView, words: readonly string[]): boolean {
  const place = job.nodes.length ? job.nodes.join(" ") : job.reason;
  const text = `${job.name} ${job.id} ${job.team} ${job.queue} ${job.principal} ${place}`.toLowerCase();
  return words.every((one) => text.includes(one));
}
