/** What GPUs did, as people read it. */

import type { DeviceUse, Idle, IdleTeam, TopRow } from "../../wire_usage";

export const BY = ["job", "team", "queue", "user", "model"] as const;
export const ORDERS: Readonly<Record<string, string>> = {
  gpus: "Most GPUs",
  idle: "Most idle",
  power: "Most power",
  busy: "Least busy",
  sm: "Least SM active",
};

/** "92 %"; "not shown" where the exporter does not tell it. */
export function pctWords(pct: number | null): string {
  return pct === null ? "not shown" : `${Math.round(pct)} %`;
}

/** "850 W", "12.4 kW", "1.2 MW". */
export function powerWords(watts: number): string {
  const steps: [number, string][] = [
    [1e6, "MW"],
    [1e3, "kW"],
  ];
  const [by, unit] = steps.find(([size]) => watts >= size) ?? [1, "W"];
  return `${(watts / by).toFixed(by > 1 ? 1 : 0)} ${unit}`;
}

/** "4.2" of GPU-seconds. */
export function gpuHours(gpuSeconds: number): string {
  const hours = gpuSeconds / 3_600;
  return hours.toLocaleString("en", { maximumFractionDigits: hours < 100 ? 1 : 0 });
}

export interface TeamRow {
  team: string;
  use: TopRow | null;
  idle: IdleTeam | null;
}

/** Teams with what they use and what they leave idle, those with most idle GPUs first. */
export function teamRows(rows: readonly TopRow[], idle: Idle | undefined): TeamRow[] {
  const found = new Map<string, TeamRow>(rows.map((use) => [use.key, { team: use.key, use, idle: null }]));
  for (const one of idle?.teams ?? []) {
    found.set(one.team, { team: one.team, use: found.get(one.team)?.use ?? null, idle: one });
  }
  const idleOf = (row: TeamRow): number => row.idle?.idle ?? 0;
  const gpusOf = (row: TeamRow): number => row.use?.gpus ?? row.idle?.held ?? 0;
  return [...found.values()].sort(
    (a, b) => idleOf(b) - idleOf(a) || gpusOf(b) - gpusOf(a) || a.team.localeCompare(b.team),
  );
}

/** Per cent of a device's measured time, as the exporter's utilisation and as its SM activity say. */
export function deviceShares({ use }: DeviceUse): { busyPct: number; smPct: number | null } {
  const share = (part: number, whole: number): number => (100 * part) / whole;
  return {
    busyPct: use.measured_s > 0 ? share(use.busy_s, use.measured_s) : 0,
    smPct: use.sm_measured_s > 0 ? share(use.sm_active_s, use.sm_measured_s) : null,
  };
}
