import { Bar } from "../../ui";
import { pctWords } from "./words";

interface ActivityProps {
  /** Whose: "job train". */
  of: string;
  busyPct: number;
  smPct: number | null;
}

/** Busy against truly active: full is the share in which SMs worked, hatched that in which something merely ran. */
export function Activity({ of, busyPct, smPct }: ActivityProps) {
  const active = Math.min(smPct ?? 0, busyPct);
  return (
    <Bar
      label={`Activity of ${of}`}
      max={100}
      parts={[
        { value: active, label: `SM active ${pctWords(smPct)}`, tone: "used" },
        { value: busyPct - active, label: `busy ${pctWords(busyPct)}`, tone: "borrowed" },
      ]}
    />
  );
}
