/** The same fleet as a table: for those who do not see the map, and for those who look for one node. */

import { type Column, format, Table } from "../../ui";
import type { NodeView } from "../../wire";
import type { FleetCells } from "./cells";
import { DIM } from "./look";
import { nodeState } from "./words";

interface Row {
  node: NodeView;
  teams: string;
  utilisation: number;
  hottest: number;
}

interface TableViewProps {
  cells: FleetCells;
  sort: string;
  selected: string;
  onSort: (sort: string) => void;
  onOpen: (node: string) => void;
}

const VALUE: Record<string, (row: Row) => string | number> = {
  node: (row) => row.node.name,
  state: (row) => nodeState(row.node),
  held: (row) => (row.node.gpus ? row.node.gpu_milli_held / row.node.gpus : -1),
  jobs: (row) => row.node.jobs.length,
  utilisation: (row) => row.utilisation,
  temperature: (row) => row.hottest,
  model: (row) => row.node.gpu_model,
  teams: (row) => row.teams,
};

const COLUMNS: Column<Row>[] = [
  { key: "node", title: "Node", sortable: true, cell: (row) => row.node.name },
  { key: "state", title: "State", sortable: true, width: "100px", cell: (row) => nodeState(row.node) },
  {
    key: "held",
    title: "GPUs held",
    sortable: true,
    align: "right",
    width: "100px",
    cell: (row) => `${format.gpus(row.node.gpu_milli_held)} of ${row.node.gpus}`,
  },
  {
    key: "utilisation",
    title: "Used",
    sortable: true,
    align: "right",
    width: "80px",
    cell: (row) => (row.utilisation < 0 ? "–" : `${Math.round(row.utilisation)} %`),
  },
  {
    key: "temperature",
    title: "Hottest",
    sortable: true,
    align: "right",
    width: "90px",
    cell: (row) => (row.hottest < 0 ? "–" : `${Math.round(row.hottest)} °C`),
  },
  { key: "jobs", title: "Jobs", sortable: true, align: "right", width: "70px", cell: (row) => row.node.jobs.length },
  { key: "teams", title: "Teams", sortable: true, wideOnly: true, cell: (row) => row.teams },
  { key: "model", title: "Model", sortable: true, wideOnly: true, cell: (row) => row.node.gpu_model || "no GPUs" },
  {
    key: "where",
    title: "Where",
    wideOnly: true,
    cell: (row) => row.node.domains.map(([level, name]) => `${level} ${name}`).join(", "),
  },
];

const collator = new Intl.Collator("en", { numeric: true });

export function TableView({ cells, sort, selected, onSort, onOpen }: TableViewProps) {
  const descending = sort.startsWith("-");
  const key = descending ? sort.slice(1) : sort;
  const rows = sorted(rowsOf(cells), key, descending);
  return (
    <Table
      label="Nodes"
      columns={COLUMNS}
      rows={rows}
      rowKey={(row) => row.node.name}
      onOpen={(row) => onOpen(row.node.name)}
      selected={selected}
      sorting={{ key, descending }}
      onSort={(wanted) => onSort(wanted === key && !descending ? `-${wanted}` : wanted)}
      empty="No node matches the filter."
    />
  );
}

function sorted(rows: Row[], key: string, descending: boolean): Row[] {
  const value = VALUE[key];
  if (!value) {
    return rows;
  }
  const sign = descending ? -1 : 1;
  return rows.sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    const order =
      typeof one === "number" && typeof other === "number" ? one - other : collator.compare(String(one), String(other));
    return sign * order;
  });
}

/** Nodes of which the filter finds at least one cell. */
function rowsOf(cells: FleetCells): Row[] {
  const rows: Row[] = [];
  cells.nodes.forEach((node, at) => {
    const [first, last] = [cells.base[at] as number, cells.base[at + 1] as number];
    let isFound = false;
    const teams = new Set<string>();
    for (let cell = first; cell < last; cell++) {
      isFound ||= ((cells.look[cell] as number) & DIM) === 0;
      for (const { job } of cells.holders.all(cell)) {
        teams.add(cells.job(job)?.row.team ?? "");
      }
    }
    if (isFound) {
      const readings = (cells.readings[at] ?? []).filter((reading) => reading !== null);
      const used = readings.reduce((sum, reading) => sum + reading[0], 0);
      rows.push({
        node,
        teams: [...teams].sort().join(", "),
        utilisation: readings.length > 0 ? used / readings.length : -1,
        hottest: readings.reduce((most, reading) => Math.max(most, reading[1]), -1),
      });
    }
  });
  return rows;
}
