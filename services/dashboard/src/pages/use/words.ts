/** What GPUs did, as people read it. */

import type { DeviceUse, Idle, IdleTeam, TopRow } from "../../wire";

export const BY = ["job", "team", "queue", "user", "model"] as const;
export const ORDERS: Readonly<Record<string, string>> = {
  gpus: "Most GPUs",
  idle: "Most idle",
  power: "Most power",
  busy: "Least busy",
  sm: "Lowest SM activity",
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
export const gpuHours = (gpuSeconds: number): string => hoursWords(gpuSeconds / 3_600);

/** "4.2", "1,204". */
export function hoursWords(hours: number): string {
  return hours.toLocaleString("en", { maximumFractionDigits: hours < 100 ? 1 : 0 });
}

export const ENERGY_BY = ["team", "queue"] as const;
/** By days, today included. */
export const SPANS: Readonly<Record<string, string>> = { "1": "Today (UTC)", "7": "7 days", "30": "30 days" };

/** "0.42 kWh", "12.4 kWh", "1.2 MWh". */
export function energyWords(kwh: number): string {
  if (kwh >= 1_000) {
    return `${(kwh / 1_000).toFixed(1)} MWh`;
  }
  return `${kwh.toLocaleString("en", { maximumFractionDigits: kwh < 10 ? 2 : 1 })} kWh`;
}

/** "12 %" of all; "–" of nothing. */
export function shareWords(part: number, all: number): string {
  return all > 0 ? `${Math.round((100 * part) / all)} %` : "–";
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
