import { Answered, type Column, format, Panel, Table, useCluster, useFetched, useQueryParams } from "../../ui";
import type { Energy, EnergyRow } from "../../wire";
import { ENERGY_BY, energyWords, hoursWords, SPANS, shareWords } from "./words";

const EVERY_MS = 30_000;
const ROWS = 100;
const DEFAULTS = { energy: "team", days: "30" };

/** What teams or queues used over the last days, and how much of it for nothing. */
export function EnergyPanel() {
  const { asked } = useCluster();
  const [{ energy, days }] = useQueryParams(DEFAULTS);
  const path = `/v1/usage/energy?${new URLSearchParams({ by: energy, days, limit: String(ROWS) })}`;
  const fetched = useFetched<Energy>(asked(path), { everyMs: EVERY_MS });
  return (
    <Panel title="Energy" note={fetched.value && noteOf(fetched.value)} flush actions={<Choices />}>
      <Answered of={fetched} what="Loading energy use">
        {(found) => (
          <Table
            label={`Energy by ${energy}`}
            columns={columnsOf(energy, found.energy_kwh)}
            rows={found.rows}
            rowKey={(row) => row.key}
            empty="No measurements in these days."
          />
        )}
      </Answered>
    </Panel>
  );
}

function noteOf({ energy_kwh, since, rows, total }: Energy): string {
  const shown = rows.length < total ? `, the greatest ${rows.length} of ${format.count(total)}` : "";
  return `${energyWords(energy_kwh)} since ${format.instant(since)}${shown}`;
}

function columnsOf(by: string, all: number): Column<EnergyRow>[] {
  return [
    { key: "key", title: by === "team" ? "Team" : "Queue", cell: ({ key }) => <Held by={by} name={key} /> },
    {
      key: "energy",
      title: "Energy",
      width: "110px",
      narrowWidth: "84px",
      align: "right",
      cell: (row) => energyWords(row.energy_kwh),
    },
    {
      key: "share",
      title: "Share",
      width: "80px",
      align: "right",
      wideOnly: true,
      cell: (row) => shareWords(row.energy_kwh, all),
    },
    {
      key: "hours",
      title: "GPU-hours",
      width: "110px",
      align: "right",
      wideOnly: true,
      cell: (row) => hoursWords(row.gpu_hours),
    },
    {
      key: "idle",
      title: "Idle GPU-h",
      width: "110px",
      narrowWidth: "96px",
      align: "right",
      cell: (row) => hoursWords(row.idle_gpu_hours),
    },
  ];
}

function Held({ by, name }: { by: string; name: string }) {
  return <a href={`/jobs?show=ended&${by}=${encodeURIComponent(name)}`}>{name || "none"}</a>;
}

/** By whom, and over how long; both in the address. */
function Choices() {
  const [{ energy, days }, setParams] = useQueryParams(DEFAULTS);
  return (
    <>
      <select
        aria-label="Energy of each"
        value={energy}
        onChange={(event) => setParams({ energy: event.currentTarget.value })}
      >
        {ENERGY_BY.map((one) => (
          <option key={one} value={one}>
            By {one}
          </option>
        ))}
      </select>
      <select
        aria-label="Energy over"
        value={days}
        onChange={(event) => setParams({ days: event.currentTarget.value })}
      >
        {Object.entries(SPANS).map(([span, words]) => (
          <option key={span} value={span}>
            {words}
          </option>
        ))}
      </select>
    </>
  );
}
