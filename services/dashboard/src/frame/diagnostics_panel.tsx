import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { diagnostics, type Summary } from "../diagnostics";
import { Dialog, format } from "../ui";

const EVERY_MS = 1_000;

/** What `musterDiagnostics()` says, for people. */
export function DiagnosticsPanel({ onClose }: { onClose: () => void }) {
  const report = useSignal(diagnostics.report());
  useEffect(() => {
    const timer = setInterval(() => {
      report.value = diagnostics.report();
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const { factToPaintedMs, frameWorkMs, applyMs, snapshotMs, messages, bytes, snapshots, gaps, reconnects } =
    report.value;
  const rows: [string, Summary][] = [
    ["Fact to display", factToPaintedMs],
    ["Work per frame", frameWorkMs],
    ["Apply a message", applyMs],
    ["Load a snapshot", snapshotMs],
  ];
  return (
    <Dialog title="Performance of this page" onClose={onClose} wide>
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Milliseconds</th>
            {["p50", "p95", "p99", "max", "count"].map((name) => (
              <th scope="col" class="right" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, summary]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {[summary.p50, summary.p95, summary.p99, summary.max].map((value, place) => (
                <td class="right" key={place}>
                  {value.toFixed(1)}
                </td>
              ))}
              <td class="right">{format.count(summary.count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="muted">
        {format.many(messages, "message")}, {format.bytes(bytes)}; {format.many(snapshots, "snapshot")},{" "}
        {format.many(gaps, "gap")}, {format.many(reconnects, "reconnect")}. A fact's time is the broker's: if this
        machine's clock differs, so does the first row.
      </p>
    </Dialog>
  );
}
